"""How is a module checkpointed where it is? Each of its calls becomes a checkpoint, and the model is left as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ..torch_internals import name_of
from .block_detection import buffers_restored
from .scheduled_model import divert

_CALL, _CALL_WITH_HOOKS = name_of("compiled_call"), name_of("module_call")


class CheckpointedModules:
    """Takes the calls of some modules, none of which is inside of another one."""

    def __init__(self, modules: Sequence[nn.Module]):
        self.modules = modules
        self.own_calls = [module.__dict__.get(_CALL) for module in modules]

    def install(self) -> None:
        for module, own_call in zip(self.modules, self.own_calls, strict=True):
            divert(module, partial(_checkpointed, module, own_call or getattr(module, _CALL_WITH_HOOKS)))

    def remove(self) -> None:
        for module, own_call in zip(self.modules, self.own_calls, strict=True):
            divert(module, own_call)


def _checkpointed(module: nn.Module, call: Callable, /, *args: Any, **kwargs: Any) -> Any:
    """Called in place of the module. Its second run leaves the buffers as the first one has left them."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():  # apply.py has seen to the compiler
        return call(*args, **kwargs)
    contexts = partial(_leaves_buffers, module)
    return checkpoint(call, *args, use_reentrant=False, context_fn=contexts, **kwargs)


def _leaves_buffers(module: nn.Module) -> tuple[Any, Any]:
    has_buffers = next(module.buffers(), None) is not None
    return nullcontext(), buffers_restored([module]) if has_buffers else nullcontext()
