# %% The gathered x stays whole here
def mlp_nbytes(s, b, h, t, itemsize, way):
    if way == "tensor":
        return itemsize * s * b * (2 * h + 2 + 8 * h // t)
    return itemsize * s * b * (10 * h + 2) // t


# %% That is all of it divided by t
def mlp_nbytes(s, b, h, t, itemsize, way):
    everything = itemsize * s * b * (10 * h + 2)
    return everything // t + (itemsize * s * b * h * (t - 1) // t if way == "kept" else 0)


# %% mean and deviation are missing
def mlp_nbytes(s, b, h, t, itemsize, way):
    elements = {"tensor": 2 * h + 8 * h // t, "kept": h + 9 * h // t, "again": 10 * h // t}[way]
    return itemsize * s * b * elements


# %% Elements were counted, not bytes
def mlp_nbytes(s, b, h, t, itemsize, way):
    rows = s * b if way == "tensor" else s * b // t
    x = s * b * h if way != "again" else s * b * h // t
    return rows * (h + 2) + x + 8 * s * b * h // t


# %% one storage: it counts once
def mlp_nbytes(s, b, h, t, itemsize, way):
    rows = s * b if way == "tensor" else s * b // t
    x = s * b * h if way != "again" else s * b * h // t
    return itemsize * (rows * (h + 2) + x + 12 * s * b * h // t)


# %% Gathered again means that the shard is kept
def mlp_nbytes(s, b, h, t, itemsize, way):
    rows = s * b if way == "tensor" else s * b // t
    return itemsize * (rows * (h + 2) + s * b * h + 8 * s * b * h // t)


# %% for its own tokens only
def mlp_nbytes(s, b, h, t, itemsize, way):
    rows = s * b if way == "tensor" else s * b // t
    x = s * b * h if way != "again" else s * b * h // t
    return itemsize * (rows * h + 2 * s * b + x + 8 * s * b * h // t)
