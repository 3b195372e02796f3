"""When does a step need the most memory, and for what? Its windows (forward of a block, the head, ...), in bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..models.configs import Config
from ..tracing.events import Op
from ..tracing.timeline import Timeline

# Gradients of activations, and the memory that a kernel or an update needs briefly, are work space.
PART_OF = {
    "parameter": "parameters",
    "gradient": "gradients",
    "optimizer state": "optimizer",
    "activation": "activations",
    "temporary": "temporary",
    "workspace": "temporary",
    "buffer": "other",
    "input": "other",
}
PARTS = ("parameters", "gradients", "optimizer", "activations", "logits and loss", "temporary", "other")
Parts = dict[str, int]


@dataclass
class Window:
    """A part of the step, with its first moment, the bytes in use before it and at its end, and its peak."""

    first: int
    start: int
    end: int = 0
    peak: int = -1
    moment: int = -1


def windows(line: Timeline, ops: Sequence[Op], layers: int) -> dict[str, Window]:
    """embedding, forward 0, ... head, head's backward, backward n-1, ... 0, embedding's backward.

    Recomputing a block counts as part of that block's backward.
    """
    found: dict[str, Window] = {}
    name, total = "embedding", line.total(-1)
    in_blocks = [c.op >= 0 and ops[c.op].module.startswith("blocks.") for c in line.changes]
    last = max(moment for moment, inside in enumerate(in_blocks) if inside)
    for moment, change in enumerate(line.changes):
        backward = change.phase in ("backward", "recompute")
        if in_blocks[moment]:
            name = f"{'backward' if backward else 'forward'} {ops[change.op].module.split('.')[1]}"
        elif change.op >= 0 and moment > last:
            name = "embedding's backward"
        elif change.op >= 0 and name in (f"forward {layers - 1}", "head"):
            name = "head's backward" if backward else "head"
        window = found.setdefault(name, Window(moment, total))
        total = window.end = int(line.totals[moment])
        if total > window.peak:
            window.peak, window.moment = total, moment
    return found


def parts(line: Timeline, moment: int, config: Config | None = None) -> Parts:
    """The bytes in use at a moment, by purpose. Without a config, logits are not recognized."""
    sums = Counter(dict.fromkeys(PARTS, 0))
    for change in line.alive(moment):
        owner = change.owner
        part = PART_OF[owner.category]
        if owner.category == "parameter" and not owner.name:
            part = "optimizer"  # the master weights, which belong to no module
        if config and owner.category in ("activation", "temporary") and owner.shape[-1:] == (config.vocabulary,):
            part = "logits and loss"
        sums[part] += change.nbytes
    return dict(sums)


def together(*found: Parts) -> Parts:
    """Part by part, their sum."""
    return {part: sum(one[part] for one in found) for part in PARTS}
