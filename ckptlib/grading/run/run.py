"""What happens when a submission is run and asked? A transcript: outputs, answers, what it used, what went wrong."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..sandbox import isolation
from ..sandbox.limits import Limits
from ..sandbox.sandbox import Sandbox, default
from ..sandbox.unconfined import Unconfined
from .cell_timeout import Driver, Outcome

Transcript = dict[str, Any]  # plain JSON: see `run`

_SOON = 2.0  # seconds: a cell that died sooner may have been ended by an earlier one
_MOMENT = 1.0  # seconds to wait at least, after a cell that is watched, for the end of the kernel
# The kernel's fault, not the answer's: threads of another cell may have slowed it down, interrupted or ended it.
_NOT_ITS_FAULT = set("died closed timeout memory processes sockets cpu output garbage error".split())
_NOT_ITS_FAULT |= {"wall time", "no answer"}
_PATIENCE = 2.0  # times as long as the kernel took to end: on a busy machine a kernel is slow to die as well


@dataclass(frozen=True)
class Cell:
    """A cell to be run."""

    id: str
    source: str


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
    """Run all cells in a fresh kernel, then ask. Whatever the code does, this ends soon after `limits.wall_seconds`.

    Returns {"cells": {id: {"status", "outputs", "seconds", "why"}},
             "questions": {name: {"answer", "reason", "seconds", "rss_before", "rss_peak"}},
             "resources": {"peak_rss", "baseline_rss", "cpu_seconds", "wall_seconds", "processes", "kernels"},
             "events": [sentence], "sandboxed": bool, "warning": why it was not, else ""}.
    A cell or question that takes the kernel down is left out of the next kernel; the others are run again there.
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
        self._blame, self._last = _Blame(), ""  # which cells are left out of the next kernel; what ran last in this one
        skipped = {"status": "skipped", "outputs": [], "seconds": 0.0, "why": ""}
        self.cells = {cell.id: dict(skipped) for cell in cells}
        self.questions: dict[str, dict] = {}
        self._files, self.events = _fitting(files, limits)
        self.resources = {"peak_rss": 0, "baseline_rss": 0, "cpu_seconds": 0.0, "processes": 0, "kernels": 0}

    def go(self) -> Transcript:
        while not self._one_kernel():
            if time.monotonic() > self._deadline:
                self.events.append(f"the submission's {self._limits.wall_seconds:g} s were over: the rest was left out")
                break
        for question in self._questions:
            self.questions.setdefault(question.name, _no_answer("wall time"))
        self.resources["wall_seconds"] = time.monotonic() - self._started
        plain = {"cells": self.cells, "questions": self.questions, "resources": self.resources, "events": self.events}
        return {**plain, "sandboxed": self._sandbox.sandboxed, "warning": self._sandbox.warning}

    def _one_kernel(self) -> bool:
        """One kernel's life; True when nothing is left to do."""
        self.resources["kernels"] += 1
        driver = Driver(self._sandbox.kernel(self._limits, self._files), self._limits)
        try:
            ready = driver.get_ready(self._deadline)
            if ready.fatal and time.monotonic() < self._deadline:
                raise RuntimeError(f"a fresh kernel {ready.sentence}: is the machine out of memory?")
            return not ready.fatal and self._all_cells(driver) and self._all_questions(driver)
        finally:
            self._account(driver)

    def _all_cells(self, driver: Driver) -> bool:
        self._last = ""
        for cell in self._cells:
            if cell.id in self._blame.left_out:
                continue
            if self._ended_by_last(driver):
                return False
            outcome = driver.run(cell.source, self._deadline)
            seen = {
                "status": outcome.status,
                "outputs": outcome.outputs,
                "seconds": outcome.seconds,
                "why": outcome.why,
            }
            self.cells[cell.id] = seen
            if outcome.answers:
                self._tell("an answer was shown by a cell that was not asked for one: it was not counted")
            if outcome.fatal and not self._blame.is_certain(self._last, outcome):
                return False
            if outcome.status in ("timeout", "died"):
                self._blame.left_out.add(cell.id)  # if another kernel is needed, it need not wait for this cell again
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
            outcome = driver.run(question.code, self._deadline)
            if outcome.fatal and not self._blame.is_certain(self._last, outcome):
                return False
            measured = {"seconds": outcome.seconds, "rss_before": before, "rss_peak": driver.watchdog.close_window()}
            self.questions[question.name] = _answered(question, outcome) | measured
            if outcome.sentence:
                self._tell(f"question {question.name!r} {outcome.sentence}")
            if outcome.fatal or time.monotonic() > self._deadline:
                return False
            self._last = f"? {question.name}"
        return True

    def _ended_by_last(self, driver: Driver) -> bool:
        if not self._blame.ended_by_last(self._last, driver):
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
        if driver.stray_answers:
            self._tell("an answer came that belonged to no question: it was not counted")
        seen, watchdog = self.resources, driver.watchdog
        seen["cpu_seconds"] += max(ended.get("cpu", 0.0), watchdog.cpu)
        seen["peak_rss"] = max(seen["peak_rss"], watchdog.peak, ended.get("peak", 0))
        seen["baseline_rss"] = watchdog.baseline
        seen["processes"] = max(seen["processes"], watchdog.processes)


# ---- what could not be asked is asked again -------------------------------------------------------------------------
def ask_again(
    seen: Transcript,
    cells: Sequence[Cell],
    questions: Sequence[Question],
    answer_cells: Mapping[str, str],
    files: Mapping[str, bytes],
    limits: Limits,
    sandbox: Sandbox | Unconfined,
) -> None:
    """Ask alone, in a fresh kernel, what could not be asked: one bad cell must not cost the other tasks.

    Completes `seen` in place. answer_cells: cell id -> task; of these, each task gets its own only.
    Cells of the student's own that failed are left out: one of them probably damaged the first kernel.
    """
    short = replace(limits, wall_seconds=limits.wall_seconds / 4)
    for question in questions:
        found = seen["questions"][question.name]
        if (
            found["answer"] is not None
            or found["reason"] not in _NOT_ITS_FAULT
            or question.name not in answer_cells.values()
        ):
            continue
        again = run(_needed(question.name, cells, answer_cells, seen), [question], files, short, sandbox)
        if again["questions"][question.name]["answer"] is not None:
            seen["questions"][question.name] = again["questions"][question.name]
            seen["events"].append(f"task {question.name!r} was asked alone, in a fresh kernel")


def _needed(task: str, cells: Sequence[Cell], answer_cells: Mapping[str, str], seen: Transcript) -> list[Cell]:
    mine = [cell for cell in cells if answer_cells.get(cell.id, task) == task]
    return [cell for cell in mine if cell.id in answer_cells or seen["cells"][cell.id]["status"] == "ok"]


# ---- which cell ended the kernel ------------------------------------------------------------------------------------
class _Blame:
    """Which cells the next kernel leaves out. In doubt, it waits after every cell, to see which one ends it."""

    def __init__(self) -> None:
        self.left_out: set[str] = set()
        self._cleared: set[str] = set()  # watched once, and the kernel lived
        self._in_doubt, self._wait = False, _MOMENT

    def ended_by_last(self, last: str, driver: Driver) -> bool:
        """Called before the next cell is run. Did `last` end the kernel after all?"""
        if not self._in_doubt or not last or last in self._cleared:
            return False
        if driver.rest(self._wait) is None:
            self._cleared.add(last)
            return False
        self._in_doubt = False
        self.left_out.add(last)
        return True

    def is_certain(self, last: str, outcome: Outcome) -> bool:
        """Called when the kernel ended while a cell ran, after `last`. False: it may have been `last`, so try again."""
        soon = outcome.why in ("died", "closed") and outcome.seconds < _SOON
        self._in_doubt = bool(last) and last not in self._cleared and (soon or not outcome.begun)
        died_after = outcome.seconds if outcome.status == "died" else 0.0
        self._wait = max(_MOMENT, _PATIENCE * died_after)
        return not self._in_doubt


# ---- files and answers ----------------------------------------------------------------------------------------------
def _fitting(files: Mapping[str, bytes], limits: Limits) -> tuple[dict[str, bytes], list[str]]:
    """The files that a sandbox can hold, and a sentence for each other one: a bad file must not stop the rest."""
    kept: dict[str, bytes] = {}
    events = []
    room = limits.disk_bytes // 2
    for name, data in files.items():
        if not isolation.inside(name):
            events.append(f"the file {name!r} was left out: its name leads out of the working folder")
        elif len(data) > min(limits.file_bytes, room):
            events.append(f"the file {name!r} was left out: {len(data)} bytes are too many")
        else:
            kept[name] = data
            room -= len(data)
    return kept, events


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
