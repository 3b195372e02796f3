"""How is a model run by a schedule? Each of its blocks runs where the model calls it, and saves what it should."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import CkptError
from ..torch_internals import name_of
from ..tracing.storages import version
from .chains import Chain, with_arguments
from .execute import Run, execute
from .schedule import Schedule

_LIKELY = (
    "The plan is for blocks that run one after the other, as they did when it was made. Does the model leave out "
    "blocks, at random or for some inputs (layer drop, early exit), or run some of them under no_grad?"
)
_CALL = name_of("compiled_call")  # nn.Module's place for what runs when it is called: module.compile() sets it


def apply_schedule(model: nn.Module, chain: Chain, schedule: Schedule) -> ScheduledModel:
    """The model, run by a schedule for a chain that may have been found in another model, built the same way."""
    blocks: list[Callable[..., Tensor]] = [model.get_submodule(path) for path in chain.paths]
    if not blocks:
        assert isinstance(model, (nn.Sequential, nn.ModuleList))  # the model is the chain
        blocks = list(model)
    return ScheduledModel(model, Chain(blocks, chain.x, chain.paths), schedule)


class ScheduledModel(nn.Module):
    """The model, its chain run by a schedule. It shares the model's parameters, and leaves the model as it is.

    Each block runs where the model calls it, and the model gets its true output: it may use that elsewhere too, or read
    what the block has left in its attributes, a loss of its own perhaps.
    """

    def __init__(self, model: nn.Module | Sequence[Callable], chain: Chain, schedule: Schedule):
        super().__init__()
        if not isinstance(model, nn.Module):
            model = nn.ModuleList(stage for stage in model if isinstance(stage, nn.Module))
        self.model = model
        self.schedule, self.paths = schedule, chain.paths
        self._blocks = tuple(chain.blocks)  # a tuple of modules is not registered: they are, above

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if not self.paths:
            return execute(self.schedule, self._blocks, *args, **kwargs)
        blocks = cast(tuple[nn.Module, ...], self._blocks)  # which were found in a model, by their paths
        row = _CalledBlocks(self.schedule, blocks, self.paths)
        with row.takes_the_calls():
            out = self.model(*args, **kwargs)
        row.check_complete()
        return out


class _CalledBlocks:
    """The blocks during one forward of the model: as the model calls each, the run through the schedule advances."""

    def __init__(self, schedule: Schedule, blocks: Sequence[nn.Module], paths: Sequence[str]):
        self.run, self.blocks, self.paths = Run(schedule), blocks, paths
        self.own_calls = [block.__dict__.get(_CALL) for block in blocks]
        self.called = 0
        self.last: tuple[Tensor, int] | None = None  # what the last block returned, and its version then

    @contextmanager
    def takes_the_calls(self) -> Iterator[None]:
        try:
            for i, block in enumerate(self.blocks):
                _divert(block, partial(self._take, i))
            yield
        finally:
            for block, own_call in zip(self.blocks, self.own_calls, strict=True):
                _divert(block, own_call)

    def _take(self, i: int, x: Tensor, /, *args: Any, **kwargs: Any) -> Tensor:
        """The model calls block i."""
        block = self.blocks[i]
        _divert(block, self.own_calls[i])
        (stage,) = with_arguments([block], [(args, kwargs)])
        y = self._advance(i, stage, x) if torch.is_grad_enabled() else stage(x)  # no backward, no schedule
        _divert(block, partial(self._take, i))
        return y

    def _advance(self, i: int, stage: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        if i != self.called:
            due = self.paths[self.called] if self.called < len(self.paths) else "none of the row"
            raise CkptError(f"{self.paths[i]} was called where {due} was due. {_LIKELY}")
        if i and (self.last is None or x is not self.last[0] or version(x) != self.last[1]):
            raise CkptError(f"{self.paths[i]} was not given what {self.paths[i - 1]} returned. {_LIKELY}")
        y = self.run.advance(stage, x)
        self.called += 1
        self.last = (y, version(y)) if self.called < len(self.blocks) else None
        return y

    def check_complete(self) -> None:
        if 0 < self.called < len(self.blocks):
            missed, last = self.paths[self.called], self.paths[self.called - 1]
            raise CkptError(f"{missed} was not called, but {last} before it was. {_LIKELY}")


def _divert(block: nn.Module, call: Callable | None) -> None:
    """Calls of the block go there from now on, before any hook; None: to the block itself."""
    if call is None:
        block.__dict__.pop(_CALL, None)
    else:
        block.__dict__[_CALL] = call
