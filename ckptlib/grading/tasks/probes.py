"""How is a task tested? By one probe per task: a function from seeded inputs and an answer to plain data.

The same probe runs in three places: in a notebook, on inputs that everybody sees, as the reader's check; in the
student's kernel, on secret inputs, when a submission is graded; and outside, on the reference answer, to compute the
expected data. `tasks.py` of an assignment holds the probes and is released to students. Two files are not released:
`key.py` adds the known mistakes and their messages, and `hidden.py`, which is optional, is appended to tasks.py when a
submission is graded, and may replace probes with others that nobody has seen.
"""

from __future__ import annotations

import json
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import torch

from ...errors import CkptError
from . import quiz
from .answer_encoding import Raised, decode, encode, encode_raised
from .answer_size import fitted
from .comparison import ATOL, Tolerance
from .inputs import Given
from .side_effects import SideEffects
from .torch_modes import left_modes
from .verdict import Mistake, Verdict, judge

VISIBLE_SEED = 2016  # of the checks that everybody sees; the year of Chen et al.


class Points(float):
    """What an answer has earned. A notebook shows "1.5 of 2 points", and nbgrader reads the number beside it."""

    most: float

    def __new__(cls, earned: float, most: float) -> Points:
        self = super().__new__(cls, earned)
        self.most = most
        return self

    def _repr_html_(self) -> str:
        return f"{self:g} of {self.most:g} points"


class Task:
    """One graded question: its probe, and (from key.py) how its answer is judged."""

    has_visible_answer = True  # whether visible.json holds what to expect

    def __init__(
        self,
        checks: Checks,
        probe: Callable,
        points: float,
        section: str,
        cases: int,
        parts: bool,
        names: str,
        changes: bool = False,
    ):
        self.checks, self.probe, self.points, self.section = checks, probe, points, section
        self.cases, self.parts, self.changes = cases, parts, changes
        self.name = probe.__name__
        self.names = names.replace(",", " ").split() or [self.name]
        self.tolerance = Tolerance()
        self.peak_limit: int | None = None
        self.mistakes: list[tuple[str, tuple]] = []

    # ---- written in key.py ------------------------------------------------------------------------------------------
    def tolerate(self, rtol: float = 1e-4, atol: float = ATOL) -> None:
        """Numbers may differ by atol + rtol * |expected|. Without an atol it is less where all numbers are tiny."""
        self.tolerance = Tolerance(rtol, atol)

    def limit_peak(self, nbytes: int) -> None:
        """The most that the kernel's memory may grow while this task is tested, measured from outside the kernel."""
        self.peak_limit = nbytes

    def mistake(self, message: str, *answers: Any) -> Callable:
        """A known wrong answer and its message. Pass values here, or decorate a function."""
        if answers:
            self.mistakes.append((message, answers))

        def register(answer: Callable) -> Callable:
            self.mistakes.append((message, (answer,)))
            return answer

        return register

    # ---- written in hidden.py ---------------------------------------------------------------------------------------
    def hidden(self, probe: Callable) -> Callable:
        """Grading uses this probe instead of the one that students can read, with the same answers and form of data."""
        self.probe = probe
        return probe

    # ---- asked ------------------------------------------------------------------------------------------------------
    def ask(self, answers: tuple, seeds: list[int], made: list[list] | None = None) -> list[Any]:
        """The probe's data for each seed, encoded. An exception that the answer raises is data too.

        made: for each seed, what `made_for` returned, if the library cannot make it here.
        """
        given = map(Given, seeds) if made is None else map(Given, seeds, made)
        return [self._ask_once(answers, each) for each in given]

    def made_for(self, answers: tuple, seeds: list[int]) -> list[list]:
        """For each seed, what the library makes for the probe."""
        all_given = [Given(seed) for seed in seeds]
        for given in all_given:
            self._ask_once(answers, given)
        return [given.made for given in all_given]

    def known(self, seeds: list[int]) -> list[dict]:
        """The data that each known mistake returns, encoded, and its message."""
        return [{"message": message, "data": self.ask(answers, seeds)} for message, answers in self.mistakes]

    def _ask_once(self, answers: tuple, given: Given) -> Any:
        try:
            with as_new(), warnings.catch_warnings(action="ignore"):
                effects = SideEffects()
                watched = answers if self.changes else tuple(map(effects.watched, answers))
                data = self.probe(given, *watched)
                data = _part_by_part(data) if self.parts and isinstance(data, dict) else encode(data)
                complaint = effects.complaint()
                return {"refused": complaint, "data": data} if complaint else data
        except (Exception, SystemExit) as error:
            return encode_raised(error)

    def __call__(self, *answers: Any, hidden: bool = False) -> Points | None:
        """Check the answer here and now. Prints what is wrong with it, and returns its points.

        hidden: on other inputs, with the key; only where the assignment's source is available.

        An answer that earns nothing is reported on stderr, which nbgrader treats as a failure and its Validate shows.
        An exception would do the same, but it would keep a reader from running the cells below.
        """
        if len(answers) != len(self.names):
            raise CkptError(f"check.{self.name} takes {', '.join(self.names)}: {len(answers)} were passed")
        verdict = self.checks.hidden_verdict(self, answers) if hidden else self._visible(answers)
        if verdict.recorded:
            print(f"{self.name}: {verdict.message}.")
            return None
        where = "on other inputs" if hidden else "on the inputs that you can see"
        if verdict.right:
            text = f"{self.name}: right {where}."
        elif verdict.share:
            text = f"{self.name}: partly right {where}.\n{verdict.message}"
        else:
            text = f"{self.name}: {verdict.message}"
        if self.section and verdict.misread:
            text += f"\nRead again: {self.section}."
        print(text, file=sys.stdout if verdict.share else sys.stderr)
        return Points(round(self.points * verdict.share, 2), self.points)

    def _visible(self, answers: tuple) -> Verdict:
        seen = self.checks.visible(self.name)
        with redirect_stderr(sys.stdout):  # nbgrader takes anything on stderr for a failure
            got = self.ask(answers, self.visible_seeds())
        return self.judge(got, seen["expected"], seen["mistakes"], Tolerance(**seen["tolerance"]))

    def visible_seeds(self) -> list[int]:
        return [VISIBLE_SEED + case for case in range(self.cases)]

    def judge(self, got: list, expected: list, mistakes: list[dict], tolerance: Tolerance) -> Verdict:
        """All encoded: the answer's data, the reference's, and each known mistake's with its message."""
        complaints = [case["refused"] for case in got if _refused(case)]
        got = [fitted(_data(mine), right) for mine, right in zip(got, expected, strict=True)]
        known = [Mistake(m["message"], [decode(_data(case)) for case in m["data"]]) for m in mistakes]
        verdict = judge([decode(g) for g in got], [decode(e) for e in expected], known, tolerance, self.parts)
        if not (verdict.right and complaints):
            return verdict
        share = 1 - 1 / len(expected[0]["dict"]) if self.parts else 0
        return Verdict(share, complaints[0][:500], [complaints[0][:500]], misread=True)


def _part_by_part(data: dict) -> Any:
    """Encoded. A part that is a function is called here, so that an exception costs this part alone."""
    found = encode({key: None if isinstance(part, types.FunctionType) else part for key, part in data.items()})
    for entry, part in zip(found["dict"], data.values(), strict=True):
        if isinstance(part, types.FunctionType):
            try:
                entry[1] = encode(part())
            except (Exception, SystemExit) as error:
                entry[1] = encode_raised(error)
    return found


def _refused(case: Any) -> bool:
    """If the answer had side effects, its data say so. If all else is right, that costs one part of the points."""
    return isinstance(case, dict) and isinstance(case.get("refused"), str)


def _data(case: Any) -> Any:
    return case.get("data") if _refused(case) else case


class Quiz(Task):
    """Letters. The visible check looks only at their form, because grading decides which are right."""

    has_visible_answer = False

    def _visible(self, answers: tuple) -> Verdict:
        return _form(self.ask(answers, self.visible_seeds()), quiz.load(self.checks.folder))


class QuizForm(Quiz):
    """A quiz whose right letters are not known here, so that only their form is checked."""

    def judge(self, got: list, expected: list, mistakes: list[dict], tolerance: Tolerance) -> Verdict:
        """expected: the quiz's items, once."""
        return _form(got, expected[0])


def _form(got: list, items: dict[str, dict]) -> Verdict:
    """Is every answer a letter of its question? got: as `Task.ask` returned it."""
    chosen = decode(got[0])
    if isinstance(chosen, Raised):
        return Verdict(0, f"raised {chosen.error}")
    odd = [name for name, letter in chosen.items() if letter not in items[name]["choices"]]
    if odd:
        letters = ", ".join(items[odd[0]]["choices"])
        return Verdict(0, f"{', '.join(odd)}: expected one letter of {letters}, such as {odd[0]} = 'b'")
    said = "recorded. Which letters are right is decided when it is graded, so it has no points yet"
    return Verdict(0, said, recorded=True)


NOT_ASKED = object()  # in a mistake of a quiz that is about a different question


def _letter(answer: Any) -> str:
    return "" if answer is None or answer is ... else str(answer).strip().strip("().").lower()


@contextmanager
def as_new() -> Iterator[None]:
    """Run in the state that a new kernel has, because an answer may have left torch in a different one."""
    with left_modes(), torch.inference_mode(False):
        dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
        try:
            torch.set_default_dtype(torch.float32)
            torch.set_grad_enabled(True)
            with torch.random.fork_rng(devices=[]), torch.device("cpu"), torch.autocast("cpu", enabled=False):
                yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(grad)


class Checks:
    """The probes of one assignment: `check = Checks(__file__)` in its tasks.py."""

    def __init__(self, file: str):
        self.folder = Path(file).resolve().parent
        self.tasks: dict[str, Task] = {}

    def task(
        self,
        points: float,
        section: str = "",
        cases: int = 2,
        parts: bool = False,
        names: str = "",
        changes: bool = False,
    ) -> Callable[[Callable], Task]:
        """Make a probe of a function `(given, *answers) -> data`. Its name is that of the answer's variable.

        names   several variables instead, as "pack, unpack"
        cases   how many seeds it is run with; all results must be right
        parts   the data is a dict, and each key earns its share of the points. A value may be a function without
                arguments, which returns that part's data; an exception in it costs this part alone
        changes whether the task is to change its arguments, which otherwise loses the points
        """

        def register(probe: Callable) -> Task:
            self.tasks[probe.__name__] = Task(self, probe, points, section, cases, parts, names, changes)
            return self.tasks[probe.__name__]

        return register

    def add_quiz(self, points: float, names: str, section: str = "") -> Task:
        """Questions answered with a letter each. quiz.json holds their text, the source notebook the right letters."""

        def letters(given: Given, *answers: Any) -> dict[str, str]:
            pairs = zip(task.names, answers, strict=True)
            return {name: _letter(answer) for name, answer in pairs if answer is not NOT_ASKED}

        letters.__name__ = "quiz"  # the task's name
        task = self.tasks["quiz"] = Quiz(self, letters, points, section, 1, True, names)
        return task

    def __getattr__(self, name: str) -> Task:
        try:
            return self.__dict__["tasks"][name]
        except KeyError:
            raise AttributeError(f"there is no task {name!r} here, only {', '.join(self.tasks)}") from None

    def hidden_verdict(self, task: Task, answers: tuple) -> Verdict:
        """The verdict on secret inputs. It needs the key: see `ckptlib.grading.assignment.instructor_checks`."""
        raise CkptError("hidden checks need `from ckptlib.grading import Checks` in tasks.py")

    def visible(self, task: str) -> dict:
        """The expected data for the visible inputs, from visible.json, which a release makes from the reference."""
        path = self.folder / "visible.json"
        try:
            return json.loads(path.read_text(encoding="utf-8"))[task]
        except (OSError, ValueError, KeyError) as error:
            found = f"{path.name} is missing, damaged or older than the task {task} ({error!r})"
        if (self.folder / "key.py").is_file():  # its author, not a student
            raise CkptError(f"{found}: run `ckptlib release {self.folder.name}` first, which writes {path.name}")
        raise CkptError(f"{found}: it is part of the assignment, so fetch the assignment again")
