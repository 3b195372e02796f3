"""Was it the submission's fault, or the machine's? The machine's faults decide no grade: it is run again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSES = (1.0, 4.0, 10.0)  # seconds before each further try


class MachineTrouble(RuntimeError):
    """The machine could not run this submission now. The message says why; nothing is known about the submission."""


def patiently(attempt: Callable[[], T], pauses: tuple[float, ...] = PAUSES) -> T:
    """Try again after each pause, as long as the machine is in trouble; raises what the last try raised."""
    for pause in pauses:
        try:
            return attempt()
        except MachineTrouble:
            time.sleep(pause)
    return attempt()


def processes_killed() -> int:
    """How many processes has Linux ended since it started because no memory was left? 0 where that is not counted."""
    try:
        with open("/proc/vmstat", encoding="utf-8") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except OSError:
        return 0
