"""What would a GPU have held?

Replays a trace through CUDA's allocator, and adds the memory that exists only on CUDA.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby

import torch

from ..tracing.events import Event, Op, Storage, Trace
from ..tracing.timeline import Change, Mark, Timeline
from .allocator import CUDA_RULES, AllocatorRules, CachingAllocator, MemoryBlock
from .gpus import Gpu
from .hidden_memory.allocations import Free, MemoryStep, Output
from .hidden_memory.rules import hidden_memory, uses_cublas, uses_cublaslt

Held = tuple[MemoryBlock, Storage]


@dataclass
class Simulation:
    """The replay's result: the allocator as the run left it, and how it got there."""

    allocator: CachingAllocator
    timeline: Timeline = field(default_factory=Timeline)
    marks: list[Mark] = field(default_factory=list)
    unknowns: dict[str, str] = field(default_factory=dict)  # op -> what could not be predicted, and why


def simulate(trace: Trace, gpu: Gpu, rules: AllocatorRules = CUDA_RULES, capacity: int | None = None) -> Simulation:
    """Replay `trace` on `gpu`. With a capacity, running out of it raises OutOfMemory at the op that would have."""
    return _Replay(trace, gpu, CachingAllocator(rules, capacity)).run()


class _Replay:
    def __init__(self, trace: Trace, gpu: Gpu, allocator: CachingAllocator):
        self.trace, self.gpu, self.allocator = trace, gpu, allocator
        self.result = Simulation(allocator)
        self.blocks: dict[int, MemoryBlock] = {}  # storage -> its block
        # Torch itself uses the meta device to find shapes. Its tensors count only if the program uses it too.
        self.on_meta = any(trace.storages[index].device == "meta" for index in trace.before)
        self.workspaces: set[tuple[str, str]] = set()  # the workspaces that exist already and stay allocated
        self.high = 0  # most allocated since the last mark
        self.where = ("before", -1)  # the phase and the op that the next change belongs to

    def run(self) -> Simulation:
        self.set_up()
        self.replay_all(self.trace.events)
        return self.result

    def set_up(self) -> None:
        """Place the blocks that exist before the step.

        If the set-up named the device, they are placed as it left them; otherwise one after another.
        """
        self.allocator.history = []
        self.replay_all(self.trace.set_up)
        self.where = ("before", -1)
        used = self.used_on_device() if self.trace.set_up else None
        for index in self.trace.before:
            if index not in self.blocks and (used is None or index in used):
                self.alloc_storage(index)
        line = self.result.timeline
        line.start = [change._replace(phase="before", op=-1) for change in line.alive(len(line.changes) - 1)]
        line.changes = []
        self.allocator.forget_freed()
        self.allocator.reset_peak()
        self.high = 0
        self.result.unknowns.clear()

    def used_on_device(self) -> set[int]:
        """Storages that the step computes with. The set-up may have left other tensors on the host."""
        used: set[int] = set()
        for event in self.trace.events:
            if event.kind == "op":
                op = self.trace.ops[event.op]
                if op.name != "aten._to_copy.default" or op.kwargs.get("device") is None:
                    used |= op.reads() - {out.storage for out in op.outputs}
        return used

    def replay_all(self, events: Iterable[Event]) -> None:
        for op, of_op in groupby(events, key=lambda event: event.op):
            if op < 0:
                self.replay(of_op)
            else:
                self.replay_op(self.trace.ops[op], list(of_op))

    def replay(self, events: Iterable[Event]) -> None:
        for event in events:
            self.where = (event.phase, event.op)
            if event.kind == "alloc":
                self.alloc_storage(event.storage)
            elif event.kind == "free":
                if event.storage in self.blocks:
                    self.free(self.blocks.pop(event.storage), self.trace.storages[event.storage])
            elif event.kind == "mark":
                now = self.allocator
                self.result.marks.append(Mark(event.label, now.allocated, max(self.high, now.allocated), now.reserved))
                self.high = now.allocated

    def replay_op(self, op: Op, events: list[Event]) -> None:
        """Inside one op: temporaries that come first, outputs, other temporaries, library workspaces; then release."""
        extra = hidden_memory(op, self.gpu)
        if extra.unknown:
            self.result.unknowns[op.name] = extra.unknown
        self.where = (op.phase, op.index)
        held = self.run_steps(op, extra.before, events, [])
        self.replay(events)
        self.run_steps(op, extra.after, [], held)
        held += self.library_workspaces(op) if uses_cublas(op, self.gpu) else []
        for block, owner in held:
            self.free(block, owner)

    def run_steps(self, op: Op, steps: Iterable[MemoryStep], events: list[Event], held: list[Held]) -> list[Held]:
        """Carry out the steps of a rule.

        Outputs that the rule names are removed from `events`. `held` collects the rule's temporaries.
        """
        taken: list[Held] = []
        for step in steps:
            if isinstance(step, Output):
                storage = op.outputs[step.index].storage
                found = [event for event in events if event.kind == "alloc" and event.storage == storage]
                events[:] = [event for event in events if event not in found]
                self.replay(found)
            elif isinstance(step, Free):
                held[:] = [one for one in held if one is not taken[step.index]]
                self.free(*taken[step.index])
            elif isinstance(step, str):
                held += self.library_workspaces(op)
            elif step > 0:
                taken.append(self.alloc(step, _extra(op, "temporary", nbytes=step)))
                held.append(taken[-1])
            elif step < 0:
                newest = max(i for i, (_, owner) in enumerate(held) if owner.nbytes == -step)
                self.free(*held.pop(newest))
        return held

    def library_workspaces(self, op: Op) -> list[Held]:
        """The workspaces of cuBLAS (kept, per handle) and cuBLASLt (per call). Backward's thread has its own handle."""
        gpu, passing = self.gpu, []
        thread = "backward" if op.phase in ("backward", "recompute") else "forward"
        cublas = ("cuBLAS", gpu.cublas_workspace, True, True)
        lt = ("cuBLASLt", gpu.cublaslt_workspace, uses_cublaslt(op, gpu), gpu.cublaslt_kept)
        for library, nbytes, used, kept in (cublas, lt) if gpu.cublaslt_kept else (lt, cublas):
            if used and nbytes and (library, thread) not in self.workspaces:
                entry = self.alloc(nbytes, _extra(op, "workspace", f"{library} workspace, {thread} thread"))
                if kept:
                    self.workspaces.add((library, thread))
                else:
                    passing.append(entry)
        return passing

    # ---- one block --------------------------------------------------------------------------------------------------
    def alloc_storage(self, index: int) -> None:
        storage = self.trace.storages[index]
        if storage.nbytes and storage.device != "host" and (storage.device != "meta" or self.on_meta):
            self.blocks[index], _ = self.alloc(storage.nbytes, storage)

    def alloc(self, nbytes: int, owner: Storage) -> Held:
        block = self.allocator.malloc(nbytes, tag=owner)
        self.result.timeline.changes.append(Change(block.size, owner, *self.where))
        self.high = max(self.high, self.allocator.allocated)
        return block, owner

    def free(self, block: MemoryBlock, owner: Storage) -> None:
        self.allocator.free(block)
        self.result.timeline.changes.append(Change(-block.size, owner, *self.where))


def _extra(op: Op, category: str, name: str = "", nbytes: int = 0) -> Storage:
    """Stands for memory that no tensor of the trace owns."""
    return Storage(
        -1, nbytes, op.index, op.module, op.phase, category, (), torch.uint8, name=name or f"inside {op.name}"
    )
