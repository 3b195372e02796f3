"""How is a whole class graded? Every submission is read, run, recorded, scored and saved.

Grading can be interrupted after any of these steps and resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from ...errors import CkptError
from ..assignment.assignment import Assignment
from ..gradebook.course_folders import Course
from ..gradebook.journal import Journal
from ..notebooks.submitted_files import Submission, read, without_files
from ..one_submission.grade_one import ENGINE, job, know, pack
from ..one_submission.scoring import NOT_YET, Result, score, without_record
from ..sandbox.limits import Limits
from ..tasks.inputs import secret_seed
from .executors import Cluster, Pool
from .worker_crashes import Job, work

if TYPE_CHECKING:
    from .nbgrader_autograde import VerdictAutograde

_NO_TEXT = (
    "the folder's name is not valid UTF-8, so it cannot be stored in the gradebook. Rename the folder and grade again"
)


@dataclass
class Coordinator:
    """Grades one assignment of a course. Only one may run at a time, so the caller holds the course's lock."""

    course: Course
    assignment: Assignment
    workers: Pool | Cluster
    autograde: VerdictAutograde
    limits: Limits = field(default_factory=Limits)
    resume: bool = False  # skip submissions whose result has been saved everywhere
    tell: Callable[[str], None] = lambda text: None
    kernels: int = 0  # submissions that were run, and not found in the journal

    def __post_init__(self) -> None:
        self.journal = Journal(self.course.private / self.assignment.name)
        self._bundle_digest, self._bundle = pack(self.assignment)
        know(self._bundle_digest, self.assignment)

    def grade(self, students: list[str]) -> Iterator[Result]:
        """Each student's result, as soon as it has been saved: first those that need no kernel, then the others."""
        unknown = []
        for student in students:
            if not _is_text(student):
                yield without_record(self.assignment, student, _NO_TEXT, failed=True)
                continue
            submission = self._read(student)
            if self.resume and (before := self._finished(submission)) is not None:
                yield before
            elif (record := self._known(submission)) is None or record["key"] != self._bundle_digest:
                unknown.append(student)  # only the name, because a whole class does not fit into memory
            else:
                yield self._finish(submission, record)
        for done, record in work(self.workers, map(self._job, unknown), self._bundle, self.tell):
            yield self._arrived(done.about, done.payload["seeds"], record)

    def _read(self, student: str) -> Submission:
        name = self.assignment.name
        if link := self.course.link_to(student, name):
            why = f"{link.name} is a symbolic link, which may lead to somebody else's folder, so it is not followed"
            return without_files(student, f"{name}.ipynb", why)
        return read(self.course.path("submitted", student, name), student, f"{name}.ipynb")

    # ---- what the journal knows -------------------------------------------------------------------------------------
    def _known(self, submission: Submission) -> dict | None:
        """The stored record, if neither the submission nor the questions have changed since."""
        return self.journal.answers(submission.student, self._about(submission))

    def _about(self, submission: Submission) -> list:
        return [ENGINE, submission.digest, self.assignment.digest, asdict(self.limits)]

    def _finished(self, submission: Submission) -> Result | None:
        """The saved result, if it is in every place where it belongs and nothing has changed since."""
        found = self.journal.graded(submission.student, self._stamp(submission))
        return Result.from_dict(found) if found is not None and self.autograde.has(submission.student) else None

    def _stamp(self, submission: Submission) -> list:
        when = submission.files.get("timestamp.txt", b"").hex()
        return [*self._about(submission), self._bundle_digest, when]

    # ---- from a submission to its score -----------------------------------------------------------------------------
    def _job(self, student: str) -> Job:
        submission = self._read(student)
        record = self._known(submission)
        if record is not None:  # the key has changed. The answers remain valid, and the expected data is computed again
            return Job(student, job(self._bundle_digest, record["seeds"], None, answers=record["answers"]), submission)
        name, secret = self.assignment.name, self.course.secret
        seeds = {
            task: [secret_seed(secret, name, student, task, case) for case in range(self.assignment.tasks[task].cases)]
            for task in self.assignment.graded.values()
        }
        self.kernels += 1
        payload = job(self._bundle_digest, seeds, submission.files, limits=self.limits)
        return Job(student, payload, submission)

    def _arrived(self, submission: Submission, seeds: dict, record: dict) -> Result:
        """Write to the journal first: after that, no submission needs to be run again."""
        if "expected" not in record:
            return self._zero(submission, record["problem"], record.get("failed", False))
        known = (self._known(submission) or {}) if "engine" not in record else {}
        about = {"about": self._about(submission), "seeds": seeds, "key": self._bundle_digest}
        record = known | record | about
        self.journal.keep_answers(submission.student, record)
        return self._finish(submission, record)

    def _zero(self, submission: Submission, problem: str, failed: bool) -> Result:
        """Give no points and say why. If the grader is at fault, the grade that is in the gradebook stays."""
        self.journal.forget_graded(submission.student)  # so that --resume tries again
        result = without_record(self.assignment, submission.student, problem, failed)
        try:
            if failed and self.autograde.gradebook.when_unlocked(lambda: self.autograde.read_grade(result)):
                result.problem = f"the grade in the gradebook was kept, because {problem}"[:300]
            elif problem.startswith(NOT_YET):
                pass  # nothing is known about it, so there is nothing to write: not even zero points
            else:
                self.autograde.save(Submission(submission.student, {}), {}, result)
        except CkptError:
            raise
        except Exception as error:  # perhaps neither the database nor the file system accepts the student's name
            result.failed, result.problem = True, f"{problem}; it could not be saved: {error}"[:300]
        return result

    def _finish(self, submission: Submission, record: dict) -> Result:
        result = score(self.assignment, submission.student, record)
        result.notes[:0] = submission.notes
        self.journal.forget_graded(submission.student)
        try:
            self.autograde.save(submission, record, result)
        except CkptError:  # the gradebook itself failed, which affects every submission
            raise
        except Exception as error:  # the fault lies in this submission only: go on with the others
            return self._zero(submission, f"the grader failed: {type(error).__name__}: {error}"[:300], True)
        self.journal.keep_graded(submission.student, self._stamp(submission), asdict(result))
        return result


def _is_text(name: str) -> bool:
    """False if a folder's name cannot be encoded as UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
