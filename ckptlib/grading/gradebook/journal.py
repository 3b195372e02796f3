"""Which submissions need not be run again? Those whose record is on disk, if nothing has changed since."""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import json
import os
import socket
import urllib.parse
import zlib
from collections.abc import Iterator
from pathlib import Path

from ...errors import CkptError

_LOCKED_BYTE = 2**30  # past the end: Windows lets nobody read a byte that is locked, and others read who holds the lock


class Journal:
    """The records of one assignment, in the course's private folder.

    answers/  what each student's kernel returned, and what was expected
    graded/   what has arrived in the gradebook, in autograded/ and in feedback/
    """

    def __init__(self, folder: Path):
        self._answers, self._graded = folder / "answers", folder / "graded"
        for part in (self._answers, self._graded):
            with _writing(part):
                part.mkdir(mode=0o700, parents=True, exist_ok=True)

    @classmethod
    def existing(cls, root: str, assignment: str) -> Journal | None:
        """The journal of an assignment in the course at `root`; None if it was not graded there."""
        folder = Path(root) / ".ckptlib" / assignment
        return cls(folder) if folder.is_dir() else None

    def answers(self, student: str, about: list | None = None) -> dict | None:
        """The record; None if there is none, if it is damaged, or if it does not belong to what `about` names."""
        record = _read(self._answers / _file_name(student))
        return None if record is None or (about is not None and record.get("about") != about) else record

    def keep_answers(self, student: str, record: dict) -> None:
        _write(self._answers / _file_name(student), record)

    def graded(self, student: str, stamp: list | None = None) -> dict | None:
        """The saved result; None if there is none, or if its stamp is a different one."""
        found = _read(self._graded / _file_name(student))
        return None if found is None or (stamp is not None and found.get("stamp") != stamp) else found.get("result")

    def keep_graded(self, student: str, stamp: list, result: dict) -> None:
        """Written last, because a student with this record is done. Not forced to disk, since it can be made again."""
        _write(self._graded / _file_name(student), {"stamp": stamp, "result": result}, force=False)

    def forget_graded(self, student: str) -> None:
        """Called before anything is saved again, so that an interrupted submission does not count as finished."""
        _remove(self._graded / _file_name(student))

    def forget(self, student: str) -> None:
        """Remove both records, as if this student's submission had never been run."""
        _remove(self._graded / _file_name(student))
        _remove(self._answers / _file_name(student))


def _file_name(student: str) -> str:
    name = urllib.parse.quote(student, safe=" @+", errors="surrogateescape")
    if len(name) > 150:
        name = f"{name[:100]}~{hashlib.sha256(name.encode()).hexdigest()[:32]}"
    return f"{name}.json.gz"


def _read(path: Path) -> dict | None:
    try:
        found = json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, ValueError, zlib.error):
        return None
    return found if isinstance(found, dict) else None


def _write(path: Path, record: dict, force: bool = True) -> None:
    """All or nothing, so that no reader ever sees half a record, even after a coordinator was killed."""
    raw = gzip.compress(json.dumps(record).encode(), compresslevel=1, mtime=0)
    new = path.with_name(f"{path.name}.new")  # one writer at a time: the course is locked
    with _writing(path, "the same command with --resume (and without --fresh) grades the rest"):
        try:
            with open(new, "wb") as file:
                file.write(raw)
                if force:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(new, path)
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink()  # half a record is of no use, and a full disk needs the room
            raise


def _remove(path: Path) -> None:
    with _writing(path):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _writing(path: Path, then: str = "run the same command again") -> Iterator[None]:
    """Grading stops if its journal cannot be written, because the next submission would meet the same disk."""
    try:
        yield
    except OSError as error:
        raise CkptError(
            f"{path} cannot be written: {error.strerror}. Expected a disk with room, where this user may write. "
            f"Nothing is lost: fix that, and {then}"
        ) from None


@contextlib.contextmanager
def locked(private: Path) -> Iterator[None]:
    """Let one coordinator work on a course at a time. The lock ends with its process, even if that was killed."""
    path = private / "lock"
    with _writing(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with open(handle, "r+", encoding="utf-8") as file:
        try:
            _lock(handle)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            holder = file.read().strip() or "another process"
            raise CkptError(f"this course is being graded by {holder}. Wait for it or stop it, and try again") from None
        with _writing(path):  # past the file's buffer, which would fail once more when it is closed
            os.ftruncate(handle, 0)
            os.lseek(handle, 0, os.SEEK_SET)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield


def _lock(handle: int) -> None:
    """Take the lock or raise OSError at once; the system takes it back when the process ends."""
    try:
        import fcntl
    except ImportError:
        import msvcrt  # Windows

        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined] # mypy looks at Linux's library
        finally:
            os.lseek(handle, 0, os.SEEK_SET)
    else:
        # lockf, not flock: a worker forked from a coordinator that was killed must not keep its lock
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
