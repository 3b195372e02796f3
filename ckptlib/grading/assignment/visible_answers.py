"""What may everybody see? For the visible inputs, the expected data and the data of each known mistake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...errors import CkptError
from ..tasks.answer_encoding import decode
from ..tasks.comparison import Tolerance, close
from ..tasks.probes import VISIBLE_SEED, Task
from .assignment import Assignment
from .author_errors import slips_in

DRAWS = 3  # of other inputs, for a mistake that is right on those that everybody sees


def visible(assignment: Assignment) -> dict:
    """The content of visible.json: what to expect of each task, and the released notebook.

    Refused if a known mistake is broken, or cannot be told from the right answer.
    """
    before: dict = assignment.visible
    content: dict = {f"{assignment.name}.ipynb": assignment.release}
    for name, task in assignment.released_tasks.items():
        seeds = task.visible_seeds()
        right = assignment.right_of(task, seeds)  # for a quiz too, because every letter must be defined
        if task.has_visible_answer:
            with _no_slip(assignment, task):
                known = task.known(seeds)
            same = {at for at, mistake in enumerate(known) if _is_right(task, mistake["data"], right)}
            _refuse_if_never_told_apart(assignment, name, same)
            tolerance = {"rtol": task.tolerance.rtol, "atol": task.tolerance.atol}
            made = {"tolerance": tolerance, "expected": right, "mistakes": known}
            content[name] = steady(made, before.get(name), task.tolerance)
    return content


# ---- known mistakes -------------------------------------------------------------------------------------------------
@contextmanager
def _no_slip(assignment: Assignment, task: Task) -> Iterator[None]:
    """Run known mistakes inside this: they may fail on purpose, but not because of an author's typing error."""
    with slips_in(f"{assignment.name}/key.py") as slips:
        yield
    if slips:
        raise CkptError(
            f"{slips[0]}. This is in a known mistake of {task.name}: a student whose answer fails like that "
            "would be told its sentence. Is it a typo?"
        )


def _refuse_if_never_told_apart(assignment: Assignment, name: str, same: set[int]) -> None:
    """same: the mistakes that are right on the visible inputs. Grading asks with others, perhaps by another probe."""
    task = assignment.tasks[name]
    if "hidden.py" in assignment.files:  # it may use different probes, so the visible inputs say nothing
        same = set(range(len(task.mistakes)))
    for draw in range(DRAWS):
        seeds = [VISIBLE_SEED + 2000 + draw * task.cases + case for case in range(task.cases)]
        right = assignment.right_of(task, seeds) if same else []
        with _no_slip(assignment, task):
            data = {at: task.ask(task.mistakes[at][1], seeds) for at in same}
        same = {at for at in same if _is_right(task, data[at], right)}
    if same:
        message, (answer, *_) = task.mistakes[min(same)]
        called = getattr(answer, "__name__", message)
        within = f"rtol {task.tolerance.rtol:g}, atol {task.tolerance.atol:g}"
        raise CkptError(
            f"key.py: the mistake {called!r} of {name} cannot be distinguished from the right answer ({within}): "
            "use tolerate(), or other inputs"
        )


def _is_right(task: Task, data: list, right: list) -> bool:
    if task.parts:
        data = [_with_the_rest(mine, theirs) for mine, theirs in zip(data, right, strict=True)]
    return task.judge(data, right, [], task.tolerance).right


def _with_the_rest(mine: Any, theirs: Any) -> Any:
    """A mistake about one part returns None for the others. Those are taken from the reference."""
    if not (isinstance(mine, dict) and "dict" in mine):
        return mine
    told = {key: value for key, value in mine["dict"] if value is not None}
    return {"dict": [[key, told.get(key, value)] for key, value in theirs["dict"]]}


# ---- the same file on every machine ---------------------------------------------------------------------------------
def steady(new: Any, old: Any, tolerance: Tolerance) -> Any:
    """`new`, with the numbers of `old` wherever the two differ by no more than rounding.

    The last bits of a sum depend on the processor. A release that is made again elsewhere keeps the numbers that it
    has, so that a changed file means a changed answer. Whole numbers, text and shapes are compared exactly.
    """
    if isinstance(new, dict) and isinstance(old, dict) and new.get("dtype") != old.get("dtype"):
        return new  # the values alone do not show it, because bfloat16 is sent as float32
    if isinstance(new, dict) and isinstance(old, dict) and "array" not in new:
        return {key: steady(value, old.get(key), tolerance) for key, value in new.items()}
    mine, theirs = _floats(new), _floats(old)
    if mine is not None and theirs is not None and mine.dtype == theirs.dtype and mine.shape == theirs.shape:
        return old if close(mine, theirs, tolerance.fitted(theirs)) else new
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return [steady(one, other, tolerance) for one, other in zip(new, old, strict=True)]
    return new


def _floats(data: Any) -> np.ndarray | None:
    """A float, a list of floats or an encoded array of floats; None if it is anything else, or damaged."""
    if isinstance(data, float) or (isinstance(data, list) and data and all(type(number) is float for number in data)):
        return np.array(data)
    if not (isinstance(data, dict) and "array" in data):
        return None
    try:
        values = decode(data).values
    except CkptError:
        return None
    return values if values.dtype.kind == "f" else None
