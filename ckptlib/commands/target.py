"""What does package.module:function stand for? Your function, the step that it builds, and any error on the way."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import nn

from ..cuda.phantom import launch as phantom
from ..errors import CkptError, OwnCodeFailed
from ..remember.user_models import Training, handed_in, required, training_of
from ..torch_internals import DataDependentOutputException, DynamicOutputShapeException, name_of
from ..tracing.storages import tensors_in

BATCH = "batch"  # the parameter of your function that `ckptlib fit` tries numbers for
HERE = os.path.join(str(Path(__file__).resolve().parents[1]), "")
TORCH = os.path.join(str(Path(torch.__file__).resolve().parent), "")


class Target:
    """Your function. Errors in its result are reported in one line, those that it raises with the line of your code."""

    def __init__(self, text: str):
        self.text = text
        self.function = _load(text)
        try:
            self.parameters: Mapping[str, inspect.Parameter] = inspect.signature(self.function).parameters
        except (TypeError, ValueError):  # a builtin, perhaps
            self.parameters = {}

    def __reduce__(self) -> tuple[type[Target], tuple[str]]:
        return Target, (self.text,)  # another process finds the function by its name, as this one did

    def build(self, **given: object) -> Any:
        if "device" in self.parameters:
            given = {"device": "cpu", **given}  # from there it is moved, if that is needed
        self._refuse_missing_arguments(given)
        with own_code(f"{self.text} failed"):
            return self.function(**given)

    def with_batch(self) -> Callable[..., Any]:
        """Your function, for `fit` to call with one batch after another."""

        @wraps(self.function)
        def build(**batch: int) -> Any:
            return self.build(**batch)

        return build

    def training(self) -> Training:
        """The model with its inputs, which is what can be planned for."""
        return training_of(self.build(), self.text)

    def step(self, device: object = "cpu") -> Callable[[], object]:
        """The step to measure, whose errors are told by where in your code they are."""
        step = handed_in(self.build(**({"device": device} if "device" in self.parameters else {})), self.text).run

        def run() -> object:
            with own_code(f"the step of {self.text} failed"):
                return step()

        return run

    def _refuse_missing_arguments(self, given: dict) -> None:
        names = [name for name in required(self.parameters) if name not in given]
        if names == [BATCH]:
            name = self.function.__name__
            raise CkptError(f"{self.text} needs a batch: give it a default, as in def {name}(batch=8)")
        if names:
            example = f"def build(): return {self.function.__name__}({', '.join(f'{name}=...' for name in names)})"
            raise CkptError(f"{self.text} needs arguments ({', '.join(names)}). Write one without any: {example}")


# ---- finding it -----------------------------------------------------------------------------------------------------
def _load(target: str) -> Callable[..., object]:
    module_name, colon, name = target.partition(":")
    if not (colon and all(part.isidentifier() for part in [*module_name.split("."), name])):
        stem = Path(module_name).stem
        likely = f"such as {stem if stem.isidentifier() else 'mine'}:{name if name.isidentifier() else 'build'}"
        raise CkptError(f"the target is {target!r}, expected package.module:function, {likely} (for measure also mlp)")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does: your own file is found where you stand
    try:
        with own_code(f"{module_name} could not be imported"):
            module = importlib.import_module(module_name)
    except OwnCodeFailed as error:
        cause = error.__cause__
        if not isinstance(cause, ModuleNotFoundError) or cause.name is None:
            raise
        if cause.name != module_name and not module_name.startswith(f"{cause.name}."):
            raise  # your module was found, but imports one that is missing
        here = sorted(path.stem for path in Path.cwd().glob("*.py"))
        more = f". Here are {', '.join(here[:8])}{', …' * (len(here) > 8)}" if here else ": there is no .py file here"
        raise CkptError(f"no module {module_name!r}, looked for from {os.getcwd()} on{more}") from None
    build = getattr(module, name, None)
    if not callable(build):
        if hasattr(module, name):
            kind = type(build).__name__
            raise CkptError(f"{name!r} in {module_name} is of type {kind}, expected a function that returns the step")
        raise CkptError(f"{module_name} has no function {name!r}{_like(module, name)}")
    return build


def _like(module: Any, name: str) -> str:
    """Which functions of the module the user may have meant."""
    own = [n for n, f in vars(module).items() if inspect.isfunction(f) and f.__module__ == module.__name__]
    if meant := difflib.get_close_matches(name, own, n=1):
        return f". Did you mean {meant[0]}?"
    return f". It has {', '.join(own[:8])}{', …' * (len(own) > 8)}" if own else ""


# ---- errors of your own code ----------------------------------------------------------------------------------------
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
    given: tuple = ()
    while tb is not None:
        names = tb.tb_frame.f_locals
        if tb.tb_frame.f_code.co_name == name_of("module_call") and isinstance(names.get("self"), nn.Module):
            root, found = root or names["self"], names["self"]
            given = (*names.get("args", ()), *names.get("kwargs", {}).values())
        tb = tb.tb_next
    if root is None or found is None:
        return ""
    path = next((path for path, module in root.named_modules() if module is found), "")
    shapes = ", ".join(str(tuple(t.shape)) for t in tensors_in(given))
    name = f"{path} ({type(found).__name__})" if path else type(found).__name__
    return f"{name}, which was given {shapes}" if shapes else name
