"""Where do a probe's inputs come from? From one seed, which is secret and different for each student."""

from __future__ import annotations

import hashlib
import hmac
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


class Given:
    """The inputs of a probe, all from one seed. Draw in a fixed order: the kernel and the grader must draw the same.

    >>> Given(7).integer(1, 6) == Given(7).integer(1, 6)
    True
    """

    def __init__(self, seed: int, made: Sequence[Any] | None = None):
        """made: what `library` has made for this seed elsewhere."""
        self.made: list[Any] = []
        self._made = made
        self._random = random.Random(seed)
        self._generator = torch.Generator().manual_seed(seed % 2**63)

    def integer(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return self._random.randint(low, high)

    def choice(self, options: Sequence[T]) -> T:
        return self._random.choice(list(options))

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """A tensor of standard normal numbers. The dtype is named, because an answer may have changed the default."""
        return torch.randn(shape, generator=self._generator, dtype=torch.float64, device="cpu").to(dtype)

    def uniform(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.rand(shape, generator=self._generator, dtype=torch.float64, device="cpu").to(dtype)

    def library(self, make: Callable[[], Any]) -> Any:
        """Plain data that `make` computes with code that answers are to replace: their kernel may not have that code.

        Then the grader has computed it, for the same inputs. It is drawn like them: in a fixed order.
        """
        self.made.append(make() if self._made is None else self._made[len(self.made)])
        return self.made[-1]

    def seeded(self) -> None:
        """Seed torch's own random numbers, for a model's weights."""
        torch.manual_seed(self._random.getrandbits(62))


def secret_seed(course_secret: bytes, assignment: str, student: str, task: str, case: int) -> int:
    """The seed of one case for one student. Nobody can compute it without the course's secret."""
    text = "\0".join([assignment, student, task, str(case)])
    keyed = hmac.digest(course_secret, text.encode(errors="surrogateescape"), hashlib.sha256)
    return int.from_bytes(keyed[:7], "big")
