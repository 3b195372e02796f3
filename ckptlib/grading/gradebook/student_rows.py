"""What does the gradebook hold about one student? A few rows, read and written together."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from nbgrader import api
from nbgrader.preprocessors import SaveAutoGrades
from sqlalchemy import select
from sqlalchemy.orm import Session


@dataclass
class Sheet:
    """A student's submission, grades and comments. nbgrader's own steps use it in place of the gradebook."""

    student: str
    submission: api.SubmittedAssignment
    notebook: api.SubmittedNotebook
    duedate: datetime.datetime | None
    grades: dict[str, api.Grade]
    comments: dict[str, api.Comment]
    # nbgrader's steps commit after every cell; a sheet is saved as a whole
    db: Any = field(default_factory=lambda: SimpleNamespace(commit=lambda: None))

    def find_grade(self, cell: str, *_: str) -> api.Grade:
        return self.grades[cell]

    def find_comment(self, cell: str, *_: str) -> api.Comment:
        return self.comments[cell]

    @property
    def score(self) -> float:
        """As nbgrader counts it: an instructor's score replaces ours, and extra credit is added."""
        return sum(points_of(grade) + (grade.extra_credit or 0) for grade in self.grades.values())

    @property
    def seconds_late(self) -> float:
        if self.submission.timestamp is None or self.duedate is None:
            return 0
        due = self.duedate + (self.submission.extension or datetime.timedelta(0))
        return max(0, (self.submission.timestamp - due).total_seconds())


def points_of(grade: api.Grade) -> float:
    return grade.manual_score if grade.manual_score is not None else grade.auto_score or 0


class Sheets:
    """The sheets of one assignment. Its cells are looked up once, not for every student."""

    def __init__(self, db: Session, assignment: str):
        self.db = db
        known = select(api.Assignment.id, api.Assignment.duedate).filter_by(name=assignment)
        self.assignment_id, self.duedate = db.execute(known).one()
        parts = select(api.Notebook.id, api.Notebook.name).filter_by(assignment_id=self.assignment_id)
        books = db.execute(parts).all()
        self.notebook_ids = [identity for identity, _ in books]
        self.notebook_id = next(identity for identity, name in books if name == assignment)
        about = select(api.BaseCell.id, api.BaseCell.name, api.BaseCell.type, api.BaseCell.notebook_id)
        self.cells = db.execute(about.where(api.BaseCell.notebook_id.in_(self.notebook_ids))).all()

    def of(self, student: str, timestamp: datetime.datetime | None) -> Sheet:
        """The student's sheet. If there was none, an empty one is added to the gradebook."""
        found = select(api.SubmittedAssignment).filter_by(assignment_id=self.assignment_id, student_id=student)
        submission = self.db.scalars(found).one_or_none() or self._new(student)
        if timestamp is not None:
            submission.timestamp = timestamp
        own = select(api.SubmittedNotebook).filter_by(assignment_id=submission.id, notebook_id=self.notebook_id)
        notebook = self.db.scalars(own).one()
        grades, comments = self._rows(api.Grade, notebook), self._rows(api.Comment, notebook)
        return Sheet(student, submission, notebook, self.duedate, grades, comments)

    def _rows(self, kind: type[api.Grade] | type[api.Comment], notebook: api.SubmittedNotebook) -> dict[str, Any]:
        names = {identity: name for identity, name, _, book in self.cells if book == self.notebook_id}
        found = select(kind).where(kind.notebook_id == notebook.id, kind.cell_id.in_(names))
        return {names[row.cell_id]: row for row in self.db.scalars(found)}

    def _new(self, student: str) -> api.SubmittedAssignment:
        """All rows of a new submission, as nbgrader.api.Gradebook.add_submission makes them."""
        submission = api.SubmittedAssignment(assignment_id=self.assignment_id, student_id=student)
        self.db.add(submission)
        self.db.flush()
        about = {"assignment_id": submission.id}
        books = {book: api.SubmittedNotebook(notebook_id=book, **about) for book in self.notebook_ids}
        self.db.add_all(books.values())
        self.db.flush()
        for identity, _, kind, book in self.cells:
            if kind != api.SolutionCell.__name__:
                self.db.add(api.Grade(cell_id=identity, notebook_id=books[book].id))
            if kind != api.GradeCell.__name__:
                self.db.add(api.Comment(cell_id=identity, notebook_id=books[book].id))
        self.db.flush()
        return submission

    def add_student(self, student: str) -> None:
        if not self.has_student(student):
            self.db.add(api.Student(id=student))
            self.db.flush()

    def has_student(self, student: str) -> bool:
        return self.db.scalar(select(api.Student.id).filter_by(id=student)) is not None

    def has_submission(self, student: str) -> bool:
        mine = {"assignment_id": self.assignment_id, "student_id": student}
        return self.db.scalar(select(api.SubmittedAssignment.id).filter_by(**mine)) is not None


# ---- nbgrader's own step, on a sheet --------------------------------------------------------------------------------
class SaveScores(SaveAutoGrades):
    """SaveAutoGrades without opening the gradebook again for every notebook."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        on_sheet(self, resources)
        return super(SaveAutoGrades, self).preprocess(nb, resources)


def on_sheet(step: Any, resources: Any) -> None:
    """Give one of nbgrader's steps the sheet in place of its gradebook."""
    about = resources["nbgrader"]
    step.notebook_id, step.assignment_id = about["notebook"], about["assignment"]
    step.student_id, step.gradebook = about["student"], about["sheet"]
