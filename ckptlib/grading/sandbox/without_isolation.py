"""What remains where kernels cannot be isolated? Limits, and a warning that the code can access all your files.

Runs as `python -m ckptlib.grading.sandbox.without_isolation` too: that is the kernel's process.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict
from pathlib import Path
from socket import socket
from typing import Any

from . import file_system
from .file_system import ENVIRONMENT
from .limits import Limits, apply, data_nbytes
from .sockets import CHANNELS, connection_info, listen, own_folder

# Of the user's environment; the rest may hold secrets. Without the last four, Windows cannot start programs.
_KEPT = ("PATH", "PYTHONPATH", "TEMP", "TMP", "COMSPEC", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT")
_HOMES = ("HOME", "MPLCONFIGDIR", "IPYTHONDIR", "USERPROFILE", "APPDATA", "LOCALAPPDATA")
_START_SECONDS = 60.0
_REMAINS = (
    "NO NAMESPACES: the submission ran as a user who owns nothing, with limits and fewer system calls, but it could "
    "read the files that every user may read, see other processes and use the network"
)


class Unconfined:
    """Starts kernels as ordinary processes of the user. `warning` says why, for the reader of the result.

    other_users: root can start each kernel as a user who owns nothing, with fewer system calls.
    """

    sandboxed = False

    def __init__(self, why: str, other_users: bool = False) -> None:
        self._other_users = other_users
        self._switched_off: list[str] = []
        self.warning = f"{_REMAINS if other_users else 'NOT ISOLATED, limits only'}: {why}"

    def without(self, modules: Sequence[str]) -> Unconfined:
        """The same, but its kernels do not have these modules in memory. They can read them from the disk."""
        other = copy(self)
        other._switched_off = list(modules)
        return other

    def alive(self) -> bool:
        return True

    def close(self) -> None:
        """There is nothing to close."""

    def kernel(
        self,
        limits: Limits,
        files: Mapping[str, bytes] | None = None,
        channels: Sequence[str] = CHANNELS[:4],
        key: str | None = None,
    ) -> UnconfinedProcess:
        """As Sandbox.kernel, but with nothing between the kernel and the machine."""
        place = Path(tempfile.mkdtemp(prefix="k", dir=own_folder()))
        home, user = place, None
        if self._other_users:
            from . import unprivileged_user  # which works only on Linux

            home, user = Path(tempfile.mkdtemp(prefix="ckptlib-kernel-")), unprivileged_user.unused()
        (home / "work").mkdir()
        file_system.write_files(files or {}, str(home / "work"))
        if user is not None:
            unprivileged_user.give(home, user)
        # Windows hands no open socket on to another program: there the kernel opens ports, and says which.
        listeners = {} if sys.platform == "win32" else listen(f"{place}/s", channels)
        try:
            return UnconfinedProcess(
                place, limits, key or secrets.token_hex(32), listeners, home, user, self._switched_off
            )
        finally:
            for listener in listeners.values():
                listener.close()


class UnconfinedProcess:
    """A kernel without isolation; the same methods as KernelProcess."""

    sandboxed = False

    def __init__(
        self,
        place: Path,
        limits: Limits,
        key: str,
        listeners: Mapping[str, socket],
        home: Path,
        user: int | None,
        switched_off: Sequence[str],
    ) -> None:
        """place: holds its sockets   home: holds its files, and is its own   user: if it is not the caller's"""
        self._place, self._home, self._user = place, home, user
        becomes: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        self.exit: dict | None = None
        fds = {name: listener.fileno() for name, listener in listeners.items()}
        told = place / "listening.json"
        request = {"key": key, "limits": asdict(limits), "fds": fds, "told": str(told), "parent": os.getpid()}
        request |= {"locked": user is not None, "switched_off": switched_off}
        self.ending, ends = os.pipe() if fds else (-1, -1)  # readable when the kernel has ended: it holds the other end
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ckptlib.grading.sandbox.without_isolation"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=home / "work",
            env={**ENVIRONMENT, **dict.fromkeys(_HOMES, str(home)), **kept},
            pass_fds=[*fds.values(), ends] if fds else (),
            start_new_session=True,
            **becomes,
        )
        if fds:
            os.close(ends)
        assert self._process.stdin is not None  # a pipe
        self._process.stdin.write(json.dumps(request).encode())
        self._process.stdin.close()
        self.pid, self.connection_info = self._process.pid, connection_info(f"{place}/s", key)
        if not fds:
            self._ask_where(told)

    def _ask_where(self, told: Path) -> None:
        """Wait until the kernel listens. Its process may be a child of ours: in a venv, Windows starts two."""
        deadline = time.monotonic() + _START_SECONDS
        while not told.exists():
            if not self.alive() or time.monotonic() > deadline:
                self.close()
                raise RuntimeError(f"a kernel did not start: {self.exit}. Does `python -m ipykernel --version` work?")
            time.sleep(0.02)
        found = json.loads(told.read_text(encoding="utf-8"))
        self.pid = found.pop("pid")
        self.connection_info |= {"transport": "tcp"} | found

    def settle(self) -> None:
        """There is no isolation to wait for."""

    def alive(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal to the kernel, unless it has ended. On Windows, which has no signals, this does nothing."""
        if sys.platform != "win32":
            self._process.send_signal(number)

    def kill(self) -> None:
        """End the kernel and what can be found of its descendants. One that has detached itself is not found.

        Where the kernel has its own user, all its processes are found.
        """
        import psutil

        if self._user is not None:
            from . import unprivileged_user

            unprivileged_user.end_all(self._user)
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self._process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    child.kill()
        if sys.platform == "win32":
            self._process.kill()
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self, seconds: float = 10.0) -> dict | None:
        """Wait for the end; how it ended. None when it has not ended in time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.exit = {"exit": self._process.wait(seconds)}
        return self.exit

    def close(self) -> dict | None:
        """Kill, wait, and remove the files."""
        self.kill()
        self.wait()
        if self.ending >= 0:
            os.close(self.ending)
            self.ending = -1
        for folder in {self._place, self._home}:
            shutil.rmtree(folder, ignore_errors=True)
        return self.exit


def _end_with(parent: int) -> None:
    """Nobody ends the kernel of a process that was killed, so the kernel checks whether that process still exists."""
    import psutil

    while psutil.pid_exists(parent):
        time.sleep(1)
    os._exit(1)


def main() -> None:
    """The kernel's process: reads its request from stdin."""
    from . import kernel_start

    request = json.load(sys.stdin)
    threading.Thread(target=_end_with, args=(request["parent"],), daemon=True).start()
    if request["locked"]:
        from .isolation import lock

        lock(Limits(**request["limits"]), data_nbytes())
    elif sys.platform != "win32":  # Windows has no such limits, so only the watchdog enforces them
        apply(Limits(**request["limits"]), data_nbytes(), own_user=False)
    sys.path.insert(0, "")
    if request["switched_off"]:
        from ..tasks.disabled_library import switch_off

        switch_off(request["switched_off"], lambda path, text: None)
    kernel_start.start(request["key"], request["fds"], request["told"])


if __name__ == "__main__":
    main()
