"""What does autograd remember? One row for each storage that is saved for backward, and which ops saved it."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..errors import CkptError
from ..tables import Table
from ..torch_internals import next_sequence_number, sequence_number, tree_leaves
from ..tracing.allocation_recorder import Recorder, recording
from ..tracing.events import Storage
from ..tracing.storages import check_unchanged, plain_parts, version


@dataclass
class Saved:
    """One storage that autograd saves. `shape` is the shape of the saved tensor, `nbytes` the size of its storage."""

    kind: str  # "activation", "parameter", "buffer" or "input"
    shape: tuple[int, ...]
    dtype: torch.dtype
    nbytes: int
    module: str  # in which it was first saved
    name: str  # of a parameter or buffer
    asked: Counter[str] = field(default_factory=Counter)  # autograd node -> how many times it saved this storage

    @property
    def op(self) -> str:
        return ", ".join(f"{node} x{n}" if n > 1 else node for node, n in self.asked.items())


class SavedTensors(list[Saved]):
    """The rows, in the order in which they were first saved; shows itself as a table."""

    @property
    def nbytes(self) -> int:
        return sum(row.nbytes for row in self)

    def of(self, kind: str) -> SavedTensors:
        """The rows of one kind: `saved.of("activation").nbytes` is the activation memory."""
        return SavedTensors(row for row in self if row.kind == kind)

    def table(self) -> Table:
        rows = [
            (
                r.op,
                r.module,
                r.kind,
                "x".join(map(str, r.shape)) or "scalar",
                str(r.dtype).removeprefix("torch."),
                r.nbytes,
            )
            for r in self
        ]
        storages = f"{len(self)} storage{'s' * (len(self) != 1)}"
        title = f"{storages}, {self.nbytes:,} B" if self else "no saved tensors"
        return Table(title, ("saved by", "module", "kind", "shape", "dtype", "bytes"), rows)

    def __str__(self) -> str:
        return str(self.table()) if self else "no saved tensors"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table()._repr_html_() if self else "<p>no saved tensors</p>"


def saved_tensors(fn: Callable[[], Any], *, fake: bool = False) -> SavedTensors:
    """Run `fn`; list every tensor that autograd saves in the graph of what it returns.

    Memory is counted in storages: a view, an alias, or a tensor that two ops save is
    one row. Some things are not listed, because autograd does not save them as tensors:
    Python numbers, shapes, attributes that a custom Function sets on its ctx, and what
    other saved-tensor hooks inside `fn` make of a tensor (the placeholders of a
    checkpoint, the copies of save_on_cpu).
    With `fake`, `fn` runs on fake tensors, which have shapes and take no memory.

    >>> x = torch.ones(256, 64, requires_grad=True)
    >>> saved_tensors(lambda: x * 3).nbytes, saved_tensors(lambda: x * x).nbytes
    (0, 65536)
    """
    if not callable(fn):
        got = f"got {type(fn).__name__}: try lambda: {{your call}}"
        raise CkptError(f"saved_tensors needs a function to call, {got}")
    with recording(fake) as recorder:
        graph = _SavedInGraph(recorder)
        with torch.autograd.graph.saved_tensors_hooks(graph.pack, graph.unpack):
            result = fn()
        return graph.rows(result)


class _Ticket:
    """Takes the place of one saved tensor in the graph, and dies when the graph drops it."""

    __slots__ = ("tensor", "version", "node", "module", "__weakref__")

    def __init__(self, tensor: Tensor, node: int, module: str):
        self.tensor, self.version, self.node, self.module = tensor, version(tensor), node, module


class _SavedInGraph:
    def __init__(self, recorder: Recorder):
        self.recorder = recorder
        self.tickets: list[weakref.ref[_Ticket]] = []

    def pack(self, tensor: Tensor) -> _Ticket:
        # The node that saves has just taken its sequence number; its name is only known once the graph is complete.
        # Detached, because an output that its own node saves would be a cycle that nobody can break.
        ticket = _Ticket(tensor.detach(), next_sequence_number() - 1, self.recorder.module())
        self.tickets.append(weakref.ref(ticket))
        return ticket

    @staticmethod
    def unpack(ticket: _Ticket) -> Tensor:
        check_unchanged(ticket.tensor, ticket.version)
        return ticket.tensor

    def rows(self, result: Any) -> SavedTensors:
        saved = [ticket for ref in self.tickets if (ticket := ref()) is not None]
        if not saved and (self.tickets or result is None):
            raise CkptError(
                f"fn returned {type(result).__name__}, and of {len(self.tickets)} tensors that autograd saved none was "
                "still there, because the graph was gone. Return the loss from fn, and do not call backward inside it."
            )
        # The first op of a node is the one it was made for, except for the call of detach in `pack`.
        ops = {op.node: op for op in reversed(self.recorder.trace.ops) if op.name != "aten.detach.default"}
        names = _node_names(result)
        rows: dict[int, Saved] = {}
        for ticket in saved:
            op = ops.get(ticket.node)
            for part in plain_parts(ticket.tensor):
                storage = self.recorder.storage_of(part)
                if storage.index not in rows:
                    rows[storage.index] = _row(storage, part, ticket.module)
                # A non-reentrant checkpoint saves its inputs in a node of its own, which no result leads to.
                name = names.get(ticket.node) or (op.name if op else "outside the graph")
                rows[storage.index].asked[name] += 1
        return SavedTensors(rows.values())


def _node_names(result: Any) -> dict[int, str]:
    """Sequence number -> name, for the autograd nodes that the result's graph still reaches."""
    nodes = [t.grad_fn for t in tree_leaves(result) if isinstance(t, Tensor) and t.grad_fn is not None]
    names, seen = {}, set(nodes)
    while nodes:
        node = nodes.pop()
        names[sequence_number(node)] = node.name()
        following = {n for n, _ in node.next_functions if n is not None} - seen
        seen |= following
        nodes += following
    return names


def _row(storage: Storage, saved: Tensor, module: str) -> Saved:
    kind = storage.category if storage.category in ("parameter", "buffer", "input") else "activation"
    return Saved(kind, tuple(saved.shape), saved.dtype, storage.nbytes, module, storage.name)
