"""What does a schedule look like? Its steps as boxes over time, and beneath them the bytes alive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ..units import size, unit
from . import styles
from .styles import WIDTH, Drawing, Look, style, text_width

if TYPE_CHECKING:
    from ..planning.schedule import Schedule
    from ..planning.stage_costs import Costs

# Okabe and Ito's colours, each with a hatch of its own. What is saved lies behind the boxes, as long as it is saved.
KINDS = {
    "first forward": Look("#56B4E9"),
    "repeated forward": Look("#E69F00", "////"),
    "backward": Look("#009E73", "\\\\\\\\"),
    "input saved": Look("#0072B2"),
    "all saved": Look("#F0E442", "||", "#B8AB00"),
}
LEFT, RIGHT = 0.75, 0.15  # inches beside the axes


@style()
def schedule(plan: Schedule, costs: Costs | None = None, time: str = "") -> Drawing:
    """Time runs across and stages run up. Shows what runs when, how long it stays saved, and, beneath, the bytes alive.

    Without costs every forward and backward takes 1, every activation is 1. `time` names the unit of the costs' times.
    If these are all 0, as FLOPs of tanh are, steps are drawn with equal widths.
    """
    cost = plan.cost(costs)
    across = f"time ({time})" if time else "time" if costs else "time (forwards of one stage)"
    if costs is not None and cost.time == 0:
        cost = plan.cost(replace(costs, ftime=[1] * plan.n, btime=[1] * plan.n))
        across = f"steps (all times are 0 {time}".rstrip() + ")"
    rows = min(2.4, max(1.0, 0.17 * plan.n))
    figure, paper = styles.sheet(rows + 2.2)
    width = WIDTH - LEFT - RIGHT
    top, low = styles.axes_at(figure, LEFT, 1.7, width, rows), styles.axes_at(figure, LEFT, 0.5, width, 0.95)
    for place, (kind, boxes) in enumerate(_boxes(plan, cost.steps).items()):
        if boxes:
            styles.fill(top, KINDS[kind], styles.boxes(*boxes), label=kind, zorder=10 - place)
    top.set(xlim=(0, cost.time), ylim=(-0.6, plan.n - 0.4), ylabel="stage")
    top.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    top.xaxis.set_major_locator(MaxNLocator(8, integer=cost.time >= 8))  # as beneath
    top.tick_params(labelbottom=False)
    x = 0.1
    for kind, look in KINDS.items():
        styles.fill(paper, look, styles.boxes((x, rows + 1.9, x + 0.16, rows + 2.0)))
        paper.text(x + 0.22, rows + 1.95, kind, va="center_baseline")
        x += 0.45 + text_width(kind)
    per, name = unit(cost.peak) if costs else (1, "activations")
    label = f"peak {size(cost.peak)}" if costs else f"peak {cost.peak} activations"
    _draw_alive(low, cost.steps, per, label)
    low.set(ylabel=f"alive\n({name})", xlim=(0, cost.time), xlabel=across)
    again = cost.forwards - plan.n
    words = f"{plan.n} stages, {cost.forwards} forwards, {again} of them repeated, {label}"
    first = across.split()[0].capitalize()
    return Drawing(figure, f"Schedule of {words}. {first} across, stages up; beneath it what is alive, in {name}.")


def _boxes(plan: Schedule, steps: Sequence) -> dict[str, list[tuple[float, float, float, float]]]:
    """(left, bottom, right, top) of every box, by kind; a saved thing's from its forward to its backward."""
    found: dict[str, list] = {
        "backward": [],
        "repeated forward": [],
        "first forward": [],
        "input saved": [],
        "all saved": [],
    }
    inputs: dict[int, float] = {}
    contents: dict[int, float] = {}
    for (kind, stage), start, end, again, _ in steps:
        if kind == "restore":
            continue
        name = "backward" if kind == "backward" else "repeated forward" if again else "first forward"
        found[name].append((start, stage - 0.38, end, stage + 0.38))
        if kind == "save input":
            inputs.setdefault(stage, end)
        elif kind == "save all":
            contents[stage] = end
            if stage in inputs:
                found["input saved"].append((inputs.pop(stage), stage - 0.16, start, stage + 0.16))
        elif kind == "backward":
            found["all saved"].append((contents.pop(stage), stage - 0.38, start, stage + 0.38))
    return found


def _draw_alive(ax: Axes, steps: Sequence, per: int, label: str) -> None:
    shown = [step for step in steps if step.end > step.start]
    edges, heights = [shown[0].start, *(s.end for s in shown)], np.array([s.nbytes for s in shown]) / per
    ax.stairs(heights, edges, fill=True, fc="#D55E00", label="alive")
    peak = max(range(len(shown)), key=lambda i: shown[i].nbytes)
    x, y, end = (shown[peak].start + shown[peak].end) / 2, heights[peak], edges[-1]
    ax.plot([x], [y], "v", color="black", markersize=5, label="peak", clip_on=False, zorder=9)
    half = (text_width(label) / 2 + 0.05) / (WIDTH - LEFT - RIGHT) * end
    ax.annotate(label, (min(max(x, half), end - half), y), (0, 6), textcoords="offset points", ha="center")
    ax.set_ylim(0, y * 1.35)
    ax.yaxis.set_major_locator(MaxNLocator(3, integer=per == 1))
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=end >= 8))
