"""Who called this op? The Python code above the dispatcher: the program's own, torch's, or the backward engine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

from ..torch_internals import DISPATCH_MODULES, name_of

ENGINE = name_of("engine_entry")  # the one Python function through which torch starts its backward engine
_MACHINERY = ("ckptlib.tracing.", "ckptlib.cuda.", "ckptlib.remember.", *DISPATCH_MODULES)


def frames_above() -> Iterator[FrameType]:
    """The frames from the tracer outwards."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def is_machinery(frame: FrameType) -> bool:
    """Whether `frame` is a step between a program's line and its kernel: a dispatch mode, or torch's wrapper of one."""
    return frame.f_code.co_name == "__torch_dispatch__" or frame.f_globals.get("__name__", "").startswith(_MACHINERY)


def caller() -> FrameType | None:
    """The first frame above the dispatch modes. None in an accelerator's engine thread, which has no Python."""
    return next((frame for frame in frames_above() if not is_machinery(frame)), None)


def called_by_engine() -> bool:
    frame = caller()
    return frame is None or frame.f_code.co_name == ENGINE


def in_optimizer_step() -> bool:
    return any(frame.f_globals.get("__name__") == "torch.optim.optimizer" for frame in frames_above())


def engine_is_nearer() -> bool:
    """Whether an optimizer's step has called the engine, in a closure. Where a hook takes the step it is not so."""
    for frame in frames_above():
        if frame.f_code.co_name == ENGINE or frame.f_globals.get("__name__") == "torch.optim.optimizer":
            return frame.f_code.co_name == ENGINE
    return False


def caller_module() -> str:
    frame = caller()
    return "" if frame is None else frame.f_globals.get("__name__", "")


def caller_name() -> str:
    frame = caller()
    return "" if frame is None else frame.f_code.co_name
