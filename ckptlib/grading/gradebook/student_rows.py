"""What does the gradebook hold of one student? A few rows, read and written together."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from nbgrader.api import (
    Assignment,
    BaseCell,
    Comment,
    Grade,
    GradeCell,
    Notebook,
    SolutionCell,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
)
from nbgrader.preprocessors import AssignLatePenalties, SaveAutoGrades
from sqlalchemy import select
from sqlalchemy.orm import Session


@dataclass
class Sheet:
    """A student's submission, grades and comments. Stands for the gradebook in nbgrader's own steps."""

    student: str
    submission: SubmittedAssignment
    notebook: SubmittedNotebook
    duedate: datetime.datetime | None
    grades: dict[str, Grade]
    comments: dict[str, Comment]
    # nbgrader's steps commit after every cell; a sheet is saved as a whole
    db: Any = field(default_factory=lambda: SimpleNamespace(commit=lambda: None))

    def find_grade(self, cell: str, *_: str) -> Grade:
        return self.grades[cell]

    def find_comment(self, cell: str, *_: str) -> Comment:
        return self.comments[cell]

    @property
    def score(self) -> float:
        """As nbgrader counts it: an instructor's score goes before ours, extra credit comes on top."""
        return sum(points_of(grade) + (grade.extra_credit or 0) for grade in self.grades.values())

    @property
    def seconds_late(self) -> float:
        if self.submission.timestamp is None or self.duedate is None:
            return 0
        due = self.duedate + (self.submission.extension or datetime.timedelta(0))
        return max(0, (self.submission.timestamp - due).total_seconds())


def points_of(grade: Grade) -> float:
    return grade.manual_score if grade.manual_score is not None else grade.auto_score or 0


class Sheets:
    """The sheets of one assignment. Its cells are looked up once, not for every student."""

    def __init__(self, db: Session, assignment: str):
        self.db = db
        self.assignment_id, self.duedate = db.execute(
            select(Assignment.id, Assignment.duedate).where(Assignment.name == assignment)
        ).one()
        books = db.execute(select(Notebook.id, Notebook.name).where(Notebook.assignment_id == self.assignment_id)).all()
        self.notebook_ids = [identity for identity, _ in books]
        self.notebook_id = next(identity for identity, name in books if name == assignment)
        about = select(BaseCell.id, BaseCell.name, BaseCell.type, BaseCell.notebook_id)
        self.cells = db.execute(about.where(BaseCell.notebook_id.in_(self.notebook_ids))).all()

    def of(self, student: str, timestamp: datetime.datetime | None) -> Sheet:
        """The student's sheet; an empty one, in the gradebook too, if there was none."""
        found = select(SubmittedAssignment).where(
            SubmittedAssignment.assignment_id == self.assignment_id, SubmittedAssignment.student_id == student
        )
        submission = self.db.scalars(found).one_or_none() or self._new(student)
        if timestamp is not None:
            submission.timestamp = timestamp
        here = SubmittedNotebook.assignment_id == submission.id, SubmittedNotebook.notebook_id == self.notebook_id
        notebook = self.db.scalars(select(SubmittedNotebook).where(*here)).one()
        grades, comments = self._rows(Grade, notebook), self._rows(Comment, notebook)
        return Sheet(student, submission, notebook, self.duedate, grades, comments)

    def _rows(self, kind: type[Grade] | type[Comment], notebook: SubmittedNotebook) -> dict[str, Any]:
        names = {identity: name for identity, name, _, book in self.cells if book == self.notebook_id}
        found = select(kind).where(kind.notebook_id == notebook.id, kind.cell_id.in_(names))
        return {names[row.cell_id]: row for row in self.db.scalars(found)}

    def _new(self, student: str) -> SubmittedAssignment:
        """All rows of a new submission, as nbgrader.api.Gradebook.add_submission makes them."""
        submission = SubmittedAssignment(assignment_id=self.assignment_id, student_id=student)
        self.db.add(submission)
        self.db.flush()
        books = {book: SubmittedNotebook(notebook_id=book, assignment_id=submission.id) for book in self.notebook_ids}
        self.db.add_all(books.values())
        self.db.flush()
        for identity, _, kind, book in self.cells:
            if kind != SolutionCell.__name__:
                self.db.add(Grade(cell_id=identity, notebook_id=books[book].id))
            if kind != GradeCell.__name__:
                self.db.add(Comment(cell_id=identity, notebook_id=books[book].id))
        self.db.flush()
        return submission

    def add_student(self, student: str) -> None:
        if not self.has_student(student):
            self.db.add(Student(id=student))
            self.db.flush()

    def has_student(self, student: str) -> bool:
        return self.db.scalar(select(Student.id).where(Student.id == student)) is not None

    def has_submission(self, student: str) -> bool:
        mine = SubmittedAssignment.assignment_id == self.assignment_id, SubmittedAssignment.student_id == student
        return self.db.scalar(select(SubmittedAssignment.id).where(*mine)) is not None


# ---- nbgrader's own steps, on a sheet -------------------------------------------------------------------------------
class SaveScores(SaveAutoGrades):
    """SaveAutoGrades without opening the gradebook again for every notebook."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        _on_sheet(self, resources)
        return super(SaveAutoGrades, self).preprocess(nb, resources)


class SaveLatePenalty(AssignLatePenalties):
    """AssignLatePenalties, the same; the course's own plugin decides on the penalty."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        _on_sheet(self, resources)
        sheet: Sheet = self.gradebook
        sheet.notebook.late_submission_penalty = None
        if sheet.seconds_late > 0:
            self.init_plugin()
            penalty = self.plugin_inst.late_submission_penalty(self.student_id, sheet.score, sheet.seconds_late)
            if penalty is not None:
                sheet.notebook.late_submission_penalty = self._check_late_penalty(sheet, penalty)
        return nb, resources


def _on_sheet(step: Any, resources: Any) -> None:
    about = resources["nbgrader"]
    step.notebook_id, step.assignment_id = about["notebook"], about["assignment"]
    step.student_id, step.gradebook = about["student"], about["sheet"]
