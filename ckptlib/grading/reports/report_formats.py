"""How is a report written? As text for a terminal, as CSV for each question, for Canvas or for Moodle, as JSON."""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from nbgrader.api import Gradebook
from nbgrader.plugins import ExportPlugin

from ...errors import CkptError
from ..notebooks.cell_text import printable
from .class_report import Line, Report, from_gradebook
from .similarity import Similarity

_ODD = "\N{REPLACEMENT CHARACTER}"
MOST_TOLD = 5  # messages per task in the text; all of them are in the JSON


def to_csv(report: Report) -> str:
    """A row per student: the score, then for each task its points and what was said."""
    header = [*_ABOUT, "submitted", "timestamp", "score", "max_score", "late_penalty", "flags"]
    rows = []
    for line in report.lines:
        row = [*_about(line), "yes" if line.submitted else "no", line.timestamp, line.score, report.max_score]
        row += [line.late_penalty, "; ".join(line.flags)]
        for task in report.tasks:
            answer = line.answers.get(task)
            row += [answer.points, answer.message] if answer else [None, ""]
        rows.append(row)
    columns = [name for task, most in report.tasks.items() for name in (f"{task} (of {most:g})", f"{task}: message")]
    return written([[*header, *columns], *rows])


def to_canvas(report: Report, canvas_id: str = "") -> str:
    """What Canvas's Gradebook > Import reads. Students are matched by ID (lms_user_id) or by SIS Login ID (student id).

    Without `canvas_id`, the assignment's number in Canvas, it is matched by its name, and the import offers to create
    one that does not exist. Who submitted nothing has no row, because an empty cell would delete a grade.
    """
    if canvas_id and not canvas_id.isdecimal():
        raise CkptError(
            f"{canvas_id!r} is not a number: expected the one at the end of the assignment's page in Canvas"
        )
    title = f"{report.assignment} ({canvas_id})" if canvas_id else report.assignment
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", title]
    possible = ["    Points Possible", "", "", "", "", report.max_score]
    rows = []
    for line in report.submitted:
        name = ", ".join(filter(None, [line.last_name, line.first_name])) or line.student
        rows.append([name, line.lms_id, "", line.student, "", line.score])
    return written([header, possible, *rows])


MOODLE_IDS = {"username": "student", "email": "email", "idnumber": "lms_id"}  # of Moodle's users -> of a Line


def to_moodle(report: Report, identified_by: str) -> str:
    """The file for Moodle's Grades > Import > CSV file: the student, the grade, and a comment on each task.

    Moodle gives the grade of a row without a name to the student of the row before, so such a row is refused.
    """
    rows: list[list[Any]] = [[identified_by, report.assignment, f"{report.assignment} feedback"]]
    for line in report.submitted:
        user = getattr(line, MOODLE_IDS[identified_by])
        if not user:
            raise CkptError(
                f"the gradebook has no {identified_by} of {line.student}, and Moodle would give the grade to somebody "
                f"else. Add it (nbgrader db student add), or choose another --moodle-id: {', '.join(MOODLE_IDS)}"
            )
        told = [f"{task}: {answer.message}" for task, answer in line.answers.items() if answer.message]
        rows.append([user, line.score, html.escape("\n".join(told), quote=False)])  # Moodle shows feedback as HTML
    return written(rows)


def to_json(report: Report, similarity: Similarity | None = None) -> str:
    """Everything: scores, reasons, item statistics and the similarity report."""
    found = {
        "assignment": report.assignment,
        "max_score": report.max_score,
        "mean_score": report.mean_score,
        "tasks": report.tasks,
        "students": [{**asdict(line), "score": line.score} for line in report.lines],
        "items": [
            {**asdict(item), "told": [{"message": message, "students": count} for message, count in item.told]}
            for item in report.items()
        ],
        "similarity": asdict(similarity) if similarity else None,
    }
    return json.dumps(found, indent=2) + "\n"


# ---- text -----------------------------------------------------------------------------------------------------------
def as_text(found: Report, similarity: Similarity | None) -> str:
    """`similarity`: None where no answers are kept."""
    alike = similarity or "No answers are kept in this course (.ckptlib), because they were graded elsewhere."
    problems = [f"{line.student}: {_first(line.problem)}" for line in found.lines if line.problem]
    blocks = [
        _head(found),
        _section("Could not be read", problems),
        _tasks(found),
        _section("Flagged", (f"{line.student}: {'; '.join(line.flags)}" for line in found.submitted if line.flags)),
        _section("Scores", _scores(found)),
        _section("More alike than chance explains (a reason to look, not a verdict)", str(alike).split("\n")),
    ]
    return "\n\n".join("\n".join(printable(line, _ODD) for line in block) for block in blocks if block) + "\n"


def _head(found: Report) -> list[str]:
    head = f"{found.assignment}: {len(found.submitted)} submissions of {len(found.lines)} students"
    if found.submitted:
        head += f", {found.mean_score:.2f} of {found.max_score:g} points on average"
    missing = ", ".join(line.student for line in found.lines if not line.submitted)
    return [head, f"Not handed in: {missing}"] if missing else [head]


def _section(title: str, lines: Iterable[str]) -> list[str]:
    """A title and the lines under it, or nothing if there are no lines."""
    indented = [f"  {line}" for line in lines]
    return [title, *indented] if indented else []


def _tasks(found: Report) -> list[str]:
    width = max(map(len, found.tasks), default=4)
    lines = [f"{'task':{width}}  answered  right  partly  missed  mean"]
    for item in found.items():
        counts = f"{item.answered:8}  {item.right:5}  {item.partly:6}  {item.missed:6}  {item.mean_share:4.0%}"
        told = [f"    {n} of {item.submissions} were told: {_first(message)}" for message, n in item.told]
        more = [f"    and {len(told) - MOST_TOLD} other messages"] if len(told) > MOST_TOLD else []
        lines += [f"{item.task:{width}}  {counts}", *told[:MOST_TOLD], *more]
    return lines


def _scores(found: Report) -> Iterable[str]:
    width = max((len(line.student) for line in found.submitted), default=0)
    for line in found.submitted:
        late = f", late: {line.late_penalty:g} points less" if line.late_penalty else ""
        yield f"{line.student:{width}}  {line.score:>5g} / {found.max_score:g}{late}"


def _first(message: str) -> str:
    return message.splitlines()[0]


# ---- CSV ------------------------------------------------------------------------------------------------------------
_ABOUT = ["student_id", "last_name", "first_name", "email"]


def _about(line: Line) -> list[str]:
    return [line.student, line.last_name, line.first_name, line.email]


def written(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV. Text that a spreadsheet would compute begins with an apostrophe instead.

    >>> written([["=1+1", -1, None]])
    "'=1+1,-1,\\n"
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[_cell(value) for value in row] for row in rows])
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:g}"
    if not isinstance(value, str):
        return value
    # Control characters go: a spreadsheet may skip them, and then meet the formula after them.
    clean = "".join(c if c.isprintable() or c == "\n" else " " for c in value)
    return f"'{clean}" if clean.lstrip()[:1] in ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20") else clean


class PerQuestionExporter(ExportPlugin):
    """Write a row for each student and task.

    `nbgrader export --exporter=ckptlib.grading.reports.report_formats.PerQuestionExporter`
    """

    def export(self, gradebook: Gradebook) -> None:
        wanted, students = {*map(str, self.assignment)}, {*map(str, self.student)}
        rows: list[list[Any]] = [["assignment", *_ABOUT, "task", "points", "max_points", "by_hand"]]
        for name in sorted(a.name for a in gradebook.assignments if not wanted or a.name in wanted):
            for line in from_gradebook(gradebook, name).submitted:
                if not students or line.student in students:
                    about = [name, *_about(line)]
                    rows += [
                        [*about, t, a.points, a.max_points, "yes" if a.by_hand else ""] for t, a in line.answers.items()
                    ]
        with open(self.to or "grades_per_question.csv", "w", encoding="utf-8", newline="") as file:
            file.write(written(rows))
        self.log.info("Exported %d grades", len(rows) - 1)
