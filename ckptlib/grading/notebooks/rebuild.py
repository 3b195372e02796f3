"""What is to be run? The assignment as it was released, with the student's answers and the student's own cells in it.

    rebuilt = reassemble(read_submission(files, "01_activation_memory.ipynb"), release)

Nothing of the student's but the text of cells gets through, and nothing is executed here.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from typing import Any

import nbformat
from nbformat import NotebookNode

from .cell_text import defined, squash, without_colab
from .ipynb import Cell
from .matching import Match, match
from .notebook_file import Candidate, Submitted, quoted, read_submission
from .release_cells import Release
from .repair_notes import notes_on
from .student_cells import extra_cells

__all__ = ["Rebuilt", "Submitted", "read_submission", "reassemble"]


@dataclass
class Rebuilt:
    """The notebook to run and what happened to it.

    answers, answered: grade_id -> the text that stands for this task; whether it differs from the stub.
    A student's own cells have the metadata {"ckptlib": {"extra": True}}.
    """

    notebook: NotebookNode
    notes: list[str] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    answered: dict[str, bool] = field(default_factory=dict)
    problem: str | None = None  # why there is nothing to grade: the notebook is then the empty release
    path: str | None = None  # the file that was read

    @property
    def cells(self) -> list[NotebookNode]:
        return self.notebook.cells


def reassemble(submitted: Submitted, release: NotebookNode) -> Rebuilt:
    """Rebuild the student's notebook on the release (an nbformat 4 notebook). Never raises, whatever was submitted."""
    originals = Release.of(release)
    if submitted.problem is not None:
        rebuilt = _rebuild([], release, originals)
        rebuilt.problem, rebuilt.notes = submitted.problem, []
        return rebuilt
    chosen, best = _best(submitted, release, originals)
    best.path = chosen.path
    best.notes[:0] = [*submitted.notes, *_notes_on_choice(chosen, submitted, originals)]
    return best


def _best(submitted: Submitted, release: NotebookNode, originals: Release) -> tuple[Candidate, Rebuilt]:
    """The file with the expected name if there are answers in it, or else the one with the most answers."""
    tried: list[tuple[int, bool, int, Candidate, Rebuilt]] = []
    for candidate in submitted.candidates:
        rebuilt = _rebuild(candidate.cells, release, originals)
        expected, answers = candidate.path == submitted.name, sum(rebuilt.answered.values())
        if expected and answers:
            return candidate, rebuilt
        tried.append((answers, expected, _known(candidate, originals), candidate, rebuilt))
    return max(tried, key=lambda each: each[:3])[3:]  # max() keeps the first of equals: the likeliest name


def _known(candidate: Candidate, release: Release) -> int:
    """How many of its cells are the release's."""
    return sum(
        cell.grade_id in release.by_grade_id
        or squash(cell.text) in release.by_text
        or any(name in release.by_id for name in cell.ids)
        for cell in candidate.cells
    )


def _notes_on_choice(chosen: Candidate, submitted: Submitted, release: Release) -> list[str]:
    others = [quoted(each.path) for each in submitted.candidates if each is not chosen]
    notes = []
    if chosen.path != submitted.name:
        notes.append(f"the file {quoted(chosen.path)} was read as {quoted(submitted.name)}")
    if others:
        notes.append(f"several notebooks were submitted: {quoted(chosen.path)} was read, not {', '.join(others)}")
    if chosen.cells and not _known(chosen, release):
        notes.append(f"no cell of {quoted(chosen.path)} is one of this assignment's: is it another notebook?")
    return notes


# ---- the cells ------------------------------------------------------------------------------------------------------
def _rebuild(cells: list[Cell], release: NotebookNode, originals: Release) -> Rebuilt:
    found = match(cells, originals)
    colab = any("google.colab" in cell.text for cell in cells)
    texts = [without_colab(cell.text) if colab and cell.kind == "code" else cell.text for cell in cells]
    rebuilt = Rebuilt(_frame(release))
    extras = extra_cells(cells, found, originals)
    ids = _Ids([cell.id for cell in originals.cells])
    for r in range(-1, len(originals.cells)):
        if r >= 0:
            rebuilt.notebook.cells.append(_restored(r, texts, found, release.cells[r], originals, ids, rebuilt))
        for s in extras.get(r, ()):
            mark = NotebookNode(ckptlib=NotebookNode(extra=True))
            rebuilt.notebook.cells.append(_node(cells[s].kind, texts[s], ids.new(f"extra-{s + 1}"), mark))
    kept = {s for group in extras.values() for s in group}
    rebuilt.notes = notes_on(cells, found, originals, kept)
    if any(text != cell.text for text, cell in zip(texts, cells, strict=True)):
        rebuilt.notes.append("lines that only Google Colab can run (google.colab, drive.mount) were left out")
    return rebuilt


def _frame(release: NotebookNode) -> NotebookNode:
    """An empty notebook with the release's kernelspec, whatever the student's said."""
    notebook = nbformat.v4.new_notebook(metadata=copy.deepcopy(release.metadata))
    notebook.nbformat_minor = max(5, release.get("nbformat_minor", 5))  # cells have ids
    return notebook


def _node(kind: str, text: str, id: str, metadata: NotebookNode) -> NotebookNode:
    """A cell of nbformat 4.5. nbformat's own makers validate each cell: with thousands of them that takes seconds."""
    outputs: dict[str, Any] = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return NotebookNode(cell_type=kind, id=id, metadata=metadata, source=text, **outputs)


def _restored(
    r: int, texts: list[str], found: Match, source: NotebookNode, originals: Release, ids: _Ids, rebuilt: Rebuilt
) -> NotebookNode:
    """The release's cell r; if it is an answer cell, with the student's text."""
    original = originals.cells[r]
    cell = _node(original.kind, original.text, ids.of(r, original.label), copy.deepcopy(source.metadata))
    if "attachments" in source:
        cell.attachments = copy.deepcopy(source.attachments)
    if original.role != "answer":
        return cell
    text = texts[found.answer[r]] if r in found.answer else original.text
    if r in found.answer:
        cell.source = text
    elif r in found.inside:
        # The stub would come after the answer and undo it.
        host = found.inside[r]
        cell.source = f"# answered in the cell {originals.cells[host].label!r}"
        text = texts[found.answer[host]]
    if original.grade_id is not None:
        same = original.squashed in squash(text) if r in found.inside else original.squashed == squash(text)
        rebuilt.answers[original.grade_id] = text
        rebuilt.answered[original.grade_id] = not same and not _blank(text)
    return cell


def _blank(text: str) -> bool:
    """Nothing there, or a stub that defines nothing."""
    return not text.strip() or ("raise NotImplementedError" in text and not defined(text))


class _Ids:
    """Valid cell ids, each given once."""

    def __init__(self, release_ids: list[str | None]) -> None:
        self.release_ids = release_ids
        self.given = {name for name in release_ids if name}

    def of(self, r: int, label: str) -> str:
        """The release's own id, or one made of the label where the release has none."""
        return self.release_ids[r] or self.new(label)

    def new(self, wish: str) -> str:
        base = re.sub(r"[^a-zA-Z0-9_-]", "-", wish)[:50]
        name, n = base, 1
        while name in self.given:
            n += 1
            name = f"{base}-{n}"
        self.given.add(name)
        return name
