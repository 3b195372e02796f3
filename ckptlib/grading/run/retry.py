"""Must one bad cell cost the other tasks? No: what could not be asked is asked again, alone, in a fresh kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..sandbox.limits import Limits
from ..sandbox.sandbox import Sandbox
from ..sandbox.unconfined import Unconfined
from .run import Cell, Question, Transcript, run

# The kernel's fault, not the answer's: threads of another cell may have slowed it down, interrupted or ended it.
_NOT_ITS_FAULT = set("died closed timeout memory processes sockets cpu output garbage error".split())
_NOT_ITS_FAULT |= {"wall time", "no answer"}


def ask_again(
    seen: Transcript,
    cells: Sequence[Cell],
    questions: Sequence[Question],
    answer_cells: Mapping[str, str],
    files: Mapping[str, bytes],
    limits: Limits,
    sandbox: Sandbox | Unconfined,
) -> None:
    """Complete `seen` in place. answer_cells: cell id -> task; of these, each task gets its own only.

    Cells of the student's own that failed are left out: one of them probably damaged the first kernel.
    """
    short = replace(limits, wall_seconds=limits.wall_seconds / 4)
    for question in questions:
        found = seen["questions"][question.name]
        if (
            found["answer"] is not None
            or found["reason"] not in _NOT_ITS_FAULT
            or question.name not in answer_cells.values()
        ):
            continue
        again = run(_needed(question.name, cells, answer_cells, seen), [question], files, short, sandbox)
        if again["questions"][question.name]["answer"] is not None:
            seen["questions"][question.name] = again["questions"][question.name]
            seen["events"].append(f"task {question.name!r} was asked alone, in a fresh kernel")


def _needed(task: str, cells: Sequence[Cell], answer_cells: Mapping[str, str], seen: Transcript) -> list[Cell]:
    mine = [cell for cell in cells if answer_cells.get(cell.id, task) == task]
    return [cell for cell in mine if cell.id in answer_cells or seen["cells"][cell.id]["status"] == "ok"]
