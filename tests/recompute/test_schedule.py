"""Do schedules cost what the literature says, and refuse what cannot be run?"""

import heapq

import checkpoint_schedules as oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptlib.errors import CkptError
from ckptlib.recompute.builders import beta, extra_forwards, periodic, recompute_all, revolve, sqrt, store_all
from ckptlib.recompute.costs import Costs
from ckptlib.recompute.optimal import BudgetTooSmall, optimal, pareto, smallest_budget
from ckptlib.recompute.schedule import Schedule

LENGTHS = [1, 2, 3, 7, 16, 33, 64, 100]


# ---- the classics ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", LENGTHS)
def test_the_two_extremes(n):
    assert store_all(n).cost().forwards == n
    assert store_all(n).cost().peak == n + 1
    assert recompute_all(n).cost().forwards == n * (n + 1) // 2
    assert recompute_all(n).cost().peak == min(n + 1, 3)


@pytest.mark.parametrize(("n", "least"), [(16, 8), (64, 16), (144, 24)])
def test_chens_peak_is_k_plus_n_over_k_and_least_at_the_root(n, least):
    divisors = [k for k in range(1, n + 1) if n % k == 0]
    peaks = {k: periodic(n, k).cost().peak for k in divisors}
    assert peaks == {k: k + n // k for k in divisors}
    assert min(peaks.values()) == peaks[round(n**0.5)] == sqrt(n).cost().peak == least
    assert all(periodic(n, k).cost().forwards == 2 * n - n // k for k in divisors)


@pytest.mark.parametrize("k", [1, 2, 4, 8, 16])
def test_the_other_reading_of_k_checkpoints_is_quadratic_within_each_chunk(k):
    m = 16 // k
    cost = periodic(16, k, keep_chunk=False).cost()
    assert cost.forwards == (16 - m) + k * m * (m + 1) // 2
    assert cost.peak == min(k + m, k + 2)


@pytest.mark.parametrize("n", LENGTHS)
def test_chunks_that_do_not_divide_the_chain_cover_it_all_the_same(n):
    for k in range(1, n + 1):
        assert periodic(n, k).cost().peak <= k + -(-n // k)


def test_the_binomial_table():
    assert [beta(2, t) for t in range(1, 7)] == [3, 6, 10, 15, 21, 28]
    assert [beta(3, t) for t in range(1, 7)] == [4, 10, 20, 35, 56, 84]
    assert [beta(5, t) for t in range(1, 7)] == [6, 21, 56, 126, 252, 462]
    assert [beta(10, t) for t in range(1, 7)] == [11, 66, 286, 1001, 3003, 8008]


@pytest.mark.parametrize(
    ("n", "slots", "extra"), [(10, 3, 15), (56, 3, 210), (100, 5, 316), (100, 10, 222), (1000, 10, 3636)]
)
def test_revolve_reaches_the_published_counts(n, slots, extra):
    schedule = revolve(n, slots)
    assert extra_forwards(n, slots) == schedule.cost().forwards - n == extra
    assert schedule.cost().peak <= slots + 2  # the slots, and the input and output of the stage that runs


@pytest.mark.parametrize("slots", [1, 2, 3, 5])
@pytest.mark.parametrize("n", range(1, 31))
def test_revolve_counts_as_checkpoint_schedules_does(n, slots):
    steps = 0
    for action in oracle.Revolve(n, slots):
        if isinstance(action, oracle.Forward):
            steps += min(action.n1, n) - action.n0
        if isinstance(action, oracle.EndReverse):
            break
    assert revolve(n, slots).cost().forwards == steps


@pytest.mark.parametrize(("slots", "repeats"), [(2, 3), (3, 2), (3, 4), (5, 2)])
def test_no_stage_of_a_binomial_chain_advances_more_than_its_repeats(slots, repeats):
    """Each stage runs once more than it advances: to keep everything."""
    assert max(revolve(beta(slots, repeats), slots).forwards()) == repeats + 1
    assert max(revolve(beta(slots, repeats) + 1, slots).forwards()) > repeats + 1


# ---- the type -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("n", "actions", "message"),
    [
        (1, [], "ends before the backward of stage 0"),
        (1, [("forwards", 0)], "action 0 is 'forwards', expected one of"),
        (1, [("keep all", 1)], r"action 0 \(keep all 1\): there is no such stage in a chain of 1"),
        (2, [("keep all", 1)], "the current value is the input of 0: restore the input of stage 1 first"),
        (1, [("keep all", 0), ("restore", 0), ("keep all", 0)], r"action 2 .*stage 0 keeps everything already"),
        (2, [("forward", 0), ("forward", 1), ("restore", 1)], r"action 2 \(restore 1\): the input of stage 1 was not"),
        (2, [("keep all", 0), ("backward", 0)], r"action 1 \(backward 0\): stage 1 must be reversed first"),
        (1, [("forward", 0), ("backward", 0)], "nothing was kept of stage 0: run it with 'keep all' first"),
        (1, [("keep all", 0), ("backward", 0), ("restore", 0)], r"action 2 .*stage 0 was reversed already"),
        (
            2,
            [("keep input", 0), ("keep all", 1), ("backward", 1), ("keep all", 0)],
            "no value is current: restore the input of stage 0 first",
        ),
        (0, [], "a chain has at least one stage"),
    ],
)
def test_an_impossible_action_is_named(n, actions, message):
    with pytest.raises(CkptError, match=message):
        Schedule(n, actions)


@pytest.mark.parametrize(
    "build",
    [lambda: store_all(0), lambda: periodic(4, 5), lambda: revolve(4, 0), lambda: sqrt(-1), lambda: revolve(2.5, 1)],
)
def test_impossible_parameters_are_refused(build):
    with pytest.raises(CkptError):
        build()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": [1, 1]}, "x has 2 entries for 2 stages, expected 3 .the input of stage 0 first"),
        ({"xbar": [1]}, "xbar has 1 entries for 2 stages, expected 2"),
        ({"ftime": [1, -1]}, r"ftime\[1\] is -1, expected a number, 0 or more"),
        ({"btime": [1, float("nan")]}, r"btime\[1\] is nan"),
        ({"x": [1, "2", 3]}, r"x\[1\] is '2', expected a whole number of bytes"),
        ({"ftime": []}, "ftime is empty"),
    ],
)
def test_bad_costs_are_refused(change, message):
    with pytest.raises(CkptError, match=message):
        Costs(**{"ftime": [1, 1], "btime": [1, 1], "x": [1, 1, 1], "xbar": [1, 1], **change})


def test_costs_of_another_length_are_refused():
    with pytest.raises(CkptError, match="the costs are of 3 stages, the schedule of 2"):
        store_all(2).cost(Costs.unit(3))


def test_every_byte_of_the_model_is_counted():
    """By hand: the chain's input 1, stage 0 keeps 20, stage 1 keeps 300, gradients as large as the outputs."""
    costs = Costs([1, 2], [4, 8], x=[1, 10, 100], xbar=[20, 300], ftmp=[1000, 2000], btmp=[10000, 20000])
    cost = store_all(2).cost(costs)
    assert [step.nbytes for step in cost.steps] == [
        1 + 20 + 1000,
        1 + 20 + 300 + 2000,  # the input of stage 1 is part of what stage 0 keeps
        1 + 20 + 300 + 100 + 20000,
        1 + 20 + 10 + 10000,
    ]
    assert (cost.time, cost.forwards) == (15, 2)
    again = recompute_all(2).cost(costs)
    assert [step.nbytes for step in again.steps] == [
        1 + 10 + 1000,
        1 + 10 + 300 + 2000,
        1 + 10 + 300 + 100 + 20000,
        1 + 10,
        1 + 20 + 10 + 1000,  # the gradient waits while stage 0 runs again
        1 + 20 + 10 + 10000,
    ]
    assert [step.again for step in again.steps] == [False, False, False, False, True, False]


def test_the_drawing_has_time_across_and_stages_up():
    assert recompute_all(2).draw() == "1 | AB\n0 |c  rAB"
    steps = recompute_all(2).cost().steps
    assert [(s.start, s.end) for s in steps] == [(0, 1), (1, 2), (2, 3), (3, 3), (3, 4), (4, 5)]


# ---- optimal --------------------------------------------------------------------------------------------------------
def fastest(costs: Costs, budget: int) -> float | None:
    """The least time of any sequence of actions, by exhaustive search: cheapest state first, all actions tried.

    Written from the rules, not from the library: a state is the current value, the values kept in memory of their own,
    the stages that keep everything, and the next stage to reverse.
    """
    n, x, xbar, dx = costs.n, costs.x, costs.xbar, costs.dx
    queue, done, ticket = [(0, 0, (0, frozenset(), frozenset(), n - 1))], set(), 0
    while queue:
        time, _, state = heapq.heappop(queue)
        if state in done:
            continue
        done.add(state)
        current, own, full, last = state
        if last < 0:
            return time
        there = {0, *own, *(i + 1 for i in full)}
        alive = x[0] + sum(x[i] for i in own) + sum(xbar[i] for i in full)
        found = [(0, 0, (i, own, full, last)) for i in there if i <= last]
        if current is not None and current <= last:
            needed = alive + (0 if current in there else x[current]) + (dx[last + 1] if last < n - 1 else 0)
            with_input = own if current in there else own | {current}
            after = needed + x[current + 1] + costs.ftmp[current]
            found += [(costs.ftime[current], after, (current + 1, keep, full, last)) for keep in (own, with_input)]
            if current not in full:
                after = needed + xbar[current] + costs.atmp[current]
                found.append((costs.ftime[current], after, (current + 1, with_input, full | {current}, last)))
        if last in full:
            after = alive + dx[last + 1] + costs.btmp[last]
            found.append((costs.btime[last], after, (None, own - {last}, full - {last}, last - 1)))
        for seconds, nbytes, following in found:
            if nbytes <= budget and following not in done:
                ticket += 1
                heapq.heappush(queue, (time + seconds, ticket, following))
    return None


@st.composite
def chains(draw, longest: int, scale: int = 1):
    n = draw(st.integers(1, longest))
    numbers = lambda high, k=n: draw(st.lists(st.integers(0, high), min_size=k, max_size=k))  # noqa: E731
    x = numbers(9, n + 1)
    xbar = [a + b for a, b in zip(x[1:], numbers(14), strict=True)]
    sizes = {"x": x, "xbar": xbar, "ftmp": numbers(3), "btmp": numbers(5)}
    return Costs(numbers(9), numbers(9), **{name: [scale * v for v in values] for name, values in sizes.items()})


def check_against_exhaustive_search(costs: Costs, step: int = 1) -> None:
    smallest, plain = smallest_budget(costs), store_all(costs.n).cost(costs).peak
    assert fastest(costs, smallest - 1) is None
    with pytest.raises(BudgetTooSmall) as caught:
        optimal(costs, smallest - 1)
    assert caught.value.smallest == smallest
    for budget in range(smallest, plain + 1, step):
        cost = optimal(costs, budget).cost(costs)
        assert cost.peak <= budget
        assert cost.time == fastest(costs, budget)
    assert optimal(costs, plain) == store_all(costs.n)


@settings(deadline=None, max_examples=60)
@given(chains(longest=5))
def test_optimal_equals_exhaustive_search_at_every_budget(costs):
    check_against_exhaustive_search(costs)


@settings(deadline=None, max_examples=8)
@given(chains(longest=7))
def test_optimal_equals_exhaustive_search_on_seven_stages(costs):
    check_against_exhaustive_search(costs, step=9)


@settings(deadline=None, max_examples=25)
@given(chains(longest=5, scale=1_000_003))
def test_optimal_is_exact_for_large_byte_counts_without_a_common_divisor(costs):
    sizes = (*costs.x[:-1], costs.x[-1] + 1)
    costs = Costs(costs.ftime, costs.btime, sizes, [b + 1 for b in costs.xbar], ftmp=costs.ftmp, btmp=costs.btmp)
    check_against_exhaustive_search(costs, step=1_700_000)


@settings(deadline=None, max_examples=20)
@given(chains(longest=14), st.sampled_from([1, 1_000_003]))
def test_optimal_is_never_slower_than_a_classic_of_the_same_peak(costs, scale):
    n = costs.n
    bytes_ = {name: [scale * v for v in getattr(costs, name)] for name in ("x", "xbar", "ftmp", "btmp")}
    costs = Costs(costs.ftime, costs.btime, **bytes_)
    classics = [store_all(n), sqrt(n), recompute_all(n), *(revolve(n, s) for s in range(1, n + 1))]
    classics += [periodic(n, k, keep) for k in range(1, n + 1) for keep in (True, False)]
    for schedule in classics:
        cost = schedule.cost(costs)
        ours = optimal(costs, cost.peak).cost(costs)
        assert ours.peak <= cost.peak
        assert ours.time <= cost.time


@settings(deadline=None, max_examples=20)
@given(chains(longest=16), st.integers(0, 100))
def test_a_plan_fits_however_coarse_the_levels(costs, percent):
    smallest, plain = smallest_budget(costs), store_all(costs.n).cost(costs).peak
    budget = smallest + (plain - smallest) * percent // 100
    large = {name: [v * 7_654_321 + 1 for v in getattr(costs, name)] for name in ("x", "xbar")}
    rounded = Costs(costs.ftime, costs.btime, **large)
    target = max(budget * 7_654_321, smallest_budget(rounded))
    assert optimal(rounded, target, levels=30).cost(rounded).peak <= target


def test_with_equal_stages_optimal_needs_no_more_forwards_than_revolve():
    costs = Costs.unit(20)
    for slots in range(1, 10):
        cost = revolve(20, slots).cost(costs)
        assert optimal(costs, cost.peak).cost(costs).forwards <= cost.forwards


def test_the_pareto_curve_falls_and_its_points_are_optimal():
    costs = Costs([3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8], x=[9, 7, 9, 3, 2, 3, 8], xbar=[14, 9, 8, 6, 9, 16])
    curve = pareto(costs)
    assert curve[0][0] == smallest_budget(costs)
    assert curve[-1] == (store_all(6).cost(costs).peak, sum(costs.ftime) + sum(costs.btime))
    for (budget, time), (more, faster) in zip(curve, curve[1:], strict=False):
        assert budget < more and time > faster
        assert optimal(costs, budget).cost(costs).time == optimal(costs, more - 1).cost(costs).time == time
