"""What does memory cost in time? The curve of a trade-off, one for each strategy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from ..errors import CkptError
from ..units import size, unit
from . import styles
from .styles import LINE, WIDTH, Drawing, style, text_width

MARKS = (
    ("#0072B2", "o", "-"),
    ("#D55E00", "s", "--"),
    ("#009E73", "^", ":"),
    ("#CC79A7", "D", "-."),
    ("black", "v", "-"),
)
LEFT = 0.75  # inches beside the axes
Point = TypeVar("Point", bound=tuple)


def unbeaten(points: Iterable[Point]) -> list[Point]:
    """Those of the points (memory, time) that no other equals or beats in both, by memory.

    >>> unbeaten([(3, 1), (1, 5), (2, 5), (3, 2)])
    [(1, 5), (3, 1)]
    """
    found: list[Point] = []
    for point in sorted(set(points)):
        if not found or point[1] < found[-1][1]:
            found.append(point)
    return found


@style()
def pareto(curves: Mapping[str, Sequence[tuple[int, float]]], time: str = "time") -> Drawing:
    """Peak bytes to the right, time upwards. Each strategy's points (bytes, time) are joined if there are several."""
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
