"""How do scores leave the course? As CSV question by question, as Canvas's gradebook import wants them, as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from nbgrader.api import Gradebook
from nbgrader.plugins import ExportPlugin

from .class_report import Line, Report, from_gradebook
from .similarity import Similarity


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

    Without `canvas_id`, the assignment's number in Canvas, the import offers to create the assignment. Who submitted
    nothing keeps an empty cell.
    """
    title = f"{report.assignment} ({canvas_id})" if canvas_id else report.assignment
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", title]
    possible = ["    Points Possible", "", "", "", "", report.max_score]
    rows = [[_canvas_name(line), line.lms_id, "", line.student, "", line.score] for line in report.lines]
    return written([header, possible, *rows])


def _canvas_name(line: Line) -> str:
    return ", ".join(filter(None, [line.last_name, line.first_name])) or line.student


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
    # Control characters go: a spreadsheet may skip them, and then meet the formula behind them.
    plain = "".join(c if c.isprintable() or c == "\n" else " " for c in value)
    return f"'{plain}" if plain.lstrip()[:1] in ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20") else plain


class PerQuestionExporter(ExportPlugin):
    """A row per student and task: `nbgrader export --exporter=ckptlib.grading.reports.export.PerQuestionExporter`."""

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
