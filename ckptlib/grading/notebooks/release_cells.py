"""What did the students get? The release's cells, and the tables to find each of them by."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property

from nbformat import NotebookNode

from .cell_text import defined, lines, squash


@dataclass(frozen=True)
class Original:
    """A cell of the release. `role`: "answer" (the student's), "locked" (graded or protected) or "open"."""

    kind: str
    text: str
    role: str
    grade_id: str | None
    id: str | None
    label: str

    @cached_property
    def squashed(self) -> str:
        return squash(self.text)


@dataclass(frozen=True)
class ReleaseCells:
    """The assignment's cells, and the tables to find them by."""

    cells: list[Original]

    @classmethod
    def of(cls, notebook: NotebookNode) -> ReleaseCells:
        return cls([_original(i, cell) for i, cell in enumerate(notebook.cells)])

    @cached_property
    def answers(self) -> dict[int, Original]:
        return {i: cell for i, cell in enumerate(self.cells) if cell.role == "answer"}

    @cached_property
    def by_grade_id(self) -> dict[str, int]:
        return {cell.grade_id: i for i, cell in enumerate(self.cells) if cell.grade_id is not None}

    @cached_property
    def by_id(self) -> dict[str, int]:
        return {cell.id: i for i, cell in enumerate(self.cells) if cell.id is not None}

    @cached_property
    def by_text(self) -> dict[str, list[int]]:
        table = defaultdict(list)
        for i, cell in enumerate(self.cells):
            table[cell.squashed].append(i)
        table.pop("", None)
        return dict(table)

    @cached_property
    def asked(self) -> dict[str, int]:
        """Name that exactly one stub defines, and no other cell -> its answer cell."""
        code = [(i, cell) for i, cell in enumerate(self.cells) if cell.kind == "code"]
        owners = [(name, i) for i, cell in code for name in sorted(defined(cell.text, cell.role != "answer"))]
        count = Counter(name for name, _ in owners)
        return {name: i for name, i in owners if count[name] == 1 and self.cells[i].role == "answer"}

    @cached_property
    def by_line(self) -> dict[str, int]:
        """Line that only one answer cell has, and no other cell -> that answer cell."""
        owners = [(line, i) for i, cell in enumerate(self.cells) for line in lines(cell.text)]
        count = Counter(line for line, _ in owners)
        return {line: i for line, i in owners if count[line] == 1 and self.cells[i].role == "answer"}


def _original(i: int, cell: NotebookNode) -> Original:
    marks = cell.metadata.get("nbgrader", {})
    role = "answer" if marks.get("solution") else "locked" if marks.get("grade") or marks.get("locked") else "open"
    grade_id, id = marks.get("grade_id"), cell.get("id")
    return Original(cell.cell_type, cell.source, role, grade_id, id, grade_id or id or f"cell {i + 1}")
