"""What do bars of bytes look like? Those of a ledger, of saved tensors, and of batches against a GPU's memory."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import CkptError
from ..units import size, unit
from . import styles
from .styles import LINE, LOOKS, PITCH, SMALL, WIDTH, Drawing, style, text_width

if TYPE_CHECKING:
    from ..fitting.fit import Fit, Fits
    from ..remember.ledger import Ledger
    from ..remember.saved_tensors import SavedTensors

BARS = 40  # the largest are drawn one by one, the others as one sum
PART_LOOKS = {
    "parameters": "parameter",
    "optimizer": "optimizer state",
    "gradients": "gradient",
    "activations": "activation",
    "logits and loss": "input",
    "temporary": "workspace",
    "other": "buffer",
}


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
    rows: Any = ledger
    if callable(getattr(rows, "rows", None)):  # not isinstance, because Ledger imports torch, and a dict needs none
        rows = {row.module: {c: nbytes for c, nbytes in row.nbytes.items() if nbytes} for row in rows.rows()}
    if not isinstance(rows, Mapping) or not all(isinstance(parts, Mapping) for parts in rows.values()):
        found = type(ledger).__name__
        raise CkptError(f"expected what ck.ledger returns, or {{label: {{category: bytes}}}}, got {found}")
    bars = _largest([_Bar(_clip(label, 44), parts) for label, parts in rows.items()])
    words = [
        f"{b.label} {size(b.total)} ({', '.join(f'{c} {size(n)}' for c, n in b.parts.items())})" for b in bars[:12]
    ]
    words += [f"and {len(bars) - 12} more"] * (len(bars) > 12)
    categories = {category: category for bar in bars for category in bar.parts}
    return _draw_bars(bars, categories, f"Bars of bytes by category. {'; '.join(words)}.")


@style()
def saved_bars(saved: SavedTensors) -> Drawing:
    """One bar per storage that autograd saves, in the order in which they were saved; colour and hatch give the kind.

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
    title = f"{len(bars)} storages that autograd saves" + (f", inside {'.'.join(common)}" if common else "")
    largest = "; ".join(f"{b.label} {b.end}" for b in sorted(bars, key=lambda bar: -bar.total)[:5])
    alt = f"Bars of {title}: {', '.join(keys.values())}. The largest: {largest}."
    return _draw_bars(_largest(bars), keys, alt, title)


def _clip(path: str, length: int) -> str:
    """Shortened in the middle, because the layer's number is at the front and the parameter's name at the end."""
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
        raise CkptError("there is nothing to draw. Did autograd save nothing, or is the ledger empty?")
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
    styles.label_rows(ax, [bar.label for bar in bars])
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
