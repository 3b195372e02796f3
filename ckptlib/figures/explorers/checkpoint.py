"""Which saved tensors disappear as checkpoints move? Four blocks, each plain, checkpointed, or joined to the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import ipywidgets as widgets
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from ...recompute.checkpoint import checkpoint
from ...remember.hooks import watch
from ...torch_internals import current_graph_task
from ...units import KiB, size
from .. import styles
from ..styles import Drawing
from ._panel import look, panel

PLAIN, OWN, JOINED = "no checkpoint", "a checkpoint of its own", "in the checkpoint of the block before"
BLOCKS, ROWS, FEATURES = 4, 64, 64
PITCH = 0.21  # inches from bar to bar


class Seen(NamedTuple):
    """What one training step saved and ran, measured; tensors are called x1, h1, g1, x2 and so on."""

    nbytes: dict[str, int]  # of every tensor that a plain run saves
    saved: set[str]  # those that are saved after the forward pass
    checkpoints: set[str]  # those of them that are a segment's input
    runs: list[int]  # how many times each block ran
    recomputed: int  # bytes that the largest segment saves in backward, its input included

    @property
    def saved_nbytes(self) -> int:
        return sum(self.nbytes[name] for name in self.saved)


def segments(choice: Sequence[str]) -> list[tuple[list[int], bool]]:
    """(blocks, checkpointed?) in order. A block that would join a plain one begins a checkpoint of its own.

    >>> segments([OWN, JOINED, PLAIN, JOINED])
    [([0, 1], True), ([2], False), ([3], True)]
    """
    found: list[tuple[list[int], bool]] = []
    for i, what in enumerate(choice):
        if what == JOINED and found and found[-1][1]:
            found[-1][0].append(i)
        else:
            found.append(([i], what != PLAIN))
    return found


def _block() -> nn.Sequential:
    return nn.Sequential(nn.Linear(FEATURES, 4 * FEATURES), nn.GELU(), nn.Linear(4 * FEATURES, FEATURES))


@cache
def seen(choice: tuple[str, ...]) -> Seen:
    """Run the four blocks once, forward and backward, with checkpoints where `choice` says."""
    with torch.random.fork_rng(devices=[]):
        parts, x = [_block() for _ in choice], torch.randn(ROWS, FEATURES, requires_grad=True)
    model = nn.Sequential(*parts)
    names, alive = {x.data_ptr(): "x1"}, [x]

    def name(label: str) -> Callable[[nn.Module, tuple, Tensor], None]:
        def hook(module: nn.Module, args: tuple, out: Tensor) -> None:
            if current_graph_task() == -1:  # not again, in the recomputation
                alive.append(out)  # as long as it is alive, its address is its own
                names[out.data_ptr()] = label

        return hook

    for i, block in enumerate(parts, 1):
        for layer, letter in zip(block, (f"h{i}", f"g{i}", f"x{i + 1}"), strict=True):
            layer.register_forward_hook(name(letter))
    asked: list[int] = []
    checkpoints: set[str] = set()

    def note(t: Tensor) -> Tensor:
        asked.append(t.data_ptr())
        return t

    with watch(model) as watched, saved_tensors_hooks(note, lambda t: t):
        y = x
        for blocks, checkpointed in segments(choice):
            segment = model[blocks[0] : blocks[-1] + 1]
            if checkpointed:
                checkpoints.add(f"x{blocks[0] + 1}")
            y = checkpoint(segment, y, use_reentrant=False, early_stop=False) if checkpointed else segment(y)
        saved = {names[address] for address in asked if address in names}
        y.sum().backward()
    sizes = {f"{letter}{i}": t for i in range(1, len(choice) + 1) for letter, t in _sizes().items()}
    runs = [watched[str(i)].forward + watched[str(i)].recompute for i in range(len(choice))]
    return Seen(sizes, saved, checkpoints & saved, runs, watched.recomputed)


def _sizes() -> dict[str, int]:
    return {letter: 4 * ROWS * FEATURES * times for letter, times in (("x", 1), ("h", 4), ("g", 4))}


@styles.style()
def checkpoint_figure(choice: Sequence[str]) -> Drawing:
    """One bar for each tensor that a plain run saves: saved, saved as a checkpoint, or gone; and each block's runs."""
    found = seen(tuple(choice))
    height = len(found.nbytes) * PITCH
    figure, paper = styles.sheet(height + 0.8)
    entries = [("activation", "saved"), ("input", "saved, as a checkpoint"), ("free", "gone: recomputed in backward")]
    styles.draw_key(paper, height + 0.75, styles.key(entries))
    ax = styles.axes_at(figure, 0.6, 0.45, 4.6, height)
    labels = list(found.nbytes)
    largest = max(found.nbytes.values()) / KiB
    ax.set(xlim=(0, largest * 1.02), ylim=(len(labels) - 0.5, -0.5), xlabel="KiB, after the forward pass")
    ax.set(yticks=range(len(labels)), yticklabels=labels)
    ax.tick_params(axis="y", length=0)
    boxes: dict[str, list] = {}
    for y, label in enumerate(labels):
        category = "free" if label not in found.saved else "input" if label in found.checkpoints else "activation"
        boxes.setdefault(category, []).append((0, y - 0.38, found.nbytes[label] / KiB, y + 0.38))
    for category, corners in boxes.items():
        styles.fill(ax, category, styles.boxes(*corners), zorder=3)
    checkpointed = [blocks for blocks, on in segments(choice) if on]
    segment_of = {i: n for n, blocks in enumerate(checkpointed, 1) for i in blocks}
    for i, runs in enumerate(found.runs):
        middle = 0.45 + height - (3 * i + 1.5) * PITCH
        where = f"segment {segment_of[i]}" if i in segment_of else "no checkpoint"
        paper.text(5.35, middle, f"block {i + 1}: {where}, runs {runs}×", va="center_baseline")
    for i in range(1, len(choice)):
        ax.axhline(3 * i - 0.5, color="0.6", linewidth=0.6)
    return Drawing(figure, in_words(choice))


def in_words(choice: Sequence[str]) -> str:
    """How many bytes are saved after forward, how many a segment saves in backward, and how many runs that costs."""
    found = seen(tuple(choice))
    total = sum(found.nbytes.values())
    again = f"a segment saves up to {size(found.recomputed)} in backward" if found.recomputed else "nothing runs again"
    alone = any(here == JOINED and before == PLAIN for before, here in pairwise(choice))
    refused = " A block cannot join one without a checkpoint: it begins its own." if alone else ""
    return (
        f"{size(found.saved_nbytes)} of {size(total)} are saved after the forward pass; {again}; "
        f"the {len(found.runs)} blocks run {sum(found.runs)} times.{refused}"
    )


def checkpoint_explorer() -> widgets.VBox:
    """Make each of four blocks plain, checkpointed or joined to the last; see which saved tensors disappear."""
    knobs = []
    for i in range(BLOCKS):
        options = [PLAIN, OWN, JOINED][: 3 if i else 2]
        start = JOINED if i % 2 else OWN
        knobs.append(widgets.Dropdown(options=options, value=start, description=f"block {i + 1}", **look()))

    def draw() -> tuple[str, str]:
        drawn = checkpoint_figure([knob.value for knob in knobs])
        return drawn.svg(), drawn.alt

    return panel([knobs[:2], knobs[2:]], draw)
