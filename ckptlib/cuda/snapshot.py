"""What does PyTorch's own record of memory look like? The dict that its memory viewer reads, from any GPU of ours.

`torch.cuda.memory_snapshot` describes the format: `segments` is the memory at the end, `device_traces` what happened
before, one list for each device. A recording of PyTorch's names the lines of Python in `frames`. Ours has the op, the
tensor, the module, the phase and the category there, each with its kind in the place of the file's name.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from os import PathLike
from typing import Any

from ..errors import CkptError
from ..tracing.events import Op, Storage, Trace
from ..tracing.timeline import Timeline
from .allocator import CachingAllocator, Segment

Frames = list[dict[str, Any]]
KINDS = ("op", "tensor", "module", "phase", "category")  # of our frames, from the inside out
PARTS = ("segments", "device_traces")  # what every snapshot has
ALLOCATED = "active_allocated"  # the state of a block that somebody holds
UNNAMED = "unknown"  # the category of memory that has none
BEFORE = "before"  # the phase of memory that was there when the step began

# Settings that the allocator's model leaves out, as they are by default in torch 2.13.
SETTINGS: dict[str, Any] = {
    "PYTORCH_CUDA_ALLOC_CONF": "",
    "garbage_collection_threshold": 0.0,
    "pinned_num_register_threads": 1,
    "release_lock_on_cudamalloc": False,
    "pinned_use_cuda_host_register": False,
    "graph_capture_record_stream_reuse": False,
    "max_round_threshold": -1,
    "max_cached_size": -1,
    "roundup_power2_divisions": {str(2**i): 0 for i in range(16)},
}


# ---- of a simulation ------------------------------------------------------------------------------------------------
def of_simulation(allocator: CachingAllocator, timeline: Timeline, trace: Trace) -> dict[str, Any]:
    """What PyTorch would have recorded. It knows no times: `time_us` counts the entries."""
    entries: list[dict[str, Any]] = []
    frames_at: dict[int, Frames] = {}  # address of a block -> who asked for it
    waiting: list[dict[str, Any]] = []  # segments that CUDA was asked for, on behalf of the block that comes next
    changes = iter([*timeline.start, *timeline.changes])
    phase = BEFORE  # of the last op that ran: what is freed between two ops counts with the first
    named = _Frames(trace)
    for kind, address, nbytes, tag in allocator.history or ():
        if kind.startswith("segment"):
            entries.append(_entry(kind, address, nbytes, len(entries), category=UNNAMED))
            waiting.append(entries[-1])
            continue
        change = next(changes)
        phase = change.phase if change.op >= 0 else phase
        if kind == "alloc":
            found = frames_at[address] = named.of(tag, phase)
            for entry in waiting:
                entry |= {"frames": found, "user_metadata": phase}
            waiting.clear()
            entries.append(_entry(kind, address, nbytes, len(entries), found, phase, tag.category))
        else:
            found = named.under_way(change.op, phase)
            for half in ("free_requested", "free_completed"):  # a second stream could have come between
                entries.append(_entry(half, address, nbytes, len(entries), found, phase))
    rules = allocator.rules
    settings = SETTINGS | {
        "max_split_size": -1 if rules.max_split_size is None else rules.max_split_size,
        "expandable_segments": rules.expandable_segments,
    }
    segments = [_segment(segment, frames_at, rules.expandable_segments) for segment in allocator.segments]
    return {
        "segments": segments,
        "device_traces": [entries],
        "allocator_settings": settings,
        "external_annotations": [],
    }


def _entry(
    action: str, address: int, nbytes: int, time: int, frames: Frames | None = None, phase: str = "", category: str = ""
) -> dict[str, Any]:
    return {
        "action": action,
        "addr": address,
        "size": nbytes,
        "stream": 0,
        "time_us": time,
        "compile_context": "N/A",
        "user_metadata": phase,
        "pool_id": (0, 0),
        "frames": frames or [],
        **({"category": category} if category else {}),
    }


def _segment(segment: Segment, frames_at: dict[int, Frames], expandable: bool) -> dict[str, Any]:
    live = [block for block in segment.blocks if block.allocated]
    allocated = sum(block.size for block in live)
    blocks = [
        {
            "address": block.address,
            "size": block.size,
            "requested_size": block.nbytes,
            "state": ALLOCATED if block.allocated else "inactive",
            "frames": frames_at[block.address] if block.allocated else [],
        }
        for block in segment.blocks
    ]
    return {
        "device": 0,
        "address": segment.address,
        "total_size": segment.size,
        "allocated_size": allocated,
        "active_size": allocated,
        "requested_size": sum(block.nbytes for block in live),
        "stream": 0,
        "segment_type": segment.pool,
        "segment_pool_id": (0, 0),
        "is_expandable": expandable,
        "frames": [],
        "blocks": blocks,
    }


# ---- frames ---------------------------------------------------------------------------------------------------------
class _Frames:
    """Our frames. Equal ones are one object, which makes the file several times smaller."""

    def __init__(self, trace: Trace):
        self._trace = trace
        self._made: dict[tuple[str, int, str], dict[str, Any]] = {}
        self._lists: dict[tuple, Frames] = {}

    def of(self, owner: Storage, phase: str) -> Frames:
        op = self._trace.ops[owner.op] if owner.op is not None and phase != BEFORE else None
        shape = f"{str(owner.dtype).removeprefix('torch.')} {tuple(owner.shape)}" if owner.index >= 0 else ""
        return self._list(op, " ".join(filter(None, (owner.name, shape))), owner.module, phase, owner.category)

    def inside(self, op: Op, category: str) -> Frames:
        """The frames of memory that no tensor of the trace owns."""
        return self._list(op, f"inside {op.name}", op.module, op.phase, category)

    def under_way(self, index: int, phase: str) -> Frames:
        """The frames of a free, which name what ran at that moment."""
        op = self._trace.ops[index] if index >= 0 else None
        return self._list(op, "", op.module if op else "", phase, "")

    def _list(self, op: Op | None, *names: str) -> Frames:
        key = (op.index if op else -1, *names)
        if key not in self._lists:
            found = [("op", op.index, op.name)] if op else []
            found += [(kind, 0, name) for kind, name in zip(KINDS[1:], names, strict=True) if name]
            self._lists[key] = [self._frame(*frame) for frame in found]
        return self._lists[key]

    def _frame(self, kind: str, line: int, name: str) -> dict[str, Any]:
        return self._made.setdefault((kind, line, name), {"name": name, "filename": kind, "line": line})


# ---- of a real or a phantom GPU -------------------------------------------------------------------------------------
def with_frames(recorded: dict[str, Any], trace: Trace, device: int) -> dict[str, Any]:
    """PyTorch's own record, with our frames. Each entry has the index of its op in `user_metadata`."""
    named = _Frames(trace)
    owners = {(storage.op, storage.address, storage.nbytes): storage for storage in trace.storages}
    first = min((event.op for event in trace.events if event.op >= 0), default=0)  # ops before it were set-up
    phase = BEFORE
    traces = list(recorded["device_traces"])
    entries = traces[device]
    passing = set(_freed_in_their_op(entries))
    frames_at: dict[int, Frames] = {}
    new = []
    for i, entry in enumerate(entries):
        index = int(entry["user_metadata"] or -1)
        op = trace.ops[index] if index >= 0 else None
        if op is not None:
            phase = op.phase if index >= first else BEFORE
        frames: Frames = []
        category = UNNAMED if entry["action"].startswith("segment") else ""
        if entry["action"] == "alloc":
            owner = owners.get((index, entry["addr"], entry["size"]))
            if owner is not None:
                category, frames = owner.category, named.of(owner, phase)
            elif op is not None:
                category = "temporary" if i in passing else "workspace"
                frames = named.inside(op, category)
            else:
                category = UNNAMED
            frames_at[entry["addr"]] = frames
        else:
            frames = named.under_way(index, phase)
        new.append(entry | {"frames": frames, "user_metadata": phase} | ({"category": category} if category else {}))
    traces[device] = new
    segments = [_with_frames(segment, frames_at, device) for segment in recorded["segments"]]
    return recorded | {"segments": segments, "device_traces": traces}


def _freed_in_their_op(entries: list[dict[str, Any]]) -> Iterator[int]:
    open_at: dict[int, int] = {}
    for i, entry in enumerate(entries):
        if entry["action"] == "alloc":
            open_at[entry["addr"]] = i
        elif entry["action"] == "free_completed":
            begin = open_at.pop(entry["addr"], None)
            if begin is not None and entries[begin]["user_metadata"] == entry["user_metadata"]:
                yield begin


def _with_frames(segment: dict[str, Any], frames_at: dict[int, Frames], device: int) -> dict[str, Any]:
    if segment["device"] != device:
        return segment
    blocks = [
        block | {"frames": frames_at.get(block["address"], block["frames"])} if block["state"] == ALLOCATED else block
        for block in segment["blocks"]
    ]
    return segment | {"blocks": blocks}


# ---- files ----------------------------------------------------------------------------------------------------------
def save(snapshot: dict[str, Any], path: str | PathLike[str]) -> None:
    """Write the file that pytorch.org/memory_viz opens: its reader knows pickles of protocols 2 to 4."""
    try:
        with open(path, "wb") as file:
            pickle.dump(snapshot, file, protocol=4)
    except OSError as error:
        raise CkptError(f"cannot write the snapshot: {error}") from None


class _PlainData(pickle.Unpickler):
    """Lists, dicts, tuples, numbers and texts need no name of any module, so a file that asks for one is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise CkptError(f"it asks for {module}.{name}, which no snapshot needs and which could do harm")

    def persistent_load(self, pid: Any) -> Any:
        raise CkptError("it refers to data outside of the file, as a model saved by torch.save does")


def load(path: str | PathLike[str]) -> dict[str, Any]:
    """Read anybody's snapshot. Nothing in the file is executed, because plain data is all that is accepted."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise CkptError(f"cannot read the snapshot: {error}") from None
    expected = "expected the pickle that torch.cuda.memory's _dump_snapshot or `ckptlib measure --snapshot` writes"
    if data[:4] == b"PK\x03\x04":
        raise CkptError(f"{path} is a zip file, as torch.save writes it: {expected}")
    try:
        found = _PlainData(io.BytesIO(data)).load()
    except CkptError as error:
        raise CkptError(f"{path} was not read, because {error}: {expected}") from None
    except Exception as error:  # a damaged pickle fails in any way
        raise CkptError(f"{path} is not a pickle ({type(error).__name__}): {expected}") from None
    if isinstance(found, list):  # of memory_snapshot(), or of torch 1
        found = {"segments": found, "device_traces": []}
    missing = [part for part in PARTS if not isinstance(found, dict) or not isinstance(found.get(part), list)]
    if missing:
        has = f"a {type(found).__name__}"
        has += f" of {', '.join(map(str, list(found)[:5]))}" if isinstance(found, dict) and found else ""
        raise CkptError(f"{path} holds {has}, and no {' and no '.join(missing)}: {expected}")
    return found
