"""What happens when a submission is run and tested? A transcript: outputs, answers, resources used, problems."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..sandbox import file_system
from ..sandbox.limits import Limits
from ..sandbox.sandbox import Sandbox, default
from ..sandbox.without_isolation import Unconfined
from .cell_timeout import Driver, Outcome
from .machine_trouble import MachineTrouble, patiently, processes_killed

Transcript = dict[str, Any]  # plain JSON: see `run`

_SOON = 2.0  # seconds: a cell that died sooner may have been ended by an earlier one
_SHORTEST_WAIT = 1.0  # seconds to wait at least, after a cell that is watched, for the end of the kernel
# The kernel's fault, not the answer's: threads of another cell may have slowed it down, interrupted or ended it.
_NOT_ITS_FAULT = set("died closed timeout memory processes sockets cpu output garbage error".split())
_NOT_ITS_FAULT |= {"wall time", "no answer"}
_FIRST_SHARE = 0.75  # of a submission's time; the rest is for questions that have to be asked again
_KERNEL_SHARE = 0.9  # of the processor time that is left: the kernel may be ended by one cell, and others follow
_LEAST_CPU = 0.25  # seconds: with less left, no further kernel is started
_SHORTEST_SHARE = 1.0  # seconds: in less, no kernel starts and answers
_WAIT_FACTOR = 2.0  # times as long as the kernel took to end: on a busy machine a kernel also ends slowly


@dataclass(frozen=True)
class Cell:
    """A cell to be run."""

    id: str
    source: str
    released: bool = False  # is it as it was released, and so known to be harmless?


@dataclass(frozen=True)
class Question:
    """Code whose one answer carries `nonce`, which nobody in the kernel knew before."""

    name: str
    code: str
    nonce: str


def run(
    cells: Sequence[Cell],
    questions: Sequence[Question],
    files: Mapping[str, bytes],
    limits: Limits,
    sandbox: Sandbox | Unconfined | None = None,
) -> Transcript:
    """Run all cells in a fresh kernel, then the questions. This always ends soon after `limits.wall_seconds`.

    Time in which a cell waits for a processor does not count, as long as that is not more than as much again.

    Returns {"cells": {id: {"status", "outputs", "seconds", "why"}},
             "questions": {name: {"answer", "reason", "seconds", "rss_before", "rss_peak"}},
             "resources": {"peak_rss", "baseline_rss", "cpu_seconds", "wall_seconds", "waited_seconds", "processes",
                           "kernels"},
             "events": [sentence], "sandboxed": bool, "warning": why it was not, else ""}.
    A cell or question that takes the kernel down twice is left out of the next kernel; the others are run again there.
    Raises MachineTrouble if a kernel ended for a reason that is not the submission's.
    """
    return _Run(cells, questions, files, limits, sandbox or default()).go()


class _Run:
    def __init__(
        self,
        cells: Sequence[Cell],
        questions: Sequence[Question],
        files: Mapping[str, bytes],
        limits: Limits,
        sandbox: Sandbox | Unconfined,
    ) -> None:
        self._cells, self._questions, self._limits, self._sandbox = cells, questions, limits, sandbox
        self._started = time.monotonic()
        self._deadline = self._started + limits.wall_seconds
        self._suspects = _Suspects()
        self._last = ""  # what ran last in this kernel
        self.cells = {cell.id: _summary(Outcome("skipped")) for cell in cells}
        self.questions: dict[str, dict] = {}
        self._files, self.events = _fitting(files, limits)
        self.resources = {"peak_rss": 0, "baseline_rss": 0, "cpu_seconds": 0.0, "processes": 0, "kernels": 0}
        self.resources["waited_seconds"] = 0.0

    def go(self) -> Transcript:
        used_up = False
        while not self._one_kernel():
            if time.monotonic() > self._deadline:
                self._tell(f"the submission's {self._limits.wall_seconds:g} s were over, so the rest was left out")
                break
            if self.resources["cpu_seconds"] > self._limits.cpu_seconds - _LEAST_CPU:
                used_up = True
                self._tell(f"the submission's {self._limits.cpu_seconds} s of processor time were used up")
                break
        for question in self._questions:
            self.questions.setdefault(question.name, _no_answer("cpu" if used_up else "wall time"))
        self.resources["wall_seconds"] = time.monotonic() - self._started
        found = {"cells": self.cells, "questions": self.questions, "resources": self.resources, "events": self.events}
        return {**found, "sandboxed": self._sandbox.sandboxed, "warning": self._sandbox.warning}

    def _one_kernel(self) -> bool:
        """One kernel's life; True when nothing is left to do."""
        driver = patiently(self._fresh_kernel)
        try:
            return driver is not None and self._all_cells(driver) and self._all_questions(driver)
        finally:
            if driver is not None:
                self._account(driver)

    def _fresh_kernel(self) -> Driver | None:
        """A kernel that is ready, in which nothing of the submission has run; None if there is no time left."""
        self.resources["kernels"] += 1
        self._killed_before = processes_killed()
        left = self._limits.cpu_seconds - self.resources["cpu_seconds"]  # a fresh kernel does not renew it
        limits = replace(self._limits, cpu_seconds=max(1, int(left * _KERNEL_SHARE)))
        try:
            driver = Driver(self._sandbox.kernel(limits, self._files), limits)
        except (OSError, EOFError, RuntimeError, StopIteration) as error:  # no memory, no processes, no warm process
            raise MachineTrouble(f"no kernel could be started ({_last_line(error)})") from error
        try:
            ready = driver.get_ready(self._deadline)
        except (OSError, EOFError, RuntimeError) as error:
            self._account(driver)
            raise MachineTrouble(f"a fresh kernel could not be set up ({_last_line(error)})") from error
        if not ready.fatal:
            return driver
        self._account(driver)
        if time.monotonic() < self._deadline:
            raise MachineTrouble(f"a fresh kernel {ready.sentence}, before anything of the submission had run")
        return None

    def _blame_the_machine(self, driver: Driver, outcome: Outcome, before: Sequence[Cell], what: str) -> None:
        """Raise MachineTrouble if the kernel's end cannot, or need not, be the work of what has run in it."""
        if outcome.why not in ("died", "closed"):
            return
        if all(cell.released for cell in before):
            raise MachineTrouble(f"{what} {outcome.sentence}, although only released cells had run in it")
        own = driver.watchdog.peak - driver.watchdog.baseline
        if processes_killed() > self._killed_before and own < self._limits.memory / 2:
            raise MachineTrouble(f"{what} {outcome.sentence} when the machine had no memory left")

    def _all_cells(self, driver: Driver) -> bool:
        self._last, ran = "", list[Cell]()
        for cell in self._cells:
            if cell.id in self._suspects.left_out:
                continue
            if self._ended_by_last(driver):
                return False
            outcome = self._run(driver, cell.source)
            self.cells[cell.id] = _summary(outcome)
            if outcome.answers:
                self._tell("a cell displayed an answer outside of a test, which was not counted")
            ran.append(cell)
            if outcome.fatal:
                self._blame_the_machine(driver, outcome, ran, f"the kernel of cell {cell.id!r}")
                if not self._suspects.is_certain(cell.id, self._last, outcome):
                    return False
            if outcome.status in ("timeout", "died"):
                self._suspects.left_out.add(cell.id)  # another kernel need not wait for this cell again
                self._tell(f"cell {cell.id!r} {outcome.sentence}")
            if outcome.fatal or time.monotonic() > self._deadline:
                return False
            self._last = cell.id
        return True

    def _all_questions(self, driver: Driver) -> bool:
        for question in self._questions:
            if question.name in self.questions:
                continue
            if self._ended_by_last(driver):
                return False
            before = driver.watchdog.open_window()
            outcome = self._run(driver, question.code)
            if outcome.fatal:
                self._blame_the_machine(driver, outcome, self._cells, f"the kernel of question {question.name!r}")
                if not self._suspects.is_certain(f"? {question.name}", self._last, outcome):
                    return False
            measured = {"seconds": outcome.seconds, "rss_before": before, "rss_peak": driver.watchdog.close_window()}
            self.questions[question.name] = _answered(question, outcome) | measured
            if outcome.sentence:
                self._tell(f"question {question.name!r} {outcome.sentence}")
            if outcome.fatal or time.monotonic() > self._deadline:
                return False
            self._last = f"? {question.name}"
        return True

    def _run(self, driver: Driver, code: str) -> Outcome:
        outcome = driver.run(code, self._deadline)
        excused = min(outcome.waited, self._limits.wall_seconds - self.resources["waited_seconds"])
        self.resources["waited_seconds"] += excused
        self._deadline += excused
        return outcome

    def _ended_by_last(self, driver: Driver) -> bool:
        if not self._suspects.ended_by_last(self._last, driver, self._deadline):
            return False
        if self._last in self.cells:  # a question has its answer already, and is not asked again
            self.cells[self._last] |= {"status": "died", "why": "died"}
        self._tell(f"cell {self._last!r} ended the kernel a moment after it had run")
        return True

    def _tell(self, sentence: str) -> None:
        if sentence not in self.events:
            self.events.append(sentence)

    def _account(self, driver: Driver) -> None:
        ended = driver.close() or {}
        if driver.kernel.stray_answers:
            self._tell("an answer arrived that belonged to no question, so it was not counted")
        seen, watchdog = self.resources, driver.watchdog
        seen["cpu_seconds"] += max(ended.get("cpu", 0.0), watchdog.cpu)
        seen["peak_rss"] = max(seen["peak_rss"], watchdog.peak, ended.get("peak", 0))
        seen["baseline_rss"] = watchdog.baseline
        seen["processes"] = max(seen["processes"], watchdog.processes)


# ---- questions that could not be run are run again ------------------------------------------------------------------
def run_and_ask_again(
    cells: Sequence[Cell],
    questions: Sequence[Question],
    answer_cells: Mapping[str, str],
    files: Mapping[str, bytes],
    limits: Limits,
    sandbox: Sandbox | Unconfined,
) -> Transcript:
    """As `run`; then each question that could not be run is run alone in a fresh kernel, as a bad cell may be to blame.

    All of this together stays within the limits: the first run has _FIRST_SHARE of them, and what is left of both times
    is divided among the questions. answer_cells: cell id -> task; of these, each task gets its own only. Cells of the
    student's own that failed are left out, because one of them probably damaged the first kernel.
    """
    deadline = time.monotonic() + limits.wall_seconds
    seen = run(cells, questions, files, _share(limits, limits.wall_seconds, limits.cpu_seconds, _FIRST_SHARE), sandbox)
    deadline += seen["resources"]["waited_seconds"]
    asked = [question for question in questions if _could_not_be_asked(question, seen, answer_cells)]
    for left, question in zip(range(len(asked), 0, -1), asked, strict=True):
        wall, cpu = deadline - time.monotonic(), limits.cpu_seconds - seen["resources"]["cpu_seconds"]
        if min(wall, cpu) / left < _SHORTEST_SHARE:
            seen["events"].append(f"there was no time to test {question.name!r} again")
            continue
        mine = [cell for cell in cells if answer_cells.get(cell.id, question.name) == question.name]
        needed = [cell for cell in mine if cell.id in answer_cells or seen["cells"][cell.id]["status"] == "ok"]
        again = run(needed, [question], files, _share(limits, wall, cpu, 1 / left), sandbox)
        for name in ("cpu_seconds", "wall_seconds", "waited_seconds", "kernels"):
            seen["resources"][name] += again["resources"][name]
        if again["questions"][question.name]["answer"] is not None:
            seen["questions"][question.name] = again["questions"][question.name]
            seen["events"].append(f"task {question.name!r} was tested again, alone in a fresh kernel")
    return seen


def _could_not_be_asked(question: Question, seen: Transcript, answer_cells: Mapping[str, str]) -> bool:
    found = seen["questions"][question.name]
    is_unanswered = found["answer"] is None and found["reason"] in _NOT_ITS_FAULT
    return is_unanswered and question.name in answer_cells.values()


def _share(limits: Limits, wall: float, cpu: float, share: float) -> Limits:
    """The limits, with a share of so much wall time and processor time."""
    return replace(limits, wall_seconds=wall * share, cpu_seconds=max(1, round(cpu * share)))


# ---- which cell ended the kernel ------------------------------------------------------------------------------------
class _Suspects:
    """Which cells the next kernel leaves out. In doubt, it waits after every cell, to see which one ends it."""

    def __init__(self) -> None:
        self.left_out: set[str] = set()
        self._died_once: set[str] = set()
        self._cleared: set[str] = set()  # watched once, and the kernel lived
        self._in_doubt, self._wait = False, _SHORTEST_WAIT

    def ended_by_last(self, last: str, driver: Driver, deadline: float) -> bool:
        """Called before the next cell is run. Did `last` end the kernel after all?"""
        if not self._in_doubt or not last or last in self._cleared:
            return False
        if driver.rest(self._wait, deadline) is None:
            self._cleared.add(last)
            return False
        self._in_doubt = False
        self.left_out.add(last)
        return True

    def is_certain(self, name: str, last: str, outcome: Outcome) -> bool:
        """Called when the kernel ended while `name` ran, after `last`. False: it may have been `last`, so try again.

        One end proves nothing: where a machine has no memory left, any process may be ended.
        """
        is_first = outcome.why in ("died", "closed") and name not in self._died_once
        self._died_once.add(name)
        soon = outcome.why in ("died", "closed") and outcome.seconds < _SOON
        self._in_doubt = bool(last) and last not in self._cleared and (soon or not outcome.begun)
        died_after = outcome.seconds if outcome.status == "died" else 0.0
        self._wait = max(_SHORTEST_WAIT, _WAIT_FACTOR * died_after)
        return not self._in_doubt and not is_first


# ---- files and answers ----------------------------------------------------------------------------------------------
def _fitting(files: Mapping[str, bytes], limits: Limits) -> tuple[dict[str, bytes], list[str]]:
    """The files that a sandbox can hold, and a sentence for each other one: a bad file must not stop the rest."""
    kept: dict[str, bytes] = {}
    events = []
    room = limits.disk_bytes // 2
    for name, data in files.items():
        if not file_system.inside(name):
            events.append(f"the file {name!r} was left out, because its name leads out of the working folder")
        elif len(data) > min(limits.file_bytes, room):
            events.append(f"the file {name!r} was left out, because {len(data):,} bytes are too many")
        else:
            kept[name] = data
            room -= len(data)
    return kept, events


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def _summary(outcome: Outcome) -> dict:
    return {name: getattr(outcome, name) for name in ("status", "outputs", "seconds", "why")}


def _no_answer(reason: str) -> dict:
    return {"answer": None, "reason": reason, "seconds": 0.0, "rss_before": 0, "rss_peak": 0}


def _answered(question: Question, outcome: Outcome) -> dict:
    """The one answer with the right nonce, under the right request; anything else is a reason."""
    if outcome.status in ("timeout", "died"):
        return _no_answer(outcome.why)
    if len(outcome.answers) > 1:
        return _no_answer("several answers")
    if not outcome.answers:
        return _no_answer("error" if outcome.status == "error" else "no answer")
    if outcome.answers[0].get("nonce") != question.nonce:
        return _no_answer("a forged answer")
    return _no_answer("") | {"answer": outcome.answers[0]}
