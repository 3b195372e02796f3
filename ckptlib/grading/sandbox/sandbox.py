"""Who starts kernels for code that nobody trusts? A warm process under bubblewrap, one per machine or per worker.

with Sandbox.start() as sandbox:
    process = sandbox.kernel(Limits(), {"points.csv": b"1,2"})
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import os
import secrets
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path

from . import file_system, warm_process_protocol
from .kernel_process import KernelProcess
from .limits import Limits
from .preloaded_modules import LATER
from .sockets import CHANNELS, connection_info, listen, open_listener, own_folder
from .without_isolation import Unconfined

_START_SECONDS = 120.0
AS_ROOT = "CKPTLIB_UNCONFINED_AS_ROOT"
_NOT_AS_ROOT = (
    "a submission would run as root, and could read and change everything on this machine, because {why}. Grade as an "
    f"ordinary user, or fix that. If you trust every submission, set {AS_ROOT}=1 to run them as root all the same"
)


class SandboxUnavailable(RuntimeError):
    """This machine cannot isolate a kernel; the message says what is missing."""


class SandboxTrouble(SandboxUnavailable):
    """This machine can isolate kernels, but failed to do so now.

    The attempt is repeated, but never without isolation.
    """


class SandboxNotInstalled(SandboxUnavailable):
    """The machine can isolate kernels, but ckptlib is not installed in a place where the kernels find it."""


class Sandbox:
    """A warm process, or the address of one that another process started."""

    sandboxed, warning = True, ""

    def __init__(self, address: str, process: subprocess.Popen | None = None, own_end: int = -1) -> None:
        self.address, self._process, self._own_end = address, process, own_end
        self._owner = os.getpid()
        self._switched_off: list[str] = []

    @classmethod
    def start(cls, preload: Sequence[str] | None = None) -> Sandbox:
        """Start a warm process. It ends with this process, however that ends."""
        if not sys.platform.startswith("linux"):
            raise SandboxUnavailable(
                f"only Linux isolates a kernel, and this is {sys.platform}. Run only code that you trust here, such "
                "as your own notebooks, and grade submissions on Linux, in a virtual machine or in WSL"
            )
        if shutil.which("bwrap") is None:
            raise SandboxUnavailable("bubblewrap is missing. On Debian and Ubuntu: sudo apt-get install bubblewrap")
        address = str(own_folder() / f"warm-{secrets.token_hex(4)}")
        process, own_end = _launch(address, preload)
        sandbox = cls(address, process, own_end)
        atexit.register(sandbox.close)
        return sandbox

    def kernel(
        self,
        limits: Limits,
        files: Mapping[str, bytes] | None = None,
        channels: Sequence[str] = CHANNELS[:4],
        key: str | None = None,
    ) -> KernelProcess:
        """Fork a kernel with these files in its working folder. Its sockets are open: a client may connect at once."""
        sockets = Path(tempfile.mkdtemp(prefix="k", dir=own_folder()))
        listeners = listen(f"{sockets}/s", channels)
        key = key or secrets.token_hex(32)
        request = {
            "key": key,
            "channels": list(channels),
            "limits": asdict(limits),
            "files": {name: base64.b64encode(data).decode() for name, data in (files or {}).items()},
            "later": any(name in sys.modules for name in LATER),
            "switched_off": self._switched_off,
        }
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self.address)
            warm_process_protocol.send(connection, request, tuple(s.fileno() for s in listeners.values()))
            return KernelProcess(connection, sockets, connection_info(f"{sockets}/s", key))
        except BaseException:
            connection.close()
            shutil.rmtree(sockets, ignore_errors=True)
            raise
        finally:
            for listener in listeners.values():
                listener.close()

    def without(self, modules: Sequence[str]) -> Sandbox:
        """The same sandbox, but with these modules switched off in its kernels: see tasks/disabled_library.py."""
        other = Sandbox(self.address)
        other._switched_off = list(modules)
        return other

    @property
    def pid(self) -> int | None:
        """The process id of bubblewrap's outer process on the host; None when another process started it."""
        return self._process.pid if self._process else None

    def alive(self) -> bool:
        """Can kernels be forked? If another process started the warm process, the only way to know is to try."""
        if self._process is None:
            return True
        with contextlib.suppress(ChildProcessError):  # its end is known already
            # Not poll(): poll() does not report the end of the process until the thread that waits for it has seen it.
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        return False

    def close(self) -> None:
        """End the warm process and with it all its kernels. Another process's warm process goes on."""
        if self._process is not None and self._own_end >= 0 and self._owner == os.getpid():  # not in a forked copy
            os.close(self._own_end)
            self._own_end = -1
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            self._process.kill()
            if self._process.stdout is not None:
                self._process.stdout.close()
            Path(self.address).unlink(missing_ok=True)
            atexit.unregister(self.close)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _launch(address: str, preload: Sequence[str] | None) -> tuple[subprocess.Popen, int]:
    """Start the warm process. Returns the process, and our end of a pipe; closing that end terminates it."""
    read, own_end = os.pipe()
    # the pidfd shows that this process has ended, even if a forked copy still holds the pipe
    pipes = [read, os.pidfd_open(os.getpid())]
    try:
        with open_listener(address) as listener:
            arguments = ["-m", "ckptlib.grading.sandbox.warm_process", "--listener", str(listener.fileno())]
            arguments += ["--ending", *map(str, pipes), *([] if preload is None else ["--preload", *preload])]
            process = _start_and_keep(lambda: file_system.command(arguments, pipes), [listener.fileno()], pipes)
        _wait_until_ready(process)
    except BaseException:
        os.close(own_end)
        Path(address).unlink(missing_ok=True)
        raise
    finally:
        for fd in pipes:
            os.close(fd)
    return process, own_end


def _start_and_keep(command: Callable[[], list[str]], fds: list[int], pipes: list[int]) -> subprocess.Popen:
    """Start a command from a thread that lives as long as it: --die-with-parent means the thread, not the process."""
    started: Future[subprocess.Popen] = Future()

    def keep() -> None:
        try:
            process = subprocess.Popen(
                command(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[*fds, *pipes],
            )
            started.set_result(process)
            process.wait()
        except BaseException as error:
            started.set_exception(error)

    threading.Thread(target=keep, name="warm process", daemon=True).start()
    return started.result()


def _wait_until_ready(process: subprocess.Popen) -> None:
    said: list[str] = []
    assert process.stdout is not None  # a pipe
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    ended = False
    while poll.poll(_START_SECONDS * 1000):
        line = process.stdout.readline().decode(errors="replace")
        if line.startswith("ready"):
            return
        if not line:
            ended = True
            break
        said.append(line)
    process.kill()
    process.stdout.close()
    code = process.wait()
    text = "".join(said[-20:])
    if not ended:
        raise SandboxTrouble(f"the warm process was not ready after {_START_SECONDS:g} s; is the machine busy?\n{text}")
    if code < 0 or code > 128 or any(sign in text for sign in _SIGNS_OF_TROUBLE):
        raise SandboxTrouble(f"the warm process ended with code {code}; is the machine out of memory?\n{text}")
    if f"No module named '{__package__.partition('.')[0]}'" in text:
        raise SandboxNotInstalled(
            "the sandbox's Python does not find ckptlib. It ignores PYTHONPATH, the current folder and the packages of "
            f"one user, so install ckptlib where {sys.executable} always finds it: {sys.executable} -m pip install -e "
            f"{Path(__file__).parents[3]}"
        )
    raise SandboxUnavailable("the warm process did not start:\n" + text)


# What bubblewrap and Python say when the machine has no memory or no processes left for them.
_SIGNS_OF_TROUBLE = ("Cannot allocate memory", "MemoryError", "Resource temporarily unavailable")
_starting = threading.Lock()
_default: dict[int, Sandbox | Unconfined] = {}  # process id -> its sandbox: a forked worker must not use its parent's


def default(own_work: bool = False) -> Sandbox | Unconfined:
    """This process's own warm process, started when first needed. Where there cannot be one, it warns once.

    own_work: the code belongs to the caller, who has run it before, so it may also run as root. In many containers a
    reader of the book is root, and there is no sandbox.
    """
    with _starting:
        found = _default.get(os.getpid())
        if found is None or not found.alive():
            if found is not None:
                found.close()
            try:
                found = Sandbox.start()
            except SandboxTrouble:
                raise
            except SandboxUnavailable as why:
                root = getattr(os, "geteuid", lambda: -1)() == 0
                if not own_work and os.environ.get(AS_ROOT) != "1":
                    if isinstance(why, SandboxNotInstalled):
                        raise
                    if root:
                        raise SandboxUnavailable(_NOT_AS_ROOT.format(why=why)) from None
                found = Unconfined(str(why))
                warnings.warn(found.warning, RuntimeWarning, stacklevel=2)
            _default[os.getpid()] = found
        return found


def use(address: str) -> Sandbox:
    """From now on fork from the warm process at `address`, which another process on this machine has started."""
    sandbox = _default[os.getpid()] = Sandbox(address)
    return sandbox


def best_in_container() -> Sandbox | Unconfined:
    """For root in a container: start a warm process or, if that is impossible, run kernels as users who own nothing.

    From now on this process uses it.
    """
    if os.geteuid() != 0:
        raise SandboxUnavailable("expected to be started by root, who alone can run a kernel as another user")
    found: Sandbox | Unconfined
    try:
        found = Sandbox.start()
    except SandboxTrouble:
        raise
    except SandboxUnavailable as why:
        found = Unconfined(str(why), other_users=True)
    _default[os.getpid()] = found
    return found
