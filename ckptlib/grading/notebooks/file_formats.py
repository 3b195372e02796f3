"""Which cells does this file hold? Bytes of any kind in, cells or a reason out.

Only the kind, the text and the names of a cell are read, not a student's outputs and metadata.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

MAX_BYTES = 20 * 2**20
MAX_CELLS = 10_000
MAX_TEXT = 4 * 2**20  # letters in all cells; an honest notebook has some ten thousand, the rest of it is outputs
MAX_CONTAINERS = 2_000_000  # a file of "[],[],…" within MAX_BYTES would become half a gigabyte of Python lists

PYTHON_SCRIPT = "a Python script: submit the .ipynb, not a .py made from it"
# First bytes of a file -> its likely format, and advice on what to hand in instead.
SIGNATURES = (
    (rb"PK\x03\x04.{0,4000}?word/", "a Word document"),
    (rb"PK\x03\x04|PK\x05\x06", "a zip archive: unpack it and submit the .ipynb inside"),
    (rb"%PDF", "a PDF: submit the .ipynb that it was printed from"),
    (rb"\x1f\x8b|7z\xbc\xaf|Rar!|BZh", "a compressed archive: unpack it and submit the .ipynb inside"),
    (rb"\x89PNG|\xff\xd8\xff|GIF8", "a picture"),
    (rb"\xd0\xcf\x11\xe0", "an old Microsoft Office document"),
    (rb"\{\\rtf", "a text document (RTF)"),
    (
        rb"\s*<(!doctype|html|head|\?xml)",
        'a web page: download the notebook itself ("raw"), not the page that shows it',
    ),
    (rb"<<<<<<< ", "a file with git's conflict marks (<<<<<<<): resolve the conflict first"),
    (rb"\s*(#|import |from |def |class |\"\"\"|[A-Za-z_]\w* = )", PYTHON_SCRIPT),
)


class Unreadable(Exception):
    """The file is not a notebook; the message says what it seems to be."""


@dataclass(frozen=True)
class StudentCell:
    """One of the student's cells. `ids`: every name that the file gave it, the nbformat id first."""

    kind: str  # "code", "markdown" or "raw"
    text: str
    grade_id: str | None = None
    ids: tuple[str, ...] = ()


def read_cells(data: bytes) -> list[StudentCell]:
    """The cells of a notebook file of any nbformat version; `Unreadable` with a reason if it is not one.

    >>> read_cells(b'{"cells": [{"cell_type": "code", "source": ["q1 = 3"]}]}')
    [StudentCell(kind='code', text='q1 = 3', grade_id=None, ids=())]
    """
    if len(data) > MAX_BYTES:
        size, most = f"{len(data) / 2**20:.0f} MiB", f"{MAX_BYTES / 2**20:.0f} MiB"
        raise Unreadable(f"it has {size}, but at most {most} are read. Clear the outputs and save.")
    raw = _raw_cells(_parse(_decode(data), data))
    if len(raw) > MAX_CELLS:
        raise Unreadable(f"it has {len(raw):,} cells, but at most {MAX_CELLS:,} are read")
    cells = [_cell(entry) for entry in raw if isinstance(entry, dict)]
    letters = sum(len(cell.text) for cell in cells)
    if letters > MAX_TEXT:
        raise Unreadable(f"its cells hold {letters:,} letters, but at most {MAX_TEXT:,} are read")
    return cells


def seems(data: bytes) -> str | None:
    """What a file that is not a notebook seems to be, judged by how it begins."""
    if not data.strip(b"\0 \t\r\n\xef\xbb\xbf\xff\xfe"):
        return "empty"
    head = data[:5000]
    return next((what for pattern, what in SIGNATURES if re.match(pattern, head, re.DOTALL | re.IGNORECASE)), None)


# ---- bytes -> JSON --------------------------------------------------------------------------------------------------
def _decode(data: bytes) -> str:
    encoding = json.detect_encoding(data)  # knows byte-order marks, and UTF-16 without one
    if encoding.startswith("utf-8"):
        # Bytes that are not UTF-8 come from a Latin-1 editor: read those, and only those, as Latin-1.
        text = data.decode(encoding, "surrogateescape").translate({0xDC00 + i: i for i in range(128, 256)})
    else:
        text = data.decode(encoding, "replace")
    return text.replace("\0", "").lstrip("\ufeff \t\r\n")  # some file systems pad a broken file with NULs


def _parse(text: str, data: bytes) -> Any:
    if text.count("[") + text.count("{") > MAX_CONTAINERS:
        raise Unreadable(f"it has more than {MAX_CONTAINERS} lists and objects. Clear the outputs and save.")
    # strict=False: line ends inside strings. float: an integer of 5,000 digits would be an error.
    decoder = json.JSONDecoder(strict=False, parse_int=float)
    try:
        return decoder.raw_decode(text)[0]  # what follows the notebook is the rest of an older, longer file
    except json.JSONDecodeError as error:
        what = seems(data)
        if what:
            reason = f"it seems to be {what}" if what != "empty" else "it is empty"
        elif text.startswith("{") and (error.msg.startswith("Unterminated") or error.pos >= len(text.rstrip()) - 1):
            reason = "it ends in the middle. Was the upload complete?"
        elif text.startswith("{"):
            reason = f"line {error.lineno} is not valid JSON ({error.msg})"
            if "\n<<<<<<<" in text:
                reason += ". It holds git's conflict marks (<<<<<<<), so resolve the conflict first"
        else:
            reason = "it is not JSON, the format that notebooks are stored in"
        raise Unreadable(reason) from None
    except (RecursionError, MemoryError):
        raise Unreadable("its JSON is nested too deeply to be a notebook") from None


# ---- JSON -> cells --------------------------------------------------------------------------------------------------
def _raw_cells(notebook: Any) -> list[Any]:
    if isinstance(notebook, dict):
        if isinstance(notebook.get("cells"), list):
            return notebook["cells"]
        if isinstance(notebook.get("worksheets"), list):  # nbformat 3 and older
            sheets = [_dict(sheet).get("cells") for sheet in notebook["worksheets"]]
            return [cell for cells in sheets if isinstance(cells, list) for cell in cells]
    raise Unreadable("it is JSON, but has no list of cells, so it is not a notebook")


def _cell(entry: dict[str, Any]) -> StudentCell:
    metadata = _dict(entry.get("metadata"))
    grade_id = _dict(metadata.get("nbgrader")).get("grade_id")
    ids = (entry.get("id"), metadata.get("id"), metadata.get("cell_id"))  # Jupyter, Colab, Deepnote
    return StudentCell(
        kind=_kind(entry),
        text=_text(entry.get("source", entry.get("input"))),
        grade_id=grade_id if isinstance(grade_id, str) else None,
        ids=tuple(name for name in ids if isinstance(name, str)),
    )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _kind(entry: dict[str, Any]) -> str:
    kind = entry.get("cell_type")
    if kind in ("code", "markdown", "raw"):
        return kind
    if kind == "heading":  # nbformat 3
        return "markdown"
    return "code" if {"outputs", "execution_count", "input"} & entry.keys() else "raw"


def _text(source: Any) -> str:
    """A source may be one string or a list of lines; anything else is left out."""
    lines = [part for part in source if isinstance(part, str)] if isinstance(source, list) else [source]
    if not all(isinstance(line, str) for line in lines):
        return ""
    bare = len(lines) > 1 and not any("\n" in line or "\r" in line for line in lines)  # an editor that split badly
    text = ("\n" if bare else "").join(lines).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    text = text.removeprefix("\ufeff")  # a byte-order mark that came with what was pasted
    return text.encode("utf-8", "replace").decode()  # half a surrogate pair could not be written to any file
