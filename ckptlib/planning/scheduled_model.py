"""How is a model run by a schedule? Each block runs where the model calls it, and saves what the schedule says."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import CkptError
from ..remember.user_models import without_cache
from ..torch_internals import COMPILER, name_of, not_compiled, tree_leaves
from ..tracing.storages import version
from .block_detection import Arguments, BlockCall, Chain, Chains, Place, ungraphed
from .execute import ChainRun, execute
from .schedule import Schedule

_LIKELY = (
    "The plan is for blocks that run one after the other, as they did when it was made. Does the model leave out "
    "blocks, at random or for some inputs (layer drop, early exit), or run some of them under no_grad?"
)
_CALL = name_of("compiled_call")  # nn.Module's place for what runs when it is called: module.compile() sets it
_CALL_WITH_HOOKS = name_of("module_call")


def apply_schedule(model: nn.Module, chains: Chains, schedule: Schedule) -> ScheduledModel:
    """The model, run by a schedule. The chains may have been found in another model that was built the same way."""

    def same(chain: Chain) -> Chain:
        blocks: list[Callable[..., Any]] = [model.get_submodule(path) for path in chain.paths]
        if not blocks:
            assert isinstance(model, (nn.Sequential, nn.ModuleList))  # the model is the chain
            blocks = list(model)
        return replace(chain, blocks=blocks, besides=[])

    return ScheduledModel(model, Chains([same(chain) for chain in chains.rows]), schedule)


class ScheduledModel(nn.Module):
    """The model with its chains run by a schedule. It shares the model's parameters, and does not change the model.

    Each block runs where the model calls it, and the model gets the block's true output. So the model may use that
    output elsewhere too, or read attributes that the block has set, such as an auxiliary loss.
    """

    def __init__(self, model: nn.Module | Sequence[Callable], chains: Chains, schedule: Schedule):
        super().__init__()
        if not isinstance(model, nn.Module):
            model = nn.ModuleList(stage for stage in model if isinstance(stage, nn.Module))
        self.model = model
        self.schedule = schedule
        self._chains = chains  # their blocks are registered as parts of the model already

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if not self._chains.rows[0].paths:
            return execute(self.schedule, self._chains.blocks, *args, **kwargs)
        by_row = zip(self._chains.rows, self._chains.schedules(self.schedule), strict=True)
        rows = [
            BlocksInTurn(schedule, cast(list[nn.Module], row.blocks), row.paths, row.all_places, row.runs > 1)
            for row, schedule in by_row
        ]
        with without_cache(self.model), ExitStack() as stack:
            for row in rows:
                stack.enter_context(row.takes_the_calls())
            out = self.model(*args, **kwargs)
        for row in rows:
            row.check_complete()
        return out


class BlocksInTurn:
    """Takes the calls of the blocks, each of which advances the run through the schedule.

    It serves one forward of the model or, if it `begins_again`, one after the other: each call of the first block
    starts a new run. An earlier run lives as long as its graph.
    """

    def __init__(
        self,
        schedule: Schedule,
        blocks: Sequence[nn.Module],
        paths: Sequence[str],
        places: Sequence[Place],
        begins_again: bool = False,
    ):
        self.schedule, self.blocks, self.paths, self.begins_again = schedule, blocks, paths, begins_again
        self.places = places
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

    def _take(self, i: int, /, *args: Any, **kwargs: Any) -> Any:
        """Called in place of block i when the model calls it."""
        # The compiler cannot follow a schedule, and apply.py has seen to that. Without a backward there is no schedule.
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return (self.own_calls[i] or getattr(self.blocks[i], _CALL_WITH_HOOKS))(*args, **kwargs)
        # Uncompiled, if there is a compiler. Otherwise not_compiled would import it.
        advance = _advance_uncompiled if COMPILER in sys.modules else BlocksInTurn._advance
        return advance(self, i, args, kwargs)

    def _advance(self, i: int, args: tuple, kwargs: dict) -> Any:
        x = self._own_tensor(i, args, kwargs)
        stage = _OwnCall(self.blocks[i], (args, kwargs), self.places[i], self.own_calls[i])
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
        return stage.first_result()

    def _own_tensor(self, i: int, args: tuple, kwargs: dict) -> Tensor:
        leaves, place = tree_leaves((args, kwargs)), self.places[i].takes
        if place < len(leaves) and isinstance(leaves[place], Tensor):
            return leaves[place]
        found = type(leaves[place]).__name__ if place < len(leaves) else "nothing"
        raise CkptError(
            f"{self.paths[i]} was given {found} where the plan expects the tensor of its chain. Are its arguments "
            "passed in another way than when the plan was made?"
        )

    def check_complete(self) -> None:
        if 0 < self.called < len(self.blocks):
            missed, last = self.paths[self.called], self.paths[self.called - 1]
            raise CkptError(f"{missed} was not called, although the block before it, {last}, was. {_LIKELY}")


_advance_uncompiled = not_compiled(BlocksInTurn._advance)


class _OwnCall(BlockCall):
    """A block with its other arguments, as a function of one tensor. It calls the block itself, hooks and all, also
    while calls of the block are diverted. What the model gets is all that the first call has returned."""

    def __init__(self, block: nn.Module, arguments: Arguments, place: Place, own_call: Callable | None):
        super().__init__(block, arguments, place)
        self.own_call = own_call
        self.first: list[Any] | None = []

    def __call__(
        self, x: Tensor
    ) -> Tensor:  # not a module's call, because a trace would take it for a model of its own
        block = cast(nn.Module, self.block)
        diverted = block.__dict__.get(_CALL)
        divert(block, self.own_call)
        try:
            out = self.called(x)
        finally:
            divert(block, diverted)
        if self.first is not None:
            self.first.append(out)
        return self.given_to_the_next(out)

    def first_result(self) -> Any:
        """Afterwards the stage holds no graph. It may run again, and other arguments may come from its own chain."""
        assert self.first is not None
        (out,), self.first = self.first, None
        self.leaves = [ungraphed(leaf) if isinstance(leaf, Tensor) else leaf for leaf in self.leaves]
        return out


def divert(block: nn.Module, call: Callable | None) -> None:
    """From now on, calls of the block go to `call`, before any hook. None sends them to the block itself again."""
    if call is None:
        block.__dict__.pop(_CALL, None)
    else:
        block.__dict__[_CALL] = call
