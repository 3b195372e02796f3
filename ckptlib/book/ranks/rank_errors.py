"""Which rank failed, and what did it write last? The message that the reader sees."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from ...errors import CkptError

_BY_TORCHRUN = (-signal.SIGTERM, 0xC000013A)  # codes of ranks that it ended because of another; the second on Windows
_LAST_LINES = 6  # of what a rank that failed wrote


class RankError(CkptError):
    """A rank raised, died or hung: which one, and the last that it wrote."""


def no_answer(folder: Path, ranks: int, seconds: float) -> str:
    missing = [rank for rank in range(ranks) if not (folder / f"{rank}.json").exists()]
    said = [f"rank {rank} was here:\n{_last_lines(folder, rank)}" for rank in missing]
    return "\n".join([f"no answer after {seconds:g} s: do all ranks call the same collectives?", *said])


def who_failed(folder: Path, ranks: int) -> str:
    """Whose fault is it? If one ended without raising, that one's; else the first one's that raised."""
    codes = {}
    for path in folder.glob("failed.json"):
        codes = {int(rank): code for rank, code in json.loads(path.read_text(encoding="utf-8")).items()}
    raised = sorted((path.stat().st_mtime_ns, path.stem) for path in folder.glob("*.raised"))
    loud = {int(name) for _, name in raised}
    killed = [rank for rank, code in codes.items() if code not in _BY_TORCHRUN and rank not in loud]
    if killed or not raised:
        rank = min(killed or codes or [-1])
        if rank < 0:
            return f"torchrun did not start {ranks} ranks:\n" + _tail(_read(folder / "agent.log"))
        code = codes[rank]
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"it ended itself with code {code}"
        return f"rank {rank} of {ranks} died: {how}\n{_last_lines(folder, rank)}".rstrip()
    rank = int(raised[0][1])
    return f"rank {rank} of {ranks} raised\n{_last_lines(folder, rank)}"


def _last_lines(folder: Path, rank: int) -> str:
    return "\n".join(_tail(_read(path)) for path in folder.glob(f"logs/*/*/{rank}/stderr.log"))


def _read(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")


def _tail(text: str) -> str:
    return "\n".join([line for line in text.splitlines() if line.strip()][-_LAST_LINES:])
