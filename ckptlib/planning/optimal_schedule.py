"""Which schedule is the fastest within a memory budget? Dynamic programming over unequal stages.

The model is rotor's (Beaumont et al., arXiv 1911.13214). best(s, t, m) is the least time to run stages s..t forward and
backward, if the input of s is in memory and m bytes are left. There are two ways:

  save all of s:     forward s, then best(s+1, t, m - xbar[s]), then backward s
  checkpoint at u:   forward s..u-1, then best(u, t, m - x[u]), then again from s: best(s, u-1, m)

Saved tensors stay in memory until their stage is reversed. All forwards run while the gradient of the output of t is in
memory. If t is the chain's last stage, that is the case only if `dy_at_start` is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from math import gcd, inf, isnan
from numbers import Real

import numpy as np

from ..errors import CkptError
from .known_schedules import periodic, revolve, sequential, store_all
from .optimal_schedule_table import BudgetTable, Needs, walk_choices
from .schedule import Schedule
from .stage_costs import Costs

LEVELS = 500  # the table has at least this many memory levels if sizes must be rounded
WORK = 1e8  # short chains get more levels, until levels * n³ reaches this number, which takes about half a second
SMALL = 10  # chains up to this length are solved exactly without a table, for any sizes


class BudgetTooSmall(CkptError):
    """No schedule fits. `smallest` is the smallest budget that one does fit in."""

    def __init__(self, budget: int, smallest: int):
        super().__init__(f"no schedule of this chain fits in {budget:,} bytes. It needs at least {smallest:,} bytes")
        self.budget, self.smallest = budget, smallest


def optimal(costs: Costs, budget: int, levels: int = LEVELS) -> Schedule:
    """The fastest schedule whose peak, including the chain's input, is at most `budget` bytes.

    costs     of the chain's stages, for example from `ck.profile_chain`
    levels    into how many steps the budget is divided, at least, where sizes have to be rounded

    The result is exact for chains of up to 10 stages, and for longer ones if the budget is a small multiple of the
    sizes' common divisor. Otherwise sizes are rounded up to steps of at most budget / `levels`. The schedule still
    fits, and it is the fastest among the best one of the rounded problem, the classic schedules, and the one that needs
    the least memory. If all times are 0, each forward counts as 1.
    """
    check_budget(budget)
    costs = costs.timed
    smallest = smallest_budget(costs)
    if budget < smallest:
        raise BudgetTooSmall(budget, smallest)
    if budget >= (plain := store_all(costs.n)).cost(costs).peak:
        return plain  # nothing is faster, and a huge budget needs no table
    room = int(budget) - costs.x[0]
    unit, exact = _unit(costs, room, levels)
    if costs.n <= SMALL and not exact:
        return Schedule(costs.n, walk_choices(costs, _recursion(costs), room))
    table = BudgetTable(costs, room // unit, unit)
    if exact:
        return table.schedule(room // unit)
    time = table.time(room // unit)
    classics = (one for one in _classics(costs, time) if all(np.array(one.forwards())[list(costs.once)] == 1))
    found = [_frugal_schedule(costs), *([table.schedule(room // unit)] if time < inf else []), *classics]
    costed = ((schedule, schedule.cost(costs)) for schedule in found)
    return min((pair for pair in costed if pair[1].peak <= budget), key=lambda pair: pair[1].time)[0]


def check_budget(budget: float) -> None:
    if not isinstance(budget, Real) or isnan(budget):
        raise CkptError(f"the budget is {budget!r}, expected a number of bytes, such as 2 * 10**9 for 2 GB")


def smallest_budget(costs: Costs) -> int:
    """The lowest peak that any schedule of the chain can have, exactly."""
    return costs.x[0] + _frugal(costs)(0, costs.n - 1, 0)[0]


def pareto(costs: Costs, levels: int = LEVELS) -> list[tuple[int, float]]:
    """(budget, time): each budget at which `optimal` gets faster, from the smallest to where nothing is recomputed."""
    plain, least = store_all(costs.n).cost(costs), _frugal_schedule(costs).cost(costs)
    room = plain.peak - costs.x[0]
    unit, _ = _unit(costs, room, levels)
    times = BudgetTable(costs, room // unit, unit).best[0, 0, costs.n - 1]
    points = [(least.peak, least.time), *((costs.x[0] + m * unit, time) for m, time in enumerate(times.tolist()))]
    front: list[tuple[int, float]] = []
    for budget, time in sorted([*points, (plain.peak, plain.time)]):
        if time < (front[-1][1] if front else inf):
            front.append((budget, time))
    return front


def _recursion(costs: Costs) -> Callable[[int, int, int, int], int]:
    """The same recurrence for short chains: exact, because no bytes are rounded."""
    needs = Needs(costs)

    @cache
    def best(s: int, t: int, m: int, input_saved: int) -> tuple[float, int]:
        need, found = needs.of(s, t, input_saved), (inf, 0)
        for choice in range(t - s + 1):
            u = s + choice
            if m < need[choice]:
                continue
            if choice:
                right = best(u, t, m - needs.x[u], 0)[0]
                left = best(s, u - 1, m, input_saved)[0]
                time = sum(costs.ftime[s:u]) + right + left
            else:
                room = m - needs.saved[input_saved][s]
                rest = best(s + 1, t, room, needs.after[s])[0] if s < t else 0
                time = costs.ftime[s] + costs.btime[s] + rest
            found = min(found, (time, choice))
        return found

    return lambda s, t, m, input_saved: best(s, t, m, input_saved)[1]


def _frugal(costs: Costs) -> Callable[[int, int, int], tuple[int, int]]:
    """(fewest bytes for stages s..t, the first choice that needs no more), by the recurrence with max in place of +."""
    needs, n = Needs(costs), costs.n
    least = np.zeros((2, n, n), dtype=np.int64)  # [input_saved, s, t]
    choice = np.zeros((2, n, n), dtype=np.int64)
    x = np.array(needs.x)
    for length in range(n):
        for s in range(n - length):
            t = s + length
            for input_saved in needs.contexts(s):
                rows = needs.of(s, t, input_saved)
                if s < t:
                    rows[0] = max(rows[0], needs.saved[input_saved][s] + least[needs.after[s], s + 1, t])
                    right, left = x[s + 1 : t + 1] + least[0, s + 1 : t + 1, t], least[input_saved, s, s:t]
                    rows[1:] = np.maximum(rows[1:], np.maximum(right, left))
                least[input_saved, s, t], choice[input_saved, s, t] = rows.min(), rows.argmin()
    return lambda s, t, input_saved: (int(least[input_saved, s, t]), int(choice[input_saved, s, t]))


def _unit(costs: Costs, room: int, levels: int) -> tuple[int, bool]:
    """(bytes per memory level, whether nothing is rounded)."""
    sizes = (*costs.x[1:], *costs.xbar, *costs.dx, *costs.ftmp, *costs.btmp, *costs.atmp)
    exact, levels = gcd(*map(int, sizes)) or 1, max(levels, int(WORK / costs.n**3))
    return (exact, True) if room // exact <= levels else (-(-room // levels), False)


def _frugal_schedule(costs: Costs) -> Schedule:
    least = _frugal(costs)
    return Schedule(costs.n, walk_choices(costs, lambda s, t, m, input_saved: least(s, t, input_saved)[1], 0))


def _classics(costs: Costs, limit: float) -> Iterator[Schedule]:
    """Schedules that a rounded plan must not be worse than: Revolve, and all periodic ones faster than `limit`."""
    n, plain = costs.n, sum(costs.ftime) + sum(costs.btime)
    yield from map(partial(revolve, n), {round(n ** (i / 12)) for i in range(13)} | set(range(1, min(n, 12) + 1)))
    for k in range(1, n + 1):
        for make, last_chunk in ((periodic, round((k - 1) * n / k)), (sequential, (k - 1) * (n // k))):
            if plain + sum(costs.ftime[:last_chunk]) < limit:  # all but the last chunk run twice
                yield make(n, k)
