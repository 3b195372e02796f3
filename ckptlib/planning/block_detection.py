"""Where are the chains in this model? Find their stages, in order, and the input of the first one of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import CkptError
from ..remember.user_models import call_of, without_cache
from ..torch_internals import tree_flatten, tree_leaves, tree_unflatten
from ..tracing.storages import version
from .schedule import Schedule

Arguments = tuple[tuple, dict]  # all that a block is called with; a chain holds None in the place of its own tensor


class NoChain(CkptError):
    """The model's blocks are not a chain."""


class Place(NamedTuple):
    """Which tensor of a block belongs to the chain: the leaf of its arguments that comes from the block before, and the
    leaf of its result that goes to the block after. A block may take and return any containers of tensors."""

    takes: int = 0
    gives: int = 0


@dataclass
class Chain:
    """The blocks of a chain. `paths` are their places in the model, or empty if the model itself is the chain."""

    blocks: list[Callable[..., Any]]
    x: Tensor  # the first stage's input
    paths: list[str] = field(default_factory=list)
    besides: list[Arguments | None] = field(default_factory=list)  # None for a block that takes its tensor alone
    places: list[Place] = field(default_factory=list)
    runs: int = 1  # in one forward of the model; a siamese net, for example, runs its blocks twice
    rank: int = 0  # of the chains of a model, the one that is chosen first has the highest

    @property
    def stages(self) -> list[Callable[[Tensor], Tensor]]:
        given = zip(self.blocks, self.besides or [None] * len(self.blocks), self.all_places, strict=True)
        return [block if more is None else BlockCall(block, more, place) for block, more, place in given]

    @property
    def all_places(self) -> list[Place]:
        return self.places or [Place()] * len(self.blocks)

    @property
    def names(self) -> list[str]:
        return self.paths or [str(i) for i in range(len(self.blocks))]


@dataclass
class Chains:
    """All chains of a model, in the order in which they run. Their stages have one numbering."""

    rows: list[Chain]

    @property
    def blocks(self) -> list[Callable[..., Any]]:
        return [block for row in self.rows for block in row.blocks]

    @property
    def names(self) -> list[str]:
        return [name for row in self.rows for name in row.names]

    @property
    def starts(self) -> list[int]:
        """The number of each chain's first stage, and of all stages together."""
        return [0, *accumulate(len(row.blocks) for row in self.rows)]

    def schedules(self, schedule: Schedule) -> list[Schedule]:
        """A schedule of all stages as one for each chain. None of its checkpoints may reach from one into another."""
        return [
            Schedule(end - start, [(kind, stage - start) for kind, stage in schedule.actions if start <= stage < end])
            for start, end in pairwise(self.starts)
        ]


class BlockCall(nn.Module):
    """A block with its other arguments bound, so that it is a function of one tensor that returns one tensor."""

    def __init__(self, block: Callable[..., Any], arguments: Arguments, place: Place):
        super().__init__()
        self.block, self.place = block, place
        self.leaves, self.spec = tree_flatten(arguments)
        self.leaves[place.takes] = None

    def forward(self, x: Tensor) -> Tensor:
        return self.given_to_the_next(self.called(x))

    def called(self, x: Tensor) -> Any:
        """All that the block returns."""
        leaves = self.leaves.copy()
        leaves[self.place.takes] = x
        args, kwargs = tree_unflatten(leaves, self.spec)
        return self.block(*args, **kwargs)

    def given_to_the_next(self, out: Any) -> Tensor:
        return out if isinstance(out, Tensor) else tree_leaves(out)[self.place.gives]


def find_chain(model: nn.Module | Sequence[Callable], inputs: Any) -> Chain:
    """Find the chain of a model, called with `inputs`: a tensor, a tuple of arguments, or a dict of named arguments.

    An `nn.Sequential` or a list is a chain. In any other model, the chain is the longest row of modules of one type in
    which each receives a tensor that the one before has made. A row with less than half of another row's parameters is
    ignored.
    """
    chains = _found(model, inputs)
    return max(chains, key=lambda chain: chain.rank)


def find_chains(model: nn.Module | Sequence[Callable], inputs: Any) -> Chains:
    """All chains of a model that have no block in common. One of them is the chain of `find_chain`."""
    return Chains(_found(model, inputs))


def _found(model: nn.Module | Sequence[Callable], inputs: Any) -> list[Chain]:
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
        return [Chain(stages, args[0])]
    if not isinstance(model, nn.Module):
        raise CkptError(f"got a {type(model).__name__}, expected nn.Sequential, a list of stages, or a model of blocks")
    if not any(isinstance(leaf, Tensor) for leaf in tree_leaves((args, kwargs))):
        raise CkptError(f"x is a {type(inputs).__name__}, but the model's input must be a tensor, or contain one")
    with without_cache(model):
        calls = _watch(model, args, kwargs)
    rows = _apart(_rows(calls))
    if not rows:
        raise NoChain(_why_there_is_none(model, calls))
    for call in rows[0].calls:
        _refuse_cache(call)
    rows = [row for row in rows if not any(_caches(call) for call in row.calls)]
    chains = [(row.calls[0].start, row.chain(-rank)) for rank, row in enumerate(rows)]
    return [chain for _, chain in sorted(chains, key=itemgetter(0))]


# ---- one run of the model, watched ----------------------------------------------------------------------------------
@dataclass
class _ModuleCall:
    path: str
    module: nn.Module
    args: tuple
    kwargs: dict
    start: int  # the moment of the call; moments count calls and returns, and `end` is that of the return
    given: list[Any]  # the leaves of args and kwargs, and their versions at the call
    given_versions: list[int]
    end: int = -1
    out: Any = None
    made: list[Any] = field(default_factory=list)  # the leaves of what it returned, and their versions then
    made_versions: list[int] = field(default_factory=list)

    @property
    def plain(self) -> bool:
        """Does it take one tensor and nothing else, and return one tensor?"""
        alone = len(self.args) == 1 and not self.kwargs and isinstance(self.args[0], Tensor)
        return alone and isinstance(self.out, Tensor)

    def link(self, before: _ModuleCall) -> tuple[int, int] | None:
        """Which tensor of another call, unchanged, is which argument of this one? (leaf that it gave, leaf that this
        one takes.) What blocks only pass on, such as a bias that the first of them has made, does not count."""
        if before.end >= self.start:
            return None
        for gives, leaf in enumerate(before.made):
            if not _flows(leaf) or before.passes_on(gives) or self.passes_on(gives):
                continue
            for takes, mine in enumerate(self.given):
                if mine is leaf and self.given_versions[takes] == before.made_versions[gives]:
                    return gives, takes
        return None

    def passes_on(self, number: int) -> bool:
        """Is this leaf of its containers one that it was given?"""
        if isinstance(self.out, Tensor) or number >= len(self.made):
            return False
        return any(self.made[number] is leaf for leaf in self.given)


def _flows(leaf: Any) -> bool:
    """Can a gradient flow through it?"""
    return isinstance(leaf, Tensor) and (leaf.is_floating_point() or leaf.is_complex())


def _versions(leaves: list[Any]) -> list[int]:
    return [version(leaf) if isinstance(leaf, Tensor) else 0 for leaf in leaves]


def _watch(model: nn.Module, args: tuple, kwargs: dict) -> list[_ModuleCall]:
    """Run the model, and list every call of every module in order. The model is left unchanged."""
    calls: list[_ModuleCall] = []
    under_way: list[_ModuleCall] = []
    moment = 0

    def before(path: str) -> Callable:
        def hook(module: nn.Module, args: tuple, kwargs: dict) -> None:
            nonlocal moment
            moment += 1
            given = tree_leaves((args, kwargs))
            under_way.append(_ModuleCall(path, module, args, kwargs, moment, given, _versions(given)))
            calls.append(under_way[-1])

        return hook

    def after(module: nn.Module, args: tuple, kwargs: dict, out: Any) -> None:
        nonlocal moment
        moment += 1
        call = under_way.pop()
        call.end, call.out, call.made = moment, out, tree_leaves(out)
        call.made_versions = _versions(call.made)

    with hooked(model, before, lambda path: after):
        model(*args, **kwargs)
    return calls


@contextmanager
def hooked(model: nn.Module, before: Callable[[str], Callable], after: Callable[[str], Callable]) -> Iterator[None]:
    """Hook every module's forward, by functions of its path. Buffers and random numbers are restored afterwards."""
    with ExitStack() as hooks, buffers_restored([model]), torch.random.fork_rng(), torch.enable_grad():
        for path, module in model.named_modules():
            hooks.enter_context(module.register_forward_pre_hook(before(path), with_kwargs=True))
            hooks.enter_context(module.register_forward_hook(after(path), with_kwargs=True))
        yield


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


# ---- rows of blocks -------------------------------------------------------------------------------------------------
@dataclass
class _Row:
    """Calls of one type, each of which gets a tensor that the call before it has made."""

    calls: list[_ModuleCall]
    links: list[tuple[int, int]] = field(default_factory=list)  # between one call and the next
    runs: int = 1

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        return tuple(call.module for call in self.calls)

    @property
    def parameters(self) -> int:
        return sum(p.numel() for module in self.modules for p in module.parameters())

    def shares(self, other: _Row) -> bool:
        """Is a block of one of them a block of the other one, or inside of it?"""
        pairs = [(f"{one.path}.", f"{two.path}.") for one in self.calls for two in other.calls]
        return any(one.startswith(two) or two.startswith(one) for one, two in pairs)

    def is_inside(self, other: _Row) -> bool:
        """Is each of its blocks inside of a block of the other row?"""
        return all(any(one.path.startswith(f"{two.path}.") for two in other.calls) for one in self.calls)

    def chain(self, rank: int) -> Chain:
        first, last = self.calls[0], self.calls[-1]
        like_the_next, like_the_last = self.links[0][1], self.links[-1][0]
        takes = [_leaf(first.given, like_the_next), *(takes for _, takes in self.links)]
        gives = [*(gives for gives, _ in self.links), _leaf(last.made, like_the_last)]
        return Chain(
            list(self.modules),
            ungraphed(first.given[takes[0]]),
            [call.path for call in self.calls],
            [None if call.plain else _besides(call, at) for call, at in zip(self.calls, takes, strict=True)],
            [Place(*both) for both in zip(takes, gives, strict=True)],
            self.runs,
            rank,
        )


def _leaf(leaves: list[Any], likely: int) -> int:
    """Where is the chain's own tensor? At the same place as in the next block, or it is the first one."""
    if likely < len(leaves) and _flows(leaves[likely]):
        return likely
    return next(i for i, leaf in enumerate(leaves) if _flows(leaf))


def _besides(call: _ModuleCall, takes: int) -> Arguments:
    """What the block was given besides, without the graph that it came with."""
    leaves, spec = tree_flatten((call.args, call.kwargs))
    leaves[takes] = None
    return tree_unflatten([ungraphed(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves], spec)


def ungraphed(t: Tensor) -> Tensor:
    """The same tensor as a leaf of a new graph."""
    return t.detach().requires_grad_(t.requires_grad)


def _rows(calls: list[_ModuleCall]) -> list[_Row]:
    """All rows of two or more. A row that runs several times is one, and a module that runs otherwise is in none."""
    ends: dict[tuple[type, int], _Row] = {}  # (type, id of what the last call made) -> row
    rows: list[_Row] = []
    for call in calls:
        if not any(map(_flows, call.given)) or not any(map(_flows, call.made)):
            continue
        kind = type(call.module)
        before = [ends[kind, id(leaf)] for leaf in call.given if (kind, id(leaf)) in ends]
        linked = [(row, link) for row in before if (link := call.link(row.calls[-1]))]
        if linked:
            row, link = linked[0]
            row.calls.append(call)
            row.links.append(link)
        else:
            row = _Row([call])
            rows.append(row)
        ends |= {(kind, id(leaf)): row for leaf in call.made}
    again: dict[tuple[nn.Module, ...], _Row] = {}
    for row in rows:
        if len(row.calls) > 1:
            again.setdefault(row.modules, row)
            again[row.modules].runs += again[row.modules] is not row
    times = Counter(call.module for call in calls)
    return [row for row in again.values() if all(times[module] == row.runs for module in row.modules)]


def _apart(rows: list[_Row]) -> list[_Row]:
    """Rows that share no block. The first is the longest one, and then the longest of those that are left.

    A row gives way to those inside of its blocks if one of them is longer and they have half of its parameters. So the
    stages of a Swin Transformer are not recomputed as a whole, but layer by layer.
    """
    chosen: list[_Row] = []
    while rows:
        most = max(row.parameters for row in rows)
        enough = (row for row in rows if 2 * row.parameters >= most)
        longest = max(enough, key=lambda row: (len(row.calls), row.parameters))
        inside = _apart([row for row in rows if row.is_inside(longest)])
        finer = max((len(row.calls) for row in inside), default=0) > len(longest.calls)
        chosen += inside if finer and 2 * sum(row.parameters for row in inside) >= longest.parameters else [longest]
        rows = [row for row in rows if row.parameters and not row.shares(longest)]
    return chosen


# ---- models without a chain -----------------------------------------------------------------------------------------
def _caches(call: _ModuleCall) -> list[Any]:
    """A cache of keys and values grows with every call, so a block that runs again would find its own entries."""
    return [leaf for leaf in call.given if type(leaf).__name__.endswith("Cache")]


def _refuse_cache(call: _ModuleCall) -> None:
    if caches := _caches(call):
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
        if not any(map(_flows, call.given)) or not any(map(_flows, call.made)):
            return f"block {i} of {path} does not take and return tensors through which a gradient can flow"
        if i and not call.link(of_blocks[i - 1]):
            return f"block {i} of {path} does not receive the output of block {i - 1}"
    return f"the blocks of {path} belong to a longer row"  # not reached if no row was found
