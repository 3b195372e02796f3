"""Which of the files that a student handed in is the notebook?

Names are only a hint: the choice between several readable notebooks is made by their content, in rebuild.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from .cell_text import printable
from .file_formats import PYTHON_SCRIPT, StudentCell, Unreadable, read_cells, seems

MAX_CANDIDATES = 8  # notebooks that are read of one student; the names nearest to the expected one come first
IGNORED = (".ipynb_checkpoints", "__MACOSX", ".git", "timestamp.txt")  # the last is nbgrader's
FARTHEST = 4  # see `distance`
LEFT_OUT = b"\0left out by ckptlib: "  # then why; no file that was read begins so, see submitted_files.py


@dataclass(frozen=True)
class Candidate:
    """A file that can be read as a notebook."""

    path: str
    cells: list[StudentCell]


@dataclass(frozen=True)
class SubmittedNotebooks:
    """The readable notebooks of one student, the likeliest first; or the `problem`, if there is none."""

    name: str
    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...] = ()
    problem: str | None = None


def read_submission(files: dict[str, bytes], name: str) -> SubmittedNotebooks:
    """Find and read the notebook `name` among a student's files (relative posix path -> bytes). Never raises."""
    seen = {path: data for path, data in files.items() if not _ignored(path)}
    nearest = sorted(seen, key=lambda path: (distance(path, name), path))
    notebooks = [path for path in nearest if ".ipynb" in _base(path).lower()]
    readable, refused = _read_all(notebooks[:MAX_CANDIDATES], seen)
    if not readable:  # a browser may have saved it as .json or .txt, or without any ending
        others = [path for path in nearest if path not in notebooks and _like_a_notebook(seen[path])]
        readable, _ = _read_all(others[:MAX_CANDIDATES], seen)
    if readable:
        exact = refused.get(name)
        notes = (f"{quoted(name)} could not be read: {exact}",) if exact else ()
        return SubmittedNotebooks(name, tuple(readable), notes)
    if refused:
        path = next(iter(refused))
        what = "was not read" if seen[path].startswith(LEFT_OUT) else "is not a notebook"
        return SubmittedNotebooks(name, (), problem=f"{quoted(path)} {what}: {refused[path]}")
    return SubmittedNotebooks(name, (), problem=_nothing(seen, nearest, name))


def quoted(path: str) -> str:
    """A student's file name, made fit for a one-line message."""
    label = printable(path)
    return f"'{label if len(label) <= 80 else label[:77] + '…'}'"


def _read_all(paths: list[str], files: dict[str, bytes]) -> tuple[list[Candidate], dict[str, str]]:
    readable, refused = [], {}
    for path in paths:
        try:
            if files[path].startswith(LEFT_OUT):
                raise Unreadable(files[path].removeprefix(LEFT_OUT).decode())
            readable.append(Candidate(path, read_cells(files[path])))
        except Unreadable as reason:
            refused[path] = str(reason)
    return readable, refused


def _nothing(files: dict[str, bytes], nearest: list[str], name: str) -> str:
    """Why there is no notebook at all: named by the file that was most likely meant."""
    if not files:
        return f"no file was submitted: {quoted(name)} was expected"
    for path in nearest:
        what = seems(files[path]) or (PYTHON_SCRIPT if path.lower().endswith(".py") else None)
        if what and distance(path, name) < FARTHEST:
            return f"no notebook was submitted: {quoted(path)} {'is' if what == 'empty' else 'seems to be'} {what}"
    names = ", ".join(map(quoted, nearest[:5])) + (", …" if len(nearest) > 5 else "")
    only = seems(files[nearest[0]]) if len(nearest) == 1 else None
    hint = f" ({'it is' if only == 'empty' else 'it seems to be'} {only})" if only else ""
    return f"no notebook was submitted: {quoted(name)} was expected, found {names}{hint}"


def distance(path: str, name: str) -> int:
    """0: the very name … FARTHEST: nothing in common. "Copy of 01_x (1).ipynb" and "01_X-Copy1.ipynb" are 3."""
    if path == name:
        return 0
    if _base(path) == name:
        return 1
    if _base(path).lower() == name.lower():
        return 2
    return 3 if _letters(name.rsplit(".", 1)[0]) in _letters(_base(path)) else FARTHEST


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _base(path: str) -> str:
    return PurePosixPath(path.replace("\\", "/")).name


def _ignored(path: str) -> bool:
    parts = path.replace("\\", "/").split("/")
    return any(part in IGNORED for part in parts) or parts[-1].startswith("._")  # macOS keeps its own notes there


def _like_a_notebook(data: bytes) -> bool:
    start = data[:200].replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")
    return start.startswith(b"{") and b"cell_type" in data.replace(b"\0", b"")
