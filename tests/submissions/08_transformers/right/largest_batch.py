# %% a loop over both moments
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    def fits(b):
        kept = 2 * s * b * h
        if strategy != "full":
            kept += 32 * s * b * h
        if strategy == "none":
            kept += 5 * a * s * s * b
        head = 2 * n + 12 * n + layers * kept + 2 * (2 * s * b * h) + 3 * (2 * s * b * v)
        return max(head, 22 * n) <= nbytes

    if not fits(1):
        return 0
    step = 1
    while fits(2 * step):
        step *= 2
    best = step
    while step:
        if fits(best + step):
            best += step
        step //= 2
    return best
