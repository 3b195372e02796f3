"""How does a result reach Formgrader and the student? nbgrader's Autograde, with verdicts in place of its kernel.

Slow work is done once per assignment or on the workers. For each submission, this module saves the scores through
nbgrader's own preprocessors, then writes autograded/ and feedback/.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.converters import Autograde
from nbgrader.preprocessors import LimitOutput
from nbgrader.utils import parse_utc
from traitlets import List

from ...errors import CkptError
from ..assignment.assignment import Assignment
from ..feedback.feedback_page import WAITING, Pages
from ..gradebook.course_folders import Course
from ..gradebook.gradebook import OneGradebook
from ..gradebook.late_penalty import SaveLatePenalty
from ..gradebook.student_rows import SaveScores, Sheet, Sheets, points_of
from ..notebooks.submitted_files import NBGRADERS, Submission
from ..one_submission.scoring import Result, TaskScore
from ..safe_outputs import sanitise

TIMESTAMP, SECRET = NBGRADERS


class VerdictAutograde(Autograde):
    """Autograde for submissions that have been run elsewhere."""

    # Not `autograde_preprocessors`: a course's configuration of those would run the student's code, here and unguarded.
    verdict_preprocessors = List([LimitOutput, SaveScores, SaveLatePenalty]).tag(config=True)

    def __init__(self, course: Course, assignment: Assignment, gradebook: OneGradebook):
        super().__init__(coursedir=course.directory, parent=course.app)
        self.course, self.assignment, self.gradebook = course, assignment, gradebook
        self.sheets = gradebook.when_unlocked(lambda: Sheets(gradebook.db, assignment.name))
        self.pages = Pages(assignment.release)
        self.steps = [step(parent=self) for step in self.verdict_preprocessors]

    def save(self, submission: Submission, record: dict, result: Result) -> None:
        """Gradebook first, in one transaction; then the files, which can be made again from the journal."""
        text = self.gradebook.when_unlocked(lambda: self._grades(submission, record, result))
        self._write_autograded(submission, text)
        name, page = self.assignment.name, self.pages.page(result, record)
        write_page(self.course.path("feedback", result.student, name), name, page, submission, self.course.secret)

    def has(self, student: str) -> bool:
        """Has this student's work arrived in the gradebook and in both folders?"""
        name = self.assignment.name
        places = [self.course.path("autograded", student, name) / f"{name}.ipynb"]
        places += [self.course.path("feedback", student, name) / file for file in (f"{name}.html", SECRET)]
        if not self.gradebook.when_unlocked(lambda: self.sheets.has_submission(student)):
            return False
        return all(path.is_file() for path in places)

    # ---- the gradebook ----------------------------------------------------------------------------------------------
    def _grades(self, submission: Submission, record: dict, result: Result) -> str:
        student = submission.student
        self.init_assignment(self.assignment.name, student)
        sheet = self.sheets.of(student, _timestamp(submission, result))
        name = self.assignment.name
        about = {"student": student, "sheet": sheet, "assignment": name, "notebook": name}
        notebook, resources = autograded(self.assignment, record, result), {"nbgrader": about}
        for step in self.steps:
            notebook, resources = step(notebook, resources)
        _read_back(sheet, result, self.assignment.by_hand)
        if result.flags:
            sheet.notebook.flagged = True  # Formgrader's own mark; one that an instructor set is never taken away
        return nbformat.writes(notebook) + "\n"

    def read_grade(self, result: Result) -> bool:
        """Put the grade that the gradebook holds into `result`; False where it has no submission of this student."""
        if not self.sheets.has_submission(result.student):
            return False
        _read_back(self.sheets.of(result.student, None), result, self.assignment.by_hand)
        return True

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        """Add the student to the gradebook, unless the course's configuration says that it has all of them already."""
        if self.create_student:
            self.sheets.add_student(student_id)
        elif not self.sheets.has_student(student_id):
            raise CkptError(f"no student {student_id!r} in the gradebook, and Autograde.create_student is off")

    # ---- the files --------------------------------------------------------------------------------------------------
    def _write_autograded(self, submission: Submission, notebook: str) -> None:
        ours = {f"{self.assignment.name}.ipynb": notebook.encode()} | self.assignment.released_files
        theirs = {name: raw for name, raw in submission.files.items() if not name.endswith(".ipynb")}
        _replace_folder(self.course.path("autograded", submission.student, self.assignment.name), ours, theirs)
        self.set_permissions(self.assignment.name, submission.student)


def _read_back(sheet: Sheet, result: Result, by_hand: dict[str, float]) -> None:
    """Read the scores that count: an instructor's score and comment, extra credit, and the late penalty."""
    machine = [task for task in result.tasks if task.grade_id not in by_hand]  # this is done again after a lock
    result.tasks = machine + [TaskScore(name, name, 0, most) for name, most in by_hand.items()]
    for task in result.tasks:
        grade = sheet.grades[task.grade_id]
        if task.grade_id in by_hand and grade.manual_score is None:
            task.message = WAITING if grade.needs_manual_grade else "not answered"
        task.points, task.by_hand = points_of(grade), grade.manual_score is not None
        task.extra_credit = grade.extra_credit or 0
        cells = dict.fromkeys((task.grade_id, task.name))
        said = [sheet.comments[cell].manual_comment for cell in cells if cell in sheet.comments]
        task.comment = "\n".join(filter(None, said))
    result.late_penalty = sheet.notebook.late_submission_penalty or 0
    result.late_seconds = sheet.seconds_late


def _timestamp(submission: Submission, result: Result) -> Any:
    raw = submission.files.get(TIMESTAMP, b"")[:100].decode(errors="replace").strip()
    if not raw:
        return None
    try:
        return parse_utc(raw)
    except (ValueError, OverflowError, TypeError, AttributeError):
        result.notes.append(f"timestamp.txt holds {raw!r}, which is not a date, so the submission counts as on time")
        return None


def _replace_folder(folder: Path, ours: dict[str, bytes], theirs: dict[str, bytes]) -> None:
    """A student's file that cannot be written beside ours, perhaps because it has the name of one, is left out."""
    new = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    for name, raw in ours.items():
        _write(new / name, raw)
    for name, raw in theirs.items():
        if name not in ours:
            with contextlib.suppress(OSError):
                _write(new / name, raw)
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(new, folder)


def _write(path: Path, raw: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)


# ---- the page, and what nbgrader's exchange needs to hand it out ----------------------------------------------------
def write_page(folder: Path, assignment: str, page: str, submission: Submission, course_secret: bytes) -> None:
    """The page is written last, so that where it exists, the other files do too."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _for_the_exchange(submission, assignment, course_secret).items():
        _replace(folder / name, text)
    _replace(folder / f"{assignment}.html", page)


def _for_the_exchange(submission: Submission, assignment: str, course_secret: bytes) -> dict[str, str]:
    """`nbgrader release_feedback` reads two files of every student. A missing one would stop it for the whole class.

    The page goes to anyone who knows the submission's secret. Work that was not collected through the exchange has no
    secret, and gets one that nobody can guess.
    """
    when, secret = (submission.files.get(name, b"")[:1000].decode(errors="replace") for name in (TIMESTAMP, SECRET))
    if not re.fullmatch(r"[!-~]{20,999}", secret):
        about = "\0".join(["feedback", assignment, submission.student])
        secret = hmac.digest(course_secret, about.encode(errors="surrogateescape"), "sha256").hex()
    return {TIMESTAMP: when if re.fullmatch(r"[ -~]{0,100}", when) else "", SECRET: secret}


def _replace(path: Path, text: str) -> None:
    """Replace the file as a whole, because somebody may be reading it."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


# ---- their content -------------------------------------------------------------------------------------------------
def autograded(assignment: Assignment, record: dict, result: Result) -> nbformat.NotebookNode:
    """The notebook as it was run; the output of each grade cell is its verdict, as nbgrader reads scores from it."""
    notebook = nbformat.from_dict(record.get("notebook") or assignment.release)
    scores = {task.grade_id: task for task in result.tasks}
    stubs = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell.source for cell in assignment.release.cells}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            about = cell.metadata.get("nbgrader", {})
            answered = about.get("solution") and cell.source != stubs.get(about.get("grade_id"))
            if "ckptlib" in cell.metadata or answered:  # the student's own words; a stub stays one, as nbgrader checks
                cell.source = sanitise.markdown(cell.source)
        else:
            task = scores.get(cell.metadata.get("nbgrader", {}).get("grade_id"))
            outputs = record.get("cells", {}).get(cell.id, {}).get("outputs", [])
            cell.outputs = _verdict_outputs(task) if task else [nbformat.from_dict(output) for output in outputs]
    if said := [*(f"flagged: {flag}" for flag in result.flags), *result.all_notes]:
        # As printed text, so that nothing in it is ever read as HTML.
        text = "".join(f"{sanitise.text(line)}\n" for line in said)
        outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)]
        title = "# About this submission, by ckptlib grade"
        notebook.cells.insert(0, nbformat.v4.new_code_cell(title, id="ckptlib-notes", outputs=outputs))
    return notebook


def _verdict_outputs(task: TaskScore) -> list[nbformat.NotebookNode]:
    """An error is zero, a number is partial credit, anything else full marks: see nbgrader.utils.determine_grade."""
    make = nbformat.v4.new_output
    message = sanitise.text(f"{task.name}: {task.message or 'right.'}")
    if task.section:
        message += f"\nRead again: {task.section}."
    if task.points <= 0 < task.max_points:
        return [make("error", ename="Missed", evalue=message, traceback=message.splitlines())]
    said = make("stream", name="stdout", text=message + "\n")
    if task.points >= task.max_points:
        return [said]
    earned = {"text/plain": f"{task.points:g}", "text/html": f"{task.points:g} of {task.max_points:g} points"}
    return [said, make("execute_result", data=earned, execution_count=None)]
