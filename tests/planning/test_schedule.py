"""Do schedules cost what the literature says, and refuse what cannot be run?"""

import checkpoint_schedules as oracle
import numpy as np
import pytest

from ckptlib.errors import CkptError
from ckptlib.planning.known_schedules import beta, extra_forwards, periodic, recompute_all, revolve, sqrt, store_all
from ckptlib.planning.schedule import Schedule
from ckptlib.planning.stage_costs import Costs

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
    cost = periodic(16, k, save_chunk=False).cost()
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


@pytest.mark.parametrize(("n", "slots"), [(2000, 1500), (3000, 3000)])
def test_revolve_has_as_many_slots_as_one_likes(n, slots):
    schedule = revolve(n, slots)
    assert schedule.cost().forwards == n + extra_forwards(n, slots)
    assert schedule.cost().peak <= slots + 2


# ---- the type -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("n", "actions", "message"),
    [
        (1, [], "ends before the backward of stage 0"),
        (1, [("forwards", 0)], "action 0 is 'forwards', expected one of"),
        (1, [("save all", 1)], r"action 0 \(save all 1\) names a stage that a chain of 1 does not have"),
        (2, [("save all", 1)], "the current value is the input of 0. Restore the input of stage 1 first"),
        (1, [("save all", 0), ("restore", 0), ("save all", 0)], r"action 2 .*stage 0 has already saved everything"),
        (2, [("forward", 0), ("forward", 1), ("restore", 1)], r"action 2 \(restore 1\): the input of stage 1 was not"),
        (2, [("save all", 0), ("backward", 0)], r"action 1 \(backward 0\): stage 1 must be reversed first"),
        (1, [("forward", 0), ("backward", 0)], "stage 0 has not saved anything. Run it with 'save all' first"),
        (1, [("save all", 0), ("backward", 0), ("restore", 0)], r"action 2 .*stage 0 has already been reversed"),
        (
            2,
            [("save input", 0), ("save all", 1), ("backward", 1), ("save all", 0)],
            "no value is current. Restore the input of stage 0 first",
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
    with pytest.raises(CkptError, match="costs has 3 stages, but the schedule has 2"):
        store_all(2).cost(Costs.unit(3))


@pytest.mark.parametrize("dy", [100, 0])
def test_every_byte_of_the_model_is_counted(dy):
    """By hand: the chain's input 1, stage 0 keeps 20, stage 1 keeps 300, gradients as large as the outputs."""
    sizes = {"x": [1, 10, 100], "xbar": [20, 300], "ftmp": [1000, 2000], "btmp": [10000, 20000]}
    costs = Costs([1, 2], [4, 8], **sizes, dy_at_start=dy > 0)
    cost = store_all(2).cost(costs)
    assert [step.nbytes for step in cost.steps] == [
        1 + 20 + 1000 + dy,
        1 + 20 + 300 + 2000 + dy,  # the input of stage 1 is part of what stage 0 keeps
        1 + 20 + 300 + 100 + 20000,
        1 + 20 + 10 + 10000,
    ]
    assert (cost.time, cost.forwards) == (15, 2)
    again = recompute_all(2).cost(costs)
    assert [step.nbytes for step in again.steps] == [
        1 + 10 + 1000 + dy,
        1 + 10 + 300 + 2000 + dy,
        1 + 10 + 300 + 100 + 20000,
        1 + 10,
        1 + 20 + 10 + 1000,  # the gradient waits while stage 0 runs again
        1 + 20 + 10 + 10000,
    ]
    assert [step.again for step in again.steps] == [False, False, False, False, True, False]


def test_what_no_stage_saves_is_freed_when_it_was_read():
    """By hand: stage 0 does not save its output, 10 of its 20, nor stage 1 its input; stage 1 not its output, 100."""
    costs = Costs([1] * 3, [1] * 3, [1, 10, 100, 5], [20, 300, 5], dx=[0] * 4, saves_x=[1, 0, 0], saves_y=[0, 0, 1])
    assert [step.nbytes for step in store_all(3).cost(costs).steps] == [
        1 + 20,
        1 + 20 + 300,
        1 + 10 + 300 + 5,  # value 1 is gone, and the output of stage 1, as large as 100, is being read
        1 + 10 + 200 + 5,
        1 + 10 + 200,
        1 + 10,
    ]
    costs = Costs([1] * 3, [1] * 3, [1, 10, 100, 5], [20, 300, 5], dx=[0] * 4, saves_x=[1, 0, 1], saves_y=[1, 0, 1])
    assert [step.nbytes for step in store_all(3).cost(costs).steps] == [
        1 + 20,
        1 + 20 + 300,
        1 + 20 + 300 + 5,  # stage 0 saves value 1, stage 2 saves value 2
        1 + 20 + 300 + 5,
        1 + 20 + 200,
        1 + 20,
    ]


def test_the_drawing_has_time_across_and_stages_up():
    assert recompute_all(2).draw() == "1 | AB\n0 |c  rAB"
    steps = recompute_all(2).cost().steps
    assert [(s.start, s.end) for s in steps] == [(0, 1), (1, 2), (2, 3), (3, 3), (3, 4), (4, 5)]


def test_costs_and_slots_may_be_numpys_numbers():
    lists = {"ftime": [3, 1], "btime": [2.5, 6], "x": [200, 200, 200], "xbar": [250, 255]}
    more = {"ftmp": [7, 9], "btmp": [0, 255], "saves_x": [True, False], "saves_y": [False, True]}
    costs = Costs(**lists, **more)
    arrays = {name: np.array(values, dtype=np.uint8) for name, values in (lists | more).items() if name != "btime"}
    found = Costs(**arrays, btime=np.array(lists["btime"], dtype=np.float32))
    assert found == costs
    assert store_all(2).cost(found) == store_all(2).cost(costs)  # not modulo 256
    assert revolve(np.int64(10), np.int32(3)) == revolve(10, 3)


def test_stages_may_be_numpys_numbers():
    by_numpy = [(kind, np.int64(stage)) for kind, stage in store_all(3).actions]
    assert Schedule(3, by_numpy).cost() == store_all(3).cost()
