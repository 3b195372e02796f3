"""What must be as it was when a function runs for the second time? Random numbers, autocast, the default device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from ..torch_internals import DeviceContext, function_modes, tree_leaves

CPU = torch.device("cpu")


def accelerator_awake() -> bool:
    """Has the current accelerator been used in this process? The question does not initialize it."""
    current = torch.accelerator.current_accelerator()
    if current is None:
        return False
    module = torch.get_device_module(current)
    return hasattr(module, "is_initialized") and module.is_initialized()  # MPS has no such function


def accelerators_in_use(values: Iterable[Any]) -> list[torch.device]:
    """Where the tensors among `values`, however deeply nested, live, and the current accelerator if it has been used.

    A module's weights may be there, and its dropout, even if its arguments are not.
    """
    leaves = (leaf for v in values for leaf in ((v,) if isinstance(v, Tensor) else tree_leaves(v)))
    found = {t.device for t in leaves if isinstance(t, Tensor) and not (t.is_cpu or t.is_meta)}
    current = torch.accelerator.current_accelerator()
    if current is not None and accelerator_awake():
        found.add(torch.device(current.type, torch.accelerator.current_device_index()))
    return list(found)


def _generator(device: torch.device) -> tuple[Any, tuple]:
    """The module that has the device's get_rng_state and set_rng_state, and the last argument for both."""
    if device.type == "cpu":
        return torch, ()
    return torch.get_device_module(device), () if device.type == "mps" else (device,)


def rng_states(devices: Iterable[torch.device]) -> list[tuple[torch.device, Tensor]]:
    found = ((device, *_generator(device)) for device in devices)
    return [(device, module.get_rng_state(*which)) for device, module, which in found]


def set_rng_states(states: list[tuple[torch.device, Tensor]]) -> None:
    for device, state in states:
        module, which = _generator(device)
        module.set_rng_state(state, *which)


def autocast_state(device_type: str) -> dict[str, Any]:
    """The arguments that make `torch.autocast` what it is at this moment."""
    return {
        "device_type": device_type,
        "enabled": torch.is_autocast_enabled(device_type),
        "dtype": torch.get_autocast_dtype(device_type),
        "cache_enabled": torch.is_autocast_cache_enabled(),
    }


def device_context() -> torch.device | None:
    """The device of the innermost `with torch.device(...)`, where factory functions put their tensors."""
    modes = reversed(function_modes())
    return next((mode.device for mode in modes if isinstance(mode, DeviceContext)), None)


class GlobalState:
    """The global state that PyTorch's functions depend on, as it is when this object is made.

    Backward usually runs outside the `with torch.autocast(...)` of forward, and after others have drawn random numbers.
    State that a function has in Python, such as a call counter or a cache, is not part of it.
    """

    def __init__(self, preserve_rng_state: bool, values: Iterable[Any]) -> None:
        devices = [CPU, *accelerators_in_use(values)]
        self.rng = rng_states(devices) if preserve_rng_state else []
        types = {device.type for device in devices}
        self.autocast = [autocast_state(kind) for kind in types if torch.amp.is_autocast_available(kind)]
        self.device = device_context()
        self.awake = accelerator_awake()

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Inside, all is as it was then; afterwards, all is as it is now."""
        now = rng_states(device for device, _ in self.rng)
        try:
            set_rng_states(self.rng)
            with ExitStack() as stack:
                for state in self.autocast:
                    if state != autocast_state(state["device_type"]):
                        stack.enter_context(torch.autocast(**state))
                if self.device is not None:
                    stack.enter_context(self.device)
                yield
        finally:
            set_rng_states(now)
