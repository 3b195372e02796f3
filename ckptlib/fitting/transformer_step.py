"""What is run, to see what it needs? A transformer's training step, and its two halves: the passes and the update."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..cuda.allocator import AllocatorRules
from ..cuda.gpus import Gpu
from ..models.configs import Config
from ..models.transformer import build
from ..planning.schedule import Schedule
from ..remember.measurement import Measurement, measure
from ..torch_internals import foreach_copy_

PRECISIONS = ("fp32", "bf16", "mixed")
# Each request is rounded up to 512 bytes, and no more: by default the allocator leaves up to 1 MiB of a large block
# unused, by history, and no number of blocks predicts that.
RULES = AllocatorRules(expandable_segments=True)


@dataclass(frozen=True)
class Setting:
    """Everything that determines how many bytes a training step needs, except which blocks it recomputes."""

    config: Config
    batch: int
    precision: str
    fused: bool
    gpu: Gpu

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self.precision == "fp32" else torch.bfloat16


def simulated(setup: Callable[[], Callable[[], None]], gpu: Gpu) -> Measurement:
    """Runs as on CUDA, but on fake tensors, so that nothing is allocated."""
    return measure(setup, "sim:cuda", fake=True, builds=True, gpu=gpu, rules=RULES)


def forward_backward(
    at: Setting, kind: str, recomputed: int = 0, schedule: Schedule | None = None
) -> Callable[[], None]:
    """Build a model; return forward and backward.

    Backward recomputes the first so many blocks, as `torch.utils.checkpoint` does, or follows a schedule of the blocks
    and the head.
    """
    return _passes(_built(at, kind, recomputed, schedule), at)


def _built(at: Setting, kind: str, recomputed: int, schedule: Schedule | None) -> nn.Module:
    model = build(at.config, at.fused, kind).to(at.dtype)
    model.recomputed, model.schedule = recomputed, schedule
    return model


def _passes(model: nn.Module, at: Setting) -> Callable[[], None]:
    ids = torch.randint(at.config.vocabulary, (at.config.tokens, at.batch))

    def passes() -> None:
        F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()

    return passes


def training_step(
    at: Setting, kind: str = "none", recomputed: int = 0, schedule: Schedule | None = None
) -> Callable[[], None]:
    """Build model and AdamW as they are after the first step; return the next step."""
    model = _built(at, kind, recomputed, schedule)
    passes, update = _passes(model, at), adamw(model, at.precision)

    def step() -> None:
        passes()
        update()

    return step


def update_alone(at: Setting) -> Callable[[], None]:
    """Build model, AdamW and gradients as they are once backward is done; return the update."""
    model = build(at.config, at.fused).to(at.dtype)
    update = adamw(model, at.precision)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    _Owner(model)()  # so that the record knows their owner, because a module's tensors become known when it is called
    return update


class _Owner(nn.Module):
    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self) -> None:
        """Do nothing."""


def adamw(model: nn.Module, precision: str) -> Callable[[], None]:
    """Build AdamW with its moments; return the update, which drops the gradients.

    mixed: bfloat16 weights and gradients, float32 masters and moments, 16 bytes a weight.
    """
    mixed = precision == "mixed"
    parameters: list[Tensor] = [p for p in model.parameters() if p.requires_grad]
    masters = [p.detach().float() for p in parameters] if mixed else parameters
    optimizer = torch.optim.AdamW(masters)
    for p in masters:
        p.grad = torch.zeros_like(p)
    optimizer.step()  # makes the moments
    optimizer.zero_grad()

    def update() -> None:
        if mixed:
            for p, master in zip(parameters, masters, strict=True):
                master.grad, p.grad = None if p.grad is None else p.grad.float(), None
        optimizer.step()
        if mixed:
            foreach_copy_([p.detach() for p in parameters], masters)
        optimizer.zero_grad()

    return update
