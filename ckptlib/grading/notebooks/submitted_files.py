"""What did a student hand in? Files, read without following a link, waiting for a pipe or filling the memory."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from .cell_text import printable
from .notebook_choice import LEFT_OUT, distance

LARGEST_FILE = 20 * 2**20
LARGEST = 40 * 2**20  # bytes in all
MOST_FILES = 300
MOST_ENTRIES = 20_000  # that are looked at
NBGRADERS = ("timestamp.txt", "submission_secret.txt")  # its exchange writes them into each submission
_DEEPEST = 8
_MOST_NOTES = 20
_IGNORED = {"__pycache__", ".ipynb_checkpoints", ".git", ".DS_Store", "feedback"}


@dataclass(frozen=True)
class Submission:
    """A student's files by their path in the folder, and what was left out of it.

    A notebook that was left out is replaced with LEFT_OUT and the reason, so that it does not count as missing.
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


def read(folder: str | Path, student: str, notebook: str = "") -> Submission:
    """Read a submitted folder. Nothing in it can raise, block or lead outside it; anything odd becomes a note.

    notebook: the name that is expected. It is read first, so that no other file can take its place.
    """
    reader = _Reader(notebook)
    try:
        reader.read(_Folder(folder) if os.open in os.supports_dir_fd else _NamedFolder(folder))
    except OSError as error:
        why = "it is a symbolic link, not a folder" if os.path.islink(folder) else error.strerror
        reader.notes.append(f"the submission cannot be read: {why}")
        whose = "The person who collected it can fix that; the student cannot."
        name = notebook or f"{Path(folder).name}.ipynb"
        reader.leave_out(name, f"the submitted folder cannot be opened: {why}. {whose}")
    return Submission(student, reader.files, reader.notes)


def without_files(student: str, notebook: str, why: str) -> Submission:
    """What is graded when the folder itself must not be opened."""
    left_out = f"the submitted folder was not opened: {why}. The person who collected it can fix that"
    return Submission(student, {notebook: LEFT_OUT + left_out.encode() + b"."}, [left_out])


class _Folder:
    """A folder by its descriptor, and what is in it relative to that: nobody can swap a folder for a link."""

    def __init__(self, path: str | Path, parent: int | None = None) -> None:
        self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)

    def names(self) -> list[str]:
        return os.listdir(self._handle)

    def look(self, name: str) -> tuple[int, int]:
        """Mode and size of the entry itself."""
        found = os.stat(name, dir_fd=self._handle, follow_symlinks=False)
        return found.st_mode, found.st_size

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
        if not stat.S_ISDIR(_look(path)[0]):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))

    def names(self) -> list[str]:
        return os.listdir(self._path)

    def look(self, name: str) -> tuple[int, int]:
        return _look(os.path.join(self._path, name))

    def folder(self, name: str) -> _NamedFolder:
        return _NamedFolder(os.path.join(self._path, name))

    def file(self, name: str) -> BinaryIO:
        return open(os.path.join(self._path, name), "rb")

    def close(self) -> None:
        """Nothing is open."""


def _look(path: str | Path) -> tuple[int, int]:
    """Mode and size of the entry itself.

    A junction is Windows' other link to a folder, and does not say so in its mode.
    """
    found = os.lstat(path)
    junction = getattr(found, "st_reparse_tag", 0) == getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", -1)
    return stat.S_IFLNK if junction else found.st_mode, found.st_size


class _Reader:
    """Looks at what is there, then reads it: the likeliest notebook first, and of the rest small files first."""

    def __init__(self, notebook: str) -> None:
        self.files: dict[str, bytes] = {}
        self.notes: list[str] = []
        self._notebook, self._room, self._seen = notebook, LARGEST, 0

    def read(self, top: _Folder | _NamedFolder) -> None:
        """Read everything in the folder, and close it."""
        try:
            if self._notebook:  # before all else, because the folder may hold more entries than are looked at
                self._expected(top)
            found = self._walk(top)
            for _, path, size in sorted((self._turn(path, size), path, size) for path, size in found):
                self._file(top, path, size)
        finally:
            top.close()

    def _expected(self, top: _Folder | _NamedFolder) -> None:
        with contextlib.suppress(OSError):  # whatever is odd about it, the walk sees as well and reports
            mode, size = top.look(self._notebook)
            if stat.S_ISREG(mode):
                self._file(top, self._notebook, size)

    def _turn(self, path: str, size: int) -> tuple[int, int]:
        """Sorting key: nbgrader's own files, names that are like the expected one, then small before large.

        The last turns belong to the files that are left out where not all can be read.
        """
        if path in NBGRADERS:
            return 0, 0
        return 1 + distance(path, self._notebook), size

    def _walk(self, top: _Folder | _NamedFolder) -> list[tuple[str, int]]:
        """The path and size of each file, level by level, so that no deep folder hides a file near the top."""
        files: list[tuple[str, int]] = []
        level = [""]
        for _ in range(_DEEPEST + 1):
            below: list[str] = []
            for prefix in level:
                with contextlib.ExitStack() as opened:
                    try:
                        folder = _opened(top, prefix, opened)
                        names = sorted(folder.names())
                    except OSError as error:
                        self._note(f"{_label(prefix)} cannot be read: {error.strerror}")
                        continue
                    for name in names:
                        if name in _IGNORED or name.endswith(".pyc"):
                            continue
                        self._seen += 1
                        if self._seen > MOST_ENTRIES:
                            self._note(f"more than {MOST_ENTRIES:,} files were submitted, and the others were left out")
                            return files
                        self._entry(folder, name, prefix + name, files, below)
            level = below
        if level:
            self._note(f"folders nested more than {_DEEPEST} deep were left out")
        return files

    def _entry(
        self, folder: _Folder | _NamedFolder, name: str, path: str, files: list[tuple[str, int]], below: list[str]
    ) -> None:
        try:
            mode, size = folder.look(name)
        except OSError as error:
            self._unreadable(path, error)
            return
        if stat.S_ISDIR(mode):
            below.append(f"{path}/")
        elif stat.S_ISREG(mode):
            files.append((path, size))
        else:
            self._note(f"{_label(path)} is {_kind(mode)}, so it was left out")
            self.leave_out(path, f"it is {_kind(mode)}, not a file. Submit the file itself.")

    def leave_out(self, path: str, why: str) -> None:
        """Record why a notebook is missing. For any other file, a note is enough."""
        path = printable(path)
        if path.endswith(".ipynb") and path not in self.files and len(self.files) < MOST_FILES:
            self.files[path] = LEFT_OUT + why.encode()

    def _unreadable(self, path: str, error: OSError) -> None:
        self._note(f"{_label(path)} cannot be read: {error.strerror}")
        self.leave_out(path, f"the system says {error.strerror!r}")

    def _note(self, text: str) -> None:
        if text not in self.notes and len(self.notes) < _MOST_NOTES:
            self.notes.append(text)

    def _file(self, top: _Folder | _NamedFolder, path: str, size: int) -> None:
        if path in self.files:
            return
        usable = path
        if not path.isprintable() or len(path) > 200:
            usable = printable(path)[-200:]
            if not path.endswith(".ipynb") or usable in self.files:
                self._note(f"{_label(path)!r} is not a usable file name, so the file was left out")
                return
            # a browser's "01_toy\xa0(1).ipynb": nothing is ever written under a notebook's own name
        most = min(LARGEST_FILE, self._room)
        if size > most:
            self._too_large(path, usable, size)
        elif len(self.files) >= MOST_FILES:
            self._note(f"more than {MOST_FILES} files were submitted, and the others were left out")
        else:
            try:
                raw = _content(top, path, most + 1)
            except OSError as error:
                self._unreadable(path, error)
                return
            if len(raw) > most:  # it has grown since
                self._too_large(path, usable, len(raw))
                return
            self._room -= len(raw)
            self.files[usable] = raw.lstrip(b"\0") if raw.startswith(LEFT_OUT) else raw  # only we may say that

    def _too_large(self, path: str, usable: str, size: int) -> None:
        limits = f"one file may have {LARGEST_FILE:,} bytes, all together {LARGEST:,}"
        self._note(f"{_label(path)} is too large and was left out: {limits}")
        self.leave_out(usable, f"it has {size:,} bytes; {limits}. Clear the outputs and save.")


def _content(top: _Folder | _NamedFolder, path: str, most: int) -> bytes:
    prefix, _, name = path.rpartition("/")
    with contextlib.ExitStack() as opened:
        folder = _opened(top, prefix and f"{prefix}/", opened)
        return opened.enter_context(folder.file(name)).read(most)


def _opened(top: _Folder | _NamedFolder, prefix: str, opened: contextlib.ExitStack) -> _Folder | _NamedFolder:
    """The folder `prefix` ("data/raw/"), opened step by step from the top, so that none of its parts is a link."""
    folder = top
    for name in prefix.split("/")[:-1]:
        folder = folder.folder(name)
        opened.callback(folder.close)
    return folder


def _label(path: str) -> str:
    return printable(path)[:100]


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a link"
    return "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"
