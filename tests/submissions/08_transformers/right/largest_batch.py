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


# %% by bisection: does a batch fit?
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    kept = {"none": 34 * h + 5 * a * s, "selective": 34 * h, "full": 2 * h}

    def fits(batch):
        head = (2 + 4 + 4 + 4) * n + batch * s * (layers * kept[strategy] + 4 * h + 6 * v)
        return max(head, 22 * n) <= nbytes

    low, high = 0, 1
    while fits(high):
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return torch.tensor(low)
