"""How the answers of assignment 4 are asked. Grading asks the same questions, with other numbers."""

import os
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


class Half(nn.Module):
    """Squares one half of what its layer returns: a view is saved, and with it the whole storage."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, 2 * width)

    def forward(self, x):
        return self.layer(x).chunk(2, dim=1)[1].square()


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
    inside = given.integer(3, 40)
    layers = inside + given.integer(1, 40)
    return {kind: predict_trace(layers, inside, kind) for kind in ("none", "reentrant", "nonreentrant")}


# ---- Task 2 ----
def hooks_on(model):
    return [len(module._forward_pre_hooks) + len(module._forward_hooks) for module in model.modules()]


def shown(log):
    return [name if name != "" else "the model" for name in log] if log is not None else "nothing"


@check.task(points=1, section="4.3, and What can go wrong", parts=True)
def logged(given, logged):
    width, layers = given.integer(2, 9), given.integer(2, 6)
    first, one = given.integer(1, layers), given.integer(0, layers - 1)

    def build():
        """A model on which others have hooks."""
        model = nn.Sequential(*chain(layers, width))
        for module in model[:first]:
            module.register_forward_hook(lambda *_: None)
        model[one].register_forward_pre_hook(lambda *_: None)
        return model

    def failing(x):
        model, raised, log = build(), "nothing", []
        try:
            with logged(model) as log:
                model(x)
        except Exception as error:
            raised = type(error).__name__
        return {"log": shown(log), "raised": raised, "hooks afterwards": hooks_on(model)}

    model = build()
    with logged(model) as log:
        model(torch.ones(2, width))
    done = {"log": shown(log), "hooks afterwards": hooks_on(model)}
    # the first layer fails: one feature too many, or no tensor at all
    failed = {"a RuntimeError": failing(torch.ones(2, width + 1)), "a TypeError": failing(None)}
    return {"a block that ends": done, "a block that fails": failed}


# ---- Task 3 ----
@check.task(points=1.5, section="4.3", cases=3, parts=True)
def count_calls(given, count_calls):
    width, before, after = given.integer(2, 9), given.integer(1, 4), given.integer(1, 4)
    inside = [given.integer(2, 5) for _ in range(given.integer(1, 2))]

    def counted(model, train):
        runs = []
        counts = count_calls(model, lambda: runs.append(train()))
        counts = dict(sorted(counts.items())) if isinstance(counts, dict) else counts
        return {"runs of step": len(runs), "calls": counts}

    def checkpointed(reentrant):
        segments = [Checkpointed(*chain(n, width)) for n in inside]
        for segment in segments:
            segment.reentrant = reentrant
        model = nn.Sequential(*chain(before, width), *segments, *chain(after, width))
        x = torch.ones(3, width, requires_grad=True)
        return counted(model, lambda: model(x).sum().backward())

    twice, steps = nn.Sequential(nn.Linear(width, width), Twice(width)), given.integer(2, 4)

    def train():
        for _ in range(steps):
            twice(torch.ones(3, width)).sum().backward()

    return {
        "reentrant checkpoints": checkpointed(True),
        "non-reentrant checkpoints": checkpointed(False),
        "a layer called twice": counted(twice, train),
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
    own, kept = list(model.parameters()), []

    def pack(tensor):
        packed = pack_bf16(tensor)
        kept.append(kept_bytes(packed, own))
        return packed

    with saved_tensors_hooks(pack, unpack_bf16):
        loss = model(x).sum()
    raised, gradients = "", []
    try:
        gradients = torch.autograd.grad(loss, [model[0].weight, model[2].weight])
    except RuntimeError as error:
        raised = str(error)
    values = given.normal(rows, width, dtype=torch.float64) * 1e6  # bfloat16 has float32's range
    again = [unpack_bf16(pack_bf16(values.to(dtype))) for dtype in (torch.float32, torch.float64)]
    indices = torch.arange(1000, 1008)
    back = unpack_bf16(pack_bf16(indices))
    return {
        "bytes kept": kept,
        "what comes back": [entry for t in again for entry in (str(t.dtype), (t / 1e6).clamp(-99, 99))],
        "gradients": {"raised": raised, "of the weights": gradients},
        "integers": [str(back.dtype), back.tolist()],
    }


# ---- Task 5 ----
@check.task(points=2, section="4.2", cases=3, parts=True)
def stored_by(given, stored_by):
    rows, width = given.integer(3, 20), given.integer(3, 20)
    x = given.normal(rows, width)

    def ask(dtype, *layers):
        model = Counted(*layers).to(dtype)
        found = stored_by(model, x.to(dtype, copy=True))
        if isinstance(found, dict):
            found = {name: found.get(name, 0) for name, _ in model.named_modules()}
        backward = any(p.grad is not None for p in model.parameters())
        return {"runs of model(x)": model.calls, "a backward ran": backward, "bytes": found}

    def frozen(out):
        return nn.Linear(width, out).requires_grad_(False)

    f32, f64, three = torch.float32, torch.float64, 3 * width
    return {
        "one storage, two savers": ask(
            f32, nn.Linear(width, three), nn.ReLU(), nn.Linear(three, width), nn.GELU(), Half(width)
        ),
        "plus and frozen": ask(f64, nn.GELU(), frozen(width), nn.Linear(width, width), PlusOne(), frozen(5)),
        "inside a container": ask(f32, nn.Sequential(nn.Linear(width, width), nn.Tanh()), Twice(width)),
        "a checkpoint": ask(f64, nn.Linear(width, width), Checkpointed(*chain(4, width)), nn.Sigmoid()),
    }


# ---- Task 6 ----
THEIRS = "notes.txt"  # is in the folder before the block, and belongs to somebody else


def files_in(folder):
    paths = sorted(os.path.join(where, name) for where, _, names in os.walk(folder) for name in names)
    return [path for path in paths if path != os.path.join(folder, THEIRS)]


def notes_in(folder):
    path = Path(folder) / THEIRS
    return path.read_text(encoding="utf-8") if path.is_file() else f"{THEIRS} is gone"


@check.task(points=2, section="4.5", cases=2, parts=True)
def spill(given, spill):
    rows, width = given.integer(100, 150), given.integer(8, 12)
    dtype = given.choice([torch.float32, torch.float64])
    given.seeded()
    model, passes = nn.Sequential(*chain(given.integer(5, 8), width)).to(dtype), 4
    x = given.normal(rows, width, dtype=dtype)
    outputs = []
    for module in model:
        module.register_forward_hook(lambda m, args, out: outputs.append(StorageWeakRef(out.untyped_storage())))

    saved = passes * (1 + sum(isinstance(module, nn.ReLU) for module in model)) * x.nbytes  # at least that

    def step(folder, found, fails):
        outputs.clear()
        loss = sum(model(x * (1 + i)).square().sum() for i in range(passes))  # so many that addresses are used again
        written = sum(os.path.getsize(path) for path in files_in(folder))
        found["on disk"] = "all" if written >= saved else "too little" if written else "nothing"
        found["some is in memory"] = not all(ref.expired() for ref in outputs)
        if fails:
            raise ArithmeticError
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        found["gradients"] = [gradients[0], [g.norm().item() for g in gradients]]

    def block(fails):
        found = {"raised": "", "on disk": "nothing", "some is in memory": False, "gradients": []}
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / THEIRS).write_text(text, encoding="utf-8")
            try:
                with spill(folder):
                    step(folder, found, fails)
            except NotImplementedError:
                raise
            except Exception as error:
                held = error  # as a notebook does, for its debugger
                found["raised"] = type(held).__name__ + (f": {held}" if str(held) else "")
            return found | {"files left": bool(files_in(folder)), THEIRS: notes_in(folder)}

    text = f"notes {given.integer(1, 10**6)}"
    done, failed = block(fails=False), block(fails=True)
    failed["raised"] = failed["raised"] or "nothing"

    def picked(found, *keys):
        return {key: found[key] for key in keys}

    return {
        "gradients, from disk": picked(done, "raised", "on disk", "some is in memory", "gradients"),
        "files left after the block": picked(done, "on disk", "files left", THEIRS),
        "files left after an error": picked(failed, "raised", "on disk", "files left", THEIRS),
    }


check.add_quiz(points=1, names="q1, q2, q3, q4", section="4.2, 4.3 and 4.4")
