"""How does a rank end, whatever happened? And what is said if it did not answer."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ..errors import CkptError

LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo"}


class RankError(CkptError):
    """A rank raised, died or hung: which one, and the last that it wrote."""


def die_with_parent(number: int, parent: int) -> None:
    """Get a signal when the process that started us goes. Linux only; elsewhere its `finally` has to do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, number)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            sys.exit(1)


def send(pid: int, number: int) -> bool:
    """Whether the process was there to get the signal."""
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def end(agent: subprocess.Popen | None, folder: Path, patience: float = 3) -> None:
    """torchrun first, so that it ends its ranks; then, one by one, whoever is still there."""
    if agent is None:
        return
    if agent.poll() is None:
        agent.terminate()
        try:
            agent.wait(patience)
        except subprocess.TimeoutExpired:
            agent.kill()
            agent.wait()
    pids = [int(path.read_text() or 0) for path in folder.glob("*.pid")]
    deadline = time.monotonic() + patience
    while (left := [pid for pid in pids if _runs_in(folder, pid)]) and time.monotonic() < deadline:
        for pid in left:
            send(pid, signal.SIGKILL)
        time.sleep(0.02)


def _runs_in(folder: Path, pid: int) -> bool:
    """Is it still there, and the one that we started? A number may have been given to another process."""
    try:
        return str(folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
