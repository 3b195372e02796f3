"""Will it fit? The largest batch that a GPU can train, and what its memory is then used for.

Nothing is allocated: a model of two and one of three layers run a training step on fake tensors as CUDA would, and
every further layer adds what the third did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
import torch.nn.functional as F

from .cards import GiB, capacity
from .configs import Config, named
from .errors import CkptError
from .formulas import STRATEGIES
from .measure.cuda.presets import Gpu
from .measure.measurement import Measurement, measure
from .measure.table import Table
from .transformer import build

PRECISIONS = ("fp32", "bf16", "mixed")
# Gradients of activations, and what one kernel or update needs for a moment, are work space.
PART_OF = {
    "parameter": "parameters",
    "gradient": "gradients",
    "optimizer state": "optimizer",
    "activation": "activations",
    "temporary": "workspace",
    "workspace": "workspace",
    "buffer": "other",
    "input": "other",
}
PARTS = ("parameters", "gradients", "optimizer", "activations", "logits and loss", "workspace", "other")


# ---- one training step ----------------------------------------------------------------------------------------------
def training_step(config: Config, batch: int, precision: str, strategy: str, fused: bool) -> Callable[[], None]:
    """Build model and AdamW as they are after the first step; return the next step.

    mixed: bfloat16 parameters and gradients, and float32 master weights and moments, 16 bytes a parameter.
    """
    model = build(config, fused, strategy).to(torch.float32 if precision == "fp32" else torch.bfloat16)
    parameters = list(model.parameters())
    masters = [p.detach().float() for p in parameters] if precision == "mixed" else parameters
    optimizer = torch.optim.AdamW(masters)
    for p in masters:
        p.grad = torch.zeros_like(p)
    optimizer.step()  # makes the moments
    optimizer.zero_grad()
    ids = torch.randint(config.vocabulary, (config.tokens, batch))

    def step() -> None:
        F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
        if precision == "mixed":
            for p, master in zip(parameters, masters, strict=True):
                master.grad, p.grad = p.grad.float(), None
        optimizer.step()
        if precision == "mixed":
            torch._foreach_copy_([p.detach() for p in parameters], masters)
        optimizer.zero_grad()

    return step


# ---- from two and three layers to all -------------------------------------------------------------------------------
@lru_cache(maxsize=256)
def windows(
    config: Config, batch: int, precision: str, strategy: str, fused: bool, gpu: Gpu
) -> dict[str, dict[str, int]]:
    """Window of a step -> what memory is used for at its fullest moment, in bytes by part.

    In each window memory grows linearly with the number of layers. Between the last block's backward and the first's
    it changes by the same amount each block, so that it is largest at one of the two.
    """
    run = measure(
        lambda: training_step(config, batch, precision, strategy, fused), "sim:cuda", fake=True, builds=True, gpu=gpu
    )
    line, window, fullest = run.timeline, "forward", {}
    for moment, change in enumerate(line.changes):
        if change.op >= 0:
            window = _window(window, change.phase, run.trace.ops[change.op].module, config.layers)
        if window not in fullest or line.totals[moment] > line.totals[fullest[window]]:
            fullest[window] = moment
    return {window: _parts(run, moment, config) for window, moment in fullest.items()}


def _window(before: str, phase: str, module: str, layers: int) -> str:
    backward = phase in ("backward", "recompute")
    if backward and module.startswith("blocks."):
        block = int(module.split(".")[1])
        return {layers - 1: "last block's backward", 0: "first block's backward"}.get(block, "other backward")
    if backward:
        return "head's backward" if before in ("forward", "head's backward") else "embedding's backward"
    return "forward" if before == "forward" else "update"


def _parts(run: Measurement, moment: int, config: Config) -> dict[str, int]:
    parts = Counter(dict.fromkeys(PARTS, 0))
    for change in run.timeline.alive(moment):
        owner = change.owner
        part = PART_OF[owner.category]
        if owner.category == "parameter" and not owner.name:
            part = "optimizer"  # the master weights: no module's own
        if owner.category in ("activation", "temporary") and owner.shape[-1:] == (config.vocabulary,):
            part = "logits and loss"
        parts[part] += change.nbytes
    return dict(parts)


@dataclass(frozen=True)
class Need:
    """What a training step needs at its fullest moment, in bytes by part; `window` tells when that is."""

    batch: int
    window: str
    parts: dict[str, int]

    @property
    def nbytes(self) -> int:
        return sum(self.parts.values())


def needs(config: Config, batch: int, precision: str, strategy: str, fused: bool, gpu: Gpu) -> list[Need]:
    """Each window's, measured on two and on three layers, and continued to all; the fullest window first."""
    few = [config.layers] * 2 if config.layers <= 3 else [2, 3]
    two, three = (windows(replace(config, layers=n), batch, precision, strategy, fused, gpu) for n in few)
    more = config.layers - few[0]
    found = [
        Need(batch, window, {part: n + more * (three[window][part] - n) for part, n in parts.items()})
        for window, parts in two.items()
    ]
    return sorted(found, key=lambda each: -each.nbytes)


# ---- the question ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Fit:
    """The answer. `need` is what the largest batch needs, `too_much` what one sequence more would."""

    config: Config
    capacity: int
    precision: str
    strategy: str
    fused: bool
    batch: int  # 0: not even one sequence fits
    need: Need | None
    too_much: Need

    def table(self) -> Table:
        shown = self.need or self.too_much
        rows = [(part, n, f"{n / GiB:,.2f}") for part, n in shown.parts.items()]
        rows.append((f"batch {shown.batch}, in the {shown.window}", shown.nbytes, f"{shown.nbytes / GiB:,.2f}"))
        rows.append(("the GPU has", self.capacity, f"{self.capacity / GiB:,.2f}"))
        kind = "fused" if self.fused else "plain"
        title = f"largest batch {self.batch}: {self.config.tokens} tokens, {self.precision}, {kind} attention, "
        more = self.too_much.nbytes
        note = f"Batch {self.too_much.batch} would need {more:,} B ({more / GiB:,.2f} GiB)."
        return Table(f"{title}recomputed: {self.strategy}", ("what", "bytes", "GiB"), rows, [note])

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def fit(
    config: str | Config,
    gpu: str | int = "80GiB",
    seq: int | None = None,
    precision: str = "mixed",
    strategy: str = "none",
    *,
    fused: bool = False,
) -> Fit:
    """The largest batch whose training step, AdamW's included, fits on one GPU, and what it needs there.

    config      a Config or a name such as "gpt2-xl"; `seq` tokens instead of its own number
    precision   "fp32", "bf16" (everything), or "mixed" (bfloat16, with float32 master weights and moments)
    strategy    recompute "none", "selective" (plain attention's scores, softmax and product with V), or "full" (blocks)

    Counted are the blocks that torch's allocator hands out. What it may not be able to use for want of a hole of the
    right size, and what the driver takes, come on top.
    """
    config = named(config)
    config = replace(config, tokens=seq) if seq else config
    for value, known, name in ((precision, PRECISIONS, "precision"), (strategy, STRATEGIES, "strategy")):
        if value not in known:
            raise CkptError(f"{name} is {value!r}, expected one of {', '.join(known)}")
    nbytes, card = capacity(gpu)

    def at(batch: int) -> list[Need]:
        return needs(config, batch, precision, strategy, fused, card)

    fits, too_much = _largest(at, nbytes)
    return Fit(config, nbytes, precision, strategy, fused, fits.batch if fits else 0, fits, too_much)


def _largest(at: Callable[[int], list[Need]], nbytes: int) -> tuple[Need | None, Need]:
    """The largest batch that fits and the one after it.

    A window's need is nearly a line in the batch: lines through batch 1 and 2 give a guess, measurements the answer.
    """
    if at(1)[0].nbytes > nbytes:
        return None, at(1)[0]
    one, two = ({need.window: need.nbytes for need in at(batch)} for batch in (1, 2))
    batch = min((nbytes - n) // (two[window] - n) + 1 for window, n in one.items() if two[window] > n)
    while batch > 1 and at(batch)[0].nbytes > nbytes:
        batch -= 1
    while at(batch + 1)[0].nbytes <= nbytes:
        batch += 1
    return at(batch)[0], at(batch + 1)[0]
