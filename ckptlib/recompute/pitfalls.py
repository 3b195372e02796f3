"""What goes wrong with checkpointing, again and again? The twelve pitfalls, and the way out of each."""

from __future__ import annotations

import sys
from typing import NamedTuple

from torch import nn

from ..torch_internals import AnyBatchNorm

PITFALLS = {
    1: ("nothing is trained", "use_reentrant=False, or an input that requires a gradient"),
    2: ("another dropout mask in backward", "preserve_rng_state=True"),
    3: ("the second run gives other values", "take state out of the function; determinism_check='values' finds it"),
    4: ("BatchNorm is updated twice", "keep it out of the checkpoint, or set its momentum to 1 - sqrt(1 - momentum)"),
    5: ("hooks fire again", "let hooks return at once while torch._C._current_graph_task_id() != -1"),
    6: ("no memory is saved", "several segments, each much smaller than the model, that cover all layers"),
    7: ("autograd.grad does not work", "use_reentrant=False"),
    8: ("DDP does not work", "use_reentrant=False"),
    9: ("the policy never matches", "name the overload: torch.ops.aten.mm.default"),
    10: ("the policy saves nothing, or too much", "MUST_SAVE for a few costly ops, PREFER_RECOMPUTE for all others"),
    11: ("tensors escape in a container or a keyword", "give each tensor as a positional argument of its own"),
    12: ("autocast or torch.compile in between", "torch's own checkpoint restores autocast; compile around it"),
}


class Finding(NamedTuple):
    number: int
    where: str
    found: str

    @property
    def fix(self) -> str:
        return PITFALLS[self.number][1]


def updates_statistics(module: nn.Module) -> bool:
    """Does a forward of this module change its buffers? BatchNorm's does, in training."""
    if not isinstance(module, AnyBatchNorm):
        return False
    return module.training and module.track_running_stats and module.momentum != 0


def is_compiled(module: nn.Module) -> bool:
    """Is this what torch.compile(module) returns?"""
    if "torch._dynamo" not in sys.modules:
        return False  # nothing is: do not import the compiler, in seconds, to ask
    from ..torch_internals import OptimizedModule

    return isinstance(module, OptimizedModule)
