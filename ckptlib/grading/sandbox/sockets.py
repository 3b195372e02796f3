"""Where does a kernel listen? On unix sockets that the worker opened, in a folder that only the worker sees."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

try:
    import fcntl

    HAS_LOCKS = True
except ImportError:  # Windows: there the folder of a process that was killed stays until somebody empties TEMP
    HAS_LOCKS = False

LOOPBACK = "127.0.0.1"
CHANNELS = ("shell", "iopub", "stdin", "control", "hb")  # Jupyter's port of a channel is its place here, from 1
_PREFIX = "ckptlib-"
_LONGEST = 60  # a unix socket's path has at most 107 bytes, on macOS 103
_making = threading.Lock()
_mine: dict[int, tuple[Path, int]] = {}  # process id -> its folder and the lock on it: a forked process needs its own


# ---- the sockets ----------------------------------------------------------------------------------------------------
def port(channel: str) -> int:
    """The number by which Jupyter's IPC transport names a channel: the socket's path ends in it."""
    return CHANNELS.index(channel) + 1


def listen(prefix: str, channels: Sequence[str]) -> dict[str, socket.socket]:
    """Open the sockets `prefix`-1, `prefix`-2, …: from now on a client can connect, even before a kernel accepts."""
    return {channel: open_listener(f"{prefix}-{port(channel)}") for channel in channels}


def open_listener(path: str) -> socket.socket:
    """A listening unix socket at `path`, which must be shorter than 108 bytes."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    return listener


def connection_info(prefix: str, key: str) -> dict:
    """Jupyter's description of a kernel that listens there."""
    ports = {f"{channel}_port": port(channel) for channel in CHANNELS}
    return {"transport": "ipc", "ip": prefix, "key": key, "signature_scheme": "hmac-sha256", **ports}


# ---- their folder ---------------------------------------------------------------------------------------------------
def _base() -> Path:
    base = tempfile.gettempdir()
    return Path(base if len(base) <= _LONGEST or not HAS_LOCKS else "/tmp")


def own_folder() -> Path:
    """This process's own folder (mode 700), removed when it ends; if it is killed, by the next one that starts."""
    with _making:
        if os.getpid() not in _mine:
            remove_abandoned()
            while not (made := _made_and_locked()):
                pass
            _mine[os.getpid()] = made
            atexit.register(_remove, os.getpid(), made[0])
        return _mine[os.getpid()][0]


def _made_and_locked() -> tuple[Path, int] | None:
    """None: another process that started at the same time removed the folder before it was locked."""
    if not HAS_LOCKS:
        return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_base())), -1
    path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getuid()}-", dir=_base()))
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    fcntl.flock(lock, fcntl.LOCK_EX)  # a process that is removing the folder holds it until the folder is gone
    if path.exists():
        return path, lock
    os.close(lock)
    return None


def _remove(owner: int, path: Path) -> None:
    if os.getpid() == owner:  # a forked process inherits the handler, not the folder
        shutil.rmtree(path, ignore_errors=True)


def remove_abandoned() -> None:
    """Remove this user's folders that no living process has locked."""
    if not HAS_LOCKS:
        return
    for path in _base().glob(f"{_PREFIX}{os.getuid()}-*"):
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if os.fstat(lock).st_uid == os.getuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            pass  # its process lives
        finally:
            os.close(lock)
