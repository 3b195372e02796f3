"""Which plan keeps a whole training step within a budget? Plan the chains for many budgets, measure steps, bisect."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import inf
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..cuda.allocator import CUDA_RULES, AllocatorRules
from ..cuda.gpus import Gpu
from ..cuda.op_choice.cuda_dispatch import as_cuda
from ..cuda.phantom import launch as phantom
from ..errors import CkptError
from ..recompute.op_costs import Flops
from ..remember.measurement import SIMULATED, Measurement, measure
from ..remember.move_to_device import Moved
from ..remember.user_models import Training
from ..torch_internals import FakeTensorMode
from .block_detection import Chain, Chains, find_chains
from .known_schedules import store_all
from .optimal_schedule import LEVELS, WORK, optimal, smallest_budget
from .optimal_schedule_table import BudgetTable
from .profile_stages import profile_stages
from .schedule import Schedule
from .scheduled_model import apply_schedule
from .stage_costs import Costs, after_all, between, joined, times

PLANS = 64  # the most plans to choose from, because bisection measures seven of them
OFFERS = 6  # plans that are run and shown if no budget is named


class Found(NamedTuple):
    """A schedule of the chains, or None for the unchanged model, and the measured step."""

    schedule: Schedule | None
    measured: Measurement

    @property
    def plan(self) -> Schedule:
        """The schedule, if the step was run by one."""
        assert self.schedule is not None
        return self.schedule

    @property
    def peak(self) -> int:
        return self.measured.peak


class NoPlanFits(CkptError):
    """No plan fits. The plan that needs the least memory needs `smallest` bytes."""

    def __init__(self, budget: float, smallest: int):
        text = f"no plan for this step fits in {budget:,} bytes. The smallest one needs {smallest:,} bytes, as measured"
        super().__init__(text)
        self.budget, self.smallest = budget, smallest


def own_update(training: Training) -> Callable[[], object]:
    return training.optimizer.step if training.optimizer else lambda: None


@dataclass
class WholeStep:
    """A training step that can be measured with and without a schedule.

    Every run calls `build` for a new model, so that the model can be fake. `update` returns the optimizer's part of the
    step, by default the step of the optimizer that was passed in, if any. `tick` is called after each run.
    """

    build: Callable[[], Training]
    device: str
    gpu: Gpu
    fake: bool = False
    rules: AllocatorRules = CUDA_RULES
    update: Callable[[Training], Callable[[], object]] = own_update
    tick: Callable[[], object] = lambda: None
    seen: dict[Schedule | None, Found] = field(default_factory=dict)

    def run(self, schedule: Schedule | None = None) -> Found:
        """Measure the step, run by the schedule or, without one, as the model runs it."""
        if schedule not in self.seen:
            chains = self.chains if schedule else None  # found in a separate run before the measured one

            def prepare(model: nn.Module) -> Callable[..., Any] | None:
                return apply_schedule(model, chains, schedule) if chains and schedule else None

            self.seen[schedule] = Found(schedule, self.measured(prepare))
        return self.seen[schedule]

    def measured(self, prepare: Callable[[nn.Module], Callable[..., Any] | None]) -> Measurement:
        """Measure the step once. `prepare` may change its model, and may return what is called in the model's place."""
        notes: list[str] = []

        def setup() -> Callable[[], None]:
            training = self.build()
            notes[:] = training.notes
            passes, update = training.passes(prepare(training.model)), self.update(training)

            def step() -> None:
                passes()
                update()

            return step

        gpu, rules = (self.gpu, self.rules) if self.device == SIMULATED else (None, None)
        found = measure(setup, self.device, fake=self.fake, builds=True, gpu=gpu, rules=rules)
        found.notes += notes
        self.tick()
        return found

    @cached_property
    def _looked_at(self) -> tuple[Chains, int]:
        """The chains, and the FLOPs of a plain step. The chains' blocks belong to a model that is used only here."""
        with self.as_measured():
            training = self.build()
            chains = find_chains(training.model, training.inputs)
            with Flops() as counted:
                training.passes()()
        self.tick()
        return chains, counted.total

    @cached_property
    def costs(self) -> Costs:
        """The costs of the stages of all chains."""
        return joined(self.rows)

    @cached_property
    def rows(self) -> list[Costs]:
        """The costs of each chain. One that runs several times counts as one run with as many times the costs."""
        found = []
        for chain in self.chains.rows:
            with self.as_measured(), self._on_accelerator(chain) as there:
                found.append(times(chain.runs, profile_stages(there, flops=self.unit == "FLOPs")))
        return found

    @cached_property
    def _with_the_rest(self) -> Costs:
        """The chains' costs, plus one more stage after each, for everything up to the next chain or up to the loss.

        Those stages are never recomputed, and their memory was measured. The gradients of parameters appear in a
        stage's backward and stay in memory, so they are counted with the gradient that flows back through the chain. If
        all times are 0, each forward counts as 1.
        """
        need, stays = self._after_the_chains()
        nothing_timed = self.costs.timed is not self.costs
        rows = [replace(row, ftime=[1] * row.n) if nothing_timed else row for row in self.rows]
        gaps = [self._stays_between(one, two) for one, two in pairwise(self.chains.rows)]
        added = [between(one, two, nbytes) for (one, two), nbytes in zip(pairwise(rows), gaps, strict=True)]
        added.append(after_all(rows[-1], need))
        costs = joined([costs for pair in zip(rows, added, strict=True) for costs in pair])
        own = [sum(p.nbytes for p in parameters(block) if p.requires_grad) for block in self.chains.blocks]
        for at in self._added[:-1]:
            own.insert(at, 0)
        more = [stays + sum(own[i:]) for i in range(costs.n)]
        dx = [*(nbytes + extra for nbytes, extra in zip(costs.dx, more, strict=False)), 0]
        return replace(costs, dx=dx, dy_at_start=False)

    @property
    def _added(self) -> list[int]:
        """The numbers of the stages that stand for what comes after each chain."""
        return [start + i for i, start in enumerate(self.chains.starts[1:])]

    def _stays_between(self, one: Chain, two: Chain) -> int:
        """Bytes that stay in memory between the forward of one chain and that of the next one, in a plain step."""
        line, where = self.run().measured.timeline, self._modules_of_changes
        ends = [i for i, module in enumerate(where) if module.startswith(f"{one.names[-1]}.")]
        begins = [i for i, module in enumerate(where) if module.startswith(f"{two.names[0]}.")]
        forward = [i for i in ends if line.changes[i].phase == "forward"]
        if not forward or not begins or begins[0] < forward[-1]:
            return 0
        return max(line.total(begins[0] - 1) - line.total(forward[-1]), 0)

    @cached_property
    def _modules_of_changes(self) -> list[str]:
        measured = self.run().measured
        ops = measured.trace.ops
        return [f"{ops[change.op].module}." if change.op >= 0 else "" for change in measured.timeline.changes]

    def _after_the_chains(self) -> tuple[int, int]:
        """(bytes needed between the chains' forward and their backward, the part that stays), in a plain step."""
        line, last, where = self.run().measured.timeline, self.chains.names[-1], self._modules_of_changes
        inside = [i for i, module in enumerate(where) if module.startswith(f"{last}.")]
        forward = [i for i in inside if line.changes[i].phase == "forward"]
        backward = [i for i in inside if line.changes[i].phase != "forward"]
        if not forward or not backward:
            return 0, 0
        end = next((i for i in range(forward[-1] + 1, backward[0]) if line.changes[i].op >= 0), backward[0])
        start, between = line.total(end - 1), line.totals[end : backward[0]].tolist()
        stays = line.total(backward[0] - 1) - start - self.costs.dx[-1]
        return max([0, *(total - start for total in between)]), max(stays, 0)

    @cached_property
    def frugal(self) -> Schedule:
        """The plan that needs the least memory, according to the costs."""
        costs = self._with_the_rest
        return self._of_the_chains(optimal(costs, smallest_budget(costs)))

    @cached_property
    def plans(self) -> list[Schedule]:
        """Plans in order, starting with the one that needs the least memory. Each next one is faster and needs more.

        All come from one table, for any budget. The table rounds sizes up, which does no harm, because the memory that
        a plan really needs is measured.
        """
        costs = self._with_the_rest
        room = store_all(costs.n).cost(costs).peak - costs.x[0]
        unit = max(room // max(LEVELS, int(WORK / costs.n**3)), 1)
        table = BudgetTable(costs, -(-room // unit), unit)
        slowest = self.frugal.cost(self.costs.timed).time
        best = accumulate(table.best[0, 0, costs.n - 1].tolist(), min, initial=slowest)
        faster = [level for level, (before, time) in enumerate(pairwise(best)) if time < before]
        some = faster[:: len(faster) // PLANS + 1]
        return [self.frugal, *(self._of_the_chains(table.schedule(level)) for level in some)]

    def _of_the_chains(self, schedule: Schedule) -> Schedule:
        """The schedule without the additional stages, which take no time."""
        own = {at: i for i, at in enumerate(i for i in range(schedule.n) if i not in self._added)}
        return Schedule(self.costs.n, [(kind, own[stage]) for kind, stage in schedule.actions if stage in own])

    @contextmanager
    def as_measured(self) -> Iterator[None]:
        """Use the ops of the device, and fake tensors if asked for, without recording anything."""
        fake = FakeTensorMode(allow_non_fake_inputs=True) if self.fake else nullcontext()
        with as_cuda(self.gpu) if self.device == SIMULATED else nullcontext(), fake:
            yield

    @contextmanager
    def _on_accelerator(self, chain: Chain) -> Iterator[Chain]:
        """The chain, moved to the device if that is one, and afterwards back, so that no step is measured beside it."""
        if self.device in ("cpu", SIMULATED):
            yield chain
            return
        there = torch.device("cuda" if phantom.is_phantom(self.device) else self.device)
        try:
            blocks, x, besides = Moved(there)((chain.blocks, chain.x, chain.besides))
            yield replace(chain, blocks=blocks, x=x, besides=besides)
        finally:
            Moved(torch.device("cpu"))(chain.blocks)

    @property
    def unit(self) -> str:
        """The unit of time. It is FLOPs if the clock of this machine says nothing about the device."""
        return "FLOPs" if self.fake or self.device == SIMULATED or phantom.running() else "s"

    @property
    def chains(self) -> Chains:
        return self._looked_at[0]

    @property
    def flops(self) -> int:
        """The FLOPs of a step that recomputes nothing."""
        return self._looked_at[1]

    def extra(self, schedule: Schedule) -> float:
        """The recomputed work, as a fraction of the chain's seconds or of the whole step's FLOPs."""
        plain = sum(self.costs.ftime) + sum(self.costs.btime)
        again = schedule.cost(self.costs).time - plain
        whole = max(self.flops, plain) if self.unit == "FLOPs" else plain
        return again / whole if whole else 0.0

    @cached_property
    def all_saved(self) -> Found:
        return Found(store_all(self.costs.n), self.run().measured)

    @cached_property
    def least(self) -> Found:
        """The step, run by the plan that needs the least memory."""
        return self.run(self.frugal)

    def within(self, nbytes: float) -> Found:
        """The fastest plan found whose whole step needs at most `nbytes` bytes.

        The plans are ordered by their planned memory, but what counts is the measured memory of the step, which need
        not have the same order. Still, a larger budget never gives a slower plan, because bisection starts from the
        same plan for every budget and turns to slower plans only if a plan does not fit.
        """
        if self.all_saved.peak <= nbytes:
            return self.all_saved
        fit = bisect_right(self.plans, nbytes, key=lambda plan: self.run(plan).peak)
        if not fit:
            raise NoPlanFits(nbytes, min(found.peak for found in self.seen.values()))
        return self.run(self.plans[fit - 1])

    def offers(self) -> list[Found]:
        """Some plans, from the one that needs the least memory to none. Each was run, and is faster than the last."""
        peaks = {plan: plan.cost(self.costs).peak for plan in self.plans}
        low, high = min(peaks.values()), self.all_saved.plan.cost(self.costs).peak
        marks = [low + (high - low) * i // (OFFERS - 1) for i in range(OFFERS - 1)]
        fastest = [[plan for plan in self.plans if peaks[plan] <= mark][-1] for mark in marks]

        def time(found: Found) -> float:
            return found.plan.cost(self.costs.timed).time

        found = sorted([*map(self.run, fastest), self.all_saved], key=lambda one: (one.peak, time(one)))
        best = accumulate(map(time, found), min, initial=inf)
        return [one for one, before in zip(found, best, strict=False) if time(one) < before]


def parameters(block: object) -> list[Tensor]:
    return list(block.parameters()) if isinstance(block, nn.Module) else []
