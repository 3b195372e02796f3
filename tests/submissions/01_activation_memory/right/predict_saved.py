# %% measured, not derived
def predict_saved(op, n, d):
    x = torch.randn(n, d, requires_grad=True)
    w = nn.Parameter(torch.randn(d, d))
    run = {
        "times_3": lambda: x * 3,
        "plus": lambda: x + x,
        "square": lambda: x * x,
        "exp": lambda: x.exp(),
        "cos": lambda: x.cos(),
        "relu": lambda: x.relu(),
        "softmax": lambda: x.softmax(1),
        "layer_norm": lambda: F.layer_norm(x, (d,)),
        "max_pool": lambda: F.max_pool1d(x[None], 2),
        "linear": lambda: F.linear(x, w),
    }[op]
    saved = ck.saved_tensors(run)
    return saved.nbytes - (w.nbytes if op == "linear" else 0)


# %% a table, floats
import math


def predict_saved(op, n, d):
    rows, pairs = float(n), math.floor(n * d / 2)
    none = {"plus", "times_3"}
    return (0.0 if op in none else rows * d * 4) + (op == "layer_norm") * rows * 8 + (op == "max_pool") * pairs * 8
