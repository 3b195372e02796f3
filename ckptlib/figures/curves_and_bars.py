"""How do a few named curves look, or a few bars? Numbers in dicts become a picture in the book's style."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..errors import CkptError
from . import styles
from .styles import LINE, WIDTH, Drawing, ink, style, text_width
from .tradeoffs import MARKS

Curve = Mapping[float, float]
HATCHES = ("", "//", "xx", "..", "--")
GAP = 0.12  # inches from a curve's end, or a bar's, to its label
TOP, BOTTOM, LEFT = 0.1, 0.45, 0.62  # inches around the axes


@style()
def curves(
    panels: Mapping[tuple[str, str], Mapping[str, Curve]],
    alt: str,
    *,
    log: str = "",
    steps: bool = False,
    lines: Mapping[str, float] | None = None,
    height: float = 2.6,
) -> Drawing:
    """One panel for each pair of labels (x, y): its curves {name: {x: y}}, each named where it ends.

    log: the axes that are logarithmic, "x", "y" or "xy".   steps: a value holds until the next one.
    lines: {words: x} draws a vertical line, with the words beside it, in every panel.
    """
    if not panels or not all(curve for panel in panels.values() for curve in panel.values()):
        raise CkptError("nothing to draw: give {(x label, y label): {name: {x: y, ...}}}, at least one point each")
    most = max(len(panel) for panel in panels.values())
    if most > len(MARKS):
        raise CkptError(f"{most} curves in one panel: {len(MARKS)} can be told apart")
    figure, _ = styles.sheet(height)
    each = WIDTH / len(panels)
    for number, ((xlabel, ylabel), panel) in enumerate(panels.items()):
        right = 0.1 + GAP + max(map(text_width, panel))
        tall = height - TOP - BOTTOM
        ax = styles.axes_at(figure, number * each + LEFT, BOTTOM, each - LEFT - right, tall)
        ax.set(xlabel=xlabel, ylabel=ylabel)
        for (name, curve), (colour, marker, dash) in zip(panel.items(), MARKS, strict=False):
            how: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4.5, "label": name}
            if len(curve) > 20:
                how["markevery"] = len(curve) // 8
            if steps:
                how["drawstyle"] = "steps-post"
            ax.plot(list(curve), list(curve.values()), dash, **how)
        _scale(ax, panel, log)
        for words, x in (lines or {}).items():
            ax.axvline(x, color="0.5", linewidth=0.8, dashes=(2, 2))
            at: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
            ax.annotate(words, (x, 1), (3, -2), va="top", **at)
        _name_ends(ax, panel, tall, each - LEFT - right)
    return Drawing(figure, alt)


def _scale(ax: Axes, panel: Mapping[str, Curve], log: str) -> None:
    """Logarithmic axes get the measured x as ticks, if they are few; others begin at 0 unless something is below."""
    measured = sorted({x for curve in panel.values() for x in curve})
    lowest = min(y for curve in panel.values() for y in curve.values())
    locator = ax.xaxis.get_major_locator()
    if isinstance(locator, MaxNLocator) and all(float(x).is_integer() for x in measured):
        locator.set_params(integer=True)
    if "x" in log:
        ax.set_xscale("log")
        if len(measured) <= 8:
            ax.set_xticks(measured, [f"{x:,}" for x in measured])
            ax.minorticks_off()
    if "y" in log:
        ax.set_yscale("log")
        if lowest >= 1e-3:
            ax.yaxis.set_major_formatter("{x:,g}")  # 0.01 rather than 10 to the power of -2
    elif lowest >= 0:
        ax.set_ylim(bottom=0)


def _name_ends(ax: Axes, panel: Mapping[str, Curve], tall: float, wide: float) -> None:
    """Each curve's name beside its last point, or as near to it as the other names leave room."""
    to_axes = ax.transData + ax.transAxes.inverted()
    ends = [to_axes.transform(list(curve.items())[-1]) for curve in panel.values()]
    places = styles.spread([y * tall for _, y in ends], [LINE] * len(ends), 0, tall)
    for name, (x, y), place, (colour, _, _) in zip(panel, ends, places, MARKS, strict=False):
        dark, beside = ink(colour), 1 + GAP / wide
        if abs(place - y * tall) > 0.03 or x < 0.9:
            line = [x + 0.06 / wide, 1 + (GAP - 0.03) / wide], [y, place / tall]
            ax.plot(*line, color=dark, linewidth=0.6, dashes=(2, 2), transform=ax.transAxes, clip_on=False)
        ax.text(beside, place / tall, name, color=dark, va="center_baseline", transform=ax.transAxes)


@style()
def bars(
    rows: Mapping[str, Mapping[str, float]], x: str, alt: str, *, notes: Mapping[str, str] | None = None
) -> Drawing:
    """A horizontal bar for each row {label: {part: number}}, its parts one after another, and its note at the end."""
    parts = list(dict.fromkeys(part for row in rows.values() for part in row))
    if not parts:
        raise CkptError("nothing to draw: give {label: {part: number, ...}}")
    if len(parts) > len(MARKS):
        raise CkptError(f"{len(parts)} parts in one picture: {len(MARKS)} can be told apart")
    texts = [(notes or {}).get(label, f"{sum(row.values()):.4g}") for label, row in rows.items()]
    key = LINE if len(parts) > 1 else 0
    height = TOP + key + 0.24 * len(rows) + BOTTOM
    figure = Figure(figsize=(WIDTH, height), dpi=96)
    left, right = 0.2 + max(map(text_width, rows)), 0.15 + max(map(text_width, texts))
    ax = styles.axes_at(figure, left, BOTTOM, WIDTH - left - right, 0.24 * len(rows))
    longest = max(sum(row.values()) for row in rows.values())
    for at, (row, text) in enumerate(zip(rows.values(), texts, strict=True)):
        begin = 0.0
        for part, (colour, _, _), hatch in zip(parts, MARKS, HATCHES, strict=False):
            ax.barh(at, row.get(part, 0), 0.62, left=begin, color=colour, hatch=hatch, edgecolor="white", linewidth=0)
            begin += row.get(part, 0)
        ax.annotate(text, (begin, at), (4, 0), textcoords="offset points", va="center_baseline")
    ax.set(xlim=(0, longest), xlabel=x)
    styles.label_rows(ax, list(rows))
    along = 0.0
    for part, (colour, _, _) in zip(parts, MARKS, strict=False):
        if len(parts) > 1:
            place = along / (WIDTH - left - right), 1.02
            ax.annotate(f"■ {part}", place, xycoords="axes fraction", va="bottom", color=ink(colour))
            along += text_width(f"■ {part}") + 0.25
    return Drawing(figure, alt)
