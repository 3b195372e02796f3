"""What did the real GPU count? Its own allocator's figures, where there is one; a clear refusal where there is none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ..errors import CkptError
from ..torch_internals import (
    clear_cublas_workspaces,
    memory_snapshot,
    record_memory_history,
    set_memory_metadata,
)


class NoSuchDevice(CkptError):
    """There is no allocator to ask. Torch itself answers 0 here, which is worse than no answer."""


def require(device: str) -> None:
    """Raise unless `device` is an accelerator of this machine whose allocator can be asked."""
    try:
        kind = torch.device(device).type
    except RuntimeError:
        kind = None
    found = torch.accelerator.current_accelerator(check_available=True) if torch.accelerator.is_available() else None
    if kind is None or kind == "cpu":
        raise NoSuchDevice(
            f"device is {device!r}: expected 'cpu', 'sim:cuda', 'phantom:a100', or an accelerator such as 'cuda'"
        )
    if found is None:
        raise NoSuchDevice(
            f"device is {device!r}, but torch {torch.__version__} finds no accelerator on this machine. "
            "To predict what a GPU would count, use device='sim:cuda'."
        )
    if found.type != kind:
        raise NoSuchDevice(f"device is {device!r}, but this machine's accelerator is {found.type!r}")


def refuse_zero(nbytes: int, device: str) -> None:
    """Raise if a step's own tensors took 0 bytes on the device. The allocator's peak includes those of other steps."""
    if not nbytes:
        raise CkptError(
            f"the step allocated nothing on {device!r}, so all of it ran elsewhere. The likeliest mistake is that it "
            f"uses tensors that it finds by a global name, or makes with device='cpu'. Build them inside the function"
        )


@contextlib.contextmanager
def new_tensors_on(device: torch.device) -> Iterator[None]:
    """New tensors are made on the device unless the program says where, except by an optimizer without a closure.

    Most optimizers make their step counters with torch.zeros(()), which their code then expects on the CPU.
    """
    entered: list[contextlib.ExitStack] = []  # one for each optimizer step under way

    def begin(optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> None:
        entered.append(contextlib.ExitStack())
        if not any((*args[1:], *kwargs.values())):  # a closure runs the model
            entered[-1].enter_context(torch.device("cpu"))

    def end(*_: object) -> None:
        if entered:
            entered.pop().close()

    with device, contextlib.ExitStack() as undo:
        undo.callback(register_optimizer_step_pre_hook(begin).remove)
        undo.callback(register_optimizer_step_post_hook(end).remove)
        try:
            yield
        finally:
            while entered:  # a step that raised has not ended
                end()


@dataclass
class Counted:
    """Peaks as the device's allocator counted them, in bytes."""

    device: torch.device
    peak: int = 0
    forward_peak: int = 0
    reserved: int = 0
    recorded: dict[str, Any] | None = None  # CUDA only: the allocator's own record, with each entry's op

    def reset(self) -> None:
        """Set-up is over: forget the peaks so far."""
        torch.accelerator.synchronize(self.device)
        torch.accelerator.reset_peak_memory_stats(self.device)

    @property
    def index(self) -> int:
        return self.device.index if self.device.index is not None else torch.accelerator.current_device_index()

    def around(self) -> Callable[[int], AbstractContextManager] | None:
        """What is to be entered around each op, so that the record names it."""
        return _named_in_record if self.device.type == "cuda" else None

    def step_ends(self) -> None:
        """Read the record while the step's memory is as the step left it."""
        if self.device.type == "cuda":
            torch.accelerator.synchronize(self.device)
            self.recorded = memory_snapshot()

    def forward_ends(self) -> None:
        self.forward_peak = torch.accelerator.max_memory_allocated(self.device)


@contextlib.contextmanager
def counting(device: torch.device) -> Iterator[Counted]:
    """Count while the block runs. Work still under way is waited for, before and after.

    Cached blocks and cuBLAS's workspaces of earlier runs are released first, because both change what is counted: a
    request takes a whole block that is a little too large, and a workspace is made by the first product that needs it.
    """
    counted = Counted(device)
    torch.accelerator.synchronize(device)
    if device.type == "cuda":
        clear_cublas_workspaces()
    torch.accelerator.empty_cache()
    with _history(counted):
        counted.reset()
        yield counted
        torch.accelerator.synchronize(counted.device)
    counted.peak = torch.accelerator.max_memory_allocated(counted.device)
    counted.reserved = torch.accelerator.max_memory_reserved(counted.device)
    counted.forward_peak = counted.forward_peak or counted.peak  # no backward: all of it was forward


@contextlib.contextmanager
def _history(counted: Counted) -> Iterator[None]:
    """CUDA's allocator can write down every block it hands out: the real counterpart of our replay."""
    if counted.device.type != "cuda":
        yield
        return
    record_memory_history("all", context=None)
    try:
        yield
    finally:
        record_memory_history(None)


@contextlib.contextmanager
def _named_in_record(op: int) -> Iterator[None]:
    set_memory_metadata(str(op))
    try:
        yield
    finally:
        set_memory_metadata("")
