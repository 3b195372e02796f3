"""How is a schedule run on real layers? When autograd needs a saved tensor, the schedule computes it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from ..errors import CkptError
from ..recompute.rng_and_autocast import GlobalState, rng_states
from ..torch_internals import FakeTensor, current_graph_task, without_python_dispatch
from ..tracing.storages import check_unchanged, plain_parts, tensors_in, version
from .block_detection import BlockCall
from .schedule import BACKWARD, FORWARDS, RESTORE, SAVE_ALL, SAVE_INPUT, Action, Schedule


def execute(schedule: Schedule, layers: Sequence[Callable[[Tensor], Tensor]], x: Tensor) -> Tensor:
    """Run the layers on x and return the output of the last one. The backward pass then follows the schedule.

    The gradients of x and of every parameter are the same as without a schedule. A recomputed stage draws the same
    random numbers as in its first run, and does not change its buffers again, so BatchNorm counts a batch once.
    Backward can run once, and not with create_graph=True. As in plain autograd, a saved tensor must not be overwritten
    before backward. So do not load the next batch into x.
    """
    layers = list(layers)
    if len(layers) != schedule.n:
        raise CkptError(f"there are {len(layers)} layers, but the schedule has {schedule.n} stages")
    if not isinstance(x, Tensor):
        raise CkptError(f"x is a {type(x).__name__}, but the chain's input must be a tensor")
    run = ChainRun(schedule) if torch.is_grad_enabled() else None  # without gradients there is no backward
    for number, layer in enumerate(layers):
        x = run.advance(layer, x) if run else call_stage(number, layer, x)
    return x


def call_stage(number: int, layer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The layer's output. Raises if the layer cannot be a stage, which returns one tensor and does not change x."""
    before = version(x)
    y = layer(x)
    if not isinstance(y, Tensor):
        raise CkptError(
            f"stage {number} returned a {type(y).__name__}, but in a chain each stage passes one tensor to the next"
        )
    if version(x) != before:
        raise CkptError(f"stage {number} changed its input in place, so it could not run again. Use inplace=False")
    return y


class _Saved:
    """A saved tensor and its version, by which autograd notices that somebody has written to the tensor."""

    def __init__(self, tensor: Tensor):
        self.tensor, self.version = tensor, version(tensor)  # a detached tensor shares the version of its source

    def get(self, what: str) -> Tensor:
        check_unchanged(self.tensor, self.version, what)
        return self.tensor

    @property
    def changed(self) -> bool:
        return version(self.tensor) != self.version


class _Ticket(NamedTuple):
    """Stands in the graph for a tensor that a stage would have saved."""

    run: ChainRun
    stage: int
    number: int


class ChainRun:
    """One pass through a schedule. The first forward of a stage builds its graph; later ones only compute values."""

    def __init__(self, schedule: Schedule):
        self.n, self.actions = schedule.n, schedule.actions
        self.layers: list[Callable[[Tensor], Tensor]] = []
        self.built = 0  # stages before this one have their graph
        self.next = 0  # index of the next action
        self.times = schedule.forwards()
        self.last_restore = {a.stage: i for i, a in enumerate(self.actions) if a.kind == RESTORE}
        self.head: Tensor | None = None  # where the graph ends, while a stage is added to it
        self.current: tuple[int, Tensor | None] = (0, None)  # the value that the next forward reads
        self.values: dict[int, _Saved] = {}  # values to be restored
        # The tensors that recomputed stages save. A used one is replaced by the number of the backward that used it.
        self.contents: dict[int, list[_Saved | int]] = {}
        self.saved: dict[int, int] = {}  # how many tensors a stage saved in its first run
        self.before: dict[int, _Before] = {}  # for the stages that will run again
        self.frontier = schedule.n  # this stage and all later ones have been reversed

    def advance(self, layer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Run the next stage on x, the output of the stage before, and return its output with its graph."""
        stage = len(self.layers)
        self.layers.append(layer)
        if stage == 0:
            self._arrive(0, x.detach())
        self.head = x
        while self.built == stage:
            self._do(self.actions[self.next])
        y, self.head = self.head, None  # it belongs to the caller now
        if self.built == self.n:
            self.current = (-1, None)
        return y

    def _do(self, action: Action) -> None:
        kind, stage = action
        self.next += 1
        if kind == RESTORE:
            self.current = (stage, self.values[stage].get(f"the input of stage {stage}"))
            if self.last_restore[stage] < self.next:
                del self.values[stage]
        elif kind in FORWARDS:
            y = self._first(kind, stage) if stage == self.built else self._again(kind, stage)
            self._arrive(stage + 1, y)
            if self.actions[self.next].kind == BACKWARD:  # no later forward reads it
                self.current = (-1, None)
        elif kind == BACKWARD:
            self.frontier = stage
            self.contents.pop(stage, None)
            self.current = (-1, None)

    def _arrive(self, value: int, x: Tensor) -> None:
        self.current = (value, x)
        if self.last_restore.get(value, -1) < self.next:
            return
        # Only what is saved may be restored: look whether the next action, or the one that came here, saves it.
        here = self.next < len(self.actions) and self.actions[self.next] in ((SAVE_INPUT, value), (SAVE_ALL, value))
        if here or value == 0 or self.actions[self.next - 1] == (SAVE_ALL, value - 1):
            self.values[value] = _Saved(x)

    # ---- forwards ---------------------------------------------------------------------------------------------------
    def _first(self, kind: str, stage: int) -> Tensor:
        """Build the graph of this stage: complete if it saves everything, with tickets for saved tensors if not."""
        x, self.head, self.current = self.head, None, (-1, None)  # no one but the callers' frames holds the input
        assert x is not None  # `advance` has put it there
        before = _Before(self.layers[stage], x) if self.times[stage] > 1 else None
        self.saved[stage] = 0
        with nullcontext() if kind == SAVE_ALL else saved_tensors_hooks(lambda t: self._ticket(stage), _redeem):
            y = call_stage(stage, self.layers[stage], x)
        if before:
            self.before[stage] = before
            before.forget_the_unchanged()
            before.needs_grad = x.requires_grad
        self.head, self.built = y, stage + 1
        return y.detach()

    def _ticket(self, stage: int) -> _Ticket:
        self.saved[stage] += 1
        return _Ticket(self, stage, self.saved[stage] - 1)

    def _again(self, kind: str, stage: int) -> Tensor:
        (_, x), self.current = self.current, (-1, None)
        assert x is not None  # because a schedule has restored the value or computed it
        before = self.before[stage]
        for saved in before.besides:
            saved.get(f"an argument of stage {stage}")
        with before.as_it_was():
            if kind != SAVE_ALL:
                with torch.no_grad():
                    return call_stage(stage, self.layers[stage], x)
            contents: list[_Saved | int] = []
            with torch.enable_grad(), saved_tensors_hooks(lambda t: contents.append(_Saved(t.detach())), _redeem):
                x = x.detach().requires_grad_(before.needs_grad)
                y = call_stage(stage, self.layers[stage], x).detach()
        if len(contents) != self.saved[stage]:
            raise CkptError(
                f"stage {stage} saved {self.saved[stage]} tensors in its first run and {len(contents)} when it ran "
                "again. A stage must do the same in both runs"
            )
        self.contents[stage] = contents
        return y

    # ---- backward ---------------------------------------------------------------------------------------------------
    def bring_back(self, stage: int, number: int) -> Tensor:
        """Autograd is about to reverse a stage, so run the schedule up to that point."""
        if torch.is_grad_enabled():
            raise CkptError("a schedule cannot run with create_graph=True, because recomputed tensors have no graph")
        if self.built < self.n:
            raise CkptError(
                f"backward began after {self.built} of {self.n} stages, but a schedule reverses all of them. "
                "Run all stages before backward"
            )
        once = f"stage {stage} has already been reversed, and a schedule can run backward only once"
        if stage >= self.frontier:
            raise CkptError(once)
        while stage not in self.contents:
            self._do(self.actions[self.next])
        found, now = self.contents[stage][number], current_graph_task()
        if found == now:
            raise CkptError(
                f"stage {stage} read the same saved tensor twice. If it contains your own autograd.Function, read "
                "ctx.saved_tensors only once: a, b = ctx.saved_tensors"
            )
        if isinstance(found, int):
            raise CkptError(once)
        self.contents[stage][number] = now  # the tensor is freed after use, as autograd does
        return found.get(f"a tensor that stage {stage} saved")


def _redeem(ticket: _Ticket) -> Tensor:
    return ticket.run.bring_back(ticket.stage, ticket.number)


def _same(a: Tensor, b: Tensor) -> bool:
    """Are all values equal? Fake tensors have no values, so they count as changed."""
    if isinstance(a, FakeTensor):
        return False
    with without_python_dispatch():  # the state of a generator is a real tensor even in a fake run
        return all(torch.equal(old, new) for old, new in zip(plain_parts(a), plain_parts(b), strict=True))


class _Before:
    """The state before a stage's first run: random numbers, autocast, buffers, and arguments besides its input."""

    needs_grad = False

    def __init__(self, layer: Any, x: Tensor):
        self.global_state = GlobalState(True, [x])
        # Without the graph that they came with, which may hold this run.
        self.besides = [_Saved(t.detach()) for t in tensors_in(layer.leaves if isinstance(layer, BlockCall) else [])]
        modules = layer.modules() if isinstance(layer, nn.Module) else ()
        self.buffers = [
            (module, name, buffer.clone())
            for module in modules
            for name, buffer in module.named_buffers(recurse=False, remove_duplicate=False)
        ]

    def forget_the_unchanged(self) -> None:
        """Called after the first run. Random states and buffers that the stage did not change need not be restored."""
        rng = self.global_state.rng
        now = rng_states(device for device, _ in rng)
        if all(_same(old, new) for (_, old), (_, new) in zip(rng, now, strict=True)):
            self.global_state.rng = []
        self.besides = [saved for saved in self.besides if not saved.changed]  # a stage may change its own arguments
        # Values are compared, because batch_norm writes its running statistics without increasing their version.
        self.buffers = [(m, name, old) for m, name, old in self.buffers if not _same(getattr(m, name), old)]

    @contextmanager
    def as_it_was(self) -> Iterator[None]:
        now = [getattr(module, name) for module, name, _ in self.buffers]
        cached = torch.is_autocast_cache_enabled()
        try:
            for module, name, old in self.buffers:
                setattr(module, name, old.clone())
            with self.global_state.restored():
                torch.set_autocast_cache_enabled(False)  # a cached cast may have been made without a graph
                yield
        finally:
            torch.set_autocast_cache_enabled(cached)
            for (module, name, _), buffer in zip(self.buffers, now, strict=True):
                setattr(module, name, buffer)
