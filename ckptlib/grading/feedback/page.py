"""What does a student get back? One HTML page: points, what to read again, and the notebook as it was run.

    pages = Pages(assignment.release)                      # once per assignment: text rendered, template compiled
    html = pages.page(Feedback("ada", tasks, cells))       # once per student, a few milliseconds

The page is one file that asks the network for nothing and runs no script. What students wrote or printed is shown as
text and images; locked cells are shown as released, whatever was run in their place, so that no hidden test appears.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape
from nbconvert.filters.ansi import ansi2html

from ..safe import sanitise
from . import text_html

PAGE_ROOM = 30 * 2**20  # bytes of outputs on one page
WAITING = "to be graded by hand"  # a message


@dataclass(frozen=True)
class TaskResult:
    """One row of the table. `points` is what counts: the manual score where there is one."""

    name: str  # the task's name in tasks.py; its grade cell is called check-<name>
    points: float
    max_points: float
    message: str = ""  # the verdict's; "" if right
    section: str = ""  # of the book, such as "1.4"
    comment: str = ""  # written by an instructor (the gradebook's manual comment)
    by_hand: bool = False  # whether `points` is a manual score
    extra_credit: float = 0


@dataclass(frozen=True)
class CellResult:
    """A cell as it was run, or an answer in words. Cells of the release that are not among them: as released."""

    id: str  # the release's cell id; any other: a cell that the student added
    source: str  # as it was run; of a locked cell the release's is shown
    outputs: Sequence[Any] = ()  # nbformat v4, straight from the kernel or sanitised
    status: str = "ok"  # ok, error, timeout, died, skipped
    cell_type: str = "code"


@dataclass(frozen=True)
class Feedback:
    """All that one student's page is made of. Everything in it is escaped."""

    student: str
    tasks: Sequence[TaskResult]
    cells: Sequence[CellResult] = ()
    notes: Sequence[str] = ()  # what reassembly and the run tell: "cell 'ledger' ran longer than 20 s"
    flags: Sequence[str] = ()  # what an instructor will look at: "this kernel was tampered with"
    late_penalty: float = 0  # points, as nbgrader's late_submission_penalty
    late_seconds: float = 0

    @property
    def score(self) -> float:
        return max(0.0, sum(task.points + task.extra_credit for task in self.tasks) - self.late_penalty)

    @property
    def max_score(self) -> float:
        return sum(task.max_points for task in self.tasks)


class Pages:
    """The pages of one assignment. `release` is the released notebook (nbformat v4); `title`: its first heading."""

    def __init__(self, release: Any, title: str = ""):
        self.title = title or text_html.first_heading(release.cells) or "Feedback"
        self.cells = release.cells
        self.index = {key: at for at, cell in enumerate(self.cells) for key in _keys(cell)}
        self.text = {at: _text(cell) for at, cell in enumerate(self.cells) if cell.cell_type != "code"}
        loader = PackageLoader("ckptlib.grading.feedback", ".")
        environment = Environment(loader=loader, autoescape=True, trim_blocks=True)
        environment.filters.update(points=points, message=message, clean=sanitise.text)
        self.template = environment.get_template("feedback.html.j2")

    def page(self, feedback: Feedback) -> str:
        """One student's page, as HTML text for a UTF-8 file."""
        anchors = {task.name: self._place(task.name) for task in feedback.tasks}
        return self.template.render(
            title=self.title,
            feedback=feedback,
            anchors={name: f"task-{place}" for name, place in anchors.items() if place is not None},
            grade=_grade,
            late=duration(feedback.late_seconds),
            blocks=list(self._blocks(feedback, anchors)),
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

    def _blocks(self, feedback: Feedback, anchors: dict[str, int | None]) -> Iterator[dict]:
        """The notebook, cell by cell: what the template needs of each."""
        run, added = self._placed(feedback.cells)
        checked = {self.index.get(f"check-{task.name}", self.index.get(task.name)): task for task in feedback.tasks}
        room = PAGE_ROOM
        for at in range(-1, len(self.cells)):
            if at >= 0:
                block, room = self._block(at, run.get(at), room)
                yield {**block, "at": at, "begins": at in anchors.values(), "task": checked.get(at)}
            for cell in added.get(at, ()):
                block, room = _as_run(cell, "your cell", room)
                yield block

    def _placed(self, cells: Sequence[CellResult]) -> tuple[dict[int, CellResult], dict[int, list[CellResult]]]:
        """Cells of the release by their place there; the others by the place of the cell before them."""
        run: dict[int, CellResult] = {}
        added: dict[int, list[CellResult]] = {}
        last = -1
        for cell in cells:
            at = self.index.get(cell.id)
            if at is None or at in run:
                added.setdefault(last, []).append(cell)
            else:
                run[at], last = cell, at
        return run, added

    def _block(self, at: int, cell: CellResult | None, room: int) -> tuple[dict, int]:
        """A cell of the release: its own text where that is trusted or the only one, the student's elsewhere."""
        released, about = self.cells[at], _about(self.cells[at])
        answer, locked = bool(about.get("solution")), bool(about.get("locked")) and not about.get("solution")
        label = "your answer" if answer else "check" if about.get("grade") else ""
        changed = cell is not None and not locked and cell.source != released.source
        if released.cell_type != "code":
            if cell is not None and changed:
                return {"label": label, "words": cell.source}, room
            return {"text": self.text[at]}, room
        if cell is None:
            return {"label": label, "code": released.source}, room
        block, room = _as_run(cell, label, room)
        return block if changed else {**block, "code": released.source}, room


_STATUS = {
    "timeout": "This cell took too long and was interrupted.",
    "died": "This cell ended the kernel. The others were run again without it.",
    "skipped": "This cell was not run.",
}


def _as_run(cell: CellResult, label: str, room: int) -> tuple[dict, int]:
    if cell.cell_type != "code":
        return {"label": label, "words": cell.source}, room
    outputs, room = _outputs(cell.outputs, room)
    return {
        "label": label,
        "code": cell.source,
        "outputs": outputs,
        "status": _STATUS.get(cell.status),
    }, room


def _outputs(found: Sequence[Any], room: int) -> tuple[list[dict], int]:
    """What the template shows of each output, and the bytes of `room` that are left for other cells."""
    safe = sanitise.outputs(found, min(room, sanitise.ROOM))
    return [_output(output) for output in safe], room - sum(map(sanitise.nbytes, safe))


def _output(output: dict) -> dict:
    match output["output_type"]:
        case "stream":
            return {"kind": output["name"], "text": Markup(ansi2html(output["text"]))}
        case "error":
            said = "\n".join(output["traceback"]) or f"{output['ename']}: {output['evalue']}"
            return {"kind": "error", "text": Markup(ansi2html(said))}
    data = output["data"]
    for mime in ("image/png", "image/jpeg"):
        if mime in data:
            alt = data.get("text/plain", "")[:200] or "image"
            image = Markup('<img alt="{}" src="data:{};base64,{}">').format(alt, mime, data[mime])
            return {"kind": "image", "image": image}
    return {"kind": "result", "text": Markup(ansi2html(data["text/plain"]))}


def _keys(cell: Any) -> set[str]:
    return {key for key in (cell.get("id"), _about(cell).get("grade_id")) if key}


def _about(cell: Any) -> dict:
    return cell.metadata.get("nbgrader", {})


def _text(cell: Any) -> Markup:
    return Markup(
        text_html.to_html(cell.source, cell.get("attachments"), deeper=2) if cell.cell_type == "markdown" else ""
    )


def _grade(task: TaskResult) -> str:
    """The word beside the colour."""
    if task.message == WAITING:
        return "waiting"
    return "right" if task.points >= task.max_points else "partly" if task.points > 0 else "missed"


# ---- words and numbers ----------------------------------------------------------------------------------------------
def message(text: str) -> Markup:
    """A sentence, with `names` set as code; everything else is escaped."""
    plain = str(escape(sanitise.text(text, 4000)))
    return Markup(re.sub(r"`([^`\n]{1,200})`", r"<code>\1</code>", plain))


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
