"""In which order does backward run its nodes on CUDA? As if the nodes that it makes came from another thread.

The engine runs the node with the highest sequence number first (torch/csrc/autograd/engine.cpp `CompareNodeTaskTime`),
and each thread counts its own nodes (ATen/SequenceNumber.h). On CUDA backward has a thread of its own, so the nodes
that it makes under create_graph=True are numbered from 0, beside those of forward. On a CPU all are made in one thread.
To run a double backward in CUDA's order, nodes get the numbers that the two threads of a new process would have given.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import Tensor

from ...torch_internals import current_graph_task, next_sequence_number
from ...tracing.node_numbers import is_renumbered, number_of, renumber

ACCUMULATE = "AccumulateGrad"  # has the highest number of all, always


class EngineThread:
    """Remembers which numbers were given while backward ran, and gives nodes their numbers on CUDA."""

    def __init__(self) -> None:
        self._first = next_sequence_number()  # a program that starts now counts from here
        self._begins: list[int] = []  # of each backward pass: the next number when it began
        self._before: list[int] = []  # how many numbers all earlier passes took
        self._ends: list[int] = []
        self._graphs = False  # whether some pass had create_graph=True

    def run(self, engine: Callable[..., Any], outputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """Call the engine, in the place of torch's own call."""
        if current_graph_task() != -1:  # inside another backward pass, and so in the same thread
            return engine(outputs, *args, **kwargs)
        if self._graphs:
            for node in list(_nodes(outputs)):
                if not is_renumbered(node):
                    renumber(node, self._on_cuda(number_of(node)))
        begin = next_sequence_number()
        try:
            return engine(outputs, *args, **kwargs)
        finally:
            end = next_sequence_number()
            if end > begin:
                self._before.append(self._before[-1] + self._ends[-1] - self._begins[-1] if self._begins else 0)
                self._begins.append(begin)
                self._ends.append(end)
            self._graphs = self._graphs or args[2] is True

    def _on_cuda(self, number: int) -> int:
        index = bisect_right(self._begins, number) - 1
        if index < 0:
            return number - self._first
        if number < self._ends[index]:  # made by backward
            return self._before[index] + number - self._begins[index]
        taken = self._before[index] + self._ends[index] - self._begins[index]
        return number - self._first - taken


def _nodes(outputs: Sequence[Any]) -> Iterator[Any]:
    """Every node of the graph that has a number of its own."""
    waiting = [out.grad_fn if isinstance(out, Tensor) else out.node for out in outputs]
    seen = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [following for following, _ in node.next_functions]
        if not node.name().endswith(ACCUMULATE):
            yield node
