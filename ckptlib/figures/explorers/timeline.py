"""What is in memory at this moment? A step's timeline that can be walked through, event by event."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
import numpy as np

from ...units import size, unit
from .. import styles
from ..styles import LOOKS, WIDTH, Drawing, style

if TYPE_CHECKING:
    from ...remember.measurement import Measurement
    from ...tracing.timeline import Change

ROWS = 10  # tensors named one by one


def label(change: Change) -> str:
    """Whose bytes: parameter or module, and the shape it was first seen in."""
    owner = change.owner
    shape = " × ".join(map(str, owner.shape))
    return ", ".join(filter(None, (owner.name or owner.module, shape))) or "scalar"


def in_words(run: Measurement, moment: int) -> str:
    """What happened at this moment, and how much is in use after it; -1 is before the first event."""
    line = run.timeline
    total = f"{size(line.total(moment))} in use"
    if moment < 0:
        return f"Before the step: {total}."
    change = line.changes[moment]
    what = "takes" if change.nbytes > 0 else "gives back"
    peak = " This is the peak." if moment == line.peak_moment else ""
    who = f"{change.owner.category} ({label(change)}) {what} {size(abs(change.nbytes))}"
    return f"Event {moment + 1} of {len(line.changes)}, {change.phase}: {who}. Then {total}.{peak}"


@style()
def moment_figure(run: Measurement, moment: int) -> Drawing:
    """Memory by category over all events, and a line at the moment."""
    line = run.timeline
    start, rows = line.by_category(-1), line.stacked()
    stacks = {c: np.append(start.get(c, 0), rows[c]) for c in LOOKS if c in rows}  # the start, then every change
    per, name = unit(line.peak)
    keys = styles.key([(c, c) for c in stacks])
    figure, paper = styles.sheet(2.7)
    styles.draw_key(paper, 2.68, keys)
    ax = styles.axes_at(figure, 0.75, 0.45, WIDTH - 0.95, 2.0 - styles.LINE * (len(keys) - 1))
    x = np.arange(len(line.changes) + 2) - 0.5  # edges: 0 is the start, then every event around its number
    low = np.zeros(len(x) - 1)
    for category, row in stacks.items():
        look, high = LOOKS[category], low + row / per
        colours: dict[str, Any] = {
            "facecolor": look.colour,
            "edgecolor": look.edge,
            "hatch": look.hatch,
            "linewidth": 0,
        }
        ax.fill_between(x, np.append(low, low[-1]), np.append(high, high[-1]), step="post", **colours)
        low = high
    ax.axvline(moment + 1, color="black", linewidth=1.4)
    ax.plot([line.peak_moment + 1], [line.peak / per], "v", color="black", markersize=5, clip_on=False)
    ax.set(xlim=(-0.5, len(line.changes) + 0.5), ylim=(0, line.peak / per * 1.08))
    ax.set(xlabel="allocations and frees, in order (▾ the peak, line: this moment)", ylabel=f"memory in use ({name})")
    return Drawing(figure, f"Timeline of memory in use. {in_words(run, moment)}")


def alive_table(run: Measurement, moment: int) -> str:
    """An HTML table of the tensors that are alive, the largest first. The smallest share one row."""
    there = sorted(run.timeline.alive(moment), key=lambda change: -change.nbytes)
    rows = [(c.owner.category, label(c), c.phase, c.nbytes) for c in there[:ROWS]]
    if rest := there[ROWS:]:
        rows.append(("", f"{len(rest)} smaller ones", "", sum(change.nbytes for change in rest)))
    right = "style='text-align: right; padding: 0 8px'"
    left = "style='text-align: left; padding: 0 8px'"
    head = "".join(f"<th {left}>{name}</th>" for name in ("what", "whose", "made in")) + f"<th {right}>bytes</th>"
    body = "".join(
        f"<tr><td {left}>{escape(a)}</td><td {left}>{escape(b)}</td><td {left}>{escape(c)}</td>"
        f"<td {right}>{n:,}</td></tr>"
        for a, b, c, n in rows
    )
    return f"<table style='line-height: 1.35'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def timeline_explorer(runs: Mapping[str, Measurement]) -> widgets.VBox:
    """Choose a run, move through its events, see what is alive. `runs` is {name: result of ck.measure}."""
    first = next(iter(runs.values()))
    look = {"style": {"description_width": "initial"}}
    choice = widgets.Dropdown(options=list(runs), description="run", **look)
    slider = widgets.IntSlider(
        first.timeline.peak_moment + 1, min=0, max=len(first.timeline.changes), description="event", **look
    )
    slider.layout.width = "560px"
    peak = widgets.Button(description="go to the peak")
    figure, words, table = widgets.HTML(), widgets.HTML(), widgets.HTML()

    def draw(_: object = None) -> None:
        run, moment = runs[choice.value], slider.value - 1
        figure.value = moment_figure(run, moment).svg()
        words.value, table.value = escape(in_words(run, moment)), alive_table(run, moment)

    def change_run(_: object) -> None:
        slider.max = len(runs[choice.value].timeline.changes)  # may move the slider
        draw()

    def go_to_peak(_: object) -> None:
        slider.value = runs[choice.value].timeline.peak_moment + 1

    choice.observe(change_run, names="value")
    slider.observe(draw, names="value")
    peak.on_click(go_to_peak)
    draw()
    return widgets.VBox([widgets.HBox([choice, peak]), slider, figure, words, table])
