"""How does the worker control a kernel that it does not trust? By a pidfd, which never refers to another process."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
from pathlib import Path

from . import cpu_share, warm_process_protocol

_SETUP_SECONDS = 60.0  # it takes milliseconds: after this the machine is in trouble


class KernelProcess:
    """A kernel in its sandbox, seen from outside. `pid` is the host's number for what calls itself 1 in there."""

    sandboxed = True

    def __init__(self, connection: socket.socket, sockets: Path, connection_info: dict) -> None:
        self.connection_info = connection_info
        self.exit: dict | None = None  # {"exit": code, "cpu": seconds, "peak": bytes} once it has ended
        self._connection, self._sockets = connection, sockets
        connection.settimeout(_SETUP_SECONDS)
        _, fds = self._next()
        self.ending = fds[0]  # a pidfd: readable when the process has ended
        with open(f"/proc/self/fdinfo/{self.ending}", encoding="utf-8") as file:
            self.pid = next(int(line.split()[1]) for line in file if line.startswith("Pid:"))
        self._group = cpu_share.own_group(self.pid)

    def _next(self) -> tuple[dict, list[int]]:
        received = warm_process_protocol.receive(self._connection)
        if received is None:
            raise ConnectionError("the warm process closed the connection: was it killed?")
        if "failed" in received[0]:
            raise RuntimeError(f"the sandbox could not be set up:\n{received[0]['failed']}")
        return received

    def settle(self) -> None:
        """Wait until the kernel is isolated; an error while that was set up is raised here."""
        self._next()

    def alive(self) -> bool:
        return self.exit is None and self.ending >= 0 and not _readable(self.ending)

    def signal(self, number: int) -> None:
        """Send a signal to the kernel, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            if self.ending >= 0:
                signal.pidfd_send_signal(self.ending, number)

    def kill(self) -> None:
        """End the kernel and everything that came from it: when pid 1 of a pid namespace dies, Linux kills the rest."""
        self.signal(signal.SIGKILL)

    def wait(self, seconds: float = 10.0) -> dict | None:
        """Wait for the end; how it ended and what it used. None when it has not ended in time."""
        if self.exit is None:
            self._connection.settimeout(seconds)
            with contextlib.suppress(TimeoutError, OSError, EOFError):
                received = warm_process_protocol.receive(self._connection)
                self.exit = received[0] if received else {"exit": -signal.SIGKILL}
        return self.exit

    def close(self) -> dict | None:
        """Kill, wait, and remove the sockets."""
        self.kill()
        self.wait()
        self._connection.close()
        if self.ending >= 0:
            self.exit = self.exit or {"exit": -signal.SIGKILL}
            ending, self.ending = self.ending, -1
            os.close(ending)
        shutil.rmtree(self._sockets, ignore_errors=True)
        if self._group is not None:
            cpu_share.remove(self._group)
        return self.exit


def _readable(fd: int) -> bool:
    poll = select.poll()  # select.select fails on descriptors from 1024 up, which a busy worker has
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
