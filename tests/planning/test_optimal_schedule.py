"""Is `optimal` as fast as any schedule can be, at every budget? Held against exhaustive search."""

import heapq
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptlib.errors import CkptError
from ckptlib.planning.known_schedules import periodic, recompute_all, revolve, sqrt, store_all
from ckptlib.planning.optimal_schedule import BudgetTooSmall, optimal, pareto, smallest_budget
from ckptlib.planning.stage_costs import Costs


# ---- exhaustive search ----------------------------------------------------------------------------------------------
class Search:
    """All sequences of actions, cheapest first. Written from the rules, not from the library.

    A state is (current value, values kept in memory of their own, stages that keep everything, next stage to reverse).
    Alive at any moment: the chain's input, every kept input and kept content, the current stage's input and output, and
    the gradient of the output of the next stage to reverse; before the first backward, only with `dy_at_start`.
    `nested`: no stage runs again while a later one keeps anything. Where every stage saves its input, which is as large
    as its gradient or larger, nothing is gained by that; where some do not, it is what rotor plans.
    """

    def __init__(self, costs: Costs, nested: bool = False):
        self.costs, self.nested = costs, nested
        self.alive = cache(self._alive)

    def _alive(self, own: frozenset[int], full: frozenset[int], last: int) -> tuple[int, set[int]]:
        """Bytes between two actions, and the values that are there."""
        c, gone = self.costs, set()  # gone: outputs that are inside no xbar any more, since nobody holds them
        for i in full:
            read = i == last or (i + 1 in full and not c.saves_x[i + 1])
            gone |= {i + 1} if read and not c.saves_y[i] else set()
        nbytes = c.x[0] + sum(c.x[i] for i in own) + sum(c.xbar[i] for i in full) - sum(c.x[i] for i in gone)
        return nbytes, {0, *own, *(i + 1 for i in full)} - gone

    def actions(self, current: int | None, own: frozenset, full: frozenset, last: int) -> Iterator[tuple]:
        """(time, bytes alive while it runs, state afterwards) of all that can be done."""
        c = self.costs
        nbytes, there = self.alive(own, full, last)
        dy = c.dx[last + 1] if c.dy_at_start or last < c.n - 1 else 0
        if last in full:
            after = (None, own - {last}, full - {last}, last - 1)
            yield c.btime[last], nbytes + c.dx[last + 1] + c.btmp[last], after
        yield from ((0, 0, (i, own, full, last)) for i in there if i <= last and i != current)
        if current is None or current > last or (self.nested and any(i > current for i in full)):
            return
        i, now = current, nbytes + dy + (0 if current in there else c.x[current])
        keeping = own if i in there else own | {i}
        for kept in {own, keeping} if not c.once[i] else ():
            yield c.ftime[i], now + c.x[i + 1] + c.ftmp[i], (i + 1, kept, full, last)
        if i not in full:
            kept = keeping if c.saves_x[i] else own - {i}
            yield c.ftime[i], now + c.xbar[i] + c.atmp[i], (i + 1, kept, full | {i}, last)

    def front(self) -> list[tuple[int, float]]:
        """(peak, time) of every schedule that no other beats in both, fastest first: Dijkstra with two prices."""
        queue: list = [(0, 0, 0, (0, frozenset(), frozenset(), self.costs.n - 1))]
        lowest: dict[tuple, int] = {}  # state -> the lowest peak with which it was reached so far
        found, ticket = [], 0
        while queue:
            time, peak, _, state = heapq.heappop(queue)
            if peak >= lowest.get(state, inf):
                continue
            lowest[state] = peak
            if state[-1] < 0:
                found.append((peak, time))
                continue
            for seconds, nbytes, after in self.actions(*state):
                high = max(peak, nbytes)
                if high < lowest.get(after, inf):
                    ticket += 1
                    heapq.heappush(queue, (time + seconds, high, ticket, after))
        return found


def test_the_search_finds_what_is_known():
    """Equal stages: none repeated with n + 1 activations; with 3, all but one of the n(n + 1)/2 forwards.

    The one: when two stages are left, both fit.
    """
    front = Search(Costs.unit(5)).front()
    assert (front[0], front[-1]) == ((6, 5 + 5), (3, 14 + 5))


# ---- optimal --------------------------------------------------------------------------------------------------------
def lists(high: int, size: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, high), min_size=size, max_size=size)


@st.composite
def chains(draw, shortest: int = 1, longest: int = 7, frees: bool = False) -> Costs:
    """Unequal stages; gradients as large as the activations, or smaller, or none."""
    n = draw(st.integers(shortest, longest))
    x = draw(lists(9, n + 1))
    xbar = [a + b for a, b in zip(x[1:], draw(lists(14, n)), strict=True)]
    dx = draw(st.none() | lists(9, n + 1).map(lambda sizes: [min(a, b) for a, b in zip(sizes, x, strict=True)]))
    tmp = {name: draw(st.none() | lists(5, n)) for name in ("ftmp", "btmp", "atmp")}
    booleans = st.lists(st.booleans(), min_size=n, max_size=n)
    saves = {"saves_x": draw(booleans), "saves_y": draw(booleans)} if frees else {}
    return Costs(draw(lists(9, n)), draw(lists(9, n)), x, xbar, dx, **tmp, **saves, dy_at_start=draw(st.booleans()))


@st.composite
def chains_with_stages_that_run_once(draw) -> Costs:
    costs = draw(chains(shortest=2, longest=5))
    return replace(costs, once=draw(st.lists(st.booleans(), min_size=costs.n, max_size=costs.n)))


def check_every_budget(costs: Costs, front: list[tuple[int, float]], step: int = 1) -> int:
    """From below the smallest budget to above what storing everything takes; the number of budgets compared."""
    smallest, plain = front[-1][0], store_all(costs.n).cost(costs).peak
    assert smallest_budget(costs) == smallest
    with pytest.raises(BudgetTooSmall) as caught:
        optimal(costs, smallest - 1)
    assert caught.value.smallest == smallest
    budgets = [*range(smallest, plain, step), plain, plain + 1]
    for budget in budgets:
        cost = optimal(costs, budget).cost(costs)
        assert cost.peak <= budget
        assert cost.time == next(time for peak, time in front if peak <= budget)
    assert optimal(costs, plain) == store_all(costs.n)
    return len(budgets) + 1


@settings(deadline=None, max_examples=60)
@given(chains(longest=5))
def test_optimal_equals_exhaustive_search_at_every_budget(costs):
    check_every_budget(costs, Search(costs).front())


@settings(deadline=None, max_examples=40)
@given(chains_with_stages_that_run_once())
def test_optimal_equals_exhaustive_search_where_some_stages_may_run_only_once(costs):
    check_every_budget(costs, Search(costs).front())
    runs = optimal(costs, smallest_budget(costs)).forwards()
    assert all(times == 1 for times, once in zip(runs, costs.once, strict=True) if once)


@pytest.mark.slow
@settings(deadline=None, max_examples=12)
@given(chains(shortest=6))
def test_optimal_equals_exhaustive_search_on_six_and_seven_stages(costs):
    check_every_budget(costs, Search(costs).front())


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(chains(longest=6, frees=True))
def test_optimal_equals_exhaustive_search_where_inputs_are_freed(costs):
    check_every_budget(costs, Search(costs, nested=True).front())


@settings(deadline=None, max_examples=25)
@given(chains(longest=5, frees=True))
@pytest.mark.slow
def test_optimal_is_exact_for_large_byte_counts_without_a_common_divisor(costs):
    large = {name: [1_000_003 * v + 1 for v in getattr(costs, name)] for name in ("x", "xbar", "ftmp", "btmp")}
    costs = replace(costs, **large, dx=None, atmp=None)
    front = Search(costs, nested=True).front()
    check_every_budget(costs, front, step=1_700_000)
    for peak, time in front:
        cost = optimal(costs, peak).cost(costs)
        assert (cost.time, cost.peak) == (time, peak)


def test_the_gradient_of_the_output_counts_from_the_start_unless_a_loss_makes_it():
    """By hand: the most is alive while stage 0 runs, 1 read, 1 written, 50 temporary; the output's gradient is 10."""
    costs = Costs([1, 1], [1, 1], x=[1, 1, 10], xbar=[1, 10], ftmp=[50, 0])
    for dy_at_start, expected in ((True, 62), (False, 52)):
        rule = replace(costs, dy_at_start=dy_at_start)
        assert smallest_budget(rule) == store_all(2).cost(rule).peak == Search(rule).front()[-1][0] == expected


@settings(deadline=None, max_examples=20)
@given(chains(longest=14, frees=True), st.sampled_from([1, 1_000_003]))
def test_optimal_is_never_slower_than_a_classic_of_the_same_peak(costs, scale):
    n = costs.n
    sizes = ("x", "xbar", "dx", "ftmp", "btmp", "atmp")
    costs = replace(costs, **{name: [scale * v for v in getattr(costs, name)] for name in sizes})
    classics = [store_all(n), sqrt(n), recompute_all(n), *(revolve(n, s) for s in range(1, n + 1))]
    classics += [periodic(n, k, keep) for k in range(1, n + 1) for keep in (True, False)]
    for schedule in classics:
        cost = schedule.cost(costs)
        ours = optimal(costs, cost.peak).cost(costs)
        assert ours.peak <= cost.peak
        assert ours.time <= cost.time


@settings(deadline=None, max_examples=20)
@given(chains(longest=16, frees=True), st.integers(0, 100))
def test_a_plan_fits_however_coarse_the_levels(costs, percent):
    large = {name: [v * 7_654_321 + 1 for v in getattr(costs, name)] for name in ("x", "xbar")}
    costs = replace(costs, **large, dx=None, ftmp=None, btmp=None, atmp=None)
    smallest, plain = smallest_budget(costs), store_all(costs.n).cost(costs).peak
    budget = smallest + (plain - smallest) * percent // 100
    assert optimal(costs, budget, levels=30).cost(costs).peak <= budget


def test_with_equal_stages_optimal_needs_no_more_forwards_than_revolve():
    costs = Costs.unit(20)
    for slots in range(1, 10):
        cost = revolve(20, slots).cost(costs)
        assert optimal(costs, cost.peak).cost(costs).forwards <= cost.forwards


@pytest.mark.slow
@pytest.mark.parametrize("n", [7, 14])  # by recursion, by table
def test_if_all_times_are_0_the_fewest_forwards_win(n):
    """As if each forward took 1, whatever the backwards take."""
    sizes = [1000 + 37 * (i * i % 11) for i in range(n + 1)]
    free, equal = (Costs([t] * n, [5 * t] * n, sizes, [2 * x for x in sizes[1:]]) for t in (0, 1))
    low, high = smallest_budget(free), store_all(n).cost(free).peak
    for budget in range(low, high + 1, (high - low) // 10):
        assert optimal(free, budget).cost().forwards == optimal(equal, budget).cost().forwards


def test_the_pareto_curve_falls_and_its_points_are_optimal():
    costs = Costs([3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8], x=[9, 7, 9, 3, 2, 3, 8], xbar=[14, 9, 8, 6, 9, 16])
    curve = pareto(costs)
    assert curve[0][0] == smallest_budget(costs)
    assert curve[-1] == (store_all(6).cost(costs).peak, sum(costs.ftime) + sum(costs.btime))
    for (budget, time), (more, faster) in zip(curve, curve[1:], strict=False):
        assert budget < more and time > faster
        assert optimal(costs, budget).cost(costs).time == optimal(costs, more - 1).cost(costs).time == time


@pytest.mark.parametrize("budget", ["2GB", float("nan"), None])
def test_a_budget_that_is_no_number_is_refused(budget):
    with pytest.raises(CkptError, match="expected a number of bytes"):
        optimal(Costs.unit(5), budget)


def test_a_budget_may_be_numpys_number_or_infinite():
    costs = Costs.unit(5)
    assert optimal(costs, np.int64(4)) == optimal(costs, 4)
    assert optimal(costs, inf) == store_all(5)
