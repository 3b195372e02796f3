"""What had happened to the student's notebook? One short sentence for each thing that was mended."""

from __future__ import annotations

from collections import defaultdict

from .cell_text import squash
from .ipynb import Cell
from .matching import Match
from .release_cells import Release


def notes_on(cells: list[Cell], found: Match, release: Release, kept: set[int]) -> list[str]:
    """The sentences, in the release's order. `kept`: the student's cells that are run beside the release's."""
    versions = defaultdict(list)
    for s, r in enumerate(found.home):
        if r is not None:
            versions[r].append(s)
    prose = {cell.grade_id for cell, r in zip(cells, found.home, strict=True) if r is None and cell.kind != "code"}
    notes = [] if found.in_order else ["cells had been moved: they are run in the assignment's order"]
    if found.by_text:
        notes.append("cells had lost their nbgrader metadata: answers were found by their text")
    for r, original in enumerate(release.cells):
        if original.role == "answer":
            notes += _on_answer(r, cells, versions[r], found, release, original.grade_id in prose)
        elif original.kind == "code":
            notes += _on_edited(cells, versions[r], release, r, kept)
    lost = [repr(cell.label) for r, cell in enumerate(release.cells) if cell.role == "locked" and not versions[r]]
    if lost:
        notes.append(f"locked cells were missing and came back: {', '.join(lost)}")
    return notes


def _on_answer(
    r: int, cells: list[Cell], versions: list[int], found: Match, release: Release, prose: bool
) -> list[str]:
    original = release.cells[r]
    if r in found.inside:
        return [f"the answer to {original.label!r} stands in the cell {release.cells[found.inside[r]].label!r}"]
    if not versions:
        why = "holds no code any more" if prose else "was missing"
        return [f"the answer cell {original.label!r} {why}: the empty one came back"]
    notes = []
    if r in found.answer:
        cell = cells[found.answer[r]]
        if cell.kind != original.kind:
            notes.append(
                f"the answer cell {original.label!r} had been turned into {cell.kind}: read as {original.kind}"
            )
        if cell.grade_id != original.grade_id and cell.grade_id in release.by_grade_id:
            notes.append(f"the answer to {original.label!r} stood in the cell {cell.grade_id!r}")
    different = [s for s in versions if s not in found.copies]
    if len(different) > 1:
        notes.append(
            f"the answer cell {original.label!r} was there in {len(different)} versions: all run, the last wins"
        )
    elif len(versions) > 1:
        notes.append(f"the answer cell {original.label!r} was there {len(versions)} times: copies were dropped")
    return notes


def _on_edited(cells: list[Cell], versions: list[int], release: Release, r: int, kept: set[int]) -> list[str]:
    original = release.cells[r]
    edited = [s for s in versions if squash(_as_released(cells[s].text)) != original.squashed]
    if not edited:
        return []
    if not kept.intersection(edited):
        return [f"the cell {original.label!r} had been edited: restored"]
    order = "before" if original.role == "locked" else "after"
    return [f"the cell {original.label!r} had been edited: restored, and the student's version runs {order} it"]


def _as_released(text: str) -> str:
    """Without its hidden tests: an author who checks the source has edited nothing. nbgrader's own rule and words."""
    kept, hidden = [], False
    for line in text.split("\n") if "BEGIN HIDDEN TESTS" in text else [text]:
        hidden = hidden or "BEGIN HIDDEN TESTS" in line
        if not hidden:
            kept.append(line)
        hidden = hidden and "END HIDDEN TESTS" not in line
    return "\n".join(kept)
