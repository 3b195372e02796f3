"""How the answers of assignment 6 are asked. Grading asks the same questions, with other numbers."""

from contextlib import contextmanager
from functools import cache
from importlib import import_module
from math import inf

from torch import nn

import ckptlib as ck
from ckptlib.errors import CkptError
from ckptlib.grading import Checks
from ckptlib.grading.tasks.forbidden_calls import OwnCode

check = Checks(__file__)

NOT_YET = "not answered yet"
BUILDERS = [
    import_module(f"ckptlib.planning.{name}")
    for name in ("known_schedules", "optimal_schedule", "optimal_schedule_table")
]
own = OwnCode(
    *BUILDERS,
    says="the library's builders are switched off here: they are what you are asked to write",
    has_results=True,
)

MOST_CALLS = 500_000
TOO_MANY_CALLS = (
    "Stopped after 500,000 calls. A recurrence asks for the same shorter chain again and again: put @cache above it, "
    "so that each is solved once. If yours has one: does a loop never end?"
)


class TooManyCalls(Exception):
    pass


def at_most(most):
    """To be called at every call. An answer that takes for ever is told so; the answers after it are tested as well."""
    calls = 0

    def count():
        nonlocal calls
        calls += 1
        if calls > most:
            raise TooManyCalls

    return count


def told(function, *inputs, most=MOST_CALLS):
    """What a function gives for each input. What it raises is its answer: the other parts are asked all the same."""
    if function is None:
        return None
    error, found = "", None
    try:
        with own.only(at_most(most)):
            found = [function(*each) for each in inputs]
    except NotImplementedError:
        error = NOT_YET
    except TooManyCalls:
        error = TOO_MANY_CALLS
    except Exception as raised:
        error = f"raised {type(raised).__name__}: {raised}"
    if found and all(one is None for one in found):
        return None
    return {"error": error, "answer": found, "asked": [each for each in inputs if isinstance(each[-1], int)]}


def in_parts(found):
    """Blank answers are told so once, not part by part."""
    if all(part and part["error"] == NOT_YET for part in found.values()):
        raise NotImplementedError
    return found


def column(found, key):
    """One entry of every dict that was returned."""
    return [one.get(key, f"no {key!r}") if isinstance(one, dict) else one and "no dict" for one in found]


class Counted(nn.Module):
    """A layer that counts its runs, and notes whether a gradient came back."""

    def __init__(self, d):
        super().__init__()
        self.linear, self.calls, self.reversed = nn.Linear(d, d), 0, False

    def forward(self, x):
        self.calls += 1
        y = self.of(x)
        if y.requires_grad:
            y.register_hook(self.note)
        return y

    def of(self, x):
        return x + self.linear(x).tanh() / 4  # gradients neither vanish nor explode

    def note(self, gradient):
        self.reversed = True


class Shift(Counted):
    """Saves nothing, so autograd never asks for it again: a chunk of these runs once, whatever the schedule says."""

    def __init__(self, d):
        super().__init__(d)
        self.bias = self.linear.bias
        del self.linear  # every parameter is used: somebody may ask for the gradients of all

    def of(self, x):
        return x + self.bias


def layers_and_input(given, n):
    d = given.integer(2, 4)
    given.seeded()
    return [Counted(d) for _ in range(n)], given.normal(given.integer(2, 4), d).requires_grad_()


@check.task(points=1.5, section="6.2", cases=3, parts=True)
def periodic_cost(given, periodic_cost):
    sizes = [(given.integer(3, 12), given.integer(2, 9)) for _ in range(3)]  # stages in a chunk, chunks

    def costs(save, key):
        def asked():
            with own.only():
                return column([periodic_cost(m * k, k, save) for m, k in sizes], key)

        return asked

    return {
        "chunk saved, forwards": costs(True, "forwards"),
        "chunk saved, peak": costs(True, "peak"),
        "one stage at a time, forwards": costs(False, "forwards"),
        "one stage at a time, peak": costs(False, "peak"),
    }


def counted(count_runs, schedules, given):
    """What was returned, and how often the layers really ran."""
    inputs = []
    for schedule, shifts in schedules.items():
        layers, x = layers_and_input(given, schedule.n)
        layers[:shifts] = [Shift(x.shape[1]) for _ in range(shifts)]
        inputs.append((schedule, layers, x))
    mine = [list(layers) for _, layers, _ in inputs]
    found = told(count_runs, *inputs, most=inf)  # what watches the layers may call a lot
    return found and found | {
        "runs that happened": [[layer.calls for layer in layers] for layers in mine],
        "backward ran": [all(layer.reversed for layer in layers) for layers in mine],
    }


def lent(given, build, n, *args):
    """A schedule of the library's."""
    return ck.Schedule(n, given.library(lambda: [list(action) for action in build(n, *args).actions]))


@check.task(points=1.5, section="6.2", names="predict_runs, count_runs", cases=2, parts=True)
def runs(given, predict_runs, count_runs):
    sizes = [(given.integer(3, 7), given.integer(2, 5)) for _ in range(2)]  # stages in a chunk, chunks
    n, save = given.integer(7, 12), given.choice([True, False])
    shifts = -(-n // 3)  # the first chunk
    schedules = {lent(given, ck.periodic, n, 3, save): shifts, lent(given, ck.revolve, given.integer(5, 12), 2): 0}
    return in_parts(
        {
            "predicted, chunk saved": told(predict_runs, *((m * k, k, True) for m, k in sizes)),
            "predicted, one stage at a time": told(predict_runs, *((m * k, k, False) for m, k in sizes)),
            "measured": counted(count_runs, schedules, given),
        }
    )


@check.task(points=1, section="6.3", cases=2, parts=True)
def best_k(given, best_k):
    inputs = []
    lengths = given.choice([23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73]), given.integer(20, 90)
    for n, (low, high) in zip(lengths, ((2, 5), (7, 20)), strict=True):  # a stage saves so many times its checkpoint
        checkpoint = given.integer(2, 9)
        inputs.append((n, checkpoint, checkpoint * given.integer(low, high) + 1))
    checkpoint, n = given.integer(1, 9), given.integer(10, 40)
    inputs.append((n, checkpoint, checkpoint * given.integer(n, 3 * n)))  # each stage its own checkpoint
    root, unit = given.integer(4, 9), given.integer(1, 9)
    inputs.append((root * (root + 1), unit, unit))  # two k are equally good
    n, stage = given.integer(10, 40), given.integer(1, 9)
    inputs.append((n, stage * given.integer(n, 3 * n), stage))  # one chunk
    inputs.append((1, given.integer(1, 9), given.integer(1, 9)))

    def asked(each):
        try:
            with own.only():
                pair = best_k(*each)
            return pair.tolist() if hasattr(pair, "tolist") else pair  # of an array or a tensor
        except NotImplementedError:
            raise
        except Exception as error:  # at one of the inputs
            errors.append(f"raised {type(error).__name__}: {error} for {each}")
            return [inf, inf]

    errors = []
    found = [asked(each) for each in inputs]
    pairs = [one if isinstance(one, (tuple, list)) and len(one) == 2 else [one and "no pair"] * 2 for one in found]
    error = (errors + [""])[0]
    return {"k": {"error": error, "k": [k for k, _ in pairs]}, "peak": {"error": error, "peak": [p for _, p in pairs]}}


@check.task(points=1.5, section="6.4", names="beta, extra_forwards", cases=2, parts=True)
def bound(given, beta, extra_forwards):
    table = [(given.integer(1, 12), given.integer(0, 9)) for _ in range(5)] + [(given.integer(2, 9), 0)]
    chains = [(given.integer(20, 80), given.integer(2, 9)) for _ in range(4)]
    chains += [(1, given.integer(1, 5)), (given.integer(5, 30), 1), (given.integer(3, 9), 20)]
    slots = given.integer(2, 3)
    edge = given.choice({2: (6, 10, 15, 21), 3: (10, 20, 35)}[slots])  # the longest chains for 2, 3, 4 … repeats
    chains += [(edge, slots), (edge + 1, slots)]
    return in_parts({"beta": told(beta, *table), "extra_forwards": told(extra_forwards, *chains)})


def actions_of(listed):
    """All of them at once; a ck.Schedule has its list."""
    actions = getattr(listed, "actions", listed)
    return None if actions is None else [tuple(action) for action in actions]


def executed(given, function, n, *args):
    """Build the schedule that an answer lists, run it on real layers; tell its checkpoints, peak, runs and gradient."""
    layers, x = layers_and_input(given, n)
    listed = told(function and (lambda *asked: actions_of(function(*asked))), (n, *args))
    if listed is None:
        return None
    error, facts = listed["error"], dict.fromkeys(("checkpoints", "peak", "runs", "gradient"))
    try:
        if not error:
            schedule = ck.Schedule(n, *listed["answer"])
            ck.execute(schedule, layers, x).square().sum().backward()
            saved = {stage for kind, stage in schedule.actions if kind == "save input"}
            runs = [layer.calls for layer in layers]
            facts = {"checkpoints": sorted({0, *saved}), "peak": schedule.cost().peak, "runs": runs, "gradient": x.grad}
    except (CkptError, TypeError, ValueError) as refused:
        error = str(refused)
    return {"error": error} | facts | {"asked": [n, *args]}


@check.task(points=1.5, section="6.2", cases=2, parts=True)
def chen(given, chen):
    k, m = given.integer(4, 5), given.integer(3, 4)
    rest = given.integer(2, k - 2)  # with one, it would not matter how the rest is spread
    divides = executed(given, chen, k * m, k)
    return in_parts(
        {
            "k divides n": divides
            and divides | {"k = 1": executed(given, chen, m, 1), "k = n": executed(given, chen, m, m)},
            "k does not divide n": executed(given, chen, k * m + rest, k),
        }
    )


@contextmanager
def noted(function, name, calls):
    """Notes what `function` asks of another answer in its notebook, and what that gave: None if it raised."""
    names = getattr(function, "__globals__", {})
    other, asked = names.get(name), False

    def note(*args, **named):
        nonlocal asked
        if asked:  # it calls itself
            return other(*args, **named)
        calls.append([args, None])
        asked = True
        try:
            calls[-1][1] = other(*args, **named)
        finally:
            asked = False
        return calls[-1][1]

    if callable(other):
        names[name] = note
    try:
        yield
    finally:
        if callable(other):
            names[name] = other


LONGEST, MOST_SLOTS = 32, 6  # of the schedules that are asked for


@cache
def fewest_extra():
    """[slots][length] -> the extra forwards of the library's schedule."""
    slots, lengths = range(1, MOST_SLOTS + 1), range(1, LONGEST + 1)
    return [[], *([0, *(sum(ck.revolve(n, s).forwards()) - n for n in lengths)] for s in slots)]


def because_of_task_4(calls, fewest):
    """What to say if `revolve` was misled by `extra_forwards`, or asked it what it need not know."""
    asked = [(args, value) for args, value in calls if len(args) == 2 and min(args) >= 0 and args[0] >= 1]
    for (length, slots), value in asked:
        known = type(slots) is type(length) is int and 1 <= slots <= MOST_SLOTS and length <= LONGEST
        if known and value != fewest[slots][length]:
            return "revolve calls extra_forwards, which is not right yet: repair task 4 first."
    if any(length > 1 and slots < 1 for (length, slots), _ in asked):
        return "extra_forwards was asked for no slot at all: it knows t for one or more. With one slot left, k = l - 1."
    return ""


def revolved(given, revolve, n, slots):
    """Several cuts are equally good: they have one sum of runs, and need not have one peak, but it has a limit."""
    calls, fewest = [], given.library(fewest_extra)
    with noted(revolve, "extra_forwards", calls):
        found = executed(given, revolve, n, slots)
    if found is None:
        return None
    error = found["error"]
    ran = not error
    forwards = sum(found["runs"]) if ran else None
    beyond = max(0, found["peak"] - slots - 2) if ran else None
    if not ran or forwards > n + fewest[slots][n]:
        error = because_of_task_4(calls, fewest) or error
    return {
        "error": error,
        "forwards": forwards,
        "activations beyond slots + 2": beyond,
        "gradient": found["gradient"],
        "asked": [n, slots],
        # Two wrong schedules may have one sum: by their runs they are told apart.
        "runs": found["runs"] if beyond or forwards != n + fewest[slots][n] else None,
    }


@check.task(points=2, section="6.5", cases=2, parts=True, changes=True)
def revolve(given, revolve):
    asked = {
        "one slot": (given.integer(5, 12), 1),
        "two slots": (given.integer(10, 16), 2),
        "three or four slots": (given.integer(15, 22), given.integer(3, 4)),
        "five or six slots": (given.integer(24, 32), given.integer(5, 6)),
    }
    found = {name: revolved(given, revolve, *sizes) for name, sizes in asked.items()}
    alone, n = revolved(given, revolve, 1, given.integer(1, 2)), given.integer(3, 5)
    spare = alone and alone | {"slots to spare": revolved(given, revolve, n, n + given.integer(0, 1))}
    return in_parts(found | {"one stage, or as many slots as stages": spare})


check.add_quiz(points=1, names="q1, q2, q3, q4", section="6.2 to 6.6")
