"""Which results of a transformer block are worth their bytes? Save some, and see where that lies among all choices."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import ipywidgets as widgets
import torch

from ...models.transformer import Block, Config, causal_mask
from ...recompute.op_costs import OpCost, segment_costs
from ...units import size, unit
from .. import styles
from ..styles import Drawing
from ..tradeoffs import unbeaten
from ._panel import look, panel

TOKENS = (32, 64, 128, 256)
START = ("qkv", "proj", "widen")
# For each result, in the order in which they are computed, its source and its op.
LABELS = {
    "qkv": "aten.addmm.default",
    "scores": "aten.baddbmm.default",
    "softmax": "aten._softmax.default",
    "values": "aten.bmm.default",
    "proj": "aten.addmm.default",
    "widen": "aten.addmm.default",
    "gelu": "aten.gelu.default",
    "narrow": "aten.addmm.default",
}
MEBI = 2**20


class Weight(NamedTuple):
    """The bytes that a choice saves, and the work that backward repeats."""

    nbytes: int
    flops: int


def block_of(tokens: int) -> tuple[Block, tuple[torch.Tensor, torch.Tensor]]:
    """A block of 64 features and four heads, without dropout, and its arguments; one sequence."""
    config = Config(layers=1, width=64, heads=4, tokens=tokens, vocabulary=2, dropout=0.0)
    return Block(config), (torch.randn(tokens, 1, 64, requires_grad=True), causal_mask(tokens, torch.float32))


@cache
def results(tokens: int) -> dict[str, OpCost]:
    """Label -> cost of each result that can be saved."""
    with torch.random.fork_rng(devices=[]):
        block, args = block_of(tokens)
        costs = [cost for cost in segment_costs(block, *args) if str(cost.op) in LABELS.values()]
    return dict(zip(LABELS, costs, strict=True))


def weigh(tokens: int, saved: Collection[str]) -> Weight:
    """Predicted: saving a result takes its bytes and spares its FLOPs, if it would run again at all."""
    costs = results(tokens)
    spared = sum(costs[label].flops for label in saved if costs[label].again)
    everything = sum(cost.flops for cost in costs.values() if cost.again)
    return Weight(sum(costs[label].nbytes for label in saved), everything - spared)


def picks(saved: Collection[str]) -> Callable[..., bool]:
    """A policy for one run of the block: the same ops run in the same order, so results are known by their place."""
    upcoming = iter(LABELS)

    def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> bool:
        return str(op) in LABELS.values() and next(upcoming) in saved

    return policy


def choices(tokens: int) -> list[Weight]:
    """Every choice there is."""
    labels = list(LABELS)
    return [weigh(tokens, saved) for n in range(len(labels) + 1) for saved in combinations(labels, n)]


def front(tokens: int) -> list[Weight]:
    """The choices that no other beats: fewer bytes and no more FLOPs."""
    return unbeaten(choices(tokens))


@styles.style()
def policy_figure(tokens: int, saved: Collection[str]) -> Drawing:
    """Bytes saved across, FLOPs recomputed up: all choices as dots, the best of them joined, yours on top."""
    here, best, every = weigh(tokens, saved), front(tokens), sorted(set(choices(tokens)))
    figure, paper = styles.sheet(3.1)
    ax = styles.axes_at(figure, 0.75, 0.5, 5.2, 2.5)
    per, name = unit(max(point.nbytes for point in every))
    ax.plot([p.nbytes / per for p in every], [p.flops / MEBI for p in every], ".", color="#B0B0B0", markersize=3)
    line: dict[str, Any] = {"drawstyle": "steps-post", "linewidth": 1.2, "markersize": 4}
    ax.plot([p.nbytes / per for p in best], [p.flops / MEBI for p in best], "o-", color="#0072B2", **line)
    ax.plot([here.nbytes / per], [here.flops / MEBI], "D", color="#D55E00", markersize=8, zorder=9, clip_on=False)
    ax.set(xlabel=f"bytes saved ({name})", ylabel="FLOPs recomputed (2²⁰)", xlim=0)
    ax.set_ylim(-0.03 * best[0].flops / MEBI, 1.06 * best[0].flops / MEBI)
    texts = [("#D55E00", "◆", "your choice"), ("#0072B2", "●", "the best choices"), ("#777777", "·", "all choices")]
    for y, (colour, mark, text) in zip((2.75, 2.5, 2.25), texts, strict=True):
        paper.text(6.15, y, mark, color=colour, va="center_baseline")
        paper.text(6.35, y, text, va="center_baseline")
    return Drawing(figure, in_words(tokens, saved))


def in_words(tokens: int, saved: Collection[str]) -> str:
    """How much the choice saves and costs, the best one for as many bytes, and which saved results are wasted."""
    here, costs = weigh(tokens, saved), results(tokens)
    best = [point for point in front(tokens) if point.nbytes <= here.nbytes][-1]
    text = f"{size(here.nbytes)} saved, {here.flops / MEBI:g} · 2²⁰ FLOPs recomputed. "
    if here.flops == best.flops:
        text += "No choice of as many bytes recomputes less."
    else:
        text += f"In {size(best.nbytes)} it could be {best.flops / MEBI:g} · 2²⁰."
    wasted = [label for label in LABELS if label in saved and not (costs[label].flops and costs[label].again)]
    return text + (f" Spares no FLOPs: {', '.join(wasted)}." if wasted else "")


def policy_explorer() -> widgets.VBox:
    """Tick which results of a transformer block are saved; see where that lies among all choices."""
    tokens = widgets.Dropdown(options=TOKENS, value=128, description="tokens", style={"description_width": "initial"})
    boxes = [
        widgets.Checkbox(value=label in START, description=f"save {label}", indent=False, **look(160))
        for label in LABELS
    ]

    def draw() -> tuple[str, str]:
        drawn = policy_figure(tokens.value, [label for label, box in zip(LABELS, boxes, strict=True) if box.value])
        return drawn.svg(), drawn.alt

    return panel([[tokens], boxes[:4], boxes[4:]], draw)
