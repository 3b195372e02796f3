"""When two gradients meet, does their sum need a third tensor? Autograd's engine as it is without dispatch modes.

torch/csrc/autograd/input_buffer.cpp adds the second gradient to the first in place, if nobody else holds the first. It
never does so while a dispatch mode is active, so a trace would show a tensor that no real run has, at every residual
connection and for every tied weight.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import is_non_overlapping_and_dense_or_false as is_dense

from .frames import called_by_engine

_NO_SUM_INSIDE = ("MulBackward0",)  # nodes without a sum in their formula: x * x gives two gradients to one place
_ADD = torch.ops.aten.add.Tensor
Node = tuple[str, int]


class Gradients:
    """Remembers which autograd node made which tensor, to tell the engine's sums from those inside a node's formula."""

    def __init__(self) -> None:
        self._maker: dict[int, Node] = {}  # address of a storage -> the node that made it
        self._task = -1

    def made(self, address: int) -> None:
        """Tell of a new storage."""
        node = self._node()
        if node is not None:
            self._maker[address] = node

    def meet(self, func: Any, args: tuple, kwargs: dict) -> bool:
        """Is this the engine, adding to a gradient that an earlier node made and that only the engine holds?"""
        if func is not _ADD or kwargs or len(args) != 2 or not isinstance(args[1], Tensor):
            return False
        node, (first, second) = self._node(), args
        if node is None or first.shape != second.shape or first.dtype is not second.dtype:
            return False
        if first.layout is not torch.strided:
            return False
        address = first.untyped_storage()._cdata
        if self._maker.get(address, node) == node and node[0] not in _NO_SUM_INSIDE:
            return False  # made by this node: perhaps a step of its formula, not its result
        # Besides the engine, this call and the mode that makes it hold the tensor, and the question its storage.
        alone = first._use_count() == 1 + 3 and torch._C._storage_Use_Count(address) == 1 + 1
        # All Python references count as one there: a hook that kept the gradient shows only here.
        alone = alone and sys.getrefcount(first) == 1 + 3
        return alone and called_by_engine() and is_dense(first)

    def _node(self) -> Node | None:
        """The node that is running, in a backward that builds no graph of its own."""
        task = torch._C._current_graph_task_id()
        if task == -1 or torch.is_grad_enabled():
            return None
        if task != self._task:
            self._task = task
            self._maker.clear()
        node = torch._C._current_autograd_node()
        return None if node is None else (node.name(), node._sequence_nr())
