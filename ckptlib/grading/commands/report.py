"""What does `ckptlib report ASSIGNMENT` do? Read the gradebook and the journal, report how it went, or export it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ...errors import CkptError
from ..gradebook.course_folders import Course
from ..gradebook.journal import Journal
from ..reports.class_report import Report, collect
from ..reports.report_formats import as_text, to_canvas, to_csv, to_json, to_moodle
from ..reports.similarity import Similarity, compare


def report(args: argparse.Namespace) -> str:
    """args: assignment, course, format (text, csv, canvas, moodle, json), canvas_id, moodle_id, output."""
    course = Course(args.course)
    found = collect(course, args.assignment, lambda text: print(f"ckptlib: {text}", file=sys.stderr))
    match args.format:
        case "csv":
            text = to_csv(found)
        case "canvas":
            text = to_canvas(found, args.canvas_id)
        case "moodle":
            text = to_moodle(found, args.moodle_id)
        case "json":
            text = to_json(found, alike(course, found))
        case _:
            text = as_text(found, alike(course, found))
    if not args.output:
        return text.rstrip("\n")
    try:
        Path(args.output).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise CkptError(f"cannot write {args.output}: {error.strerror}") from None
    return f"{len(found.lines)} students: {args.output}"


def alike(course: Course, found: Report) -> Similarity | None:
    """None where no answers are kept: then the assignment was graded elsewhere."""
    journal = Journal.existing(course.directory.root, found.assignment)
    if journal is None:
        return None
    answers = {}
    for line in found.submitted:  # one record at a time, because they hold everybody's plots
        if record := journal.answers(line.student):
            answers[line.student] = _answers(record["notebook"])
    assignment, _ = course.assignment(found.assignment)
    released, reference = _answers(assignment.release), _answers(assignment.source)
    return compare(answers, {task: [released.get(task, ""), reference.get(task, "")] for task in reference})


def _answers(notebook: dict) -> dict[str, str]:
    about = ((cell["metadata"].get("nbgrader", {}), cell) for cell in notebook["cells"])
    return {
        its["grade_id"]: cell["source"] for its, cell in about if its.get("solution") and cell["cell_type"] == "code"
    }
