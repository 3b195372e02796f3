"""What did the CPU's own allocator record? The profiler's account of a run, compared with the trace."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch

from ..torch_internals import ProfilerEvent, ProfilerEventType, profiler_range
from .events import Trace

MARKER = "ckptlib op "  # every op is wrapped in a profiler range of this name and the op's index


class HiddenAllocation(NamedTuple):
    """A piece of hidden memory: allocated and freed inside one kernel, so that no tensor, and no trace, shows it."""

    op: str
    module: str
    nbytes: int


class Reading(NamedTuple):
    """One line of the profiler's account: an op begins, an op ends, or memory changes hands."""

    time: int
    kind: str  # "begin", "end" or "memory"
    op: int = -1
    nbytes: int = 0  # negative when freed
    address: int = 0


def marked(op: int) -> AbstractContextManager:
    """Show the profiler that this op is running."""
    return profiler_range(f"{MARKER}{op}")


@contextlib.contextmanager
def profiled() -> Iterator[list[Reading]]:
    """Fill a list of readings while the block runs. The block's ops must be recorded with around=marked."""
    readings: list[Reading] = []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        yield readings
    readings += sorted(_walk(profile.profiler.kineto_results.experimental_event_tree()))


class Account(NamedTuple):
    """The allocator's own record, op by op."""

    live_after: dict[int, int]  # op -> bytes in use when it was done, counted from the start of the run
    hidden: list[HiddenAllocation]


def reconcile(readings: list[Reading], trace: Trace) -> Account:
    """Split the allocator's record into what the trace knows and what came and went inside one op.

    A Python number that meets a tensor is wrapped in an 8-byte tensor just before the op and dropped just after it, so
    it also counts as inside the op.
    """
    known = {(storage.op, storage.address) for storage in trace.storages}
    account, live, place = Account({}, []), 0, 0  # place: 2k just before op k, 2k + 1 inside it
    born: dict[int, int] = {}  # address -> place
    between: dict[int, int] = {}  # address -> bytes that were allocated between two ops, unknown to the trace
    for _, kind, op, nbytes, address in readings:
        if kind == "begin":
            place = 2 * op + 1
        elif kind == "end":
            account.live_after[op] = live - sum(between.values())
            place = 2 * op + 2
        else:
            live += nbytes
            if nbytes > 0:
                born[address] = place
                if place % 2 == 0 and (place // 2, address) not in known:
                    between[address] = nbytes
            else:
                start = born.pop(address, -1)
                unseen = between.pop(address, None) is not None
                if (start == place and place % 2) or (unseen and place - start <= 2):
                    inside = trace.ops[min(start, place) // 2]
                    account.hidden.append(HiddenAllocation(inside.name, inside.module, -nbytes))
    return account


def _walk(nodes: list[ProfilerEvent]) -> Iterator[Reading]:
    stack = list(nodes)
    while stack:  # not recursive, because backward nests deeply
        node = stack.pop()
        stack += node.children
        extra: Any = node.extra_fields  # of one class per tag
        if node.tag == ProfilerEventType.Allocation and extra.device.type == "cpu":
            yield Reading(node.start_time_ns, "memory", -1, extra.alloc_size, extra.ptr)
        elif node.name.startswith(MARKER):
            index = int(node.name.removeprefix(MARKER))
            yield Reading(node.start_time_ns, "begin", index)
            yield Reading(node.end_time_ns, "end", index)
