"""How the answers of assignment 2 are asked. Grading asks the same questions, with other numbers."""

from collections import Counter
from collections.abc import Mapping

import torch
from torch.nn import functional as F

from ckptlib.grading import Checks

check = Checks(__file__)


def asked(answer, *arguments):
    """What the answer returns. If it raises, this part says so, and the other parts still count."""
    try:
        return answer(*arguments)
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"[:56]


# functions of one number, and their derivatives
FUNCTIONS = [
    (torch.sin, torch.cos),
    (torch.tanh, lambda a: 1 - torch.tanh(a) ** 2),
    (F.softplus, torch.sigmoid),
    (lambda a: a * torch.sin(a), lambda a: torch.sin(a) + a * torch.cos(a)),
    (lambda a: 1.5 * a - 0.2, lambda a: torch.full_like(a, 1.5)),
]


@check.task(points=1.5, section="2.2", cases=3, parts=True)
def chain_grads(given, chain_grads):
    chosen = [given.choice(range(len(FUNCTIONS))) for _ in range(given.integer(3, 7))]
    calls = Counter()

    def counted(i, f):
        def call(a):
            calls[i] += 1
            return f(a)

        return call

    fs = [counted(i, FUNCTIONS[which][0]) for i, which in enumerate(chosen)]
    shape = given.choice([(2, 3), (3, 1, 2)])
    found = chain_grads(fs, [FUNCTIONS[which][1] for which in chosen], given.uniform(*shape, dtype=torch.float64))
    most = ["never", "once", "several times"][min(2, max(calls.values(), default=0))]
    return {"gradients": found, "calls": {"one function": most}}


@check.task(points=2, section="2.3", cases=3, parts=True, names="relu_vjp, softmax_vjp")
def output_rules(given, relu_vjp, softmax_vjp):
    shape = [given.integer(2, 3) for _ in range(given.choice([3, 4]))]
    dtype = given.choice([torch.float32, torch.float64])
    x, dy = given.normal(*shape, dtype=dtype), given.normal(*shape, dtype=dtype)

    def ruled(vjp, dy, y):
        mine = dy.clone()
        dx = vjp(mine, y)
        if not torch.equal(mine, dy):
            raise ValueError("dy was changed in place")
        return dx

    row, d_row = given.normal(4, dtype=dtype), given.normal(4, dtype=dtype)

    def ruled_twice(vjp, op):
        """A row alone has no dimension before the last."""
        return [asked(ruled, vjp, dy, op(x)), asked(ruled, vjp, d_row, op(row))]

    return {"relu": ruled_twice(relu_vjp, torch.relu), "softmax": ruled_twice(softmax_vjp, lambda x: x.softmax(-1))}


@check.task(points=2, section="2.4", cases=2, parts=True, names="max_pool_vjp, layer_norm_vjp")
def pool_and_norm(given, max_pool_vjp, layer_norm_vjp):
    def pooled(kernel, stride):
        x = given.normal(2, 2, given.integer(4, 5), given.integer(6, 7))  # never square
        y, indices = F.max_pool2d(x, kernel, stride, return_indices=True)
        dy = given.normal(*y.shape)
        return asked(max_pool_vjp, dy, indices, tuple(x.shape))

    def normed(*shape):
        """dx, and the rest of what was returned."""
        x, dy = given.normal(*shape), given.normal(*shape)
        w, b = given.uniform(shape[-1]) + 0.5, given.normal(shape[-1])
        rstd = (x.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt()
        found = asked(layer_norm_vjp, dy, F.layer_norm(x, shape[-1:], w, b), rstd, w, b)
        if isinstance(found, (tuple, list)) and found:
            return found[0], found[1:]
        return found, "one tensor was returned" if isinstance(found, torch.Tensor) else found  # None, or what it raised

    side_by_side, overlapping = pooled(2, 2), pooled(3, 1)
    before = [given.integer(2, 3) for _ in range(given.choice([2, 3]))]
    dx, rest = zip(normed(*before, given.integer(4, 6)), normed(given.integer(2, 3), given.integer(4, 6)), strict=True)
    return {
        "windows side by side": side_by_side,
        "windows that overlap": overlapping,
        "dx of LayerNorm": None if dx[0] is None else dx,
        "dw and db of LayerNorm": rest[0] if rest[0] is None or isinstance(rest[0], str) else rest,
    }


@check.task(points=2, section="2.5", cases=2, parts=True)
def backward(given, backward):
    d = given.integer(2, 3)
    n = d + given.integer(1, 2)
    x, w, dy = given.normal(n, d), given.normal(d, d), given.normal(n, d)
    h = x @ w

    used_twice = [  # y = x * x * x, as x * (x * x), plus x
        ("a", ("x", "x"), lambda g: (g * x, g * x)),
        ("b", ("x", "a"), lambda g: (g * x * x, g * x)),
        ("y", ("b", "x"), lambda g: (g, g)),
    ]
    product = [("h", ("x", "w"), lambda g: (g @ w.T, x.T @ g))]
    unused = [  # y = k * k, with k = 2 h
        *product,
        ("u", ("h",), lambda g: (g @ w.T,)),  # a number, 0, is no gradient of u
        ("k", ("h",), lambda g: (g * 2,)),
        ("y", ("k", "k"), lambda g: (g * h * 2, g * h * 2)),
    ]
    not_last = [*product, ("y", ("h",), lambda g: (3 * g,)), ("z", ("y", "x"), lambda g: (g * 7, g * 7))]
    additions = [("s", ("a", "b"), lambda g: (g, g)), ("y", ("s", "a"), lambda g: (g, g))]

    def gradients(tape, *names):
        mine = dy.clone()
        grads = asked(backward, tape, "y", mine)
        if grads is None or isinstance(grads, str):  # what it raised
            return grads
        if not isinstance(grads, Mapping):
            raise TypeError(f"backward returned a {type(grads).__name__}, expected a dict: name -> gradient")
        return {name: grads.get(name, "missing") for name in names} | {"dy afterwards": mine.sum().item()}

    return {
        "a value used several times": gradients(used_twice, "x", "a", "b", "y"),
        "an op that the output does not use": gradients(unused, "x", "w", "h", "k", "y"),
        "an output that is not the last": gradients(not_last, "x", "w", "h", "y"),
        "additions": gradients(additions, "a", "b", "s", "y"),
    }


@check.task(points=1.5, section="2.6", cases=3, parts=True, names="hvp, predict_units")
def hessian(given, hvp, predict_units):
    shape = given.choice([(2, 4), (3, 2), (2, 1, 3)])  # a vector would hide that Hv came back flat
    x, v, other = (given.normal(*shape, dtype=torch.float64) for _ in range(3))
    size = x.numel()
    mixing = given.normal(size, size, dtype=torch.float64) / size

    def polynomial(x):
        return (x**4).sum() + (x.sum() ** 2) * other.sum()

    mixing.requires_grad_()

    def network(x):
        return torch.tanh(mixing @ x.flatten()).square().sum()

    def product(loss):
        needed = []

        def noted(x):
            needed.append(x.requires_grad)
            return loss(x)

        found = asked(hvp, noted, x.clone(), v.clone())
        if mixing.grad is not None:
            mixing.grad = None
            return "left a gradient in the .grad of what loss uses"
        without = isinstance(found, str) and needed and not needed[-1]
        return "raised: loss got an x that requires no gradient" if without else found

    layers = given.integer(2, 40)
    return {
        "Hv of a polynomial": product(polynomial),
        "Hv of a network": product(network),
        "units": {name: asked(predict_units, name, layers) for name in ("relu", "gelu", "tanh", "sigmoid")},
    }


check.add_quiz(points=1, names="q1, q2, q3, q4, q5", section="2.2, 2.3, 2.5 and 2.6")
