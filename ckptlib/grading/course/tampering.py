"""Has the student's code tampered with its kernel? What must fail, and what must come out the same, tells."""

from __future__ import annotations

from typing import Any

from ..canary import sing
from ..data import decode
from ..difference import Tolerance, difference
from ..running.run import Transcript

FIRST_SONG, LAST_SONG = "canary before", "canary after"  # questions, asked before and after all others
MUST_RAISE = "must-raise"  # a cell, run after all others
_FORGERIES = ("several answers", "a forged answer", "an answer outside its question")


def signs(seen: Transcript, nonce: str, songs: list[int]) -> list[str]:
    """What speaks for a tampered kernel; usually nothing. nonce: what the failing assertion says; songs: both seeds."""
    return [*_silenced(seen, nonce), *_out_of_tune(seen, songs), *_forged(seen)]


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
        return difference(decode(song), decode(sing(seed)), Tolerance(1e-5, 1e-6))
    except Exception as error:  # a forged song can cause any
        return f"no data: {error}"[:100]


def _forged(seen: Transcript) -> list[str]:
    return [
        f"{found['reason']} to {name!r}" for name, found in seen["questions"].items() if found["reason"] in _FORGERIES
    ]
