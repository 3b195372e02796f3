"""How the answers of assignment 5 are asked. Grading asks the same questions, with other numbers."""

from functools import wraps

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

import ckptlib as ck
from ckptlib.grading import Checks
from ckptlib.grading.given import Given

check = Checks(__file__)


class Counted(nn.Module):
    """A module, and how often it was called."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.calls = inner, 0

    def forward(self, *args):
        self.calls += 1
        return self.inner(*args)


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


def told(*keys):
    """What a part raises is its answer: the other parts are asked all the same."""

    def decorate(function):
        @wraps(function)
        def run(*args):
            try:
                return {"error": "none"} | dict(zip(keys, function(*args), strict=True))
            except NotImplementedError:
                error = "not answered"
            except Exception as e:
                error = f"{type(e).__name__}: {str(e).split('. ')[0].split(' (')[0][:100]}"
            return {"error": error} | dict.fromkeys(keys)

        return run

    return decorate


def asked(given, Function, fn, *args, layers=None):
    """One step through `Function.apply(fn, *args)`. layers: modules around it, before and after."""
    return _asked(given.integer(0, 2**31), Function, fn, args, layers or (nn.Identity(), nn.Identity()))


@told(
    "kept bytes",
    "runs of the segment",
    "node",
    "outputs",
    "gradients of inputs",
    "gradients of weights",
    "random numbers afterwards",
)
def _asked(seed, Function, fn, args, layers):
    before, after = layers
    modules = [m for m in (fn, before, after) if isinstance(m, nn.Module)]
    weights = [p for module in modules for p in module.parameters()]
    inputs = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    segment, first = Counted(fn), before(args[0])
    torch.manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        kept, _ = kept_nbytes(lambda: Function.apply(segment, first, *args[1:]), weights)
    segment.calls = 0  # hooks see tensors of their own: gradients come from a second call, without them
    ys = Function.apply(segment, first, *args[1:])
    ys = (ys,) if isinstance(ys, torch.Tensor) else ys
    node = type(ys[0].grad_fn).__name__
    torch.rand(5)  # somebody else draws between forward and backward
    dys = [Given(seed + i).normal(*y.shape, dtype=y.dtype) for i, y in enumerate(ys)]
    torch.autograd.backward([after(y) for y in ys], dys)
    return (
        kept,
        segment.calls,
        node,
        [y.detach() for y in ys],
        [a.grad for a in inputs],
        [p.grad for p in weights],
        torch.rand(3),
    )


def two_layers(given, d, *extra, dtype=torch.float32):
    given.seeded()
    k = given.integer(3, 6)
    return nn.Sequential(nn.Linear(d, k), nn.Tanh(), *extra, nn.Linear(k, d)).to(dtype)


@check.task(points=1.5, section="5.2", names="Weights", parts=True)
def weights(given, Weights):
    n, d = given.integer(2, 5), given.integer(2, 5)
    dtype = given.choice([torch.float32, torch.float64])
    x = given.normal(n, d, dtype=dtype)
    alone = asked(given, Weights, two_layers(given, d, dtype=dtype), x.clone().requires_grad_())
    layers = [two_layers(given, d, dtype=dtype) for _ in range(2)]
    amid = asked(given, Weights, two_layers(given, d, dtype=dtype), x.clone().requires_grad_(), layers=layers)
    return {"a segment alone": alone, "a segment between layers": amid}


@check.task(points=1.5, section="5.3", names="Masks", parts=True)
def masks(given, Masks):
    n, d = given.integer(4, 6), given.integer(4, 6)

    def noise(x):
        return x * torch.rand_like(x)

    x = given.normal(n, d)
    dropout = nn.Dropout(given.choice([0.3, 0.5]))
    return {
        "dropout": asked(given, Masks, two_layers(given, d, dropout), x.clone().requires_grad_()),
        "noise": asked(given, Masks, noise, x.clone().requires_grad_()),
    }


@check.task(points=2, section="5.2", names="Arguments", parts=True)
def arguments(given, Arguments):
    n, d = given.integer(2, 5), given.integer(2, 5)
    power, scale = given.integer(2, 4), given.integer(2, 9)
    a, b, c = (given.normal(n, d) for _ in range(3))
    mask = given.normal(n, d) > 0

    def need(*tensors):
        return [t.clone().requires_grad_() for t in tensors]

    def two(a, b):
        return (a * b.exp()).sin()

    def numbers(power, a, how, b, scale):
        return (a**power * getattr(torch, how)(b)) / scale

    def masked(a, mask, constant):
        return (a * constant).exp().masked_fill(mask, 0.0)

    def outputs(a, b):
        return (a * b).tanh(), a.exp(), b.square().sum(1)

    a1, b1 = need(a, b)
    return {
        "two tensors": asked(given, Arguments, two, a1, b1),
        "numbers and text between tensors": asked(given, Arguments, numbers, power, *need(a), "cos", *need(b), scale),
        "a mask and a constant": asked(given, Arguments, masked, *need(a), mask, c),
        "several outputs": asked(given, Arguments, outputs, *need(b, c)),
    }


@told("kept bytes", "checkpoints in the forward pass", "runs of each block", "gradients")
def chain(given, nested, n):
    d = given.integer(2, 4)
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
    return (kept, checkpoints, [block.calls for block in blocks], [x.grad, *(p.grad for p in weights)])


@told("runs")
def predicted(predict_runs, m):
    return ([predict_runs(m * 2**i) for i in range(4)],)


@check.task(points=2, section="5.4", names="nested, predict_runs", cases=3, parts=True)
def nested(given, nested, predict_runs):
    n, m = 2 ** given.integer(2, 3), 2 ** given.integer(1, 4)
    return {
        "measured": nested and chain(given, nested, n),
        "predicted": predicted(predict_runs, m),
    }


@told("runs", "output", "gradients", "buffers")
def step(fixed, model, inner, x, dy, seed):
    """Train one step with a repaired snippet: what it gives, and whether it still checkpoints."""
    torch.manual_seed(seed)
    y = fixed(model, x)
    if y.requires_grad:
        y.backward(dy)
    return (inner.calls, y.detach(), [p.grad for p in model.parameters()], [b.clone() for b in model.buffers()])


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


@check.task(points=2, section="What can go wrong", names="found, fixed_a, fixed_b, fixed_c, fixed_d", parts=True)
def pitfalls(given, found, fixed_a, fixed_b, fixed_c, fixed_d):
    n, d = given.integer(3, 5), given.integer(3, 5)
    given.seeded()

    def linear():
        return Counted(nn.Sequential(nn.Linear(d, d), nn.Tanh()))

    x = given.normal(n, d)
    a, b, c, w = (linear() for _ in range(4))
    last = [nn.Linear(d, d) for _ in range(3)]
    warm = Warmup(w)
    warm.steps = given.integer(1, 3)

    def needs():
        return x.clone().requires_grad_()

    asked = {
        "a": (fixed_a, nn.Sequential(a, last[0]), a, x.clone()),
        "b": (fixed_b, nn.Sequential(b, nn.Dropout(0.4), last[1]), b, needs()),
        "c": (fixed_c, Norm(c, nn.BatchNorm1d(d), last[2]), c, needs()),
        "d": (fixed_d, warm, w, needs()),
    }
    drawn = {name: (given.normal(n, d), given.integer(0, 2**31)) for name in asked}
    numbers = found if isinstance(found, dict) else {}
    return {
        name: case[0]
        and {"pitfall": numbers.get(name), "repaired": step(*case, *drawn[name]), "steps": getattr(case[1], "steps", 0)}
        for name, case in asked.items()
    }


check.add_quiz(points=1, names="q1, q2, q3, q4", section="5.5")
