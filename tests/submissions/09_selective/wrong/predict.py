# %% The last product does not run again
def predict(rows, widths, kept, ends, itemsize):
    nbytes = flops = 0
    for i, (d, k) in enumerate(zip(widths, widths[1:])):
        if i not in kept:
            flops += 2 * rows * d * k
        elif ends == "gelu" or i < len(widths) - 2:
            nbytes += rows * k * itemsize
    return nbytes, flops


# %% It is alive anyway
def predict(rows, widths, kept, ends, itemsize):
    n = len(widths) - 1
    nbytes = sum(rows * widths[i + 1] * itemsize for i in kept)
    runs = range(n if ends == "gelu" else n - 1)
    return nbytes, sum(2 * rows * widths[i] * widths[i + 1] for i in runs if i not in kept)


# %% after it nobody saves anything
def predict(rows, widths, kept, ends, itemsize):
    n = len(widths) - 1
    nbytes = sum(rows * widths[i + 1] * itemsize for i in kept)
    return nbytes, sum(2 * rows * widths[i] * widths[i + 1] for i in range(n) if i not in kept)


# %% here the last product runs again, unless it is kept
def predict(rows, widths, kept, ends, itemsize):
    last = len(widths) - 2
    nbytes = sum(rows * widths[i + 1] * itemsize for i in kept if i < last or ends == "gelu")
    return nbytes, sum(2 * rows * widths[i] * widths[i + 1] for i in range(last) if i not in kept)


# %% Recomputed are the others
def predict(rows, widths, kept, ends, itemsize):
    n = len(widths) - (1 if ends == "gelu" else 2)
    kept = [i for i in kept if i < n]
    return sum(rows * widths[i + 1] * itemsize for i in kept), sum(2 * rows * widths[i] * widths[i + 1] for i in kept)


# %% Products in front of a kept result run again, too
def predict(rows, widths, kept, ends, itemsize):
    n = len(widths) - (1 if ends == "gelu" else 2)
    kept = [i for i in kept if i < n]
    after = range(max(kept) + 1, n)
    return sum(rows * widths[i + 1] * itemsize for i in kept), sum(2 * rows * widths[i] * widths[i + 1] for i in after)


# %% bytes of the layers' inputs
def predict(rows, widths, kept, ends, itemsize):
    layers = range(len(widths) - (1 if ends == "gelu" else 2))
    nbytes = sum(rows * widths[i] * itemsize for i in layers if i in kept)
    return nbytes, sum(2 * rows * widths[i] * widths[i + 1] for i in layers if i not in kept)


# %% numbers of four bytes
def predict(rows, widths, kept, ends, itemsize):
    layers = range(len(widths) - (1 if ends == "gelu" else 2))
    nbytes = sum(4 * rows * widths[i + 1] for i in layers if i in kept)
    return nbytes, sum(2 * rows * widths[i] * widths[i + 1] for i in layers if i not in kept)


# %% Were GELUs' outputs counted as kept
def predict(rows, widths, kept, ends, itemsize):
    layers = range(len(widths) - (1 if ends == "gelu" else 2))
    nbytes = sum(2 * rows * widths[i + 1] * itemsize for i in layers if i in kept)
    return nbytes, sum(2 * rows * widths[i] * widths[i + 1] for i in layers if i not in kept)


# %% GELUs' outputs were counted as kept
def predict(rows, widths, kept, ends, itemsize):
    layers = range(len(widths) - (1 if ends == "gelu" else 2))
    nbytes = sum(rows * widths[i + 1] * itemsize for i in layers if i in kept)
    nbytes += sum(rows * width * itemsize for width in widths[1:-1])
    return nbytes, sum(2 * rows * widths[i] * widths[i + 1] for i in layers if i not in kept)
