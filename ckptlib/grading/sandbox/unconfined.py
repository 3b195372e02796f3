"""What is left where kernels cannot be isolated? Limits, and a warning: the code can read and write what you can.

Runs as `python -m ckptlib.grading.sandbox.unconfined` too: that is the kernel's process.
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
from pathlib import Path
from socket import socket

from . import isolation
from .limits import Limits, apply, data_nbytes
from .sockets import CHANNELS, connection_info, listen, own_folder
from .visible_system import ENVIRONMENT

# Of the user's environment; the rest may hold what is nobody's business. Without the last four, Windows starts nothing.
_KEPT = ("PATH", "PYTHONPATH", "TEMP", "TMP", "COMSPEC", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT")
_HOMES = ("HOME", "MPLCONFIGDIR", "IPYTHONDIR", "USERPROFILE", "APPDATA", "LOCALAPPDATA")
_START_SECONDS = 60.0


class Unconfined:
    """Starts kernels as ordinary processes of the user. `warning` says why, for the reader of the result."""

    sandboxed = False

    def __init__(self, why: str) -> None:
        self.warning = f"NOT ISOLATED, limits only: {why}"

    def alive(self) -> bool:
        """There is no warm process that could have died."""
        return True

    def close(self) -> None:
        """There is nothing to close."""

    def kernel(
        self,
        limits: Limits,
        files: Mapping[str, bytes] | None = None,
        channels: Sequence[str] = CHANNELS[:4],
        key: str | None = None,
    ) -> PlainProcess:
        """As Sandbox.kernel, but with nothing between the kernel and the machine."""
        place = Path(tempfile.mkdtemp(prefix="k", dir=own_folder()))
        (place / "work").mkdir()
        isolation.write_files(files or {}, str(place / "work"))
        # Windows hands no open socket on to another program: there the kernel opens ports, and says which.
        listeners = {} if sys.platform == "win32" else listen(f"{place}/s", channels)
        try:
            return PlainProcess(place, limits, key or secrets.token_hex(32), listeners)
        finally:
            for listener in listeners.values():
                listener.close()


class PlainProcess:
    """A kernel without isolation; the same methods as KernelProcess."""

    sandboxed = False

    def __init__(self, place: Path, limits: Limits, key: str, listeners: Mapping[str, socket]) -> None:
        self._place = place
        self.exit: dict | None = None
        fds = {name: listener.fileno() for name, listener in listeners.items()}
        told = place / "listening.json"
        request = {"key": key, "limits": limits.as_dict(), "fds": fds, "told": str(told), "parent": os.getpid()}
        self.ending, ends = os.pipe() if fds else (-1, -1)  # readable when the kernel has ended: it holds the other end
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ckptlib.grading.sandbox.unconfined"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=place / "work",
            env={**ENVIRONMENT, **dict.fromkeys(_HOMES, str(place)), **kept},
            pass_fds=[*fds.values(), ends] if fds else (),
            start_new_session=True,
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
        """Has the kernel not ended yet?"""
        return self._process.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal to the kernel; to one that has ended, nothing. On Windows, which has none, it does nothing."""
        if sys.platform != "win32":
            self._process.send_signal(number)

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self.signal(signal.SIGINT)

    def kill(self) -> None:
        """End the kernel and what can be found of its descendants. One that has detached itself is not found."""
        import psutil

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
        shutil.rmtree(self._place, ignore_errors=True)
        return self.exit


def _end_with(parent: int) -> None:
    """Nobody ends the kernel of a process that was killed: so the kernel looks whether it is still there."""
    import psutil

    while psutil.pid_exists(parent):
        time.sleep(1)
    os._exit(1)


def main() -> None:
    """The kernel's process: reads its request from stdin."""
    from . import kernel_start

    request = json.load(sys.stdin)
    threading.Thread(target=_end_with, args=(request["parent"],), daemon=True).start()
    if sys.platform != "win32":  # Windows has no such limits: the watchdog alone has to do
        apply(Limits(**request["limits"]), data_nbytes(), own_user=False)
    sys.path.insert(0, "")
    kernel_start.start(request["key"], request["fds"], request["told"])


if __name__ == "__main__":
    main()
