"""How much memory does this call need, when, and for what? One front door to every way of measuring."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch

from ..cuda import real_gpu as real
from ..cuda.allocator import CUDA_RULES, AllocatorRules, CachingAllocator
from ..cuda.dispatch.as_cuda import as_cuda
from ..cuda.gpus import DEFAULT, Gpu, preset
from ..cuda.simulate import simulate
from ..errors import CkptError
from ..tables import ShownAsTable, Table
from ..tracing.cpu_allocator import HiddenAllocation, profiled, reconcile
from ..tracing.events import Trace
from ..tracing.recorder import recording
from ..tracing.timeline import Change, Mark, Timeline, of_trace
from ..units import mib
from .training_step import handed_in

SIMULATED = "sim:cuda"


@dataclass(repr=False)
class Measurement(ShownAsTable):
    """What one call needed. All sizes in bytes; on a GPU, real or simulated, they are the allocator's block sizes."""

    device: str
    timeline: Timeline
    trace: Trace
    marks: list[Mark] = field(default_factory=list)
    reserved: int | None = None  # the allocator's own peak: segments taken from the GPU, used or not
    allocator: CachingAllocator | None = None  # as the run left it (simulated devices)
    hidden: list[HiddenAllocation] | None = None  # hidden memory of CPU kernels; None if it was not looked for
    unknowns: dict[str, str] = field(default_factory=dict)  # op -> what a simulation, or a fake run, cannot know
    counted: tuple[int, int] | None = None  # (peak, forward peak) as a real GPU's allocator counted them
    history: list[tuple[str, int]] | None = None  # a real CUDA allocator's actions and block sizes, in order

    @property
    def peak(self) -> int:
        return self.counted[0] if self.counted else self.timeline.peak

    @property
    def forward_peak(self) -> int:
        """The peak before backward began."""
        return self.counted[1] if self.counted else self.timeline.forward_peak

    @cached_property
    def at_peak(self) -> list[Change]:
        """The allocations in force at the peak, largest first."""
        return sorted(self.timeline.alive(self.timeline.peak_moment), key=lambda change: -change.nbytes)

    @property
    def by_category(self) -> dict[str, int]:
        return self.timeline.by_category(self.timeline.peak_moment)

    @property
    def by_module(self) -> dict[str, int]:
        return self.timeline.by_module(self.timeline.peak_moment)

    def table(self) -> Table:
        rows = [("peak", self.peak), ("peak before backward", self.forward_peak)]
        rows += [("reserved", self.reserved)] if self.reserved is not None else []
        rows += [(f"at the peak: {category}", nbytes) for category, nbytes in self.by_category.items()]
        notes = [f"{op}: {why}" for op, why in self.unknowns.items()]
        for h in self.hidden or ():
            notes.append(f"{h.op} allocated {h.nbytes:,} B of hidden memory inside its kernel")
        return Table(f"memory on {self.device}", ("what", "bytes", "MiB"), [(k, v, mib(v)) for k, v in rows], notes)


def measure(
    fn: Callable[[], object],
    device: str = "cpu",
    *,
    fake: bool = False,
    builds: bool = False,
    hidden: bool = False,
    gpu: str | Gpu | None = None,
    rules: AllocatorRules | None = None,
    capacity: int | None = None,
) -> Measurement:
    """Run `fn` once and report what memory it needed.

    device    "cpu": the bytes of the tensors themselves, also of those on "meta"; "sim:cuda": what CUDA's allocator
              would have counted for them on `gpu`; "cuda" or another accelerator: what its allocator really counted.
    fake      run on fake tensors: nothing is allocated, so a model of any size can be measured. `fn` must build it.
    builds    `fn` is the set-up. It returns the step, or (model, inputs), (model, inputs, loss) or (model, inputs,
              loss, optimizer). What it leaves alive was there before, and only the step counts.
    hidden    on the CPU, also list the hidden memory of kernels, which no tensor shows: only the profiler sees it.
    gpu       on "sim:cuda": which GPU, by default an A100. `rules` are the constants of its allocator, by default
              CUDA's own. `capacity` is its memory in bytes, and running out of it raises OutOfMemory.

    Tensors that exist already when `fn` starts count from the start, as soon as the run touches them. The same goes for
    tensors that no op makes, as in torch.load or a DataLoader's workers. On "sim:cuda" the dropout inside attention
    is not drawn. For the backward of prod, cumprod and some functions of torch.linalg, torch has a shorter formula that
    it does not use while it is traced, so their peak comes out 2 to 3 times too high, and far more for cumprod with
    create_graph=True. A fake run on the CPU cannot know the workspace of an LSTM, which is most of its memory. It warns
    about it, and lists it in `unknowns`.
    """
    if not callable(fn):
        raise CkptError(f"measure needs a function to call, got {type(fn).__name__}. Was it called already?")
    if inspect.isgeneratorfunction(fn) or inspect.iscoroutinefunction(fn):
        raise CkptError(f"{fn.__name__} makes a generator or a coroutine when called: measure a function that runs")
    device = str(device)
    if hidden and (device != "cpu" or fake):
        raise CkptError("hidden=True asks the CPU's own allocator: it needs device='cpu' and real tensors")
    simulation = {"gpu": gpu, "rules": rules, "capacity": capacity}
    if device != SIMULATED and any(option is not None for option in simulation.values()):
        names = " and ".join(name for name, option in simulation.items() if option is not None)
        raise CkptError(
            f"got {names}, for a simulated GPU, but device is {device!r}, where memory is counted as it is: was "
            f"device={SIMULATED!r} left out?"
        )
    if device == "cpu":
        return _on_cpu(_Run(fn, fake, builds), hidden)
    if device == SIMULATED:
        chosen = preset(DEFAULT if gpu is None else gpu)
        return _simulated(_Run(fn, fake, builds), chosen, rules or CUDA_RULES, capacity)
    real.require(device)  # says so clearly if there is no such device here
    if fake:
        raise CkptError(f"fake tensors take no memory on {device!r}: measure them with device='sim:cuda' or 'cpu'")
    return _on_gpu(_Run(fn, fake, builds), device)


class _Run(NamedTuple):
    fn: Callable[[], object]
    fake: bool
    builds: bool

    def trace(self, on_step: Callable[[], None] = lambda: None, **options: object) -> Trace:
        with recording(self.fake, **options) as recorder:
            step = self.fn
            if self.builds:
                step = handed_in(self.fn(), "fn, with builds=True,").run
                recorder.settle()
            on_step()
            result = step()
            recorder.close()  # before `result` dies: its caller would have kept it
            del result
        return recorder.trace


def _on_cpu(run: _Run, hidden: bool) -> Measurement:
    with profiled() if hidden else nullcontext() as readings:
        trace = run.trace(markers=hidden)
    line, marks = of_trace(trace, "cpu", "meta")  # a meta tensor counts as the one it stands for
    found = None if readings is None else reconcile(readings, trace).hidden
    return Measurement("cpu", line, trace, marks, hidden=found, unknowns=trace.unknowns)


def _simulated(run: _Run, gpu: Gpu, rules: AllocatorRules, capacity: int | None) -> Measurement:
    with as_cuda(gpu) as cuda:
        trace = run.trace(is_host=cuda.is_host)
    sim = simulate(trace, gpu, rules, capacity)
    peak_reserved = sim.allocator.peak_reserved
    device = f"{SIMULATED} ({gpu.name})"
    return Measurement(device, sim.timeline, trace, sim.marks, peak_reserved, sim.allocator, unknowns=sim.unknowns)


def _on_gpu(run: _Run, device: str) -> Measurement:
    with real.counting(device) as counted:
        trace = run.trace(on_step=counted.reset, on_backward=counted.forward_ends)
    line, marks = of_trace(trace, torch.device(device).type)
    peaks = (counted.peak, counted.forward_peak)
    return Measurement(device, line, trace, marks, counted.reserved, counted=peaks, history=counted.history)
