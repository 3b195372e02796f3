"""What is done with one submission? Rebuilt, run, asked: bytes in, bytes out, on any worker of any executor.

A worker shares nothing with the coordinator. What it needs of the assignment comes with the first job that it says it
cannot do without; the warm process is the machine's (its address comes with the job) or the worker's own.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import secrets
import threading
from pathlib import PurePosixPath
from typing import Any

from ...errors import CkptError
from ..assignment.assignment import Assignment, Released
from ..notebooks.rebuild import Rebuilt, read_submission, reassemble
from ..run.kernel_answers import TAMPER_CHECK, question
from ..run.run import Cell, Question, Transcript, ask_again, run
from ..safe import sanitise
from ..sandbox.limits import Limits
from ..sandbox.sandbox import Sandbox, default
from . import tampering
from .scoring import is_right
from .tampering import FIRST_CHECK, LAST_CHECK, MUST_RAISE

ENGINE = 2  # changes when records of an older engine cannot be judged any more
MOST_ANSWERS = 24 * 2**20  # bytes of one submission's answers

_bundles: dict[str, Assignment] = {}
_one_at_a_time = threading.Lock()  # the reference runs in this process and changes torch's state


def pack(assignment: Assignment) -> tuple[str, dict]:
    """The assignment as it is sent to a worker, and the digest by which the worker knows it again."""
    files = {name: base64.b64encode(raw).decode() for name, raw in sorted(assignment.files.items())}
    bundle = {"name": assignment.name, "files": files}
    return hashlib.sha256(json.dumps(bundle).encode()).hexdigest(), bundle


def know(digest: str, assignment: Assignment) -> None:
    """Before workers are forked from this process: they need not be sent what they have."""
    _bundles[digest] = assignment


def job(digest: str, seeds: dict[str, list[int]], files: dict[str, bytes] | None, **more: Any) -> dict:
    """What `grade_one` is asked for. Without files, nothing is run: it computes what to expect for known `answers`."""
    packed = None if files is None else {name: base64.b64encode(raw).decode() for name, raw in files.items()}
    plain = {"assignment": digest, "seeds": seeds, "files": packed}
    return plain | {"answers": {}, "limits": {}, "sandbox": None, "bundle": None} | more


def grade_one(job: bytes) -> bytes:
    """The record of one submission: its rebuilt notebook, what its kernel returned, and what was expected."""
    asked = json.loads(job)
    assignment = _assignment(asked["assignment"], asked["bundle"])
    if assignment is None:
        return b'{"need": "bundle"}'
    if asked["files"] is None:
        record = {"expected": _expected(assignment, asked["seeds"], asked["answers"])}
    else:
        files = {name: base64.b64decode(raw) for name, raw in asked["files"].items()}
        record = examine(assignment, files, asked["seeds"], Limits(**asked["limits"]), asked["sandbox"])
    return json.dumps(record).encode()


def examine(
    assignment: Released,
    files: dict[str, bytes],
    seeds: dict[str, list[int]],
    limits: Limits,
    sandbox: str | None = None,
) -> dict:
    """Rebuild a submission, run it and ask it: its notebook, what its kernel returned, and what was expected.

    seeds: of each task that is asked. sandbox: the address of a warm process, otherwise this process has its own.
    """
    record = _run(assignment, files, seeds, limits, sandbox)
    return record | {"expected": _expected(assignment, seeds, record["answers"])}


def _assignment(digest: str, bundle: dict | None) -> Assignment | None:
    if digest not in _bundles and bundle is not None:
        files = {name: base64.b64decode(raw) for name, raw in bundle["files"].items()}
        while len(_bundles) >= 4:  # a dask worker may live for a whole course
            _bundles.pop(next(iter(_bundles)), None)
        _bundles[digest] = Assignment(bundle["name"], files)
    return _bundles.get(digest)


def _expected(assignment: Released, seeds: dict[str, list[int]], answers: dict[str, dict]) -> dict[str, dict]:
    """The reference's data; the known mistakes', which take longer, only where the answer is not right."""
    expected = {}
    with _one_at_a_time, contextlib.redirect_stdout(io.StringIO()):  # what solutions print is nobody's result
        try:
            for name, values in seeds.items():
                right = assignment.right(name, values)
                wrong = "cases" in answers.get(name, ()) and not is_right(assignment.tasks[name], answers[name], right)
                expected[name] = {"right": right, "mistakes": assignment.known(name, values) if wrong else []}
        except CkptError:  # it says already where the slip is
            raise
        except Exception as error:  # an error of the assignment, the same for every submission
            raise CkptError(f"the solutions of {assignment.name} raise {type(error).__name__}: {error}") from error
    return expected


# ---- the student's side ---------------------------------------------------------------------------------------------
def _run(
    assignment: Released, files: dict[str, bytes], seeds: dict[str, list[int]], limits: Limits, address: str | None
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
    cells = [*_cells(rebuilt), Cell(MUST_RAISE, f"assert False, {nonces[MUST_RAISE]!r}")]
    files, sandbox = _beside(assignment, rebuilt, files), Sandbox(address) if address else default()
    seen = run(cells, questions, files, limits, sandbox)
    ask_again(seen, cells, questions, _answer_cells(rebuilt, assignment), files, limits, sandbox)
    with _one_at_a_time:
        odd = tampering.signs(seen, nonces[MUST_RAISE], tamper_seeds)
    return record | _record_of(seen, seeds) | {"tampering": odd}


def _cells(rebuilt: Rebuilt) -> list[Cell]:
    """Grade cells are left out: what they find in the student's kernel decides nothing."""
    code = (cell for cell in rebuilt.cells if cell.cell_type == "code")
    return [Cell(cell.id, cell.source) for cell in code if not cell.metadata.get("nbgrader", {}).get("grade")]


def _answer_cells(rebuilt: Rebuilt, assignment: Released) -> dict[str, str]:
    """Cell id -> task, of the answer cells that belong to one task: they have its name."""
    ids = (cell.metadata.get("nbgrader", {}).get("grade_id") for cell in rebuilt.cells)
    return {name: name for name in ids if name in assignment.tasks}


def _beside(assignment: Released, rebuilt: Rebuilt, files: dict[str, bytes]) -> dict[str, bytes]:
    """What lies in the kernel's folder: the student's files; those of the release are as they were released."""
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
            answers[name] = {"reason": f"the answers are too large: {MOST_ANSWERS:,} bytes are allowed"}
    kept = {"cells": cells, "answers": answers, "resources": seen["resources"], "sandboxed": seen["sandboxed"]}
    return kept | {"events": seen["events"]}


def _answer(found: dict) -> dict:
    """{"cases": [data]} or {"missing": [names]} or {"reason": text}, and how far the kernel grew meanwhile."""
    if found["answer"] is None:
        return {"reason": _REASONS.get(found["reason"], f"could not be asked: {found['reason']}")}
    data = found["answer"].get("data")
    known = {"cases", "missing"} & set(data) if isinstance(data, dict) else set()
    if not known or not all(isinstance(data[key], list) for key in known):
        return {"reason": "the answer is not data"}
    return {key: data[key] for key in known} | {"grown": found["rss_peak"] - found["rss_before"]}


# What ended a question. The words are those of run/cell_timeout.py, run/run.py and sandbox/resource_usage.py.
_REASONS = {
    "timeout": "took too long on other inputs and was stopped",
    "memory": "needed too much memory on other inputs and was stopped",
    "cpu": "was stopped on other inputs: the notebook had used up its processor time",
    "output": "printed too much on other inputs and was stopped. Is there a print left in a loop?",
    "processes": "started too many processes on other inputs and was stopped",
    "sockets": "opened too many connections on other inputs and was stopped",
    "died": "ended the kernel on other inputs",
    "closed": "closed the kernel's connection on other inputs, so that no answer could come",
    "garbage": "could not be asked: the kernel sent what no kernel sends. Does a cell use its sockets?",
    "wall time": "was not asked: the notebook had used up its time",
    "error": "could not be asked: the kernel raised an error that is not the answer's",
    "no answer": "could not be asked: the kernel did not answer",
    "several answers": "was not counted: the kernel gave several answers to one question",
    "a forged answer": "was not counted: the answer that came belongs to no question that was asked",
}
