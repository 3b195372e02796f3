"""How is a timeline drawn? Memory stacked by category over thousands of events, in a few hundred columns."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline
from matplotlib.ticker import MaxNLocator

from ..errors import CkptError
from ..units import size, unit
from . import styles
from .styles import LINE, LOOKS, SMALL, WIDTH, Drawing, style, text_width

if TYPE_CHECKING:
    from ..remember.measurement import Measurement
    from ..tracing.timeline import Timeline

COLUMNS = 300  # for all panels of a figure together, so one column is about a pixel and a half wide
HEIGHT, LEFT, BOTTOM = 2.35, 0.75, 0.5  # inches: the axes' height, and their distance from the sheet's edges
HEADROOM = 1.16  # above the peak, for its label
SHADES = {"forward": "white", "recompute": "#D4D4D4", "backward": "#EDEDED", "optimizer": "#DCDCDC"}
XLABEL = "allocations and frees, in order"


@style()
def timeline(run: Measurement | Timeline) -> Drawing:
    """Memory in use by category, after every allocation and free. A bar beside it shows the peak on the same scale."""
    chart = _Chart(run, COLUMNS)
    labels = [f"{category} {size(nbytes)}" for category, nbytes in chart.at_peak.items()]
    right = 0.72 + max(map(text_width, labels))
    figure, paper = styles.sheet(3.2)
    per, name = unit(chart.peak)
    top = chart.peak / per * HEADROOM
    ax = styles.axes_at(figure, LEFT, BOTTOM, WIDTH - LEFT - right - 0.1, HEIGHT)
    chart.draw(ax, per, top)
    ax.set(xlabel=XLABEL, ylabel=f"memory in use ({name})" + (f"\n{chart.device}" if chart.device else ""))
    x, levels = WIDTH - right, BOTTOM + np.cumsum([0, *chart.at_peak.values()]) / per / top * HEIGHT
    middles = [(low + high) / 2 for low, high in pairwise(levels.tolist())]
    places = styles.spread(middles, [LINE] * len(labels), BOTTOM, BOTTOM + HEIGHT)
    for i, (category, nbytes) in enumerate(chart.at_peak.items()):
        if nbytes:
            styles.fill(paper, category, styles.boxes((x, levels[i], x + 0.2, levels[i + 1])))
            paper.plot([x + 0.22, x + 0.4], [middles[i], places[i]], color="0.5", linewidth=0.6)
        styles.swatch(paper, x + 0.42, places[i], category, labels[i])
    paper.text(x, BOTTOM + HEIGHT + 0.1, "at the peak", fontsize=SMALL)
    parts = ", ".join(label for label, nbytes in zip(labels, chart.at_peak.values(), strict=True) if nbytes)
    where = f" on {chart.device}" if chart.device else ""
    return Drawing(figure, f"Timeline of memory in use{where}: {chart.words}. At the peak: {parts}.")


@style()
def compare(runs: Mapping[str, Measurement | Timeline]) -> Drawing:
    """Two or three timelines side by side, on one scale of bytes; the dashed line is the first one's peak."""
    if not isinstance(runs, Mapping) or not 2 <= len(runs) <= 3:
        raise CkptError("compare draws two or three runs side by side. Pass them as {name: run, name: run}")
    charts = {name: _Chart(run, COLUMNS // len(runs)) for name, run in runs.items()}
    highest = max(chart.peak for chart in charts.values())
    per, unit_name = unit(highest)
    reference = next(iter(charts.values())).peak / per
    shown = [category for category in LOOKS if any(category in chart.rows for chart in charts.values())]
    right, gap = 0.4 + max(map(text_width, shown)), 0.18
    width = (WIDTH - LEFT - right + gap) / len(charts) - gap
    figure, paper = styles.sheet(3.55)
    for i, (name, chart) in enumerate(charts.items()):
        x = LEFT + i * (width + gap)
        ax = styles.axes_at(figure, x, BOTTOM, width, HEIGHT)
        chart.draw(ax, per, highest / per * HEADROOM)
        ax.axhline(reference, color="black", linewidth=0.8, dashes=(5, 3), zorder=40)
        ax.tick_params(labelleft=i == 0)
        ax.set_ylabel("" if i else f"memory in use ({unit_name})")
        paper.text(x, BOTTOM + HEIGHT + 0.5, name, weight="bold")
        paper.text(x, BOTTOM + HEIGHT + 0.34, f"forward peak {size(chart.forward_peak)}")
    devices = sorted({chart.device for chart in charts.values()} - {""})
    paper.text((LEFT + WIDTH - right) / 2, 0.08, f"{XLABEL}{', on ' * bool(devices)}{', '.join(devices)}", ha="center")
    for i, category in enumerate(reversed(shown)):
        styles.swatch(paper, WIDTH - right + 0.1, BOTTOM + HEIGHT - (i + 0.5) * LINE * 1.2, category, category)
    words = ". ".join(f"{name}: {chart.words}" for name, chart in charts.items())
    return Drawing(figure, f"Timelines of memory in use, side by side on one scale. {words}.")


class _Chart:
    """A timeline cut into columns.

    Column 0 is the start; if several moments fall into one column, the one with the most memory in use is drawn.
    """

    def __init__(self, run: Any, columns: int) -> None:
        line = getattr(run, "timeline", run)
        if not hasattr(line, "stacked"):
            raise CkptError(f"expected what ck.measure returns, or its timeline, got {type(run).__name__}")
        start, rows = line.by_category(-1), line.stacked()
        if not rows:
            raise CkptError("nothing to draw: no bytes were in use at any moment. Were the tensors on another device?")
        self.rows = {c: np.append(start.get(c, 0), rows[c]) for c in LOOKS if c in rows}
        totals = np.sum([*self.rows.values()], axis=0)
        self.edges = np.linspace(0, len(totals), min(len(totals), columns) + 1).astype(int)
        self.picks = [a + int(totals[a:b].argmax()) for a, b in pairwise(self.edges)]
        phases = [change.phase for change in line.changes]
        self.phases = [phases[max(i - 1, 0)] for i in self.picks if phases]
        self.peak, self.peak_at = line.peak, line.peak_moment + 1
        self.at_peak = {category: int(row[self.peak_at]) for category, row in self.rows.items()}
        self.device = getattr(run, "device", "")
        self.forward_peak, counted = getattr(run, "forward_peak", 0), getattr(run, "peak", 0)
        self.label = f"peak {size(self.peak)}"
        if counted != self.peak:  # a real allocator rounds up, and counts memory that belongs to no tensor
            self.label += f" (allocator: {size(counted)})"
        when = f"during {phases[self.peak_at - 1]}" if self.peak_at else "at the start"
        self.words = (
            f"{self.label} {when}, forward peak {size(self.forward_peak)}, allocations and frees: {len(phases):,}"
        )

    def draw(self, ax: Axes, per: int, top: float) -> None:
        end = self.edges[-1]
        inch = end / (ax.get_position().width * WIDTH)  # in units of x
        ticks = MaxNLocator(4, integer=True).tick_values(0, end)
        ax.set(xlim=(0, end), ylim=(0, top), xticks=[t for t in ticks if t < end - 0.2 * inch])
        ax.xaxis.set_major_formatter("{x:,.0f}")
        self._draw_phases(ax, inch)
        tops = np.cumsum([row[self.picks] for row in self.rows.values()], axis=0) / per
        for i, category in enumerate(self.rows):  # each covers the lower part of the one above it
            styles.fill(ax, category, _steps(self.edges, tops[i]), zorder=20 - i)
        x, y = self.peak_at + 0.5, self.peak / per
        ax.plot([x], [y], "v", color="black", markersize=5, label="peak", zorder=50, clip_on=False)
        half = (text_width(self.label) / 2 + 0.06) * inch  # away from the axis
        ground = {"fc": "white", "ec": "none", "alpha": 0.8, "pad": 0.5}
        options: dict[str, Any] = {"ha": "center", "bbox": ground, "zorder": 45}
        ax.annotate(self.label, (max(min(x, end - half), half), y), (0, 7), textcoords="offset points", **options)

    def _draw_phases(self, ax: Axes, inch: float) -> None:
        """Shade the phases behind the stack. Name each stretch that has room for its name, and the longest of each."""
        stretches: dict[str, list[tuple[int, int]]] = {}
        for phase, group in groupby(range(len(self.phases)), key=self.phases.__getitem__):
            columns = list(group)
            stretches.setdefault(phase, []).append((int(self.edges[columns[0]]), int(self.edges[columns[-1] + 1])))
        above: dict[str, Any] = {"transform": ax.get_xaxis_transform()}  # y: 0 is the bottom of the axes, 1 the top
        named = []
        for phase, spans in stretches.items():
            hatch = {"hatch": "////", "ec": "#B4B4B4"} if phase == "recompute" else {}
            options = {"fc": SHADES.get(phase, "white"), "linewidth": 0, "zorder": 0, "label": phase, **hatch, **above}
            ax.add_artist(PathPatch(styles.boxes(*((a, 0, b, 1) for a, b in spans)), **options))
            room = (text_width(phase, SMALL) + 0.08) * inch
            longest = max(spans, key=lambda span: span[1] - span[0])
            named += [(phase, (a + b) / 2, room) for a, b in spans if b - a > room or (a, b) == longest]
        places = styles.spread([x for _, x, _ in named], [room for *_, room in named], 0, self.edges[-1])
        for (phase, x, _), place in zip(named, places, strict=True):
            ax.text(place, 1.045, phase, fontsize=SMALL, ha="center", **above)
            ax.plot([x, place], [1, 1.035], color="0.5", linewidth=0.6, clip_on=False, **above)


def _steps(edges: np.ndarray, heights: np.ndarray) -> Outline:
    """The area under a staircase, with corners only where it steps."""
    keep = np.flatnonzero(np.diff(heights, prepend=-1))
    x = np.repeat(np.append(edges[keep], edges[-1]), 2)
    return Outline(np.column_stack([x, [0, *np.repeat(heights[keep], 2), 0]]))
