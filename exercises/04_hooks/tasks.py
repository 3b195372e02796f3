"""How the answers of assignment 4 are asked. Grading asks the same questions, with other numbers."""

import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from ckptlib.grading import Checks

check = Checks(__file__)


class PlusOne(nn.Module):
    def forward(self, x):
        return x + 1


class Checkpointed(nn.Sequential):
    """A Sequential that is recomputed."""

    reentrant = False

    def forward(self, x):
        return checkpoint(super().forward, x, use_reentrant=self.reentrant)


class Twice(nn.Module):
    """One layer that is called twice in each forward pass, and one that never is. Two results it saves itself."""

    def __init__(self, width):
        super().__init__()
        self.layer, self.spare = nn.Linear(width, width), nn.Tanh()

    def forward(self, x):
        return self.layer(self.layer(x).relu()).tanh()


class Thirds(nn.Module):
    """Multiplies two thirds of what its layer returns: two views are saved, and with them the whole storage, once."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, 3 * width)

    def forward(self, x):
        first, second, third = self.layer(x).chunk(3, dim=1)
        return first * second + third


class Counted(nn.Sequential):
    """A Sequential, and how often it was called."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


def chain(layers, width):
    return [nn.ReLU() if i % 2 else nn.Linear(width, width) for i in range(layers)]


# ---- Task 1 ----
@check.task(points=1, section="4.1 and 4.3", cases=3, parts=True)
def predict_trace(given, predict_trace):
    inside, whole, layers = (given.integer(3, 40) for _ in range(3))
    sizes = [(inside + given.integer(1, 40), inside), (whole, whole), (layers, 1)]

    def predicted(kind):
        return lambda: [predict_trace(n, m, kind) for n, m in sizes]

    return {kind: predicted(kind) for kind in ("none", "reentrant", "nonreentrant")}


# ---- Task 2 ----
def hooks_on(model):
    return [len(module._forward_pre_hooks) + len(module._forward_hooks) for module in model.modules()]


def shown(log):
    return [name if name != "" else "the model" for name in log] if log is not None else "nothing"


@check.task(points=1, section="4.3, and What can go wrong", parts=True)
def logged(given, logged):
    width, layers = given.integer(2, 9), given.integer(2, 6)
    first, one = given.integer(1, layers), given.integer(0, layers - 1)
    x = torch.ones(2, width)

    def build():
        """A model on which others have hooks."""
        model = nn.Sequential(*chain(layers, width))
        for module in model[:first]:
            module.register_forward_hook(lambda *_: None)
        model[one].register_forward_pre_hook(lambda *_: None)
        return model

    def failing(x, interrupts=False):
        model, raised, log = build(), "nothing", []
        try:
            with logged(model) as log:
                model(x)
                if interrupts:
                    raise KeyboardInterrupt
        except NotImplementedError:
            raise
        except (Exception, KeyboardInterrupt) as error:
            raised = type(error).__name__
        return {"log": shown(log), "raised": raised, "hooks afterwards": hooks_on(model)}

    def ends():
        model, other = build(), nn.Sequential(nn.Tanh())
        with logged(model) as log:
            model(x)
            other(x)
            model[0](x)
        model(x)
        return {"log": shown(log), "hooks afterwards": hooks_on(model)}

    def fails():  # the first layer: one feature too many, or no tensor at all
        found = {"a RuntimeError": failing(torch.ones(2, width + 1)), "a TypeError": failing(None)}
        return found | {"an interrupt": failing(x, interrupts=True)}

    return {"a block that ends": ends, "a block that fails": fails}


# ---- Task 3 ----
@check.task(points=1.5, section="4.3", cases=3, parts=True)
def count_calls(given, count_calls):
    width, before, after = given.integer(2, 9), given.integer(1, 4), given.integer(1, 4)
    inside = [given.integer(2, 5) for _ in range(given.integer(1, 2))]
    steps = given.integer(2, 4)

    def counted(model, train):
        runs = []

        def step():
            runs.append(train())
            with torch.no_grad():  # an evaluation
                model(torch.ones(1, width))

        counts = count_calls(model, step)
        counts = dict(sorted(counts.items())) if isinstance(counts, dict) else counts
        return {"runs of step": len(runs), "calls": counts}

    def checkpointed(reentrant):
        segments = [Checkpointed(*chain(n, width)) for n in inside]
        for segment in segments:
            segment.reentrant = reentrant
        model = nn.Sequential(*chain(before, width), *segments, *chain(after, width))
        x = torch.ones(3, width, requires_grad=True)
        return counted(model, lambda: model(x).sum().backward())

    def twice():
        model = nn.Sequential(nn.Linear(width, width), Twice(width))

        def train():
            for _ in range(steps):
                model(torch.ones(3, width)).sum().backward()

        return counted(model, train)

    def fails():
        model, raised = nn.Sequential(*chain(before, width)), "nothing"

        def step():
            model(torch.ones(1, width))
            raise ArithmeticError

        try:
            count_calls(model, step)
        except NotImplementedError:
            raise
        except Exception as error:
            raised = type(error).__name__
        return {"raised": raised, "hooks are left": any(hooks_on(model))}

    return {
        "reentrant checkpoints": lambda: checkpointed(True),
        "non-reentrant checkpoints": lambda: checkpointed(False),
        "a layer called twice": twice,
        "a step that fails": fails,
    }


# ---- Task 4 ----
def kept_bytes(packed, parameters):
    """Of the storages inside what a pack hook returned, those that are no parameter's."""
    found = {}
    for part in tree_leaves(packed):
        if torch.is_tensor(part):
            found[part.untyped_storage().data_ptr()] = part.untyped_storage().nbytes()
    for parameter in parameters:
        found.pop(parameter.untyped_storage().data_ptr(), None)
    return sum(found.values())


@check.task(points=1.5, section="4.4", cases=3, parts=True, names="pack_bf16, unpack_bf16")
def bf16_hooks(given, pack_bf16, unpack_bf16):
    rows, width = given.integer(3, 6), given.integer(3, 7)
    given.seeded()
    model = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Softplus()).float()
    model.append(nn.Linear(width, width).requires_grad_(False))
    x = given.normal(rows * width).view(width, rows).T  # a transposed view, as a weight's is, and of no parameter
    own, values = list(model.parameters()), given.normal(rows, width, dtype=torch.float64) * 1e6

    def forward():
        kept = []

        def pack(tensor):
            packed = pack_bf16(tensor)
            kept.append(kept_bytes(packed, own))
            return packed

        with saved_tensors_hooks(pack, unpack_bf16):
            return model(x).sum(), kept

    def gradients():
        loss, _ = forward()
        raised, found = "", []
        try:
            found = torch.autograd.grad(loss, [model[0].weight, model[2].weight])
        except RuntimeError as error:
            raised = f"raised RuntimeError: {error}"
        return {"error": raised, "of the weights": found}

    def comes_back():  # bfloat16 has float32's range
        low, high = values.float(), values
        again = [unpack_bf16(pack_bf16(t)) for t in (low, high, low[0, 0], high[:0])]
        return [entry for t in again for entry in (str(t.dtype), (t / 1e6).clamp(-99, 99))]

    def others():
        found = []
        for t in (torch.arange(1000, 1008), values > 0, torch.complex(values, values)):
            back = unpack_bf16(pack_bf16(t))
            found += [str(back.dtype), back.tolist() if back.dtype == t.dtype and not t.is_complex() else 0]
            found += [bool((back == t).all()), back.data_ptr() == t.data_ptr()]
        return found

    return {
        "bytes kept": lambda: forward()[1],
        "what comes back": comes_back,
        "gradients": gradients,
        "other dtypes": others,
    }


# ---- Task 5 ----
@check.task(points=2, section="4.2", cases=3, parts=True)
def stored_by(given, stored_by):
    rows, width = given.integer(3, 20), given.integer(3, 20)
    x = given.normal(rows, width)

    def ask(dtype, *layers):
        return lambda: asked(dtype, *layers)

    def asked(dtype, *layers):
        model = Counted(*layers).to(dtype)
        found = stored_by(model, x.to(dtype, copy=True))
        if isinstance(found, dict):
            found = {name: found.get(name, 0) for name, _ in model.named_modules()}
        backward = any(p.grad is not None for p in model.parameters())
        return {"runs of model(x)": model.calls, "a backward ran": backward, "bytes": found}

    def frozen(out):
        return nn.Linear(width, out).requires_grad_(False)

    def fails():
        model, raised = Counted(nn.Linear(width, width), nn.Linear(width + 1, 1)), "nothing"
        try:
            stored_by(model, x.clone())
        except NotImplementedError:
            raise
        except Exception as error:
            raised = type(error).__name__
        return {"runs of model(x)": model.calls, "raised": raised, "hooks are left": any(hooks_on(model))}

    f32, f64, three = torch.float32, torch.float64, 3 * width
    return {
        "one storage, two savers": ask(
            f32, nn.Linear(width, three), nn.ReLU(), nn.Linear(three, width), nn.GELU(), Thirds(width)
        ),
        "plus and frozen": ask(f64, nn.GELU(), frozen(width), nn.Linear(width, width), PlusOne(), frozen(5)),
        "inside a container": ask(f32, nn.Sequential(nn.Linear(width, width), nn.Tanh()), Twice(width)),
        "a checkpoint": ask(f64, nn.Linear(width, width), Checkpointed(*chain(4, width)), nn.Sigmoid()),
        "a forward that fails": fails,
    }


# ---- Task 6 ----
THEIRS = "notes.txt"  # is in the folder before the block, and belongs to somebody else
TIMES, DIGITS = ("gradients", "of a second backward"), ", to the last digits"


def bytes_in(folder):
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file() and path.name != THEIRS)


def notes_in(folder):
    path = Path(folder) / THEIRS
    return path.read_text(encoding="utf-8") if path.is_file() else f"{THEIRS} is gone"


class Largest(nn.Module):
    """Of every two numbers in a row, the larger one: its place is saved, as an integer."""

    def __init__(self, places):
        super().__init__()
        self.places = places

    def forward(self, x):
        larger, places = nn.functional.max_pool1d(x[None], 2, return_indices=True)
        self.places.append(StorageWeakRef(places.untyped_storage()))
        return larger[0]


class ToDouble(nn.Module):
    def forward(self, x):
        return x.double()


@check.task(points=2, section="4.5", cases=2, parts=True)
def spill(given, spill):
    rows, width = given.integer(100, 150), 2 * given.integer(4, 6)
    given.seeded()
    low = [*chain(given.integer(3, 4), width), ToDouble()]
    outputs, places, passes = [], [], 4
    high = [*chain(2, width), Largest(places), *chain(given.integer(1, 2), width // 2)]
    model, x = nn.Sequential(*low, *nn.Sequential(*high).double()), given.normal(rows, width)
    for module in model:
        module.register_forward_hook(lambda m, args, out: outputs.append(StorageWeakRef(out.untyped_storage())))

    saved = passes * (1 + sum(isinstance(module, nn.ReLU) for module in model)) * x.nbytes  # at least that
    parameters = list(model.parameters())

    def loss():
        return sum(model(x * (1 + i)).square().sum() for i in range(passes))  # so many that addresses are used again

    plain = torch.autograd.grad(loss(), parameters)
    times = [f"{time}{precisely}" for time in TIMES for precisely in ("", DIGITS)]

    def exact(gradient, wanted):
        last_bits = 1000 * torch.finfo(wanted.dtype).eps
        return bool((gradient - wanted).abs().max() <= last_bits * wanted.abs().max())

    def step(folder, found, fails):
        outputs.clear()
        places.clear()
        total = loss()
        written = bytes_in(folder)
        found["on disk"] = "all" if written >= saved else "too little" if written else "nothing"
        found["some is in memory"] = not all(ref.expired() for ref in outputs)
        found["integers are in memory"] = not all(ref.expired() for ref in places)
        if fails:
            raise fails
        for time in TIMES:
            gradients = torch.autograd.grad(total, parameters, retain_graph=True)
            found[time] = [gradients[0], [g.norm().item() for g in gradients]]
            found[f"{time}{DIGITS}"] = all(map(exact, gradients, plain))

    def block(fails):
        found = {
            "error": "",
            "raised": "nothing" if fails else "",
            "on disk": "nothing",
            "some is in memory": False,
            "integers are in memory": False,
        }
        found |= dict.fromkeys(times)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / THEIRS).write_text(text, encoding="utf-8")
            try:
                with spill(folder):
                    step(folder, found, fails)
            except NotImplementedError:
                raise
            except (Exception, KeyboardInterrupt) as error:
                held = error  # as a notebook does, for its debugger
                said = getattr(held, "strerror", None) or str(held)  # an OSError's message names a folder, too
                found["raised"] = type(held).__name__ + (f": {said}" if said else "")
                found["error"] = f"raised {found['raised']}"
            left = [path.is_dir() for path in Path(folder).rglob("*") if path.name != THEIRS]
            return found | {"files left": not all(left), "folders left": any(left), THEIRS: notes_in(folder)}

    text = f"notes {given.integer(1, 10**6)}"

    def picked(*keys, fails=None):
        found = block(fails)
        return {key: found[key] for key in keys}

    return {
        "gradients, from disk": lambda: picked(
            "error", "on disk", "some is in memory", "integers are in memory", *times
        ),
        "files left after the block": lambda: picked("on disk", "files left", "folders left", THEIRS),
        "files left after an error": lambda: {
            kind: picked("raised", "on disk", "files left", "folders left", THEIRS, fails=error())
            for kind, error in {"an error": ArithmeticError, "an interrupt": KeyboardInterrupt}.items()
        },
    }


check.add_quiz(points=1, names="q1, q2, q3, q4", section="4.2, 4.3 and 4.4")
