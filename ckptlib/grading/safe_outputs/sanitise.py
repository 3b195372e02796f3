"""Which outputs of a student may be shown in somebody else's browser? Text and images; nothing that could run.

Feedback pages and the notebooks in autograded/ hold only what comes out of here: Formgrader shows those in the
instructor's browser, with the instructor's cookies.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import Any

import nbformat

LARGEST = 3 * 2**20  # bytes of one image
MOST_PIXELS = 50_000_000  # of one image: 200 MB in the browser, however few bytes it came in
LONGEST_TEXT = 20_000  # characters of one output
LONGEST_IMAGE = 8 * 2**20  # characters, encoded
MOST_OUTPUTS = 100  # of one cell
ROOM = 12 * 2**20  # bytes of all outputs of one cell
_NO_SVG = "[a drawing in SVG is not shown here; PNG and JPEG images are]"


def outputs(found: Any, room: int = ROOM) -> list[nbformat.NotebookNode]:
    """nbformat outputs, from a kernel that may lie about everything -> outputs that are safe to render.

    Kept: streams, text/plain, errors, PNG and JPEG. Doing it twice changes nothing.
    """
    found = found if isinstance(found, (list, tuple)) else []
    kept: list[dict] = []
    for index, output in enumerate(found):
        if index == MOST_OUTPUTS:
            kept.append(_stream("stderr", f"[{len(found) - index:,} more outputs of this cell are not shown]\n"))
            break
        safe = _output(output) if isinstance(output, dict) else None
        if safe is None:
            continue
        room -= nbytes(safe)
        if room < 0:
            kept.append(_stream("stderr", "[the rest is not shown, because the outputs of this cell are too large]\n"))
            break
        kept.append(safe)
    return [nbformat.from_dict(output) for output in _joined(kept)]


def nbytes(output: dict) -> int:
    """About how many bytes an output adds to a page."""
    texts = [output.get("text", ""), *output.get("traceback", ()), *output.get("data", {}).values()]
    return sum(len(text) for text in texts)


def text(value: Any, longest: int = LONGEST_TEXT) -> str:
    """A string or nbformat's list of strings -> text that can be written as UTF-8; cut, with a note, where too long."""
    if isinstance(value, (list, tuple)):
        value = "".join(part for part in value if isinstance(part, str))
    if not isinstance(value, str):
        return ""
    extra = len(value) - longest
    if extra > 0:
        half = longest // 2 - 30  # the end matters: the error stands there
        value = f"{value[:half]}\n[… {extra + 60:,} characters are not shown …]\n{value[-half:]}"
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", value)


# Unpaired surrogates cannot be written to a file; control characters other than tab, newline, return and escape are
# not text. The bidirectional controls would let code look like other code.
_CONTROL = re.compile("[\ud800-\udfff\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f\u202a-\u202e\u2066-\u2069]")


def markdown(source: str) -> str:
    """A student's own markdown, for a notebook that Formgrader renders: as code if it may hold more than text.

    Markdown may hold HTML, javascript: links, and TeX whose \\href is a link too.
    """
    source = text(source, 5 * LONGEST_TEXT)
    if not re.search(r"[<\]\\&]", source):
        return source
    fence = "`" * (max([2, *map(len, re.findall("`+", source))]) + 1)
    return f"{fence}\n{source}\n{fence}"


# ---- one output -----------------------------------------------------------------------------------------------------
def _output(output: dict) -> dict | None:
    match output.get("output_type"):
        case "stream":
            name = "stderr" if output.get("name") == "stderr" else "stdout"
            return _stream(name, text(output.get("text", "")))
        case "error":
            lines = output.get("traceback")
            found = text("\n".join(line for line in lines if isinstance(line, str)) if isinstance(lines, list) else "")
            names = {key: text(output.get(key, ""), 2000) for key in ("ename", "evalue")}
            return {"output_type": "error", **names, "traceback": found.split("\n")}
        case "display_data" | "execute_result" as kind:
            data = _data(output.get("data"))
            safe = {"output_type": kind, "data": data, "metadata": {}}
            if kind == "execute_result":
                count = output.get("execution_count")
                safe["execution_count"] = count if type(count) is int else None
            return safe if data else None
    return None


def _stream(name: str, found: str) -> dict:
    return {"output_type": "stream", "name": name, "text": found}


def _data(found: Any) -> dict[str, str]:
    """The best image, and the text that every output has beside it."""
    if not isinstance(found, dict):
        return {}
    data = {}
    if "text/plain" in found:
        data["text/plain"] = text(found["text/plain"])
    for mime in IMAGES:
        if mime in found:
            encoded, reason = image(mime, text(found[mime], LONGEST_IMAGE))
            if encoded:
                return {**data, mime: encoded}
            if reason:
                data["text/plain"] = f"[{reason}]"
    if not data and found:
        data["text/plain"] = _NO_SVG if "image/svg+xml" in found else "[an output that has no text is not shown]"
    return data


def _joined(kept: Iterable[dict]) -> list[dict]:
    """Neighbouring pieces of one stream become one output, as notebooks show them."""
    joined: list[dict] = []
    for output in kept:
        last = joined[-1] if joined else {}
        if output["output_type"] == "stream" == last.get("output_type") and output["name"] == last["name"]:
            last["text"] += output["text"]
        else:
            joined.append(output)
    for output in joined:
        if "text" in output:
            # A progress bar returns to the start of its line, so only its last text is kept.
            lines = (line.rstrip("\r").rpartition("\r")[2] for line in output["text"].split("\n"))
            output["text"] = text("\n".join(lines))
    return joined


# ---- images ---------------------------------------------------------------------------------------------------------
def image(mime: str, found: str) -> tuple[str, str]:
    """The encoded image to show, and the reason if it is not shown; two empty texts if `found` is not an image."""
    try:
        raw = base64.b64decode("".join(found.split()), validate=True)
    except ValueError:
        return "", ""
    if len(raw) > LARGEST:
        return "", f"an image of {len(raw):,} bytes is not shown"
    width, height = IMAGES[mime](raw)
    if width * height > MOST_PIXELS:
        return "", f"an image of {width:,} x {height:,} pixels is not shown"
    return (base64.b64encode(raw).decode(), "") if width * height else ("", "")


def _png_size(raw: bytes) -> tuple[int, int]:
    """Width and height from the header; zeros if this is not a PNG."""
    if raw[:8] != b"\x89PNG\r\n\x1a\n" or raw[12:16] != b"IHDR":
        return 0, 0
    return int.from_bytes(raw[16:20]), int.from_bytes(raw[20:24])


def _jpeg_size(raw: bytes) -> tuple[int, int]:
    """Width and height from the first frame header; zeros if this is not a JPEG."""
    at = 2
    while raw[:3] == b"\xff\xd8\xff" and at + 9 < len(raw) and raw[at] == 0xFF:
        if 0xC0 <= raw[at + 1] <= 0xCF and raw[at + 1] not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(raw[at + 7 : at + 9]), int.from_bytes(raw[at + 5 : at + 7])
        at += 2 + max(2, int.from_bytes(raw[at + 2 : at + 4]))
    return 0, 0


# In the order of preference. SVG is not among them, because a drawing may hold scripts and styles, and even without
# them it can keep a browser busy.
IMAGES = {"image/png": _png_size, "image/jpeg": _jpeg_size}
