"""How does a rank end, even after an error or without its parent?"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

# gloo would listen on every network; the loopback's name is lo on Linux and lo0 on macOS
LOOPBACK = dict([("GLOO_SOCKET_IFNAME", name) for _, name in socket.if_nameindex() if name in ("lo", "lo0")][:1])


def die_with_parent(parent: int, gently: bool = False) -> None:
    """End when the process that started us goes, however it goes; `gently` by SIGTERM, which can be handled.

    Linux ends us itself. Elsewhere a thread looks, which cannot help a rank that hangs outside Python.
    """
    if sys.platform != "linux":
        threading.Thread(target=_look_after, args=(parent, gently), daemon=True).start()
        return
    ctypes.CDLL(None).prctl(1, signal.SIGTERM if gently else signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit(1)


def _look_after(parent: int, gently: bool) -> None:
    while runs(parent):
        time.sleep(0.2)
    if gently:
        signal.raise_signal(signal.SIGTERM)
    else:
        os._exit(1)


def runs(pid: int) -> bool:
    """Is this process there? One that has ended but was not waited for is not."""
    import psutil

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def end(agent: subprocess.Popen | None, folder: Path, patience: float = 3) -> None:
    """End torchrun first, so that it ends its ranks; then end the ranks that are still there, one by one."""
    if agent is None:
        return
    if agent.poll() is None:
        agent.terminate()
        try:
            agent.wait(patience)
        except subprocess.TimeoutExpired:
            agent.kill()
            agent.wait()
    pids = [int(path.read_text(encoding="utf-8") or 0) for path in folder.glob("*.pid")]
    deadline = time.monotonic() + patience
    while (pids := [pid for pid in pids if _kill(pid, folder)]) and time.monotonic() < deadline:
        time.sleep(0.02)


def _kill(pid: int, folder: Path) -> bool:
    """Kill a rank if it is still there. False if it is gone, or if its number belongs to another process by now."""
    import psutil

    try:
        process = psutil.Process(pid)
        ours = str(folder / "program.py") in process.cmdline()
        if ours:
            process.kill()
        return ours
    except psutil.Error:
        return False
