"""Which tensors would stay in the host's memory, were the program on a GPU? An optimizer's step counters, mostly.

On a CPU every tensor's device says "cpu", so what stands for the host has to be remembered. It is remembered by
storage, so views of a host tensor are on the host as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from ...torch_internals import storage_address, unset_fake_temporarily, without_dispatch_modes
from ...tracing.call_stack import caller, caller_module, caller_name
from ...tracing.storages import tensors_in

_MADE_OF_NUMBERS = (torch.ops.aten.lift_fresh.default, torch.ops.aten.lift.default)
_ZEROS = torch.ops.aten.zeros.default
# `torch.zeros(())` without a device, unless they are capturable. Elsewhere in torch.optim, zeros are made on the
# parameter's device.
_ZEROS_ON_HOST = ("torch.optim.adadelta", "torch.optim.rmsprop", "torch.optim.rprop")
_ON_DEVICE = "torch.optim.asgd"  # names the parameter's device, but not in its loop over the parameters
_ON_DEVICE_IF_NAMED = "torch.optim.swa_utils"  # AveragedModel's counter is on the device that it was given, if any
COPY = torch.ops.aten._to_copy.default
_READ = torch.ops.aten._local_scalar_dense.default

# A weak reference keeps the address of a dead storage from being given to a new one, so addresses are good keys.
_host: dict[int, StorageWeakRef] = {}


def is_host(t: Tensor) -> bool:
    """Whether `t` would be on the host in a CUDA program. False for everything made outside `as_cuda()`."""
    return bool(_host) and t.layout is torch.strided and storage_address(t.untyped_storage()) in _host


def mark_host(t: Tensor) -> Tensor:
    """Remember that `t` stands for a tensor in the host's memory."""
    if len(_host).bit_count() == 1:  # at powers of two: seldom enough to cost nothing
        for address in [address for address, ref in _host.items() if ref.expired()]:
            del _host[address]
    storage = t.untyped_storage()
    _host[storage_address(storage)] = StorageWeakRef(storage)
    return t


def step_counters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Those that torch.optim keeps in the host's memory, as it does unless asked for another way. ASGD's are not."""
    if isinstance(optimizer, torch.optim.ASGD):
        return []
    groups = [g for g in optimizer.param_groups if not (g.get("capturable") or g.get("fused"))]
    found = [optimizer.state.get(p, {}).get("step") for group in groups for p in group["params"]]
    return [t for t in found if isinstance(t, Tensor)]


_copying = threading.local()


@contextmanager
def copying_to(place: str) -> Iterator[None]:
    """Inside, a tensor that is copied goes to the "host" or to the "device": here both are called "cpu"."""
    before, _copying.place = copying(), place
    try:
        yield
    finally:
        _copying.place = before


def copying() -> str | None:
    return getattr(_copying, "place", None)


def copy_to(place: str, func: Callable, args: tuple, kwargs: dict) -> Tensor:
    """Run a copy that `copying_to` has announced. It stays fake if it was: nobody reads its values."""
    out = func(*args, **kwargs)
    return mark_host(out) if place == "host" else out


def host_scalar(dtype: torch.dtype = torch.int64) -> Tensor:
    """A new real scalar on the host, whatever modes are active: a seed that CUDA's kernels take from the CPU."""
    with without_dispatch_modes():
        return mark_host(torch.zeros((), dtype=dtype))


def runs_on_host(func: Any, args: tuple, kwargs: dict) -> bool:
    """Whether `func` would run on the host: it makes a host tensor, or everything it reads is one."""
    if func in _MADE_OF_NUMBERS and caller_module() == "torch.nn.utils.rnn":  # the lengths of packed sequences
        return True
    if func in _MADE_OF_NUMBERS and (module := caller_module()).startswith("torch.optim"):
        named = module == _ON_DEVICE_IF_NAMED and _local_of_caller("device") is not None
        return not named and (module != _ON_DEVICE or caller_name() == "_single_tensor_asgd")
    if func is _ZEROS and not args[0] and caller_module() in _ZEROS_ON_HOST:
        return not (_local_of_caller("group") or {}).get("capturable")
    return bool(_host) and _all_host((args, kwargs))


def _local_of_caller(name: str) -> Any:
    """The caller's variable of that name. On a CPU, no op tells a device that was named from one that was not."""
    frame = caller()
    return None if frame is None else frame.f_locals.get(name)


def run_on_host(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run for real, even under FakeTensorMode, so that `.item()` has an answer. The results are on the host as well."""
    with unset_fake_temporarily():
        out = func(*args, **kwargs)
    for t in tensors_in(out):
        if not is_host(t):
            mark_host(t)
    return out


def assumed(func: Any, args: tuple) -> float | bool | None:
    """The answer where torch itself reads a value of a fake tensor, which has none; None where the program does.

    GradScaler asks whether a gradient overflowed: none did. torch.nn.functional asks whether to raise an error: it need
    not. torch.nn.init asks whether to draw again: it need not. Optimizers ask for numbers that they calculate with, as
    Adafactor for a norm, or by which they know their first steps, as ASGD for its mu of 1.
    """
    if func is not _READ or type(args[0]) is Tensor:
        return None
    module = caller_module()
    if module in ("torch.amp.grad_scaler", "torch.nn.functional", "torch.nn.init"):
        return False if args[0].dtype is torch.bool else 0.0
    return 1.0 if module.startswith("torch.optim.") else None


def _all_host(x: Any) -> bool:
    found = False
    for t in tensors_in(x):
        if not is_host(t):
            return False
        found = True
    return found
