"""How does a Jupyter kernel start in a process that was forked, on sockets that somebody else opened?"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import zmq
from ipykernel.heartbeat import Heartbeat
from ipykernel.kernelapp import IPKernelApp
from traitlets import Dict
from traitlets.config import Config

from .sockets import CHANNELS, LOOPBACK, port


class _OpenHeartbeat(Heartbeat):
    fd = -1

    def _try_bind_socket(self) -> None:
        _listen(self.socket, self.fd)


class ForkedKernelApp(IPKernelApp):
    """IPKernelApp that listens on open file descriptors, and does not leave any file.

    The client made the sockets, in a folder that this process does not see: it can neither replace nor delete them.
    Where a client cannot hand them on, it opens ports of 127.0.0.1, as any kernel does.
    """

    listening: Dict[int, int] = Dict(help="port number -> file descriptor of a listening unix socket")

    def _try_bind_socket(self, s: zmq.Socket, port: int) -> int:
        if self.transport == "tcp":
            return super()._try_bind_socket(s, port)
        _listen(s, self.listening[port])
        return port

    def init_heartbeat(self) -> None:
        if self.transport == "tcp":
            super().init_heartbeat()
        elif self.hb_port in self.listening:
            self.heartbeat = _OpenHeartbeat(zmq.Context(), (self.transport, self.ip, self.hb_port))
            self.heartbeat.fd = self.listening[self.hb_port]
            self.heartbeat.start()

    def init_iopub(self, context: zmq.Context) -> None:
        context.setsockopt(zmq.SNDHWM, 0)  # never drop a message because the client is slow: it might be the answer
        super().init_iopub(context)

    def init_control(self, context: zmq.Context) -> None:
        super().init_control(context)
        # The debugger's own connection to the kernel goes by path: it would be tried again and again, forever.
        self.debug_shell_socket.close()
        self.debug_shell_socket = context.socket(zmq.DEALER)

    def init_connection_file(self) -> None:
        """There is none."""

    def write_connection_file(self, **kwargs: object) -> None:
        """There is none."""


def _listen(s: zmq.Socket, fd: int) -> None:
    s.setsockopt(zmq.USE_FD, fd)
    s.bind(f"ipc:///nowhere/{fd}")  # with USE_FD the path is not used, but it must look like one


def configuration(key: str) -> Config:
    """Switch off what an unattended kernel does not need: history (a database and a thread) and logs."""
    config = Config()
    config.Session.key = key.encode()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.ForkedKernelApp.log_level = 50
    config.InlineBackend.figure_formats = {"png"}
    return config


def start(key: str, fds: Mapping[str, int], told: str = "") -> None:
    """Run a kernel in this process until it ends. fds: channel -> listening socket; "hb" may be missing.

    Without any, the kernel opens ports of its own, and writes which to the file `told`.
    """
    sys.path.insert(0, "")  # as in any notebook: what lies beside it can be imported
    ports = {f"{channel}_port": port(channel) for channel in CHANNELS}
    where = {"transport": "ipc", "ip": "/nowhere/kernel", **ports} if fds else {"transport": "tcp", "ip": LOOPBACK}
    app = ForkedKernelApp.instance(
        config=configuration(key),
        listening={port(channel): fd for channel, fd in fds.items()},
        **where,
    )
    app.initialize([])
    assert app.shell is not None
    if not fds:
        opened = {"pid": os.getpid(), "ip": LOOPBACK, **{name: getattr(app, name) for name in ports}}
        Path(f"{told}.new").write_text(json.dumps(opened), encoding="utf-8")
        os.replace(f"{told}.new", told)
    home = os.getcwd()
    app.shell.events.register("pre_run_cell", lambda info: leave_endless_folder(home))
    app.shell.ask_exit = lambda: None  # exit() would end the kernel a moment later, and take the next cell with it
    app.start()


def leave_endless_folder(home: str) -> None:
    """Go back to `home` from a folder whose path is longer than Linux says.

    For such a path, the C library reads all folders above it again and again: 16,000 folders deep, one os.getcwd()
    takes 15 s of a processor, and every import and every error asks for it.
    """
    try:
        os.readlink("/proc/self/cwd")
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            os.chdir(home)
