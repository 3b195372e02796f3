"""Has the student's code tampered with its kernel? Checks whose results only an honest kernel gives.

A tamper check is run before and after all other questions (run/probes_in_kernel.py says what it computes), and a cell
whose assertion must fail is run after all other cells.
"""

from __future__ import annotations

from typing import Any

from ..run.probes_in_kernel import sample
from ..run.run_submission import Transcript
from ..tasks.answer_encoding import decode
from ..tasks.comparison import Tolerance, difference

FIRST_CHECK, LAST_CHECK = "tamper check before", "tamper check after"  # questions, asked before and after all others
MUST_RAISE = "must-raise"  # a cell, run after all others
_FORGERIES = ("several answers", "a forged answer", "an answer outside its question")


def signs_of_tampering(seen: Transcript, nonce: str, seeds: list[int]) -> list[str]:
    """The reasons why this kernel seems to be tampered with; usually there are none.

    nonce: the text of the assertion that must fail   seeds: those of both tamper checks
    """
    forged = [f"{its['reason']} to {name!r}" for name, its in seen["questions"].items() if its["reason"] in _FORGERIES]
    return [*_silenced(seen, nonce), *_other_results(seen, seeds), *forged]


def _silenced(seen: Transcript, nonce: str) -> list[str]:
    """An assertion that must fail. One that was never reached says nothing."""
    cell = seen["cells"][MUST_RAISE]
    if cell["status"] in ("skipped", "timeout", "died"):
        return []
    raised = [o for o in cell["outputs"] if o.get("output_type") == "error" and nonce in str(o.get("evalue"))]
    return [] if raised and cell["status"] == "error" else ["an assertion that must fail did not"]


def _other_results(seen: Transcript, seeds: list[int]) -> list[str]:
    odd = []
    for name, seed in zip((FIRST_CHECK, LAST_CHECK), seeds, strict=True):
        found = seen["questions"][name]
        if found["answer"] is None:
            if found["reason"] != "wall time":
                odd.append(f"ordinary computations failed in it ({found['reason']})")
        elif text := _unlike(found["answer"], seed):
            odd.append(f"ordinary computations give different results in it ({text})")
    return odd


def _unlike(answer: Any, seed: int) -> str:
    try:
        (found,) = answer["data"]["cases"]
        return difference(decode(found), decode(sample(seed)), Tolerance(1e-5, 1e-6))
    except Exception as error:  # forged data can cause any error
        return f"no data: {error}"[:100]
