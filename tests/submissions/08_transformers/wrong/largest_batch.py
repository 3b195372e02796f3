# %% The update was forgotten
# breaks: The update needs 22 bytes
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    layer = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    return max(0, (nbytes - 14 * n) // (layers * layer + 4 * s * h + 6 * s * v))


# %% There are no gradients yet
# breaks: There are no gradients of parameters yet
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    layer = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    if nbytes < 22 * n:
        return 0
    return (nbytes - 16 * n) // (layers * layer + 4 * s * h + 6 * s * v)


# %% they were forgotten
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    layer = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    if nbytes < 22 * n:
        return 0
    return (nbytes - 14 * n) // (layers * layer + 4 * s * h)


# %% and one was counted
# breaks: three tensors as large as the logits
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    layer = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    return 0 if nbytes < 22 * n else (nbytes - 14 * n) // (layers * layer + 4 * s * h + 2 * s * v)


# %% round down
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    import math

    layer = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    return 0 if nbytes < 22 * n else math.ceil((nbytes - 14 * n) / (layers * layer + 4 * s * h + 6 * s * v))


# %% 22 bytes for each parameter are the update's
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    layer = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    return max(0, (nbytes - 22 * n) // (layers * layer + 4 * s * h + 6 * s * v))


# %% Full recomputation keeps each layer's input
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    layer = {"none": 34 * s * h + 5 * a * s * s, "selective": 5 * a * s * s, "full": 34 * s * h}[strategy]
    return 0 if nbytes < 22 * n else (nbytes - 14 * n) // (layers * layer + 4 * s * h + 6 * s * v)


# %% divide with //, not with /
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    layer = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    return 0 if nbytes < 22 * n else (nbytes - 14 * n) / (layers * layer + 4 * s * h + 6 * s * v)


# %% exactly as much as the card has does fit
# breaks: needs exactly `nbytes` fits
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    if 22 * n >= nbytes:
        return 0
    layer = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    one = layers * layer + 4 * s * h + 6 * s * v
    return max(0, (nbytes - 14 * n) // one)


# %% If the update does not fit
# breaks: Return 0 if no batch fits
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    if 22 * n > nbytes:
        return -1
    layer = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    one = layers * layer + 4 * s * h + 6 * s * v
    return max(0, (nbytes - 14 * n) // one)


# %% Master weights have 4 bytes
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    if 22 * n > nbytes:
        return 0
    layer = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    one = layers * layer + 4 * s * h + 6 * s * v
    return max(0, (nbytes - 10 * n) // one)


# %% Their elements were counted
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    if 22 * n > nbytes:
        return 0
    layer = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    one = layers * layer + 4 * s * h + 3 * s * v
    return max(0, (nbytes - 14 * n) // one)


# %% not for each layer
# breaks: 4sh bytes around the last norm
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    if 22 * n > nbytes:
        return 0
    layer = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    one = layers * (layer + 4 * s * h) + 6 * s * v
    return max(0, (nbytes - 14 * n) // one)


# %% they grow with the batch
# breaks: for each sequence what all layers keep
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    if 22 * n > nbytes:
        return 0
    layer = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    one = layers * layer
    return max(0, (nbytes - 14 * n - 4 * s * h - 6 * s * v) // one)


# %% The square has s twice
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    if 22 * n > nbytes:
        return 0
    layer = {"none": 34 * s * h + 5 * a * s, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    one = layers * layer + 4 * s * h + 6 * s * v
    return max(0, (nbytes - 14 * n) // one)


# %% none the square besides
# breaks: without the square
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    if 22 * n > nbytes:
        return 0
    layer = {"none": 34 * s * h, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    one = layers * layer + 4 * s * h + 6 * s * v
    return max(0, (nbytes - 14 * n) // one)


# %% Full recomputation keeps each layer's input
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    if 22 * n > nbytes:
        return 0
    layer = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": s * h}[strategy]
    one = layers * layer + 4 * s * h + 6 * s * v
    return max(0, (nbytes - 14 * n) // one)


# %% no layer is recomputed yet
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    if 22 * n > nbytes:
        return 0
    layer = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    one = layers * layer + 4 * s * h + 6 * s * v
    if strategy == "full":
        one += 34 * s * h + 5 * a * s * s
    return max(0, (nbytes - 14 * n) // one)


# %% Is a `return` missing?
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    if 22 * n > nbytes:
        return 0
    layer = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    one = layers * layer + 4 * s * h + 6 * s * v
    max(0, (nbytes - 14 * n) // one)


# %% none, selective, full, a long sequence: Rounded to the nearest
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    per = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    if 22 * n > nbytes:
        return 0
    return round((nbytes - 14 * n) / (layers * per + 4 * s * h + 6 * s * v))


# %% none, selective, full, a long sequence: One too few
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    per = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": 2 * s * h}[strategy]
    if 22 * n > nbytes:
        return 0
    return max(0, (nbytes - 14 * n) // (layers * per + 4 * s * h + 6 * s * v) - 1)


# %% selective, full, a long sequence: When the head runs backward no layer
def largest_batch(layers, h, a, s, v, n, nbytes, strategy):
    one = 34 * s * h + 5 * a * s * s
    per = {"none": layers * one, "selective": layers * 34 * s * h + 5 * a * s * s, "full": layers * 2 * s * h + one}[
        strategy
    ]
    if 22 * n > nbytes:
        return 0
    return max(0, (nbytes - 14 * n) // (per + 4 * s * h + 6 * s * v))
