"""What does one block of a transformer cost? Its bytes, read off a training step of three blocks on fake tensors.

Backward recomputes the first two blocks, and the last one saves everything, so that one run shows both ways.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from ..planning.stage_costs import Costs
from .batch_rescaling import replayed
from .peak_windows import Parts, parts, together, windows
from .transformer_step import RULES, Setting, simulated, update_alone

KINDS = ("none", "selective")  # what a block that saves everything recomputes nevertheless: nothing, or its attention
BLOCKS = 3  # of the model that is measured
LT_OF_BACKWARD = "cuBLASLt workspace, backward thread"  # cuda/simulate.py makes this name
# The windows of its step from which all others follow.
WINDOWS = ("forward 1", "forward 2", "head", "head's backward", "backward 2", "backward 1")


@dataclass(frozen=True)
class BlockBytes:
    """The bytes of one block of many, and of the head (last norm, logits, loss), as `Costs` counts them.

    parameters   a block's; its gradients are as many
    gradient     in memory once the head is reversed: gradients of the head's parameters (`head_gradients`) and of a
                 block's output, cuBLAS' workspace on backward's thread
    base         in memory before the first block, without its input, in a model of no blocks
    fullest      window -> its fullest moment in the model of three blocks, by part
    embedding    the same for the embedding's backward
    done         once backward is done
    again        of the last two, what only a recomputed block leaves: cuBLASLt's workspace on backward's thread, where
                 it is kept (torch 2.9 to 2.11)
    """

    x: int
    xbar: int
    ftmp: int
    atmp: int
    btmp: int
    btmp_again: int  # of a recomputed block, because torch then runs the ops of its backward in a different order
    head_xbar: int
    head_atmp: int
    head_btmp: int
    parameters: int
    gradient: int
    head_gradients: int
    base: int
    fullest: dict[str, Parts]
    embedding: Parts
    done: Parts
    again: int

    def costs(self, ftime: tuple[int, int], btime: tuple[int, int], btmp: list[int]) -> Costs:
        """Of a chain of blocks and the head. Times are (a block's, the head's); `btmp` has an entry for each block.

        A block's parameter gradients come with its backward and stay: they count as part of the gradient that travels
        back, which grows with every block.
        """
        layers = len(btmp)
        dx = [self.gradient + (layers - i) * self.parameters for i in range(layers + 1)]

        def each(block: int, head: int) -> list[int]:
            return [block] * layers + [head]

        return Costs(
            each(*ftime),
            each(*btime),
            [self.x] * (layers + 1) + [0],
            each(self.xbar, self.head_xbar),
            [*dx, 0],
            each(self.ftmp, self.head_atmp),
            [*btmp, self.head_btmp],
            each(self.atmp, self.head_atmp),
        )

    def deeper(self, found: Parts, layers: int, gradients: bool) -> Parts:
        """The same moment in a model of `layers` blocks, which has more parameters and, perhaps, more gradients."""
        more = (layers - BLOCKS) * self.parameters
        return {**found, "parameters": found["parameters"] + more, "gradients": found["gradients"] + gradients * more}


@lru_cache(maxsize=512)
def measured_block(at: Setting, kind: str) -> BlockBytes:
    """Measured on three blocks. The first is ignored, because cuBLAS allocates its workspace there."""
    config = replace(at.config, layers=BLOCKS)
    line, ops = replayed(replace(at, config=config), kind, BLOCKS - 1)
    seen = windows(line, ops, BLOCKS)
    forward, save, head, head_back, back, back_again = (seen[name] for name in WINDOWS)
    x = RULES.round_size(config.tokens * at.batch * config.width * at.dtype.itemsize)
    mine = sum(c.nbytes for c in line.start if c.owner.name.startswith("blocks.1."))
    base, xbar = forward.start - 2 * x, save.end - save.start
    gradient = back.end - base - 2 * x - mine
    return BlockBytes(
        x,
        xbar,
        ftmp=forward.peak - forward.start - x,
        atmp=save.peak - save.start - xbar,
        btmp=max(back.peak - (base + 3 * x + xbar + gradient), 0),
        btmp_again=max(back_again.peak - (base + 2 * x + xbar + gradient + mine), 0),
        head_xbar=head.end - head.start,
        head_atmp=head.peak - head.end,
        head_btmp=head_back.peak - head.end,
        parameters=mine,
        gradient=gradient,
        head_gradients=parts(line, back.first - 1, config)["gradients"],
        base=base - BLOCKS * mine,
        fullest={name: parts(line, seen[name].moment, config) for name in WINDOWS},
        embedding=parts(line, seen["embedding's backward"].moment, config),
        done=_with_gradients(parts(line, len(line.changes) - 1, config)),
        again=sum(c.nbytes for c in line.alive(len(line.changes) - 1) if c.owner.name == LT_OF_BACKWARD),
    )


def _with_gradients(done: Parts) -> Parts:
    """Once backward is done there is a gradient for every parameter. Without an optimizer, the record takes it for
    work space."""
    unknown = done["parameters"] - done["gradients"]
    return {**done, "gradients": done["parameters"], "temporary": done["temporary"] - unknown}


@dataclass(frozen=True)
class Optimizer:
    """AdamW's bytes: its state, and what more its step needs, by part, at its fullest moment (fewer gradients: < 0)."""

    state: int
    step: Parts


def optimizer(at: Setting) -> Optimizer:
    """Measured on two and on three blocks and extrapolated to all, because each block adds the same amount."""
    two, three = (_optimizer(replace(at, batch=1, config=replace(at.config, layers=n))) for n in (2, 3))
    more = at.config.layers - 3

    def continued(two: int, three: int) -> int:
        return three + more * (three - two)

    step = {part: continued(two.step[part], nbytes) for part, nbytes in three.step.items()}
    return Optimizer(continued(two.state, three.state), step)


@lru_cache(maxsize=64)
def _optimizer(at: Setting) -> Optimizer:
    line = simulated(lambda: update_alone(at), at.gpu).timeline
    start, fullest = (parts(line, moment, at.config) for moment in (-1, line.peak_moment))
    return Optimizer(start["optimizer"], together(fullest, {part: -nbytes for part, nbytes in start.items()}))
