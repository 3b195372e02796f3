"""How the answers of assignment 9 are asked. Grading asks the same questions, with other numbers."""

from functools import partial
from importlib import import_module

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import ckptlib as ck
from ckptlib.grading import Checks
from ckptlib.grading.tasks.forbidden_calls import OwnCode
from ckptlib.recompute.op_costs import Flops
from ckptlib.recompute.selective import by_module

check = Checks(__file__)
own = OwnCode(
    import_module("ckptlib.recompute.selective"),
    says="The library's policies, and what chooses for them, are switched off here: write one of your own",
)

LARGE = 2048  # bytes, for task 3
SAVED = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE, True)


def flops_of(run):
    with Flops() as counter:
        run().sum().backward()
    return counter.total


def weigh(segment, args, make_policy):
    """(bytes kept, FLOPs recomputed) of a checkpoint around segment(*args), with a new policy for each run.

    Kept is what is alive between forward and backward; the segment's arguments, weights and output are left out.
    What it takes to make a policy is not counted.
    """
    first, second = make_policy(), make_policy()

    def run(policy):
        context_fn = partial(create_selective_checkpoint_contexts, policy)
        return checkpoint(segment, *args, use_reentrant=False, context_fn=context_fn)

    with ck.trace() as trace:
        y = run(first)
    gone = {event.storage for event in trace.events if event.kind == "free"}
    alive = {event.storage for event in trace.events if event.kind == "alloc"} - gone
    kept = sum(trace.storages[i].nbytes for i in alive) - y.untyped_storage().nbytes()
    return kept, flops_of(lambda: run(second)) - flops_of(lambda: segment(*args))


def chain(widths, ends):
    """Linear layers from width to width, a GELU behind each; behind the last one if `ends` is "gelu"."""
    layers = [layer for d, k in zip(widths, widths[1:], strict=False) for layer in (nn.Linear(d, k), nn.GELU())]
    return nn.Sequential(*layers[: None if ends == "gelu" else -1])


def measured(rows, widths, kept, ends):
    """What a checkpoint around such a chain keeps and recomputes, if the policy keeps these linear layers' results."""

    def build():
        return chain(widths, ends), (torch.randn(rows, widths[0], requires_grad=True),)

    names = [str(2 * i) for i in kept]
    policies = {"mine": lambda segment, x: by_module(segment, *names)} if kept else {}
    return tuple(ck.policy_report(build, **policies)["mine" if kept else "nothing saved"][1:])


def attempt(keys, ask, *args):
    """What a part raises is its answer: the other parts are asked all the same."""
    try:
        return {"error": "", **ask(*args)}
    except NotImplementedError:
        raise
    except Exception as error:
        text = str(error).replace("iterable argument is empty", "arg is an empty sequence")  # as before Python 3.12
        return {"error": f"{type(error).__name__}: {text.split('. ')[0][:160]}"} | dict.fromkeys(keys)


# ---- Task 1 ----
@check.task(points=1, section="9.1", cases=3, parts=True)
def price(given, price):
    b, m, k = (given.integer(low, 60) for low in (2, 3, 3))
    inner = 2 * given.integer(2, 30) + 1
    found = [price(b, m, inner, k, itemsize) for itemsize in (given.choice([1, 2]), 8)]
    if any(triple is None for triple in found):
        return None
    for triple in found:
        if isinstance(triple, (int, float, str, dict)) or len(triple) != 3:
            raise TypeError("three numbers were asked for: flops, nbytes, per_byte")
    return {name: [triple[i] for triple in found] for i, name in enumerate(("FLOPs", "bytes", "FLOPs per byte"))}


# ---- Task 2 ----
class OnPaper(TorchDispatchMode):
    """A prediction is made of numbers: no linear layer runs, whoever calls it."""

    def __init__(self):
        super().__init__()
        self.measured = False

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        if op in (torch.ops.aten.addmm.default, torch.ops.aten.mm.default):
            self.measured = True
        return op(*args, **(kwargs or {}))

    def __exit__(self, *error):
        super().__exit__(*error)
        if self.measured:
            raise ValueError("A linear layer ran, so this was measured. Predict it: compute with the sizes alone")


@check.task(points=1.5, section="9.3", cases=3, parts=True)
def predict(given, predict):
    layers = given.integer(3, 6)
    rows, widths = given.integer(3, 50), [given.integer(3, 60) for _ in range(layers + 1)]
    itemsizes, last = given.choice([(2, 8), (8, 2)]), layers - 1
    some = sorted({given.integer(low, last - 1) for low in (0, 1)})  # the largest is not the first layer
    calls = [([*some, last], widths, itemsizes[0]), (some[-1:], widths, itemsizes[1])]
    calls += [([], widths, 4), (given.choice([[0], []]), widths[:2], 4)]  # nothing is kept; a single layer

    def asked(ends):
        with OnPaper():
            found = [predict(rows, list(widths), kept, ends, itemsize) for kept, widths, itemsize in calls]
        return None if any(pair is None for pair in found) else [list(pair) for pair in found]

    return {"ends in GELU": lambda: asked("gelu"), "ends in Linear": lambda: asked("linear")}


# ---- Task 3 ----
class Mixed(nn.Module):
    """Four products, each of another op, and a norm, whose op has three results. (B, T, D), (T, T) -> (B, T, D)."""

    def __init__(self, d, k):
        super().__init__()
        self.widen, self.narrow = nn.Linear(d, k), nn.Linear(k, d, bias=False)

    def forward(self, x, mask):
        h = self.narrow(F.gelu(self.widen(x)))  # addmm, mm
        h = F.layer_norm(h, h.shape[-1:])
        weights = torch.baddbmm(mask, h, h.transpose(1, 2)).softmax(-1)
        return torch.bmm(weights, h).sin()


def mixed(given, t, k, d, dtype):
    given.seeded()
    x = given.normal(2, t, d, dtype=dtype).requires_grad_()
    return Mixed(d, k).to(dtype), (x, torch.zeros(t, t, dtype=dtype))


def ruled(policy, segment, args):
    """What a policy decides and what comes of it."""
    kept = []

    def listening(ctx, op, *args, **kwargs):
        verdict = policy(ctx, op, *args, **kwargs)
        if verdict is None:
            raise TypeError(f"the policy returned None for {op}, and every op gets a verdict: is a `return` missing?")
        if verdict in SAVED:
            kept.append(str(op))
        return verdict

    nbytes, flops = weigh(segment, args, lambda: listening)
    return {"results kept": kept[: len(kept) // 2], "bytes kept": nbytes, "FLOPs recomputed": flops}


@check.task(points=2, section="What can go wrong", cases=2, parts=True, names="policy_a, policy_b")
def policies(given, policy_a, policy_b):
    dtype = given.choice([torch.float32, torch.float64])
    t = given.choice([4, 8])
    exactly = LARGE // (2 * t * dtype.itemsize)  # so wide that the first product's result has LARGE bytes
    found, blank = {}, []
    for name, policy in {"policy a": policy_a, "policy b": policy_b}.items():
        segments = [
            mixed(given, t, exactly, given.integer(3, 6), dtype),
            mixed(given, given.integer(17, 20), given.integer(64, 70), given.integer(16, 18), dtype),
        ]
        try:
            found[name] = policy and attempt(
                ("segment 1", "segment 2"),
                lambda policy=policy, segments=segments: {
                    f"segment {i}": ruled(policy, *segment) for i, segment in enumerate(segments, 1)
                },
            )
        except NotImplementedError:
            blank.append(name)
            found[name] = {"error": "not answered yet", "segment 1": None, "segment 2": None}
    if len(blank) == 2:
        raise NotImplementedError
    return found


# ---- Task 4 ----
OVER = "The budget is exceeded: not each result alone, but all that are kept together take at most `budget` bytes."
FEWEST = "fewest FLOPs recomputed"


def chosen(choose, asked):
    found = [kept_of(choose, *case) for case in asked]
    over = any(nbytes > budget for (_, budget), (_, nbytes) in zip(asked, found, strict=True))
    return {"budget": OVER if over else "", FEWEST: [f for f, _ in found], "bytes kept": [n for _, n in found]}


def kept_of(choose, costs, budget):
    kept = choose([tuple(cost) for cost in costs], budget)
    if kept is None:
        raise TypeError("choose returned None: is a `return` missing?")
    kept = list(kept)
    if any(isinstance(i, (tuple, list)) for i in kept):
        raise TypeError("indices into `costs` were asked for, whole numbers: a tuple or a list is among them")
    kept = [int(i) for i in kept]
    if len(set(kept)) < len(kept) or not all(0 <= i < len(costs) for i in kept):
        raise ValueError(f"{kept} are no indices of {len(costs)} results, each once")
    recomputed = sum(flops for i, (flops, _) in enumerate(costs) if i not in kept)
    return recomputed, sum(costs[i][1] for i in kept)


@check.task(points=2, section="9.4", cases=3, parts=True)
def choose(given, choose):
    def shuffled(costs):
        return sorted(costs, key=lambda _: given.integer(0, 10**9))

    sizes = [given.integer(5, 60) * 32 for _ in range(given.integer(8, 10))]
    many = [(nbytes * given.integer(20, 32), nbytes) for nbytes in sizes]
    free = [(0, given.integer(1, 30) * 32) for _ in range(2)]  # as of a GELU
    tight = sum(nbytes for _, nbytes in many) * given.integer(30, 60) // 100
    half, per_byte = given.integer(10, 50), given.integer(4, 20)
    # one result with the most FLOPs per byte, a little too large to leave room for the others
    large = shuffled(
        [
            (half * 2 * per_byte, half * 2),
            (half * 2 * per_byte, half * 2),
            ((half * 2 + 2) * per_byte + 9, half * 2 + 2),
        ]
    )
    # two that spare as much, one of them smaller, and room for one
    n, flops = given.integer(10, 50), given.integer(4000, 9000)
    twins = [(flops, n + given.integer(2, 4)), (flops, n)]
    # one result spares as much as two together, and takes more bytes than they do, or fewer
    part = given.integer(1000, 2000)
    pair = [(part, n // 2), (flops - part, n // 3)]
    dear, cheap = [(flops, n), *pair], [(flops, n - 2), (part, n // 2), (flops - part, n - n // 2)]
    # the larger one would fill the budget, the dearer one is worth more
    either = shuffled([(flops, n), (flops // 2, n + 1)])
    asked = {
        "some of many": [(shuffled(many + free), tight), (either, n + 1)],
        # the last budget of both: what is right to recompute takes more than what greedy or a tie would keep
        "one large, two small": [(large, half * 4 + 1), (large, half * 4), (large, half * 2 + 1)],
        "equal FLOPs": [
            *[(twins, n + 5), (twins[::-1], n + 5), (twins, n + 1)],
            *[(shuffled(dear), n), (shuffled(cheap), n)],
        ],
        "room for all, or for none": [
            *[(shuffled(many[:5] + free), 10**6), (many[:4], 10**6), (many[:3], 31)],
        ],
        "no results": [([], given.integer(1, 1000))],
    }
    return {name: attempt(("budget", FEWEST, "bytes kept"), chosen, choose, cases) for name, cases in asked.items()}


# ---- Task 5 ----
class Scaled(nn.Module):
    """A chain of a tensor times another one."""

    def __init__(self, chain):
        super().__init__()
        self.chain = chain

    def forward(self, x, scale):
        return self.chain(x * scale)


LEFT_GRADIENTS = (
    "policy_for has left gradients in .grad. Free them, or let segment_costs look at the ops, which leaves none"
)


def reached(policy_for, segment, args, budget):
    def make():
        with own.only():
            policy = policy_for(segment, args, budget)
        if not callable(policy):
            raise TypeError(f"policy_for returned {type(policy).__name__}, expected a function")
        if any(tensor.grad is not None for tensor in (*args, *segment.parameters())):
            raise ValueError(LEFT_GRADIENTS)
        return own.only()(policy)

    kept, recomputed = weigh(segment, args, make)
    over = f"More bytes are kept than the budget allows: {kept:,} B of {budget:,} B" if kept > budget else ""
    return over, kept, recomputed


def all_reached(policy_for, asked):
    over, kept, recomputed = zip(*(reached(policy_for, *one) for one in asked), strict=True)
    return {"budget": max(over), "bytes kept": list(kept), "FLOPs recomputed": list(recomputed)}


@check.task(points=2.5, section="9.3 and 9.4", cases=2, parts=True)
def policy_for(given, policy_for):
    rows, dtype = given.integer(3, 9), given.choice([torch.float32, torch.float64])
    unit = rows * dtype.itemsize
    small, middle, wide = given.integer(4, 9), given.integer(14, 20), given.integer(30, 40)
    given.seeded()

    def asked(widths, ends, features, more=0, scaled=False):
        args = (given.normal(rows, widths[0], dtype=dtype).requires_grad_(),)
        segment = chain(widths, ends)
        if scaled:
            segment, args = Scaled(segment), (*args, given.normal(rows, widths[0], dtype=dtype))
        return segment.to(dtype), args, features * unit + more

    same, twice = [small, middle, wide, middle, wide, middle, small], 2 * small
    parts = {
        # three results of the same shape, two of which cost several times as much; there is room for one, to the byte,
        # and for none at all
        "same shapes": [asked(same, "gelu", middle), asked(same, "gelu", 0, given.integer(0, 3))],
        # the last product is the dearest, and early stop leaves it out; there is room for the two before it. And two
        # products that are as dear, where there is room for one: the second takes fewer bytes
        "ends in Linear": [
            asked([small - 1, small, middle, wide, wide - 1], "linear", middle + wide, given.integer(0, 3)),
            asked([twice, middle, 2 * middle, small, small - 1], "linear", middle, given.integer(0, 3)),
        ],
        # two results are worth more than the one that is dearest per byte; and the segment has two arguments
        "not greedy": [
            asked(
                [2 * wide, wide - 9, 2 * wide - 1, wide - 10, 2 * wide - 1, wide - 10],
                "gelu",
                2 * wide - 20,
                given.integer(0, 3),
                scaled=True,
            )
        ],
    }
    keys = "budget", "bytes kept", "FLOPs recomputed"
    return {name: attempt(keys, all_reached, policy_for, asked) for name, asked in parts.items()}


check.add_quiz(points=1, names="q1, q2, q3, q4", section="9.1, and What can go wrong")
