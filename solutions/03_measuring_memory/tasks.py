"""How the answers of assignment 3 are asked. Grading asks the same questions, with other numbers."""

from functools import partial

import torch
from torch import nn

from ckptlib.grading import Checks
from ckptlib.grading.tasks.inputs import Given

check = Checks(__file__)

MiB = 2**20


def columns(found, *keys):
    """A list of dicts -> a dict of lists."""
    if any(one is None for one in found):
        return dict.fromkeys(keys)
    for one in found:
        if not isinstance(one, dict):
            raise TypeError(f"returned a {type(one).__name__}, expected a dict with {', '.join(map(repr, keys))}")
    return {key: [one[key] for one in found] if all(key in one for one in found) else f"no {key!r}" for key in keys}


# ---- lists of events: (name, bytes), positive for what is taken, negative for what is given back ----


def two_equal_peaks(given):
    """The largest sum is reached after two different events; before and after there are smaller ones."""
    a, b, c = (given.integer(1000, 9000) for _ in range(3))
    n = given.integer(8, 900)
    events = [("start", 7), ("c", n), ("a", a), ("c", -n), ("b", b), ("start", -7), ("c", c)]  # c: with another size
    events += [("b", -b), ("d", b)]  # the same height again
    events += [("a", -a), ("c", -c)]
    for i in range(given.integer(2, 6)):
        n = given.integer(1, 150)
        events += [("a", n), ("a", -n)] if i % 2 else [(f"small {i}", n)]  # a name may come back
    return events


def climb(given):
    """Up, and down again, in another order; some of it stays. One has an equal, taken later, whose name comes first."""
    sizes = [(f"layer {i}", given.integer(1, 5000)) for i in range(given.integer(4, 9))]
    last = sizes[given.integer(0, 2)]
    sizes.insert(given.integer(3, len(sizes) - 1), ("input", last[1]))
    events = list(sizes)
    for name, n in reversed(sizes):
        events += [(f"gradient of {name}", n // 2 + 1), (name, -n)] if name != last[0] else []
    return events


def at_once(given):
    """The first event reaches the peak."""
    return [("only", n := given.integer(1000, 9000)), ("only", -n), ("next", given.integer(1, 900))]


@check.task(points=1.5, section="3.2", cases=3, parts=True)
def peak_of(given, peak_of):
    found = [
        peak_of(two_equal_peaks(given)),
        peak_of(climb(given)),
        peak_of(at_once(given)[:1]),
        peak_of(at_once(given)),
    ]
    return columns(found, "peak", "left", "moment")


def pairs(answer):
    if answer is None:
        return None
    entries = list(answer)
    if isinstance(answer, dict) or any(isinstance(entry, str) for entry in entries):
        what = "a dict" if isinstance(answer, dict) else "names alone"
        raise TypeError(f"returned {what}, expected a list of (name, nbytes)")
    return [list(entry) for entry in entries]


@check.task(points=1.5, section="3.2", cases=3)
def alive_at_peak(given, alive_at_peak):
    return [pairs(alive_at_peak(events)) for events in (two_equal_peaks(given), climb(given), at_once(given))]


@check.task(points=1.5, section="3.3", parts=True)
def first_block(given, first_block):
    edges = [512, MiB, MiB + 1, 10 * MiB - 512, 10 * MiB, (2 * given.integer(10, 40) + 1) * MiB]
    edges += [20 * MiB * given.integer(2, 4) - given.integer(1, MiB), 10 * MiB - given.integer(1, 511)]
    others = [given.integer(1, MiB), given.integer(MiB, 10 * MiB)]
    others += [given.integer(2 * 5, 2 * 60) * MiB + given.integer(1, MiB) for _ in range(6)]
    found = [first_block(nbytes) for nbytes in edges + others]
    return columns(found, "rounded", "pool", "segment", "allocated")


# ---- programs for an allocator ----


class Program:
    """Asks an allocator for blocks by name, and notes where they are."""

    def __init__(self, Allocator):
        self.gpu, self.blocks, self.seen = Allocator(), {}, []

    def take(self, name, nbytes):
        block = self.blocks[name] = self.gpu.malloc(nbytes)
        self.seen += [block.address, block.size]

    def give(self, *names):
        for name in names:
            self.gpu.free(self.blocks.pop(name))

    @property
    def figures(self):
        return [self.gpu.allocated, self.gpu.peak, self.gpu.reserved, *self.seen]


def less(given, size):
    """A request that gets a block of that size whole: a rest of up to 1 MiB is not cut off."""
    return size - 512 * given.integer(1, 900)


def holes(given, Allocator):
    """Free segments between others that stay, so that nothing merges; then requests that fit into more than one."""
    program = Program(Allocator)
    program.take("small", 1024 * given.integer(100, 300))
    best = 2 * MiB * given.integer(6, 9)
    first = best + 2 * MiB * given.integer(1, 3)
    largest = first + 2 * MiB * given.integer(1, 3)
    twin = best - 2 * MiB
    for i, n in enumerate([first, largest, best, twin, twin]):  # segments made to measure: each is one block
        program.take(f"wall {i}", 10 * MiB)
        program.take(i, n)
    program.take("wall", 10 * MiB)
    program.give(4, 3, 2, 1, 0)
    program.take("x", less(given, best))
    program.take("y", less(given, first))
    program.take("t", twin)
    program.take("l", MiB + 512 * given.integer(1, 900))  # would fit into the small pool's rest
    program.take("s", 512 * given.integer(1, 50))
    return program.figures


def neighbours(given, Allocator):
    """Free neighbours in every order, then ask for as much as they have together. Then across two segments.

    No request finds more than one free block that fits.
    """
    found = []
    for order in ((0, 1), (1, 0), (2, 0, 1)):
        program = Program(Allocator)
        sizes = [3 * MiB + 512 * given.integer(1, 900) for _ in range(2)]
        for i, n in enumerate(sizes):
            program.take(i, n)
        program.take(2, less(given, 20 * MiB - sum(sizes)))  # the rest of the segment
        program.give(*order)
        program.take("all of them", less(given, 20 * MiB if 2 in order else sum(sizes)))
        program.take("more", 3 * MiB)  # nothing is left: a new segment
        found += program.figures
    program = Program(Allocator)
    for name, n in (("wall", 9), ("p", 11), ("q", 9), ("q wall", 11)):  # p ends a segment, and q begins the next
        program.take(name, less(given, n * MiB) if n == 11 else n * MiB)
    program.give(*given.choice(["pq", "qp"]))
    program.take("r", 12 * MiB)
    return found + program.figures


def cache(given, Allocator):
    """Segments wholly free, partly free and in use, without anything to merge; empty the cache; then go on."""
    program = Program(Allocator)
    p = 5 * MiB + 512 * given.integer(0, 99)
    program.take("p", p)
    program.take("q", less(given, 20 * MiB - p))
    big = [less(given, 2 * MiB * given.integer(6, 20)) for _ in range(3)]
    for i, n in enumerate(big):
        program.take(f"big {i}", n)
    program.give("big 0", "big 1", "p")
    program.gpu.empty_cache()
    before = program.figures
    program.take("again", big[0])
    program.take("wall", 10 * MiB)
    program.take("p again", less(given, p))  # its segment stayed
    program.give("again", "big 2")
    program.gpu.empty_cache()
    return before + program.figures


# of the MLP, (features in, features out); a ReLU after every other one
LAYERS = [(3000, 512), (512, 700), (700, 512), (512, 700), (700, 512), (512, 10)]


def forward_events(rows, checkpointed):
    """Parameters, input and forward pass of the published MLP, with the workspaces of cuBLAS and cuBLASLt."""
    events = []
    for i, (d, k) in enumerate(LAYERS):
        events += [(f"weight {i}", 4 * d * k), (f"bias {i}", 4 * k)]
    events.append(("x", 4 * rows * 3000))
    dropped = {1: ["relu 0"], 3: ["relu 2", "y 1"]} if checkpointed else {}  # after which layer, in the segment
    sizes = {}
    for i, (_, k) in enumerate(LAYERS):
        sizes[f"y {i}"] = sizes[f"relu {i}"] = 4 * rows * k
        events += [(f"y {i}", 4 * rows * k), ("cuBLASLt", MiB)]
        events += [("cuBLAS", 8_519_680)] if i == 0 else []
        events += [("cuBLASLt", -MiB)]
        events += [(name, -sizes[name]) for name in dropped.get(i, [])]
        if i % 2 == 0:
            events += [(f"relu {i}", 4 * rows * k), (f"y {i}", -4 * rows * k)]
    return events


def forward_figures(rows, checkpointed, Allocator):
    program = Program(Allocator)
    for name, nbytes in forward_events(rows, checkpointed):
        if nbytes > 0:
            program.take(name, nbytes)
        else:
            program.give(name)
    return [program.gpu.peak, program.gpu.reserved]


def mlp_forward(given, Allocator):
    rows = given.integer(1000, 6000)
    return forward_figures(rows, False, Allocator) + forward_figures(rows, True, Allocator)


def tried(program, seed, Allocator):
    """A method that raises costs its own part only: the others draw the same numbers as ever."""
    try:
        return program(Given(seed), Allocator)
    except Exception as error:
        return error


@check.task(points=3, section="3.3", cases=3, parts=True)
def Allocator(given, Allocator):
    programs = {"best fit": holes, "merging": neighbours, "empty_cache": cache, "the MLP's forward": mlp_forward}
    found = {name: tried(program, given.integer(0, 2**40), Allocator) for name, program in programs.items()}
    errors = {name: data for name, data in found.items() if isinstance(data, Exception)}
    if len(errors) == len(found):
        raise errors["best fit"]
    return found | {name: f"raised {type(error).__name__} {error}".strip() for name, error in errors.items()}


# ---- the whole step ----


def step_of(model, optimizer, rows, wants_gradient=False, clears=False):
    update = optimizer([p for p in model.parameters() if p.requires_grad])
    width = model[0].in_features

    def step():
        model(torch.randn(rows, width, requires_grad=wants_gradient)).sum().backward()
        update.step()
        if clears:
            update.zero_grad()

    return step


def training(width, depth, rows, optimizer, wants_gradient):
    """Build a model and its optimizer; return one training step."""
    model = nn.Sequential(*[layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())])
    return step_of(model, optimizer, rows, wants_gradient)


def momentum(width, rows):
    """The peak is the optimizer's only change: those before it and after it are of other phases."""
    model = nn.Sequential(nn.Linear(width, width, bias=False))
    return step_of(model, partial(torch.optim.SGD, momentum=0.9), rows, clears=True)


def frozen(width, rows):
    """A frozen layer and a small head: an activation of the forward pass reaches the peak."""
    model = nn.Sequential(nn.Linear(width, width, bias=False), nn.ReLU(), nn.Linear(width, 8, bias=False))
    model[0].requires_grad_(False)
    return step_of(model, torch.optim.SGD, rows)


@check.task(points=1.5, section="3.6", cases=2, parts=True)
def whole_step(given, whole_step):
    wide = partial(training, given.integer(300, 700), 2, given.integer(4, 40), torch.optim.Adam, False)
    rows, depth = 1000 * given.integer(9, 20), given.integer(3, 5)
    tall = partial(training, given.integer(20, 40), depth, rows, torch.optim.SGD, True)
    one_weight = partial(momentum, given.integer(400, 700), given.integer(4, 40))
    head = partial(frozen, given.integer(300, 500), given.integer(5000, 9000))
    found = [whole_step(build) for build in (wide, tall, one_weight, head)]
    return columns(found, "forward", "step", "phase", "activations")


check.add_quiz(points=1, names="q1, q2, q3, q4", section="3.3, 3.5 and 3.6")
