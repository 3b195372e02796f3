"""What does each stage of a chain cost? Seconds and bytes, stage by stage, in one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from math import inf
from numbers import Integral, Real
from typing import Any

from ..errors import CkptError

_AS_COMPUTED: Any = None  # stands for a value that `__post_init__` fills in, so that no field is ever None
TOO_LARGE = 2**53  # bytes: no memory is as large, and sums stay exact below it. Times may be larger, as FLOPs


@dataclass(frozen=True)
class Costs:
    """The price list of a chain of n stages: stage i reads x[i] and writes x[i+1].

    ftime, btime      n numbers: the time of each forward and of each backward
    x                 n + 1 byte counts: the chain's input, then every stage's output
    xbar              n byte counts: what stage i saves if it saves everything, including its output but not its input
    dx                n + 1 byte counts of the gradients; by default the same as x
    ftmp, btmp        n byte counts: memory that is in use only while that forward or backward runs; by default 0
    atmp              the same for a forward that saves everything, where less is temporary; by default the same as ftmp
    saves_x, saves_y  n booleans: whether stage i, when it saves everything, saves its input and its output; by default
                      True. A value that neither the stage before nor the stage after it saves is freed after use
    once              n booleans: whether stage i may not run again, so that no checkpoint reaches across it; by default
                      False. Between two chains of one model, for example, there is work that no schedule repeats
    dy_at_start       whether dx[n], the gradient of the chain's output, is in memory from the start, as if the caller
                      held it (rotor's rule); if not, it is created when backward begins, as it is after a loss
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
    once: Sequence[bool] = _AS_COMPUTED
    dy_at_start: bool = True

    def __post_init__(self) -> None:
        n = len(self.ftime)
        if n == 0:
            raise CkptError("ftime is empty, but a chain has at least one stage")
        defaults = {"dx": self.x, "ftmp": [0] * n, "btmp": [0] * n, "atmp": [0] * n if self.ftmp is None else self.ftmp}
        defaults |= {"saves_x": [True] * n, "saves_y": [True] * n, "once": [False] * n}
        for name in (field.name for field in fields(self) if field.name != "dy_at_start"):
            given = getattr(self, name)
            values = tuple(defaults[name] if given is None else given)
            expected = n + 1 if name in ("x", "dx") else n
            if len(values) != expected:
                hint = " (the input of stage 0 first, then every stage's output)" if name in ("x", "dx") else ""
                raise CkptError(f"{name} has {len(values)} entries for {n} stages, expected {expected}{hint}")
            booleans = name.startswith("saves") or name == "once"
            checked = map(bool, values) if booleans else _numbers(name, values, whole=not name.endswith("time"))
            object.__setattr__(self, name, tuple(checked))

    @property
    def n(self) -> int:
        return len(self.ftime)

    @property
    def timed(self) -> Costs:
        """These costs, except that each forward takes 1 if all times are 0, so that the plan with fewer forwards wins.

        A chain of tanh takes 0 FLOPs, for example, because only matrix products are counted.
        """
        return self if any(self.ftime) or any(self.btime) else replace(self, ftime=[1] * self.n)

    @classmethod
    def unit(cls, n: int) -> Costs:
        """The unit costs of the literature: each forward and backward takes 1, an activation 1 byte, a gradient 0.

        A peak in this unit is a number of activations, such as Chen's k + n/k.
        """
        if n < 1:
            raise CkptError(f"n is {n}, but a chain has at least one stage")
        return cls([1] * n, [1] * n, [1] * (n + 1), [1] * n, dx=[0] * (n + 1))


# ---- several chains of one model ------------------------------------------------------------------------------------
BY_STAGE = ("ftime", "btime", "xbar", "ftmp", "btmp", "atmp", "saves_x", "saves_y", "once")
BY_VALUE = ("x", "dx")  # n + 1 of them


def joined(rows: Sequence[Costs]) -> Costs:
    """Chains as one chain. Where one ends, the value is the input of the next one."""
    of_stages = {name: [value for row in rows for value in getattr(row, name)] for name in BY_STAGE}
    of_values = {name: [value for row in rows for value in getattr(row, name)[: row.n]] for name in BY_VALUE}
    for name, values in of_values.items():
        values.append(getattr(rows[-1], name)[-1])
    return Costs(**of_stages, **of_values, dy_at_start=rows[-1].dy_at_start)


def times(runs: int, costs: Costs) -> Costs:
    """A chain that runs several times in one step, by the same schedule. Only what is temporary is needed once."""
    if runs == 1:
        return costs
    ftime, btime = ([runs * time for time in of_stages] for of_stages in (costs.ftime, costs.btime))
    return replace(costs, ftime=ftime, btime=btime, x=[runs * n for n in costs.x], xbar=[runs * n for n in costs.xbar])


def between(one: Costs, two: Costs, nbytes: int) -> Costs:
    """A stage for the work between two chains, which keeps so many bytes and never runs again."""
    x, dx = [one.x[-1], two.x[0]], [one.dx[-1], two.dx[0]]
    return Costs([0], [0], x, [max(nbytes, x[1])], dx, once=[True], dy_at_start=False)


def after_all(last: Costs, nbytes: int) -> Costs:
    """A stage for the work after the last chain, which needs so many bytes for a moment."""
    return Costs([0], [0], [last.x[-1], 0], [0], [last.dx[-1], 0], [nbytes], [nbytes], dy_at_start=False)


def _numbers(name: str, values: tuple, whole: bool) -> Iterator[int | float]:
    """The values as Python's own numbers, which do not overflow as NumPy's do."""
    for i, value in enumerate(values):
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not number or not 0 <= value < (TOO_LARGE if whole else inf) or (whole and value != int(value)):
            kind = "a whole number of bytes" if whole else "a number"
            raise CkptError(f"{name}[{i}] is {value!r}, expected {kind}, 0 or more")
        yield int(value) if isinstance(value, Integral) else float(value)
