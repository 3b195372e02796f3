"""Which of a student's images may a browser draw? PNG and JPEG files of a moderate size.

Each check takes the encoded image and returns what to show, or why it is not shown. It returns two empty texts for
something that is not an image at all.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

LARGEST = 3 * 2**20  # bytes of one image
MOST_PIXELS = 50_000_000  # of one image: 200 MB in the browser, however few bytes it came in


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


# mime type -> its check, in the order of preference. SVG is not here: a drawing may hold scripts and styles, and even
# without them it can keep a browser busy.
IMAGES = {"image/png": png, "image/jpeg": jpeg}
