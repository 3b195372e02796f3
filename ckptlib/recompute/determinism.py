"""Is the second run the same as the first? What is compared of each saved tensor, and a log to explain a failure."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import CheckpointError

from ..errors import CkptError
from ..torch_internals import TorchDispatchMode, without_dispatch_modes


def metadata(x: Tensor) -> tuple:
    return x.shape, x.dtype, x.device


def digest(x: Tensor) -> tuple:
    """Metadata and 16 bytes that stand for the values, bit by bit (two NaNs with the same bits are equal).

    A one-dimensional tensor of unsigned bytes is a workspace, as oneDNN has for an LSTM. Parts of it were never
    written, so its values mean nothing.
    """
    if x.dtype is torch.uint8 and x.dim() == 1:
        return metadata(x)
    if x.layout is not torch.strided or x.is_meta or type(x) not in (Tensor, torch.nn.Parameter):
        what = "meta tensor" if x.is_meta else f"{x.layout} {type(x).__name__}"
        raise CkptError(f"determinism_check='values' cannot read the bytes of a {what}: use 'default' here")
    with torch.no_grad(), without_dispatch_modes():  # no policy or trace should see these ops
        values = x.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
        return *metadata(x), hashlib.blake2b(values.view(torch.uint8).numpy().data, digest_size=16).hexdigest()


FINGERPRINTS: dict[str, Callable[[Tensor], tuple]] = {
    "default": metadata,
    "none": lambda x: (),
    "values": digest,
}

TIP = "Pass debug=True to checkpoint, or use torch.utils.checkpoint.set_checkpoint_debug_enabled(True), to see the ops."
# pytorch#166926: a compiled function that has met a second shape has two graphs, and backward may choose the other one.
COMPILED = (
    "If this happens under torch.compile, the second run may have used a different compiled graph than the first, for "
    "example one for dynamic shapes instead of one for a fixed shape. Then mark the dimensions whose size varies with "
    "torch._dynamo.mark_dynamic() before the first call, so that one graph serves all sizes."
)


def _shown(fingerprint: tuple) -> dict[str, Any]:
    return dict(zip(("shape", "dtype", "device", "values"), fingerprint, strict=False))


def different_tensors(found: list[tuple[int, tuple, tuple]]) -> CheckpointError:
    """The error for saved tensors that came out differently: (position, fingerprint then, fingerprint now)."""
    kind = "metadata" if any(then[:3] != now[:3] for _, then, now in found) else "values"
    lines = [
        f"tensor at position {i}:\nsaved {kind}: {_shown(then)}\nrecomputed {kind}: {_shown(now)}\n"
        for i, then, now in found
    ]
    known = " BatchNorm and RReLU in training differ by themselves: see determinism_check." if kind == "values" else ""
    tips = TIP if kind == "values" else f"{TIP}\n{COMPILED}"
    return CheckpointError(
        f"ckptlib.checkpoint: Recomputed values for the following tensors have different {kind} than during the "
        f"forward pass.\n{''.join(lines)}Does the function depend on something that changed in between: a counter, a "
        f"global variable, a random number with preserve_rng_state=False?{known}\n{tips}"
    )


def different_number(then: int, now: int) -> CheckpointError:
    return CheckpointError(
        "ckptlib.checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
        f"Number of tensors saved during forward: {then}\nNumber of tensors saved during recomputation: {now}.\n"
        f"{TIP}\n{COMPILED}"
    )


def too_many(then: int) -> CheckpointError:
    return CheckpointError(
        "ckptlib.checkpoint: trying to save more tensors during recomputation than during the original forward pass.\n"
        f"Number of tensors saved during forward: {then}.\n{TIP}\n{COMPILED}"
    )


class OpLog(TorchDispatchMode):
    """Writes down every op that reaches it, with the shapes of its tensors and the line of code that called it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        shapes = ", ".join(str(tuple(a.shape)) if isinstance(a, Tensor) else repr(a) for a in args)
        caller = next((f for f in reversed(traceback.extract_stack()[:-1]) if "/torch/" not in f.filename), None)
        where = f"   {caller.filename}:{caller.lineno} in {caller.name}" if caller else ""
        self.lines.append(f"{func}({shapes}){where}")
        return func(*args, **(kwargs or {}))


class DebugLog:
    """Both runs side by side. It is a `context_fn`: it gives checkpoint one context for each run."""

    def __init__(self) -> None:
        self.forward, self.recompute = OpLog(), OpLog()

    def __call__(self) -> tuple[OpLog, OpLog]:
        return self.forward, self.recompute

    def explain(self, error: CheckpointError) -> CheckpointError:
        first, second = ("\n".join(log.lines) or "(none)" for log in (self.forward, self.recompute))
        return CheckpointError(
            f"{error}\n\nOperations executed during the original forward:\n\n{first}\n\n"
            f"Operations executed during recomputation (calls of detach are checkpoint's own):\n\n{second}\n\n"
            "You are seeing this error because you passed `debug=True` to checkpoint and the tensors saved in the "
            "original forward differ from those saved in recomputation. Find the first line where the lists differ."
        )
