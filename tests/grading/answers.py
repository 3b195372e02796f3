"""Reads tests/submissions: answers that must earn their task's points, or lose them and be told why.

A file holds the answers to one task. A line `# %% title` begins each; a wrong answer's title is a piece of the message
that it must be told.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import nbformat

from ckptlib.grading.assignment.assignment import Assignment
from ckptlib.grading.notebooks.cell_text import defined

ROOT = Path(__file__).parents[2]
ASSIGNMENTS = sorted(path.name for path in (ROOT / "solutions").iterdir() if (path / "tasks.py").is_file())


class Answer(NamedTuple):
    assignment: str
    task: str
    right: bool
    title: str
    code: str

    def __str__(self) -> str:
        return f"{self.assignment[:2]}-{self.task}-{'right' if self.right else 'wrong'}-{self.title[:30]}"


def answers(assignment: str) -> list[Answer]:
    found = []
    for path in sorted((ROOT / "tests" / "submissions" / assignment).glob("*/*.py")):
        for title, code in titled(path):
            found.append(Answer(assignment, path.stem, path.parent.name == "right", title, code))
    return found


def titled(path: Path) -> list[tuple[str, str]]:
    """The titles and the code in a file whose pieces each begin with a line `# %% title`."""
    chunks = ("\n" + path.read_text(encoding="utf-8")).split("\n# %% ")[1:]
    return [(title.strip(), code.strip("\n")) for title, _, code in (chunk.partition("\n") for chunk in chunks)]


def submission(assignment: Assignment, replaced: dict[str, str]) -> bytes:
    """The release, filled in with the reference's answers, but for those replaced: task -> code.

    Code that gives some of a task's answers only is added to the reference's.
    """
    solved = {cell.id: cell.source for cell in assignment.source.cells}
    for task, code in replaced.items():
        if task in assignment.tasks and not set(assignment.tasks[task].names) <= defined(code) and defined(code):
            replaced = {**replaced, task: f"{solved[task]}\n\n\n{code}"}
    notebook = nbformat.from_dict(assignment.release)
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = replaced.get(cell.id, solved[cell.id])
    return nbformat.writes(notebook).encode()
