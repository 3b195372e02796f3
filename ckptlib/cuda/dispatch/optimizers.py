"""Would this optimizer update all parameters in one call? On CUDA most do, by default; on a CPU none does."""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from ...torch_internals import FakeTensor, name_of


def would_be_foreach(optimizer: torch.optim.Optimizer, group: dict) -> bool:
    """torch/optim/optimizer.py `_default_to_fused_or_foreach`: CUDA's default if neither foreach nor fused is given."""
    if group.get("foreach", False) is not None or group.get("fused") is not None or group.get("differentiable"):
        return False
    kinds = [kind for kind in type(optimizer).__mro__ if kind not in (torch.optim.Optimizer, object)]
    if not any(hasattr(sys.modules[kind.__module__], name_of("uses_foreach_by_default")) for kind in kinds):
        return False  # Adafactor, Muon, SparseAdam and LBFGS never ask
    if isinstance(optimizer, torch.optim.Adam) and isinstance(group["lr"], Tensor) and not group["capturable"]:
        return False
    return all(type(p) in (Tensor, torch.nn.Parameter, FakeTensor) for p in group["params"])
