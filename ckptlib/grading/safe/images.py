"""Which of a student's images may a browser draw? Small ones that are what they say, drawings as images too.

Each check takes the encoded image and returns what to show, or why it is not shown; neither if it is no image at all.
"""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable

LARGEST = 3 * 2**20  # bytes of one image
MOST_PIXELS = 50_000_000  # of one image: 200 MB in the browser, however few bytes it came in
MOST_SHAPES = 200_000  # of one drawing, once every reference in it is followed
_DEEPEST = 50

_DRAWING = '<img alt="drawing" style="max-width:100%" src="data:image/svg+xml;base64,{}">'
_OUR_DRAWING = re.compile(re.escape(_DRAWING).replace(r"\{\}", r"([A-Za-z0-9+/]*={0,2})"))
_HEAVY = re.compile("script|foreignObject|filter|fe[A-Z].*|animate.*|set|handler|iframe")


# ---- bitmaps --------------------------------------------------------------------------------------------------------
def png(found: str) -> tuple[str, str]:
    return _bitmap(found, _png_size)


def jpeg(found: str) -> tuple[str, str]:
    return _bitmap(found, _jpeg_size)


def _bitmap(found: str, size: Callable[[bytes], tuple[int, int]]) -> tuple[str, str]:
    try:
        raw = base64.b64decode("".join(found.split()), validate=True)
    except ValueError:
        return "", ""
    if len(raw) > LARGEST:
        return "", f"an image of {len(raw):,} bytes is not shown"
    width, height = size(raw)
    if width * height > MOST_PIXELS:
        return "", f"an image of {width:,} x {height:,} pixels is not shown"
    return (base64.b64encode(raw).decode(), "") if width * height else ("", "")


def _png_size(raw: bytes) -> tuple[int, int]:
    """Width and height from the header; zeros if this is no PNG."""
    if raw[:8] != b"\x89PNG\r\n\x1a\n" or raw[12:16] != b"IHDR":
        return 0, 0
    return int.from_bytes(raw[16:20]), int.from_bytes(raw[20:24])


def _jpeg_size(raw: bytes) -> tuple[int, int]:
    """Width and height from the first frame header; zeros if this is no JPEG."""
    at = 2
    while raw[:3] == b"\xff\xd8\xff" and at + 9 < len(raw) and raw[at] == 0xFF:
        if 0xC0 <= raw[at + 1] <= 0xCF and raw[at + 1] not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(raw[at + 7 : at + 9]), int.from_bytes(raw[at + 5 : at + 7])
        at += 2 + max(2, int.from_bytes(raw[at + 2 : at + 4]))
    return 0, 0


# ---- drawings -------------------------------------------------------------------------------------------------------
def drawing(found: str) -> tuple[str, str]:
    """An SVG -> an <img>: the browser runs no script in it and fetches nothing for it."""
    if len(found) > LARGEST:
        return "", f"a drawing of {len(found):,} characters is not shown"
    if reason := _objection(found):
        return "", f"a drawing is not shown: {reason}"
    return _DRAWING.format(base64.b64encode(found.encode()).decode()), ""


def our_drawing(found: str) -> tuple[str, str]:
    """HTML, if it is what `drawing` makes: then it has been here before, or is as harmless as if."""
    again = _OUR_DRAWING.fullmatch(found)
    return drawing(base64.b64decode(again[1] + "==").decode(errors="replace")) if again else ("", "")


def _objection(source: str) -> str:
    """Why a drawing could keep a browser busy, "" if it could not: entities, filters, shapes that repeat themselves."""
    from defusedxml import ElementTree
    from defusedxml.common import DefusedXmlException

    try:
        root = ElementTree.fromstring(source)
    except DefusedXmlException:
        return "it defines entities"
    except (ET.ParseError, ValueError) as error:
        return f"it is no XML ({error})"
    if _local(root.tag) != "svg":
        return f"its root is {_local(root.tag)!r}"
    for element in root.iter():
        name = _local(element.tag)
        if _HEAVY.fullmatch(name) or (name == "style" and "url" in "".join(element.itertext())):
            return f"it holds a {name!r}"
        if name == "image" and not _embedded(element):
            return "it holds an image that is neither PNG nor JPEG"
    return "" if _shapes(root) <= MOST_SHAPES else "it repeats its shapes too often"


def _embedded(image: ET.Element) -> bool:
    links = [value for key, value in image.items() if _local(key) == "href"]
    return all(png(v.partition("png;base64,")[2])[0] or jpeg(v.partition("jpeg;base64,")[2])[0] for v in links)


def _shapes(root: ET.Element) -> int:
    """How many elements are drawn once every reference is followed; more than allowed if they go in circles."""
    named = {element.get("id"): element for element in root.iter() if element.get("id")}
    known: dict[ET.Element, int] = {}

    def count(element: ET.Element, path: tuple[ET.Element, ...]) -> int:
        if element in path or len(path) > _DEEPEST:
            return MOST_SHAPES + 1
        if element not in known:
            links = {link for value in element.attrib.values() for link in re.findall(r"#([^\s()'\"]+)", value)}
            inside = [*element, *(named[link] for link in links if link in named)]
            known[element] = min(MOST_SHAPES + 1, 1 + sum(count(part, (*path, element)) for part in inside))
        return known[element]

    return count(root, ())


def _local(tag: object) -> str:
    return str(tag).rpartition("}")[2]


# mime type -> its check, and the type that the result has; in the order of preference.
# text/html is here for our own drawings alone.
IMAGES = {
    "text/html": (our_drawing, "text/html"),
    "image/svg+xml": (drawing, "text/html"),
    "image/png": (png, "image/png"),
    "image/jpeg": (jpeg, "image/jpeg"),
}
