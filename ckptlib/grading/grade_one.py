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
from typing import Any

from ..errors import CkptError
from . import sanitise
from .asking import question
from .assignment import Assignment
from .canary import sing
from .data import decode
from .limits import Limits
from .reassemble import Rebuilt, read_submission, reassemble
from .run import Cell, Question, Transcript, run
from .sandbox import Sandbox, default
from .verdict import Tolerance, difference

ENGINE = 1  # changes when records of an older engine cannot be judged any more
FIRST_SONG, LAST_SONG = "canary before", "canary after"
MUST_RAISE = "must-raise"

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
    """What to ask for. Without files nobody is asked: only what to expect is computed."""
    packed = None if files is None else {name: base64.b64encode(raw).decode() for name, raw in files.items()}
    return {"assignment": digest, "seeds": seeds, "files": packed, "limits": {}, "sandbox": None, "bundle": None, **more}


def grade_one(job: bytes) -> bytes:
    """The record of one submission: its rebuilt notebook, what its kernel returned, and what was expected."""
    asked = json.loads(job)
    assignment = _assignment(asked["assignment"], asked["bundle"])
    if assignment is None:
        return b'{"need": "bundle"}'
    expected = {"expected": _expected(assignment, asked["seeds"])}
    if asked["files"] is None:
        return json.dumps(expected).encode()
    files = {name: base64.b64decode(raw) for name, raw in asked["files"].items()}
    with_questions = _run(assignment, files, asked)
    return json.dumps(with_questions | expected).encode()


def _assignment(digest: str, bundle: dict | None) -> Assignment | None:
    if digest not in _bundles and bundle is not None:
        files = {name: base64.b64decode(raw) for name, raw in bundle["files"].items()}
        while len(_bundles) >= 4:  # a dask worker may live for a whole course
            _bundles.pop(next(iter(_bundles)), None)
        _bundles[digest] = Assignment(bundle["name"], files)
    return _bundles.get(digest)


def _expected(assignment: Assignment, seeds: dict[str, list[int]]) -> dict[str, dict]:
    with _one_at_a_time, contextlib.redirect_stdout(io.StringIO()):  # what solutions print is nobody's result
        try:
            pairs = {name: assignment.expected(name, values) for name, values in seeds.items()}
        except Exception as error:  # for every submission the same: an error of the assignment, not of the student
            raise CkptError(f"the solutions of {assignment.name} raise {type(error).__name__}: {error}") from error
    return {name: {"right": right, "mistakes": known} for name, (right, known) in pairs.items()}


# ---- the student's side ---------------------------------------------------------------------------------------------
def _run(assignment: Assignment, files: dict[str, bytes], asked: dict) -> dict:
    rebuilt = reassemble(read_submission(files, f"{assignment.name}.ipynb"), assignment.release)
    record = {
        "engine": ENGINE,
        "problem": rebuilt.problem,
        "path": rebuilt.path,
        "notes": rebuilt.notes,
        "answered": rebuilt.answered,
        "notebook": rebuilt.notebook,
    }
    if rebuilt.problem is not None:
        return record
    songs = [secrets.randbits(48), secrets.randbits(48)]
    asked_of = {FIRST_SONG: ("canary", songs[:1])} | {name: (name, seeds) for name, seeds in asked["seeds"].items()}
    asked_of[LAST_SONG] = ("canary", songs[1:])
    nonces = {name: secrets.token_hex(16) for name in (*asked_of, MUST_RAISE)}
    questions = [
        Question(name, question(nonces[name], assignment.tasks_py, probe, seeds), nonces[name])
        for name, (probe, seeds) in asked_of.items()
    ]
    cells = [*_cells(rebuilt), Cell(MUST_RAISE, f"assert False, {nonces[MUST_RAISE]!r}")]
    files = _beside(assignment, rebuilt, files)
    seen = run(cells, questions, files, Limits(**asked["limits"]), _sandbox(asked["sandbox"]))
    odd = [*_silenced(seen, nonces[MUST_RAISE]), *_out_of_tune(seen, songs), *_forged(seen)]
    return record | _kept(seen, asked["seeds"]) | {"canary": odd}


def _sandbox(address: str | None) -> Sandbox:
    with _one_at_a_time:
        return Sandbox(address) if address else default()


def _cells(rebuilt: Rebuilt) -> list[Cell]:
    """Grade cells are left out: what they find in the student's kernel decides nothing."""
    code = (cell for cell in rebuilt.cells if cell.cell_type == "code")
    return [Cell(cell.id, cell.source) for cell in code if not cell.metadata.get("nbgrader", {}).get("grade")]


def _beside(assignment: Assignment, rebuilt: Rebuilt, files: dict[str, bytes]) -> dict[str, bytes]:
    """What lies in the kernel's folder: the student's files; those of the release are as they were released."""
    own = {name: raw for name, raw in files.items() if name != rebuilt.path and not name.endswith(".ipynb")}
    return own | assignment.released_files


# ---- what came back -------------------------------------------------------------------------------------------------
def _kept(seen: Transcript, seeds: dict[str, list[int]]) -> dict:
    cells = {
        name: {"status": cell["status"], "outputs": sanitise.outputs(cell["outputs"]), "seconds": cell["seconds"]}
        for name, cell in seen["cells"].items()
        if name != MUST_RAISE
    }
    answers = {name: _answer(seen["questions"][name]) for name in seeds}
    kept = {"cells": cells, "answers": answers, "resources": seen["resources"], "sandboxed": seen["sandboxed"]}
    return kept | {"events": seen["events"]}


def _answer(found: dict) -> dict:
    """{"cases": [data]} or {"missing": [names]} or {"reason": text}, and how far the kernel grew meanwhile."""
    if found["answer"] is None:
        return {"reason": _REASONS.get(found["reason"], f"could not be asked: {found['reason']}")}
    data = found["answer"].get("data")
    data = {key: data[key] for key in ("cases", "missing") if isinstance(data.get(key), list)} if isinstance(data, dict) else {}
    return {**data, "grown": found["rss_peak"] - found["rss_before"]} if data else {"reason": "the answer is no data"}


_REASONS = {
    "timeout": "took too long on other inputs and was stopped",
    "memory": "needed too much memory on other inputs and was stopped",
    "died": "ended the kernel on other inputs",
    "wall time": "was not asked: the notebook had used up its time",
    "error": "could not be asked: the kernel raised an error that is not the answer's",
    "no answer": "could not be asked: the kernel did not answer",
}
_FORGERIES = ("several answers", "a forged answer", "an answer outside its question")


def _silenced(seen: Transcript, nonce: str) -> list[str]:
    """An assertion that must fail. One that was never reached says nothing."""
    cell = seen["cells"][MUST_RAISE]
    if cell["status"] in ("skipped", "timeout", "died"):
        return []
    raised = [o for o in cell["outputs"] if o.get("output_type") == "error" and nonce in str(o.get("evalue"))]
    return [] if raised and cell["status"] == "error" else ["an assertion that must fail did not"]


def _out_of_tune(seen: Transcript, songs: list[int]) -> list[str]:
    odd = []
    for name, seed in zip((FIRST_SONG, LAST_SONG), songs, strict=True):
        found = seen["questions"][name]
        if found["answer"] is None:
            if found["reason"] != "wall time":
                odd.append(f"ordinary computations could not be done in it ({found['reason']})")
        elif text := _unlike(found["answer"], seed):
            odd.append(f"ordinary computations have other results in it ({text})")
    return odd


def _unlike(answer: Any, seed: int) -> str:
    try:
        (song,) = answer["data"]["cases"]
        with _one_at_a_time:
            expected = sing(seed)
        return difference(decode(song), decode(expected), Tolerance(1e-5, 1e-6))
    except (KeyError, TypeError, ValueError, RecursionError, CkptError) as error:
        return f"no data: {error}"[:100]


def _forged(seen: Transcript) -> list[str]:
    return [
        f"{found['reason']} to {name!r}" for name, found in seen["questions"].items() if found["reason"] in _FORGERIES
    ]
