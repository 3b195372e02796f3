# %% The gathered x stays whole here
# breaks: the input of the first product, with
def mlp_nbytes(s, b, h, t, itemsize, way):
    if way == "tensor":
        return itemsize * s * b * (2 * h + 2 + 8 * h // t)
    return itemsize * s * b * (10 * h + 2) // t


# %% That is all of it divided by t
# breaks: is tensor parallelism without sequence parallelism
def mlp_nbytes(s, b, h, t, itemsize, way):
    everything = itemsize * s * b * (10 * h + 2)
    return everything // t + (itemsize * s * b * h * (t - 1) // t if way == "kept" else 0)


# %% mean and deviation are missing
# breaks: which are 2 elements for each
def mlp_nbytes(s, b, h, t, itemsize, way):
    elements = {"tensor": 2 * h + 8 * h // t, "kept": h + 9 * h // t, "again": 10 * h // t}[way]
    return itemsize * s * b * elements


# %% Elements were counted, not bytes
def mlp_nbytes(s, b, h, t, itemsize, way):
    rows = s * b if way == "tensor" else s * b // t
    x = s * b * h if way != "again" else s * b * h // t
    return rows * (h + 2) + x + 8 * s * b * h // t


# %% one storage: it counts once
# breaks: it counts once
def mlp_nbytes(s, b, h, t, itemsize, way):
    rows = s * b if way == "tensor" else s * b // t
    x = s * b * h if way != "again" else s * b * h // t
    return itemsize * (rows * (h + 2) + x + 12 * s * b * h // t)


# %% Gathered again means that the shard is kept
# breaks: is gathered again in backward
def mlp_nbytes(s, b, h, t, itemsize, way):
    rows = s * b if way == "tensor" else s * b // t
    return itemsize * (rows * (h + 2) + s * b * h + 8 * s * b * h // t)


# %% for its own tokens only
# breaks: the norm's input
def mlp_nbytes(s, b, h, t, itemsize, way):
    rows = s * b if way == "tensor" else s * b // t
    x = s * b * h if way != "again" else s * b * h // t
    return itemsize * (rows * h + 2 * s * b + x + 8 * s * b * h // t)


# %% The mean and the deviation are of all tokens
# breaks: which are 2 elements for each
def mlp_nbytes(s, b, h, t, itemsize, way):
    outside = s * b * h // (1 if way == "tensor" else t)
    x = s * b * h // (t if way == "again" else 1)
    return itemsize * (outside + 2 * s * b // t + x + 8 * s * b * h // t)


# %% kept: With sequence parallelism the norm sees this rank's tokens only
# breaks: Autograd keeps the gathered input
def mlp_nbytes(s, b, h, t, itemsize, way):
    e = s * b * h
    whole = {"tensor": 2 * e + 2 * s * b, "kept": 2 * e + 2 * s * b // t, "again": (2 * e + 2 * s * b) // t}
    return itemsize * (whole[way] + 8 * e // t)


# %% The shard of x was counted besides
def mlp_nbytes(s, b, h, t, itemsize, way):
    e, n = s * b * h, 2 * s * b
    outside = {"tensor": 2 * e + n, "kept": e + (2 * e + n) // t, "again": (2 * e + n) // t}
    return itemsize * (outside[way] + 8 * e // t)


# %% That is for elements of two bytes
def mlp_nbytes(s, b, h, t, itemsize, way):
    e, n = s * b * h, 2 * s * b
    outside = {"tensor": 2 * e + n, "kept": e + (e + n) // t, "again": (2 * e + n) // t}
    return 2 * (outside[way] + 8 * e // t)


# %% That is for elements of four bytes
def mlp_nbytes(s, b, h, t, itemsize, way):
    e, n = s * b * h, 2 * s * b
    outside = {"tensor": 2 * e + n, "kept": e + (e + n) // t, "again": (2 * e + n) // t}
    return 4 * (outside[way] + 8 * e // t)


# %% have `itemsize` bytes each, like all the rest
# breaks: Every element has `itemsize` bytes
def mlp_nbytes(s, b, h, t, itemsize, way):
    e, n = itemsize * s * b * h, 8 * s * b
    outside = {"tensor": 2 * e + n, "kept": e + (e + n) // t, "again": (2 * e + n) // t}
    return outside[way] + 8 * e // t


# %% the mean and 1/std: here it is one
def mlp_nbytes(s, b, h, t, itemsize, way):
    e, n = itemsize * s * b * h, itemsize * s * b
    outside = {"tensor": 2 * e + n, "kept": e + (e + n) // t, "again": (2 * e + n) // t}
    return outside[way] + 8 * e // t


# %% Parameters are not counted
# breaks: Parameters do not count
def mlp_nbytes(s, b, h, t, itemsize, way):
    e, n = itemsize * s * b * h, 2 * itemsize * s * b
    outside = {"tensor": 2 * e + n, "kept": e + (e + n) // t, "again": (2 * e + n) // t}
    return outside[way] + 8 * e // t + 2 * itemsize * h * (4 * h // t)


# %% Those are the bytes of all ranks together
def mlp_nbytes(s, b, h, t, itemsize, way):
    e, n = itemsize * s * b * h, 2 * itemsize * s * b
    outside = {"tensor": 2 * e + n, "kept": e + (e + n) // t, "again": (2 * e + n) // t}
    return t * (outside[way] + 8 * e // t)


# %% predicted minus measured: returned None. Is a `return` missing?
def mlp_nbytes(s, b, h, t, itemsize, way):
    print(10 * s * b * h * itemsize // t)


# %% The mean and the deviation are of all sequences
def mlp_nbytes(s, b, h, t, itemsize, way):
    outside, x = 1 if way == "tensor" else t, t if way == "again" else 1
    return itemsize * (s * b * h // outside + 2 * s // outside + s * b * h // x + 8 * s * b * h // t)


# %% tensor, kept, again, predicted minus measured: More is counted than is kept outside the products
def mlp_nbytes(s, b, h, t, itemsize, way):
    outside, x = 1 if way == "tensor" else t, t if way == "again" else 1
    return itemsize * (2 * s * b * h // outside + 2 * s * b // outside + s * b * h // x + 8 * s * b * h // t)
