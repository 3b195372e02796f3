"""What do several commands do? Draw to a file, and show on stderr how far slow work has come."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm

from ..errors import CkptError

if TYPE_CHECKING:
    from ..remember.explain_snapshot import Explanation

SLOW = 2  # seconds; what takes longer shows how far it has come


def save_plot(draw: Callable[[], Any], path: str) -> None:
    """Write the drawing to a file: SVG, PNG or PDF, by its name."""
    drawing = draw()  # outside of the try block: a CkptError, which is a ValueError, already says what is wrong
    try:
        drawing.save(path)
    except (OSError, ValueError) as error:
        raise CkptError(f"cannot draw to {path}: {error}") from None


def save_page(found: Explanation, path: str) -> None:
    """Write the page on which a browser shows a snapshot."""
    from ..figures.snapshot_page import snapshot_page

    page = snapshot_page(found)
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        raise CkptError(f"cannot write the page: {error}") from None


def bar(what: str, unit: str) -> tqdm:
    """A counter on stderr, if stderr is a terminal, without an end: nobody knows how much there will be."""
    return tqdm(desc=what, unit=f" {unit}", disable=None, delay=SLOW, leave=False)
