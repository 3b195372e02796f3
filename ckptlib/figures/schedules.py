"""What does a schedule look like, what does it buy, and does it fit? Boxes over time, a trade-off, bars to a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline
from matplotlib.ticker import MaxNLocator

from ..errors import CkptError
from . import styles
from .styles import LINE, LOOKS, SMALL, WIDTH, Drawing, Look, size, style, text_width, unit

if TYPE_CHECKING:
    from ..fitting.fit import Fit, Fits
    from ..planning.costs import Costs
    from ..planning.schedule import Schedule

# Okabe and Ito's colours, each with a hatch of its own. What is kept lies behind the boxes, as long as it is kept.
KINDS = {
    "first forward": Look("#56B4E9"),
    "repeated forward": Look("#E69F00", "////"),
    "backward": Look("#009E73", "\\\\\\\\"),
    "input kept": Look("#0072B2"),
    "all kept": Look("#F0E442", "||", "#B8AB00"),
}
MARKS = (
    ("#0072B2", "o", "-"),
    ("#D55E00", "s", "--"),
    ("#009E73", "^", ":"),
    ("#CC79A7", "D", "-."),
    ("black", "v", "-"),
)
PART_LOOKS = {
    "parameters": "parameter",
    "optimizer": "optimizer state",
    "gradients": "gradient",
    "activations": "activation",
    "logits and loss": "input",
    "workspace": "workspace",
    "other": "buffer",
}
LEFT, RIGHT = 0.75, 0.15  # inches beside the axes


# ---- a schedule -----------------------------------------------------------------------------------------------------
@style()
def schedule(plan: Schedule, costs: Costs | None = None, time: str = "") -> Drawing:
    """Time across, stages up: what runs when, and what is kept until when; beneath it the bytes alive, and their peak.

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
            _fill(top, KINDS[kind], styles.boxes(*boxes), label=kind, zorder=10 - place)
    top.set(xlim=(0, cost.time), ylim=(-0.6, plan.n - 0.4), ylabel="stage")
    top.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    top.xaxis.set_major_locator(MaxNLocator(8, integer=cost.time >= 8))  # as beneath
    top.tick_params(labelbottom=False)
    x = 0.1
    for kind, look in KINDS.items():
        _fill(paper, look, styles.boxes((x, rows + 1.9, x + 0.16, rows + 2.0)))
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
    """(left, bottom, right, top) of every box, by kind; a kept thing's from its forward to its backward."""
    found: dict[str, list] = {
        "backward": [],
        "repeated forward": [],
        "first forward": [],
        "input kept": [],
        "all kept": [],
    }
    inputs: dict[int, float] = {}
    contents: dict[int, float] = {}
    for (kind, stage), start, end, again, _ in steps:
        if kind == "restore":
            continue
        name = "backward" if kind == "backward" else "repeated forward" if again else "first forward"
        found[name].append((start, stage - 0.38, end, stage + 0.38))
        if kind == "keep input":
            inputs.setdefault(stage, end)
        elif kind == "keep all":
            contents[stage] = end
            if stage in inputs:
                found["input kept"].append((inputs.pop(stage), stage - 0.16, start, stage + 0.16))
        elif kind == "backward":
            found["all kept"].append((contents.pop(stage), stage - 0.38, start, stage + 0.38))
    return found


def _fill(ax: Axes, look: Look, outline: Outline, **options: object) -> None:
    ax.add_artist(PathPatch(outline, fc=look.colour, ec=look.edge, hatch=look.hatch, linewidth=0, **options))


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


# ---- a trade-off ----------------------------------------------------------------------------------------------------
@style()
def pareto(curves: Mapping[str, Sequence[tuple[int, float]]], time: str = "time") -> Drawing:
    """Peak bytes across, time up: for each strategy its points (bytes, time), joined if there are several."""
    if not curves or not all(curves.values()):
        raise CkptError("nothing to draw: give {strategy: [(bytes, time), ...]}, at least one point each")
    if len(curves) > len(MARKS):
        raise CkptError(f"{len(curves)} strategies in one picture: {len(MARKS)} can be told apart")
    most = max(nbytes for points in curves.values() for nbytes, _ in points)
    per, name = unit(most)
    figure, paper = styles.sheet(3.2)
    right = 0.3 + max(map(text_width, curves))
    ax = styles.axes_at(figure, LEFT, 0.5, WIDTH - LEFT - right, 2.55)
    for (label, points), (colour, marker, dash) in zip(curves.items(), MARKS, strict=False):
        x, y = np.array(sorted(points), dtype=float).T
        many = {"drawstyle": "steps-post", "markersize": 3} if len(points) > 12 else {"markersize": 5}
        ax.plot(x / per, y, dash, color=colour, marker=marker, label=label, linewidth=1.2, **many)
    ax.set(xlabel=f"peak ({name})", ylabel=time, xlim=(0, most / per * 1.04))
    ax.margins(y=0.08)
    ax.autoscale(axis="y")
    low, high = ax.get_ylim()
    ends = [max(points)[1] for points in curves.values()]
    wanted = [0.5 + (y - low) / (high - low) * 2.55 for y in ends]
    places = styles.spread(wanted, [LINE] * len(wanted), 0.5, 3.1)
    for label, points, place, want, (colour, _, _) in zip(curves, curves.values(), places, wanted, MARKS, strict=False):
        end = LEFT + max(points)[0] / per / (most / per * 1.04) * (WIDTH - LEFT - right)
        paper.plot([end + 0.06, WIDTH - right + 0.12], [want, place], color=colour, linewidth=0.6, dashes=(2, 2))
        paper.text(WIDTH - right + 0.16, place, label, color="black", va="center_baseline")
    words = [
        f"{label}: {size(min(p)[0])} in {min(p)[1]:.4g} to {size(max(p)[0])} in {max(p)[1]:.4g}"
        for label, p in curves.items()
    ]
    return Drawing(figure, f"Peak bytes against {time}. {'; '.join(words)}.")


# ---- will it fit? ---------------------------------------------------------------------------------------------------
@style()
def fit_bars(answers: Fits | Fit) -> Drawing:
    """For each strategy the memory of its largest batch, stacked by what it is for, against the GPU's."""
    found = list(answers.found.values()) if hasattr(answers, "found") else [answers]
    if not all(hasattr(answer, "too_much") for answer in found):
        raise CkptError(f"expected the answer of ck.fit, or of fits for several, got {type(answers).__name__}")
    if not found:
        raise CkptError("nothing to draw: fits was asked about no strategy")
    limit = found[0].capacity
    per, name = unit(limit)
    bars = [(f"{f.strategy}: batch {f.batch}", f.need or f.too_much) for f in found]
    used = [part for part in PART_LOOKS if any(need.parts[part] for _, need in bars)]
    lines = styles.key([(PART_LOOKS[part], part) for part in used])
    height = 0.34 * len(bars)
    figure, paper = styles.sheet(0.5 + height + 0.3 + LINE * len(lines))
    left, ends = 0.2 + max(text_width(label) for label, _ in bars), [size(need.nbytes) for _, need in bars]
    styles.draw_key(paper, 0.8 + height + LINE * (len(lines) - 1) + 0.1, lines)
    end = max(limit, *(need.nbytes for _, need in bars)) / per
    width = WIDTH - left - 0.25 - max(map(text_width, ends))
    ax = styles.axes_at(figure, left, 0.5, width, height)
    ax.set(xlim=(0, end), ylim=(len(bars) - 0.5, -0.5), xlabel=name, yticks=range(len(bars)))
    ax.set_yticklabels([label for label, _ in bars])
    ax.tick_params(axis="y", length=0)
    places: dict[str, list] = {}
    for y, (_, need) in enumerate(bars):
        x = 0.0
        for part in used:
            box = (x, y - 0.36, (x := x + need.parts[part] / per), y + 0.36)
            places.setdefault(PART_LOOKS[part], []).append(box)
            styles.label_inside(ax, box, PART_LOOKS[part], [size(need.parts[part])], end / width)
        ax.annotate(ends[y], (end, y), (6, 0), textcoords="offset points", va="center_baseline", annotation_clip=False)
    for category in LOOKS:
        if category in places:
            styles.fill(ax, category, styles.boxes(*places[category]), zorder=3)
    ax.axvline(limit / per, color="black", linewidth=1.4, dashes=(5, 3), zorder=6, clip_on=False)
    label = f"the GPU: {size(limit)}"
    paper.text(left + limit / per / end * width, 0.55 + height, label, ha="right", fontsize=SMALL)
    words = "; ".join(f"{label}, {size(need.nbytes)}" for label, need in bars)
    return Drawing(figure, f"Memory of each strategy's largest batch on a GPU of {size(limit)}. {words}.")
