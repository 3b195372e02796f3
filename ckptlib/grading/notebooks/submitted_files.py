"""What did a student hand in? Files, read without following a link, waiting for a pipe or filling the memory."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from .notebook_file import LEFT_OUT

LARGEST_FILE = 20 * 2**20
LARGEST = 40 * 2**20  # bytes in all
MOST_FILES = 300
_DEEPEST = 8
_MOST_NOTES = 20
_IGNORED = {"__pycache__", ".ipynb_checkpoints", ".git", ".DS_Store", "feedback"}


@dataclass(frozen=True)
class Submission:
    """A student's files by their path in the folder, and what was left out of it.

    In the place of a notebook that was left out stands LEFT_OUT and the reason, so that nobody says there was none.
    """

    student: str
    files: dict[str, bytes]
    notes: list[str] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """Changes when the student hands in something else; a new timestamp alone runs nobody's code again."""
        state = hashlib.sha256()
        for name, raw in sorted(self.files.items()):
            if name != "timestamp.txt":
                state.update(f"{name}\0{len(raw)}\0".encode())
                state.update(raw)
        state.update("\0".join(self.notes).encode())
        return state.hexdigest()


def read(folder: str | Path, student: str) -> Submission:
    """Read a submitted folder. Nothing in it can raise, block or lead outside it: what is odd is a note."""
    reader = _Reader()
    try:
        reader.folder(_Folder(folder) if os.open in os.supports_dir_fd else _NamedFolder(folder), "", 0)
    except OSError as error:
        why = "it is a symbolic link, not a folder" if os.path.islink(folder) else error.strerror
        reader.notes.append(f"the submission cannot be read: {why}")
        whose = "The person who collected it can fix that; the student cannot."
        reader.leave_out(f"{Path(folder).name}.ipynb", f"the submitted folder cannot be opened: {why}. {whose}")
    return Submission(student, reader.files, reader.notes)


class _Folder:
    """A folder by its descriptor, and what is in it relative to that: nobody can swap a folder for a link."""

    def __init__(self, path: str | Path, parent: int | None = None) -> None:
        self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)

    def names(self) -> list[str]:
        return os.listdir(self._handle)

    def mode(self, name: str) -> int:
        return os.stat(name, dir_fd=self._handle, follow_symlinks=False).st_mode

    def folder(self, name: str) -> _Folder:
        return _Folder(name, self._handle)

    def file(self, name: str) -> BinaryIO:
        return open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._handle), "rb")

    def close(self) -> None:
        os.close(self._handle)


class _NamedFolder:
    """The same by its path, for Windows, which opens no folders: links are left out if nobody swaps them meanwhile."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        if not stat.S_ISDIR(_mode(path)):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))

    def names(self) -> list[str]:
        return os.listdir(self._path)

    def mode(self, name: str) -> int:
        return _mode(os.path.join(self._path, name))

    def folder(self, name: str) -> _NamedFolder:
        return _NamedFolder(os.path.join(self._path, name))

    def file(self, name: str) -> BinaryIO:
        return open(os.path.join(self._path, name), "rb")

    def close(self) -> None:
        """Nothing is open."""


def _mode(path: str | Path) -> int:
    """Of the entry itself. A junction is Windows' other link to a folder, and does not say so in its mode."""
    found = os.lstat(path)
    junction = getattr(found, "st_reparse_tag", 0) == getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", -1)
    return stat.S_IFLNK if junction else found.st_mode


class _Reader:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.notes: list[str] = []
        self.room = LARGEST

    def folder(self, folder: _Folder | _NamedFolder, prefix: str, depth: int) -> None:
        """All that is in it."""
        try:
            # notebooks first: whatever else there is, one of them is the submission
            for name in sorted(folder.names(), key=lambda name: (not name.endswith(".ipynb"), name)):
                if name not in _IGNORED and not name.endswith(".pyc"):
                    self._entry(folder, name, prefix + name, depth)
        finally:
            folder.close()

    def leave_out(self, path: str, why: str) -> None:
        """Say why a notebook is not there. Another file is missed by nobody but the student's code: a note will do."""
        path = _printable(path)
        if path.endswith(".ipynb") and path not in self.files and len(self.files) < MOST_FILES:
            self.files[path] = LEFT_OUT + why.encode()

    def _note(self, text: str) -> None:
        if text not in self.notes and len(self.notes) < _MOST_NOTES:
            self.notes.append(text)

    def _entry(self, folder: _Folder | _NamedFolder, name: str, path: str, depth: int) -> None:
        shown = _printable(path)[:100]
        try:
            mode = folder.mode(name)
            if stat.S_ISDIR(mode):
                self._subfolder(folder, name, path, depth)
            elif stat.S_ISREG(mode):
                self._file(folder, name, path, shown)
            else:
                self._note(f"{shown} is {_kind(mode)}: left out")
                self.leave_out(path, f"it is {_kind(mode)}, not a file. Submit the file itself.")
        except OSError as error:
            self._note(f"{shown} cannot be read: {error.strerror}")
            self.leave_out(path, f"the system says {error.strerror!r}")

    def _subfolder(self, folder: _Folder | _NamedFolder, name: str, path: str, depth: int) -> None:
        if depth < _DEEPEST:
            self.folder(folder.folder(name), f"{path}/", depth + 1)
        else:
            self._note(f"folders nested more than {_DEEPEST} deep were left out")

    def _file(self, folder: _Folder | _NamedFolder, name: str, path: str, shown: str) -> None:
        if len(self.files) >= MOST_FILES:
            self._note(f"more than {MOST_FILES} files: the others were left out")
            return
        if not path.isprintable() or len(path) > 200:
            usable = _printable(path)[-200:]
            if not path.endswith(".ipynb") or usable in self.files:
                self._note(f"{shown!r} is not a usable file name: left out")
                return
            path = usable  # a browser's "01_toy\xa0(1).ipynb": nothing is ever written under a notebook's own name
        with folder.file(name) as file:
            most = min(LARGEST_FILE, self.room)
            raw = file.read(most + 1)
            size = os.fstat(file.fileno()).st_size
        if len(raw) > most:
            limits = f"one file may have {LARGEST_FILE:,} bytes, all together {LARGEST:,}"
            self._note(f"{shown} is too large and was left out: {limits}")
            self.leave_out(path, f"it has {size:,} bytes; {limits}. Clear the outputs and save.")
            return
        self.room -= len(raw)
        self.files[path] = raw.lstrip(b"\0") if raw.startswith(LEFT_OUT) else raw  # only we may say that


def _printable(path: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in path)


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a link"
    return "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"
