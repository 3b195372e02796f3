"""What may everybody see? For the visible inputs: what to expect, and what each known mistake gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CkptError
from .author_files import slips_in
from .data import decode, encode
from .probes import VISIBLE_SEED, Task

if TYPE_CHECKING:
    from .assignment import Assignment

DRAWS = 3  # of other inputs, for a mistake that is right on those that everybody sees


def visible(assignment: Assignment) -> dict:
    """The content of visible.json. Refused if a known mistake is broken, or cannot be told from the right answer."""
    shown = {}
    for name, task in assignment.shown_tasks.items():
        seeds = task.visible_seeds()
        right = assignment.right_of(task, seeds)  # of a quiz, too: every letter must be there
        if task.shown:
            with _no_slip(assignment, task):
                known = task.known(seeds)
            same = {at for at, mistake in enumerate(known) if _is_right(task, mistake["data"], right)}
            _refuse_if_never_told_apart(assignment, name, same)
            tolerance = {"rtol": task.tolerance.rtol, "atol": task.tolerance.atol}
            shown[name] = {"tolerance": tolerance, "expected": right, "mistakes": known}
    return _rounded(shown)


# ---- known mistakes -------------------------------------------------------------------------------------------------
@contextmanager
def _no_slip(assignment: Assignment, task: Task) -> Iterator[None]:
    """Around what runs known mistakes: they may fail on purpose, but not by a slip of their author's."""
    with slips_in(f"{assignment.name}/key.py") as slips:
        yield
    if slips:
        raise CkptError(
            f"{slips[0]}. This is in a known mistake of {task.name}: whoever's answer fails like that would be told "
            "its sentence. Is it a typing error?"
        )


def _refuse_if_never_told_apart(assignment: Assignment, name: str, same: set[int]) -> None:
    """same: the mistakes that are right on the visible inputs. Grading asks with others, perhaps by another probe."""
    task = assignment.tasks[name]
    if "hidden.py" in assignment.files:  # it may ask something else: what was seen says nothing
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
            f"key.py: the mistake {called!r} of {name} cannot be told from the right answer ({within}): "
            "use tolerate(), or other inputs"
        )


def _is_right(task: Task, data: list, right: list) -> bool:
    if task.parts:
        data = [_with_the_rest(mine, theirs) for mine, theirs in zip(data, right, strict=True)]
    return task.judge(data, right, [], task.tolerance).right


def _with_the_rest(mine: Any, theirs: Any) -> Any:
    """A mistake about one part says None about the others: take those from the reference."""
    if not (isinstance(mine, dict) and "dict" in mine):
        return mine
    told = {key: value for key, value in mine["dict"] if value is not None}
    return {"dict": [[key, told.get(key, value)] for key, value in theirs["dict"]]}


# ---- the same file on every machine ---------------------------------------------------------------------------------
def _rounded(data: Any) -> Any:
    """Six digits: another machine's last bits must not change a released file."""
    if isinstance(data, float):
        return float(f"{data:.6g}")
    if isinstance(data, list):
        return [_rounded(item) for item in data]
    if not isinstance(data, dict):
        return data
    if "array" in data and data["stored"].startswith("float"):
        values = decode(data).values
        rounded = np.array([float(f"{v:.6g}") for v in values.ravel().tolist()], values.dtype).reshape(values.shape)
        return encode(rounded) | {"dtype": data["dtype"]}
    return {key: _rounded(value) for key, value in data.items()}
