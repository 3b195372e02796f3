"""Where do the student's own cells go, in a notebook that is run in the assignment's order?

After the cell that they followed. Only where the student had moved things around can that be wrong, so two more rules:
the later of two versions of an answer stays the later one, and a helper stays ahead of the cells that use it.
"""

from __future__ import annotations

from .cell_text import defined, squash, words
from .ipynb import Cell
from .matching import Match
from .release_cells import Release


def extra_cells(cells: list[Cell], found: Match, release: Release) -> dict[int, list[int]]:
    """Release cell (-1: the beginning) -> the student's cells that come after it, in the student's order."""
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


def _place(s: int, r: int | None, here: int, cell: Cell, found: Match, release: Release) -> int | None:
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


def _helpers_first(cells: list[Cell], places: dict[int, int], found: Match) -> None:
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
