"""What was the peak of a snapshot made of? PyTorch's record of memory, anybody's, replayed up to its fullest moment.

An entry of the record names the bytes that were asked for, and the allocator counts the blocks that it handed out,
which are larger. A block's size follows from its address: it is what was asked for, rounded up, or all of the room up
to the next block where the allocator does not cut off so small a rest.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any

from ..cuda.allocator_rules import AllocatorRules
from ..cuda.snapshot import ALLOCATED, BEFORE, KINDS, load
from ..errors import CkptError
from ..tables import ShownAsTable, Table
from ..units import mib, torch_size

NO_FRAMES = "(no frames recorded)"
ROWS = 12  # of a table
# Python code that is between a line of somebody's program and the allocator.
MACHINERY = re.compile(r"(^|(site|dist)-packages/)(torch|ckptlib)/|(^|/)(contextlib|threading)\.py$|^<")
# Frames of C++ that say the most: the node of autograd's graph, because backward runs in a thread without Python, or
# the op.
TELLING = (re.compile(r"autograd::generated::(\w+)::apply\("), re.compile(r"at::_ops::(\w+)::"))


@dataclass(slots=True)
class RecordedBlock:
    """Memory that somebody held, from one entry of the record to another."""

    address: int
    size: int  # what the allocator counts
    requested: int  # what was asked for
    frames: list[dict[str, Any]]  # as in the snapshot, from the inside out
    born: int = -1  # the entry that allocated it; -1 if it was there when the record began
    died: int | None = None  # the entry that freed it; None if it lived to the end

    def name(self, kind: str) -> str:
        """The op, tensor, module, phase or category that our frames name; in other people's records, the frame."""
        if kind != "frame":
            return next((frame["name"] for frame in self.frames if frame["filename"] == kind), "")
        python = [frame for frame in self.frames if frame["filename"].endswith(".py")]
        for frame in python:
            if not MACHINERY.search(frame["filename"]):
                return _line(frame)
        for telling in TELLING:
            for frame in self.frames:
                if found := telling.search(frame["name"]):
                    return found[1]
        for frame in python or self.frames:
            return _line(frame)
        return "(there before the record began)" if self.born < 0 else NO_FRAMES


def _line(frame: dict[str, Any]) -> str:
    return f"{frame['filename'].split('/')[-1]}:{frame['line']}:{frame['name']}"


@dataclass(repr=False)
class Explanation(ShownAsTable):
    """What a device held at the fullest moment of its record. All sizes in bytes. Moment i is the one after entry i."""

    device: int
    entries: list[dict[str, Any]]  # the record, as in the snapshot
    history: list[RecordedBlock]  # every block that somebody held, in the order of their birth
    totals: list[tuple[int, int]]  # bytes that were allocated and reserved: at first, and after each entry
    notes: list[str] = field(default_factory=list)

    @cached_property
    def moment(self) -> int:
        """The first moment at which most was allocated; -1 if that was before the first entry."""
        return max(range(len(self.totals)), key=lambda i: self.totals[i][0]) - 1

    @property
    def allocated(self) -> int:
        """The peak, as torch.cuda.max_memory_allocated counts."""
        return self.totals[self.moment + 1][0]

    @property
    def reserved(self) -> int:
        """The bytes that CUDA had handed out at that moment, used or not."""
        return self.totals[self.moment + 1][1]

    @cached_property
    def blocks(self) -> list[RecordedBlock]:
        """The blocks in use at the peak, largest first."""
        live = [b for b in self.history if b.born <= self.moment and (b.died is None or b.died > self.moment)]
        return sorted(live, key=lambda block: -block.size)

    @property
    def requested(self) -> int:
        return sum(block.requested for block in self.blocks)

    @property
    def before(self) -> int:
        """Of `allocated`: what was there when the record, or the step that we measured, began."""
        return sum(block.size for block in self.blocks if block.born < 0 or block.name("phase") == BEFORE)

    @property
    def ours(self) -> bool:
        """Whether we made the record, so that blocks have an op, a module and a category."""
        return any(block.name("category") for block in self.blocks)

    def by(self, kind: str) -> dict[str, int]:
        """Bytes at the peak by "category", "module", "op", "phase", "tensor" or "frame", largest first."""
        if kind not in (*KINDS, "frame"):
            raise CkptError(f"there is no {kind!r} in a snapshot: expected one of {', '.join(KINDS)}, frame")
        sums: Counter[str] = Counter()
        for block in self.blocks:
            sums[block.name(kind)] += block.size
        return dict(sums.most_common())

    def table(self) -> Table:
        free = self.reserved - self.allocated
        rows = [
            ("allocated at the peak", self.allocated),
            ("  there before", self.before),
            ("  lost by rounding sizes up", self.allocated - self.requested),
            ("reserved at that moment", self.reserved),
            ("  free, but held", free),
        ]
        when = f"after entry {self.moment + 1:,} of {len(self.entries):,}" if self.moment >= 0 else "at its start"
        title = f"the peak of device {self.device}, {when}"
        return Table(title, ("what", "bytes", "MiB"), [(k, v, mib(v)) for k, v in rows], self.notes)

    def table_by(self, kind: str) -> Table:
        """The largest parts of the peak, with how many blocks each has."""
        counts = Counter(block.name(kind) for block in self.blocks)
        rows = [(name or f"(no {kind})", counts[name], nbytes, mib(nbytes)) for name, nbytes in self.by(kind).items()]
        if len(rows) > ROWS:
            rest = sum(row[2] for row in rows[ROWS - 1 :])
            rows[ROWS - 1 :] = [("(all others)", sum(row[1] for row in rows[ROWS - 1 :]), rest, mib(rest))]
        return Table(f"at the peak, by {kind}", (kind, "blocks", "bytes", "MiB"), rows)


def explain(snapshot: dict[str, Any] | str | PathLike[str], device: int | None = None) -> Explanation:
    """What the peak of a snapshot was made of: of `Measurement.snapshot()`, of PyTorch's own, or of a file with one.

    Of several devices it is the one that held most, unless `device` says which. Nothing in a file is executed.
    """
    if not isinstance(snapshot, dict):
        snapshot = load(snapshot)
    try:
        known = {segment["device"] for segment in snapshot["segments"]}
        known |= {i for i, entries in enumerate(snapshot["device_traces"]) if entries}
        if device is not None and device not in known:
            raise CkptError(f"device {device} is not in the snapshot, which has {sorted(known) or 'none'}")
        if not known:
            raise CkptError("the snapshot is empty: nothing had been allocated when it was taken, on any device")
        found = [_Replay(snapshot, i).run() for i in (sorted(known) if device is None else [device])]
        for block in (block for explanation in found for block in explanation.history):
            block.name("frame")  # or its frames are not as expected
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        what = f"{type(error).__name__}: {error}"
        raise CkptError(f"this is not a snapshot as PyTorch writes it: an entry is not as expected ({what})") from None
    return max(found, key=lambda explanation: explanation.allocated)


class _Replay:
    """One device's record. Going backwards from the end gives the state at the start; going forwards, every size."""

    def __init__(self, snapshot: dict[str, Any], device: int):
        traces = snapshot["device_traces"]
        self.device = device
        self.entries: list[dict[str, Any]] = traces[device] if device < len(traces) else []
        settings = snapshot.get("allocator_settings", {})
        limit = settings.get("max_split_size", -1)
        self.rules = AllocatorRules(max_split_size=limit if limit > 0 else None)
        self.notes = []
        if any(settings.get("roundup_power2_divisions", {}).values()):
            self.notes.append("roundup_power2_divisions was set, so freed blocks may have been larger.")
        self.live: dict[int, RecordedBlock] = {}  # by address
        self.pending: set[int] = set()  # of these: freed, but another stream still uses them
        self.segments: dict[int, int] = {}  # address -> size, of those that do not expand
        self.pages: dict[int, int] = {}  # address -> size, of what is mapped of those that do
        self.at_end(snapshot["segments"])
        self.allocated_at_end = self.allocated
        self.sizes = self.rewind()

    @property
    def allocated(self) -> int:
        return sum(block.size for address, block in self.live.items() if address not in self.pending)

    @property
    def reserved(self) -> int:
        return sum(self.pages.values()) + sum(self.segments.values())

    def at_end(self, segments: list[dict[str, Any]]) -> None:
        for segment in segments:
            if segment["device"] != self.device:
                continue
            address = segment["address"]
            (self.pages if segment.get("is_expandable") else self.segments)[address] = segment["total_size"]
            for block in segment["blocks"]:
                if block["state"].startswith("active"):  # allocated, or freed while another stream still uses it
                    old = block.get("history", [{}])[0]  # torch 2.0 wrote it so
                    requested = block.get("requested_size", old.get("real_size", block["size"]))
                    self.live[address] = RecordedBlock(
                        address, block["size"], requested, block.get("frames", old.get("frames", []))
                    )
                    if block["state"] != ALLOCATED:
                        self.pending.add(address)
                address += block["size"]

    def rewind(self) -> dict[int, int]:
        """Go back to the start. Return the sizes of blocks that live to the end, by the entries that made them."""
        sizes = {}
        for i in range(len(self.entries) - 1, -1, -1):
            entry = self.entries[i]
            action, address = entry["action"], entry.get("addr", 0)
            if action == "alloc":
                if address in self.live:
                    sizes[i] = self.live.pop(address).size
                    self.pending.discard(address)
            elif action == "free_completed":
                self.live[address] = RecordedBlock(address, 0, entry["size"], [])
                self.pending.add(address)
            elif action == "free_requested":
                self.pending.discard(address)
            elif action.startswith("segment"):
                self.segment(action, address, entry["size"], undo=True)
        self.blocks, self.borders = sorted(self.live), sorted(self.segments)
        for address, block in self.live.items():
            block.size = block.size or self.size(address, block.requested)
        return {i: size for i, size in sizes.items() if size}  # 0: the block was freed within the record

    def segment(self, action: str, address: int, nbytes: int, undo: bool = False) -> None:
        comes = (action in ("segment_alloc", "segment_map")) != undo
        if action in ("segment_alloc", "segment_free"):
            if comes:
                self.segments[address] = nbytes
            else:
                self.segments.pop(address, None)
        elif comes:
            self.pages[address] = nbytes
        else:
            self.unmap(address, address + nbytes)

    def unmap(self, begin: int, end: int) -> None:
        """Take pages away. They may have been mapped in other pieces."""
        for address, nbytes in list(self.pages.items()):
            if address < end and begin < address + nbytes:
                del self.pages[address]
                for left, right in ((address, begin), (end, address + nbytes)):
                    if left < right:
                        self.pages[left] = right - left

    def size(self, address: int, requested: int) -> int:
        """The bytes of the block that the allocator handed out."""
        size = self.rules.round_size(requested)
        at = bisect_right(self.borders, address) - 1
        end = self.borders[at] + self.segments[self.borders[at]] if at >= 0 else 0
        if self.rules.pool(size) == "small" or address >= end:  # an expandable segment, where every rest is cut off
            return size
        following = bisect_right(self.blocks, address)
        room = min([end, *self.blocks[following : following + 1]]) - address
        return size if self.rules.should_split(room, size, "large") else room

    def run(self) -> Explanation:
        live = {address: block for address, block in self.live.items() if address not in self.pending}
        history = list(live.values())
        totals = [(now := self.allocated, reserved := self.reserved)]
        for i, entry in enumerate(self.entries):
            action, address = entry["action"], entry.get("addr", 0)
            if action == "alloc":
                size = self.sizes.get(i) or self.size(address, entry["size"])
                live[address] = RecordedBlock(address, size, entry["size"], entry.get("frames", []), i)
                history.append(live[address])
                insort(self.blocks, address)
                now += size
            elif action == "free_requested" and address in live:
                live[address].died = i
                now -= live.pop(address).size
            elif action == "free_completed":
                at = bisect_left(self.blocks, address)
                del self.blocks[at : at + (self.blocks[at : at + 1] == [address])]
            elif action.startswith("segment"):
                self.segment(action, address, entry["size"])
                self.borders, reserved = sorted(self.segments), self.reserved
            elif action == "oom":
                self.notes.append(
                    f"Entry {i + 1:,}: out of memory. {torch_size(entry['size'])} were asked for, when "
                    f"{torch_size(now)} were allocated, {torch_size(reserved)} were reserved, and "
                    f"{torch_size(entry.get('device_free', 0))} of the GPU were free."
                )
            totals.append((now, reserved))
        if not self.entries:
            self.notes.append("No history was recorded: this is the moment of the snapshot, not necessarily a peak.")
        elif now != self.allocated_at_end:
            gap = torch_size(abs(now - self.allocated_at_end))
            self.notes.append(f"The record and the memory at its end differ by {gap}: the record is not complete.")
        return Explanation(self.device, self.entries, history, totals, self.notes)
