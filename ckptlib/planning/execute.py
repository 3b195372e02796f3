"""How is a schedule run on real layers? Autograd drives: it asks for a saved tensor, the schedule brings it back."""

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
from .chains import _WithArguments
from .schedule import BACKWARD, FORWARDS, KEEP_ALL, KEEP_INPUT, RESTORE, Action, Schedule


def execute(schedule: Schedule, layers: Sequence[Callable[[Tensor], Tensor]], x: Tensor) -> Tensor:
    """Run the layers on x; their backward, started by whoever holds the result, follows the schedule.

    x: the chain's input -> its output. Gradients equal plain autograd's, for x and for every parameter: a recomputed
    stage draws the random numbers it drew at first, and leaves its buffers alone (BatchNorm counts a batch once).
    Backward runs once, without create_graph: a schedule has no second one. As in plain autograd, what was kept must not
    be overwritten before backward: x by the next batch, say.
    """
    layers = list(layers)
    if len(layers) != schedule.n:
        raise CkptError(f"{len(layers)} layers for a schedule of {schedule.n} stages")
    if not isinstance(x, Tensor):
        raise CkptError(f"x is a {type(x).__name__}, expected a tensor: the chain's input")
    run = Run(schedule) if torch.is_grad_enabled() else None  # without gradients, no backward will come
    for number, layer in enumerate(layers):
        x = run.advance(layer, x) if run else call_stage(number, layer, x)
    return x


def call_stage(number: int, layer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The layer's output, if the layer can be a stage: one tensor is returned, and x is as it was."""
    before = version(x)
    y = layer(x)
    if not isinstance(y, Tensor):
        raise CkptError(
            f"stage {number} returned a {type(y).__name__}, expected one tensor: in a chain, a stage hands one tensor "
            "to the next"
        )
    if version(x) != before:
        raise CkptError(f"stage {number} changed its input in place: it could not run again. Use inplace=False")
    return y


class _Kept:
    """A tensor for later, and its version, as autograd remembers it: once written to, it is not what it was."""

    def __init__(self, tensor: Tensor):
        self.tensor, self.version = tensor, version(tensor)  # what detach() returns counts with its source

    def get(self, what: str) -> Tensor:
        check_unchanged(self.tensor, self.version, what)
        return self.tensor

    @property
    def changed(self) -> bool:
        return version(self.tensor) != self.version


class _Ticket(NamedTuple):
    """Stands in the graph for a tensor that a stage would have saved."""

    run: Run
    stage: int
    number: int


class Run:
    """One pass through a schedule. Forwards that run for the first time build the graph; later ones bring back."""

    def __init__(self, schedule: Schedule):
        self.n, self.actions = schedule.n, schedule.actions
        self.layers: list[Callable[[Tensor], Tensor]] = []
        self.built = 0  # stages before this one have their graph
        self.next = 0  # index of the action to come
        self.times = schedule.forwards()
        self.last_restore = {a.stage: i for i, a in enumerate(self.actions) if a.kind == RESTORE}
        self.head: Tensor | None = None  # where the graph ends, while a stage is added to it
        self.current: tuple[int, Tensor | None] = (0, None)  # the value that the next forward reads
        self.values: dict[int, _Kept] = {}  # values to be restored
        # What recomputed stages would have saved; once used, the number of the backward pass that used it.
        self.contents: dict[int, list[_Kept | int]] = {}
        self.saved: dict[int, int] = {}  # how many tensors a stage saved at first
        self.before: dict[int, _Before] = {}  # of stages that will run again
        self.frontier = schedule.n  # stages from here on are reversed

    def advance(self, layer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Run the next stage on x, which is what the stage before returned, and return its output, with its graph."""
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
            if self.actions[self.next].kind == BACKWARD:  # no forward will read it
                self.current = (-1, None)
        elif kind == BACKWARD:
            self.frontier = stage
            self.contents.pop(stage, None)
            self.current = (-1, None)

    def _arrive(self, value: int, x: Tensor) -> None:
        self.current = (value, x)
        if self.last_restore.get(value, -1) < self.next:
            return
        # Only what is kept may be restored: look whether the next action, or the one that came here, keeps it.
        here = self.next < len(self.actions) and self.actions[self.next] in ((KEEP_INPUT, value), (KEEP_ALL, value))
        if here or value == 0 or self.actions[self.next - 1] == (KEEP_ALL, value - 1):
            self.values[value] = _Kept(x)

    # ---- forwards ---------------------------------------------------------------------------------------------------
    def _first(self, kind: str, stage: int) -> Tensor:
        """Build the graph of this stage: complete if it keeps everything, with tickets for saved tensors if not."""
        x, self.head, self.current = self.head, None, (-1, None)  # no one but the callers' frames holds the input
        assert x is not None  # `advance` has put it there
        before = _Before(self.layers[stage], x) if self.times[stage] > 1 else None
        self.saved[stage] = 0
        with nullcontext() if kind == KEEP_ALL else saved_tensors_hooks(lambda t: self._ticket(stage), _redeem):
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
        assert x is not None  # a schedule restores a value, or has just computed it
        before = self.before[stage]
        for kept in before.besides:
            kept.get(f"an argument of stage {stage}")
        with before.as_it_was():
            if kind != KEEP_ALL:
                with torch.no_grad():
                    return call_stage(stage, self.layers[stage], x)
            contents: list[_Kept | int] = []
            with torch.enable_grad(), saved_tensors_hooks(lambda t: contents.append(_Kept(t.detach())), _redeem):
                x = x.detach().requires_grad_(before.needs_grad)
                y = call_stage(stage, self.layers[stage], x).detach()
        if len(contents) != self.saved[stage]:
            raise CkptError(
                f"stage {stage} saved {self.saved[stage]} tensors at first and {len(contents)} when it ran again: "
                "it does not do the same thing twice"
            )
        self.contents[stage] = contents
        return y

    # ---- backward ---------------------------------------------------------------------------------------------------
    def bring_back(self, stage: int, number: int) -> Tensor:
        """Autograd is about to reverse a stage: run the schedule up to that point."""
        if torch.is_grad_enabled():
            raise CkptError("a schedule cannot run under create_graph=True: what it brings back has no graph")
        if self.built < self.n:
            raise CkptError(f"backward began when {self.built} of {self.n} stages had run: a schedule reverses all")
        once = f"stage {stage} was reversed already: a schedule runs backward once"
        if stage >= self.frontier:
            raise CkptError(once)
        while stage not in self.contents:
            self._do(self.actions[self.next])
        found, now = self.contents[stage][number], current_graph_task()
        if found == now:
            raise CkptError(
                f"stage {stage} asked twice for a tensor it saved. In an autograd.Function of yours, read "
                "ctx.saved_tensors once: a, b = ctx.saved_tensors"
            )
        if isinstance(found, int):
            raise CkptError(once)
        self.contents[stage][number] = now  # freed after use, as autograd does
        return found.get(f"a tensor that stage {stage} saved")


def _redeem(ticket: _Ticket) -> Tensor:
    return ticket.run.bring_back(ticket.stage, ticket.number)


def _same(a: Tensor, b: Tensor) -> bool:
    """Equal in every value; fake tensors have none to compare, and count as changed."""
    if isinstance(a, FakeTensor):
        return False
    with without_python_dispatch():  # the generator's state is real even where all others are fake
        return all(torch.equal(old, new) for old, new in zip(plain_parts(a), plain_parts(b), strict=True))


class _Before:
    """What a stage found when it first ran: random numbers, autocast, buffers, arguments besides its input."""

    needs_grad = False

    def __init__(self, layer: Any, x: Tensor):
        self.global_state = GlobalState(True, [x])
        self.besides = [
            _Kept(t) for t in tensors_in([layer.args, layer.kwargs] if isinstance(layer, _WithArguments) else [])
        ]
        modules = layer.modules() if isinstance(layer, nn.Module) else ()
        self.buffers = [
            (module, name, buffer.clone())
            for module in modules
            for name, buffer in module.named_buffers(recurse=False, remove_duplicate=False)
        ]

    def forget_the_unchanged(self) -> None:
        """After the first run: a stage that drew no random numbers and wrote no buffer needs none of them kept."""
        rng = self.global_state.rng
        now = rng_states(device for device, _ in rng)
        if all(_same(old, new) for (_, old), (_, new) in zip(rng, now, strict=True)):
            self.global_state.rng = []
        self.besides = [kept for kept in self.besides if not kept.changed]  # by the stage itself: as it pleases
        # By value: batch_norm writes its running statistics without counting up their version.
        self.buffers = [(m, name, old) for m, name, old in self.buffers if not _same(getattr(m, name), old)]

    @contextmanager
    def as_it_was(self) -> Iterator[None]:
        now = [getattr(module, name) for module, name, _ in self.buffers]
        cached = torch.is_autocast_cache_enabled()
        try:
            for module, name, old in self.buffers:
                setattr(module, name, old.clone())
            with self.global_state.restored():
                torch.set_autocast_cache_enabled(False)  # a weight cast without a graph must not be used with one
                yield
        finally:
            torch.set_autocast_cache_enabled(cached)
            for (module, name, _), buffer in zip(self.buffers, now, strict=True):
                setattr(module, name, buffer)
