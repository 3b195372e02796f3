"""What does a model of equal blocks need? Bytes and FLOPs of any schedule of its blocks and its head.

All blocks are alike, so that three of them, measured once (three_block_run.py), tell about any number of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from ..models.formulas import attention_again_flops, forward_flops, head_flops
from ..planning.known_schedules import recompute_each, store_all
from ..planning.optimal_schedule import BudgetTooSmall, optimal, smallest_budget
from ..planning.schedule import BACKWARD, SAVE_ALL, Schedule, Step
from ..planning.stage_costs import Costs
from .fit_results import Need
from .largest_batch import Steps
from .peak_windows import Parts, together
from .three_block_run import KINDS, measured_block, optimizer
from .transformer_step import Setting


class BlockChain:
    """The model's blocks and head at one batch. Blocks of kind "selective" run attention again.

    Time is counted in the FLOPs of one sequence's matrix products; backward counts as twice forward.
    """

    def __init__(self, at: Setting, kind: str):
        self.at, self.kind, self.block, self.layers = at, kind, measured_block(at, kind), at.config.layers
        self.adamw = optimizer(at)
        again = attention_again_flops(at.config, fused=at.fused) if kind == "selective" else 0
        self.ftime = (forward_flops(at.config), head_flops(at.config))
        self.btime = (2 * self.ftime[0] + again, 2 * self.ftime[1])
        self.plain_time = 3 * (self.layers * self.ftime[0] + self.ftime[1])
        self.base = self.block.base + self.layers * self.block.parameters + self.adamw.state

    @cached_property
    def costs(self) -> Costs:
        """Used for planning. The largest need of a block's backward, whether or not the block was recomputed."""
        dearest = max(self.block.btmp, self.block.btmp_again)
        return self.block.costs(self.ftime, self.btime, [dearest] * self.layers)

    def exact(self, schedule: Schedule) -> Costs:
        """The moments of this schedule, which determines which blocks are recomputed."""
        times = schedule.forwards()[: self.layers]
        btmp = [self.block.btmp_again if n > 1 else self.block.btmp for n in times]
        return self.block.costs(self.ftime, self.btime, btmp)

    @cached_property
    def after(self) -> tuple[str, Parts]:
        """The fullest moment once the blocks are reversed, which is the same for all schedules that recompute some."""
        deeper, state = self.block.deeper, {**dict.fromkeys(self.block.done, 0), "optimizer": self.adamw.state}
        embedding = together(deeper(self.block.embedding, self.layers, True), state)
        update = together(deeper(self.block.done, self.layers, True), state, self.adamw.step)
        both = {"embedding's backward": embedding, "update": update}
        return max(both.items(), key=lambda pair: sum(pair[1].values()))

    @cached_property
    def least(self) -> int:
        """Bytes with which a schedule is found."""
        return max(self.base + smallest_budget(self.costs), sum(self.after[1].values()))

    def fastest_possible(self, nbytes: int) -> float:
        """The smallest fraction that a schedule within so many bytes can recompute.

        When the head runs, only so many blocks can have saved everything. Each of the others has saved its input at
        most, and runs again.
        """
        block, saved = self.block, nbytes - self.base - self.block.x - self.block.head_xbar - self.block.head_atmp
        blocks = min(max(saved // block.xbar, 0), self.layers)
        time = self.layers * (self.ftime[0] + self.btime[0]) + 3 * self.ftime[1]
        return (time + (self.layers - blocks) * self.ftime[0]) / self.plain_time - 1

    def all_saved(self) -> Need:
        return self.need(store_all(self.layers + 1))

    def each_again(self) -> Need:
        return self.need(recompute_each(self.layers + 1, self.layers))

    def need(self, schedule: Schedule) -> Need:
        cost = schedule.cost(self.exact(schedule))
        step = next(step for step in cost.steps if step.nbytes == cost.peak)
        window, parts = self.after
        if max(schedule.forwards()[: self.layers]) == 1:
            parts = {**parts, "temporary": parts["temporary"] - self.block.again}
        if self.base + cost.peak > sum(parts.values()):
            window, parts = self._window(step), self._parts(step, schedule, cost.steps)
        extra = cost.time / self.plain_time - 1
        return Need(self.at.batch, window, parts, extra, schedule, self.kind == "selective")

    def _window(self, step: Step) -> str:
        kind, stage = step.action
        way = "backward" if kind == BACKWARD else "recomputed forward" if step.again else "forward"
        return f"{way} of the head" if stage == self.layers else f"{way} of block {stage}"

    def _parts(self, step: Step, schedule: Schedule, steps: list[Step]) -> Parts:
        """The parts at the same moment of the three-block run, and what a deeper model adds to them: parameters, the
        optimizer's state, gradients of the blocks that were reversed before, and, for the rest, saved activations."""
        (kind, stage), block = step.action, self.block
        recomputed = schedule.forwards()[stage] > 1
        name = {SAVE_ALL: "forward 2", BACKWARD: "backward 1" if recomputed else "backward 2"}.get(kind, "forward 1")
        if stage == self.layers:
            name = "head's backward" if kind == BACKWARD else "head"
        parts = block.deeper(block.fullest[name], self.layers, False)
        parts["optimizer"] += self.adamw.state
        before = [s.action.stage for s in steps[: steps.index(step)] if s.action.kind == BACKWARD]
        reversed_there = 1 if name == "backward 1" else 0
        parts["gradients"] += (max(len(before) - 1, 0) - reversed_there) * block.parameters
        if before and kind != BACKWARD:
            parts["gradients"] += block.head_gradients
            parts["temporary"] += block.gradient - block.head_gradients
        parts["activations"] += self.base + step.nbytes - sum(parts.values())
        return parts


class EqualBlocks(Steps):
    """The training step of a named model, AdamW's part included. `tick` is called for each batch that is looked at."""

    def __init__(self, at: Setting, tick: Callable[[], object] = lambda: None):
        self.at, self.tick = at, tick

    def need(self, batch: int, strategy: str, nbytes: int) -> Need:
        if strategy == "planned":
            return self._planned(self._chains(batch), nbytes)
        if strategy == "full":
            return self._chain(batch, "none").each_again()
        return self._chain(batch, strategy).all_saved()

    def least(self, batch: int, strategy: str, nbytes: int) -> int:
        if strategy != "planned":
            return self.need(batch, strategy, nbytes).nbytes
        chains = self._chains(batch)
        least = min(*(chain.least for chain in chains), *(need.nbytes for need in _simple(chains)))
        # `chain.least` uses the largest need of every block's backward, so the plan itself may need less.
        return least if least <= nbytes else min(least, self._planned(chains, nbytes).nbytes)

    def _chain(self, batch: int, kind: str) -> BlockChain:
        self.tick()
        return BlockChain(replace(self.at, batch=batch), kind)

    def _chains(self, batch: int) -> list[BlockChain]:
        return [self._chain(batch, kind) for kind in KINDS]

    def _planned(self, chains: list[BlockChain], nbytes: int) -> Need:
        """The fastest schedule, with or without attention recomputed in every block.

        The simple strategies are among those looked at, so that no plan is worse than any of them.
        """
        found = [need for need in _simple(chains) if need.nbytes <= nbytes]
        for chain in sorted(chains, key=lambda chain: chain.fastest_possible(nbytes)):
            best = min((need.extra for need in found), default=float("inf"))
            if chain.fastest_possible(nbytes) < best:
                try:
                    found.append(chain.need(optimal(chain.costs, nbytes - chain.base)))
                except BudgetTooSmall:
                    continue
        if found:
            return min(found, key=lambda need: need.extra)
        frugal = min(chains, key=lambda chain: chain.least)
        found = [*_simple(chains), frugal.need(optimal(frugal.costs, smallest_budget(frugal.costs)))]
        return min(found, key=lambda need: need.nbytes)


def _simple(chains: list[BlockChain]) -> list[Need]:
    """The needs of the strategies without a plan, which are none, full and selective."""
    return [chains[0].all_saved(), chains[0].each_again(), *(chain.all_saved() for chain in chains[1:])]
