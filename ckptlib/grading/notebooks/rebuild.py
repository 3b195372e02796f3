"""What is run? The assignment as it was released, with the student's answers and the student's own cells in it.

    rebuilt = reassemble(read_submission(files, "01_activation_memory.ipynb"), release)

Only the text of the student's cells is used, and nothing is executed here.
"""

from __future__ import annotations

import copy
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import nbformat
from nbformat import NotebookNode

from .cell_matching import Match, match
from .cell_text import defined, squash, without_colab, words
from .file_formats import StudentCell
from .notebook_choice import Candidate, SubmittedNotebooks, quoted, read_submission
from .release_cells import ReleaseCells

__all__ = ["Rebuilt", "SubmittedNotebooks", "read_submission", "reassemble"]


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


def reassemble(submitted: SubmittedNotebooks, release: NotebookNode) -> Rebuilt:
    """Rebuild the student's notebook on the release (an nbformat 4 notebook). Never raises, whatever was submitted."""
    originals = ReleaseCells.of(release)
    if submitted.problem is not None:
        rebuilt = _rebuild([], release, originals)
        rebuilt.problem, rebuilt.notes = submitted.problem, []
        return rebuilt
    chosen, best = _best(submitted, release, originals)
    best.path = chosen.path
    best.notes[:0] = [*submitted.notes, *_notes_on_choice(chosen, submitted, originals)]
    return best


def _best(submitted: SubmittedNotebooks, release: NotebookNode, originals: ReleaseCells) -> tuple[Candidate, Rebuilt]:
    """The file with the expected name if there are answers in it, or else the one with the most answers."""
    tried: list[tuple[int, bool, int, Candidate, Rebuilt]] = []
    for candidate in submitted.candidates:
        rebuilt = _rebuild(candidate.cells, release, originals)
        expected, answers = candidate.path == submitted.name, sum(rebuilt.answered.values())
        if expected and answers:
            return candidate, rebuilt
        tried.append((answers, expected, _known(candidate, originals), candidate, rebuilt))
    return max(tried, key=lambda each: each[:3])[3:]  # max() keeps the first of equals: the likeliest name


def _known(candidate: Candidate, release: ReleaseCells) -> int:
    """How many of its cells are the release's."""
    return sum(
        cell.grade_id in release.by_grade_id
        or squash(cell.text) in release.by_text
        or any(name in release.by_id for name in cell.ids)
        for cell in candidate.cells
    )


def _notes_on_choice(chosen: Candidate, submitted: SubmittedNotebooks, release: ReleaseCells) -> list[str]:
    others = [quoted(each.path) for each in submitted.candidates if each is not chosen]
    notes = []
    if chosen.path != submitted.name:
        notes.append(f"the file {quoted(chosen.path)} was read as {quoted(submitted.name)}")
    if others:
        notes.append(f"several notebooks were submitted; {quoted(chosen.path)} was read, not {', '.join(others)}")
    if chosen.cells and not _known(chosen, release):
        notes.append(f"no cell of {quoted(chosen.path)} belongs to this assignment. Is it a different notebook?")
    return notes


# ---- the cells ------------------------------------------------------------------------------------------------------
def _rebuild(cells: list[StudentCell], release: NotebookNode, originals: ReleaseCells) -> Rebuilt:
    found = match(cells, originals)
    colab = any("google.colab" in cell.text for cell in cells)
    texts = [without_colab(cell.text) if colab and cell.kind == "code" else cell.text for cell in cells]
    # An empty notebook with the release's kernelspec, whatever the student's was. Minor version 5: cells have ids.
    notebook = nbformat.v4.new_notebook(metadata=copy.deepcopy(release.metadata))
    notebook.nbformat_minor = max(5, release.get("nbformat_minor", 5))
    rebuilt = Rebuilt(notebook)
    extras = _extra_cells(cells, found, originals)
    ids = {cell.id for cell in originals.cells if cell.id}
    for r in range(-1, len(originals.cells)):
        if r >= 0:
            rebuilt.notebook.cells.append(_restored(r, texts, found, release.cells[r], originals, ids, rebuilt))
        for s in extras.get(r, ()):
            mark = NotebookNode(ckptlib=NotebookNode(extra=True))
            rebuilt.notebook.cells.append(_node(cells[s].kind, texts[s], _new_id(f"extra-{s + 1}", ids), mark))
    kept = {s for group in extras.values() for s in group}
    rebuilt.notes = _notes_on_repairs(cells, found, originals, kept)
    if any(text != cell.text for text, cell in zip(texts, cells, strict=True)):
        rebuilt.notes.append("lines that only Google Colab can run (google.colab, drive.mount) were left out")
    return rebuilt


def _node(kind: str, text: str, id: str, metadata: NotebookNode) -> NotebookNode:
    """A cell of nbformat 4.5. nbformat's own makers validate each cell: with thousands of them that takes seconds."""
    outputs: dict[str, Any] = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return NotebookNode(cell_type=kind, id=id, metadata=metadata, source=text, **outputs)


def _restored(
    r: int,
    texts: list[str],
    found: Match,
    source: NotebookNode,
    originals: ReleaseCells,
    ids: set[str],
    rebuilt: Rebuilt,
) -> NotebookNode:
    """The release's cell r; if it is an answer cell, with the student's text."""
    original = originals.cells[r]
    name = original.id or _new_id(original.label, ids)
    cell = _node(original.kind, original.text, name, copy.deepcopy(source.metadata))
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
    """Is the text empty, or a stub that defines nothing?"""
    return not text.strip() or ("raise NotImplementedError" in text and not defined(text))


def _new_id(wish: str, taken: set[str]) -> str:
    """A valid cell id that is not taken yet; it is added to `taken`."""
    base = re.sub(r"[^a-zA-Z0-9_-]", "-", wish)[:50]
    name, n = base, 1
    while name in taken:
        n += 1
        name = f"{base}-{n}"
    taken.add(name)
    return name


# ---- where the student's own cells go -------------------------------------------------------------------------------
def _extra_cells(cells: list[StudentCell], found: Match, release: ReleaseCells) -> dict[int, list[int]]:
    """Release cell (-1: the beginning) -> the student's cells that come after it, in the student's order.

    They come after the cell that they followed. Where the student had moved cells, that can be wrong, so two more rules
    apply: the later version of an answer stays the later one, and a helper stays before the cells that use it.
    """
    places: dict[int, int] = {}
    used = set(found.answer.values()) | found.copies
    here = -1
    for s, r in enumerate(found.match_of):
        if r is not None and found.first[r] == s:
            here = r
        if s not in used and cells[s].text.strip():
            place = _place(s, r, here, cells[s], found, release)
            if place is not None:
                places[s] = place
    _helpers_first(cells, places, found)
    extras: dict[int, list[int]] = {}
    for s in sorted(places):
        extras.setdefault(places[s], []).append(s)
    return extras


def _place(s: int, r: int | None, here: int, cell: StudentCell, found: Match, release: ReleaseCells) -> int | None:
    """After which release cell does the student's cell s belong? None: it adds nothing to what is restored."""
    task = found.kin[s]
    if task is not None and task in found.answer:
        return max(here, task) if s > found.answer[task] else min(here, task - 1)
    if r is None:
        return here
    original = release.cells[r]
    if squash(cell.text) == original.squashed:
        return None
    if original.role == "locked":  # only what it defines counts; its checks are the release's
        new = defined(cell.text) - defined(original.text) if cell.kind == "code" else ()
        return r - 1 if new else None
    added = {line.strip() for line in cell.text.split("\n")} - {line.strip() for line in original.text.split("\n")}
    return max(here, r) if any(added) else None


def _helpers_first(cells: list[StudentCell], places: dict[int, int], found: Match) -> None:
    """Move a cell up when a cell that followed it in the student's notebook, and uses its names, is run earlier."""
    if found.in_order:
        return
    own = {s: defined(cells[s].text) for s in places if cells[s].kind == "code"}
    helpers = frozenset().union(*own.values())
    needed: dict[str, int] = {}  # name -> the earliest place where a later cell of the student's mentions it
    ends = {s: r - 1 for r, s in found.answer.items()}
    for s in sorted(places.keys() | ends.keys(), reverse=True):
        if s in places and found.kin[s] is None:
            places[s] = min([places[s], *(needed[name] for name in own.get(s, ()) if name in needed)])
        for name in helpers & words(cells[s].text):
            place = places[s] if s in places else ends[s]
            needed[name] = min(needed.get(name, place), place)


# ---- what had happened to the student's notebook --------------------------------------------------------------------
def _notes_on_repairs(cells: list[StudentCell], found: Match, release: ReleaseCells, kept: set[int]) -> list[str]:
    """The sentences, in the release's order. `kept`: the student's cells that are run beside the release's."""
    versions = defaultdict(list)
    for s, r in enumerate(found.match_of):
        if r is not None:
            versions[r].append(s)
    texts = {cell.grade_id for cell, r in zip(cells, found.match_of, strict=True) if r is None and cell.kind != "code"}
    notes = [] if found.in_order else ["cells had been moved; they were run in the order of the assignment"]
    if found.by_text:
        notes.append("cells had lost their nbgrader metadata, so answers were found by their text")
    for r, original in enumerate(release.cells):
        if original.role == "answer":
            notes += _on_answer(r, cells, versions[r], found, release, original.grade_id in texts)
        elif original.kind == "code":
            notes += _on_edited(cells, versions[r], release, r, kept)
    lost = [repr(cell.label) for r, cell in enumerate(release.cells) if cell.role == "locked" and not versions[r]]
    if lost:
        notes.append(f"locked cells were missing and have been restored: {', '.join(lost)}")
    return notes


def _on_answer(
    r: int, cells: list[StudentCell], versions: list[int], found: Match, release: ReleaseCells, no_code: bool
) -> list[str]:
    original = release.cells[r]
    if r in found.inside:
        return [f"the answer to {original.label!r} is in the cell {release.cells[found.inside[r]].label!r}"]
    if not versions:
        why = "no longer held code" if no_code else "was missing"
        return [f"the answer cell {original.label!r} {why} and was replaced with the empty one"]
    notes = []
    if r in found.answer:
        cell = cells[found.answer[r]]
        if cell.kind != original.kind:
            notes.append(
                f"the answer cell {original.label!r} had been turned into {cell.kind} and was read as {original.kind}"
            )
        if cell.grade_id != original.grade_id and cell.grade_id in release.by_grade_id:
            notes.append(f"the answer to {original.label!r} was in the cell {cell.grade_id!r}")
    different = [s for s in versions if s not in found.copies]
    if len(different) > 1:
        versions_note = f"{len(different)} versions; all of them were run, and the last one counts"
        notes.append(f"the answer cell {original.label!r} existed in {versions_note}")
    elif len(versions) > 1:
        notes.append(f"the answer cell {original.label!r} existed {len(versions)} times; the copies were dropped")
    return notes


def _on_edited(
    cells: list[StudentCell], versions: list[int], release: ReleaseCells, r: int, kept: set[int]
) -> list[str]:
    original = release.cells[r]
    edited = [s for s in versions if squash(_as_released(cells[s].text)) != original.squashed]
    if not edited:
        return []
    if not kept.intersection(edited):
        return [f"the cell {original.label!r} had been edited and was restored"]
    order = "before" if original.role == "locked" else "after"
    return [
        f"the cell {original.label!r} had been edited. It was restored, and the student's version was run {order} it"
    ]


def _as_released(text: str) -> str:
    """The text without hidden tests, by nbgrader's rule, because an author who checks the source edited nothing."""
    kept, inside = [], False
    for line in text.split("\n") if "BEGIN HIDDEN TESTS" in text else [text]:
        inside = inside or "BEGIN HIDDEN TESTS" in line
        if not inside:
            kept.append(line)
        inside = inside and "END HIDDEN TESTS" not in line
    return "\n".join(kept)
