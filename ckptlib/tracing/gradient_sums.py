"""Which tensors does backward write over, where a trace would see a copy? Autograd as it is without dispatch modes.

torch/csrc/autograd/input_buffer.cpp adds the second gradient to the first in place, if nobody else holds the first; and
the formulas of FunctionsManual.cpp write into tensors of their own, as the backward of indexing does into its zeros.
Neither does so while a dispatch mode is active, so a trace would show a tensor that no real run has: at every residual
connection, for every tied weight, and wherever elements were picked, one of the size of what they were picked from.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

from ..torch_internals import (
    current_graph_task,
    current_node,
    holders_of_storage,
    holders_of_tensor,
    is_dense,
    sparse_indices,
    sparse_values,
    storage_address,
)
from .call_stack import called_by_engine
from .node_numbers import number_of

aten = torch.ops.aten
_ACCUMULATE = "AccumulateGrad"
_NO_SUM_INSIDE = ("MulBackward0",)  # nodes without a sum in their formula; x * x gives two gradients to one input
Node = tuple[str, int]

# Op -> the nodes whose formula writes the op's result over its first argument, a tensor that the formula itself made.
# By node, since other formulas call the same ops out of place in every run.
_WITH_OR_WITHOUT_GRAPH = {
    aten.index_put.default: {"IndexBackward0"},
    aten.index_add.default: {"IndexSelectBackward0"},
    aten.index_fill.int_Tensor: {"TraceBackward0"},
    aten.masked_scatter.default: {"MaskedSelectBackward0"},
    aten.put.default: {"TakeBackward0"},
    aten.scatter_add.default: {"GatherBackward0", "CummaxBackward0", "CumminBackward0"},
    aten.scatter.src: {
        *("MaxBackward0", "MinBackward0", "MedianBackward1", "NanmedianBackward1"),  # those along a dimension
        *("KthvalueBackward0", "ModeBackward0", "TopkBackward0", "SortBackward0", "SortBackward1"),
    },
    aten.logical_and.default: {
        *("MaxBackward1", "MinBackward1", "MedianBackward0", "NanmedianBackward0"),  # those of all elements, on CUDA
        "ClampBackward0",
    },
    aten.logical_or.default: {"ClampBackward0"},
}
_WITHOUT_GRAPH = _WITH_OR_WITHOUT_GRAPH | {  # this formula also asks whether backward itself is to be differentiated
    aten.sub.Tensor: {"BinaryCrossEntropyWithLogitsBackward0"},
    aten.mul.Tensor: {"BinaryCrossEntropyWithLogitsBackward0"},
}


def _in_place(op: Any) -> Any:
    """aten.scatter.src -> aten.scatter_.src"""
    _, packet, overload = str(op).split(".")
    return getattr(getattr(aten, f"{packet}_"), overload)


_IN_PLACE = {op: _in_place(op) for op in (aten.add.Tensor, *_WITHOUT_GRAPH)}


class Gradients:
    """Remembers which autograd node made which tensor: a formula writes over its own, the engine over earlier ones'."""

    def __init__(self) -> None:
        self._maker: dict[int, Node] = {}  # address of a storage -> the node that made it
        self._task = -1

    def made(self, address: int) -> None:
        """Tell of a new storage."""
        node = self._node()
        if node is not None:
            self._maker[address] = node

    def untraced(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """The op that runs here when nothing is traced: `func` itself, its in-place form, or one that does not copy."""
        if func is aten.clone.default and args[0].layout is torch.sparse_coo and self._is_first(args[0], kwargs):
            return aten.detach.default
        in_place = _IN_PLACE.get(func)
        node = self._node() if in_place else None
        if node is None:
            return func
        over = self._meet(args, kwargs, node) if func is aten.add.Tensor else self._is_step(func, args, node)
        return in_place if over and called_by_engine() else func

    def _is_step(self, func: Any, args: tuple, node: Node) -> bool:
        """Is this a step of the running node's formula, upon a tensor that nobody but the formula has seen?"""
        steps = _WITH_OR_WITHOUT_GRAPH if torch.is_grad_enabled() else _WITHOUT_GRAPH
        return node[0] in steps.get(func, ()) and self._maker.get(storage_address(args[0].untyped_storage())) == node

    def _meet(self, args: tuple, kwargs: dict, node: Node) -> bool:
        """Is this the engine, adding to a gradient that an earlier node made and that only the engine holds?"""
        if torch.is_grad_enabled() or kwargs or len(args) != 2 or not isinstance(args[1], Tensor):
            return False
        first, second = args
        if first.shape != second.shape or first.dtype is not second.dtype or first.layout is not torch.strided:
            return False
        address = storage_address(first.untyped_storage())
        if self._maker.get(address, node) == node and node[0] not in _NO_SUM_INSIDE:
            return False  # made by this node, so it may be a step of its formula and not its result
        # Besides the engine, this call and the mode that makes it hold the tensor, and the question its storage.
        alone = holders_of_tensor(first) == 1 + 3 and holders_of_storage(address) == 1 + 1
        # All Python references count as one there, so a hook that kept the gradient shows only here.
        alone = alone and sys.getrefcount(first) == 1 + 3
        return alone and is_dense(first)

    def _is_first(self, gradient: Tensor, kwargs: dict) -> bool:
        """Is this the first gradient of a parameter, a sparse one that only the engine holds? It is kept, not copied.

        torch/csrc/autograd/functions/accumulate_grad.h `accumulateGrad`.
        """
        node = self._node()
        if node is None or not node[0].endswith(_ACCUMULATE) or kwargs or torch.is_grad_enabled():
            return False
        parts = (sparse_indices(gradient), sparse_values(gradient))
        alone = holders_of_tensor(gradient) == 1 + 3 and sys.getrefcount(gradient) == 1 + 3  # as in _meet
        return alone and all(part.is_contiguous() for part in parts) and called_by_engine()

    def _node(self) -> Node | None:
        """The node that is running, if this is backward."""
        task = current_graph_task()
        if task == -1:
            return None
        if task != self._task:
            self._task = task
            self._maker.clear()
        node = current_node()
        return None if node is None else (node.name(), number_of(node))
