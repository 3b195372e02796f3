"""How is a model run by a schedule? Each block runs where the model calls it, and saves what the schedule says."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import CkptError
from ..remember.user_models import without_cache
from ..torch_internals import COMPILER, name_of, not_compiled
from ..tracing.storages import version
from .block_detection import BlockCall, Chain
from .execute import ChainRun, execute
from .schedule import Schedule

_LIKELY = (
    "The plan is for blocks that run one after the other, as they did when it was made. Does the model leave out "
    "blocks, at random or for some inputs (layer drop, early exit), or run some of them under no_grad?"
)
_CALL = name_of("compiled_call")  # nn.Module's place for what runs when it is called: module.compile() sets it
_CALL_WITH_HOOKS = name_of("module_call")


def apply_schedule(model: nn.Module, chain: Chain, schedule: Schedule) -> ScheduledModel:
    """The model, run by a schedule. The chain may have been found in another model that was built the same way."""
    blocks: list[Callable[..., Tensor]] = [model.get_submodule(path) for path in chain.paths]
    if not blocks:
        assert isinstance(model, (nn.Sequential, nn.ModuleList))  # the model is the chain
        blocks = list(model)
    return ScheduledModel(model, Chain(blocks, chain.x, chain.paths), schedule)


class ScheduledModel(nn.Module):
    """The model with its chain run by a schedule. It shares the model's parameters, and does not change the model.

    Each block runs where the model calls it, and the model gets the block's true output. So the model may use that
    output elsewhere too, or read attributes that the block has set, such as an auxiliary loss.
    """

    def __init__(self, model: nn.Module | Sequence[Callable], chain: Chain, schedule: Schedule):
        super().__init__()
        if not isinstance(model, nn.Module):
            model = nn.ModuleList(stage for stage in model if isinstance(stage, nn.Module))
        self.model = model
        self.schedule, self.paths = schedule, chain.paths
        self._blocks = tuple(chain.blocks)  # in a tuple, because they are registered as parts of the model already

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if not self.paths:
            return execute(self.schedule, self._blocks, *args, **kwargs)
        blocks = cast(tuple[nn.Module, ...], self._blocks)  # which were found in a model, by their paths
        row = BlocksInTurn(self.schedule, blocks, self.paths)
        with without_cache(self.model), row.takes_the_calls():
            out = self.model(*args, **kwargs)
        row.check_complete()
        return out


class BlocksInTurn:
    """Takes the calls of the blocks, each of which advances the run through the schedule.

    It serves one forward of the model or, if it `begins_again`, one after the other: each call of the first block
    starts a new run. An earlier run lives as long as its graph.
    """

    def __init__(
        self, schedule: Schedule, blocks: Sequence[nn.Module], paths: Sequence[str], begins_again: bool = False
    ):
        self.schedule, self.blocks, self.paths, self.begins_again = schedule, blocks, paths, begins_again
        self.run: ChainRun | None = ChainRun(schedule)
        self.own_calls = [block.__dict__.get(_CALL) for block in blocks]
        self.called = 0
        self.last: tuple[Tensor, int] | None = None  # what the last block returned, and its version then

    def install(self) -> None:
        for i, block in enumerate(self.blocks):
            divert(block, partial(self._take, i))

    def remove(self) -> None:
        for block, own_call in zip(self.blocks, self.own_calls, strict=True):
            divert(block, own_call)

    @contextmanager
    def takes_the_calls(self) -> Iterator[None]:
        try:
            self.install()
            yield
        finally:
            self.remove()

    def _take(self, i: int, x: Tensor, /, *args: Any, **kwargs: Any) -> Tensor:
        """Called in place of block i when the model calls it."""
        if torch.compiler.is_compiling():  # the compiler cannot follow a schedule, and apply.py has seen to that
            return (self.own_calls[i] or getattr(self.blocks[i], _CALL_WITH_HOOKS))(x, *args, **kwargs)
        stage = _OwnCall(self.blocks[i], args, kwargs, self.own_calls[i])
        if not torch.is_grad_enabled():  # no backward, no schedule
            return stage(x)
        # Uncompiled, if there is a compiler. Otherwise not_compiled would import it.
        advance = _advance_uncompiled if COMPILER in sys.modules else BlocksInTurn._advance
        return advance(self, i, stage, x)

    def _advance(self, i: int, stage: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        if i == 0 and self.begins_again:
            self.run, self.called, self.last = ChainRun(self.schedule), 0, None
        if i != self.called or self.run is None:
            due = self.paths[self.called] if self.called < len(self.paths) else "no further block"
            raise CkptError(f"{self.paths[i]} was called where {due} was due. {_LIKELY}")
        if i and (self.last is None or x is not self.last[0] or version(x) != self.last[1]):
            raise CkptError(f"{self.paths[i]} was not given what {self.paths[i - 1]} returned. {_LIKELY}")
        y = self.run.advance(stage, x)
        self.called += 1
        self.last = (y, version(y)) if self.called < len(self.blocks) else None
        if self.last is None:
            self.run = None  # from here on, the graph alone holds what the run has saved
        return y

    def check_complete(self) -> None:
        if 0 < self.called < len(self.blocks):
            missed, last = self.paths[self.called], self.paths[self.called - 1]
            raise CkptError(f"{missed} was not called, although the block before it, {last}, was. {_LIKELY}")


_advance_uncompiled = not_compiled(BlocksInTurn._advance)


class _OwnCall(BlockCall):
    """A block with its other arguments, as a function of one tensor. It calls the block itself, hooks and all, also
    while calls of the block are diverted."""

    def __init__(self, block: nn.Module, args: tuple, kwargs: dict, own_call: Callable | None):
        super().__init__(block, args, kwargs)
        self.own_call = own_call

    def __call__(
        self, x: Tensor
    ) -> Tensor:  # not a module's call, because a trace would take it for a model of its own
        block = cast(nn.Module, self.block)
        diverted = block.__dict__.get(_CALL)
        divert(block, self.own_call)
        try:
            return block(x, *self.args, **self.kwargs)
        finally:
            divert(block, diverted)


def divert(block: nn.Module, call: Callable | None) -> None:
    """From now on, calls of the block go to `call`, before any hook. None sends them to the block itself again."""
    if call is None:
        block.__dict__.pop(_CALL, None)
    else:
        block.__dict__[_CALL] = call
