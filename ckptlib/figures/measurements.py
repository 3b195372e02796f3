"""What does a measurement look like? Timelines, ledgers, saved tensors, schedules and the allocator's map, as SVG.

Each function returns a Drawing: Jupyter shows it, `.save("name.svg")` writes it, `.alt` says in words what it shows,
`.figure` is matplotlib's. Nothing here touches pyplot.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import PathPatch

from ..errors import CkptError
from . import styles
from .schedules import fit_bars, pareto, schedule
from .styles import LINE, LOOKS, SIZE, WIDTH, Drawing, ink, size, style, svg, text_width, unit
from .timelines import compare, timeline

if TYPE_CHECKING:
    from ..cuda.allocator import CachingAllocator
    from ..cuda.allocator_blocks import Block, Segment
    from ..remember.ledger import Ledger
    from ..remember.measurement import Measurement
    from ..remember.saved_tensors import SavedTensors

# fmt: off
__all__ = [
    "Drawing", "allocator_map", "compare", "fit_bars", "ink", "ledger_bars", "pareto", "saved_bars", "schedule",
    "style", "svg", "timeline",
]
# fmt: on

BARS, SEGMENTS = 40, 12  # as many are drawn one by one: bars, and segments of each pool
PITCH = 0.24  # inches from row to row


# ---- bars -----------------------------------------------------------------------------------------------------------
class _Bar(NamedTuple):
    label: str
    parts: Mapping[str, int]
    note: str = ""  # after the total

    @property
    def total(self) -> int:
        return sum(self.parts.values())

    @property
    def end(self) -> str:
        return ", ".join(filter(None, (size(self.total), self.note)))


@style()
def ledger_bars(ledger: Ledger | Mapping[str, Mapping[str, int]]) -> Drawing:
    """One bar per label, stacked by category: of a ledger's rows, or of any {label: {category: bytes}}."""
    given: Any = ledger
    if callable(getattr(given, "rows", None)):  # not isinstance: to draw a dict needs no torch, which Ledger imports
        given = {row.module: {c: nbytes for c, nbytes in row.nbytes.items() if nbytes} for row in given.rows()}
    if not isinstance(given, Mapping) or not all(isinstance(parts, Mapping) for parts in given.values()):
        found = type(ledger).__name__
        raise CkptError(f"expected what ck.ledger returns, or {{label: {{category: bytes}}}}, got {found}")
    bars = _largest([_Bar(_clip(label, 44), parts) for label, parts in given.items()])
    words = [
        f"{b.label} {size(b.total)} ({', '.join(f'{c} {size(n)}' for c, n in b.parts.items())})" for b in bars[:12]
    ]
    words += [f"and {len(bars) - 12} more"] * (len(bars) > 12)
    categories = {category: category for bar in bars for category in bar.parts}
    return _draw_bars(bars, categories, f"Bars of bytes by category. {'; '.join(words)}.")


@style()
def saved_bars(saved: SavedTensors) -> Drawing:
    """One bar per storage that autograd keeps, in the order in which they were saved; colour and hatch give the kind.

    Labels are parameter or module, then the autograd node that saved it; what all paths have in common is left out.
    """
    paths = [row.name or row.module for row in saved]
    common = os.path.commonprefix([path.split(".")[:-1] for path in paths if path])
    bars: list[_Bar] = []
    kinds: Counter[str] = Counter()
    for row, path in zip(saved, paths, strict=True):
        path = _clip(".".join(path.split(".")[len(common) :]), 28)
        label = " · ".join(filter(None, (path, row.op if len(row.op) <= 26 else row.op[:25] + "…")))
        shape = "×".join(map(str, row.shape)) or "scalar"
        part = row.nbytes > math.prod(row.shape) * row.dtype.itemsize  # the tensor saved is a view of more
        bars.append(_Bar(label, {row.kind: row.nbytes}, f"part saved: {shape}" if part else shape))
        kinds[row.kind] += row.nbytes
    keys = {kind: f"{kind} {size(nbytes)}" for kind, nbytes in kinds.items()}
    title = f"{len(bars)} storages that autograd keeps" + (f", inside {'.'.join(common)}" if common else "")
    largest = "; ".join(f"{b.label} {b.end}" for b in sorted(bars, key=lambda bar: -bar.total)[:5])
    alt = f"Bars of {title}: {', '.join(keys.values())}. The largest: {largest}."
    return _draw_bars(_largest(bars), keys, alt, title)


def _clip(path: str, length: int) -> str:
    """Without its middle, if it is too long: the layer's number is at the front, the parameter's name at the end."""
    return path if len(path) <= length else f"{path[: length // 3]}…{path[-(length - length // 3 - 1) :]}"


def _largest(bars: list[_Bar]) -> list[_Bar]:
    """The largest bars, in their own order, and one for the sum of the others."""
    ranked = sorted(range(len(bars)), key=lambda i: -bars[i].total)
    rest: Counter[str] = Counter()
    for i in ranked[BARS:]:
        rest.update(bars[i].parts)
    return [bars[i] for i in sorted(ranked[:BARS])] + [_Bar(f"{len(bars) - BARS} smaller ones", rest)] * bool(rest)


def _draw_bars(bars: Sequence[_Bar], categories: Mapping[str, str], alt: str, title: str = "") -> Drawing:
    if not bars:
        raise CkptError("nothing to draw: there is no bar. Did autograd save nothing, or is the ledger empty?")
    if any(nbytes < 0 for bar in bars for nbytes in bar.parts.values()):
        raise CkptError("a bar cannot show a negative number of bytes")
    for category in categories:
        styles.look(category)  # or say that it is unknown
    lines = styles.key([(c, categories[c]) for c in LOOKS if c in categories])
    left = 0.2 + max(text_width(bar.label) for bar in bars)
    width = WIDTH - left - 0.2 - max(text_width(bar.end) for bar in bars)
    height, above = len(bars) * PITCH, LINE * (len(lines) + bool(title)) + 0.1
    figure, paper = styles.sheet(0.5 + height + above)
    if title:
        paper.text(0.1, 0.5 + height + above - LINE, title, weight="bold")
    styles.draw_key(paper, 0.55 + height + LINE * len(lines), lines)
    ax = styles.axes_at(figure, left, 0.5, width, height)
    per, name = unit(max(bar.total for bar in bars))
    end = max(bar.total for bar in bars) / per or 1
    ax.set(xlim=(0, end), xlabel=name)
    _label_rows(ax, [bar.label for bar in bars])
    places: dict[str, list] = {}
    for y, bar in enumerate(bars):
        x = 0
        for category in (c for c in LOOKS if bar.parts.get(c)):
            box = (x / per, y - 0.36, (x := x + bar.parts[category]) / per, y + 0.36)
            places.setdefault(category, []).append(box)
            if len(bar.parts) > 1:
                styles.label_inside(ax, box, category, [size(bar.parts[category])], end / width)
        where: dict[str, Any] = {"textcoords": "offset points", "va": "center_baseline", "annotation_clip": False}
        ax.annotate(bar.end, (x / per, y), (4, 0), **where)
    for category, corners in places.items():
        styles.fill(ax, category, styles.boxes(*corners), zorder=3)
    return Drawing(figure, alt)


def _label_rows(ax: Axes, labels: Sequence[str]) -> None:
    ax.set(ylim=(len(labels) - 0.5, -0.5), yticks=range(len(labels)), yticklabels=labels)
    ax.tick_params(axis="y", length=0, labelsize=SIZE)


# ---- the allocator --------------------------------------------------------------------------------------------------
@style()
def allocator_map(run: CachingAllocator | Measurement) -> Drawing:
    """One row per segment, its blocks to scale. The small pool has a scale of its own: its segments are 2 MiB."""
    allocator: Any = getattr(run, "allocator", run)
    if not hasattr(allocator, "segments"):
        raise CkptError(f"expected an allocator, or a measurement on sim:cuda, which has one; got {type(run).__name__}")
    segments = allocator.segments
    if not segments:
        raise CkptError("nothing to draw: the allocator holds no segment. Is nothing allocated, and the cache empty?")
    sums: Counter[str] = Counter()
    for block in (block for segment in segments for block in segment.blocks):
        sums[_category(block)] += block.size
    entries = [(category, f"{category} {size(sums[category])}") for category in LOOKS if category in sums]
    lines, titles = styles.key(entries), []
    pools = {pool: rows for pool in ("large", "small") if (rows := [s for s in segments if s.pool == pool])}
    heights = {pool: min(len(rows), SEGMENTS) * PITCH for pool, rows in pools.items()}
    top = 0.05 + LINE * len(lines) + sum(heights.values()) + 0.8 * len(pools)
    figure, paper = styles.sheet(top)
    styles.draw_key(paper, top - 0.05, lines)
    top -= 0.05 + LINE * len(lines)
    for pool, rows in pools.items():
        used = sum(block.size for segment in rows for block in segment.blocks if block.allocated)
        total = f"{len(rows)} segment{'s' * (len(rows) > 1)}, {size(sum(s.size for s in rows))}"
        titles.append(f"{pool} pool: {total}, {size(used)} of it allocated")
        ranked = sorted(rows, key=lambda segment: -len(segment.blocks))
        drawn = sorted(ranked[:SEGMENTS], key=lambda segment: segment.address)
        hidden = f" ({len(rows) - SEGMENTS} with the fewest blocks not drawn)" if len(rows) > SEGMENTS else ""
        paper.text(0.1, top - 0.22, titles[-1] + hidden, weight="bold")
        _draw_pool(styles.axes_at(figure, 0.9, top - 0.3 - heights[pool], WIDTH - 1.1, heights[pool]), drawn)
        top -= heights[pool] + 0.8
    held = f"{size(allocator.allocated)} allocated, {size(allocator.reserved)} reserved"
    words = ". ".join([held, *titles, ", ".join(text for _, text in entries)])
    return Drawing(figure, f"Map of the allocator's segments: {words}.")


def _draw_pool(ax: Axes, rows: Sequence[Segment]) -> None:
    per, name = unit(max(segment.size for segment in rows))
    end = max(segment.size for segment in rows) / per
    inch = end / (WIDTH - 1.1)
    ax.set(xlim=(0, end), xlabel=f"address within the segment ({name})")
    ax.spines["left"].set_visible(False)
    _label_rows(ax, [size(segment.size) for segment in rows])
    places: dict[str, list] = {}
    frames = []
    for y, segment in enumerate(rows):
        x = 0
        for category, blocks in groupby(segment.blocks, key=_category):
            start = x
            for block in blocks:
                box = (x / per, y - 0.4, (x := x + block.size) / per, y + 0.4)
                if box[2] - box[0] > 0.04 * inch:  # a frame would hide a block that is narrower than its lines
                    frames.append(box)
                texts = [f"{name} {size(block.size)}" for name in _names(block)]
                styles.label_inside(ax, box, category, [*texts, size(block.size)], inch)
            places.setdefault(category, []).append((start / per, y - 0.4, x / per, y + 0.4))
    for category, corners in places.items():
        styles.fill(ax, category, styles.boxes(*corners), zorder=3)
    lines = {"fc": "none", "ec": "0.55", "linewidth": 0.7, "zorder": 4, "clip_on": False}
    ax.add_artist(PathPatch(styles.boxes(*frames), label="blocks", **lines))


def _category(block: Block) -> str:
    return getattr(block.tag, "category", "untagged") if block.allocated else "free"


def _names(block: Block) -> list[str]:
    """What to call a block: its parameter or its module, or what it is for."""
    tag = block.tag if block.allocated else "free"
    own = tag if isinstance(tag, str) else getattr(tag, "name", "") or getattr(tag, "module", "")
    return [name for name in (own, getattr(tag, "category", "")) if name]
