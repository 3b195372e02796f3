"""Is the answer right, and if not, which idea is missing? Data is compared, outside the kernel that returned it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .answer_encoding import Raised
from .comparison import EMPTY, NOT_ANSWERED, NOTHING, Tolerance, difference, values_in


@dataclass(frozen=True)
class Mistake:
    """The data of a known wrong answer, case by case, and the message for a student whose answer returns the same."""

    message: str
    cases: list[Any]


@dataclass(frozen=True)
class Verdict:
    """`share` of the points, 0 to 1; `message` says why it is not 1; `missed` names the idea for statistics.

    `misread`: there is an answer, and it is wrong. A section helps then, and not where nothing was answered.
    `recorded`: whether it is right is decided later, so it has no points yet.
    `blank`: no case was answered.
    """

    share: float
    message: str = ""
    missed: list[str] = field(default_factory=list)
    misread: bool = False
    recorded: bool = False
    blank: bool = False

    @property
    def right(self) -> bool:
        return self.share == 1


def judge(
    got: Sequence[Any],
    expected: Sequence[Any],
    mistakes: Sequence[Mistake] = (),
    tolerance: Tolerance = Tolerance(),  # noqa: B008 - frozen
    parts: bool = False,
) -> Verdict:
    """Compare one answer with the reference on every case; with `parts`, each key of the data earns its share."""
    if got and all(_unanswered(case) for case in got):
        return Verdict(0, NOT_ANSWERED, [NOT_ANSWERED], blank=True)  # said once, not of every part
    if not parts:
        message, misread = _explain(got, expected, mistakes, tolerance)
        return Verdict(0 if message else 1, message, [message] if message else [], misread)
    keys = list(expected[0])
    missed, misread = {}, False
    for key in keys:
        pick = [Mistake(m.message, [_part(case, key) for case in m.cases]) for m in mistakes]
        if any(isinstance(case, dict) and key not in case for case in got):
            message = "missing in the dict"
        else:
            message, wrong = _explain([_part(c, key) for c in got], [c[key] for c in expected], pick, tolerance)
            misread = misread or wrong
        if message:
            missed[key] = message
    share = 1 - len(missed) / len(keys)
    if missed and _only_constants_right(expected, keys, missed):
        share = 0
    return Verdict(share, _listed(missed), list(missed.values()), misread)


def _unanswered(case: Any) -> bool:
    if isinstance(case, dict):
        return bool(case) and all(map(_unanswered, case.values()))
    return isinstance(case, Raised) and difference(case, None, Tolerance()) == NOT_ANSWERED


def _only_constants_right(expected: Sequence[Any], keys: list[str], missed: dict[str, str]) -> bool:
    """An answer of 0 to everything is right where 0 is expected for all inputs. That alone earns nothing."""
    varying = [key for key in keys if not _constant([case[key] for case in expected])]
    return len(expected) > 1 and bool(varying) and all(key in missed for key in varying)


def _listed(missed: dict[str, str]) -> str:
    """One line per part; parts with the same message share it."""
    by_message: dict[str, list[str]] = {}
    for key, message in missed.items():
        by_message.setdefault(message, []).append(key)
    return "\n".join(f"{', '.join(keys)}: {message}" for message, keys in by_message.items())


def _part(case: Any, key: str) -> Any:
    if isinstance(case, dict):
        return case.get(key)
    return case  # raised, or no dict at all: every part says so


def _explain(
    got: Sequence[Any], expected: Sequence[Any], mistakes: Sequence[Mistake], tolerance: Tolerance
) -> tuple[str, bool]:
    """ "" if every case is right; otherwise the known mistake that fits best, or what differs in the first case.

    A mistake that fits in fewer than half of the wrong cases fits by chance, so its message would be wrong.
    The second value says whether there is an answer that is wrong. An error that no known mistake raises says
    nothing about what was understood, and None is not an answer.
    """
    wrong = [i for i, (g, e) in enumerate(zip(got, expected, strict=True)) if difference(g, e, tolerance)]
    if not wrong:
        return "", False
    best, most = "", 0
    for mistake in mistakes:
        told = [i for i in wrong if not _nothing(mistake.cases[i])]
        fits = sum(not difference(got[i], mistake.cases[i], tolerance) for i in told)
        if fits > most and 2 * fits >= len(wrong):
            best, most = mistake.message, fits
    if best:
        return best, True
    first = wrong[0]
    text = difference(got[first], expected[first], tolerance)
    misread = not isinstance(got[first], Raised) and not text.endswith((EMPTY, NOTHING))
    typed = _is_data(got[first]) and _constant(got) and not _constant(expected)
    if len(got) > 1 and len(wrong) == len(got) and typed:
        text += ". The answer is the same for different inputs. Is one of them not used, or was a number typed in "
        text += "where it should be computed?"
    if len(wrong) < len(got):
        text += f" (in {len(wrong)} of {len(got)} cases; the others are right)"
    return text, misread


def _is_data(case: Any) -> bool:
    """Is this data and not the text of an error (which a probe may have caught under "error") or an empty list?"""
    return not case.get("error") if isinstance(case, dict) else values_in(case) is not None


def _nothing(case: Any) -> bool:
    """Is this the data of a mistake for a part that it does not concern?"""
    return case is None or (isinstance(case, list) and all(item is None for item in case))


def _constant(values: Sequence[Any]) -> bool:
    return all(not difference(value, values[0], Tolerance(0, 0)) for value in values)
