"""What should this model recompute, to train fastest in so much memory? Profile, plan, a module ready to train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor, nn

from ..errors import CkptError
from .chains import Chain, find_chain, given
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


def plan(model: nn.Module | Sequence[Callable], x: Tensor, budget: int, costs: Costs | None = None) -> Plan:
    """The fastest way to train `model` on inputs like x with at most `budget` bytes for its chain.

    The chain is an `nn.Sequential`, a list of stages, or the model's repeated blocks. Counted are its input, all that
    is kept, the current stage's input, output and temporaries, and the gradient that travels back. Not counted are
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
        self.schedule, self.path = schedule, chain.path
        self._runner = (_ChainRunner(schedule, chain.blocks),)  # in a tuple: its stages are registered above already

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not self.path:
            return self._runner[0](x, *args, **kwargs)
        parent, _, name = self.path.rpartition(".")
        holder = self.model.get_submodule(parent)
        blocks = holder._modules[name]
        # The model finds as many blocks as before: the first runs the whole chain, the others pass it on.
        stand_in = [self._runner[0], *(_PassOn() for _ in range(self.schedule.n - 1))]
        holder._modules[name] = (
            nn.Sequential(*stand_in) if isinstance(blocks, nn.Sequential) else nn.ModuleList(stand_in)
        )
        try:
            return self.model(x, *args, **kwargs)
        finally:
            holder._modules[name] = blocks


class _ChainRunner(nn.Module):
    def __init__(self, schedule: Schedule, blocks: Sequence[Callable[..., Tensor]]):
        super().__init__()
        self.schedule, self.blocks = schedule, tuple(blocks)  # a tuple of modules is not registered

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return execute(self.schedule, given(self.blocks, args, kwargs), x)


class _PassOn(nn.Module):
    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return x
