"""What does a student get back? One HTML page: points, sections to read again, and the notebook as it was run.

    pages = Pages(assignment.release)     # once per assignment, because it renders the text and compiles the template
    html = pages.page(result, record)     # once per student; takes a few milliseconds

The page is one file that loads nothing from the network and runs no script. Everything that students wrote or printed
is shown as text or images. Locked cells are shown as they were released, so that no hidden test appears.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape
from nbconvert.filters.ansi import ansi2html, strip_ansi

from ..one_submission.scoring import Result, TaskScore
from ..safe_outputs import sanitise
from . import text_html

PAGE_ROOM = 30 * 2**20  # bytes of outputs on one page
MOST_COLOURS = 400  # changes of colour in one output
WAITING = "to be graded by hand"  # a message


class Pages:
    """The pages of one assignment. `release` is the released notebook (nbformat v4)."""

    def __init__(self, release: Any):
        self.title = text_html.first_heading(release.cells) or "Feedback"
        self.cells = release.cells
        named = ((at, (cell.get("id"), _about(cell).get("grade_id"))) for at, cell in enumerate(self.cells))
        self.index = {key: at for at, keys in named for key in keys if key}
        self.text = {at: _text(cell) for at, cell in enumerate(self.cells) if cell.cell_type != "code"}
        loader = PackageLoader("ckptlib.grading.feedback", ".")
        environment = Environment(loader=loader, autoescape=True, trim_blocks=True)
        environment.filters.update(points=points, message=message, clean=sanitise.text)
        self.template = environment.get_template("feedback.html.j2")

    def page(self, result: Result, record: dict) -> str:
        """One student's page, as HTML text for a UTF-8 file. record: as `grade_one` returned it, or {}."""
        anchors = {task.name: self._place(task.name) for task in result.tasks}
        return self.template.render(
            title=self.title,
            result=result,
            anchors={name: f"task-{place}" for name, place in anchors.items() if place is not None},
            grade=_grade,
            late=duration(result.late_seconds),
            blocks=list(self._blocks(result, record, anchors)),
        )

    def _place(self, task: str) -> int | None:
        """Where a task begins: at the heading before its grade cell, or else at its answer."""
        check = self.index.get(f"check-{task}", self.index.get(task))
        place = check
        for at in range((check or 0) - 1, -1, -1):
            about = _about(self.cells[at])
            if about.get("grade") and not about.get("solution"):
                break
            if about.get("solution"):
                place = at
            if self.cells[at].cell_type == "markdown" and self.cells[at].source.lstrip().startswith("#"):
                return at
        return place

    def _blocks(self, result: Result, record: dict, anchors: dict[str, int | None]) -> Iterator[dict]:
        """The notebook, cell by cell, in the form that the template needs."""
        own, added = self._placed((record.get("notebook") or {"cells": []})["cells"])
        ran = record.get("cells", {})
        checked = {self.index.get(f"check-{task.name}", self.index.get(task.name)): task for task in result.tasks}
        room = PAGE_ROOM
        for at in range(-1, len(self.cells)):
            if at >= 0:
                block = self._block(at, own.get(at), ran, room)
                room -= block.pop("nbytes", 0)
                yield {**block, "at": at, "begins": at in anchors.values(), "task": checked.get(at)}
            for cell in added.get(at, ()):
                block = _as_run(cell, "your cell", ran, room)
                room -= block.pop("nbytes", 0)
                yield block

    def _placed(self, cells: Sequence[dict]) -> tuple[dict[int, dict], dict[int, list[dict]]]:
        """Cells of the release by their place there; the others by the place of the cell before them."""
        own: dict[int, dict] = {}
        added: dict[int, list[dict]] = {}
        last = -1
        for cell in cells:
            at = self.index.get(cell["id"])
            if at is None or at in own:
                added.setdefault(last, []).append(cell)
            else:
                own[at], last = cell, at
        return own, added

    def _block(self, at: int, cell: dict | None, ran: dict, room: int) -> dict:
        """A cell of the release, with the student's text (from `cell`) unless it is locked or was not changed."""
        released, about = self.cells[at], _about(self.cells[at])
        label = "your answer" if about.get("solution") else "check" if about.get("grade") else ""
        locked = about.get("locked") and not about.get("solution")
        if cell is None or locked or cell["source"] == released.source:
            if released.cell_type != "code":
                return {"text": self.text[at]}
            block = {} if cell is None else _as_run(cell, label, ran, room)
            return {**block, "label": label, "code": released.source}
        return _as_run(cell | {"cell_type": released.cell_type}, label, ran, room)


_STATUS = {
    "timeout": "This cell took too long and was interrupted.",
    "died": "This cell ended the kernel. The other cells were run again without it.",
    "skipped": "This cell was not run.",
}


def _as_run(cell: dict, label: str, ran: dict, room: int) -> dict:
    """A cell with the student's text. "nbytes" is the part of `room` that its outputs take up."""
    if cell["cell_type"] != "code":
        return {"label": label, "words": cell["source"]}
    found = ran.get(cell["id"], {})
    safe = sanitise.outputs(found.get("outputs", ()), min(room, sanitise.ROOM))
    block = {"label": label, "code": cell["source"], "status": _STATUS.get(found.get("status", "ok"))}
    return block | {"outputs": [_output(output) for output in safe], "nbytes": sum(map(sanitise.nbytes, safe))}


def _output(output: dict) -> dict:
    match output["output_type"]:
        case "stream":
            return {"kind": output["name"], "text": _coloured(output["text"])}
        case "error":
            said = "\n".join(output["traceback"]) or f"{output['ename']}: {output['evalue']}"
            return {"kind": "error", "text": _coloured(said)}
    data = output["data"]
    for mime in ("image/png", "image/jpeg"):
        if mime in data:
            alt = data.get("text/plain", "")[:200] or "image"
            image = Markup('<img alt="{}" src="data:{};base64,{}">').format(alt, mime, data[mime])
            return {"kind": "image", "image": image}
    return {"kind": "result", "text": _coloured(data["text/plain"])}


def _coloured(text: str) -> Markup:
    """Text with its colours; without them where there are very many, because each copies the rest of the text."""
    if text.count("\x1b") > MOST_COLOURS:
        text = strip_ansi(text).replace("\x1b", "")  # an escape inside of an escape leaves one
    return Markup(ansi2html(text))


def _about(cell: Any) -> dict:
    return cell.metadata.get("nbgrader", {})


def _text(cell: Any) -> Markup:
    if cell.cell_type != "markdown":
        return Markup("")
    return Markup(text_html.to_html(cell.source, cell.get("attachments"), deeper=2))


def _grade(task: TaskScore) -> str:
    """The word beside the colour."""
    if task.message == WAITING:
        return "waiting"
    return "right" if task.points >= task.max_points else "partly" if task.points > 0 else "missed"


# ---- words and numbers ----------------------------------------------------------------------------------------------
def message(text: str) -> Markup:
    """A sentence, with `names` set as code; everything else is escaped."""
    escaped = str(escape(sanitise.text(text, 4000)))
    return Markup(re.sub(r"`([^`\n]{1,200})`", r"<code>\1</code>", escaped))


def points(number: float) -> str:
    """
    >>> points(1.5), points(2.0)
    ('1.5', '2')
    """
    return f"{round(number, 2):g}"


def duration(seconds: float) -> str:
    """
    >>> duration(93_780)
    '1 d 2 h 3 min'
    """
    minutes = int(seconds // 60)
    parts = (minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "min")
    return " ".join(f"{number} {unit}" for number, unit in parts if number)
