"""How the answers of assignment 3 are asked. Grading asks the same questions, with other numbers."""

from functools import partial

import torch
from torch import nn

from ckptlib.grading import Checks

check = Checks(__file__)

MiB = 2**20


def column(found, key):
    """One entry of every dict that was returned."""
    if any(one is None for one in found):
        return None
    return [one.get(key, f"no {key!r}") if isinstance(one, dict) else one for one in found]


# ---- lists of events: (name, bytes), positive for what is taken, negative for what is given back ----


def two_equal_peaks(given):
    """The largest sum is reached after two different events; before and after there are smaller ones."""
    a, b, c = (given.integer(1000, 9000) for _ in range(3))
    events = [("start", 7), ("a", a), ("b", b), ("start", -7), ("c", c)]
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


@check.task(points=1.5, section="3.2", cases=3, parts=True)
def peak_of(given, peak_of):
    found = [peak_of(two_equal_peaks(given)), peak_of(climb(given))]
    return {key: column(found, key) for key in ("peak", "left", "moment")}


@check.task(points=1.5, section="3.2", cases=3)
def alive_at_peak(given, alive_at_peak):
    return [[list(entry) for entry in alive_at_peak(events)] for events in (two_equal_peaks(given), climb(given))]


@check.task(points=1.5, section="3.3", parts=True)
def first_block(given, first_block):
    edges = [512, MiB, MiB + 1, 10 * MiB - 512, 10 * MiB, (2 * given.integer(10, 40) + 1) * MiB]
    others = [given.integer(1, MiB), given.integer(MiB, 10 * MiB)]
    others += [given.integer(2 * 5, 2 * 60) * MiB + given.integer(1, MiB) for _ in range(6)]
    found = [first_block(nbytes) for nbytes in edges + others]
    return {key: column(found, key) for key in ("rounded", "pool", "segment", "allocated")}


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


def holes(given, Allocator):
    """Holes of several sizes between blocks that stay, two of them equal; then requests that fit into more than one."""
    program = Program(Allocator)
    sizes = [2 * MiB + 512 * given.integer(0, 300) for _ in range(3)]
    sizes = [sizes[0] + 2 * MiB, sizes[1] + 3 * MiB, sizes[2]]  # neither the first hole nor the largest is the best
    for i, n in enumerate(sizes):
        program.take(f"hole {i}", n)
        program.take(f"wall {i}", 2 * MiB)
    twin = MiB + 512 * given.integer(1, 300)
    for i in range(2):
        program.take(f"twin {i}", twin)
        program.take(f"twin wall {i}", 2 * MiB)
    program.take("small hole", 1024 * given.integer(100, 300))
    program.take("small wall", 512)
    program.take("small rest", 2 * MiB - 400 * 1024)
    program.give("hole 0", "hole 1", "hole 2", "twin 1", "twin 0", "small hole")
    program.take("x", sizes[2] - 512 * given.integer(0, 9))
    program.take("y", sizes[0] - 512 * given.integer(0, 9))
    program.take("z", 512 * given.integer(1, 50))
    program.take("t", twin)
    return program.figures


def neighbours(given, Allocator):
    """Free neighbours in every order, then ask for as much as they have together. Then across two segments."""
    found = []
    for order in ((0, 1), (1, 0), given.choice([(0, 2, 1), (2, 0, 1)])):
        program = Program(Allocator)
        sizes = [MiB + 512 * given.integer(1, 900) for _ in order]
        for i, n in enumerate(sizes):
            program.take(i, n)
        program.take("wall", 3 * MiB)
        program.give(*order)
        program.take("all of them", sum(sizes))
        found += program.figures
    for name in ("p", "q"):  # each takes a segment of 20 MiB; p's end is free, and q begins behind it
        program.take(name, 10 * MiB - 512 * given.integer(1, 900))
        program.take(f"{name} wall", 8 * MiB)
    program.give("q")
    program.take("r", 9 * MiB + 512 * given.integer(0, 900))
    return found + program.figures


def cache(given, Allocator):
    """Segments wholly free, partly free and in use; empty the cache; then go on."""
    program = Program(Allocator)
    big = [given.integer(10, 40) * MiB + given.integer(1, 2 * MiB) for _ in range(3)]
    for i, n in enumerate(big):
        program.take(f"big {i}", n)
    for name in ("p", "q"):
        program.take(name, 5 * MiB + 512 * given.integer(0, 99))
    program.take("small", given.integer(1, MiB))
    program.give("big 0", "big 2", "p", "small")
    program.gpu.empty_cache()
    before = program.figures
    program.take("again", big[0])
    program.give("q", "again", "big 1")
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


def tried(program, given, Allocator):
    """A method that raises costs its own part only."""
    try:
        return program(given, Allocator)
    except Exception as error:
        return error


@check.task(points=3, section="3.3", cases=3, parts=True)
def Allocator(given, Allocator):
    programs = {"best fit": holes, "merging": neighbours, "empty_cache": cache, "the MLP's forward": mlp_forward}
    found = {name: tried(program, given, Allocator) for name, program in programs.items()}
    errors = {name: data for name, data in found.items() if isinstance(data, Exception)}
    if len(errors) == len(found):
        raise errors["best fit"]
    return found | {name: f"raised {type(error).__name__} {error}".strip() for name, error in errors.items()}


# ---- the whole step ----


def training(width, depth, rows, optimizer, wants_gradient):
    """Build a model and its optimizer; return one training step."""
    model = nn.Sequential(*[layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())])
    update = optimizer(model.parameters())

    def step():
        model(torch.randn(rows, width, requires_grad=wants_gradient)).sum().backward()
        update.step()

    return step


@check.task(points=1.5, section="3.6", cases=2, parts=True)
def whole_step(given, whole_step):
    wide = partial(training, given.integer(300, 700), 2, given.integer(4, 40), torch.optim.Adam, False)
    rows, depth = 1000 * given.integer(9, 20), given.integer(3, 5)
    tall = partial(training, given.integer(20, 40), depth, rows, torch.optim.SGD, True)
    found = [whole_step(wide), whole_step(tall)]
    return {key: column(found, key) for key in ("forward", "step", "phase", "activations")}


check.add_quiz(points=1, names="q1, q2, q3, q4", section="3.3, 3.5 and 3.6")
