# %% in one loop, from the end
def predict(rows, widths, kept, ends, itemsize):
    widths, nbytes, flops = list(widths), 0, 0
    if ends == "linear":
        widths.pop()
    while len(widths) > 1:
        out = widths.pop()
        if len(widths) - 1 in kept:
            nbytes += rows * out * itemsize
        else:
            flops += 2 * rows * out * widths[-1]
    return nbytes, flops


# %% layer by layer, as a list of prices
def predict(rows, widths, kept, ends, itemsize):
    prices = [(rows * k * itemsize, 2 * rows * d * k) for d, k in zip(widths[:-1], widths[1:])]
    if ends != "gelu":
        prices[-1] = (0, 0)
    nbytes, flops = 0, 0
    for number, (size, work) in enumerate(prices):
        nbytes, flops = (nbytes + size, flops) if number in kept else (nbytes, flops + work)
    return nbytes, flops


# %% with tensors of sizes, and a tensor comes back
def predict(rows, widths, kept, ends, itemsize):
    sizes = torch.tensor(widths)
    work, held = 2 * rows * sizes[:-1] * sizes[1:], rows * itemsize * sizes[1:]
    kept_ones = torch.zeros(len(work), dtype=torch.bool)
    kept_ones[kept] = True
    again = torch.ones_like(kept_ones)
    again[-1] = ends == "gelu"
    return torch.stack([(held * kept_ones * again).sum(), (work * ~kept_ones * again).sum()])
