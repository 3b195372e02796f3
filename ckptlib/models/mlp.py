"""Which models does the book measure? The MLP whose GPU memory was published, and the step that was measured."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..errors import CkptError

CHECKPOINTS = ("none", "reentrant", "nonreentrant")


def block(features: int, out: int, hidden: int = 512) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, out))


class MLP(nn.Module):
    """Three blocks, 3000 -> 700 -> 700 -> 10; the first two may be checkpointed together as one segment.

    x: (N, 3000) -> (N, 10)

    With a checkpoint that is reentrant, x must require a gradient, or nothing inside the segment gets one.
    """

    def __init__(self, checkpoint: str = "none") -> None:
        super().__init__()
        if checkpoint not in CHECKPOINTS:
            raise CkptError(f"checkpoint is {checkpoint!r}, expected one of {', '.join(CHECKPOINTS)}")
        self.checkpoint = checkpoint
        self.block_1 = block(3000, 700)
        self.block_2 = block(700, 700)
        self.block_3 = block(700, 10)

    def segment(self, x: Tensor) -> Tensor:
        return self.block_2(self.block_1(x))

    def forward(self, x: Tensor) -> Tensor:
        if self.checkpoint == "none":
            return self.block_3(self.segment(x))
        reentrant = self.checkpoint == "reentrant"
        return self.block_3(checkpoint(self.segment, x, use_reentrant=reentrant))


def mlp_step(checkpoint: str = "none", rows: int = 3072) -> Callable[[], None]:
    """Build the model; return the step that was measured: an input, forward, backward."""
    model = MLP(checkpoint)

    def step() -> None:
        x = torch.randn(rows, 3000, requires_grad=True)
        out = model(x)
        out.backward(torch.ones_like(out))

    return step
