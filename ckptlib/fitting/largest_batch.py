"""Which batch is the largest that fits? One strategy's need at any batch, and the search for the largest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..errors import CkptError
from .fit_results import Fit, Need

STRATEGIES = ("none", "selective", "full", "planned")


class Steps(ABC):
    """The training step of one model, at any batch. Its subclasses differ in how they learn what the step needs."""

    strategies: tuple[str, ...] = STRATEGIES
    notes: tuple[str, ...] = ()  # what is different from the model as it was handed in

    @abstractmethod
    def need(self, batch: int, strategy: str, nbytes: int) -> Need:
        """The need of the fastest way that fits in so many bytes. If none fits, the need of the smallest."""

    @abstractmethod
    def least(self, batch: int, strategy: str, nbytes: int) -> int:
        """The bytes without which the step does not run. Above `nbytes`, an estimate from above will do."""

    def possible(self, strategies: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Those of the strategies that this model can be trained with, and notes about that."""
        return strategies, ()

    def confirmed(self, answers: Iterable[Fit]) -> bool:
        """Whether the answers are right. If they are not, asking again gives the right ones."""
        return True


@dataclass
class FitQuestion:
    """How one strategy trains within so many bytes, at any batch."""

    steps: Steps
    nbytes: int
    strategy: str
    asked: dict[int, int] = field(default_factory=dict)  # batch -> the fewest bytes that it runs in

    def need(self, batch: int) -> Need:
        return self.steps.need(batch, self.strategy, self.nbytes)

    def least(self, batch: int) -> int:
        if batch not in self.asked:
            self.asked[batch] = self.steps.least(batch, self.strategy, self.nbytes)
        return self.asked[batch]

    def largest(self) -> tuple[Need | None, Need]:
        """What the largest batch that fits needs, and the one after it."""
        batch = self.search()
        return (self.need(batch) if batch else None), self.need(batch + 1)

    def search(self) -> int:
        """The largest batch that fits, or 0 if none does. Bytes are nearly a straight line in the batch, so the line
        through the last two batches that were tried shows which one to try next."""
        for batch in (1, 2):  # of a model too large for the GPU, no batch but 1 is ever run
            if self.least(batch) > self.nbytes:
                return batch - 1
        low, high, last, batch = 0, None, 2, 4  # low fits, high does not
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
