"""Which implementation of its step does an optimizer choose on CUDA? Most update all parameters in one call there.

On a CPU none does by default, so the choice is made for it while a step runs.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from ...torch_internals import FakeTensor, name_of
from .host_tensors import mark_host, step_counters


class OptimizerChoice:
    """Sets `foreach` in the parameter groups of the step under way, and resets it afterwards."""

    def __init__(self) -> None:
        self._chosen: list[dict] = []  # parameter groups whose `foreach` we set

    def begin(self, optimizer: torch.optim.Optimizer) -> None:
        for counter in step_counters(optimizer):
            mark_host(counter)  # of an optimizer that existed before the context
        for group in optimizer.param_groups:
            if _would_be_foreach(optimizer, group):
                group["foreach"] = True
                self._chosen.append(group)

    def end(self) -> None:
        while self._chosen:
            self._chosen.pop()["foreach"] = None


def _would_be_foreach(optimizer: torch.optim.Optimizer, group: dict) -> bool:
    """torch/optim/optimizer.py `_default_to_fused_or_foreach`: CUDA's default unless foreach or fused is passed."""
    if group.get("foreach", False) is not None or group.get("fused") is not None or group.get("differentiable"):
        return False
    kinds = [kind for kind in type(optimizer).__mro__ if kind not in (torch.optim.Optimizer, object)]
    if not any(hasattr(sys.modules[kind.__module__], name_of("uses_foreach_by_default")) for kind in kinds):
        return False  # Adafactor, Muon, SparseAdam and LBFGS never ask
    if isinstance(optimizer, torch.optim.Adam) and isinstance(group["lr"], Tensor) and not group["capturable"]:
        return False
    return all(type(p) in (Tensor, torch.nn.Parameter, FakeTensor) for p in group["params"])
