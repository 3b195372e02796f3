"""How the answers of assignment 5 are asked. Grading asks the same questions, with other numbers."""

import re
from functools import wraps
from importlib import import_module

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

import ckptlib as ck
from ckptlib.grading import Checks
from ckptlib.grading.tasks.forbidden_calls import OwnCode
from ckptlib.grading.tasks.inputs import Given

check = Checks(__file__)

CHECKPOINTS = [import_module(name) for name in ("torch.utils.checkpoint", "ckptlib.recompute", "ckptlib.planning")]
own = OwnCode(
    *CHECKPOINTS,
    says="That is PyTorch's checkpoint, or the library's. Here the Function is to be yours, all of it",
)


class Counted(nn.Module):
    """A module, and how often it was called."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.calls = inner, 0

    def forward(self, *args, **named):
        self.calls += 1
        return self.inner(*args, **named)


def counted(fn):
    """The same, and how often it was called. A module stays a module, and a function a function."""
    if isinstance(fn, nn.Module):
        return Counted(fn)

    @wraps(fn)
    def run(*args, **named):
        run.calls += 1
        return fn(*args, **named)

    run.calls = 0
    return run


def kept_nbytes(run, parameters=()):
    """What autograd keeps after `run()`, each storage once, parameters left out; and what `run` returned."""
    storages = {}

    def pack(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        result = run()
    for parameter in parameters:
        storages.pop(parameter.untyped_storage().data_ptr(), None)
    return sum(storage.nbytes() for storage in storages.values()), result


def digests(tensors):
    """One number for each tensor, which changes with every element."""
    found = []
    for t in tensors:
        elements = () if t is None else t.detach().double().flatten()
        factors = torch.arange(1, len(elements) + 1, dtype=torch.float64).cos()
        found.append("no gradient" if t is None else (elements * factors).sum().item())
    return found


def told(*keys):
    """What a part raises is its answer: the other parts are asked all the same."""

    def decorate(function):
        @wraps(function)
        def run(seed, *args, **options):
            try:
                return {"error": ""} | dict(zip(keys, function(seed, *args, **options), strict=True))
            except NotImplementedError:
                error = "not answered"
            except Exception as e:
                error = f"{type(e).__name__}: {in_short(str(e))}"
            return {"error": error} | dict.fromkeys(keys, seed)

        return run

    return decorate


def in_short(message):
    """The first sentence, without the name of the class: it may be called anything."""
    message = re.sub(r"\b[Ff]unction \w+Backward\b", "your backward", message)
    message = re.sub(r"\b\w+\.((for|back)ward\(\))", r"\1", message)
    return message.split(". ")[0].split(" (")[0][:100]


def node(Function, y, args):
    """Whose node made y, and does it take args? Nothing else may have been left in the graph."""
    made = y.grad_fn
    if not (isinstance(Function, type) and getattr(type(made), "_forward_cls", None) is Function):
        return f"a node {type(made).__name__}"
    sources = [a if a.grad_fn is None else a.grad_fn for a in args if isinstance(a, torch.Tensor)]
    taken = [before for before, _ in made.next_functions if before is not None]
    others = [n for n in taken if not any(source is getattr(n, "variable", n) for source in sources)]
    return f"yours, after a node {type(others[0]).__name__}" if others else "yours"


def once(node):
    """A backward that starts from its own node calls itself, on ever more threads, until no memory is left."""
    runs = []

    def count(dys):
        runs.append(1)
        if len(runs) > 1:
            raise RuntimeError("backward calls itself: what forward returned is on ctx, and its graph is this node")

    if node is not None:
        node.register_prehook(count)


@told(
    "runs in forward",
    "runs in backward",
    "node",
    "kept bytes",
    "outputs",
    "tensors with a .grad",
    "gradients",
    "number drawn after the step",
    "arguments that require a gradient",
)
@own.only()
def asked(seed, Function, fn, args, generator=None, layers=None, by_grad=False):
    """One step through `Function.apply(fn, *args)`.

    generator: the one that fn draws from   layers: modules before and behind it   by_grad: by torch.autograd.grad
    """
    before, behind = layers or (nn.Identity(), nn.Identity())
    modules = [m for m in (before, fn, behind) if isinstance(m, nn.Module)]
    weights = [p for module in modules for p in module.parameters()]
    inputs = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad and not isinstance(a, nn.Parameter)]
    segment, args = counted(fn), [before(a) if layers and i == 0 else a for i, a in enumerate(args)]
    generator = generator or torch.default_generator

    def begin():
        generator.manual_seed(seed)
        torch.rand(3, generator=generator)  # somebody has drawn before: the seed alone does not lead here

    begin()
    kept, _ = kept_nbytes(lambda: Function.apply(segment, *args), weights)
    segment.calls = 0  # hooks see tensors of their own: gradients come from a second call, without them
    begin()
    ys = Function.apply(segment, *args)
    in_forward, segment.calls = segment.calls, 0
    Function.apply(counted(fn), *args)  # another call, before the backward of this one
    ys = (ys,) if isinstance(ys, torch.Tensor) else ys
    made_by = node(Function, ys[0], args)
    once(ys[0].grad_fn)
    torch.rand(5, generator=generator)  # somebody else draws between forward and backward
    ends = [behind(y) for y in ys if y.requires_grad]
    dys = [Given(seed + i).normal(*y.shape, dtype=y.dtype) for i, y in enumerate(ends)]
    wanted = inputs + weights
    if by_grad:
        gradients = torch.autograd.grad(ends, wanted, dys, allow_unused=True)
    else:
        torch.autograd.backward(ends, dys)
        gradients = [t.grad for t in wanted]
    return (
        in_forward,
        segment.calls,
        made_by,
        kept,
        digests(ys),
        sum(t.grad is not None for t in wanted),
        digests(gradients),
        torch.rand((), generator=generator).item(),
        sum(isinstance(a, torch.Tensor) and a.requires_grad for a in args),
    )


def two_layers(given, d, dtype=torch.float32):
    given.seeded()
    k = given.integer(2, 4)
    return nn.Sequential(nn.Linear(d, k), nn.Tanh(), nn.Linear(k, d)).to(dtype)


def seed_of(given):
    return given.integer(0, 2**31)


@check.task(points=1.5, section="5.2 and 5.5", names="Weights", parts=True)
def weights(given, Weights):
    n, d = given.integer(1, 4), given.integer(2, 4)
    dtype = given.choice([torch.float32, torch.float64])
    x = given.normal(n, d, dtype=dtype)
    alone, before, amid, behind = (two_layers(given, d, dtype) for _ in range(4))
    leaf, turned = x.clone().requires_grad_(), reversed(list(amid.parameters()))

    def waves(x):
        return x.sin() * x

    return {
        "data, by autograd.grad": asked(seed_of(given), Weights, alone, [x, *alone.parameters()], by_grad=True),
        "between layers": asked(seed_of(given), Weights, amid, [leaf, *turned], layers=(before, behind)),
        "a function without weights": asked(seed_of(given), Weights, waves, [x.clone().requires_grad_()]),
    }


class Dropped(nn.Module):
    """Two layers, and between them dropout that draws from a generator of its own."""

    def __init__(self, net, p):
        super().__init__()
        self.net, self.p = net, p

    def forward(self, x, generator):
        h = self.net[:2](x)
        return self.net[2](h * (torch.rand(h.shape, generator=generator) > self.p))


@check.task(points=1.5, section="5.3", names="Masks", parts=True)
def masks(given, Masks):
    n, d = given.integer(3, 4), given.integer(3, 4)

    def noise(x, generator):
        return x * torch.rand(x.shape, generator=generator)

    def drawn(fn):
        generator = torch.Generator()
        return asked(seed_of(given), Masks, fn, [x.clone().requires_grad_(), generator], generator)

    x = given.normal(n, d)
    return {
        "dropout": drawn(Dropped(two_layers(given, d), given.choice([0.3, 0.5]))),
        "noise": drawn(noise),
    }


@check.task(points=2, section="5.2 and 5.4", names="Arguments", parts=True)
def arguments(given, Arguments):
    n, d = given.integer(2, 4), given.integer(2, 4)
    power, scale = given.integer(2, 4), given.integer(2, 9)
    a, b, c = (given.normal(n, d) for _ in range(3))
    mask = given.normal(n, d) > 0

    def need(t):
        return t.clone().requires_grad_()

    def two(*, a, b, c):
        return (a * b.exp()).sin() * c

    def numbers(*, scale, a, how, b, power, bias):
        return (a**power * getattr(torch, how)(b)) / scale + (0 if bias is None else bias)

    def masked(*, constant, mask, a):
        return (a * constant).exp().masked_fill(mask, 0.0)

    def outputs(*, a, b):
        return (a * b).tanh(), a.argmax(1), b.square().sum(1), a.detach().cos()

    def by_name(fn, **named):
        return asked(seed_of(given), Arguments, fn, [tuple(named), *named.values()])

    twice = need(a)
    named = {"power": power, "a": need(a), "how": "cos", "bias": None, "b": need(b), "scale": scale}
    return {
        "tensors, one of them twice": by_name(two, b=need(b), a=twice, c=twice),
        "numbers, text and None between tensors": by_name(numbers, **named),
        "a mask and a constant": by_name(masked, a=need(a), mask=mask, constant=c),
        "several outputs, an index and a constant": by_name(outputs, a=need(b), b=need(c)),
    }


@told("runs of each block", "checkpoints in the forward pass", "kept bytes", "gradients")
def chain(seed, given, nested, n):
    d = given.integer(2, 3)
    given.seeded()
    blocks = [Counted(nn.Sequential(nn.Linear(d, d), nn.Tanh())) for _ in range(n)]
    x = given.normal(given.integer(2, 5), d).requires_grad_()
    weights, calls = [p for block in blocks for p in block.parameters()], []

    def counted(fn, *args):
        calls.append(fn)
        return ck.CheckpointFunction.apply(fn, True, *args)

    kept, y = kept_nbytes(lambda: nested(counted, blocks, x), weights)
    checkpoints = len(calls)
    y.backward(given.normal(*y.shape))
    return ([block.calls for block in blocks], checkpoints, kept, digests([x.grad, *(p.grad for p in weights)]))


@told("runs")
def predicted(seed, predict_runs, m):
    return ([predict_runs(m * 2**i) for i in range(4)],)


@check.task(points=2, section="5.4", names="nested, predict_runs", cases=3, parts=True)
def nested(given, nested, predict_runs):
    n, m, seed = 2 ** given.integer(3, 4), 2 ** given.integer(1, 4), seed_of(given)
    return {
        "measured": nested and {"two blocks": chain(seed, given, nested, 2), "more": chain(seed, given, nested, n)},
        "predicted": predict_runs and predicted(seed, predict_runs, m),
    }


@told("runs", "outputs", "gradients", "buffers")
def step(seed, fixed, model, inner, xs, dy):
    """Train with a repaired snippet: what it gives, and whether it still checkpoints. All calls, then all backwards."""
    torch.manual_seed(seed)
    ys = [fixed(model, x) for x in xs]
    for y in ys:
        if y.requires_grad:
            y.backward(dy)
    return (
        [part.calls for part in inner],
        digests(ys),
        digests(p.grad for p in model.parameters()),
        digests(model.buffers()),
    )


class Norm(nn.Module):
    """For snippet c."""

    def __init__(self, first, norm, last):
        super().__init__()
        self.first, self.norm, self.last = first, norm, last


class Warmup(nn.Module):
    """For snippet d: its output grows with the number of steps taken."""

    def __init__(self, net):
        super().__init__()
        self.net, self.steps = net, 0

    def scaled(self, x, steps):
        return self.net(x * steps).sin()


def numbered(pitfall):
    try:
        return f"number {int(pitfall)}"
    except (TypeError, ValueError):
        return "no number"


@check.task(points=2, section="What can go wrong", names="found, fixed_a, fixed_b, fixed_c, fixed_d", parts=True)
def pitfalls(given, found, fixed_a, fixed_b, fixed_c, fixed_d):
    n, d = given.integer(3, 4), given.integer(3, 4)
    given.seeded()

    def linear():
        return Counted(nn.Sequential(nn.Linear(d, d), nn.Tanh()))

    x = given.normal(n, d)
    a, b, c, w = (linear() for _ in range(4))
    last = [Counted(nn.Linear(d, d)) for _ in range(3)]
    warm = Warmup(w)
    warm.steps = given.integer(1, 3)

    def needs():
        return x.clone().requires_grad_()

    asked = {
        "a": (fixed_a, nn.Sequential(a, last[0]), [a, last[0]], [x.clone()]),
        "b": (fixed_b, nn.Sequential(b, nn.Dropout(0.4), last[1]), [b, last[1]], [needs()]),
        "c": (fixed_c, Norm(c, nn.BatchNorm1d(d), last[2]), [c, last[2]], [needs()]),
        "d": (fixed_d, warm, [w], [needs(), needs()]),  # two calls, then backward
    }
    dys, seeds = ({name: draw() for name in asked} for draw in (lambda: given.normal(n, d), lambda: seed_of(given)))
    numbers = found if isinstance(found, dict) else {}
    return {
        name: case[0]
        and {
            "pitfall": numbered(numbers.get(name)),
            "repaired": step(seeds[name], *case, dys[name]),
            "steps": getattr(case[1], "steps", 0),
        }
        for name, case in asked.items()
    }


check.add_quiz(points=1, names="q1, q2, q3, q4", section="5.1, 5.5 and 5.6")
