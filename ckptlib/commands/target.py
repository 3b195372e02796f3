"""What does package.module:function stand for? Your function is found, imported and called for the step it builds."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from ..errors import CkptError, OwnCodeFailed
from ..remember.user_models import Training, TrainingStep, handed_in, required, training_of
from .user_code_errors import own_code

BATCH = "batch"  # the parameter of your function that `ckptlib fit` tries numbers for


class Target:
    """Your function. A wrong result is reported in one line, and an error that it raises with the line of your code."""

    def __init__(self, text: str):
        self.text = text
        self.function = _load(text)
        try:
            self.parameters: Mapping[str, inspect.Parameter] = inspect.signature(self.function).parameters
        except (TypeError, ValueError):  # a builtin, perhaps
            self.parameters = {}

    def __reduce__(self) -> tuple[type[Target], tuple[str]]:
        return Target, (self.text,)  # another process finds the function by its name, as this one did

    def build(self, **arguments: object) -> Any:
        if "device" in self.parameters:
            arguments = {"device": "cpu", **arguments}  # from there it is moved, if that is needed
        self._refuse_missing_arguments(arguments)
        with own_code(f"{self.text} failed"):
            return self.function(**arguments)

    def with_batch(self) -> Callable[..., Any]:
        """Your function, for `fit` to call with one batch after another."""

        @wraps(self.function)
        def build(**batch: int) -> Any:
            return self.build(**batch)

        return build

    def training(self) -> Training:
        """The model with its inputs, which is what can be planned for."""
        return training_of(self.build(), self.text)

    def step(self, device: object = "cpu") -> TrainingStep:
        """The step to measure. An error in it is shown with the line of your code."""
        found = handed_in(self.build(**({"device": device} if "device" in self.parameters else {})), self.text)

        def run() -> object:
            with own_code(f"the step of {self.text} failed"):
                return found.run()

        return replace(found, run=run)

    def _refuse_missing_arguments(self, arguments: dict) -> None:
        names = [name for name in required(self.parameters) if name not in arguments]
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
