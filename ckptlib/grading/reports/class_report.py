"""How did the class do? Scores from nbgrader's gradebook, task by task, with the reasons that the journal keeps."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from nbgrader import api
from sqlalchemy.engine import make_url

from ...errors import CkptError
from ..gradebook.course_folders import Course
from ..gradebook.gradebook import OneGradebook
from ..gradebook.journal import Journal


@dataclass
class Answer:
    """One student's answer to one task. `points` as they count: by hand where that was done, extra credit included."""

    points: float
    max_points: float
    by_hand: bool = False
    answered: bool = True
    message: str = ""
    missed: list[str] = field(default_factory=list)  # the ideas, one per part that was missed


@dataclass
class Line:
    """One student. Without a submission there are no answers and no score."""

    student: str
    last_name: str = ""
    first_name: str = ""
    email: str = ""
    lms_id: str = ""
    submitted: bool = False
    timestamp: str = ""
    late_penalty: float = 0
    answers: dict[str, Answer] = field(default_factory=dict)
    problem: str = ""  # why the submission as a whole could not be graded
    flags: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def score(self) -> float | None:
        if not self.submitted:
            return None
        return round(max(0.0, sum(answer.points for answer in self.answers.values()) - self.late_penalty), 6)


@dataclass(frozen=True)
class Item:
    """How one task went. `told`: each message and how many students got it, the most frequent first."""

    task: str
    submissions: int
    answered: int
    right: int
    partly: int
    missed: int
    mean_share: float
    told: list[tuple[str, int]]


@dataclass
class Report:
    """One assignment: its tasks with their points, and a line per student of the course."""

    assignment: str
    tasks: dict[str, float]
    lines: list[Line]

    @property
    def max_score(self) -> float:
        return round(sum(self.tasks.values()), 6)

    @property
    def submitted(self) -> list[Line]:
        return [line for line in self.lines if line.submitted]

    @property
    def mean_score(self) -> float:
        scores = [line.score for line in self.lines if line.score is not None]
        return fmean(scores) if scores else 0.0

    def items(self) -> list[Item]:
        return [self._item(task) for task in self.tasks]

    def _item(self, task: str) -> Item:
        having = [line for line in self.submitted if task in line.answers]
        answers = [line.answers[task] for line in having]
        right = sum(answer.points >= answer.max_points for answer in answers)
        missed = sum(answer.points <= 0 < answer.max_points for answer in answers)
        shares = [answer.points / answer.max_points for answer in answers if answer.max_points]
        # A file that cannot be read is not an idea that was missed.
        read = [line.answers[task] for line in having if not line.problem]
        told = frequent(dict.fromkeys(answer.missed or filter(None, [answer.message])) for answer in read)
        return Item(
            task=task,
            submissions=len(answers),
            answered=sum(answer.answered for answer in answers),
            right=right,
            partly=len(answers) - right - missed,
            missed=missed,
            mean_share=fmean(shares) if shares else 0.0,
            told=told,
        )


def frequent(messages: Iterable[Iterable[str]]) -> list[tuple[str, int]]:
    """How many students got each message. Those that differ only in numbers count as one, in its most frequent form.

    >>> frequent([["4,096 is not right"], ["17 is not right"], ["all zeros"]])
    [('4,096 is not right', 2), ('all zeros', 1)]
    """
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for student in messages:
        for message in student:
            groups[re.sub(r"\d[\d,.]*", "#", message)][message] += 1
    told = [(group.most_common(1)[0][0], group.total()) for group in groups.values()]
    return sorted(told, key=lambda each: -each[1])


# ---- where it comes from --------------------------------------------------------------------------------------------
def collect(course: Course, assignment: str, tell: Callable[[str], None] = print) -> Report:
    """Read the gradebook, wherever the course keeps it, and add what the journal knows. `tell`: of having to wait."""
    url = course.directory.db_url
    file = make_url(url).database if make_url(url).get_backend_name() == "sqlite" else None
    if file and not Path(file).exists():
        raise CkptError(f"there is no gradebook at {file}. Grade first (ckptlib grade {assignment})")
    with OneGradebook(url, course.directory.course_id, tell) as gradebook:
        report = gradebook.when_unlocked(lambda: from_gradebook(gradebook, assignment))
    report.tasks = _in_order(report.tasks, course, assignment)
    if journal := Journal.existing(course.directory.root, assignment):
        _add_reasons(report, journal)
    return report


def _in_order(tasks: dict[str, float], course: Course, assignment: str) -> dict[str, float]:
    """The gradebook does not keep the order of its cells; the source does, where it is available."""
    try:
        cells = course.assignment(assignment)[0].source.cells
    except CkptError:
        return tasks
    names = [_task(cell.metadata.get("nbgrader", {}).get("grade_id", "")) for cell in cells]
    known = [name for name in dict.fromkeys(names) if name in tasks]
    return {name: tasks[name] for name in [*known, *(name for name in tasks if name not in known)]}


def from_gradebook(gradebook: api.Gradebook, assignment: str) -> Report:
    try:
        found = gradebook.find_assignment(assignment)
    except api.MissingEntry:
        known = ", ".join(sorted(a.name for a in gradebook.assignments)) or "none"
        raise CkptError(f"the gradebook has no assignment {assignment!r}, only: {known}. Has it been graded?") from None
    cells = [cell for notebook in found.notebooks for cell in (*notebook.grade_cells, *notebook.task_cells)]
    tasks = {_task(cell.name): cell.max_score or 0.0 for cell in sorted(cells, key=lambda cell: cell.name)}
    lines = {}
    for s in gradebook.students:
        lines[s.id] = Line(s.id, s.last_name or "", s.first_name or "", s.email or "", s.lms_user_id or "")
    for submission in found.submissions:
        line = lines[submission.student_id]
        line.submitted, line.timestamp = True, str(submission.timestamp or "")
        line.late_penalty = submission.late_submission_penalty or 0.0
    for student, name, points, most, manual in _grades(gradebook, found):
        lines[student].answers[_task(name)] = Answer(points, most, manual is not None)
    return Report(assignment, tasks, [lines[student] for student in sorted(lines)])


def _grades(gradebook: api.Gradebook, assignment: api.Assignment) -> list[Any]:
    """All grades of an assignment in one query; one by one they take a minute for a large class."""
    grade, cell, notebook, submission = api.Grade, api.BaseCell, api.SubmittedNotebook, api.SubmittedAssignment
    wanted = (submission.student_id, cell.name, grade.score, grade.max_score, grade.manual_score)
    query = gradebook.db.query(*wanted).select_from(grade).join(cell, grade.cell_id == cell.id)
    query = query.join(notebook, grade.notebook_id == notebook.id)
    query = query.join(submission, notebook.assignment_id == submission.id)
    return query.filter(submission.assignment_id == assignment.id).all()


def _task(grade_id: str) -> str:
    return grade_id.removeprefix("check-")


def _add_reasons(report: Report, journal: Journal) -> None:
    for line in report.submitted:
        result, record = journal.graded(line.student) or {}, journal.answers(line.student) or {}
        line.flags, line.notes = result.get("flags", []), result.get("notes", [])
        line.problem = result.get("problem", "")
        for task in result.get("tasks", []):
            if answer := line.answers.get(task["name"]):
                answer.message, answer.missed = task["message"], task["missed"]
                answer.answered = bool(record.get("answered", {}).get(task["name"], True))
