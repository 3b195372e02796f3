"""What is done with one submission? It is rebuilt, run and tested, on any worker of any executor.

A worker shares nothing with the coordinator. If it reports that it does not have the assignment, its job is sent
again with the assignment. It uses the warm process whose address is in the job or, without an address, starts one.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import secrets
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from ...errors import CkptError
from ..assignment.assignment import Assignment, Released
from ..notebooks.rebuild import Rebuilt, read_submission, reassemble
from ..run.machine_trouble import MachineTrouble
from ..run.probes_in_kernel import TAMPER_CHECK, question
from ..run.run_submission import Cell, Question, Transcript, run_and_ask_again
from ..safe_outputs import sanitise
from ..sandbox.limits import Limits
from ..sandbox.sandbox import Sandbox, default
from ..sandbox.without_isolation import Unconfined
from ..tasks.answer_size import fitted
from ..tasks.probes import Quiz, Task
from .scoring import may_be_a_mistake, verdict_without_mistakes
from .tampering import FIRST_CHECK, LAST_CHECK, MUST_RAISE, signs_of_tampering

ENGINE = 2  # increase this number when records of an older engine can no longer be scored
_WAITED_LONG = 0.2  # it waited long if it spent at least this share of its time waiting for a processor
_MODULES = (".py", ".pyc", ".so")
MOST_ANSWERS = 24 * 2**20  # bytes of one submission's answers

_bundles: dict[str, Assignment] = {}
_one_at_a_time = threading.Lock()  # the reference runs in this process and changes torch's state


def pack(assignment: Assignment) -> tuple[str, dict]:
    """The assignment as it is sent to a worker, and the digest by which the worker knows it again."""
    bundle = {"name": assignment.name, "files": dict(sorted(assignment.files.items()))}
    return hashlib.sha256(repr(bundle).encode()).hexdigest(), bundle


def know(digest: str, assignment: Assignment) -> None:
    """Called before workers are forked from this process, so that they need not be sent the assignment."""
    _bundles[digest] = assignment


def job(digest: str, seeds: dict[str, list[int]], files: dict[str, bytes] | None, **more: Any) -> dict:
    """The argument of `grade_one`.

    If there are no files, nothing is run: the answers are known already, and only the expected data is computed.
    """
    payload = {"assignment": digest, "seeds": seeds, "files": files, "answers": {}}
    return payload | {"limits": Limits(), "sandbox": None, "bundle": None, "alone": True} | more


def grade_one(job: dict) -> dict:
    """The record of one submission: its rebuilt notebook, the data that its kernel returned, and the expected data."""
    assignment = _assignment(job["assignment"], job["bundle"])
    if assignment is None:
        return {"need": "bundle"}
    if job["files"] is None:
        return {"expected": _expected(assignment, job["seeds"], job["answers"], _right(assignment, job["seeds"]))}
    record = examine(assignment, job["files"], job["seeds"], job["limits"], job["sandbox"])
    if not job["alone"] and (waited := _late_for_want_of_a_processor(record)):
        raise MachineTrouble(f"it ran out of time, and had waited {waited:.0f} s of it for a processor")
    return record


def _late_for_want_of_a_processor(record: dict) -> float:
    """The seconds that it waited, if a limit on time was reached and the waiting may be the reason; else 0."""
    late = any(answer.get("reason") in _TOO_LATE for answer in record["answers"].values())
    late = late or any(cell["status"] == "timeout" for cell in record.get("cells", {}).values())
    seen = record.get("resources", {})
    return seen["waited_seconds"] if late and seen["waited_seconds"] > _WAITED_LONG * seen["wall_seconds"] else 0


def examine(
    assignment: Released,
    files: dict[str, bytes],
    seeds: dict[str, list[int]],
    limits: Limits,
    sandbox: str | None = None,
) -> dict:
    """Rebuild, run and test a submission: its notebook, the data that its kernel returned, and the expected data.

    seeds: of each task that is tested. sandbox: the address of a warm process; by default, this process starts one.
    """
    with ThreadPoolExecutor(1) as meanwhile:  # the kernel is a process of its own, and this one only listens to it
        right = meanwhile.submit(_right, assignment, seeds)
        record = _run(assignment, files, seeds, limits, sandbox, right.result)
    expected = _expected(assignment, seeds, record["answers"], right.result())
    for name, answer in record["answers"].items():  # data that is far too large, or that was not asked for, is dropped
        if "missing" in answer:
            answer["missing"] = [known for known in assignment.tasks[name].names if known in answer["missing"]]
        if "cases" in answer:
            right = expected[name]["right"]
            as_many = len(answer["cases"]) == len(right)
            answer["cases"] = [fitted(*pair) for pair in zip(answer["cases"], right, strict=True)] if as_many else []
    return record | {"expected": expected}


def _assignment(digest: str, bundle: dict | None) -> Assignment | None:
    if digest not in _bundles and bundle is not None:
        while len(_bundles) >= 4:  # a dask worker may live for a whole course
            _bundles.pop(next(iter(_bundles)), None)
        _bundles[digest] = Assignment(**bundle)
    return _bundles.get(digest)


def _right(assignment: Released, seeds: dict[str, list[int]]) -> dict[str, list]:
    """The reference's data."""
    with _solutions(assignment):
        return {name: assignment.right(name, values) for name, values in seeds.items()}


def _expected(
    assignment: Released, seeds: dict[str, list[int]], answers: dict[str, dict], right: dict[str, list]
) -> dict[str, dict]:
    """The reference's data.

    The data of the known mistakes takes longer, so it is computed only for tasks that have a wrong answer.
    """
    expected = {}
    with _solutions(assignment):
        for name, values in seeds.items():
            wrong = may_be_a_mistake(assignment.tasks[name], answers.get(name, {}), right[name])
            expected[name] = {"right": right[name], "mistakes": assignment.known(name, values) if wrong else []}
    return expected


@contextlib.contextmanager
def _solutions(assignment: Released) -> Iterator[None]:
    """An author's code runs here; its output and its warnings are not part of a result."""
    with _one_at_a_time, contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(action="ignore"):
        try:
            yield
        except CkptError:  # it already names the place of the mistake
            raise
        except Exception as error:  # an error of the assignment, the same for every submission
            raise CkptError(f"the solutions of {assignment.name} raise {type(error).__name__}: {error}") from error


# ---- the student's side ---------------------------------------------------------------------------------------------
def _run(
    assignment: Released,
    files: dict[str, bytes],
    seeds: dict[str, list[int]],
    limits: Limits,
    address: str | None,
    right: Callable[[], dict[str, list]],
) -> dict:
    rebuilt = reassemble(read_submission(files, f"{assignment.name}.ipynb"), assignment.release)
    record: dict = {
        "engine": ENGINE,
        "problem": rebuilt.problem,
        "path": rebuilt.path,
        "notes": rebuilt.notes,
        "answered": rebuilt.answered,
        "notebook": rebuilt.notebook,
        "answers": {},
    }
    if rebuilt.problem is not None:
        return record
    tamper_seeds = [secrets.randbits(48), secrets.randbits(48)]
    asked_of = {FIRST_CHECK: (TAMPER_CHECK, tamper_seeds[:1])}
    asked_of |= {name: (name, its_seeds) for name, its_seeds in seeds.items()}
    asked_of[LAST_CHECK] = (TAMPER_CHECK, tamper_seeds[1:])
    nonces = {name: secrets.token_hex(16) for name in (*asked_of, MUST_RAISE)}
    questions = [
        Question(name, question(nonces[name], assignment.tasks_py, probe, its_seeds), nonces[name])
        for name, (probe, its_seeds) in asked_of.items()
    ]
    cells = [*_cells(rebuilt, assignment, files), Cell(MUST_RAISE, f"assert False, {nonces[MUST_RAISE]!r}")]
    files, sandbox = _beside(assignment, rebuilt, files), Sandbox(address) if address else default()
    answer_cells = _answer_cells(rebuilt, assignment)
    seen = run_and_ask_again(cells, questions, answer_cells, files, limits, sandbox)
    with _one_at_a_time:
        odd = signs_of_tampering(seen, nonces[MUST_RAISE], tamper_seeds)
    record |= _record_of(seen, seeds) | {"tampering": odd}
    if assignment.replaced:
        tasks = {name: task for name, task in assignment.tasks.items() if name in seeds and not isinstance(task, Quiz)}
        worth = {name: _worth(task, record["answers"][name], right()[name]) for name, task in tasks.items()}
        asked = {name: seeds[name] for name, earned in worth.items() if earned > 0}
        again = _ask_without_the_library(assignment, asked, cells, answer_cells, files, limits, sandbox, seen)
        for name, answer in again.items():
            now = _worth(tasks[name], answer, right()[name])
            if now < worth[name]:
                record["events"].append(f"{name}: {_BORROWED}")
            record["answers"][name] = {"reason": _BORROWED} if "cases" in answer and now == 0 else answer
    return record


def _worth(task: Task, answer: dict, right: list) -> float:
    return verdict_without_mistakes(task, answer, right).share


def _ask_without_the_library(
    assignment: Released,
    seeds: dict[str, list[int]],
    cells: list[Cell],
    answer_cells: dict[str, str],
    files: dict[str, bytes],
    limits: Limits,
    sandbox: Sandbox | Unconfined,
    seen: Transcript,
) -> dict[str, dict]:
    """The answers of a second kernel, in which the code that they replace was switched off before any cell was run.

    This kernel may use the time that the first kernel has not used up. Cells that had to be stopped there are not run
    again.
    """
    if not seeds:
        return {}
    with _solutions(assignment):
        made = {name: assignment.made(name, its_seeds) for name, its_seeds in seeds.items()}
    questions = []
    for name, its_seeds in seeds.items():
        nonce = secrets.token_hex(16)
        questions.append(Question(name, question(nonce, assignment.tasks_py, name, its_seeds, made[name]), nonce))
    used = seen["resources"]
    left = replace(
        limits,
        wall_seconds=max(1.0, limits.wall_seconds + used["waited_seconds"] - used["wall_seconds"]),
        cpu_seconds=max(1, round(limits.cpu_seconds - used["cpu_seconds"])),
    )
    kept = [cell for cell in cells if seen["cells"][cell.id]["status"] not in ("timeout", "died")]
    again = run_and_ask_again(kept, questions, answer_cells, files, left, sandbox.without(assignment.replaced))
    for name in ("cpu_seconds", "wall_seconds", "waited_seconds", "kernels"):
        used[name] += again["resources"][name]
    found = _record_of(again, seeds)["answers"]
    for name, answer in found.items():
        if "missing" in answer:
            found[name] = {"reason": _NEEDS_THE_LIBRARY.format(", ".join(answer["missing"]))}
    return found


_BORROWED = (
    "your answer uses results that your cells got from the library's functions. These functions are what you are "
    "asked to write, and when they were switched off from the start, the same cells did not give the right answer"
)
_NEEDS_THE_LIBRARY = (
    "{} is not defined when the library's functions that it should replace are switched off. Does its cell, or one "
    "that it needs, use them? Then move those lines into another cell"
)


def _cells(rebuilt: Rebuilt, assignment: Released, files: dict[str, bytes]) -> list[Cell]:
    """Grade cells are left out, because their result in the student's kernel decides nothing."""
    own_modules = any(name.endswith(_MODULES) and name not in assignment.released_files for name in files)
    # if the student's own modules are in the same folder, a released cell may import one of them
    released = {} if own_modules else {cell.id: cell.source for cell in assignment.release.cells}
    code = (cell for cell in rebuilt.notebook.cells if cell.cell_type == "code")
    kept = (cell for cell in code if not cell.metadata.get("nbgrader", {}).get("grade"))
    return [Cell(cell.id, cell.source, released.get(cell.id) == cell.source) for cell in kept]


def _answer_cells(rebuilt: Rebuilt, assignment: Released) -> dict[str, str]:
    """Cell id -> task, of the answer cells that belong to one task: they have its name."""
    ids = (cell.metadata.get("nbgrader", {}).get("grade_id") for cell in rebuilt.notebook.cells)
    return {name: name for name in ids if name in assignment.tasks}


def _beside(assignment: Released, rebuilt: Rebuilt, files: dict[str, bytes]) -> dict[str, bytes]:
    """The files in the kernel's folder: the student's, and those of the release as they were released."""
    released = assignment.released_files
    taken = {rebuilt.path, *released, *(folder for name in released for folder in _folders(name))}
    own = {name: raw for name, raw in files.items() if name not in taken and not name.endswith(".ipynb")}
    # a student's folder with the name of a released file would be in its way
    return {name: raw for name, raw in own.items() if not released.keys() & _folders(name)} | released


def _folders(name: str) -> set[str]:
    return {str(parent) for parent in PurePosixPath(name).parents}


# ---- what came back -------------------------------------------------------------------------------------------------
def _record_of(seen: Transcript, seeds: dict[str, list[int]]) -> dict:
    cells = {
        name: {"status": cell["status"], "outputs": sanitise.outputs(cell["outputs"]), "seconds": cell["seconds"]}
        for name, cell in seen["cells"].items()
        if name != MUST_RAISE
    }
    answers, room = {}, MOST_ANSWERS
    for name in seeds:
        answers[name] = _answer(seen["questions"][name])
        room -= len(json.dumps(answers[name]))
        if room < 0:
            answers[name] = {"reason": f"the answers are too large; at most {MOST_ANSWERS:,} bytes are allowed"}
    kept = {"cells": cells, "answers": answers, "resources": seen["resources"], "sandboxed": seen["sandboxed"]}
    return kept | {"events": seen["events"]}


def _answer(found: dict) -> dict:
    """{"cases": [data]} or {"missing": [names]} or {"reason": text}, and how far the kernel grew meanwhile."""
    if found["answer"] is None:
        return {"reason": _REASONS.get(found["reason"], f"could not be tested: {found['reason']}")}
    data = found["answer"].get("data")
    known = {"cases", "missing"} & set(data) if isinstance(data, dict) else set()
    if not known or not all(isinstance(data[key], list) for key in known):
        return {"reason": "the answer is not data"}
    return {key: data[key] for key in known} | {"grown": found["rss_peak"] - found["rss_before"]}


# Why a question ended. The keys come from run/cell_timeout.py, run/run_submission.py and sandbox/usage_watchdog.py.
_REASONS = {
    "timeout": "took too long and was stopped",
    "memory": "needed too much memory and was stopped",
    "cpu": "was stopped, because the notebook had used up its processor time",
    "output": "printed too much and was stopped. Is there a print left in a loop?",
    "processes": "started too many processes and was stopped",
    "sockets": "opened too many connections and was stopped",
    "died": "ended the kernel when it was tested",
    "closed": "closed the kernel's connection, so that it could not answer",
    "garbage": "could not be tested, because the kernel sent malformed messages. Does a cell use its sockets?",
    "wall time": "was not tested, because the notebook had used up its time",
    "error": "could not be tested, because the kernel raised an error that does not come from the answer",
    "no answer": "could not be tested, because the kernel did not answer",
    "several answers": "was not counted, because the kernel gave several answers to one question",
    "a forged answer": "was not counted, because the kernel's answer does not belong to the question",
}
_TOO_LATE = {_REASONS["timeout"], _REASONS["wall time"]}
