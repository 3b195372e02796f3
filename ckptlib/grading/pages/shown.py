"""How is a cell shown on a page? Its code in colours, its outputs as text and images; a student's HTML never."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from markupsafe import Markup, escape
from nbconvert.filters.ansi import ansi2html
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from . import sanitise

LONGEST_SOURCE = 50_000  # characters of one cell
HIGHLIGHTED = 20_000  # longer ones are shown in one colour

_LEXER, _FORMATTER = PythonLexer(stripnl=False), HtmlFormatter(nowrap=True)


@lru_cache(maxsize=256)  # what is the same for everybody: released cells, empty answers
def code(source: str) -> Markup:
    source = sanitise.text(source, LONGEST_SOURCE)
    return Markup(highlight(source, _LEXER, _FORMATTER)) if len(source) <= HIGHLIGHTED else escape(source)


def outputs(found: Sequence[Any], room: int) -> tuple[list[dict], int]:
    """What the template shows of each output, and the bytes of `room` that are left for other cells."""
    safe = sanitise.outputs(found, min(room, sanitise.ROOM))
    return [_output(output) for output in safe], room - sum(map(sanitise.nbytes, safe))


def _output(output: dict) -> dict:
    match output["output_type"]:
        case "stream":
            return {"kind": output["name"], "text": Markup(ansi2html(output["text"]))}
        case "error":
            said = "\n".join(output["traceback"]) or f"{output['ename']}: {output['evalue']}"
            return {"kind": "error", "text": Markup(ansi2html(said))}
    data = output["data"]
    if "text/html" in data:  # sanitised: an <img> of our making
        return {"kind": "image", "image": Markup(data["text/html"])}
    for mime in ("image/png", "image/jpeg"):
        if mime in data:
            alt = data.get("text/plain", "")[:200] or "image"
            image = Markup('<img alt="{}" src="data:{};base64,{}">').format(alt, mime, data[mime])
            return {"kind": "image", "image": image}
    return {"kind": "result", "text": Markup(ansi2html(data["text/plain"]))}


def message(text: str) -> Markup:
    """A sentence, with `names` set as code; all else is escaped."""
    plain = str(escape(sanitise.text(text, 4000)))
    return Markup(re.sub(r"`([^`\n]{1,200})`", r"<code>\1</code>", plain))


def points(number: float) -> str:
    """
    >>> points(1.5), points(2.0)
    ('1.5', '2')
    """
    return f"{round(number, 2):g}"


def duration(seconds: float) -> str:
    """
    >>> duration(93_780)
    '1 d 2 h 3 min'
    """
    minutes = int(seconds // 60)
    parts = (minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "min")
    return " ".join(f"{number} {unit}" for number, unit in parts if number)
