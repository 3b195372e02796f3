"""What should this model recompute, to train fastest in so much memory? Profile, plan, a module ready to train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor, nn

from ..errors import CkptError
from .chains import Chain, Given, find_chain, given
from .costs import Costs
from .execute import execute
from .optimal import LEVELS, optimal, pareto
from .profile import profile_stages
from .schedule import Schedule


@dataclass
class Plan:
    """The fastest schedule within the budget. All bytes are the chain's: see `plan`."""

    schedule: Schedule
    costs: Costs
    budget: int
    module: nn.Module = field(repr=False)  # trains as the model does, within the budget

    @property
    def peak(self) -> int:
        return self.schedule.cost(self.costs).peak

    @property
    def time(self) -> float:
        """Seconds of one training step's forwards and backwards, as profiled."""
        return self.schedule.cost(self.costs).time

    @property
    def slowdown(self) -> float:
        """Time over the time of a step that recomputes nothing."""
        return self.time / (sum(self.costs.ftime) + sum(self.costs.btime))

    @cached_property
    def pareto(self) -> list[tuple[int, float]]:
        """(budget, time): every budget at which the plan gets faster."""
        return pareto(self.costs)


def plan(model: nn.Module | Sequence[Callable], x: Any, budget: int, costs: Costs | None = None) -> Plan:
    """The fastest way to train `model` on inputs like x with at most `budget` bytes for its chain.

    x is what the model is called with: a tensor, a tuple of arguments, or a dict of named ones. The chain is an
    `nn.Sequential`, a list of stages, or the model's repeated blocks, wherever they are. Counted are its input, all
    that is kept, the current stage's input, output and temporaries, and the gradient that travels back. Not counted are
    parameters and their gradients, what the model does outside its blocks, and the random numbers' state and buffers
    that a stage needs to run again as it first ran. `costs` saves profiling again. A budget that cannot be met raises
    `BudgetTooSmall`, which knows the smallest that can.
    """
    chain = find_chain(model, x)
    costs = profile_stages(chain) if costs is None else costs
    if costs.n != len(chain.blocks):
        raise CkptError(f"the costs are of {costs.n} stages, the chain has {len(chain.blocks)}")
    schedule = optimal(costs, budget, LEVELS)
    return Plan(schedule, costs, budget, Planned(model, chain, schedule))


class Planned(nn.Module):
    """The model, its chain run by a schedule. It shares the model's parameters, and leaves the model as it is."""

    def __init__(self, model: nn.Module | Sequence[Callable], chain: Chain, schedule: Schedule):
        super().__init__()
        is_list = not isinstance(model, nn.Module)
        self.model = nn.ModuleList(s for s in model if isinstance(s, nn.Module)) if is_list else model
        self.schedule, self.paths = schedule, chain.paths
        self._blocks = tuple(chain.blocks)  # a tuple of modules is not registered: they are, above
        places = {block: [] for block in self._blocks} if self.paths else {}
        for holder in model.modules() if places else ():
            for name, child in holder._modules.items():
                if child in places:
                    places[child].append((holder, name))
        self._places = tuple(places.items())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if not self.paths:
            return execute(self.schedule, self._blocks, *args, **kwargs)
        row = _Row(self.schedule, self._blocks, self.paths)
        for i, (block, places) in enumerate(self._places):
            for holder, name in places:
                holder._modules[name] = _StandIn(block, row, i)
        try:
            return self.model(*args, **kwargs)
        finally:
            for block, places in self._places:
                for holder, name in places:
                    holder._modules[name] = block


class _Row:
    """The blocks' arguments, as the model gives them one after the other. When the last are known, the chain runs."""

    def __init__(self, schedule: Schedule, blocks: Sequence[Callable[..., Tensor]], paths: Sequence[str]):
        self.schedule, self.blocks, self.paths = schedule, blocks, paths
        self.x: Tensor | None = None
        self.besides: list[Given] = []

    def take(self, i: int, x: Tensor, args: tuple, kwargs: dict) -> Tensor:
        if i != len(self.besides) or (i and x is not self.x):
            raise CkptError(
                f"{self.paths[i]} is not called as it was when the chain was looked for, with what the block before "
                "it returned. Does the model skip blocks, or run others for other inputs?"
            )
        self.x = x
        self.besides.append((args, kwargs))
        if len(self.besides) < len(self.blocks):
            return x  # nobody but the next block looks at it
        return execute(self.schedule, given(self.blocks, self.besides), x)


class _StandIn(nn.Module):
    """In a block's place while the model runs. The model may still look at the block's own attributes."""

    def __init__(self, block: nn.Module, row: _Row, number: int):
        super().__init__()
        self._own = (block, row, number)  # in a tuple: not registered

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        _, row, number = self._own
        return row.take(number, x, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_own"][0], name)
