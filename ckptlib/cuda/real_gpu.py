"""What did the real GPU count? Its own allocator's figures, where there is one; a clear refusal where there is none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ..errors import CkptError
from ..torch_internals import memory_snapshot, record_memory_history


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
        raise NoSuchDevice(f"device is {device!r}: expected 'cpu', 'sim:cuda', or an accelerator such as 'cuda'")
    if found is None:
        raise NoSuchDevice(
            f"device is {device!r}, but torch {torch.__version__} finds no accelerator on this machine. "
            "To predict what a GPU would count, use device='sim:cuda'."
        )
    if found.type != kind:
        raise NoSuchDevice(f"device is {device!r}, but this machine's accelerator is {found.type!r}")


@dataclass
class Counted:
    """Peaks as the device's allocator counted them, in bytes."""

    device: torch.device
    peak: int = 0
    forward_peak: int = 0
    reserved: int = 0
    history: list[tuple[str, int]] | None = None  # CUDA only: the allocator's actions and their block sizes, in order

    def reset(self) -> None:
        """Set-up is over: forget the peaks so far."""
        torch.accelerator.synchronize(self.device)
        torch.accelerator.reset_peak_memory_stats(self.device)

    def forward_ends(self) -> None:
        self.forward_peak = torch.accelerator.max_memory_allocated(self.device)


@contextlib.contextmanager
def counting(device: str) -> Iterator[Counted]:
    """Count while the block runs. Work still under way is waited for, before and after."""
    counted = Counted(torch.device(device))
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
        index = counted.device.index if counted.device.index is not None else torch.cuda.current_device()
        traces = memory_snapshot()["device_traces"][index]
        counted.history = [(entry["action"], entry["size"]) for entry in traces]
    finally:
        record_memory_history(None)
