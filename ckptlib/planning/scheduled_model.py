"""How is a model run by a schedule? Each block runs where the model calls it, and saves what the schedule says."""

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
from .block_detection import Chain, with_arguments
from .execute import ChainRun, execute
from .schedule import Schedule

_LIKELY = (
    "The plan is for blocks that run one after the other, as they did when it was made. Does the model leave out "
    "blocks, at random or for some inputs (layer drop, early exit), or run some of them under no_grad?"
)
_CALL = name_of("compiled_call")  # nn.Module's place for what runs when it is called: module.compile() sets it


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
        row = _CalledBlocks(self.schedule, blocks, self.paths)
        with row.takes_the_calls():
            out = self.model(*args, **kwargs)
        row.check_complete()
        return out


class _CalledBlocks:
    """The blocks during one forward of the model. Each call of a block advances the run through the schedule."""

    def __init__(self, schedule: Schedule, blocks: Sequence[nn.Module], paths: Sequence[str]):
        self.run, self.blocks, self.paths = ChainRun(schedule), blocks, paths
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
        """Called in place of block i when the model calls it."""
        block = self.blocks[i]
        _divert(block, self.own_calls[i])
        (stage,) = with_arguments([block], [(args, kwargs)])
        y = self._advance(i, stage, x) if torch.is_grad_enabled() else stage(x)  # no backward, no schedule
        _divert(block, partial(self._take, i))
        return y

    def _advance(self, i: int, stage: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        if i != self.called:
            due = self.paths[self.called] if self.called < len(self.paths) else "no further block"
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
            raise CkptError(f"{missed} was not called, although the block before it, {last}, was. {_LIKELY}")


def _divert(block: nn.Module, call: Callable | None) -> None:
    """From now on, calls of the block go to `call`, before any hook. None sends them to the block itself again."""
    if call is None:
        block.__dict__.pop(_CALL, None)
    else:
        block.__dict__[_CALL] = call
