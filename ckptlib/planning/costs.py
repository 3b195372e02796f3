"""What does each stage of a chain cost? Seconds and bytes, stage by stage, in one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from math import inf
from numbers import Integral, Real
from typing import Any

from ..errors import CkptError

_AS_COMPUTED: Any = None  # stands for a value that `__post_init__` fills in, so that no field is ever None
TOO_LARGE = 2**53  # bytes: for exact sums, and for any memory. Times may be FLOPs, and more


@dataclass(frozen=True)
class Costs:
    """The price list of a chain of n stages: stage i reads x[i] and writes x[i+1].

    ftime, btime      n numbers: time of one forward, of one backward
    x                 n + 1 byte counts: the chain's input, then every stage's output
    xbar              n byte counts: all that stage i keeps if it keeps everything, its output included, its input not
    dx                n + 1 byte counts of the gradients; as large as x unless given
    ftmp, btmp        n byte counts: alive only while that forward, that backward runs; 0 unless given
    atmp              the same for a forward that keeps everything: less is temporary then; as ftmp unless given
    saves_x, saves_y  n truths: whether stage i, keeping everything, holds on to its input, to its output; true unless
                      given. A value that neither the stage before nor the one after saves is freed when it was read
    dy_at_start       whether dx[n], the gradient of the chain's output, is in memory from the start, as if the caller
                      held it (rotor's rule); if not, it comes about when backward begins, as it does after a loss
    """

    ftime: Sequence[float]
    btime: Sequence[float]
    x: Sequence[int]
    xbar: Sequence[int]
    dx: Sequence[int] = _AS_COMPUTED
    ftmp: Sequence[int] = _AS_COMPUTED
    btmp: Sequence[int] = _AS_COMPUTED
    atmp: Sequence[int] = _AS_COMPUTED
    saves_x: Sequence[bool] = _AS_COMPUTED
    saves_y: Sequence[bool] = _AS_COMPUTED
    dy_at_start: bool = True

    def __post_init__(self) -> None:
        n = len(self.ftime)
        if n == 0:
            raise CkptError("ftime is empty: a chain has at least one stage")
        defaults = {"dx": self.x, "ftmp": [0] * n, "btmp": [0] * n, "atmp": [0] * n if self.ftmp is None else self.ftmp}
        defaults |= {"saves_x": [True] * n, "saves_y": [True] * n}
        for name in (field.name for field in fields(self) if field.name != "dy_at_start"):
            given = getattr(self, name)
            values = tuple(defaults[name] if given is None else given)
            expected = n + 1 if name in ("x", "dx") else n
            if len(values) != expected:
                hint = " (the input of stage 0 first, then every stage's output)" if name in ("x", "dx") else ""
                raise CkptError(f"{name} has {len(values)} entries for {n} stages, expected {expected}{hint}")
            truths = name.startswith("saves")
            checked = map(bool, values) if truths else _numbers(name, values, whole=not name.endswith("time"))
            object.__setattr__(self, name, tuple(checked))

    @property
    def n(self) -> int:
        return len(self.ftime)

    @property
    def timed(self) -> Costs:
        """These costs; but if all times are 0, each forward takes 1: that of the plans which tie, fewer forwards win.

        Counted in FLOPs, which are those of matrix products, a chain of tanh takes 0.
        """
        return self if any(self.ftime) or any(self.btime) else replace(self, ftime=[1] * self.n)

    @classmethod
    def unit(cls, n: int) -> Costs:
        """Every forward and backward takes 1, every activation is 1 byte, gradients are free: the literature's unit.

        A peak in this unit is a number of activations, such as Chen's k + n/k.
        """
        if n < 1:
            raise CkptError(f"n is {n}: a chain has at least one stage")
        return cls([1] * n, [1] * n, [1] * (n + 1), [1] * n, dx=[0] * (n + 1))


def _numbers(name: str, values: tuple, whole: bool) -> Iterator[int | float]:
    """The values as Python's own numbers, which do not overflow as NumPy's do."""
    for i, value in enumerate(values):
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not number or not 0 <= value < (TOO_LARGE if whole else inf) or (whole and value != int(value)):
            kind = "a whole number of bytes" if whole else "a number"
            raise CkptError(f"{name}[{i}] is {value!r}, expected {kind}, 0 or more")
        yield int(value) if isinstance(value, Integral) else float(value)
