"""What does `ckptlib grade ASSIGNMENT` do? Grade everything that was submitted, show progress, print a table."""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from contextlib import closing
from typing import TYPE_CHECKING

from ...errors import CkptError
from ..notebooks.cell_text import printable
from ..whole_class.executors import Cluster, Pool

if TYPE_CHECKING:
    from ..assignment.assignment import Assignment
    from ..gradebook.course_folders import Course
    from ..one_submission.scoring import Result

REASON = 100  # characters of a reason in the table; JSON and the feedback have all of it


def skip_grammars() -> None:
    """In a command's own process, before nbformat is imported: jsonschema works without its grammars of internet
    addresses, which take two seconds to import and which no notebook needs.
    """
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # how Python marks a missing module


def grade(args: argparse.Namespace) -> tuple[str, int]:
    """args: assignment, course, workers, cluster, student, resume, fresh, json. -> text, exit code."""
    skip_grammars()
    try:
        results, kernels = _results(args)
    except KeyboardInterrupt:
        raise CkptError("interrupted. Nothing is lost: run the same command again") from None
    code = 1 if any(result.failed for result in results) else 0
    if args.json:
        found = {"assignment": args.assignment, "submissions": [result.as_json() for result in results]}
        return json.dumps(found | {"kernels": kernels}, indent=2), code
    return table(results), code


def _results(args: argparse.Namespace) -> tuple[list[Result], int]:
    # Before all else, because this process imports torch while the warm process does.
    with closing(Cluster(args.cluster) if args.cluster else Pool(args.workers or _cores())) as workers:
        from ..gradebook.course_folders import Course
        from ..gradebook.journal import Journal, locked

        course = Course(args.course)
        assignment, remark = course.assignment(args.assignment)
        if remark:
            print(f"ckptlib: {remark}", file=sys.stderr)
        students = _students(course, args.assignment, args.student)
        with locked(course.private):
            if args.fresh:  # all of them now, so that --resume finds no record from before this run
                journal = Journal(course.private / assignment.name)
                for student in students:
                    journal.forget(student)
            try:
                return _grade(course, assignment, students, workers, args)
            except KeyboardInterrupt:
                how = "--resume in place of --fresh" if args.fresh else "--resume"
                raise CkptError(f"interrupted. Nothing is lost: the same command with {how} grades the rest") from None


def _students(course: Course, assignment: str, only: str | None) -> list[str]:
    students = course.students(assignment)
    where = course.path("submitted", "STUDENT", assignment)
    if not students:
        raise CkptError(f"nothing was submitted for {assignment}: expected {where}")
    if only is not None and only not in students:
        others = textwrap.shorten(", ".join(students), 200)
        raise CkptError(f"{only!r} has not submitted {assignment}. Submitted by: {others}")
    return students if only is None else [only]


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


def _grade(
    course: Course, assignment: Assignment, students: list[str], workers: Pool | Cluster, args: argparse.Namespace
) -> tuple[list[Result], int]:
    """The results, by student, and how many kernels it took."""
    from tqdm import tqdm

    from ..gradebook.gradebook import OneGradebook
    from ..whole_class.grade_class import Coordinator
    from ..whole_class.nbgrader_autograde import VerdictAutograde

    tqdm.monitor_interval = 0  # its thread would be alive when workers are forked
    with tqdm(total=len(students), desc=assignment.name, unit="submission", file=sys.stderr) as bar:

        def tell(text: str) -> None:
            bar.write(f"ckptlib: {text}", file=sys.stderr)

        with OneGradebook(course.directory.db_url, course.directory.course_id, tell) as gradebook:
            gradebook.enter(assignment)
            autograde = VerdictAutograde(course, assignment, gradebook)
            how = {"limits": course.limits, "resume": args.resume, "tell": tell}
            coordinator, results = Coordinator(course, assignment, workers, autograde, **how), []
            for result in coordinator.grade(students):
                results.append(result)
                bar.update()
    return sorted(results, key=lambda result: result.student), coordinator.kernels


def table(results: list[Result]) -> str:
    """student, score, reason: one line each."""
    rows = [("student", "score", "reason")]
    for each in results:
        reason = textwrap.shorten(printable(each.reason, " "), REASON, placeholder=" …")
        rows.append((printable(each.student, " "), f"{each.score:g} / {each.max_score:g}", reason))
    wide, middle = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = [f"{name:<{wide}}  {points:>{middle}}  {reason}".rstrip() for name, points, reason in rows]
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)
