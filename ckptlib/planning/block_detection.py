"""Where is the chain in this model? Find its stages, in order, and the input of the first one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import CkptError
from ..remember.user_models import call_of, without_cache
from ..torch_internals import tree_leaves
from ..tracing.storages import version

Arguments = tuple[tuple, dict]  # what a block is called with besides its tensor, such as a mask


class NoChain(CkptError):
    """The model's blocks are not a chain."""


@dataclass
class Chain:
    """The blocks of a chain. `paths` are their places in the model, or empty if the model itself is the chain."""

    blocks: list[Callable[..., Tensor]]
    x: Tensor  # the first stage's input
    paths: list[str] = field(default_factory=list)
    besides: list[Arguments] = field(default_factory=list)

    @property
    def stages(self) -> list[Callable[[Tensor], Tensor]]:
        return with_arguments(self.blocks, self.besides)

    @property
    def names(self) -> list[str]:
        return self.paths or [str(i) for i in range(len(self.blocks))]


class BlockCall(nn.Module):
    """A block with its other arguments bound, so that it is a function of one tensor."""

    def __init__(self, block: Callable[..., Tensor], args: tuple, kwargs: dict):
        super().__init__()
        self.block, self.args, self.kwargs = block, args, kwargs

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x, *self.args, **self.kwargs)


def with_arguments(
    blocks: Sequence[Callable[..., Tensor]], besides: Sequence[Arguments]
) -> list[Callable[[Tensor], Tensor]]:
    pairs = zip(blocks, besides or [((), {})] * len(blocks), strict=True)
    return [BlockCall(block, *more) if any(more) else block for block, more in pairs]


def find_chain(model: nn.Module | Sequence[Callable], inputs: Any) -> Chain:
    """Find the chain of a model, called with `inputs`: a tensor, a tuple of arguments, or a dict of named arguments.

    An `nn.Sequential` or a list is a chain. In any other model, the chain is the longest row of modules of one type in
    which each receives the output of the one before. A row with less than half of another row's parameters is ignored.
    """
    args, kwargs = call_of(inputs)
    # A subclass with its own forward may do more than call one module after the other.
    own = isinstance(model, nn.Sequential) and type(model).forward is not nn.Sequential.forward
    if isinstance(model, (nn.Sequential, nn.ModuleList, list, tuple)) and not own:
        stages: list[Callable[..., Tensor]] = list(model)
        if not stages or not all(callable(stage) for stage in stages):
            raise CkptError("a chain is a list of at least one module or function")
        if len(args) != 1 or not isinstance(args[0], Tensor):
            found = type(args[0]).__name__ if len(args) == 1 else f"{type(inputs).__name__} of {len(args or kwargs)}"
            raise CkptError(f"x is a {found}, but the input of a chain must be a tensor")
        return Chain(stages, args[0])
    if not isinstance(model, nn.Module):
        raise CkptError(f"got a {type(model).__name__}, expected nn.Sequential, a list of stages, or a model of blocks")
    if not any(isinstance(leaf, Tensor) for leaf in tree_leaves((args, kwargs))):
        raise CkptError(f"x is a {type(inputs).__name__}, but the model's input must be a tensor, or contain one")
    with without_cache(model):
        calls = _watch(model, args, kwargs)
    rows = [(row, _parameters(row)) for row in _rows(calls) if len(row) > 1]
    if not rows:
        raise NoChain(_why_there_is_none(model, calls))
    most = max(parameters for _, parameters in rows)
    row, _ = max((pair for pair in rows if 2 * pair[1] >= most), key=lambda pair: (len(pair[0]), pair[1]))
    for call in row:
        _refuse_cache(call)
    besides = [(call.args[1:], call.kwargs) for call in row]
    return Chain([call.module for call in row], row[0].args[0], [call.path for call in row], besides)


# ---- one run of the model, watched ----------------------------------------------------------------------------------
@dataclass
class _ModuleCall:
    path: str
    module: nn.Module
    args: tuple
    kwargs: dict
    start: int  # the moment of the call; moments count calls and returns, and `end` is that of the return
    version: int  # of the first argument at the call
    end: int = -1
    out: Any = None
    out_version: int = 0

    @property
    def links(self) -> bool:
        """Is the first argument a tensor, and the result too?"""
        return bool(self.args) and isinstance(self.args[0], Tensor) and isinstance(self.out, Tensor)

    def follows(self, other: _ModuleCall) -> bool:
        """Was this one called with the output of the other one, unchanged?"""
        same = self.args[0] is other.out and self.version == other.out_version
        return same and other.end < self.start


def _watch(model: nn.Module, args: tuple, kwargs: dict) -> list[_ModuleCall]:
    """Run the model, and list every call of every module in order. The model is left unchanged."""
    calls: list[_ModuleCall] = []
    under_way: list[_ModuleCall] = []
    moment = 0

    def before(path: str) -> Callable:
        def hook(module: nn.Module, args: tuple, kwargs: dict) -> None:
            nonlocal moment
            moment += 1
            written = version(args[0]) if args and isinstance(args[0], Tensor) else 0
            under_way.append(_ModuleCall(path, module, args, kwargs, moment, written))
            calls.append(under_way[-1])

        return hook

    def after(module: nn.Module, args: tuple, kwargs: dict, out: Any) -> None:
        nonlocal moment
        moment += 1
        call = under_way.pop()
        call.end, call.out, call.out_version = moment, out, version(out) if isinstance(out, Tensor) else 0

    handles = []
    for path, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(before(path), with_kwargs=True))
        handles.append(module.register_forward_hook(after, with_kwargs=True))
    try:
        with buffers_restored([model]), torch.random.fork_rng(), torch.enable_grad():
            model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return calls


@contextmanager
def buffers_restored(modules: Sequence[Any]) -> Iterator[None]:
    """Restore the buffers afterwards."""
    buffers = [b for module in modules if isinstance(module, nn.Module) for b in module.buffers()]
    before = [b.clone() for b in buffers]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, old in zip(buffers, before, strict=True):
                buffer.copy_(old)


def _rows(calls: list[_ModuleCall]) -> list[list[_ModuleCall]]:
    """Rows of calls of one type, each of which gets the output of the call before it. No module in them runs twice."""
    times = Counter(call.module for call in calls)
    ends: dict[tuple[type, int], list[_ModuleCall]] = {}  # (type, id of what the last call returned) -> row
    rows: list[list[_ModuleCall]] = []
    for call in calls:
        if not call.links or times[call.module] > 1:
            continue
        row = ends.get((type(call.module), id(call.args[0])))
        if row is None or not call.follows(row[-1]):
            row = []
            rows.append(row)
        row.append(call)
        ends[type(call.module), id(call.out)] = row
    return rows


def _parameters(row: list[_ModuleCall]) -> int:
    return sum(p.numel() for call in row for p in call.module.parameters())


# ---- models without a chain -----------------------------------------------------------------------------------------
def _refuse_cache(call: _ModuleCall) -> None:
    """A cache of keys and values grows with every call, so a block that runs again would find its own entries."""
    caches = [leaf for leaf in tree_leaves((call.args[1:], call.kwargs)) if type(leaf).__name__.endswith("Cache")]
    if caches:
        raise CkptError(
            f"{call.path} is called with a {type(caches[0]).__name__}, which grows with every call, so a block that "
            "runs again would find its own entries in it. Training needs no cache. Set use_cache=False in the config "
            "or the inputs"
        )


def _why_there_is_none(model: nn.Module, calls: list[_ModuleCall]) -> str:
    """Which blocks does the model have, and why do they not form a chain?"""
    lists = [
        (path, list(part))
        for path, part in model.named_modules()
        if isinstance(part, (nn.ModuleList, nn.Sequential)) and len(part) > 1 and len({type(b) for b in part}) == 1
    ]
    advice = "Pass the stages as a list"
    if not lists:
        name = type(model).__name__
        return f"{name} has no ModuleList or Sequential of blocks of one type, so there is no chain to plan. {advice}"
    longest = sorted(lists, key=lambda pair: -len(pair[1]))[:3]
    found = [f"{len(blocks)} {type(blocks[0]).__name__} in {path}" for path, blocks in longest]
    reasons = [_why_not(path, blocks, calls) for path, blocks in longest]
    return f"there is no chain to plan. The model has {', '.join(found)}, but {', and '.join(reasons)}. {advice}"


def _why_not(path: str, blocks: list[nn.Module], calls: list[_ModuleCall]) -> str:
    of_blocks = [call for call in calls if call.module in set(blocks)]
    if [call.module for call in of_blocks] != blocks:
        return f"the blocks of {path} did not run once each, in order"
    for i, call in enumerate(of_blocks):
        if not call.links:
            takes = type(call.args[0]).__name__ if call.args else "nothing by position"
            what = f"it takes {takes} and returns {type(call.out).__name__}"
            return f"block {i} of {path} does not take one tensor and return one ({what})"
        if i and not call.follows(of_blocks[i - 1]):
            return f"block {i} of {path} does not receive the output of block {i - 1}"
    return f"the blocks of {path} belong to a longer row"  # not reached if no row was found
