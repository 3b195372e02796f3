"""How much memory is in use at each moment, and whose is it? Changes in order, and what they add up to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .events import CATEGORIES, Storage, Trace


class Change(NamedTuple):
    """Bytes that were allocated (nbytes > 0) or freed (nbytes < 0) for one storage."""

    nbytes: int
    owner: Storage
    phase: str
    op: int  # index of the op under way; -1 between ops


class Mark(NamedTuple):
    """A moment the program named with `ck.mark`."""

    label: str
    allocated: int
    peak: int  # since the mark before
    reserved: int | None  # what the allocator holds, used or not; None where no allocator was asked


@dataclass
class Timeline:
    """`start`: the bytes in use at first. `changes`: all later ones. Moment i is after change i; -1 the start."""

    start: list[Change] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    @cached_property
    def totals(self) -> np.ndarray:
        """Bytes in use after each change."""
        sizes = np.fromiter((c.nbytes for c in self.changes), dtype=np.int64, count=len(self.changes))
        return sum(c.nbytes for c in self.start) + np.cumsum(sizes)

    @cached_property
    def peak_moment(self) -> int:
        """The first moment at which most is in use; -1 if that is the start."""
        totals = self.totals
        i = int(totals.argmax()) if len(totals) else -1
        return i if i >= 0 and totals[i] > self.total(-1) else -1

    def total(self, moment: int) -> int:
        return sum(c.nbytes for c in self.start) if moment < 0 else int(self.totals[moment])

    @property
    def peak(self) -> int:
        return self.total(self.peak_moment)

    @cached_property
    def forward_peak(self) -> int:
        """The peak before backward begins, which a measurement that stops after the forward reports."""
        return max([self.total(-1), *self.totals[: self.backward_begins].tolist()])

    @cached_property
    def backward_begins(self) -> int:
        """The first moment of backward. Without a backward, the moment after the last one."""
        phases = enumerate(change.phase for change in self.changes)
        return next((i for i, phase in phases if phase in ("backward", "recompute")), len(self.changes))

    def alive(self, moment: int) -> list[Change]:
        """The allocations in force at a moment, in the order they were made."""
        live: dict[tuple[int, int], Change] = {}
        for c in self.start + self.changes[: moment + 1]:
            key = (id(c.owner), abs(c.nbytes))
            if c.nbytes < 0:
                del live[key]
            else:
                live[key] = c
        return list(live.values())

    def by_category(self, moment: int) -> dict[str, int]:
        sums: Counter[str] = Counter()
        for c in self.alive(moment):
            sums[c.owner.category] += c.nbytes
        return {category: sums[category] for category in CATEGORIES if sums[category]}

    def by_module(self, moment: int) -> dict[str, int]:
        sums: Counter[str] = Counter()
        for c in self.alive(moment):
            sums[c.owner.module] += c.nbytes
        return dict(sums.most_common())

    def stacked(self) -> dict[str, np.ndarray]:
        """Bytes in use after each change, per category, as a stacked plot needs them."""
        rows = {}
        for category in CATEGORIES:
            base = sum(c.nbytes for c in self.start if c.owner.category == category)
            sizes = [c.nbytes if c.owner.category == category else 0 for c in self.changes]
            row = base + np.cumsum(np.array(sizes, dtype=np.int64))
            if base or row.any():
                rows[category] = row
        return rows


def of_trace(trace: Trace, *devices: str) -> tuple[Timeline, list[Mark]]:
    """The trace's own bytes, storage by storage, on these types of device: no allocator, no rounding."""
    line, marks = Timeline(), []
    total = high = 0
    for index in trace.before:
        storage = trace.storages[index]
        if storage.device in devices and storage.nbytes:
            line.start.append(Change(storage.nbytes, storage, "before", -1))
            total += storage.nbytes
    high = total
    for event in trace.events:
        if event.kind == "mark":
            marks.append(Mark(event.label, total, high, None))
            high = total
        if event.kind not in ("alloc", "free"):
            continue
        storage = trace.storages[event.storage]
        if storage.device in devices and storage.nbytes:
            nbytes = storage.nbytes if event.kind == "alloc" else -storage.nbytes
            line.changes.append(Change(nbytes, storage, event.phase, event.op))
            total += nbytes
            high = max(high, total)
    return line, marks
