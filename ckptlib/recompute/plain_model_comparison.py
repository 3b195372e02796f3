"""Is the checkpointed model still the same model? Both run once from the same start, and everything is compared."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..cuda.phantom import launch as phantom
from ..errors import CkptError
from ..remember.hooks import Watch, watch
from ..tables import ShownAsTable, Table
from ..torch_internals import AnyDropout, tree_leaves, tree_map
from .rng_and_autocast import CPU, accelerators_in_use, rng_states, set_rng_states

WHY = {
    "untrained": "no gradient arrived: reentrant, and no input requires one? use_reentrant=False",
    "random": "the second run drew other random numbers: preserve_rng_state=True",
    "impure": "the second run was not the first: state outside PyTorch? determinism_check='values' finds the tensor",
    "weights": "no gradient arrived, though others did: backward() inside, not autograd.grad, reaches the weights",
    "twice": "exactly twice as large: was it accumulated twice?",
    "precision": "off by a rounding: another dtype in the second run? Autocast must be as it was in the first",
    "first": "follows from the outputs, which differ",
    "output": "the first run already differs: not the same function, or not the same random numbers",
    "rng": "random numbers drawn in the second run were not put back: preserve_rng_state=True",
    "buffer": "updated in the second run too: update it only in the first, or keep it out of the checkpoint",
    "hooks": "ran again in backward: its hooks and side effects did too",
    "cut": "ran again and was stopped before its end: forward hooks did not fire; early_stop=False",
}


class Comparison(NamedTuple):
    """One thing compared. `verdict` is "equal", "close" (rounding), "differs" or, for hooks, "again"."""

    what: str  # "output", "gradient", "rng", "buffer" or "hooks"
    name: str
    verdict: str
    plain: str
    wrapped: str
    why: str = ""


@dataclass(frozen=True, repr=False)
class Equivalence(ShownAsTable):
    """Everything that was compared. True if all results agree; modules may well have run again."""

    comparisons: list[Comparison]

    @property
    def differences(self) -> list[Comparison]:
        return [f for f in self.comparisons if f.verdict == "differs"]

    def __bool__(self) -> bool:
        return not self.differences

    def table(self) -> Table:
        """One row for each kind of thing that is equal, one for each single thing that is not."""
        rows = []
        for what in dict.fromkeys(f.what for f in self.comparisons):
            mine = [f for f in self.comparisons if f.what == what]
            rows += [(what, f.name, f.verdict, f.plain, f.wrapped, f.why) for f in mine if f.verdict != "equal"]
            if equal := sum(f.verdict == "equal" for f in mine):
                rows.append((what, f"({equal} of {len(mine)})", "equal", "", "", ""))
        title = "the same results" if self else f"{len(self.differences)} differences"
        return Table(title, ("what", "name", "verdict", "plain", "wrapped", "why"), rows)


def equivalent(model: nn.Module, wrapped: nn.Module | Callable, x: Any) -> Equivalence:
    """Run `model(x)` and the same model with checkpoints, forward and backward, on copies; compare what came out.

    wrapped  a module with as many parameters and buffers, in the same order and shapes: it gets the model's values;
             or a function of (model, x), called with a copy of the model: `lambda m, x: ck.checkpoint(m, x, ...)`.
    x        the inputs: a tensor, a tuple of arguments, or a dict of named arguments.

    Compared: outputs, gradients of inputs and parameters, the RNG's state afterwards, buffers, and how many
    times each module ran. Neither the models, nor their gradients, nor the RNG are changed. What a forward keeps in
    Python is copied with the model, but what it shares with the outside, a global or a closure, is not.

    >>> from ckptlib.recompute.checkpoint import checkpoint
    >>> net = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
    >>> bool(equivalent(net, lambda m, x: checkpoint(m, x, use_reentrant=False), torch.ones(2, 4)))
    True
    """
    args, kwargs = ((), dict(x)) if isinstance(x, Mapping) else (x if isinstance(x, tuple) else (x,), {})
    phantom.refuse_values("equivalent", model.parameters())
    start = rng_states([CPU, *accelerators_in_use((*args, *kwargs.values(), *model.parameters()))])
    try:
        with _to_change(model) as plain:
            first = _run(plain, plain, args, kwargs, start)
        with _to_change(wrapped if isinstance(wrapped, nn.Module) else model) as twin:
            _give_state(model, twin)
            call = twin if isinstance(wrapped, nn.Module) else partial(wrapped, twin)
            second = _run(twin, call, args, kwargs, start)
    finally:
        set_rng_states(start)
    if not any(isinstance(leaf, Tensor) for leaf in first.outputs):
        kinds = ", ".join(sorted({type(leaf).__name__ for leaf in first.outputs})) or "nothing"
        raise CkptError(f"no tensor was found in what the model returns ({kinds}), so there is nothing to compare")
    return Equivalence([*_compare(model, first, second)])


@dataclass
class _Run:
    outputs: list[Any]
    gradients: list[Tensor | None]  # of inputs, then of parameters
    rng: list[tuple[torch.device, Tensor]]
    buffers: list[Tensor]
    watched: Watch


@contextmanager
def _to_change(module: nn.Module) -> Iterator[nn.Module]:
    """A copy of the module. One that FSDP has sharded cannot be copied: it runs itself, and is restored afterwards."""
    if not _sharded(module):
        yield copy.deepcopy(module)
        return
    tensors = [*module.parameters(), *module.buffers()]
    before = [(t.detach().clone(), t.grad, t.requires_grad) for t in tensors]
    try:
        yield module
    finally:
        for t, (values, grad, requires_grad) in zip(tensors, before, strict=True):
            t.detach().copy_(values)
            t.grad = grad
            t.requires_grad_(requires_grad)


def _sharded(module: nn.Module) -> bool:
    fsdp = sys.modules.get("torch.distributed.fsdp")  # whoever has not imported it has sharded nothing
    kinds = (fsdp.FSDPModule, fsdp.FullyShardedDataParallel) if fsdp else ()
    return any(isinstance(part, kinds) for part in module.modules())


def _give_state(model: nn.Module, twin: nn.Module) -> None:
    for kind in ("parameters", "buffers"):
        mine, theirs = list(getattr(model, kind)()), list(getattr(twin, kind)())
        if [t.shape for t in mine] != [t.shape for t in theirs]:
            raise CkptError(
                f"the two models do not have the same {kind}: {len(mine)} and {len(theirs)}, or other shapes. "
                "Build `wrapped` from the same class, or give a function of (model, x)"
            )
        for a, b in zip(mine, theirs, strict=True):
            b.detach().copy_(a.detach())
            b.requires_grad_(a.requires_grad)


def _leaves(output: Any) -> Iterator[Any]:
    """Everything in an output; PyTorch looks into lists and dicts, but not into a dataclass."""
    for leaf in tree_leaves(output):
        if is_dataclass(leaf) and not isinstance(leaf, type):
            yield from _leaves([getattr(leaf, field.name) for field in fields(leaf)])
        else:
            yield leaf


def _run(module: nn.Module, call: Callable, args: tuple, kwargs: dict, start: list) -> _Run:
    module.zero_grad()
    args, kwargs = tree_map(
        lambda t: t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, Tensor) else t, (args, kwargs)
    )
    set_rng_states(start)
    with watch(module) as watched:
        outputs = list(_leaves(call(*args, **kwargs)))
        roots = [y for y in outputs if isinstance(y, Tensor) and y.requires_grad]
        # These are not all ones, because a gradient that is right only in its sum must not pass.
        dys = [torch.arange(y.numel(), device=y.device).cos().to(y.dtype).view(y.shape) + 1 for y in roots]
        if roots:
            torch.autograd.backward(roots, dys)
    leaves = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor) and t.requires_grad]
    grads = [None if t.grad is None else _dense(t.grad) for t in (*leaves, *module.parameters())]
    buffers = [buffer.clone() for buffer in module.buffers()]
    return _Run(outputs, grads, rng_states(device for device, _ in start), buffers, watched)


def _dense(t: Tensor) -> Tensor:
    """Comparisons know dense tensors only. A sparse embedding's gradient is sparse, and FSDP's are sharded: of those,
    each rank compares its own part."""
    return t.to_local() if hasattr(t, "to_local") else t.to_dense()


def _compare(model: nn.Module, a: _Run, b: _Run) -> Iterator[Comparison]:
    pairs = zip(a.outputs, b.outputs, strict=False)
    outputs = [_compared("output", str(i), y, z, WHY["output"]) for i, (y, z) in enumerate(pairs)]
    if len(a.outputs) != len(b.outputs):
        n, m = (f"{len(run.outputs)} leaves" for run in (a, b))
        outputs.append(Comparison("output", "", "differs", n, m, WHY["output"]))
    yield from outputs
    parameters = [name for name, _ in model.named_parameters()]
    names = [f"input {i}" for i in range(len(a.gradients) - len(parameters))] + parameters
    rng_same = all(torch.equal(s, t) for (_, s), (_, t) in zip(a.rng, b.rng, strict=True))
    random = any(isinstance(m, AnyDropout) and m.p for m in model.modules()) or not rng_same
    known = "untrained" if all(h is None for h in b.gradients) else None
    known = known or ("first" if any(f.verdict == "differs" for f in outputs) else None)
    for name, g, h in zip(names, a.gradients, b.gradients, strict=True):
        yield _compared("gradient", name, g, h, WHY[known or _reason(name, g, h, random)])
    for (device, s), (_, t) in zip(a.rng, b.rng, strict=True):
        verdict = "equal" if torch.equal(s, t) else "differs"
        yield Comparison("rng", str(device), verdict, "", "", "" if verdict == "equal" else WHY["rng"])
    for (name, _), s, t in zip(model.named_buffers(), a.buffers, b.buffers, strict=True):
        yield _compared("buffer", name, s, t, WHY["buffer"])
    for row in b.watched.rows:
        calls = f"{row.forward + row.recompute}" + (f" ({row.cut} cut)" if row.cut else "")
        verdict = "again" if row.recompute else "equal"
        why = WHY["cut" if row.cut else "hooks"] if row.recompute else ""
        yield Comparison("hooks", row.module, verdict, f"{row.forward}", calls, why)


def _reason(name: str, g: Tensor | None, h: Tensor | None, random: bool) -> str:
    """Why may the gradient `h` not be `g`, though the outputs are the same?"""
    if g is None or h is None or g.shape != h.shape:
        return "impure" if h is not None else "untrained" if name.startswith("input ") else "weights"
    if torch.allclose(h, 2 * g, rtol=1e-4):
        return "twice"
    # bfloat16 keeps 8 bits of a number: a few roundings of it are off by a hundredth or less.
    return "random" if random else "precision" if (h - g).abs().max() <= 0.02 * g.abs().max() else "impure"


def _compared(what: str, name: str, a: Any, b: Any, why: str) -> Comparison:
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        same = a is b if a is None or b is None else type(a) is type(b) and a == b
        plain, wrapped = ("a tensor" if isinstance(v, Tensor) else repr(v) for v in (a, b))
        return Comparison(what, name, "equal" if same else "differs", plain, wrapped, "" if same else why)
    if what == "output" and a.requires_grad and not b.requires_grad:
        return Comparison(what, name, "differs", "requires_grad", "does not", WHY["untrained"])
    if a.shape != b.shape or a.dtype != b.dtype:
        plain, wrapped = (f"{tuple(v.shape)} {v.dtype}" for v in (a, b))
        return Comparison(what, name, "differs", plain, wrapped, why)
    # The widest type of their kind, so that the comparison itself does not round.
    wide = torch.complex128 if a.is_complex() else torch.float64
    return _numbers(what, name, a.detach().to(wide), b.detach().to(wide), why)


def _numbers(what: str, name: str, a: Tensor, b: Tensor, why: str) -> Comparison:
    if torch.equal(a, b) or torch.allclose(a, b, rtol=0, atol=0, equal_nan=True):
        return Comparison(what, name, "equal", "", "")
    far, largest = (a - b).abs().max().item(), a.abs().max().item()
    if torch.allclose(a, b, rtol=1e-5, atol=1e-6 * largest, equal_nan=True):
        return Comparison(what, name, "close", "", f"off by at most {far:.1e}", "rounding")
    if a.numel() == 1:
        return Comparison(what, name, "differs", f"{a.item():.6g}", f"{b.item():.6g}", why)
    return Comparison(what, name, "differs", f"largest {largest:.3g}", f"off by up to {far:.3g}", why)
