"""How does a kernel start without importing torch? It is forked from a process that has: this one.

Runs under bubblewrap as `python -m ckptlib.grading.sandbox.warm_process`, never runs a student's code, and listens on
an open socket, whose path it does not see. For each connection it forks:

    warm ── keeper ── kernel (pid 1 of namespaces of its own)

The keeper reads the request, makes the new namespaces, and waits for the kernel's end or the connection's.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import os
import random
import select
import signal
import socket
import sys
import traceback

from . import file_system, isolation, kernel_start, warm_process_protocol
from . import linux_calls as linux
from .limits import Limits, data_nbytes
from .preloaded_modules import LATER, PRELOAD, preload


def own_rights_only(uid: int | None) -> None:
    """Started by root: look at processes through a /proc of our own, then become an ordinary user for good."""
    if uid is not None:
        linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        linux.drop_capabilities()
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)  # changing the user has reset what bubblewrap had set
    linux.prctl(linux.PR_SET_DUMPABLE, 0)  # nobody of the same user looks into this process


def serve(listener: socket.socket, endings: list[int]) -> None:
    """Fork a keeper for every connection, until the worker is gone. endings: readable then (its pipe and pidfd)."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Linux removes keepers that have ended
    asked, ask = os.pipe()  # keepers ask for LATER here
    is_done = "torch" not in sys.modules
    poll = select.poll()
    for fd in (listener.fileno(), asked, *endings):
        poll.register(fd, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if ready & set(endings):
            return
        if asked in ready:
            os.read(asked, 4096)
            if not is_done:
                preload(LATER)
            is_done = True
        if listener.fileno() not in ready:
            continue
        with contextlib.suppress(OSError):  # no memory, no processes: then this one fails, and the next may not
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    for fd in (asked, *endings):
                        os.close(fd)
                    _keep(connection, ask)


def _keep(connection: socket.socket, ask: int) -> None:
    """Everything that a keeper does. Never returns."""
    status = 1
    try:
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        received = warm_process_protocol.receive(connection)
        if received is not None:
            if received[0]["later"]:
                os.write(ask, b"1")
            os.close(ask)
            _keep_kernel(connection, *received)
            status = 0
    except BaseException:  # the worker is told, whatever it is
        with contextlib.suppress(Exception):
            warm_process_protocol.send(connection, {"failed": traceback.format_exc()})
    finally:
        os._exit(status)


def _keep_kernel(connection: socket.socket, request: dict, fds: list[int]) -> None:
    limits = Limits(**request["limits"])
    isolation.leave()
    trouble, report = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(trouble)
        connection.close()
        _become_kernel(request, limits, fds, report)
    os.close(report)
    for fd in fds:
        os.close(fd)
    pidfd = os.pidfd_open(pid)
    warm_process_protocol.send(connection, {"started": pid}, (pidfd,))
    with open(trouble, encoding="utf-8") as file:
        failed = file.read()  # ends when the kernel has settled in
    warm_process_protocol.send(connection, {"failed": failed} if failed else {"settled": True})
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.register(connection, select.POLLIN)
    poll.poll()  # the worker sends nothing more: if the connection is readable, the worker is gone
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    with contextlib.suppress(OSError):
        code = os.waitstatus_to_exitcode(status)
        warm_process_protocol.send(
            connection, {"exit": code, "cpu": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss * 1024}
        )


def _become_kernel(request: dict, limits: Limits, fds: list[int], report: int) -> None:
    """pid 1 of the new namespaces. Until `os.close(report)` only our code runs; after it, a student's may."""
    try:
        baseline = data_nbytes()  # before /proc is another one, or none
        isolation.settle(limits)
        isolation.close_fds({report, *fds})
        file_system.write_files({name: base64.b64decode(data) for name, data in request["files"].items()})
        if request["switched_off"]:
            from ..tasks.disabled_library import switch_off  # it has been imported, unless this warm process is bare

            switch_off(request["switched_off"], file_system.cover)
        sys.argv = ["kernel"]
        isolation.lock(limits, baseline)
    except BaseException:
        os.write(report, traceback.format_exc().encode())
        os._exit(1)
    os.close(report)
    try:
        _draw_other_random_numbers()
        kernel_start.start(request["key"], dict(zip(request["channels"], fds, strict=True)))
    finally:
        os._exit(0)


def _draw_other_random_numbers() -> None:
    """Kernels of one warm process must not draw the same numbers. Only what was imported already is seeded."""
    random.seed(os.urandom(16))
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(int.from_bytes(os.urandom(4), "little"))
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)


def main() -> None:
    """Started by sandbox.py only; see there for the arguments."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--listener", type=int, required=True)
    parser.add_argument("--ending", type=int, nargs=2, required=True)
    parser.add_argument("--become", type=int, default=None)
    parser.add_argument("--preload", nargs="*", default=PRELOAD)
    args = parser.parse_args()
    own_rights_only(args.become)
    file_system.python_paths()  # looked up once, and not in every child
    isolation.trial()
    left_out = preload(args.preload)
    listener = socket.socket(fileno=args.listener)
    print("ready", *left_out, flush=True)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 1), os.dup2(null, 2)  # nobody reads on; what goes wrong from here is reported on the connection
    serve(listener, args.ending)


if __name__ == "__main__":
    main()
