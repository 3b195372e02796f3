"""What is left where kernels cannot be isolated? Limits, and a warning: the code can read and write what you can.

Runs as `python -m ckptlib.grading.kernels.plain` too: that is the kernel's process.
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
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import box, folder
from .limits import Limits, apply, data_nbytes
from .sockets import CHANNELS, connection_info, listen
from .view import ENVIRONMENT


class Unconfined:
    """Starts kernels as ordinary processes of the user. `warning` says why, for whoever reads the result."""

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
        place = Path(tempfile.mkdtemp(prefix="k", dir=folder.mine()))
        key = key or secrets.token_hex(32)
        (place / "work").mkdir()
        box.write_files(files or {}, str(place / "work"))
        listeners = listen(f"{place}/s", channels)
        fds = {name: s.fileno() for name, s in listeners.items()}
        try:
            request = {"key": key, "limits": limits.as_dict(), "fds": fds}
            return PlainProcess(place, request, connection_info(f"{place}/s", key))
        finally:
            for listener in listeners.values():
                listener.close()


class PlainProcess:
    """A kernel without walls; the same methods as KernelProcess."""

    sandboxed = False

    def __init__(self, place: Path, request: dict, connection_info: dict) -> None:
        self.connection_info, self._place = connection_info, place
        self.exit: dict | None = None
        self.ending, ends = os.pipe()  # readable when the kernel has ended: it holds the other end
        environment = {**ENVIRONMENT, "HOME": str(place), "MPLCONFIGDIR": str(place), "IPYTHONDIR": str(place)}
        environment["PATH"] = os.environ.get("PATH", "")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ckptlib.grading.kernels.plain"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=place / "work",
            env=environment,
            pass_fds=[*request["fds"].values(), ends],
            start_new_session=True,
        )
        os.close(ends)
        self.pid = self._process.pid
        assert self._process.stdin is not None  # a pipe
        self._process.stdin.write(json.dumps(request).encode())
        self._process.stdin.close()

    def settle(self) -> None:
        """There are no walls to wait for."""

    def alive(self) -> bool:
        """Has the kernel not ended yet?"""
        return self._process.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal to the kernel; to one that has ended, nothing."""
        self._process.send_signal(number)

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self.signal(signal.SIGINT)

    def kill(self) -> None:
        """End the kernel and what can be found of its descendants. One that has detached itself is not found."""
        import psutil

        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    child.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

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


def main() -> None:
    """The kernel's process: reads its request from stdin."""
    from . import kernel

    request = json.load(sys.stdin)
    apply(Limits(**request["limits"]), data_nbytes())
    sys.path.insert(0, "")
    kernel.start(request["key"], request["fds"])


if __name__ == "__main__":
    main()
