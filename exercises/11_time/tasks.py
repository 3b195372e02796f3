"""How the answers of assignment 11 are asked. Grading asks the same questions, with other numbers."""

from ckptlib.grading import Checks

check = Checks(__file__)


def entries(answers, names):
    """A list of dicts -> a dict of lists; "missing" for an entry that some dict lacks."""
    for answer in answers:
        if answer is not None and not isinstance(answer, dict):
            expected = ", ".join(map(repr, names))
            raise TypeError(f"returned a {type(answer).__name__}, expected a dict with {expected}")
    if any(answer is None for answer in answers):
        return dict.fromkeys(names)
    whole = {name for name in names if all(name in answer for answer in answers)}
    return {name: [answer[name] for answer in answers] if name in whole else "missing" for name in names}


# ---- Task 1 ----
@check.task(points=2, section="11.1", parts=True)
def op_time(given, op_time):
    peak, bandwidth = given.integer(100, 400) * 10**12, given.integer(12, 40) * 10**11
    n, wide = given.integer(700, 900), given.integer(6000, 9000)
    asked = [
        ("matmul", (n, given.integer(3, 9), n + 11)),  # bytes decide
        ("matmul", (wide, wide + 3, wide + 7)),  # FLOPs decide
        ("gelu", (n, given.integer(3000, 5000))),
        ("add", (n, given.integer(3000, 5000))),
        ("matmul", (1, 1, wide)),  # bytes decide, and there are more of them than FLOPs
    ]
    itemsize = given.choice([1, 8])  # neither 2 nor 4, so that a number typed in is seen
    itemsizes = [itemsize, 9 - itemsize, itemsize, 9 - itemsize, 9 - itemsize]
    found = [op_time(*op, size, peak, bandwidth) for op, size in zip(asked, itemsizes, strict=True)]
    return entries(found, ("flops", "nbytes", "seconds", "limit"))


# ---- Task 2 ----
PEAK, BANDWIDTH = 10**14, 10**12


def one_op(given, low, high):
    """(FLOPs, bytes) of an op, half of the time a product. Low and high are the microseconds that it may take."""
    nbytes = given.integer(low, high) * 10**6
    return (given.integer(2 * low, 2 * high) * 10**8 if given.choice([True, False]) else 0, nbytes)


@check.task(points=2, section="11.1 and 11.4", parts=True)
def rank(given, rank):
    def ask(low, high, launch, more):
        """The seconds of four plans for a layer whose backward ends in the op `more`."""
        forward = [(given.integer(low + 10, high + 20) * 10**8, low * 10**6), (0, given.integer(low, high) * 10**6)]
        forward += [one_op(given, low, high) for _ in range(6)]
        backward = [one_op(given, low, high) for _ in range(9)] + [more]
        plans = {"none": [], "one": [3], "some": [1, 2, 5], "all": list(range(8))}
        found = rank(forward, backward, plans, PEAK, BANDWIDTH, launch)
        seconds = entries([found], ["seconds"])["seconds"]
        if not isinstance(seconds, list):  # None, or "missing"
            return seconds
        (by_name,) = seconds
        if not isinstance(by_name, dict) or set(by_name) != set(plans):
            raise TypeError(f'"seconds" is expected to be a dict with the names of the plans: {", ".join(plans)}')
        return [by_name[name] for name in plans]

    def seconds(*cases):
        found = [ask(*case) for case in cases]
        odd = [each for each in found if not isinstance(each, list)]
        return odd[0] if odd else sum(found, [])

    # among the long kernels, the FLOPs have the larger sum once, and the bytes once
    long = seconds((30, 90, 5e-6, (10**12, 10**6)), (30, 90, 5e-6, (10**8, 10**10)))
    # all are shorter than a launch; or one is longer, while the host launches the others
    short = seconds((1, 3, 2e-4, (10**8, 10**6)), (1, 3, 2e-4, (0, given.integer(900, 1300) * 10**6)))

    few, many = given.integer(10, 20), given.integer(60, 90)  # microseconds
    forward = [(few * 10**8, 10**6), (0, many * 10**6), (3 * many * 10**8, 10**6), (0, (many + 20) * 10**6)]
    plans = {"c": [1, 3], "a": [0, 2], "d": [0], "b": [0, 1]}  # in this order: no sum sorts them right but seconds
    names = entries([rank(forward, [(many * 10**8, 10**6)], plans, PEAK, BANDWIDTH, 5e-6)], ["order"])["order"]
    if isinstance(names, list):
        names = [list(each) if isinstance(each, (list, tuple)) else each for each in names]
    return {"long kernels": long, "short kernels": short, "order": names}


# ---- Task 3 ----
class Gpu:
    """The chapter's GPU: the host launches kernels, which run later, one after another. All times in microseconds."""

    def __init__(self, kernels, launch, warm_up=0, late=(), queued=0):
        self.now, self.done, self.calls = 0, queued, 0
        self.kernels, self.cost, self.warm_up, self.late = kernels, launch, warm_up, dict(late)

    def clock(self):
        return self.now

    def synchronize(self):
        self.now = max(self.now, self.done)

    def step(self):
        self.calls += 1
        self.now += self.warm_up if self.calls == 1 else self.late.get(self.calls, 0)
        for kernel in self.kernels:
            self.now += self.cost
            self.done = max(self.now, self.done) + kernel


def benched(bench, runs, gpu):
    found = bench(gpu.step, gpu.clock, gpu.synchronize, runs)
    return found, gpu.calls


def delays(given, runs):
    """By how much each timed run is late: a third of them by very much, and all by a different time.

    The first run, the last one and the one in the middle are neither the least nor the median nor the most.
    """
    little = [7 * i + given.integer(1, 6) for i in range(runs - runs // 3)]
    much = [2000 * (i + 1) + given.integer(1, 900) for i in range(runs // 3)]
    first, middle, last = little.pop(1), much.pop(0), much.pop(0)
    rest = sorted(little + much, key=lambda _: given.integer(0, 10**9))
    half = runs // 2
    return dict(enumerate([first, *rest[: half - 1], middle, *rest[half - 1 :], last], start=2))  # call 1: the warm-up


@check.task(points=2.5, section="11.3", parts=True)
def bench(given, bench):
    launch = given.integer(3, 9)
    kernels = [given.integer(60, 300) for _ in range(given.integer(4, 9))]
    warm_up, queued = given.integer(10, 90) * 10**4, given.integer(20, 90) * 1000
    runs = 2 * given.integer(4, 6) + 1
    plain, first = Gpu(kernels, launch), Gpu(kernels, launch, warm_up, queued=queued)
    late = delays(given, runs)
    noisy = Gpu(kernels, launch, warm_up=10**5, late=late)
    asked = (5, plain), (1, first), (runs, noisy)

    def calls():
        found = [benched(bench, n, Gpu(kernels, launch)) for n, _ in asked]
        return None if any(value is None for value, _ in found) else [calls for _, calls in found]

    parts = {
        name: lambda n=n, gpu=gpu: benched(bench, n, gpu)[0]
        for name, (n, gpu) in zip(("launches", "first run", "noise"), asked, strict=True)
    }
    return {**parts, "calls": calls}


# ---- Task 4 ----
@check.task(points=2.5, section="11.5", cases=3, parts=True)
def winning(given, winning):
    plain = given.integer(2, 6)
    again = 20 * given.integer(40, 90)
    spare = plain * given.integer(2, 9) * 10  # of the fixed time, beyond what is lost
    while again * plain**2 % spare == 0:  # then the least batch that wins would be next to a tie
        spare += 1
    fixed, each = again * plain + spare, given.integer(3000, 9000)
    smallest = fixed * plain // spare + 1  # the least batch that wins
    names = ("break_even", "smallest", "gain")
    wins = (fixed, each, again, plain, smallest + given.integer(3, 40))
    exact = (6 * again, each, again, 3, 6 + given.integer(1, 30))  # with 6 it is a tie
    at_most = (6 * again, each, again, 3, 7)  # the last batch that fits is the first that wins
    late = (fixed, each, again, plain, smallest - 1)
    tie = (6 * again, each, again, 3, 6)
    never = (again * plain - given.integer(1, 500), each, again, plain, 10**6)
    even = (again * plain, each, again, plain, 10**6)
    cases = wins, exact, at_most, late, tie, never, even

    def part(name, *numbers):
        """What is asked about one entry. What raises where no batch wins costs that part alone."""
        return lambda: entries([winning(*cases[i]) for i in numbers], names)[name]

    return {
        "break_even": part("break_even", 0, 1, 2, 3, 4),
        "smallest": part("smallest", 0, 1, 2),
        "no batch wins": part("smallest", 3, 4, 5, 6),
        "gain": part("gain", 0, 1, 2, 3, 4),
    }


check.add_quiz(points=1, names="q1, q2, q3, q4", section="11.2 to 11.5")
