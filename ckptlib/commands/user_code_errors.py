"""What is shown when the user's own code raises an error? Its traceback without our frames, and a hint."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import torch
from torch import nn

from ..cuda.phantom import launch as phantom
from ..errors import CkptError, OwnCodeFailed
from ..torch_internals import DataDependentOutputException, DynamicOutputShapeException, name_of
from ..tracing.storages import tensors_in

HERE = os.path.join(str(Path(__file__).resolve().parents[1]), "")
TORCH = os.path.join(str(Path(torch.__file__).resolve().parent), "")


@contextmanager
def own_code(what: str) -> Iterator[None]:
    """An error that comes out of the caller's code becomes OwnCodeFailed: a traceback without our frames, and a hint.

    One that comes out of ours is a bug, and stays as it is.
    """
    try:
        yield
    except CkptError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        # A tracer of ours runs every op, so that an op's own error passes through it.
        ours = frames[-1].filename.startswith(HERE) and frames[-1].name != "__torch_dispatch__"
        if ours or not (shown := _shown(frames)):
            raise
        lines = ["Traceback (most recent call last):\n", *traceback.format_list(shown)]
        lines += traceback.format_exception_only(error)
        text = "".join(lines).rstrip()
        lacking = [f"phantom GPU: {name}: {why}." for name, why in phantom.unknowns().items()]
        raise OwnCodeFailed("\n".join(filter(None, (f"{what}:", text, _hint(error), *lacking)))) from error


def _shown(frames: traceback.StackSummary) -> list[traceback.FrameSummary]:
    """Neither ours nor torch's, nor those with which Python imports; but torch's last layer, if it came after."""
    left = [f for f in frames if not f.filename.startswith((HERE, TORCH, "<frozen"))]
    modules = [f for f in frames if f.filename.startswith(TORCH) and f.name == "forward"]  # torch's own layers
    last = modules[-1:] if modules and (not left or frames.index(modules[-1]) > frames.index(left[-1])) else []
    return [*left, *last]


def _hint(error: Exception) -> str:
    if isinstance(error, (DataDependentOutputException, DynamicOutputShapeException)):
        return "Fake tensors have shapes but no values, and this line asks for values: measure it without --fake."
    if isinstance(error, ModuleNotFoundError):
        return f"Is {error.name} installed where ckptlib is? {sys.executable} -m pip install {error.name}"
    place = _module_at(error.__traceback__)
    return f"This was in {place}." if place else ""


def _module_at(tb: TracebackType | None) -> str:
    """The innermost module that was being called, and the shapes that it was given."""
    root: nn.Module | None = None
    found: nn.Module | None = None
    arguments: tuple = ()
    while tb is not None:
        names = tb.tb_frame.f_locals
        if tb.tb_frame.f_code.co_name == name_of("module_call") and isinstance(names.get("self"), nn.Module):
            root, found = root or names["self"], names["self"]
            arguments = (*names.get("args", ()), *names.get("kwargs", {}).values())
        tb = tb.tb_next
    if root is None or found is None:
        return ""
    path = next((path for path, module in root.named_modules() if module is found), "")
    shapes = ", ".join(str(tuple(t.shape)) for t in tensors_in(arguments))
    name = f"{path} ({type(found).__name__})" if path else type(found).__name__
    return f"{name}, which was given {shapes}" if shapes else name
