"""How long does each part of a chain take, for every amount of memory? The planner's table, all amounts at once."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np

from .costs import Costs
from .schedule import BACKWARD, FORWARD, KEEP_ALL, KEEP_INPUT, RESTORE, Action, Schedule


class Needs:
    """The chain's sizes in whole units, rounded up, and the memory that each first choice takes at once."""

    def __init__(self, costs: Costs, unit: int = 1):
        x, xbar, dx, ftmp, btmp, atmp = (
            np.array(getattr(costs, name), dtype=np.int64) for name in ("x", "xbar", "dx", "ftmp", "btmp", "atmp")
        )
        self.n, self._unit, self._dx = costs.n, unit, dx
        self.x, self.xbar = self._up(x).tolist(), self._up(xbar).tolist()
        self._backward = xbar + dx[1:] + btmp
        self._keep = xbar + atmp
        self._first = x[1:] + ftmp  # its input is there already, and counted
        self._later = x[:-1] + x[1:] + ftmp

    def of(self, s: int, t: int) -> np.ndarray:
        """Row 0: keep all of s; row i: run forward from s up to a checkpoint at s + i."""
        gradient = self._dx[t + 1] if t < self.n - 1 else 0
        need = self._later[s - 1 : t].copy() if s else np.append(0, self._later[:t])
        need[0] = 0
        need[1:2] = self._first[s]
        need = np.maximum.accumulate(need) + gradient
        need[0] = max(self._backward[s], self._keep[s] + gradient)
        return self._up(need)

    def _up(self, sizes: np.ndarray) -> np.ndarray:
        return -(-sizes // self._unit)


class Table:
    """best(s, t, m) for every m = 0, 1, ... `levels` units at once, as rows of numpy arrays."""

    def __init__(self, costs: Costs, levels: int, unit: int = 1):
        self.need = Needs(costs, unit)
        n, self.costs = costs.n, costs
        self.levels = levels
        self.clock = np.concatenate([[0.0], np.cumsum(costs.ftime)])
        self.best = np.full((n, n, levels + 1), inf)  # [s, t, m]
        self._shifted = np.full((n, n, levels + 1), inf)  # [t, s, m]: best(s, t, m - x[s])
        for length in range(n):
            for s in range(n - length):
                t = s + length
                self.best[s, t] = self._solve(s, t)
                self._shift(self.best[s, t], self.need.x[s], self._shifted[t, s])

    def _solve(self, s: int, t: int) -> np.ndarray:
        """The least time over all first choices, a row each: keep all of s, then a checkpoint at s+1, ... t."""
        rows = np.empty((t - s + 1, self.levels + 1))
        rows[0] = inf
        here = self.costs.ftime[s] + self.costs.btime[s]
        if s == t:
            rows[0] = here
        else:
            self._shift(self.best[s + 1, t] + here, self.need.xbar[s], rows[0])
            np.add(self._shifted[t, s + 1 : t + 1], self.best[s, s:t], out=rows[1:])
            rows[1:] += (self.clock[s + 1 : t + 1] - self.clock[s])[:, None]
        for row, need in zip(rows, self.need.of(s, t).tolist(), strict=True):
            row[:need] = inf
        return rows.min(axis=0)

    def choose(self, s: int, t: int, m: int) -> int:
        """The first choice that best(s, t, m) stands for: 0 keeps all of s, i > 0 puts a checkpoint at s + i."""
        here, after = self.costs.ftime[s] + self.costs.btime[s], m - self.need.xbar[s]
        keep = 0 if s == t else self.best[s + 1, t, after] if after >= 0 else inf
        checkpoint = self._shifted[t, s + 1 : t + 1, m] + self.best[s, s:t, m] + self.clock[s + 1 : t + 1]
        column = np.append(here + keep, checkpoint - self.clock[s])
        column[m < self.need.of(s, t)] = inf
        return int(column.argmin())

    def time(self, m: int) -> float:
        return self.best[0, self.costs.n - 1, m]

    def schedule(self, m: int) -> Schedule:
        return Schedule(self.costs.n, walk_choices(self.costs, self.choose, m, self.need))

    @staticmethod
    def _shift(row: np.ndarray, by: int, out: np.ndarray) -> None:
        if by < len(row):
            out[by:] = row[: len(row) - by]


def walk_choices(
    costs: Costs, choose: Callable[[int, int, int], int], m: int, need: Needs | None = None
) -> list[Action]:
    """The actions that the choices lead to: 0 keeps all of s, i > 0 puts a checkpoint at s + i."""
    need = need or Needs(costs)

    def walk(s: int, t: int, m: int) -> list[Action]:
        later: list[list[Action]] = []  # reversed after what is to the right
        actions = []
        while True:
            choice = choose(s, t, m)
            if choice == 0:
                actions.append(Action(KEEP_ALL, s))
                later.append([Action(BACKWARD, s)])
                m -= need.xbar[s]
                s += 1
            else:
                u = s + choice
                actions += [Action(KEEP_INPUT, s), *(Action(FORWARD, j) for j in range(s + 1, u))]
                later.append([Action(RESTORE, s), *walk(s, u - 1, m)])
                m -= need.x[u]
                s = u
            if s > t:
                return actions + [action for part in reversed(later) for action in part]

    return walk(0, costs.n - 1, m)
