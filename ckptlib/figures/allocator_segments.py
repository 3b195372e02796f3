"""What does the memory of CUDA's allocator look like? Its segments, cut into blocks, to scale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.patches import PathPatch

from ..errors import CkptError
from ..units import size, unit
from . import styles
from .styles import LINE, LOOKS, PITCH, WIDTH, Drawing, style

if TYPE_CHECKING:
    from ..cuda.allocator import CachingAllocator, MemoryBlock, Segment
    from ..remember.measurement import Measurement

SEGMENTS = 12  # of each pool, as many are drawn


@style()
def allocator_map(run: CachingAllocator | Measurement) -> Drawing:
    """One row per segment, its blocks to scale. The small pool's segments of 2 MiB have their own scale."""
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
    styles.label_rows(ax, [size(segment.size) for segment in rows])
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


def _category(block: MemoryBlock) -> str:
    return getattr(block.tag, "category", "untagged") if block.allocated else "free"


def _names(block: MemoryBlock) -> list[str]:
    """The label of a block, which is its parameter, its module or its purpose."""
    tag = block.tag if block.allocated else "free"
    own = tag if isinstance(tag, str) else getattr(tag, "name", "") or getattr(tag, "module", "")
    return [name for name in (own, getattr(tag, "category", "")) if name]
