"""Which batch is the largest that fits? One strategy's need at any batch, and the search for the largest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ..errors import CkptError
from ..planning.optimal import BudgetTooSmall, optimal, smallest_budget
from .block_chain import Chain, Need
from .block_costs import KINDS
from .training_runs import Setting

STRATEGIES = ("none", "selective", "full", "planned")


@dataclass
class Question:
    """How one strategy trains within so many bytes, at any batch."""

    at: Setting | None  # None for a model of your own, whose steps are run (own_model.py)
    nbytes: int
    strategy: str
    tick: Callable[[], object] = lambda: None
    asked: dict[int, int] = field(default_factory=dict)  # batch -> the fewest bytes that it runs in

    def chain(self, batch: int, kind: str) -> Chain:
        self.tick()
        assert self.at is not None
        return Chain(replace(self.at, batch=batch), kind)

    def need(self, batch: int) -> Need:
        """Of the fastest way that fits; if none does, of the one that needs the least."""
        if self.strategy == "planned":
            return self._plan([self.chain(batch, kind) for kind in KINDS])
        if self.strategy == "full":
            return self.chain(batch, "none").each_again()
        return self.chain(batch, self.strategy).all_kept()

    def least(self, batch: int) -> int:
        """The bytes without which it does not run."""
        if batch not in self.asked:
            self.asked[batch] = self._least(batch)
        return self.asked[batch]

    def _least(self, batch: int) -> int:
        if self.strategy != "planned":
            return self.need(batch).nbytes
        chains = [self.chain(batch, kind) for kind in KINDS]
        least = min(*(chain.least for chain in chains), *(need.nbytes for need in _simple(chains)))
        # `chain.least` takes every block's backward at its dearest; the plan itself may need less.
        return least if least <= self.nbytes else min(least, self._plan(chains).nbytes)

    def _plan(self, chains: list[Chain]) -> Need:
        """The fastest schedule, with or without attention recomputed in every block.

        The simple strategies are among those looked at, so that no plan is worse than any of them.
        """
        found = [need for need in _simple(chains) if need.nbytes <= self.nbytes]
        for chain in sorted(chains, key=lambda chain: chain.fastest_possible(self.nbytes)):
            best = min((need.extra for need in found), default=float("inf"))
            if chain.fastest_possible(self.nbytes) < best:
                try:
                    found.append(chain.need(optimal(chain.costs, self.nbytes - chain.base)))
                except BudgetTooSmall:
                    continue
        if found:
            return min(found, key=lambda need: need.extra)
        frugal = min(chains, key=lambda chain: chain.least)
        found = [*_simple(chains), frugal.need(optimal(frugal.costs, smallest_budget(frugal.costs)))]
        return min(found, key=lambda need: need.nbytes)

    def largest(self) -> tuple[Need | None, Need]:
        """What the largest batch that fits needs, and the one after it."""
        batch = self.search()
        return (self.need(batch) if batch else None), self.need(batch + 1)

    def search(self) -> int:
        """The largest batch that fits; 0 if none does. Bytes are nearly a straight line in the batch, so that the line
        through the last two batches that were tried tells which to try next."""
        low, high, last, batch = 0, None, 2, 4  # low fits, high does not
        if self.least(last) > self.nbytes:
            return int(self.least(1) <= self.nbytes)
        while high is None or high - low > 1:
            if batch > self.nbytes:  # less than a byte each
                raise CkptError(f"batch {batch:,} fits as well: what the step needs does not grow with the batch")
            low, high = (batch, high) if self.least(batch) <= self.nbytes else (low, batch)
            guess = self._where_the_line_ends(last, batch)
            last, batch = batch, min(max(guess, low + 1), 8 * low if high is None else high - 1)
        return low

    def _where_the_line_ends(self, one: int, two: int) -> int:
        """The last batch that fits, or the one after it if that was tried already."""
        slope = (self.least(two) - self.least(one)) / (two - one)
        guess = int(two + (self.nbytes - self.least(two)) / slope) if slope > 0 else 2 * two
        return guess + (guess in self.asked)


def _simple(chains: list[Chain]) -> list[Need]:
    """What the strategies without a plan need: none, full and selective."""
    return [chains[0].all_kept(), chains[0].each_again(), *(chain.all_kept() for chain in chains[1:])]
