"""Where do the sockets of this process live, and who sweeps up after a process that was killed?"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from pathlib import Path

try:
    import fcntl

    HAS_LOCKS = True
except ImportError:  # Windows: there the folder of a process that was killed stays until somebody empties TEMP
    HAS_LOCKS = False

_PREFIX = "ckptlib-"
_LONGEST = 60  # a unix socket's path has at most 107 bytes, on macOS 103
_making = threading.Lock()
_mine: dict[int, tuple[Path, int]] = {}  # process id -> its folder and the lock on it: a forked process needs its own


def _base() -> Path:
    base = tempfile.gettempdir()
    return Path(base if len(base) <= _LONGEST or not HAS_LOCKS else "/tmp")


def mine() -> Path:
    """This process's own folder (mode 700), removed when it ends; if it is killed, by the next one that starts."""
    with _making:
        if os.getpid() not in _mine:
            sweep()
            while not (made := _made_and_locked()):
                pass
            _mine[os.getpid()] = made
            atexit.register(_remove, os.getpid(), made[0])
        return _mine[os.getpid()][0]


def _made_and_locked() -> tuple[Path, int] | None:
    """None: another process that starts at the same time has swept it away before it was locked."""
    if not HAS_LOCKS:
        return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_base())), -1
    path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getuid()}-", dir=_base()))
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    fcntl.flock(lock, fcntl.LOCK_EX)  # a sweeper that has it lets go when the folder is gone
    if path.exists():
        return path, lock
    os.close(lock)
    return None


def _remove(owner: int, path: Path) -> None:
    if os.getpid() == owner:  # a forked process inherits the handler, not the folder
        shutil.rmtree(path, ignore_errors=True)


def sweep() -> None:
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
