# %% its derivative is a number
def predict_saved(op, n, d):
    extra = {"layer_norm": 8 * n, "max_pool": 4 * n * d}
    return 4 * n * d + extra.get(op, 0)


# %% mean and 1/std
def predict_saved(op, n, d):
    if op in ("times_3", "plus"):
        return 0
    return 4 * n * d + (4 * n * d if op == "max_pool" else 0)


# %% elements were counted, not bytes
# breaks: Sizes are in bytes
def predict_saved(op, n, d):
    if op in ("times_3", "plus"):
        return 0
    return n * d + {"layer_norm": 2 * n, "max_pool": n * d // 2}.get(op, 0)


# %% both are x: one storage
# breaks: Each storage counts once
def predict_saved(op, n, d):
    x = 4 * n * d
    saved = {"times_3": 0, "plus": 0, "square": 2 * x, "layer_norm": x + 8 * n, "max_pool": 2 * x}
    return saved.get(op, x)


# %% as in a mask, would do
# breaks: one of the ten names
def predict_saved(op, n, d):
    x = 4 * n * d
    saved = {"times_3": 0, "plus": 0, "relu": n * d, "layer_norm": x + 8 * n, "max_pool": 2 * x}
    return saved.get(op, x)


# %% typed in where it should be computed
def predict_saved(op, n, d):
    return 0 if op in ("times_3", "plus") else 65536


# %% it is a parameter
# breaks: A parameter does not count
def predict_saved(op, n, d):
    x = 4 * n * d
    saved = {"times_3": 0, "plus": 0, "linear": x + 4 * d * d, "layer_norm": x + 8 * n, "max_pool": 2 * x}
    return saved.get(op, x)


# %% relu: One byte each, as in a mask, would do, but eager PyTorch saves ReLU's output: a float32 has 4 bytes.
def predict_saved(op, n, d):
    x = n * d
    return {"times_3": 0, "plus": 0, "layer_norm": x + 2 * n, "max_pool": x + n * d // 2}.get(op, x)


# %% its whole input (not its output)
def predict_saved(op, n, d):
    x = 4 * n * d
    output, indices = x // 2, 8 * n * (d // 2)
    return {"times_3": 0, "plus": 0, "layer_norm": x + 8 * n, "max_pool": output + indices}.get(op, x)


# %% belong to the rows
# breaks: of shape (`n`, `d`)
def predict_saved(op, n, d):
    x = 4 * n * d
    return {"times_3": 0, "plus": 0, "layer_norm": x + 8 * d, "max_pool": 2 * x}.get(op, x)


# %% This is in MiB
def predict_saved(op, n, d):
    x = 4 * n * d
    return {"times_3": 0, "plus": 0, "layer_norm": x + 8 * n, "max_pool": 2 * x}.get(op, x) / 2**20


# %% Is a `return` missing?
def predict_saved(op, n, d):
    x = 4 * n * d
    x + 8 * n if op == "layer_norm" else x


# %% Two bytes were taken for each number
# breaks: is a float32 tensor
def predict_saved(op, n, d):
    if op in ("times_3", "plus"):
        return 0
    extra = {"layer_norm": 8 * n, "max_pool": 4 * n * d}.get(op, 0)
    return 2 * n * d + extra


# %% Only the rows were counted
# breaks: of shape (`n`, `d`)
def predict_saved(op, n, d):
    if op in ("times_3", "plus"):
        return 0
    return 4 * n + {"layer_norm": 8 * n, "max_pool": 8 * n}.get(op, 0)
