# %% The last product does not run again
def predict(rows, widths, kept, ends, itemsize):
    nbytes = flops = 0
    for i, (d, k) in enumerate(zip(widths, widths[1:])):
        if i not in kept:
            flops += 2 * rows * d * k
        elif ends == "gelu" or i < len(widths) - 2:
            nbytes += rows * k * itemsize
    return nbytes, flops


# %% It is in memory anyway
def predict(rows, widths, kept, ends, itemsize):
    n = len(widths) - 1
    nbytes = sum(rows * widths[i + 1] * itemsize for i in kept)
    runs = range(n if ends == "gelu" else n - 1)
    return nbytes, sum(2 * rows * widths[i] * widths[i + 1] for i in runs if i not in kept)


# %% Nothing after it saves anything
def predict(rows, widths, kept, ends, itemsize):
    n = len(widths) - 1
    nbytes = sum(rows * widths[i + 1] * itemsize for i in kept)
    return nbytes, sum(2 * rows * widths[i] * widths[i + 1] for i in range(n) if i not in kept)


# %% So the last product runs again, unless its result is kept
def predict(rows, widths, kept, ends, itemsize):
    last = len(widths) - 2
    nbytes = sum(rows * widths[i + 1] * itemsize for i in kept if i < last or ends == "gelu")
    return nbytes, sum(2 * rows * widths[i] * widths[i + 1] for i in range(last) if i not in kept)


# %% The others are recomputed
def predict(rows, widths, kept, ends, itemsize):
    n = len(widths) - (1 if ends == "gelu" else 2)
    kept = [i for i in kept if i < n]
    return sum(rows * widths[i + 1] * itemsize for i in kept), sum(2 * rows * widths[i] * widths[i + 1] for i in kept)


# %% Products before a kept result run again
def predict(rows, widths, kept, ends, itemsize):
    n = len(widths) - (1 if ends == "gelu" else 2)
    kept = [i for i in kept if i < n]
    after = range(max(kept, default=-1) + 1, n)
    return sum(rows * widths[i + 1] * itemsize for i in kept), sum(2 * rows * widths[i] * widths[i + 1] for i in after)


# %% bytes of the layers' inputs
def predict(rows, widths, kept, ends, itemsize):
    layers = range(len(widths) - (1 if ends == "gelu" else 2))
    nbytes = sum(rows * widths[i] * itemsize for i in layers if i in kept)
    return nbytes, sum(2 * rows * widths[i] * widths[i + 1] for i in layers if i not in kept)


# %% numbers of four bytes
# breaks: `itemsize` is how many bytes one number has.
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


# %% Those are elements
def predict(rows, widths, kept, ends, itemsize):
    layers = range(len(widths) - (1 if ends == "gelu" else 2))
    flops = sum(2 * rows * widths[i] * widths[i + 1] for i in layers if i not in kept)
    return sum(rows * widths[i + 1] for i in layers if i in kept), flops


# %% FLOPs and bytes have changed places
def predict(rows, widths, kept, ends, itemsize):
    layers = range(len(widths) - (1 if ends == "gelu" else 2))
    flops = sum(2 * rows * widths[i] * widths[i + 1] for i in layers if i not in kept)
    return flops, sum(rows * widths[i + 1] * itemsize for i in layers if i in kept)


# %% Biases count 0
# breaks: Biases and GELUs count 0
def predict(rows, widths, kept, ends, itemsize):
    layers = range(len(widths) - (1 if ends == "gelu" else 2))
    flops = sum(rows * (2 * widths[i] + 1) * widths[i + 1] for i in layers if i not in kept)
    return sum(rows * widths[i + 1] * itemsize for i in layers if i in kept), flops


# %% Was backward counted
def predict(rows, widths, kept, ends, itemsize):
    layers = range(len(widths) - (1 if ends == "gelu" else 2))
    flops = sum(6 * rows * widths[i] * widths[i + 1] for i in layers if i not in kept)
    return sum(rows * widths[i + 1] * itemsize for i in layers if i in kept), flops


# %% The first layer has the number 0, not 1
# breaks: lists the layers whose results the policy keeps
def predict(rows, widths, kept, ends, itemsize):
    nbytes = flops = 0
    for i in range(1, len(widths) - (0 if ends == "gelu" else 1)):
        if i in kept:
            nbytes += rows * widths[i] * itemsize
        else:
            flops += 2 * rows * widths[i - 1] * widths[i]
    return nbytes, flops


# %% The segment's input was counted
# breaks: its output and its weights do not count
def predict(rows, widths, kept, ends, itemsize):
    layers = range(len(widths) - (1 if ends == "gelu" else 2))
    flops = sum(2 * rows * widths[i] * widths[i + 1] for i in layers if i not in kept)
    return rows * itemsize * (widths[0] + sum(widths[i + 1] for i in layers if i in kept)), flops


# %% ends in GELU: The segment's output was counted
def predict(rows, widths, kept, ends, itemsize):
    layers = range(len(widths) - (1 if ends == "gelu" else 2))
    flops = sum(2 * rows * widths[i] * widths[i + 1] for i in layers if i not in kept)
    nbytes = rows * itemsize * sum(widths[i + 1] for i in layers if i in kept)
    return nbytes + (rows * itemsize * widths[-1] if ends == "gelu" else 0), flops


# %% Kept and recomputed have changed places
def predict(rows, widths, kept, ends, itemsize):
    layers = range(len(widths) - (1 if ends == "gelu" else 2))
    flops = sum(2 * rows * widths[i] * widths[i + 1] for i in layers if i in kept)
    return sum(rows * widths[i + 1] * itemsize for i in layers if i not in kept), flops


# %% so they cannot be subtracted
def predict(rows, widths, kept, ends, itemsize):
    layers = range(len(widths) - 1)
    flops = sum(2 * rows * widths[i] * widths[i + 1] for i in layers if i not in kept)
    if ends == "linear":
        flops -= 2 * rows * widths[-2] * widths[-1]
    return sum(rows * widths[i + 1] * itemsize for i in kept), flops


# %% returned None. Is a `return` missing?
def predict(rows, widths, kept, ends, itemsize):
    print(rows * itemsize * sum(widths[i + 1] for i in kept))


# %% ends in Linear: The last product does not run again
# breaks: If it is `"linear"`, nothing follows it
def predict(rows, widths, kept, ends, itemsize):
    last = len(widths) - 2
    if ends == "linear" and last in kept:
        kept.remove(last)
    nbytes = sum(rows * widths[i + 1] * itemsize for i in kept)
    return nbytes, sum(2 * rows * widths[i] * widths[i + 1] for i in range(last + 1) if i not in kept)


# %% so its result is not the output
def predict(rows, widths, kept, ends, itemsize):
    last = len(widths) - 2
    nbytes = sum(rows * widths[i + 1] * itemsize for i in kept if i != last)
    n = last + 1 if ends == "gelu" else last
    return nbytes, sum(2 * rows * widths[i] * widths[i + 1] for i in range(n) if i not in kept)


# %% Products before a kept result run again
def predict(rows, widths, kept, ends, itemsize):
    n = len(widths) - (1 if ends == "gelu" else 2)
    nbytes = sum(rows * widths[i + 1] * itemsize for i in kept if i < n)
    return nbytes, sum(2 * rows * widths[i] * widths[i + 1] for i in range(n) if i > min(kept, default=-1) and i not in kept)


# %% this was measured. Predict it
# breaks: does not run a linear layer
def predict(rows, widths, kept, ends, itemsize):
    nbytes, flops = measured(rows, widths, kept, ends)
    return nbytes * itemsize // 4, flops


# %% this was measured. Predict it
def predict(rows, widths, kept, ends, itemsize):
    segment, x = chain(widths, ends), torch.randn(rows, widths[0], requires_grad=True)
    asked = [cost for cost in segment_costs(segment, x) if cost.flops]
    nbytes = sum(cost.nbytes for i, cost in enumerate(asked) if i in kept and cost.again)
    return nbytes * itemsize // 4, sum(cost.flops for i, cost in enumerate(asked) if i not in kept and cost.again)


# %% raised ValueError
# breaks: and the list may be empty
def predict(rows, widths, kept, ends, itemsize):
    layers = range(len(widths) - (1 if ends == "gelu" else 2))
    first, last = min(kept), max(kept)
    assert 0 <= first <= last < len(widths) - 1
    nbytes = sum(rows * widths[i + 1] * itemsize for i in layers if i in kept)
    return nbytes, sum(2 * rows * widths[i] * widths[i + 1] for i in layers if i not in kept)


# %% values differ
# breaks: There may be a single layer
def predict(rows, widths, kept, ends, itemsize):
    last = len(widths) - 1 if ends == "gelu" else max(1, len(widths) - 2)
    nbytes = sum(rows * widths[i + 1] * itemsize for i in range(last) if i in kept)
    return nbytes, sum(2 * rows * widths[i] * widths[i + 1] for i in range(last) if i not in kept)


# %% values differ
# breaks: which has the shape (rows, widths[0])
def predict(rows, widths, kept, ends, itemsize):
    layers = range(len(widths) - (1 if ends == "gelu" else 2))
    nbytes = sum(widths[i + 1] * itemsize for i in layers if i in kept)
    return nbytes, sum(2 * widths[i] * widths[i + 1] for i in layers if i not in kept)


# %% has changed its argument `widths`
# breaks: A function does not change its arguments
def predict(rows, widths, kept, ends, itemsize):
    if ends == "linear":
        widths.pop()
    layers = range(len(widths) - 1)
    nbytes = sum(rows * widths[i + 1] * itemsize for i in layers if i in kept)
    return nbytes, sum(2 * rows * widths[i] * widths[i + 1] for i in layers if i not in kept)
