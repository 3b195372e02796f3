"""How long does each part of a chain take, for every amount of memory? The table that the planner reads."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
from tqdm.auto import tqdm

from .schedule import BACKWARD, FORWARD, RESTORE, SAVE_ALL, SAVE_INPUT, Action, Schedule
from .stage_costs import TOO_LARGE, Costs


class Needs:
    """The chain's sizes in whole units, rounded up, and the memory that each first choice takes at once.

    `input_saved` says whether stage s - 1 saves the input of s, as its own output. That matters only if stage s, when
    it saves everything, would otherwise free its input. `after[s - 1]` is 1 for those stages and 0 for all others.
    """

    def __init__(self, costs: Costs, unit: int = 1):
        x, xbar, dx, ftmp, btmp, atmp = (
            np.array(getattr(costs, name), dtype=np.int64) for name in ("x", "xbar", "dx", "ftmp", "btmp", "atmp")
        )
        freed = x[:-1] * ~np.array(costs.saves_x, dtype=bool)
        freed[0] = 0  # the chain's input belongs to the caller
        saves_y = np.array(costs.saves_y, dtype=bool)
        self._unit, self._gradient = unit, dx.copy()  # while stages s..t run forward, [t + 1] is in memory
        self._gradient[costs.n] *= costs.dy_at_start
        self.x = self._up(x).tolist()
        self.after = [int(gain > 0 and saves) for gain, saves in zip(freed[1:], saves_y[:-1], strict=True)] + [0]
        self.saved = [self._up(xbar - freed).tolist(), self._up(xbar).tolist()]  # [input_saved][s]: by saving all of s
        backward = xbar - x[1:] * ~saves_y + dx[1:] + btmp
        self._backward = [backward - freed, backward]
        self._saving_all = xbar + atmp
        self._first = x[1:] + ftmp  # the input is in memory already, and counted
        self._later = x[:-1] + x[1:] + ftmp
        self._once = np.flatnonzero(costs.once)  # no checkpoint reaches across these

    def of(self, s: int, t: int, input_saved: int) -> np.ndarray:
        """Row 0: save all of s; row i: run forward from s up to a checkpoint at s + i."""
        gradient = self._gradient[t + 1]
        need = self._later[s - 1 : t].copy() if s else np.append(0, self._later[:t])
        need[0] = 0
        need[1:2] = self._first[s]
        need = np.maximum.accumulate(need) + gradient
        need[0] = max(self._backward[input_saved][s], self._saving_all[s] + gradient)
        for first in self._once[np.searchsorted(self._once, s) :][:1]:
            need[first - s + 1 :] = TOO_LARGE
        return self._up(need)

    def contexts(self, s: int) -> range:
        """The values of `input_saved` that make a difference for stage s."""
        return range(2 if s and self.after[s - 1] else 1)

    def _up(self, sizes: np.ndarray) -> np.ndarray:
        return -(-sizes // self._unit)


class BudgetTable:
    """best(s, t, m) for every m = 0, 1, ... `levels` units at once, as rows of numpy arrays."""

    def __init__(self, costs: Costs, levels: int, unit: int = 1):
        self.need = Needs(costs, unit)
        n, self.costs = costs.n, costs
        self.levels = levels
        self.clock = np.concatenate([[0.0], np.cumsum(costs.ftime)])
        self.best = np.full((1 + max(self.need.after), n, n, levels + 1), inf)  # [input_saved, s, t, m]
        self._shifted = np.full((n, n, levels + 1), inf)  # [t, s, m]: best(s, t, m - x[s]), counted from time 0 on
        self._rows = np.empty((n, levels + 1))  # work space
        with tqdm(total=n * (n + 1) // 2, desc="planning", disable=None, delay=1, leave=False) as bar:
            for length in range(n):
                self._solve_all(length)
                bar.update(n - length)

    def _solve_all(self, length: int) -> None:
        """Solve all parts of the chain of this length. Shorter ones are solved already."""
        for s in range(self.costs.n - length):
            t = s + length
            for input_saved in self.need.contexts(s):
                self.best[input_saved, s, t] = self._solve(s, t, input_saved)
            self._shift(self.best[0, s, t] + self.clock[s], self.need.x[s], self._shifted[t, s])

    def _solve(self, s: int, t: int, input_saved: int) -> np.ndarray:
        """The least time over all first choices. Row 0 saves all of s, the others put a checkpoint at s+1, ... t."""
        rows = self._rows[: t - s + 1]
        rows[0] = inf
        here = self.costs.ftime[s] + self.costs.btime[s] + self.clock[s]
        if s == t:
            rows[0] = here
        else:
            self._shift(self.best[self.need.after[s], s + 1, t] + here, self.need.saved[input_saved][s], rows[0])
            np.add(self._shifted[t, s + 1 : t + 1], self.best[input_saved, s, s:t], out=rows[1:])
        for row, need in zip(rows, self.need.of(s, t, input_saved).tolist(), strict=True):
            row[: max(need, 0)] = inf
        return rows.min(axis=0) - self.clock[s]

    def choose(self, s: int, t: int, m: int, input_saved: int) -> int:
        """The first choice that best(s, t, m) stands for: 0 saves all of s, i > 0 puts a checkpoint at s + i."""
        here, rest = self.costs.ftime[s] + self.costs.btime[s], min(m - self.need.saved[input_saved][s], self.levels)
        save = 0 if s == t else self.best[self.need.after[s], s + 1, t, rest] if rest >= 0 else inf
        checkpoint = self._shifted[t, s + 1 : t + 1, m] + self.best[input_saved, s, s:t, m]
        column = np.append(here + save, checkpoint - self.clock[s])
        column[m < self.need.of(s, t, input_saved)] = inf
        return int(column.argmin())

    def time(self, m: int) -> float:
        return self.best[0, 0, self.costs.n - 1, m]

    def schedule(self, m: int) -> Schedule:
        return Schedule(self.costs.n, walk_choices(self.costs, self.choose, m, self.need, self.levels))

    @staticmethod
    def _shift(row: np.ndarray, by: int, out: np.ndarray) -> None:
        """out[m] = row[m - by]. If by < 0, this reads past the table's end, where more memory does not help."""
        if 0 <= by < len(row):
            out[by:] = row[: len(row) - by]
        elif by < 0:
            out[:by], out[by:] = row[-by:], row[-1]


def walk_choices(
    costs: Costs, choose: Callable[[int, int, int, int], int], m: int, need: Needs | None = None, most: float = inf
) -> list[Action]:
    """The actions that the choices lead to: 0 saves all of s, i > 0 puts a checkpoint at s + i."""
    need = need or Needs(costs)

    def walk(s: int, t: int, m: int, input_saved: int) -> list[Action]:
        later: list[list[Action]] = []  # these run after everything to the right was reversed
        actions = []
        while True:
            choice = choose(s, t, m, input_saved)
            if choice == 0:
                actions.append(Action(SAVE_ALL, s))
                later.append([Action(BACKWARD, s)])
                m = min(m - need.saved[input_saved][s], most)
                s, input_saved = s + 1, need.after[s]
            else:
                u = s + choice
                actions += [Action(SAVE_INPUT, s), *(Action(FORWARD, j) for j in range(s + 1, u))]
                later.append([Action(RESTORE, s), *walk(s, u - 1, m, input_saved)])
                m -= need.x[u]
                s, input_saved = u, 0
            if s > t:
                return actions + [action for part in reversed(later) for action in part]

    return walk(0, costs.n - 1, m, 0)
