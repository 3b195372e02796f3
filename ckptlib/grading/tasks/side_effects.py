"""Has an answer changed more than it should, such as its arguments or a setting of torch?"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from ...torch_internals import (
    dispatch_modes,
    function_modes,
    global_forward_hooks,
    global_forward_pre_hooks,
    newest_saved_tensor_hooks,
    version_counter,
)

_DEEPEST = 4  # lists in lists


class SideEffects:
    """What an answer has changed, one sentence each. It may draw random numbers, and run and train a model."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self._before = _settings()

    def watched(self, answer: Any) -> Any:
        """The same function, but its arguments are looked at before and after each call."""
        if type(answer) is not types.FunctionType:
            return answer  # a class, or no answer at all

        @wraps(answer)
        def call(*args: Any, **kwargs: Any) -> Any:
            named = dict(zip(_names(answer, len(args)), args, strict=True)) | kwargs
            before = {name: _picture(value) for name, value in named.items()}
            try:
                return answer(*args, **kwargs)
            finally:
                changed = [name for name, value in named.items() if _picture(value) != before[name]]
                self.complaints += [CHANGED.format(name=name, answer=answer.__name__) for name in changed]

        return call

    def complaint(self) -> str:
        """ "" if nothing was changed."""
        after = _settings()
        left = [LEFT.format(what=name) for name, value in self._before.items() if after[name] != value]
        return (self.complaints + left + [""])[0]


CHANGED = "{answer} has changed its argument `{name}`. Leave what you are given as it is, and work on a copy."
LEFT = (
    "When your answer had returned, {what} had changed. Leave everything behind as you found it, also after an error."
)


def _names(answer: Callable, count: int) -> list[str]:
    code = answer.__code__
    return [*code.co_varnames[: code.co_argcount], *(f"argument {i}" for i in range(count))][:count]


def _settings() -> dict[str, Any]:
    return {
        "the active hooks for saved tensors": newest_saved_tensor_hooks(False) is not None,
        "the hooks that are called for every module": (len(global_forward_hooks), len(global_forward_pre_hooks)),
        "the active modes of torch": (len(function_modes()), len(dispatch_modes())),
        "the default dtype": torch.get_default_dtype(),
        "the grad mode": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "autocast": torch.is_autocast_enabled("cpu"),
    }


def _picture(value: Any, depth: int = 0) -> Any:
    """What can be compared after a call. Nothing is computed, because a probe may count what is."""
    if isinstance(value, Tensor):
        version = -1 if value.is_inference() else version_counter(value)
        return id(value), version
    if isinstance(value, nn.Module):
        parts = {name: (module.training, _hooks(module)) for name, module in value.named_modules()}
        return parts, [(name, id(parameter), parameter.requires_grad) for name, parameter in value.named_parameters()]
    if depth < _DEEPEST and isinstance(value, (list, tuple)):
        return type(value), [_picture(item, depth + 1) for item in value]
    if isinstance(value, (set, frozenset)):
        return frozenset(value)
    if depth < _DEEPEST and isinstance(value, Mapping):
        return [(key, _picture(item, depth + 1)) for key, item in value.items()]
    return value if isinstance(value, (int, float, str, bytes, bool)) else id(value)


def _hooks(module: nn.Module) -> int:
    return sum(len(held) for name, held in vars(module).items() if name.endswith("_hooks") and held)
