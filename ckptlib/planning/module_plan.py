"""Which modules of this model should be checkpointed? For a model whose blocks are not a chain, or not only one chain.

A checkpoint around a module saves the module's arguments and runs it again in backward, whatever it takes and returns.
Sets of modules are tried: at first the largest modules that save no more than a limit, for several limits, then fewer
of them. The bytes that each module saves are read from one run, and the peak of each set is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from math import inf
from typing import Any, NamedTuple

from torch import Tensor, nn

from ..errors import CkptError
from ..recompute.op_costs import Flops
from ..remember.measurement import Measurement
from ..remember.user_models import call_of, without_cache
from ..tables import ShownAsTable, Table
from ..torch_internals import tree_leaves
from ..tracing.storages import tensors_in, version
from ..units import mib
from .block_detection import hooked
from .budget_search import NoPlanFits, WholeStep
from .checkpointed_modules import CheckpointedModules


class NoModules(CkptError):
    """No single module can be checkpointed."""


HALVINGS = 6  # limits that are tried: half of what the largest module saves, a quarter, and so on


class ModuleCost(NamedTuple):
    """A module that may be checkpointed."""

    path: str
    kind: str
    nbytes: int  # of its activations that are saved when backward begins
    flops: int  # of all its forwards


@dataclass(repr=False)
class ModulePlan(ShownAsTable):
    """Which modules to checkpoint, so that the whole training step needs `peak` bytes, as measured."""

    modules: list[ModuleCost]
    budget: float
    peak: int
    plain_peak: int  # of the step without checkpoints
    extra: float  # FLOPs of the modules' second forwards, as a fraction of the step's
    why: str  # why there is no schedule of a chain
    search: ModuleSearch

    @property
    def paths(self) -> list[str]:
        return [module.path for module in self.modules]

    @cached_property
    def offers(self) -> list[ModulePlan]:
        """Plans to choose from, starting with the one that needs the least memory. Each next one computes less."""
        return self.search.offers(self)

    def table(self) -> Table:
        rows: list[tuple[Any, ...]] = [(m.path, m.kind, m.nbytes, mib(m.nbytes), m.flops) for m in self.modules]
        notes = [
            f"The step needs {self.peak:,} B ({mib(self.peak)} MiB) instead of {self.plain_peak:,} B, which is "
            f"{1 - self.peak / self.plain_peak:.0%} less, for {100 * self.extra:.1f} % more FLOPs.",
            f"These modules were chosen one by one, because {self.why}.",
            *self.search.step.run().measured.notes,
        ]
        columns = ("module", "type", "saves, bytes", "MiB", "forward, FLOPs")
        return Table(f"checkpoint {len(rows)} modules", columns, rows, notes)


@dataclass
class ModuleSearch:
    """The modules of a step that may be checkpointed, and the sets of them that were measured."""

    step: WholeStep

    def __post_init__(self) -> None:
        self.seen: dict[frozenset[str], Measurement] = {frozenset(): self.step.run().measured}

    def within(self, budget: float, why: str) -> ModulePlan:
        """The set found that fits with the least to compute again. Raises NoPlanFits if none does."""
        first = ModulePlan([], budget, self.plain, self.plain, 0.0, why, self)
        if self.plain <= budget:
            return first
        fitting = [found for found in self._whole_cuts() if self.peak(found) <= budget]
        if not fitting:
            raise NoPlanFits(budget, min(measured.peak for measured in self.seen.values()))
        return self._plan(first, self._fewest(min(fitting, key=self._flops), budget))

    def offers(self, like: ModulePlan) -> list[ModulePlan]:
        found = {self.peak(cut): cut for cut in sorted(self._whole_cuts(), key=self._flops, reverse=True)}
        found[self.plain] = []
        plans = [self._plan(replace(like, budget=peak), found[peak]) for peak in sorted(found) if peak <= self.plain]
        return [plan for i, plan in enumerate(plans) if all(plan.extra < other.extra for other in plans[:i])]

    def least(self) -> int:
        """The fewest bytes that were measured with any set."""
        return min(map(self.peak, self._whole_cuts()), default=self.plain)

    @property
    def plain(self) -> int:
        return self.seen[frozenset()].peak

    def peak(self, modules: list[ModuleCost]) -> int:
        """Bytes of the whole step with checkpoints around these modules, measured."""
        paths = frozenset(module.path for module in modules)
        if paths not in self.seen:

            def install(model: nn.Module) -> None:
                CheckpointedModules([model.get_submodule(path) for path in sorted(paths)]).install()

            self.seen[paths] = self.step.measured(install)
        return self.seen[paths].peak

    def _plan(self, like: ModulePlan, modules: list[ModuleCost]) -> ModulePlan:
        again = self._flops(modules)
        extra = again / self.total_flops if self.total_flops else 0.0
        in_order = sorted(modules, key=lambda module: self.order[module.path])
        return replace(like, modules=in_order, peak=self.peak(modules), extra=extra)

    def _flops(self, modules: list[ModuleCost]) -> int:
        return sum(module.flops for module in modules)

    def _fewest(self, cut: list[ModuleCost], budget: float) -> list[ModuleCost]:
        """Leave out modules as long as the rest fits, at first those that save the least for what they compute."""
        ranked = sorted(cut, key=lambda module: module.flops / module.nbytes)
        low, high = 0, len(ranked)  # with `high` of them it fits
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.peak(ranked[:middle]) <= budget else (middle, high)
        return ranked[:high]

    def _whole_cuts(self) -> list[list[ModuleCost]]:
        cuts = {tuple(self._cut("", limit)): None for limit in self._limits()}
        return [list(cut) for cut in cuts if cut]

    def _limits(self) -> list[int]:
        most = max((module.nbytes for module in self.candidates.values()), default=0)
        return [most >> i for i in range(HALVINGS + 1)]

    def _cut(self, path: str, limit: int) -> list[ModuleCost]:
        """The largest candidates below a module that save no more than the limit; where there is none, the smallest."""
        own = self.candidates.get(path)
        if own is not None and own.nbytes <= limit:
            return [own]
        below = [part for child in self.children.get(path, []) for part in self._cut(child, limit)]
        return below or ([own] if own is not None else [])

    # ---- what the modules save and cost -----------------------------------------------------------------------------
    @cached_property
    def _looked_at(self) -> tuple[dict[str, ModuleCost], dict[str, list[str]], dict[str, int], int]:
        with self.step.as_measured():
            training = self.step.build()
            model = training.model
            calls = _watched(model, training.inputs)
            with Flops() as counted:
                training.passes()()
        saved = _saved_by_module(self.seen[frozenset()], {path for path, _ in model.named_modules()})
        paths = {path: module for path, module in model.named_modules() if path}
        children: dict[str, list[str]] = {}
        for path in paths:
            children.setdefault(path.rpartition(".")[0], []).append(path)
        found = {
            path: ModuleCost(path, type(paths[path]).__name__, saved[path], call.flops)
            for path, call in calls.items()
            if path and call.may_run_again and saved.get(path)
        }
        return found, children, {path: i for i, path in enumerate(calls)}, counted.total

    @property
    def candidates(self) -> dict[str, ModuleCost]:
        return self._looked_at[0]

    @property
    def children(self) -> dict[str, list[str]]:
        return self._looked_at[1]

    @property
    def order(self) -> dict[str, int]:
        return self._looked_at[2]

    @property
    def total_flops(self) -> int:
        return self._looked_at[3]


def _saved_by_module(measured: Measurement, paths: set[str]) -> dict[str, int]:
    """Bytes of activations of each module, with those below it, that are saved when backward begins."""
    saved: dict[str, int] = {}
    for path, nbytes in _saved_activations(measured):
        while path:
            if path in paths:
                saved[path] = saved.get(path, 0) + nbytes
            path = path.rpartition(".")[0]
    return saved


def _saved_activations(measured: Measurement) -> list[tuple[str, int]]:
    """The path of the module and the bytes of each activation that is saved when backward begins."""
    line = measured.timeline
    alive = line.alive(line.backward_begins - 1)
    return [(change.owner.module, change.nbytes) for change in alive if change.owner.category == "activation"]


@dataclass
class _Calls:
    """All calls of one module during one forward of the model."""

    flops: int = 0
    may_run_again: bool = True


def _watched(model: nn.Module, inputs: Any) -> dict[str, _Calls]:
    """Run the model's forward, and look at each module's calls. Buffers and random numbers are left as they are."""
    calls: dict[str, _Calls] = {}
    under_way: list[int] = []
    given: list[tuple[_Calls, Tensor, int]] = []  # what each call was given, and its version then

    def before(path: str) -> Callable:
        def hook(module: nn.Module, args: tuple, kwargs: dict) -> None:
            call = calls.setdefault(path, _Calls())
            given.extend((call, t, version(t)) for t in tensors_in([args, kwargs]))
            leaves = tree_leaves((args, kwargs))
            call.may_run_again &= not any(type(leaf).__name__.endswith("Cache") for leaf in leaves)
            under_way.append(counted.total)

        return hook

    def after(path: str) -> Callable:
        def hook(module: nn.Module, args: tuple, kwargs: dict, out: Any) -> None:
            calls[path].flops += counted.total - under_way.pop()
            calls[path].may_run_again &= any(t.requires_grad for t in tensors_in(out))

        return hook

    args, kwargs = call_of(inputs)
    with hooked(model, before, after), without_cache(model), Flops() as counted:
        model(*args, **kwargs)
    for call, t, written in given:
        call.may_run_again &= version(t) == written  # a module whose arguments were changed later cannot run again
    return calls


def saved_outside(step: WholeStep) -> float:
    """Which part of the activations is saved outside of the chains' blocks, in modules that have parts of their own?"""
    blocks = [f"{name}." for name in step.chains.names]
    saved = _saved_activations(step.run().measured)

    def could_be_checkpointed(path: str) -> bool:
        if any(f"{path}.".startswith(block) for block in blocks):
            return False
        above = list(accumulate(path.split("."), "{}.{}".format))[:-1]
        return any(not any(block.startswith(f"{name}.") for block in blocks) for name in above)

    return sum(n for path, n in saved if could_be_checkpointed(path)) / max(sum(n for _, n in saved), 1)


def plan_modules(step: WholeStep, budget: float = inf, why: str = "") -> ModulePlan:
    """The modules to checkpoint so that the step fits in the budget; `why` says why there is no plan of a chain."""
    search = ModuleSearch(step)
    if not search.candidates:
        raise NoModules(f"{why}. Nor can a single module be checkpointed, because none saves activations of its own")
    return search.within(budget, why)
