"""Where is the chain in this model? Its stages, in order, and the tensor that the first of them receives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

from ..errors import CkptError


@dataclass
class Chain:
    """`path` is where the blocks are in the model; "" if the model itself is the chain."""

    blocks: list[Callable[..., Tensor]]
    x: Tensor  # the first stage's input
    path: str = ""
    args: tuple = ()  # what every block is given besides, a mask perhaps
    kwargs: dict = field(default_factory=dict)

    @property
    def stages(self) -> list[Callable[[Tensor], Tensor]]:
        return given(self.blocks, self.args, self.kwargs)


class _Given(nn.Module):
    """A block and its other arguments: a function of one tensor."""

    def __init__(self, block: nn.Module, args: tuple, kwargs: dict):
        super().__init__()
        self.block, self.args, self.kwargs = block, args, kwargs

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x, *self.args, **self.kwargs)


def given(blocks: list[Callable[..., Tensor]], args: tuple, kwargs: dict) -> list[Callable[[Tensor], Tensor]]:
    return [_Given(block, args, kwargs) for block in blocks] if args or kwargs else list(blocks)


def find_chain(model: nn.Module | Sequence[Callable], x: Tensor) -> Chain:
    """An `nn.Sequential` or a list is a chain; otherwise the longest list of like blocks in the model must be one."""
    if not isinstance(x, Tensor):
        raise CkptError(f"x is a {type(x).__name__}, expected a tensor: an input of the model")
    if isinstance(model, (nn.Sequential, nn.ModuleList, list, tuple)):
        stages = list(model)
        if not stages or not all(callable(stage) for stage in stages):
            raise CkptError("a chain is a list of at least one module or function")
        return Chain(stages, x)
    if not isinstance(model, nn.Module):
        raise CkptError(f"got a {type(model).__name__}, expected nn.Sequential, a list of stages, or a model of blocks")
    path, blocks = _repeated_blocks(model)
    return _watch(model, x, blocks, path)


def _repeated_blocks(model: nn.Module) -> tuple[str, list[nn.Module]]:
    found = [
        (path, list(part))
        for path, part in model.named_modules()
        if isinstance(part, (nn.ModuleList, nn.Sequential)) and len({type(block) for block in part}) == 1
    ]
    path, blocks = max(found, key=lambda pair: len(pair[1]), default=("", []))
    if len(blocks) < 2:
        raise CkptError(
            f"{type(model).__name__} has no ModuleList or Sequential of blocks of one type: no chain to plan for. "
            "Pass the stages as a list"
        )
    return path, blocks


class _Call(NamedTuple):
    block: nn.Module
    args: tuple
    kwargs: dict
    out: Any


def _watch(model: nn.Module, x: Tensor, blocks: list[nn.Module], path: str) -> Chain:
    """Run the model once, and see whether each block receives what the one before returned."""
    calls: list[_Call] = []
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    handles = [b.register_forward_hook(lambda *call: calls.append(_Call(*call)), with_kwargs=True) for b in blocks]
    try:
        with torch.random.fork_rng(), torch.enable_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
        for buffer, old in buffers:
            buffer.copy_(old)
    if [call.block for call in calls] != blocks:
        raise CkptError(f"the blocks of {path} did not run once each, in order: this is not a chain")
    first = calls[0]
    for i, call in enumerate(calls):
        if not (call.args and isinstance(call.args[0], Tensor) and isinstance(call.out, Tensor)):
            raise CkptError(f"block {i} of {path} does not take a tensor first and return one: this is not a chain")
        if i and call.args[0] is not calls[i - 1].out:
            raise CkptError(f"block {i} of {path} does not receive what block {i - 1} returned: this is not a chain")
        if not _same((call.args[1:], call.kwargs), (first.args[1:], first.kwargs)):
            raise CkptError(f"block {i} of {path} is given other arguments than block 0: pass the stages as a list")
    return Chain(blocks, first.args[0], path, first.args[1:], first.kwargs)


def _same(a: Any, b: Any) -> bool:
    """Equal, tensors by where they are: a slice taken twice is the same."""
    (ours, spec), (theirs, other) = tree_flatten(a), tree_flatten(b)
    return spec == other and all(_place(x) == _place(y) for x, y in zip(ours, theirs, strict=True))


def _place(x: Any) -> Any:
    return (x.data_ptr(), x.shape, x.stride(), x.dtype) if isinstance(x, Tensor) else x
