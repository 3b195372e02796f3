"""What happened to memory, as data? Ops, the storages they made, and what became of them, in order."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

PHASES = ("forward", "recompute", "backward", "optimizer")
CATEGORIES = ("parameter", "buffer", "gradient", "optimizer state", "activation", "input", "temporary", "workspace")


class TensorMeta(NamedTuple):
    """A tensor without its values, which is kept of an op's arguments after the op has run."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    storage: int  # index into Trace.storages

    @property
    def numel(self) -> int:
        n = 1
        for size in self.shape:
            n *= size
        return n

    @property
    def nbytes(self) -> int:
        return self.numel * self.dtype.itemsize


@dataclass(slots=True)
class Op:
    """One call of one kernel. `args` and `kwargs` are the call's own, with TensorMeta where tensors stood."""

    index: int
    name: str  # "aten.addmm.default"
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    module: str  # "block_1.0", or "" outside every module
    phase: str  # one of PHASES
    node: int = -1  # sequence number of the newest autograd node: this op's own, if it has one
    cudnn: bool = True  # torch.backends.cudnn.enabled at the time: without it, CUDA has kernels of its own
    outputs: tuple[TensorMeta, ...] = ()

    def reads(self) -> set[int]:
        """The storages of its arguments."""
        return set(_storages_in((self.args, self.kwargs)))


def _storages_in(x: Any) -> Iterator[int]:
    if isinstance(x, TensorMeta):
        yield x.storage
    elif isinstance(x, (tuple, list, dict)):
        for part in x.values() if isinstance(x, dict) else x:
            yield from _storages_in(part)


@dataclass(slots=True)
class Storage:
    """One piece of memory, from its allocation to its release. Views share it, so it is what memory is counted in."""

    index: int
    nbytes: int
    op: int | None  # index of the op that allocated it; None if the trace found it there
    module: str
    phase: str
    category: str  # one of CATEGORIES
    shape: tuple[int, ...]  # of the tensor it was first seen through
    dtype: torch.dtype
    device: str = "cpu"  # "host" for a tensor that would stay in the host's memory, were this a GPU
    address: int = 0  # where it really is, if that was asked for
    name: str = ""  # "block_1.0.weight" for parameters, gradients, buffers and optimizer state


class Event(NamedTuple):
    kind: (
        str  # "op" (one begins), "alloc", "free", "mark", or, during set-up, "arrive": it is on the device from now on
    )
    storage: int  # index into Trace.storages; -1 for an op or a mark
    op: int  # index of the op under way; -1 between ops
    phase: str  # the phase of this event, because a gradient is freed in a different phase than it was made in
    label: str = ""  # of a mark


@dataclass
class Trace:
    """The record of one run. `before` lists the storages that were there already, in the order they were placed."""

    storages: list[Storage] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    set_up: list[Event] = field(default_factory=list)  # what it did on the device, if it was told the device
    events: list[Event] = field(default_factory=list)
    placed: int = 0  # how many of `before` are models' tensors, which come first
    unknowns: dict[str, str] = field(default_factory=dict)  # op -> what a fake run cannot know of it

    def settle(self, alive: Collection[int]) -> None:
        """Turn everything so far into the state before the run. Of its events, those on the device are kept aside."""
        alive = set(alive)
        self.set_up = list(self._on_device())
        made = [e.storage for e in self.events if e.kind == "alloc" and e.storage in alive]
        self.before = [i for i in self.before if i in alive] + made
        self.events.clear()
        for storage in map(self.storages.__getitem__, self.before):
            if storage.category in ("activation", "temporary"):  # set-up made it, so the step finds it there
                storage.category = "input"

    def _on_device(self) -> Iterator[Event]:
        """The events of a set-up that was told the device. What arrived there stays there, and so do ops on it."""
        there: set[int] = set()
        runs_there = False  # the op under way
        if not any(event.kind == "arrive" for event in self.events):
            return
        for event in self.events:
            storage = event.storage
            if event.kind == "op":
                runs_there = bool(there & self.ops[event.op].reads())
                if runs_there:
                    yield event
            elif event.kind == "arrive" and storage not in there:
                there.add(storage)
                yield event._replace(kind="alloc")
            elif event.kind == "alloc" and event.op >= 0 and runs_there:
                there.add(storage)
                yield event
            elif event.kind == "free" and storage in there:
                there.remove(storage)
                yield event

    def place_first(self, indices: list[int]) -> None:
        """Of what was there before, `indices` came first: a model is built elsewhere, then moved, before its inputs."""
        known = set(self.before)
        moved = dict.fromkeys(i for i in indices if i in known)
        placed = self.before[: self.placed]  # earlier models stay first
        rest = [i for i in self.before[self.placed :] if i not in moved]
        self.before = placed + [i for i in moved if i not in placed] + rest
        self.placed = len(self.before) - len(rest)
