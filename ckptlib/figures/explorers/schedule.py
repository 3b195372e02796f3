"""What does a schedule look like, and what else could the memory buy? Length, slots and strategy against both."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import ipywidgets as widgets
from matplotlib.ticker import MaxNLocator

from ...planning.known_schedules import periodic, recompute_all, revolve, store_all
from ...planning.schedule import Schedule
from .. import schedules, styles
from ..styles import LINE, WIDTH, Drawing
from ..tradeoffs import LEFT, MARKS, unbeaten
from ._panel import look

STORE, RECOMPUTE, SAVED, ALONE, REVOLVE = (
    "store all",
    "recompute all",
    "k chunks, saved while reversed",
    "k chunks, one stage at a time",
    "Revolve",
)
# strategy -> the schedule of n stages with k slots: k counts chunks' inputs, or Revolve's slots
BUILDERS: dict[str, Callable[[int, int], Schedule]] = {
    STORE: lambda n, k: store_all(n),
    RECOMPUTE: lambda n, k: recompute_all(n),
    SAVED: periodic,
    ALONE: lambda n, k: periodic(n, k, save_chunk=False),
    REVOLVE: revolve,
}
NO_SLOTS = (STORE, RECOMPUTE)  # strategies that leave nothing to choose
LONGEST = 32
DRAWN = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)  # numbers of slots on the curves: all would take too long


@cache
def point(strategy: str, n: int, slots: int) -> tuple[int, int]:
    """(peak in activations, forwards).

    >>> point(SAVED, 16, 4)
    (8, 28)
    """
    cost = BUILDERS[strategy](n, slots).cost()
    return cost.peak, cost.forwards


@cache
def curve(strategy: str, n: int) -> list[tuple[int, int]]:
    """The points of a strategy for several numbers of slots, without those that another beats in both."""
    if strategy in NO_SLOTS:
        return [point(strategy, n, 1)]
    return unbeaten(point(strategy, n, k) for k in DRAWN if k <= n)


@styles.style()
def pareto_figure(n: int, slots: int, strategy: str) -> Drawing:
    """Peak across, forwards up: every strategy's curve, and a ring around the point that was chosen."""
    figure, paper = styles.sheet(2.6)
    right = 0.3 + max(map(styles.text_width, BUILDERS))
    ax = styles.axes_at(figure, LEFT, 0.5, WIDTH - LEFT - right, 1.95)
    for i, (name, (colour, marker, dash)) in enumerate(zip(BUILDERS, MARKS, strict=True)):
        peaks, forwards = zip(*curve(name, n), strict=True)
        ax.plot(peaks, forwards, dash, color=colour, marker=marker, markersize=4, linewidth=1.1, label=name)
        y = 2.3 - i * 1.6 * LINE
        paper.plot([WIDTH - right + 0.05, WIDTH - right + 0.3], [y, y], dash, color=colour)
        paper.plot([WIDTH - right + 0.175], [y], marker, color=colour, markersize=4)
        paper.text(WIDTH - right + 0.38, y, name, va="center_baseline", fontsize=7.5)
    peak, ran = point(strategy, n, slots)
    ax.plot([peak], [ran], "o", color="black", fillstyle="none", markersize=11, markeredgewidth=1.5, clip_on=False)
    top = n * (n + 1) // 2
    ax.set(xlabel="peak (activations)", ylabel="forwards of one stage", xlim=(0, n + 2), yscale="log")
    ax.set_ylim(n * 0.85, top * 1.2)
    ticks = [tick for tick in (2, 5, 10, 20, 50, 100, 200, 500, 1000) if n <= tick <= top]
    ax.set(yticks=ticks, yticklabels=[str(tick) for tick in ticks])
    ax.minorticks_off()
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    about = in_words(n, slots, strategy)
    return Drawing(figure, f"Peak against forwards for all strategies; a ring is around {strategy}. {about}")


def in_words(n: int, slots: int, strategy: str) -> str:
    """What it costs, and which of the points drawn beat it: no worse in memory and work, and better in one."""
    peak, forwards = point(strategy, n, slots)
    beats = [
        name
        for name in BUILDERS
        if any(p <= peak and f <= forwards and (p, f) != (peak, forwards) for p, f in curve(name, n))
    ]
    verdict = f"Beaten by a point of: {'; '.join(beats)}." if beats else "No point drawn beats it in both."
    return f"{n} stages: {forwards} forwards, {forwards / n:.2f} for each stage; at most {peak} activations. {verdict}"


def schedule_explorer(n: int = 16, slots: int = 4, strategy: str = SAVED) -> widgets.VBox:
    """Choose length, slots and strategy; see the schedule, and its place on the curve of the trade-off."""
    choice = widgets.Dropdown(options=list(BUILDERS), value=strategy, description="strategy", **look(340))
    length = widgets.IntSlider(n, min=2, max=LONGEST, description="stages n", continuous_update=False, **look(340))
    number = widgets.IntSlider(slots, min=1, max=n, description="slots k", continuous_update=False, **look(340))
    picture, trade, words = widgets.HTML(), widgets.HTML(), widgets.HTML()

    def draw(_: object = None) -> None:
        number.disabled = choice.value in NO_SLOTS
        if number.max != length.value:
            number.max = length.value  # may move the slider, which draws
        chosen = length.value, number.value, choice.value
        picture.value = schedules.schedule(BUILDERS[choice.value](*chosen[:2])).svg()
        trade.value, words.value = pareto_figure(*chosen).svg(), in_words(*chosen)

    for knob in (choice, length, number):
        knob.observe(draw, names="value")
    draw()
    return widgets.VBox([choice, widgets.HBox([length, number]), words, picture, trade])
