"""How is a cell shown on a page? Its code in colours, its outputs as text and images; a student's HTML never."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from markupsafe import Markup, escape
from nbconvert.filters.ansi import ansi2html

from ..safe import sanitise

LONGEST_SOURCE = 50_000  # characters of one cell

# Not Pygments: its lexer takes 1.5 s for the 5,000 characters '%000…!', four times that for twice as many, and is no
# better on blank lines; this runs in the one process that saves everybody's grades. Here a string may lack its end and
# everything else is one run of letters, so nothing that was read is read again: the time is linear.
_TOKEN = re.compile(
    r"""
    (?P<c>\#[^\n]*+)
  | (?P<s>[bfruBFRU]{0,2}+(?:
        \"{3}[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*(?:\"{3})? | "[^"\\\n]*+(?:\\.[^"\\\n]*+)*"?
      | '{3}[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*(?:'{3})? | '[^'\\\n]*+(?:\\.[^'\\\n]*+)*'? ))
  | (?P<m>\d[\w.]*+)
  | (?P<name>[^\W\d]\w*+)
    """,
    re.VERBOSE | re.DOTALL,
)
_AFTER = {"def": "nf", "class": "nc", "import": "nn", "from": "nn"}  # a word -> the class of the name that follows
_BUILTINS = {name for name in dir(builtins) if name.islower() and not name.startswith("_")}


@lru_cache(maxsize=256)  # what is the same for everybody: released cells, empty answers
def code(source: str) -> Markup:
    """Python in colours; the classes are those of Pygments.

    >>> print(code("return '<'"))
    <span class="k">return</span> <span class="s">&#39;&lt;&#39;</span>
    """
    return Markup("".join(_coloured(sanitise.text(source, LONGEST_SOURCE))))


def _coloured(source: str) -> Iterator[str]:
    done, before = 0, ""
    for token in _TOKEN.finditer(source):
        colour, word = token.lastgroup, token[0]
        if colour == "name":
            attribute = source[token.start() - 1 : token.start()] == "."
            colour = "k" if keyword.iskeyword(word) else "nb" if word in _BUILTINS and not attribute else ""
            colour, before = colour or _AFTER.get(before, ""), word
        if colour:
            yield f'{escape(source[done : token.start()])}<span class="{colour}">{escape(word)}</span>'
            done = token.end()
    yield str(escape(source[done:]))


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
