"""How the answers of assignment 7 are asked. Grading asks the same questions, with other numbers."""

import random
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from itertools import accumulate
from math import inf

import torch
from torch import nn

import ckptlib as ck
from ckptlib.grading import Checks
from ckptlib.planning.budget_search import NoPlanFits

check = Checks(__file__)
profiler = import_module("ckptlib.planning.profile_stages")


# ---- what the notebook uses, too ----
def linears(widths, hidden):
    """A chain of pairs of linear layers: widths[i] -> hidden[i] -> widths[i + 1]."""
    sizes = zip(widths, hidden, widths[1:], strict=False)
    return nn.Sequential(*(nn.Sequential(nn.Linear(d, h), nn.Linear(h, k)) for d, h, k in sizes))


def blocks(widths, hidden):
    """The same with a GELU between each pair."""
    sizes = zip(widths, hidden, widths[1:], strict=False)
    return nn.Sequential(*(nn.Sequential(nn.Linear(d, h), nn.GELU(), nn.Linear(h, k)) for d, h, k in sizes))


def _peak(stages, x, step, counts):
    for tensor in (x, *nn.ModuleList(stages).parameters()):
        tensor.grad = None
    line = ck.measure(step).timeline
    return max(accumulate(c.nbytes for c in (*line.start, *line.changes) if counts(c.owner)))


def activation_peak(schedule, stages, x):
    """Run a schedule; the most bytes of inputs and activations that were alive at once, gradients not counted."""
    rng_state = torch.get_rng_state().shape

    def counts(owner):
        return owner.category not in ("parameter", "gradient", "temporary") and owner.shape not in ((), rng_state)

    return _peak(stages, x, lambda: ck.execute(schedule, stages, x).sum().backward(), counts)


def loss(y):
    """A sum whose gradient has bytes of its own, as a real loss's has: a bare sum's is one number seen as many."""
    y.register_hook(torch.clone)
    return y.sum()


def chain_peak(schedule, stages, x):
    """Run a schedule; the most bytes of the chain that were alive at once, as `ck.optimal` counts them."""
    rng_state = torch.get_rng_state().shape

    def counts(owner):
        of_weights = owner.category == "parameter" or (owner.category == "gradient" and owner.name)
        return not of_weights and owner.shape not in ((), rng_state)

    return _peak(stages, x, lambda: loss(ck.execute(schedule, stages, x)).backward(), counts)


# ---- Task 1 ----
def falling(given, n):
    """Bytes of n stages, large ones first: inputs and outputs x, everything kept xbar."""
    sizes = sorted((given.integer(10, 90) for _ in range(n)), reverse=True)
    x = [given.integer(5, 60), *sizes]
    return x, [out + given.integer(20, 150) for out in sizes]


def starts_of(given, n, k):
    """The first stages of k segments of unequal length."""
    rest = list(range(1, n))
    while len(rest) > k - 1:
        rest.remove(given.choice(rest))
    return [0, *rest]


@check.task(points=2, section="7.2", cases=3, parts=True)
def predict_peak(given, predict_peak):
    n = given.integer(8, 14)
    x, xbar = falling(given, n)
    k = given.integer(3, 5)
    # the other way round: small stages first, whose inputs are checkpoints that stay long
    up, up_bar = [x[0], *sorted(x[1:])], sorted(xbar)
    one, one_bar = falling(given, 1)
    starts, others = starts_of(given, n, k), starts_of(given, n, k)
    return {
        "large stages first": lambda: predict_peak(list(x), list(xbar), starts),
        "small stages first": lambda: predict_peak(list(up), list(up_bar), others),
        "one segment": lambda: [predict_peak(list(x), list(xbar), [0]), predict_peak(one, one_bar, [0])],
        "a segment for each stage": lambda: predict_peak(list(x), list(xbar), list(range(n))),
    }


# ---- Task 2 ----
def breaking(given, decoy, k):
    """k segments of k similar stages, but for one layer; with a decoy, a larger one where it does no harm.

    The decoy is in the segment that keeps most; its output is a checkpoint, so the next segment makes the peak. There
    another stage keeps most, its output: to rewrite that one saves less.
    """
    n = k * k
    x = [given.integer(5, 15)]
    while len(x) <= n:
        x.append(given.choice([size for size in range(5, 16) if size != x[-1]]))  # input and output differ
    guilty = given.integer(1 if decoy else 0, k - 2)  # its segment, not the last one
    layer = guilty * k + given.integer(0, k - 1)
    if decoy:
        x[guilty * k] = 140 * k
        x[given.choice([i for i in range(guilty * k, guilty * k + k - 1) if i != layer]) + 1] += 60
    xbar = [out + given.integer(20, 25) for out in x[1:]]
    for i in range(guilty * k, guilty * k + k):
        xbar[i] += 140 if decoy else 50
    xbar[layer] += 30 if decoy else 30 * k
    if decoy:
        xbar[guilty * k - 1] += 180
    return x, xbar


@check.task(points=1.5, section="7.2", cases=3, parts=True)
def breaker(given, breaker):
    sides = [given.choice([3, 4, 5]) for _ in range(2)]
    sides.append(given.choice([k for k in (3, 4, 5) if k not in sides]))  # never of one length alone
    chains = {
        name: [breaking(given, decoy, k) for k in (sides if decoy else sides[::-1])[1:]]
        for name, decoy in (("one large layer", False), ("two large layers", True))
    }

    def found(x, xbar):
        answer = breaker(list(x), list(xbar))
        if answer is not None and (isinstance(answer, (int, float, str)) or len(answer) != 2):
            raise TypeError(f"returned {answer!r}, expected two numbers, (stage, nbytes)")
        return answer

    return {name: lambda asked=asked: _all(found(*chain) for chain in asked) for name, asked in chains.items()}


def _all(found):
    """The answers as a list, or None if one of them is None."""
    found = list(found)
    return None if any(one is None for one in found) else found


# ---- Task 3 ----
def times(seed, cheap):
    """A stand-in for the shorter chains: times that mean nothing, but for those in `cheap`, which are small."""

    def best(s, t, m):
        if m < 0:
            return inf
        if s > t:
            return 0
        number = random.Random(f"{seed} {s} {t} {m}").randint(3000, 9000)
        return number // 10 if (s, t) in cheap else number

    return best


@check.task(points=2, section="7.3", cases=3, parts=True)
def first_choice(given, first_choice):
    n = given.integer(7, 11)
    f, b = ([given.integer(5, 30) for _ in range(n)] for _ in range(2))
    x = [given.integer(5, 20)]
    while len(x) <= n:
        x.append(given.choice([size for size in range(5, 21) if size != x[-1]]))  # input and output differ
    xbar = [out + given.integer(21, 40) for out in x[1:]]
    s = given.integer(0, 2)
    t = given.integer(s + 3, n - 1)
    u, seed = given.integer(s + 2, t - 1), given.integer(0, 10**9)

    def ask(s, t, m, *cheap):
        time = first_choice(times(seed, cheap), s, t, m, list(f), list(b), list(x), list(xbar))
        if isinstance(time, (tuple, list)):
            raise TypeError(f"returned {time!r}, expected one number: the time alone")
        return time

    def unless_inf(stages, m):
        time = ask(*stages, m)
        return "" if time == inf else f"{time} was returned where m = {m} bytes are not enough: expected inf"

    more = given.integer(1, 4)
    return {
        "to keep everything is best": lambda: ask(s, t, 200, (s + 1, t)),
        "a checkpoint is best": lambda: _all(
            [
                ask(s, t, 200, (u, t), (s, u - 1)),
                ask(s, t, 200, (t, t), (s, t - 1)),
                ask(s, t, xbar[s] - 1, (s + 1, t), (s, s)),  # too little to keep everything of s
            ]
        ),
        "a single stage": lambda: _all([ask(t, t, xbar[t]), ask(t, t, xbar[t] + more)]),
        "nothing fits": lambda: [unless_inf((s, t), min(x) - 1), unless_inf((t, t), xbar[t] - 1)],
    }


# ---- Task 4 ----
@check.task(points=1.5, section="7.3", cases=3, parts=True)
def smallest_budget(given, smallest_budget):
    n = 2 * given.integer(4, 6)
    x = [given.integer(10, 60) for _ in range(n + 1)]
    xbar = [out + given.integer(5, 120) for out in x[1:]]
    middle = given.integer(n // 2 - 1, n // 2 + 1)

    def ask(*allowed, stages=n):
        return smallest_budget(x[: stages + 1], xbar[:stages], set(allowed))

    return {
        "checkpoints anywhere": lambda: _all([ask(*range(n)), ask(0, stages=1)]),
        "at every second stage": lambda: ask(*range(0, n, 2)),
        "in one place, or in none": lambda: _all([ask(0, middle), ask(0)]),
    }


# ---- Task 5 ----
def flops_of(stages, rows):
    return [2 * rows * (s[0].in_features + s[-1].out_features) * s[0].out_features for s in stages]


@contextmanager
def false_clock():
    """While an answer plans, the profiler's seconds mean nothing: the more weights a stage has, the fewer."""

    def seconds(stage, x, own):
        false = 1 / (1 + sum(t.numel() for t in own[1:]))
        return false, false

    before = profiler._timed
    profiler._timed = seconds
    try:
        yield
    finally:
        profiler._timed = before


LEFT_GRADIENTS = (
    "plan_model has left gradients in .grad. Free them, or measure with ck.profile_chain, which leaves none"
)


def planned(plan_model, stages, x, budget):
    try:
        with false_clock():
            schedule = plan_model(stages, x, budget)
    except NoPlanFits:
        hint = "ck.optimal(costs, budget) plans a chain"
        raise ValueError(
            f"The budget is the chain's, and ck.plan takes one for a whole training step: {hint}"
        ) from None
    if schedule is not None and not isinstance(schedule, ck.Schedule):
        kind = type(schedule).__name__
        where = ": the plan's .schedule" if hasattr(schedule, "schedule") else ""
        raise TypeError(f"a {kind} was returned, expected a ck.Schedule{where}")
    if any(tensor.grad is not None for tensor in (x, *stages.parameters())):
        raise ValueError(LEFT_GRADIENTS)
    return schedule


def run(plan_model, stages, x, budgets):
    (right,) = torch.autograd.grad(stages(x).sum(), x)
    fits, gradients, work = [], [], []
    for budget in budgets:
        x.grad = None
        stages.zero_grad()
        schedule = planned(plan_model, stages, x, budget)
        if schedule is None:
            return None
        fits.append(chain_peak(schedule, stages, x) <= budget)  # runs it, forward and backward
        gradients.append(((x.grad - right).norm() < 1e-3 * right.norm()).item())
        work.append(sum(a * b for a, b in zip(schedule.forwards(), flops_of(stages, len(x)), strict=True)))
    return {"fits in the budget": all(fits), "gradients are right": all(gradients), "FLOPs of all forwards": work}


@cache
def limits(widths, hidden, rows):
    """The bytes of a plain step of such a chain, and the smallest budget into which a schedule fits."""
    stages, x = blocks(widths, hidden), torch.ones(rows, widths[0], requires_grad=True)
    plain = chain_peak(ck.store_all(len(stages)), stages, x)
    try:
        ck.optimal(ck.profile_chain(stages, x, repeats=1), 0)
    except ck.CkptError as error:
        return plain, error.smallest


@check.task(points=2, section="7.4", cases=2, parts=True)
def plan_model(given, plan_model):
    ends = {"narrow": (6, 12), "middle": (28, 40), "wide": (80, 120)}  # widths whose products and sums rank otherwise
    turns = "narrow wide narrow middle middle middle wide narrow middle".split()
    funnel = sorted(given.integer(*sizes) for sizes in 4 * [(40, 90)] + 2 * [(16, 40)] + 3 * [(6, 16)])
    hidden = [given.integer(20, 80) for _ in range(8)]
    chains = {
        "wide and narrow in turn": ([given.integer(*ends[name]) for name in turns], given.integer(8, 24)),
        "a funnel": (funnel[::-1], given.integer(8, 24)),
    }
    percents = given.integer(50, 56), given.integer(66, 74)
    parts = {}
    for name, (widths, rows) in chains.items():
        given.seeded()
        asked = blocks(widths, hidden), given.normal(rows, widths[0]).requires_grad_()
        plain, least = limits(tuple(widths), tuple(hidden), rows)
        budgets = [plain * percent // 100 for percent in percents]
        parts[name] = lambda asked=asked, budgets=budgets: run(plan_model, *asked, budgets)
    parts["the smallest budget"] = lambda: run(plan_model, *asked, [least])  # of the last chain, the funnel
    return parts


check.add_quiz(points=1, names="q1, q2, q3, q4", section="7.3 to 7.6")
