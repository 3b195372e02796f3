"""What does nbgrader's exchange need to hand a page out? Beside the page, the submission's time and its secret."""

from __future__ import annotations

import hmac
import os
import re
from pathlib import Path

from ..notebooks.submitted_files import Submission

TIMESTAMP, SECRET = "timestamp.txt", "submission_secret.txt"  # the exchange writes them into each submission


def write(folder: Path, assignment: str, page: str, submission: Submission, course_secret: bytes) -> None:
    """The page comes last: where it is, the others are."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _for_the_exchange(submission, assignment, course_secret).items():
        _replace(folder / name, text)
    _replace(folder / f"{assignment}.html", page)


def _for_the_exchange(submission: Submission, assignment: str, course_secret: bytes) -> dict[str, str]:
    """`nbgrader release_feedback` reads both of every student; missing or odd ones would stop it for the whole class.

    The page goes to whoever knows the submission's secret. Work that came by another way has none, and gets one that
    nobody can guess.
    """
    when, secret = (submission.files.get(name, b"")[:1000].decode(errors="replace") for name in (TIMESTAMP, SECRET))
    if not re.fullmatch(r"[!-~]{20,999}", secret):
        about = "\0".join(["feedback", assignment, submission.student])
        secret = hmac.digest(course_secret, about.encode(errors="surrogateescape"), "sha256").hex()
    return {TIMESTAMP: when if re.fullmatch(r"[ -~]{0,100}", when) else "", SECRET: secret}


def _replace(path: Path, text: str) -> None:
    """All of it or nothing: somebody may be reading."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)
