"""How much memory does this call need, when, and for what? One front door to every way of measuring."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any, NamedTuple

import torch

from ..cuda import real_gpu as real
from ..cuda import snapshot as snapshots
from ..cuda.allocator import CUDA_RULES, AllocatorRules, CachingAllocator
from ..cuda.gpus import DEFAULT, Gpu, preset
from ..cuda.op_choice.cuda_dispatch import as_cuda
from ..cuda.phantom import launch as phantom
from ..cuda.simulate import simulate
from ..errors import CkptError
from ..tables import ShownAsTable, Table
from ..tracing.allocation_recorder import recording
from ..tracing.cpu_allocator import HiddenAllocation, marked, profiled, reconcile
from ..tracing.devices import NamedDevice
from ..tracing.events import Trace
from ..tracing.timeline import Change, Mark, Timeline, of_trace
from ..units import mib
from .move_to_device import Moved
from .user_models import build, handed_in, refuse_compiled, takes_device

SIMULATED = "sim:cuda"


@dataclass(repr=False)
class Measurement(ShownAsTable):
    """What one call needed.

    Sizes are in bytes. On a GPU, real or simulated, they are the sizes of the allocator's blocks.
    """

    device: str
    timeline: Timeline
    trace: Trace
    marks: list[Mark] = field(default_factory=list)
    reserved: int | None = None  # the allocator's own peak: segments taken from the GPU, used or not
    allocator: CachingAllocator | None = None  # the allocator's state at the end of the run (simulated devices only)
    hidden: list[HiddenAllocation] | None = None  # hidden memory of CPU kernels; None if it was not looked for
    unknowns: dict[str, str] = field(default_factory=dict)  # op -> what a simulation, or a fake run, cannot know
    counted: tuple[int, int] | None = None  # (peak, forward peak) as a real GPU's allocator counted them
    recorded: dict[str, Any] | None = None  # a real CUDA allocator's own record, in PyTorch's format
    notes: list[str] = field(default_factory=list)  # what is different from the model as it was handed in

    @property
    def peak(self) -> int:
        return self.counted[0] if self.counted else self.timeline.peak

    @property
    def forward_peak(self) -> int:
        """The peak before backward began."""
        return self.counted[1] if self.counted else self.timeline.forward_peak

    @cached_property
    def at_peak(self) -> list[Change]:
        """The allocations that are in use at the peak, largest first."""
        return sorted(self.timeline.alive(self.timeline.peak_moment), key=lambda change: -change.nbytes)

    @property
    def by_category(self) -> dict[str, int]:
        return self.timeline.by_category(self.timeline.peak_moment)

    @property
    def by_module(self) -> dict[str, int]:
        return self.timeline.by_module(self.timeline.peak_moment)

    def snapshot(self) -> dict[str, Any]:
        """A dict in the format that PyTorch's memory viewer reads, as its own snapshots are.

        The frames of a block are the op that allocated it, the tensor, the module, the phase and the category.
        """
        if self.recorded is not None:
            return self.recorded
        if self.allocator is None:
            raise CkptError(
                f"a snapshot is the record of CUDA's allocator, but {self.device!r} does not have that allocator. "
                f"Measure with device={SIMULATED!r}, 'phantom:a100' or 'cuda'"
            )
        return snapshots.of_simulation(self.allocator, self.timeline, self.trace)

    def save_snapshot(self, path: str | PathLike[str]) -> None:
        """Write the snapshot as a file that pytorch.org/memory_viz opens and `ckptlib explain` explains."""
        snapshots.save(self.snapshot(), path)

    def table(self) -> Table:
        rows = [("peak", self.peak), ("peak before backward", self.forward_peak)]
        rows += [("reserved", self.reserved)] if self.reserved is not None else []
        rows += [(f"at the peak: {category}", nbytes) for category, nbytes in self.by_category.items()]
        notes = [*self.notes, *(f"{op}: {why}" for op, why in self.unknowns.items())]
        if self.counted:
            notes.append(
                f"The rows about the peak show only tensors, at their own peak of {self.timeline.peak:,} B. "
                "Everything else is workspaces, rounding and memory inside kernels"
            )
        for h in self.hidden or ():
            notes.append(f"{h.op} allocated {h.nbytes:,} B of hidden memory inside its kernel")
        return Table(f"memory on {self.device}", ("what", "bytes", "MiB"), [(k, v, mib(v)) for k, v in rows], notes)


def measure(
    fn: Callable[[], object],
    device: str = "cpu",
    *,
    fake: bool = False,
    builds: bool = False,
    step: int = 1,
    hidden: bool = False,
    gpu: str | Gpu | None = None,
    rules: AllocatorRules | None = None,
    capacity: int | None = None,
) -> Measurement:
    """Run `fn` once and report what memory it needed.

    device    "cpu": the bytes of the tensors themselves, including those on "meta"; "sim:cuda": what CUDA's allocator
              would have counted for them on `gpu`; "cuda" or another accelerator: what its allocator really counted;
              "phantom:a100" or another card: what PyTorch's own CUDA code counts where there is no GPU, in a process
              of its own, for which torch's CUDA build must be installed and `fn` must be importable.
    fake      run on fake tensors: nothing is allocated, so a model of any size can be measured. `fn` must build it.
    builds    `fn` is the set-up. It returns the step, or (model, inputs), (model, inputs, loss) or (model, inputs,
              loss, optimizer). Tensors that it leaves alive existed before the step, and only the step is measured.
    step      which step to measure. 1 is the first, in which an optimizer makes its state, so a later step may need
              more before its backward. For step 2 or later, those before it run first and are not measured. Between
              steps, the gradients of a model that `fn` returns are set to None.
    hidden    on the CPU, also list the hidden memory of kernels. No tensor shows it, but the profiler does.
    gpu       on "sim:cuda", the GPU to simulate, by default an A100. `rules` are the constants of its allocator, by
              default CUDA's own. `capacity` is its memory in bytes, and running out of it raises OutOfMemory.

    A tensor that exists before `fn` starts is counted from the start, if the run uses it. The same holds for tensors
    that are created without an op, as in torch.load or a DataLoader's workers. On "sim:cuda" the dropout inside
    attention is not applied. The prediction for a double backward assumes that the step runs in a new process. CUDA's
    thread for the backward pass numbers its own nodes, so an earlier run in the same process may change their order,
    and with it the peak. For the backward of some functions of torch.linalg (and of cumprod on "cpu", and of both
    cumprod and prod on an accelerator), torch has a shorter formula that it does not use while it is traced. Their peak
    therefore comes out 2 to 3 times too high, and even higher for cumprod with create_graph=True. A fake run on the CPU
    cannot determine the workspace of an LSTM, which is most of its memory. It warns about this, and lists it in
    `unknowns`.
    """
    if not callable(fn):
        raise CkptError(f"measure needs a function to call, got {type(fn).__name__}. Was it called already?")
    if inspect.isgeneratorfunction(fn) or inspect.iscoroutinefunction(fn):
        made = "returns a generator or a coroutine when called"
        raise CkptError(f"{fn.__name__} {made}. Pass a function that does its work when it is called")
    if not isinstance(step, int) or isinstance(step, bool) or step < 1:
        raise CkptError(f"step is {step!r}, expected the number of the step to measure: 1 for the first, 2, ...")
    if not builds:
        refuse_compiled(fn)
    device = str(device)
    if hidden and (device != "cpu" or fake):
        raise CkptError("hidden=True reads the CPU allocator's record, so it needs device='cpu' and real tensors")
    simulation = {"gpu": gpu, "rules": rules, "capacity": capacity}
    if device != SIMULATED and any(option is not None for option in simulation.values()):
        names = " and ".join(name for name, option in simulation.items() if option is not None)
        raise CkptError(
            f"got {names}, which only a simulated GPU uses, but device is {device!r}. "
            f"Was device={SIMULATED!r} left out?"
        )
    if device == "cpu":
        return _on_cpu(_Run(fn, fake, builds, step, []), hidden)
    if device == SIMULATED:
        chosen = preset(DEFAULT if gpu is None else gpu)
        return _simulated(_Run(fn, fake, builds, step, []), chosen, rules or CUDA_RULES, capacity)
    if phantom.is_phantom(device) and not phantom.running():
        return phantom.call(phantom.card_of(device), measure, fn, device, fake=fake, builds=builds, step=step)
    # raises a clear error if this machine has no such device
    (phantom if phantom.is_phantom(device) else real).require(device)
    if fake:
        raise CkptError(f"fake tensors take no memory on {device!r}. Measure them with device='sim:cuda' or 'cpu'")
    return _on_gpu(_Run(fn, fake, builds, step, []), device)


class _Run(NamedTuple):
    fn: Callable[[], object]
    fake: bool
    builds: bool
    number: int  # of the step to measure
    notes: list[str]  # filled by `trace`

    def trace(
        self,
        device: torch.device | None = None,
        on_step: Callable[[], None] = lambda: None,
        on_end: Callable[[], None] = lambda: None,
        **options: object,
    ) -> Trace:
        # On an accelerator, the step's new tensors are made there, unless the step names another device.
        with recording(self.fake, **options) as recorder, real.new_tensors_on(device) if device else nullcontext():
            step, model, optimizer = self.fn, None, None
            if self.builds:
                # On an accelerator parameters are placed one by one, when they are moved.
                placed = NamedDevice(recorder.arrived) if takes_device(self.fn) else nullcontext()
                with torch.device("cpu") if device else placed:
                    made = build(self.fn, device or "cpu")
                found = handed_in(Moved(device)(made) if device else made, "fn, with builds=True,")
                step, model = found.run, found.model
                optimizer = found.training.optimizer if found.training else None
                self.notes.extend(found.notes)
                if found.model is None:
                    refuse_compiled(step)
                del made, found
            for _ in range(self.number - 1):
                step()
                if model is not None:
                    model.zero_grad()
            if self.builds or self.number > 1:
                recorder.settle()
            stateless = optimizer is not None and not optimizer.state
            on_step()
            result = step()
            recorder.close()  # before `result` is freed, because its caller would have kept it
            on_end()
            del result
        if self.number > 1:
            self.notes.append(f"this was step {self.number}: those before it ran first, and were not measured")
        elif optimizer is not None and stateless and optimizer.state:
            self.notes.append("this was the first step, in which the optimizer made its state; step=2 is a later one")
        return recorder.trace


def _on_cpu(run: _Run, hidden: bool) -> Measurement:
    with profiled() if hidden else nullcontext() as readings:
        trace = run.trace(around=marked if hidden else None)
    line, marks = of_trace(trace, "cpu", "meta")  # a meta tensor is counted as the tensor that it stands for
    found = None if readings is None else reconcile(readings, trace).hidden
    return Measurement("cpu", line, trace, marks, hidden=found, unknowns=trace.unknowns, notes=run.notes)


def _simulated(run: _Run, gpu: Gpu, rules: AllocatorRules, capacity: int | None) -> Measurement:
    with as_cuda(gpu) as cuda:
        trace = run.trace(is_host=cuda.is_host)
    sim = simulate(trace, gpu, rules, capacity)
    peak_reserved = sim.allocator.peak_reserved
    device = f"{SIMULATED} ({gpu.name})"
    trace.unknowns.pop("aten.mkldnn_rnn_layer.default", None)  # the CPU's own
    unknowns = trace.unknowns | sim.unknowns
    return Measurement(
        device, sim.timeline, trace, sim.marks, peak_reserved, sim.allocator, unknowns=unknowns, notes=run.notes
    )


def _on_gpu(run: _Run, device: str) -> Measurement:
    """Measure on an accelerator, real or phantom. Whatever the run builds on the CPU is moved there before its step."""
    there = torch.device("cuda" if phantom.is_phantom(device) else device)
    with phantom.explained() as used_before, real.counting(there) as counted:
        trace = run.trace(
            there,
            on_step=counted.reset,
            on_end=counted.step_ends,
            on_backward=counted.forward_ends,
            around=counted.around(),
        )
    line, marks = of_trace(trace, there.type)
    real.refuse_zero(line.peak, device)
    peaks = (counted.peak, counted.forward_peak)
    unknowns = trace.unknowns | phantom.unknowns(used_before)
    recorded = snapshots.with_frames(counted.recorded, trace, counted.index) if counted.recorded else None
    return Measurement(
        device,
        line,
        trace,
        marks,
        counted.reserved,
        unknowns=unknowns,
        counted=peaks,
        recorded=recorded,
        notes=run.notes,
    )
