"""How the answers of assignment 10 are asked. Grading asks the same questions, with other numbers.

Where ranks are needed, they are real processes: copies of this one that meet in a gloo group on 127.0.0.1. On macOS
and Windows, threads of this process stand in for them.
"""

import re
from functools import cache

import torch
from torch import nn
from torch.nn import functional as F

from ckptlib.book.ranks import RankError, forked
from ckptlib.grading import Checks
from ckptlib.models.configs import Config
from ckptlib.models.transformer import again
from ckptlib.remember.saved_tensors import saved_tensors

check = Checks(__file__)

ONLY_TWO = "It ran on two ranks, and not on three: is 2 written where the number of ranks belongs?"

IN_PLACE = "Collectives work in place and return None: was a result of theirs used, or is a `return` missing?"

IN_VAIN = "a rank waited for another in vain: every rank has to call the same collectives, in the same order"

PLANS = {
    "A": {"replicas": 16, "tensor": 1, "sequence": False, "recompute": "none"},
    "B": {"replicas": 2, "tensor": 8, "sequence": False, "recompute": "none"},
    "C": {"replicas": 2, "tensor": 8, "sequence": True, "recompute": "none"},
    "D": {"replicas": 4, "tensor": 4, "sequence": True, "recompute": "selective"},
    "E": {"replicas": 16, "tensor": 1, "sequence": False, "recompute": "full"},
    "F": {"replicas": 2, "tensor": 8, "sequence": True, "recompute": "full"},
}


def on_ranks(fn, ranks=2):
    """What fn(rank) returns on each of so many processes."""
    try:
        return forked(fn, ranks)
    except RankError as error:
        if "NotImplementedError" in str(error):
            raise NotImplementedError from None
        if "Timed out" in str(error) or "closed by peer" in str(error):
            raise RankError(IN_VAIN) from None
        if "NoneType" in str(error):
            raise RankError(f"{error}. {IN_PLACE}") from None
        raise


def border(ahead, back):
    """An autograd Function made of two functions: one for forward, one for backward (section 10.4)."""

    class Border(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return ahead(x)

        @staticmethod
        def backward(ctx, dy):
            return back(dy)

    return Border.apply


def data(lists):
    """One tensor of what all ranks returned, rank by rank; lists, if their shapes differ or there is nothing."""
    try:
        return torch.tensor(lists)
    except (RuntimeError, TypeError, ValueError):
        return list(lists)


# ---- Task 1 ----
@check.task(points=1.5, section="10.2", cases=3, parts=True)
def rank_state(given, rank_state):
    ranks = given.choice([3, 6, 12, 24])
    layers = [ranks * given.integer(100, 6000) for _ in range(given.integer(2, 6))]
    layers.insert(given.integer(1, len(layers) - 1), ranks * given.integer(6500, 9000))  # not at an end
    return {way: lambda way=way: rank_state(layers, ranks, way) for way in ("ddp", "optimizer", "fsdp")}


# ---- Task 2 ----
class Border(torch.autograd.Function):
    """As many rows in and out as asked for: what is kept does not depend on what is in them."""

    @staticmethod
    def forward(ctx, x, rows):
        ctx.rows = len(x)
        return x.new_zeros(rows, *x.shape[1:])

    @staticmethod
    def backward(ctx, dy):
        return dy.new_zeros(ctx.rows, *dy.shape[1:]), None


@cache
def measured(s, b, h, t, dtype, way):
    """What a rank keeps of the MLP half of a layer, counted: LayerNorm, border, Linear, GELU, Linear, border."""
    norm, widen = nn.LayerNorm(h, dtype=dtype), nn.Linear(h, 4 * h // t, dtype=dtype)
    narrow = nn.Linear(4 * h // t, h, dtype=dtype)
    rows = s if way == "tensor" else s // t
    x = torch.randn(rows, b, h, dtype=dtype, requires_grad=True)

    def half():
        y = again(lambda y: widen(Border.apply(y, s)), way == "again", norm(x))
        return Border.apply(narrow(F.gelu(y)), rows)

    saved = saved_tensors(half)
    return saved.of("activation").nbytes + saved.of("input").nbytes


@check.task(points=2, section="10.4", cases=2, parts=True)
def mlp_nbytes(given, mlp_nbytes):
    t, b = given.choice([3, 5, 6]), given.choice([7, 11])  # with t = 4, a share of GELU's output is as large as x
    s, h = t * given.integer(2, 9), t * given.integer(2, 9)
    dtypes = torch.float32, torch.float64
    found = {
        way: [mlp_nbytes(s, b, h, t, dtype.itemsize, way) for dtype in dtypes] for way in ("tensor", "kept", "again")
    }
    if any(nbytes is None for pair in found.values() for nbytes in pair):
        return None
    off = [n - measured(s, b, h, t, dtype, way) for way in found for n, dtype in zip(found[way], dtypes, strict=True)]
    return {**found, "predicted minus measured": off}


# ---- Task 3 ----
def attempt(ask):
    """What one of two answers raises is about its own parts: the other is asked all the same."""
    try:
        found = ask()
    except NotImplementedError:
        return {"error": "not answered yet", "found": None}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error)[:200]}", "found": None}
    return None if any(one is None for one in found) else {"error": "", "found": found}


def whole(amounts):
    if any(isinstance(nbytes, float) and nbytes % 1 for nbytes in amounts):
        raise ValueError("bytes are whole numbers: round each term down, with // instead of /")
    return amounts


@check.task(points=1.5, section="10.5", cases=2, parts=True, names="plan_nbytes, order")
def plans(given, plan_nbytes, order):
    heads = 8 * given.integer(2, 12)
    config = Config(
        layers=given.integer(8, 100),
        width=heads * given.choice([64, 128]),
        heads=heads,
        tokens=given.choice([1024, 2048, 4096]),
        vocabulary=given.integer(30_000, 60_000),
    )
    batch = given.integer(2, 4)
    odd = next(replicas for replicas in range(3, 100) if 16 * config.parameters % replicas)  # state has a remainder
    asked = {**PLANS, "A": {**PLANS["A"], "replicas": odd}, "E": {**PLANS["E"], "replicas": odd}}
    few, many = (
        plan_nbytes
        and attempt(lambda names=names: whole([plan_nbytes(config, batch, **asked[name]) for name in names]))
        for names in ("ABC", "DEF")
    )
    others = {**PLANS, "E": {**PLANS["E"], "tensor": 8}, "F": {**PLANS["F"], "tensor": 1}}
    amounts = sorted(97 * given.integer(10**8, 10**9) for _ in PLANS)
    nbytes = dict(zip(given.choice(["BCDFEA", "CBDFAE", "DFCBEA"]), amounts, strict=True))
    names = sorted(PLANS, key=lambda name: given.integer(1, 10**6))
    tie = iter(sorted("BC", key=nbytes.get, reverse=True))  # given in the wrong order: only bytes decide
    shuffled = {name: others[name] for name in (next(tie) if name in "BC" else name for name in names)}
    middle = sorted(nbytes.values())[given.integer(2, 4)]
    ordered = order and attempt(lambda: [order(nbytes, memory, shuffled) for memory in (10**12, middle, middle - 1)])
    found = {"bytes, nothing recomputed": few, "bytes, recomputed": many, "order": ordered}
    if all(part and part["error"] == "not answered yet" for part in found.values()):
        raise NotImplementedError
    return found


# ---- Task 4 ----
@check.task(points=1.5, section="10.3 and 10.4", cases=1, parts=True)
def parallel_mlp(given, parallel_mlp):
    n, d, k = (given.integer(2, 4) for _ in range(3))
    x, bias, dy = given.normal(n, d), given.normal(d), given.normal(n, d)
    parts = [(given.normal(k, d), given.normal(d, k)) for _ in range(2)]

    def step(rank):
        leaves = [t.clone().requires_grad_() for t in (x, *parts[rank], bias)]
        y = parallel_mlp(*leaves)
        if y is None:
            return None
        y.backward(dy)
        return [y.tolist(), *((torch.zeros_like(t) if t.grad is None else t.grad).tolist() for t in leaves)]

    found = on_ranks(step)
    if None in found:
        return None
    y, dx, da, db, dbias = zip(*found, strict=True)
    return {
        "y": data(y),
        "gradient of x": data(dx),
        "gradients of a and b": [data(da), data(db)],
        "gradient of bias": data(dbias),
    }


# ---- Task 5 ----
@check.task(points=2.5, section="10.4", cases=1, parts=True, names="Gather")
def gather(given, Gather):
    if not (isinstance(Gather, type) and issubclass(Gather, torch.autograd.Function)):
        raise TypeError("Gather is to be a class that derives from torch.autograd.Function")

    def crossing(ranks, dim):
        shape = [2, given.integer(2, 3), given.integer(2, 3)]
        wide = [size * (ranks if i == dim else 1) for i, size in enumerate(shape)]
        return given.normal(ranks, *shape), given.normal(ranks, *wide), dim

    def step(rank, xs, dys, dim, names):
        y = Gather.apply(xs[rank].clone().requires_grad_(), dim)
        if not isinstance(y, torch.Tensor):
            raise TypeError(f"Gather.apply returned a {type(y).__name__}, expected a tensor")
        if names == ["y"]:
            return {"y": y.tolist()}
        try:
            back = y.grad_fn.apply(dys[rank].clone())  # what backward returns: a gradient for x, None for dim
        except NotImplementedError:
            raise TypeError("backward is not written yet") from None
        back = back if isinstance(back, tuple) else (back,)
        if back[0] is None:
            raise TypeError("backward returned None as the gradient of x: is a `return` missing?")
        found = {"y": y, "dx": back[0], "gradients returned": torch.tensor(len(back))}
        return {name: found[name].tolist() for name in names}

    zero, other, three = crossing(2, 0), crossing(2, given.choice([1, 2])), crossing(3, 0)
    asked = {
        "forward": (*zero, ["y"]),
        "backward": (*zero, ["dx", "gradients returned"]),
        "another dim": (*other, ["y", "dx"]),
        "three ranks": (*three, ["y", "dx"]),
    }

    def ask(*parts, ranks=2):
        """All at once; if a rank raises, one by one: each part answers for itself."""
        try:
            by_rank = on_ranks(lambda rank: [step(rank, *asked[part]) for part in parts], ranks)
        except RankError as error:
            text = re.sub(r"^rank \d+: ", "", str(error))[:300]  # whichever was first
            if len(parts) == 1 or "gave no answer" in text:  # each would be waited for
                return {part: {"error": text} | dict.fromkeys(asked[part][-1]) for part in parts}
            return {name: found for part in parts for name, found in ask(part).items()}
        return {
            part: {"error": ""} | {name: data([rank[i][name] for rank in by_rank]) for name in asked[part][-1]}
            for i, part in enumerate(parts)
        }

    found = ask("forward", "backward", "another dim")
    ran = not any(part["error"] for part in found.values())
    found |= ask("three ranks", ranks=3)
    if ran and found["three ranks"]["error"]:
        found["three ranks"]["error"] = f"{ONLY_TWO} {found['three ranks']['error']}"
    return found


check.add_quiz(points=1, names="q1, q2, q3, q4", section="10.2, 10.4, and What can go wrong")
