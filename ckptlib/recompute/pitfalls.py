"""What goes wrong with checkpointing, again and again? The twelve pitfalls, and the way out of each."""

from __future__ import annotations

import enum
from typing import NamedTuple

from torch import nn

from ..torch_internals import AnyBatchNorm


class Pitfall(enum.IntEnum):
    """The pitfalls by name. Readers know them by number, from chapter 5, so that a pitfall equals its number."""

    NOTHING_TRAINED = 1
    OTHER_MASK = 2
    OTHER_VALUES = 3
    BATCHNORM_TWICE = 4
    HOOKS_AGAIN = 5
    NO_MEMORY_SAVED = 6
    AUTOGRAD_GRAD = 7
    DDP = 8
    POLICY_NEVER_MATCHES = 9
    POLICY_WRONG_AMOUNT = 10
    TENSORS_IN_CONTAINERS = 11
    AUTOCAST_OR_COMPILE = 12

    __repr__ = int.__repr__  # it is printed as its number, also inside a set or a tuple


PITFALLS = {
    Pitfall.NOTHING_TRAINED: ("nothing is trained", "use_reentrant=False, or an input that requires a gradient"),
    Pitfall.OTHER_MASK: ("another dropout mask in backward", "preserve_rng_state=True"),
    Pitfall.OTHER_VALUES: (
        "the second run gives other values",
        "take state out of the function; determinism_check='values' finds it",
    ),
    Pitfall.BATCHNORM_TWICE: (
        "BatchNorm is updated twice",
        "keep it out of the checkpoint, or set its momentum to 1 - sqrt(1 - momentum)",
    ),
    Pitfall.HOOKS_AGAIN: ("hooks fire again", "let hooks return at once while torch._C._current_graph_task_id() != -1"),
    Pitfall.NO_MEMORY_SAVED: (
        "no memory is saved",
        "several segments, each much smaller than the model, that cover all layers",
    ),
    Pitfall.AUTOGRAD_GRAD: ("autograd.grad does not work", "use_reentrant=False"),
    Pitfall.DDP: ("DDP does not work", "use_reentrant=False"),
    Pitfall.POLICY_NEVER_MATCHES: ("the policy never matches", "name the overload: torch.ops.aten.mm.default"),
    Pitfall.POLICY_WRONG_AMOUNT: (
        "the policy saves nothing, or too much",
        "MUST_SAVE for a few costly ops, PREFER_RECOMPUTE for all others",
    ),
    Pitfall.TENSORS_IN_CONTAINERS: (
        "tensors escape in a container or a keyword",
        "give each tensor as a positional argument of its own",
    ),
    Pitfall.AUTOCAST_OR_COMPILE: (
        "autocast or torch.compile in between",
        "torch's own checkpoint restores autocast; compile around it",
    ),
}


class Finding(NamedTuple):
    number: Pitfall
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
