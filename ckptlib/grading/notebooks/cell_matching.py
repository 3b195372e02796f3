"""Which cell of the assignment is each of the student's cells?

By nbgrader's grade_id, then by the cell's id, then by its text; but a cell that defines what another task asks for
is that task's answer, whatever its metadata says. All lookups use tables, so the time is linear in the text.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

from .cell_text import defined, lines, parse, read, squash, words
from .file_formats import StudentCell
from .release_cells import ReleaseCells


@dataclass
class Match:
    """`match_of[s]`: what the student's cell s is a version of. `answer[r]`: the cell that answers r.

    `inside[r]`: r has no cell of its own, its names are defined in the answer to that other task.
    `kin[s]`: the task whose answer s also is, or tries to be. `copies`: cells that add nothing.
    """

    match_of: list[int | None]
    kin: list[int | None]
    answer: dict[int, int] = field(default_factory=dict)
    inside: dict[int, int] = field(default_factory=dict)
    copies: set[int] = field(default_factory=set)
    by_text: bool = False  # was an answer found by its text alone?

    @cached_property
    def first(self) -> dict[int, int]:
        """Release cell -> the student's cell that stands for it: where the student's next cells belong."""
        found = {r: s for s, r in reversed(list(enumerate(self.match_of))) if r is not None}
        return found | self.answer

    @property
    def in_order(self) -> bool:
        places = [self.first[r] for r in sorted(self.first)]
        return places == sorted(places)


def match(cells: list[StudentCell], release: ReleaseCells) -> Match:
    names = [_names(cell, release) for cell in cells]
    asked = [sorted({release.asked[name] for name in found & release.asked.keys()}) for found in names]
    match_of = [_match_by_metadata(cell, wanted, release) for cell, wanted in zip(cells, asked, strict=True)]
    _by_text(cells, match_of, release)
    pairs = zip(match_of, asked, strict=True)
    kin = [r if r in release.answers else wanted[0] if wanted else None for r, wanted in pairs]
    result = Match(match_of, kin)
    _drop_copies(cells, result, release)
    _choose(cells, asked, result)
    _by_place(cells, result, release)
    versions = {s: r for s, r in enumerate(result.kin) if r is not None and s not in result.copies}
    defining = {name: r for s, r in versions.items() if r in result.answer for name in names[s]}
    for name, r in release.asked.items():
        if r not in result.answer and name in defining:
            result.inside[r] = defining[name]
    return result


def _names(cell: StudentCell, release: ReleaseCells) -> frozenset[str]:
    if release.asked.keys().isdisjoint(words(cell.text)):
        return frozenset()  # parsing takes far longer than this look
    return defined(cell.text) if cell.kind == "code" or parse(cell.text) else frozenset()


def _match_by_metadata(cell: StudentCell, wanted: list[int], release: ReleaseCells) -> int | None:
    """Match by metadata, unless the names that the text defines say otherwise."""
    ids = (release.by_id[name] for name in cell.ids if name in release.by_id)
    r = release.by_grade_id[cell.grade_id] if cell.grade_id in release.by_grade_id else next(ids, None)
    text = squash(cell.text)
    if r is None or text == release.cells[r].squashed:
        return r
    if text in release.by_text and r not in wanted:
        return None  # exactly the text of another cell of the release: _by_text finds it
    if wanted and r not in wanted and (r not in release.answers or r in release.asked.values()):
        return wanted[0]
    no_code = r in release.answers and release.cells[r].kind == "code" and cell.kind != "code" and not parse(cell.text)
    return None if no_code else r


def _by_text(cells: list[StudentCell], match_of: list[int | None], release: ReleaseCells) -> None:
    """Match cells that lost their metadata but have unchanged text. Equal texts are matched in order."""
    taken: Counter[str] = Counter()
    for s, cell in enumerate(cells):
        twins = release.by_text.get(squash(cell.text), []) if match_of[s] is None else []
        if twins:
            text = release.cells[twins[0]].squashed
            match_of[s] = twins[min(taken[text], len(twins) - 1)]
            taken[text] += 1


def _drop_copies(cells: list[StudentCell], result: Match, release: ReleaseCells) -> None:
    """A cell adds nothing if it is the stub, or repeats its task's version before it with the same result."""
    kept: dict[int, int] = {}  # the newest version
    seen: dict[int, int] = {}  # that version or its newest copy: the cells between the two changed nothing
    for s, r in enumerate(result.kin):
        if r is None:
            continue
        text = squash(cells[s].text)
        if not text or text == release.cells[r].squashed:
            result.copies.add(s)
            continue
        again = r in kept and text == squash(cells[kept[r]].text)
        if again and not _changed(cells[seen[r] + 1 : s], text):
            result.copies.add(s)
            if result.match_of[s] == r:
                result.match_of[kept[r]] = r
        else:
            kept[r] = s
        seen[r] = s


def _changed(between: list[StudentCell], text: str) -> bool:
    """Do these cells define what the text reads while it runs? Then it may fail before them, and not after."""
    needed = read(text)
    return any(not needed.isdisjoint(words(cell.text)) and needed & defined(cell.text) for cell in between)


def _choose(cells: list[StudentCell], asked: list[list[int]], result: Match) -> None:
    """The first version of an answer stands in its cell; a task without one takes the first cell with its names."""
    for s, r in enumerate(result.match_of):
        if r is not None and result.kin[s] == r and s not in result.copies:
            result.answer.setdefault(r, s)
    for s in range(len(cells)):
        open_tasks = [r for r in asked[s] if r not in result.answer]
        if result.match_of[s] is None and s not in result.copies and open_tasks:
            _settle(s, open_tasks[0], result)


def _by_place(cells: list[StudentCell], result: Match, release: ReleaseCells) -> None:
    """Last resort: half of the stub's own lines are there; or, if it defines nothing, its place between neighbours."""
    lost = release.answers.keys() - result.answer.keys()
    own = Counter(release.by_line.values())
    kinds = [cell.kind for cell in release.cells]
    for s, cell in enumerate(cells):
        if lost and _unmatched(s, cell, result):
            common = Counter(release.by_line[line] for line in lines(cell.text) & release.by_line.keys())
            likely = [r for r in sorted(lost & common.keys()) if 2 * common[r] >= own[r] and cell.kind == kinds[r]]
            if likely:
                best = max(likely, key=lambda r: common[r])
                _settle(s, best, result)
                lost.discard(best)
    at = {r: s for s, r in enumerate(result.match_of) if r is not None}
    for r in sorted(lost - at.keys() - set(release.asked.values())):
        for s in (at.get(r - 1, -2) + 1, at.get(r + 1, -1) - 1):
            if 0 <= s < len(cells) and _unmatched(s, cells[s], result) and cells[s].kind == kinds[r]:
                _settle(s, r, result)
                break


def _unmatched(s: int, cell: StudentCell, result: Match) -> bool:
    return result.match_of[s] is None and result.kin[s] is None and bool(cell.text.strip())


def _settle(s: int, r: int, result: Match) -> None:
    result.match_of[s] = result.kin[s] = r
    result.answer[r] = s
    result.by_text = True
