"""Are two answers equal, within a tolerance? If not, one sentence: found, expected, and the likeliest mistake."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .answer_encoding import Array, Other, Raised

Numbers = (bool, int, float)
ATOL = 1e-6  # unless key.py says otherwise
NOT_ANSWERED = "not answered yet"
NOTHING = "returned None. Is a `return` missing?"
EMPTY = "not answered"


@dataclass(frozen=True)
class Tolerance:
    """Numbers may differ by atol + rtol * |expected|; whole numbers and text must be equal.

    The default atol follows the largest expected number; any other atol is used unchanged.
    """

    rtol: float = 1e-4
    atol: float = ATOL

    def fitted(self, wanted: np.ndarray) -> Tolerance:
        """Where every number is tiny, such as seconds of 1e-9, the default would take each of them for zero.

        Where some are large, a float32 sum that should be 0 is off by some last bits of its largest term, and by how
        many depends on the processor. An answer is not wrong because it was computed on a different one.
        """
        sizes = np.abs(wanted[np.isfinite(wanted) & (wanted != 0)].astype(float))
        if self.atol != ATOL or not sizes.size:  # where zero is expected, rounding needs some room
            return self
        largest = float(sizes.max())
        last_bits = 1e-6 * largest if wanted.dtype.kind == "f" and wanted.dtype.itemsize < 8 else 0.0
        return Tolerance(self.rtol, max(min(ATOL, 1e-3 * largest), last_bits))


def difference(got: Any, expected: Any, tolerance: Tolerance) -> str:
    """ "" if equal; otherwise one sentence: what was found, what was expected, the likeliest mistake."""
    if isinstance(got, Raised):
        if got.error.startswith("NotImplementedError"):
            return NOT_ANSWERED
        same = isinstance(expected, Raised) and got.error.split(":")[0] == expected.error.split(":")[0]
        return "" if same else f"raised {got.error}"
    if isinstance(expected, Raised):
        return f"returned {_show(got)}, but should have raised {expected.error.split(':')[0]}"
    if got is None and expected is not None:
        return NOTHING
    if isinstance(expected, dict):
        return _dicts(got, expected, tolerance)
    if isinstance(expected, list) and values_in(expected) is None:
        return _lists(got, expected, tolerance)
    if isinstance(expected, (Array, list, *Numbers)) and expected is not None:
        return _numbers(got, expected, tolerance)
    if isinstance(expected, str) and isinstance(got, str):
        if expected and not got:
            return EMPTY
        same = got.strip().casefold() == expected.strip().casefold()
        return "" if same else f"{_show(got)} is not right" if expected else got[:300]
    same = type(got) is type(expected) and got == expected
    return "" if same else f"{_show(got)} found, expected {_kind(expected)}"


def _dicts(got: Any, expected: dict, tolerance: Tolerance) -> str:
    if not isinstance(got, dict):
        return f"{_show(got)} found, expected a dict with {', '.join(map(repr, expected))}"
    if missing := [key for key in expected if key not in got]:
        return f"{', '.join(map(repr, missing))} missing in the dict"
    found = ((key, difference(got[key], value, tolerance)) for key, value in expected.items())
    return next((f"{key if key != '' else repr(key)}: {text}" for key, text in found if text), "")  # a model's own name


def _lists(got: Any, expected: list, tolerance: Tolerance) -> str:
    if isinstance(got, Array) and got.values.ndim:
        got = [Array(got.dtype, np.asarray(row)) for row in got.values]
    if not isinstance(got, list):
        return f"{_show(got)} found, expected a list of {len(expected)}"
    if len(got) != len(expected):
        return f"{len(got)} entries, expected {len(expected)}"
    found = ((i, difference(g, e, tolerance)) for i, (g, e) in enumerate(zip(got, expected, strict=True)))
    return next((f"entry {i}: {text}" for i, text in found if text), "")


def _numbers(got: Any, expected: Any, tolerance: Tolerance) -> str:
    wanted = values_in(expected)
    assert wanted is not None  # `difference` compares all other values in a different way
    found = values_in(got, wanted.ndim)
    if found is None:
        return f"{_show(got)} found, expected {_kind(expected)}"
    if found.shape != wanted.shape:
        if found.T.shape == wanted.shape and found.ndim > 1:
            return f"shape {found.shape}, expected {wanted.shape}: transposed?"
        return f"shape {found.shape}, expected {wanted.shape}" if wanted.ndim else f"{_show(got)}, expected one number"
    tolerance = tolerance.fitted(wanted)
    if isinstance(got, int) and isinstance(expected, int):  # exact, also beyond what an array can hold
        if got == expected:
            return ""
    elif close(found, wanted, tolerance):
        return ""
    if np.isnan(found).any() and not np.isnan(wanted).any():
        return f"{int(np.isnan(found).sum())} of {found.size} values are NaN"
    if wanted.dtype.kind == "b" and wanted.size == 1:
        return f"{_show(got)} is not right"
    finite = bool(np.isfinite(wanted).all() and wanted.any())
    ideas = _FACTORS if finite else []
    if finite and wanted.dtype.kind in "iu":  # bytes; a gradient may be a quarter for other reasons, such as a mean
        ideas = [*ideas, *_FACTORS_OF_BYTES]
    for factor, idea in ideas:
        if close(found, wanted * factor, tolerance):
            return idea
    if wanted.size == 1:
        value = found.item()
        written = f"{value:,}" if isinstance(value, int) else f"{value:,.6g}" if math.isfinite(value) else str(value)
        return f"{written} is not right"
    return f"{int((~_near(found, wanted, tolerance)).sum())} of {wanted.size} values differ"


_FACTORS = [
    (2, "exactly twice as large as it should be. Was something counted or accumulated twice?"),
    (0.5, "exactly half of what it should be. Was only one of two things counted?"),
    (-1, "right except for the sign"),
    (0, "all zeros"),
    (1.024, "2.4 % too large. Did you divide by 1,000 instead of 1,024?"),
    (1 / 1.024, "2.3 % too small. Did you divide by 1,024 instead of 1,000?"),
    (1.024**2, "4.9 % too large. Did you use MB instead of MiB?"),
    (1 / 1.024**2, "4.6 % too small. Did you use MiB instead of MB?"),
    (1.024**3, "7.4 % too large. Did you use GB instead of GiB?"),
    (1 / 1.024**3, "6.9 % too small. Did you use GiB instead of GB?"),
]
_FACTORS_OF_BYTES = [
    (4, "four times as large as it should be. Was a factor of 4 (the bytes of a float32) applied twice?"),
    (0.25, "a quarter of what it should be. Did you count elements instead of bytes (a float32 takes up 4 bytes)?"),
    (8, "eight times as large as it should be. Did you count bits instead of bytes?"),
]


def close(found: np.ndarray, wanted: np.ndarray, tolerance: Tolerance) -> bool:
    """Is every number within the tolerance of the wanted one? Both arrays have the same shape."""
    return bool(_near(found, wanted, tolerance).all())


def _near(found: np.ndarray, wanted: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    whole = wanted.dtype.kind in "biu"  # counts and bytes are exact
    rtol, atol = (0, 0) if whole else (tolerance.rtol, tolerance.atol)
    with np.errstate(invalid="ignore"):  # infinities
        return np.isclose(found, wanted, rtol=rtol, atol=atol, equal_nan=True)


def _numeric(value: Any) -> bool:
    return isinstance(value, Numbers) or (isinstance(value, list) and bool(value) and all(map(_numeric, value)))


def _as_numbers(value: Any, ndim: int) -> Any:
    """A tensor counts as a list where one is expected (ndim 1 or more), and as a number if it holds only one."""
    if isinstance(value, Array) and ndim > 0:
        return value.values.tolist()
    if isinstance(value, Array) and value.values.size == 1:
        return value.values.item()
    return [_as_numbers(item, ndim - 1) for item in value] if isinstance(value, list) else value


def values_in(data: Any, ndim: int = 1) -> np.ndarray | None:
    """Numbers of equivalent types: a number, a 0-d tensor, a list of them, an array; with ndim 2, a list of arrays."""
    if isinstance(data, Array):
        return data.values
    if isinstance(data, Numbers):
        return np.array(data) if not isinstance(data, int) or abs(data) < 2**63 else np.array(_float(data))
    if isinstance(data, list) and _numeric(data := _as_numbers(data, ndim)):
        try:
            values = np.array(data)
        except (ValueError, OverflowError):
            return None
        return values if values.dtype != object else np.vectorize(_float, otypes=[float])(values)
    return None


def _float(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _show(data: Any) -> str:
    if isinstance(data, Array):
        return f"a tensor of shape {data.values.shape}"
    if isinstance(data, Other):
        return f"a {data.kind}"
    text = repr(data)
    return text if len(text) < 60 else f"a {type(data).__name__}"


def _kind(expected: Any) -> str:
    if isinstance(expected, Array):
        return f"a tensor of shape {expected.values.shape}"
    return {list: "a list of numbers", str: "text", bool: "True or False"}.get(type(expected), "a number")
