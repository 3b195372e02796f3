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
def predict_saved(op, n, d):
    if op in ("times_3", "plus"):
        return 0
    return n * d + {"layer_norm": 2 * n, "max_pool": n * d // 2}.get(op, 0)


# %% both are x: one storage
def predict_saved(op, n, d):
    x = 4 * n * d
    saved = {"times_3": 0, "plus": 0, "square": 2 * x, "layer_norm": x + 8 * n, "max_pool": 2 * x}
    return saved.get(op, x)


# %% A mask of one byte each would do
def predict_saved(op, n, d):
    x = 4 * n * d
    saved = {"times_3": 0, "plus": 0, "relu": n * d, "layer_norm": x + 8 * n, "max_pool": 2 * x}
    return saved.get(op, x)


# %% typed in where it should be computed
def predict_saved(op, n, d):
    return 0 if op in ("times_3", "plus") else 65536


# %% it is a parameter
def predict_saved(op, n, d):
    x = 4 * n * d
    saved = {"times_3": 0, "plus": 0, "linear": x + 4 * d * d, "layer_norm": x + 8 * n, "max_pool": 2 * x}
    return saved.get(op, x)


# %% Is a `return` missing?
def predict_saved(op, n, d):
    x = 4 * n * d
    x + 8 * n if op == "layer_norm" else x
