"""When two gradients meet, does their sum need a third tensor? Autograd's engine as it is without dispatch modes.

torch/csrc/autograd/input_buffer.cpp adds the second gradient to the first in place, if nobody else holds the first. It
never does so while a dispatch mode is active, so a trace would show a tensor that no real run has, at every residual
connection and for every tied weight.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import is_non_overlapping_and_dense_or_false as is_dense

from .as_cuda_host import is_machinery

_ENGINE = "_engine_run_backward"  # the one Python function through which torch starts its backward engine
_NEVER_ADD = ("MulBackward0",)  # nodes without a sum in their formula: x * x gives two gradients to one place
_ADD = torch.ops.aten.add.Tensor
Node = tuple[str, int]


class Gradients:
    """Remembers which autograd node made which tensor, to tell the engine's sums from those inside a node's formula."""

    def __init__(self) -> None:
        self._maker: dict[int, Node] = {}  # address of a storage -> the node that made it
        self._task = -1

    def clear(self) -> None:
        self._maker.clear()

    def made(self, out: Any) -> None:
        """Tell of an op's result."""
        node = self._node()
        for t in () if node is None else out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(t, Tensor) and t.layout is torch.strided:
                self._maker[t.untyped_storage()._cdata] = node

    def meet(self, func: Any, args: tuple, kwargs: dict) -> bool:
        """Is this the engine, adding to a gradient that an earlier node made and that only the engine holds?"""
        if func is not _ADD or kwargs or len(args) != 2 or not isinstance(args[1], Tensor):
            return False
        node, (first, second) = self._node(), args
        if node is None or first.shape != second.shape or first.dtype is not second.dtype:
            return False
        address = first.untyped_storage()._cdata
        if self._maker.get(address, node) == node and node[0] not in _NEVER_ADD:
            return False  # made by this node: perhaps a step of its formula, not its result
        modes = _modes_below_engine()
        # Besides the engine, this call holds the tensor, twice and once for every mode, and the question its storage.
        alone = first._use_count() == 1 + 2 + modes and torch._C._storage_Use_Count(address) == 1 + 1
        return modes > 0 and alone and is_dense(first)

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


def _modes_below_engine() -> int:
    """How many dispatch modes stand between us and the engine; 0 if Python code of the program called the op."""
    frame: FrameType | None = sys._getframe(1)
    modes, foreign = 0, False
    while frame is not None and frame.f_code.co_name != _ENGINE:
        if frame.f_code.co_name == "__torch_dispatch__":
            modes, foreign = modes + 1, False
        elif not is_machinery(frame):
            foreign = True
        frame = frame.f_back
    return 0 if frame is None or foreign else modes
