"""Does every answer survive the way out of the kernel, and can nothing but data come out?"""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ckptlib import CkptError
from ckptlib.grading.tasks.answer_encoding import LARGEST, Array, Other, Raised, decode, encode, encode_raised

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def through(value):
    return decode(json.loads(json.dumps(encode(value), allow_nan=False)))


def same(a, b) -> bool:
    if isinstance(a, float) and math.isnan(a):
        return math.isnan(b)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


@given(plain)
def test_plain_values_come_back_equal(value):
    assert same(value, through(value))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_tensors_come_back_with_shape_and_dtype(dtype, shape):
    tensor = (torch.randn(shape) * 10).to(dtype)
    found = through(tensor.clone().requires_grad_(dtype.is_floating_point))
    assert found.dtype == str(dtype).removeprefix("torch.")
    assert torch.equal(torch.from_numpy(found.values.copy()).to(dtype), tensor)


def test_views_and_numpy_are_sent_by_value():
    assert np.array_equal(through(torch.arange(6).reshape(2, 3).T).values, np.arange(6).reshape(2, 3).T)
    assert np.array_equal(through(np.arange(3)).values, np.arange(3))
    assert through(np.float32(1.5)) == 1.5


def test_a_fraction_is_sent_as_the_number_it_is():
    assert through([Fraction(7, 2), np.int64(3)]) == [3.5, 3]
    assert through(Fraction(10**400)) == Other("Fraction")


def test_what_is_no_data_becomes_its_name():
    class Cheat:
        def __eq__(self, other):
            return True

    assert through(Cheat()) == Other("Cheat")
    assert through([Cheat(), 1]) == [Other("Cheat"), 1]
    assert through(lambda: 1) == Other("function")
    assert isinstance(through(np.array([object()])), Other)


def test_a_subclass_of_a_number_cannot_pass_for_one():
    class Always(int):
        def __eq__(self, other):
            return True

        __hash__ = int.__hash__

    assert through(Always(3)) == Other("Always")


def test_answers_have_limits():
    endless = []
    endless.append(endless)
    assert "deep" in json.dumps(encode(endless))
    assert isinstance(through(torch.zeros(LARGEST)), Other)
    assert isinstance(through("x" * (LARGEST + 1)), Other)


def test_an_error_is_data_too():
    assert decode(encode_raised(ValueError("x" * 10**6))).error.startswith("ValueError: xxx")
    assert len(decode(encode_raised(ValueError("x" * 10**6))).error) <= 500
    assert decode({"raised": "KeyError: 1"}) == Raised("KeyError: 1")


@pytest.mark.parametrize(
    "data",
    [
        {"pickle": "gASV"},
        {},
        {"dict": [1]},
        {"dict": {"a": 1}},
        {"float": "1e9"},
        {"array": "AAAA", "dtype": "float32", "stored": "float32", "shape": [2]},
        {"array": "AAAA", "dtype": "object", "stored": "object", "shape": [1]},
        {"array": "not base64!", "dtype": "int8", "stored": "int8", "shape": [1]},
        {"array": "AAAA", "dtype": "int8", "stored": "int8", "shape": [-1]},
        {"array": "AAAA", "dtype": "int8", "stored": "no such", "shape": [3]},
    ],
)
def test_whatever_else_the_json_holds_is_refused(data):
    with pytest.raises(CkptError, match="an answer holds"):
        decode(data)


def test_an_array_is_what_it_says():
    assert decode({"array": "AQID", "dtype": "uint8", "stored": "uint8", "shape": [3]}) == Array(
        "uint8", pytest.approx([1, 2, 3])
    )
