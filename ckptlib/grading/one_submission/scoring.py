"""What is a submission worth, and why? Its record is compared with the key, without a kernel or torch."""

from __future__ import annotations

import re
import textwrap
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from ..notebooks.cell_text import printable
from ..tasks.comparison import NOT_ANSWERED
from ..tasks.verdict import Verdict

if TYPE_CHECKING:  # a notebook without answers has a result before torch is imported
    from ..assignment.assignment import Released
    from ..tasks.probes import Task

TAMPERED = "tampered kernel"
NOT_YET = "not graded yet"  # how the reason begins when the machine, and not the submission, is at fault
NOT_ISOLATED = "not isolated: it could read and write everything that you can"
LONGEST_ERROR = 200  # letters of what a cell raised
_BLANK = "NotImplementedError"  # what a stub raises that was not filled in


@dataclass
class TaskScore:
    """One task. `points` is what counts: the instructor's, where `by_hand`; none yet, where it is `recorded` only."""

    name: str
    grade_id: str
    points: float
    max_points: float
    message: str = ""
    section: str = ""
    missed: list[str] = field(default_factory=list)
    by_hand: bool = False
    recorded: bool = False
    extra_credit: float = 0
    comment: str = ""


@dataclass
class Result:
    """A student's score and its reason. `failed`: the grader itself failed, so grade again."""

    student: str
    tasks: list[TaskScore]
    notes: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    problem: str = ""
    late_penalty: float = 0
    late_seconds: float = 0
    failed: bool = False
    events: list[str] = field(default_factory=list)  # what happened while it ran; also among the notes

    @property
    def score(self) -> float:
        return round(max(0.0, sum(t.points + t.extra_credit for t in self.tasks) - self.late_penalty), 6)

    @property
    def max_score(self) -> float:
        return round(sum(t.max_points for t in self.tasks), 6)

    @property
    def all_notes(self) -> list[str]:
        return [self.problem, *self.notes] if self.problem else self.notes

    @property
    def reason(self) -> str:
        """One line: what an instructor wants to know first."""
        parts = [self.problem, *self.flags] if self.problem else list(self.flags)
        missed = [task for task in self.tasks if task.points < task.max_points]
        if not self.problem:
            parts += [f"{t.name}: {t.message.splitlines()[0]}" if t.message else f"{t.name}: by hand" for t in missed]
            parts += self.events[:1] if missed else []
        if self.late_penalty:
            parts.append(f"late: {self.late_penalty:g} points less")
        return "; ".join(filter(None, parts)) or "every task is right"

    @classmethod
    def from_dict(cls, fields: dict) -> Result:
        return cls(**fields | {"tasks": [TaskScore(**task) for task in fields["tasks"]]})

    def as_json(self) -> dict:
        names = ("student", "score", "max_score", "reason", "flags", "notes", "late_penalty")
        return {name: getattr(self, name) for name in names} | {"tasks": [asdict(task) for task in self.tasks]}


def score(assignment: Released, student: str, record: dict) -> Result:
    """record: as `grade_one` returned it."""
    result = Result(student, [], [*record["notes"], *record.get("events", [])], problem=record["problem"] or "")
    result.events = list(record.get("events", []))
    tampered = bool(record.get("tampering"))
    if tampered:
        result.flags.append(f"{TAMPERED}: {record['tampering'][0]}")
    if not record.get("sandboxed", True):
        result.flags.append(NOT_ISOLATED)
    for grade_id, name in assignment.graded.items():
        task = assignment.tasks[name]
        verdict = Verdict(0, result.problem) if result.problem else _verdict(task, record, tampered)
        most = float(task.points)
        earned = round(most * verdict.share, 2)
        section = task.section if verdict.misread else ""  # no help if there is no answer
        counted = 0.0 if verdict.recorded else most
        told = TaskScore(name, grade_id, earned, counted, verdict.message, section, verdict.missed)
        told.recorded = verdict.recorded
        result.tasks.append(told)
    return result


def without_record(assignment: Released, student: str, problem: str, failed: bool = False) -> Result:
    """Zero points and the reason, for a submission that could not be run."""
    record = {"notes": [], "problem": problem}
    result = score(assignment, student, record)
    result.failed = failed
    return result


def _verdict(task: Task, record: dict, tampered: bool) -> Verdict:
    answer = record["answers"].get(task.name, {"reason": "was not tested"})
    if missing := [name for name in task.names if name in answer.get("missing", ())]:
        raised = _raised(record.get("cells", {}).get(task.name, {}))
        if raised == _BLANK:
            return _lost(NOT_ANSWERED)
        if why := _ended(record, task.name):
            return _lost(f"{', '.join(missing)} is not defined, because {why}")
        why = f": its cell stopped with {raised}" if raised else ". Was the cell run without an error?"
        return _lost(f"{', '.join(missing)} is not defined{why}")
    if "reason" in answer:
        return _lost(answer["reason"])
    if tampered and task.peak_limit is not None:
        return _lost("is measured in the kernel, but this kernel was tampered with")
    if task.peak_limit is not None and (grown := answer.get("grown")) is not None and grown > task.peak_limit:
        text = f"the kernel's memory grew by {grown:,} bytes while it ran; {task.peak_limit:,} are allowed"
        return Verdict(0, text, [text], misread=True)
    expected = record["expected"][task.name]
    cases = answer.get("cases")
    if not isinstance(cases, list) or len(cases) != len(expected["right"]):
        return _lost("the kernel answered with something that is not data")
    try:
        return task.judge(cases, expected["right"], expected["mistakes"], task.tolerance)
    except Exception as error:  # a forged answer can cause any error, which costs this task only
        return _lost(f"the answer cannot be compared: {type(error).__name__}: {error}"[:300])


def _ended(record: dict, name: str) -> str:
    """Which cell ended the kernel, this one or an earlier one that it needed? That explains a NameError."""
    for cell_id, cell in record.get("cells", {}).items():
        if cell_id == name:
            return "its cell ended the kernel" if cell.get("status") == "died" else ""
        if cell.get("status") in ("died", "timeout"):
            what = "ended the kernel" if cell["status"] == "died" else "had to be stopped"
            return f"an earlier cell, {printable(cell_id, ' ')!r}, {what}"
    return ""


def _raised(cell: dict) -> str:
    """What an answer's cell ended with, as one short line, in a student's words. "" if it did not raise."""
    errors = [output for output in cell.get("outputs", ()) if output.get("output_type") == "error"]
    if cell.get("status") != "error" or not errors:
        return ""
    if errors[-1]["ename"] == _BLANK:
        return _BLANK
    text = printable(f"{errors[-1]['ename']}: {errors[-1]['evalue']}", " ")
    text = re.sub(r" \([^()]*, line (\d+)\)$", r" (line \1)", text)  # IPython's name for a cell differs in every run
    return textwrap.shorten(text, LONGEST_ERROR, placeholder=" …")


def verdict_without_mistakes(task: Task, answer: dict, right: list) -> Verdict:
    """The verdict as long as it is not known whether a wrong answer is a known mistake."""
    expected = {task.name: {"right": right, "mistakes": []}}
    return _verdict(task, {"answers": {task.name: answer}, "expected": expected}, False)


def may_be_a_mistake(task: Task, answer: dict, right: list) -> bool:
    """Must the known mistakes be tried? That takes longer than all else, and says nothing of what is right or blank."""
    if "cases" not in answer:
        return False
    verdict = verdict_without_mistakes(task, answer, right)
    return not verdict.right and not verdict.blank


def _lost(message: str) -> Verdict:
    return Verdict(0, message, [message])
