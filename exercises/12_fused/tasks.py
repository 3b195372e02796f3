"""How the answers of assignment 12 are asked. Grading asks the same questions, with other numbers."""

import math
import weakref
from functools import cache

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from ckptlib.grading import Checks
from ckptlib.remember.measurement import measure
from ckptlib.remember.saved_tensors import saved_tensors

check = Checks(__file__)

FLOAT = torch.float64


def tensors(found, names):
    """The tensors that were returned, as a dict; a number counts as a tensor."""
    if found is None:
        return dict.fromkeys(names)
    if not isinstance(found, (tuple, list)) or len(found) != len(names):
        how = f"{len(found)} results" if isinstance(found, (tuple, list)) else f"a {type(found).__name__}"
        raise TypeError(f"returned {how}, expected a tuple of {len(names)}: {', '.join(names)}")
    for name, each in zip(names, found, strict=True):
        if each is None:
            raise TypeError(f"None was returned as {name}")
    return {name: torch.as_tensor(each).detach() for name, each in zip(names, found, strict=True)}


def at_most(run, nbytes):
    """Whether `run()` never allocates more than so many bytes at a time."""
    peak = measure(run, "cpu").peak
    return "enough" if peak <= nbytes else "too much"


# ---- Task 1 ----
class Pieces:
    """Pieces of rows of scores, with their values. They can be read once, and it counts how many are in memory."""

    def __init__(self, scores, values, sizes):
        self.parts = zip(scores.split(sizes, -1), values.split(sizes), strict=True)
        self.alive, self.most, self.done = [], 0, False

    def __iter__(self):
        return self

    def __next__(self):
        if self.done:
            raise RuntimeError("the pieces were read a second time, but an iterator can be read once")
        part = next(self.parts, None)
        if part is None:
            self.done = True
            raise StopIteration
        piece = tuple(t.clone() for t in part)
        self.alive = [ref for ref in self.alive if ref() is not None] + [weakref.ref(t) for t in piece]
        self.most = max(self.most, len(self.alive) // 2)
        return piece


def sized(given, total):
    """A list of sizes that add up to total, not all equal."""
    first, second = given.integer(2, 4), given.integer(5, 7)
    return [first, second, 1, total - first - second - 1]


@check.task(points=2, section="12.1", cases=2, parts=True)
def one_pass(given, one_pass):
    rows, d, keys = given.integer(2, 4), given.integer(2, 5), given.integer(14, 20)
    plain = given.normal(rows, keys, dtype=FLOAT)
    values = given.normal(keys, d, dtype=FLOAT)
    sizes = sized(given, keys)
    far = torch.tensor([1500.0, -1500.0] + [0.0] * (rows - 2), dtype=FLOAT)[:, None]
    large = 100 * given.normal(rows, keys, dtype=FLOAT) + far
    hidden = given.normal(rows, keys, dtype=FLOAT)
    hidden[0, : sizes[0] + sizes[1]] = -math.inf  # as a whole, the first two pieces
    hidden[1, sizes[0] :: 2] = -math.inf

    def both(scores):
        return tensors(one_pass(Pieces(scores, values, sizes)), ["out", "lse"])

    def in_memory():
        pieces = Pieces(plain, values, [1] * keys)
        found = one_pass(pieces)
        return None if found is None else "one or two" if pieces.most <= 2 else "many"

    return {
        "out": lambda: both(plain)["out"],
        "logsumexp": lambda: both(plain)["lse"],
        "large scores": lambda: both(large),
        "hidden keys": lambda: both(hidden),
        "pieces in memory": in_memory,
    }


# ---- Task 2 ----
def attention(q, k, v):
    return ((q @ k.mT) * q.shape[-1] ** -0.5).softmax(-1) @ v


def mlp(x, w_gate, w_up, w_down):
    return (F.silu(x @ w_gate.T) * (x @ w_up.T)) @ w_down.T


class Tiles(torch.autograd.Function):
    """Attention of section 12.2. What it saves and the products that it runs do not depend on the tiles."""

    @staticmethod
    def forward(ctx, q, k, v):
        scores = (q @ k.mT) * q.shape[-1] ** -0.5
        lse = scores.logsumexp(-1, keepdim=True)
        out = (scores - lse).exp() @ v
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, d_out):
        q, k, v, out, lse = ctx.saved_tensors
        scale = q.shape[-1] ** -0.5
        p = (scale * (q @ k.mT) - lse).exp()
        ds = p * (d_out @ v.mT - (d_out * out).sum(-1, keepdim=True)) * scale
        return ds @ k, ds.mT @ q, p.mT @ d_out


class SavesTwo(torch.autograd.Function):
    """The MLP of section 12.4 after its first two products."""

    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + gate * sigmoid * (1 - sigmoid))
        return d_gate, d_product * gate * sigmoid, dy.T @ (gate * sigmoid * up)


WAYS = {
    "attention, plain": attention,
    "attention, checkpoint": lambda *inputs: checkpoint(attention, *inputs, use_reentrant=False),
    "attention, tiles": Tiles.apply,
    "mlp, plain": mlp,
    "mlp, two": lambda x, a, b, c: SavesTwo.apply(x @ a.T, x @ b.T, c),
    "mlp, checkpoint": lambda *inputs: checkpoint(mlp, *inputs, use_reentrant=False),
}


@cache
def measured(way, sizes, dtype):
    """(bytes saved besides the inputs, FLOPs of forward and backward), counted. sizes: (a, s, d) or (n, h, f)."""
    if way.startswith("attention"):
        shapes = [sizes] * 3
    else:
        n, h, f = sizes
        shapes = [(n, h), (f, h), (f, h), (h, f)]
    inputs = [torch.ones(shape, dtype=dtype, requires_grad=True) for shape in shapes]
    saved = saved_tensors(lambda: WAYS[way](*inputs))
    with FlopCounterMode(display=False) as counter:
        WAYS[way](*inputs).sum().backward()
    return saved.of("activation").nbytes, counter.get_total_flops()


@check.task(points=1.5, section="12.2 and 12.4", cases=2, parts=True)
def predict(given, predict):
    sizes = {
        "attention": (given.choice([3, 5]), given.integer(12, 20), given.integer(6, 9)),
        "mlp": (given.integer(12, 18), given.integer(5, 8), given.integer(20, 27)),
    }
    dtypes = torch.float32, torch.float64
    asked = [(way, sizes[way.partition(",")[0]], dtype) for way in WAYS for dtype in dtypes]
    found = [predict(way, *size, dtype.itemsize) for way, size, dtype in asked]
    if None in found:
        return None
    rows = [tensors(each, ["nbytes", "flops"]) for each in found]
    numbers = [[each.item() for each in row.values()] for row in rows]
    off = []
    for pair, each in zip(numbers, asked, strict=True):
        off += [mine - counted for mine, counted in zip(pair, measured(*each), strict=True)]
    half = len(rows) // 2
    return {
        "bytes of attention": [nbytes for nbytes, _ in numbers[:half]],
        "bytes of the MLP": [nbytes for nbytes, _ in numbers[half:]],
        "FLOPs": [flops for _, flops in numbers],
        "predicted minus measured": off,
    }


# ---- Task 3 ----
@check.task(points=1.5, section="12.4", cases=2, parts=True, names="Gated")
def gated(given, Gated):
    if not (isinstance(Gated, type) and issubclass(Gated, torch.autograd.Function)):
        raise TypeError("Gated is to be a class that derives from torch.autograd.Function")
    n, f, h = given.integer(3, 5), given.integer(6, 8), given.integer(2, 4)
    inputs = [given.normal(n, f, dtype=FLOAT), given.normal(n, f, dtype=FLOAT), given.normal(h, f, dtype=FLOAT)]
    dy = given.normal(n, h, dtype=FLOAT)

    def leaves():
        return [t.clone().requires_grad_() for t in inputs]

    def backward(i):
        def ask():
            mine = leaves()
            y = Gated.apply(*mine)
            if y is None:
                return None
            y.backward(dy.clone())
            if mine[i].grad is None:
                raise TypeError(f"backward returned None as the gradient of {('gate', 'up', 'w_down')[i]}")
            return mine[i].grad

        return ask

    def saved():
        found = saved_tensors(lambda: Gated.apply(*leaves()))
        hidden = [row for row in found if tuple(row.shape) == (n, f)]
        return [len(hidden), found.nbytes // 8]

    def output():
        y = Gated.apply(*leaves())
        return None if y is None else y.detach()

    return {
        "output": output,
        "gradient of gate": backward(0),
        "gradient of up": backward(1),
        "gradient of w_down": backward(2),
        "tensors saved": saved,
    }


# ---- Task 4 ----
def causal(q, k, v):
    """Output and logsumexp of causal attention, all at once."""
    s = q.shape[-2]
    later = torch.ones(s, s, dtype=torch.bool).triu(1)
    scores = ((q @ k.mT) * q.shape[-1] ** -0.5).masked_fill(later, -math.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1, keepdim=True)


@check.task(points=2.5, section="12.2", cases=2, parts=True)
def causal_backward(given, causal_backward):
    heads, d, tile = given.integer(2, 3), given.integer(2, 4), given.integer(5, 7)
    s = 3 * tile + given.integer(1, tile - 1)  # the last tile is shorter
    names = ["dq", "dk", "dv"]

    def arguments(s):
        q, k, v, d_out = (given.normal(heads, s, d, dtype=FLOAT) for _ in range(4))
        return d_out, q, k, v, *causal(q, k, v)

    asked, long = arguments(s), arguments(16 * tile)

    def part(name):
        return lambda: tensors(causal_backward(*asked, tile), names)[name]

    def memory():
        if causal_backward(*asked, tile) is None:
            return None
        square = 8 * heads * (16 * tile) ** 2
        given_already = sum(t.nbytes for t in long)
        return at_most(lambda: causal_backward(*long, tile), given_already + square)

    return {"dq": part("dq"), "dk": part("dk"), "dv": part("dv"), "memory": memory}


# ---- Task 5 ----
@check.task(points=1.5, section="12.3", cases=2, parts=True)
def chunked_loss(given, chunked_loss):
    h, v, rows = given.integer(3, 5), given.integer(11, 17), given.integer(4, 6)
    n = 3 * rows + given.integer(1, rows - 1)
    names = ["loss", "dx", "dw"]

    def arguments(n, v, scale=1):
        x, w = scale * given.normal(n, h, dtype=FLOAT), given.normal(v, h, dtype=FLOAT)
        return x, w, torch.tensor([given.integer(0, v - 1) for _ in range(n)])

    asked, large, long = arguments(n, v), arguments(n, v, 600), arguments(40 * rows, 20 * v)

    def part(name):
        return lambda: tensors(chunked_loss(*asked, rows), names)[name]

    def memory():
        if chunked_loss(*asked, rows) is None:
            return None
        x, w, _ = long
        return at_most(lambda: chunked_loss(*long, rows), 6 * (x.nbytes + w.nbytes) + 16 * rows * len(w) * 8)

    return {
        "loss": part("loss"),
        "dx": part("dx"),
        "dw": part("dw"),
        "large logits": lambda: tensors(chunked_loss(*large, rows), names),
        "memory": memory,
    }


check.add_quiz(points=1, names="q1, q2, q3, q4", section="12.1 to 12.5")
