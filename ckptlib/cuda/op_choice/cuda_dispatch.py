"""Which ops would this program run on CUDA? A context in which a CPU, or a fake CPU, dispatches those.

Eager PyTorch does not run the same ops everywhere: dropout's mask, attention, the optimizer's loop and autocast's lists
differ by device. Inside `as_cuda()` they are CUDA's, so a trace of shapes, dtypes and saved tensors is CUDA's trace.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.checkpoint import DefaultDeviceType

from ...torch_internals import (
    CalledDirectly,
    FakeTensor,
    TorchDispatchMode,
    foreach_types,
    including_key,
    name_of,
    privateuse1_name,
    take_away,
)
from ..gpus import DEFAULT, Gpu, preset
from .autocast import Casts
from .backward_order import EngineThread
from .cuda_only_ops import KERNELS
from .device_dependent_ops import OURS, UnknownOnCuda, below_autocast, register
from .host_tensors import (
    COPY,
    assumed,
    copy_to,
    copying,
    copying_to,
    is_host,
    run_on_host,
    runs_on_host,
)
from .optimizer_choice import OptimizerChoice

__all__ = ["Cuda", "UnknownOnCuda", "as_cuda", "is_host"]


@contextlib.contextmanager
def as_cuda(gpu: str | Gpu = DEFAULT) -> Iterator[Cuda]:
    """Run the block's CPU tensors through the ops that `gpu` would run: `with as_cuda("a100"), tracer: ...`.

    Enter it before a tracer, which then sees CUDA's ops and not how we imitate them; before or after FakeTensorMode.
    Values stay right, except that attention's own dropout is not drawn.
    """
    cuda = Cuda(preset(gpu))
    with _installed(cuda), _visited(), cuda:
        yield cuda


class Cuda(CalledDirectly, TorchDispatchMode):
    """A mode below the tracer. It runs the ops that only CUDA has, and keeps host tensors real."""

    def __init__(self, gpu: Gpu):
        super().__init__()
        self.gpu = gpu
        self.casts = Casts()
        self.engine = EngineThread()
        self.optimizers = OptimizerChoice()

    def is_host(self, t: Tensor) -> bool:
        """Whether `t` would be in the host's memory: leave its storage out of the device's."""
        return is_host(t)

    def close(self) -> None:
        self.optimizers.end()  # for a step that raised before it could undo this
        self.casts.clear()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        with below_autocast():
            if func is COPY and (place := copying()):
                return copy_to(place, func, args, kwargs)
            if runs_on_host(func, args, kwargs):
                return run_on_host(func, args, kwargs)
            if (answer := assumed(func, args)) is not None:
                return answer
            kernel = KERNELS.get(func)
            return kernel(self.gpu, *args, **kwargs) if kernel else func(*args, **kwargs)


# --- the process-wide parts: in place while some thread is in a context, and idle in the threads that are not -------

_lock = threading.Lock()
_local = threading.local()  # .stack: the contexts this thread is in
_everywhere: list[Cuda] = []  # the contexts of all threads
_undo: list[Callable[[], None]] = []


def _mine() -> list[Cuda]:
    return _local.__dict__.setdefault("stack", [])


def _current() -> tuple[Gpu, Casts]:
    """Those of this thread, or of the newest context, because the engine may run a deep backward in another thread."""
    cuda = (_mine() or _everywhere)[-1]
    return cuda.gpu, cuda.casts


@contextlib.contextmanager
def _installed(cuda: Cuda) -> Iterator[None]:
    with _lock:
        try:
            if not _everywhere:
                _install()
        except BaseException:
            _uninstall()
            raise
        _everywhere.append(cuda)
    _mine().append(cuda)
    try:
        yield
    finally:
        _mine().remove(cuda)
        cuda.close()
        with _lock:
            _everywhere.remove(cuda)
            if not _everywhere:
                _uninstall()


def _install() -> None:
    _undo.extend(functools.partial(take_away, library) for library in register(_current))
    _undo.append(register_optimizer_step_pre_hook(_before_step).remove)
    _undo.append(register_optimizer_step_post_hook(_after_step).remove)
    # torch.autocast("cuda") and GradScaler("cuda") ask these two module functions whether to disable themselves, and
    # autocast ends by calling the third. A patch is the only way in; each asks the original in every other thread.
    _patch(torch.cuda.amp.common, "amp_definitely_not_available", lambda original: not _mine() and original())
    _patch(torch.cuda, "is_bf16_supported", lambda original, *a, **kw: bool(_mine()) or original(*a, **kw))
    _patch(torch, "clear_autocast_cache", _clear_casts)
    _patch(torch.autograd, name_of("engine_entry"), _run_engine)
    _patch(torch.autograd.graph.save_on_cpu, "__init__", _save_on_host)
    for module in [m for name, m in sys.modules.items() if name.startswith("torch.optim.")]:
        if hasattr(module, name_of("capturable_devices")):
            _patch(module, name_of("capturable_devices"), _with_cpu)
    # torch.utils.checkpoint restores the autocast of its arguments' device, and takes this one for CPU tensors.
    _undo.append(functools.partial(DefaultDeviceType.set_device_type, DefaultDeviceType.get_device_type()))
    DefaultDeviceType.set_device_type("cuda")
    # Fake parameters are of another type than torch.Tensor, which is all that clip_grad_norm_ asks for on a CPU.
    foreach_types.append(FakeTensor)
    _undo.append(lambda: foreach_types.remove(FakeTensor))


def _uninstall() -> None:
    while _undo:
        _undo.pop()()


def _patch(module: Any, name: str, replacement: Callable) -> None:
    original = getattr(module, name)

    @functools.wraps(original)
    def patched(*args: Any, **kwargs: Any) -> Any:  # a function, and so a method where `module` is a class
        return replacement(original, *args, **kwargs)

    setattr(module, name, patched)
    _undo.append(lambda: setattr(module, name, original))


def _with_cpu(original: Callable[..., list[str]], *args: Any, **kwargs: Any) -> list[str]:
    return [*original(*args, **kwargs), *(["cpu"] if _mine() else [])]


def _clear_casts(original: Callable[[], None]) -> None:
    for cuda in _mine():
        cuda.casts.clear()
    original()


def _run_engine(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return _mine()[-1].engine.run(original, *args, **kwargs) if _mine() else original(*args, **kwargs)


def _save_on_host(
    original: Callable[..., None], self: Any, pin_memory: bool = False, *args: Any, **kwargs: Any
) -> None:
    """torch/autograd/graph.py `save_on_cpu`: everything is on a CPU already, so the copies have to be announced."""
    if not _mine():
        return original(self, pin_memory, *args, **kwargs)
    layout = torch.contiguous_format if pin_memory else torch.preserve_format

    def pack(t: Tensor) -> tuple[bool, Tensor]:
        if is_host(t):
            return True, t
        with copying_to("host"):
            return False, t.to("cpu", copy=True, memory_format=layout)

    def unpack(packed: tuple[bool, Tensor]) -> Tensor:
        was_on_host, t = packed
        if was_on_host:
            return t
        with copying_to("device"):
            return t.to("cpu", copy=True)

    return torch.autograd.graph.saved_tensors_hooks.__init__(self, pack, unpack)


@contextlib.contextmanager
def _visited() -> Iterator[None]:
    """Send this thread's ops through `device_dependent_ops`. Autograd passes the setting on to its backward threads."""
    device = privateuse1_name()
    before = torch.is_autocast_enabled(device)
    torch.set_autocast_enabled(device, True)
    try:
        with including_key(OURS):
            yield
    finally:
        torch.set_autocast_enabled(device, before)


def _before_step(optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> None:
    for cuda in _mine()[-1:]:
        cuda.optimizers.begin(optimizer)


def _after_step(optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> None:
    for cuda in _mine()[-1:]:
        cuda.optimizers.end()
