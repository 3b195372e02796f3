"""How is an explorer put together? Rows of knobs, then a figure and a sentence that follow them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets


def look(width: int = 360) -> dict[str, Any]:
    """Options of a knob: its description is shown in full, and it is `width` pixels wide."""
    return {"style": {"description_width": "initial"}, "layout": widgets.Layout(width=f"{width}px")}


def panel(
    rows: Sequence[Sequence[Any]], draw: Callable[[], tuple[str, str]], meanwhile: str | None = None
) -> widgets.VBox:
    """Show the rows of knobs and what `draw` returns, an SVG and words, again whenever a knob moves.

    `meanwhile` are the words that are shown while `draw` works, where that takes a moment.
    """
    figure, words = widgets.HTML(), widgets.HTML()

    def refresh(_: object = None) -> None:
        if meanwhile is not None:
            words.value = meanwhile
        figure.value, words.value = draw()

    for knob in (knob for row in rows for knob in row):
        knob.observe(refresh, names="value")
    refresh()
    return widgets.VBox([*(widgets.HBox(row) if len(row) > 1 else row[0] for row in rows), figure, words])
