"""Is a verdict right, and does it say which idea is missing?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptlib.grading.tasks.answer_encoding import Array, Other, Raised
from ckptlib.grading.tasks.comparison import Tolerance, difference
from ckptlib.grading.tasks.verdict import Mistake, judge

T = Tolerance()


def array(values):
    return Array("float32", np.array(values, dtype=np.float32))


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=8))
def test_numbers_may_come_in_any_dress(values):
    for got in (values, array(values), [array(value) for value in values], [array([value]) for value in values]):
        for expected in (values, array(values)):
            assert difference(got, expected, T) == ""


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(st.integers(-9, 9), min_size=n, max_size=n), min_size=1)))
def test_rows_may_come_in_any_dress(rows):
    for got in (rows, array(rows), [array(row) for row in rows], [[array(v) for v in row] for row in rows]):
        assert difference(got, rows, T) == difference(got, array(rows), T) == ""
    wrong = [[value + 1 for value in row] for row in rows]
    assert difference([array(row) for row in rows], wrong, T)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (4.0, 4),
        (array(4), 4),
        ("B ", "b"),
        ([1, 2.0], [1, 2]),
        ({"a": 1, "more": 2}, {"a": 1}),
        (True, True),
        (None, None),
    ],
)
def test_what_is_equal(got, expected):
    assert difference(got, expected, T) == ""


@pytest.mark.parametrize(
    ("got", "expected", "says"),
    [
        (8192, 4096, "twice"),
        (1024, 4096, "a float32 takes up 4 bytes"),
        (array([0.25, 0.75]), array([1.0, 3.0]), "2 of 2 values differ"),  # a mean in place of a sum, perhaps
        (-3.5, 3.5, "sign"),
        (array([[1, 2, 3]]), array([[1], [2], [3]]), "transposed"),
        (array([1.0, float("nan")]), array([1.0, 2.0]), "1 of 2 values are NaN"),
        (array([1.0, 2.5]), array([1.0, 2.0]), "1 of 2 values differ"),
        (34.03, 31.693, "GB instead of GiB"),
        (None, 3, "return"),
        (Raised("TypeError: no"), 3, "raised TypeError: no"),
        (3, Raised("ValueError: x"), "should have raised ValueError"),
        (Other("Cheat"), 3, "a Cheat found"),
        (4097, 4096, "4,097 is not right"),
        ({"a": 1}, {"a": 1, "b": 2}, "'b' missing"),
        ({"": 1.5}, {"": 7.0}, "'': 1.5 is not right"),
        ([1, 2], [1, 2, 3], "shape (2,)"),
        (["x"], ["x", "y"], "1 entries, expected 2"),
        ("", "b", "not answered"),
    ],
)
def test_what_a_difference_says(got, expected, says):
    assert says in difference(got, expected, Tolerance(rtol=1e-3))


@pytest.mark.parametrize("size", [1e-9, 1e-12, 1e-300])
def test_tiny_numbers_are_not_zeros(size):
    assert difference(3 * size, 5 * size, T) == f"{3 * size:g} is not right"
    assert "half" in difference(size, 2 * size, T)
    assert difference(0.0, size, T) == "all zeros"
    assert difference(array([0, 1e-10]), array([1e-9, 1e-10]), T) == "1 of 2 values differ"
    assert difference((1 + 1e-4) * size, size, T) == ""


def test_rounding_counts_as_zero_where_zero_is_expected_and_a_tolerance_that_is_said_counts_as_said():
    assert difference(1e-8, 0.0, T) == difference([1e-8, 1.0], [0.0, 1.0], T) == ""
    assert difference([1e-8, 2.0, float("inf")], [0.0, 2.0, float("inf")], T) == ""
    assert difference(3e-9, 5e-9, Tolerance(atol=1e-5)) == ""


@pytest.mark.parametrize("size", [1.0, 150.0, 1e6])
def test_the_last_bits_of_a_large_term_are_room_for_a_small_sum_in_float32_alone(size):
    """x + y - x in float32, in whichever order a processor takes it."""
    assert difference(array([size, 3e-7 * size]), array([size, 0.0]), T) == ""
    assert difference(array([size, 3e-6 * size]), array([size, 0.0]), T) == "1 of 2 values differ"
    if size > 10:  # a list may hold a million bytes beside a ratio
        assert difference([size, 3e-7 * size], [size, 0.0], T) == "1 of 2 values differ"


def test_whole_numbers_are_exact_however_loose_the_tolerance():
    assert difference(1_000_001, 1_000_000, Tolerance(rtol=0.1, atol=10))


@given(st.integers(-(2**80), 2**80), st.integers(-(2**80), 2**80))
def test_integers_of_any_size_are_compared(a, b):
    assert bool(difference(a, b, T)) == (a != b)
    assert difference(a, a, T) == "" and difference(a, a + 1, T)


def test_the_mistake_that_fits_most_cases_is_told():
    mistakes = [Mistake("once", [1, 0]), Mistake("always", [1, 2])]
    assert judge([1, 2], [5, 6], mistakes).message == "always"


def test_a_mistake_about_another_part_is_not_told():
    verdict = judge([{"a": 1, "b": None}], [{"a": 1, "b": 2}], [Mistake("about a", [{"a": 9, "b": None}])], parts=True)
    assert verdict.share == 0.5 and "about a" not in verdict.message and "b: returned None" in verdict.message


def test_parts_earn_their_share_and_equal_messages_are_told_once():
    verdict = judge([{"a": 1, "b": 4, "c": 6}], [{"a": 1, "b": 2, "c": 3}], parts=True)
    assert verdict.share == pytest.approx(1 / 3)
    assert verdict.message.startswith("b, c: exactly twice")
    assert len(verdict.missed) == 2


def test_all_cases_must_be_right():
    verdict = judge([1, 2, 9], [1, 2, 3])
    assert verdict.share == 0 and "1 of 3 cases" in verdict.message


def test_a_typed_in_number_is_recognised():
    assert "typed in" in judge([7, 7], [3, 4]).message


def test_a_mistake_that_fits_by_chance_in_one_case_of_three_is_not_told():
    mistake = Mistake("You doubled.", [2, 4, 6])
    assert judge([2, 5, 9], [1, 2, 3], [mistake]).message.startswith("exactly twice as large")
    assert judge([2, 4, 9], [1, 2, 3], [mistake]).message == "You doubled."


def test_an_answer_that_raises_loses_every_part():
    verdict = judge([Raised("KeyError: 'a'")], [{"a": 1, "b": 2}], parts=True)
    assert verdict.share == 0 and verdict.message == "a, b: raised KeyError: 'a'"


def test_a_constant_that_happens_to_be_right_earns_nothing_alone():
    expected = [{"never": 0, "size": 40}, {"never": 0, "size": 50}]
    assert judge([{"never": 0, "size": 0}] * 2, expected, parts=True).share == 0
    assert judge([{"never": 1, "size": 40}, {"never": 1, "size": 50}], expected, parts=True).share == 0.5
    assert judge(expected, expected, parts=True).share == 1


def test_an_error_that_a_probe_has_caught_is_no_number_typed_in():
    caught = [{"error": "raised TypeError", "points": 0}] * 2
    assert "typed in" not in judge(caught, [{"error": "", "points": 3}, {"error": "", "points": 4}]).message


def test_false_is_not_all_zeros_and_a_missing_part_is_no_missing_return():
    assert judge([False], [True]).message == "False is not right"
    verdict = judge([{"a": 1}], [{"a": 1, "b": 2}], parts=True)
    assert verdict.share == 0.5 and verdict.message == "b: missing in the dict"
