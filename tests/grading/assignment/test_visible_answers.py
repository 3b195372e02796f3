"""Does a release that is made again on another processor keep its bytes, and does a changed answer change them?"""

import json

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from ckptlib.grading.assignment.visible_answers import steady
from ckptlib.grading.tasks.answer_encoding import encode
from ckptlib.grading.tasks.comparison import Tolerance

STRICT = Tolerance()
FLOATS = arrays(np.float32, array_shapes(max_dims=3, max_side=5), elements=st.floats(-100, 100, width=32))


def released(value) -> dict:
    """As it stands in visible.json: encoded, written and read again."""
    return json.loads(json.dumps(encode({"part": [value, "text", 7]})))


@given(FLOATS, st.integers(0, 2**32 - 1))
def test_rounding_changes_no_byte(values, seed):
    """A float32 sum in another order is off by some units in the last place of its largest term."""
    noise = np.random.default_rng(seed).uniform(-9e-7, 9e-7, values.shape) * np.abs(values).max()
    old, new = released(values), released((values + noise).astype(np.float32))
    assert steady(new, old, STRICT) == old


@given(FLOATS, st.data())
def test_a_changed_number_is_written(values, data):
    place = data.draw(st.sampled_from(list(np.ndindex(values.shape))))
    changed = values.copy()
    changed[place] += 0.01 * np.abs(values).max() + 0.01
    old, new = released(values), released(changed)
    assert steady(new, old, STRICT) == new != old


def test_lists_of_floats_are_compared_as_a_whole_and_whole_numbers_exactly():
    old = released([1.0, 1e-9])
    assert steady(released([1.0 + 1e-7, -2e-8]), old, STRICT) == old
    for before, after in ((100_000, 100_001), (1.5, 1), (True, False), ("a", "b"), ([1.0], [1.0, 2.0]), (None, 1.0)):
        assert steady(released(after), released(before), STRICT) == released(after)


def test_tiny_numbers_are_not_taken_for_zero():
    assert steady(released(2e-9), released(1e-9), STRICT) == released(2e-9)


def test_the_dtype_counts_even_if_the_values_are_equal():
    old, new = released(torch.ones(3)), released(torch.ones(3, dtype=torch.bfloat16))
    assert steady(new, old, STRICT) == new != old


def test_what_was_damaged_or_missing_is_written_again():
    new = released(torch.ones(3))
    damaged = json.loads(json.dumps(new).replace(new["dict"][0][1][0]["array"], "?"))
    for old in (damaged, None, [], "text", {}):
        assert steady(new, old, STRICT) == new
