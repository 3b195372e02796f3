"""On which device is a model, or a tensor? A model must be on one only; a simulation has to find out about tensors.

A simulation has one device, the CPU, which stands for the GPU during the step. A set-up uses both, the host and the
GPU, and what it leaves in the GPU's cache decides which blocks the step finds there. So a set-up that gets the
device is watched: `torch.randn(3, device=device)` and `model.to(device)` put tensors there, `torch.randn(3)` does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from ..errors import CkptError
from .storages import tensors_in

_DEVICE = Tensor.device.__get__


def only_device(model: nn.Module) -> str:
    """The type of the one device a model is on. On several devices, it would be unclear whose memory to report."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    where = {str(t.device): name for name, t in reversed(tensors)}  # the first tensor on each device
    if len(where) > 1:
        found = ", ".join(f"{device} ({name})" for device, name in sorted(where.items()))
        raise CkptError(
            f"{type(model).__name__} is on {len(where)} devices: {found}. Memory is measured on one device at a time: "
            "was a layer not moved with the model?"
        )
    return torch.device(*where).type if where else "cpu"


class NamedDevice(TorchFunctionMode):
    """Calls `arrived` with the results of each call that names the device."""

    def __init__(self, arrived: Callable[[Iterable[Tensor]], None]):
        super().__init__()
        self._arrived = arrived
        self._there: WeakSet[torch.UntypedStorage] = WeakSet()
        self._of_host: dict[int, torch.device] = {}  # id of a tensor on the host -> the device that it reported

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func == _DEVICE:
            if is_lazy(args[0]) or args[0].untyped_storage() not in self._there:
                self._of_host[id(out)] = out
        elif any(map(self._names_device, (*args, kwargs.get("device")))):
            made = [t for t in tensors_in(out) if not is_lazy(t)]  # those have no memory yet
            self._there.update(t.untyped_storage() for t in made)
            self._arrived(made)
        return out

    def _names_device(self, argument: Any) -> bool:
        if isinstance(argument, torch.device):
            return id(argument) not in self._of_host
        return isinstance(argument, str) and argument == "cpu"
