"""What is a training step's memory for? Bytes per purpose and per module."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import nn

from ..errors import CkptError
from ..tables import ShownAsTable, Table
from ..tracing.allocation_recorder import recording
from ..tracing.devices import only_device
from ..tracing.events import Storage, Trace
from ..units import mib
from .user_models import handed_in, refuse_compiled

COLUMNS = ("parameter", "buffer", "gradient", "optimizer state", "input", "activation", "temporary")
OUTSIDE = "(outside)"  # loss, input and everything else that no module of the model made


class LedgerRow(NamedTuple):
    """One module and everything below it."""

    module: str
    nbytes: dict[str, int]  # column -> bytes

    @property
    def total(self) -> int:
        return sum(self.nbytes.values())


@dataclass(repr=False)
class Ledger(ShownAsTable):
    """The account of one step. Each column is at its own largest, so `total` may exceed `peak`, the most at once."""

    model: str  # the name of the model's class, which is also its row for what it owns itself
    modules: dict[str, dict[str, int]]  # path -> column -> bytes, without submodules
    peak: int
    notes: list[str] = field(default_factory=list)  # what is different from the model as it was handed in

    @property
    def by_category(self) -> dict[str, int]:
        return {column: sum(own[column] for own in self.modules.values()) for column in COLUMNS}

    @property
    def total(self) -> int:
        return sum(self.by_category.values())

    def rows(self, depth: int = 1) -> list[LedgerRow]:
        """One row per module `depth` levels below the model, deeper ones added to it; rows without bytes left out."""
        if depth < 0:
            raise CkptError(f"depth is {depth}: 0 is the model as a whole, 1 its children, and so on")
        rows: dict[str, LedgerRow] = {}
        for path, own in self.modules.items():
            inside = path not in (self.model, OUTSIDE)
            name = (".".join(path.split(".")[:depth]) or self.model) if inside else path
            row = rows.setdefault(name, LedgerRow(name, dict.fromkeys(COLUMNS, 0)))
            for column, nbytes in own.items():
                row.nbytes[column] += nbytes
        return [row for row in rows.values() if row.total]

    def table(self, depth: int = 1) -> Table:
        rows = [*self.rows(depth), LedgerRow("total", self.by_category)]
        cells = [(row.module, *row.nbytes.values(), row.total) for row in rows]
        note = f"Each column at its largest. At one time, at most {self.peak:,} B ({mib(self.peak)} MiB) were in use."
        return Table(f"memory of {self.model}, bytes", ("module", *COLUMNS, "total"), cells, [note, *self.notes])


def ledger(model: nn.Module | Callable, step: Callable[[], Any] | None = None, *, fake: bool = False) -> Ledger:
    """Run `step()` once and report what its memory is for, module by module.

    parameter, buffer         the model's own, called or not
    gradient, optimizer state, input    the most of each at once
    activation    made in forward and alive when backward begins, including the loss. In a step without backward, only
                  what is alive when it returns counts, including the result, because inference remembers nothing
    temporary     the most at once of everything else: what forward dropped, what was recomputed, what backward made

    `ledger(build)` runs `build()`, which returns (model, step), or (model, inputs), (model, inputs, loss) or (model,
    inputs, loss, optimizer). Tensors that it leaves alive count as existing before the step.
    This is the only way with fake=True, when nothing is allocated, because the model must be built of fake tensors too.

    >>> import torch
    >>> model, x = nn.Linear(8, 8), torch.ones(4, 8)
    >>> account = ledger(model, lambda: model(x).sum().backward())
    >>> account.by_category["parameter"] == account.by_category["gradient"] == 4 * (8 * 8 + 8)
    True
    """
    if step is None and isinstance(model, nn.Module):
        raise CkptError("ledger needs the step to run: ledger(model, step), or ledger(build) with a build() of both")
    if step is not None:
        refuse_compiled(model)
        refuse_compiled(step)
    if fake and step is not None:
        raise CkptError("fake=True needs a fake model: use ledger(build, fake=True), with a build() of model and step")
    notes: list[str] = []
    with recording(fake) as recorder:
        if step is None:
            model, step, notes = _built(model)
            recorder.settle()
        device = _check(model, step)
        assert isinstance(model, nn.Module)  # `_check` has made sure of this
        recorder.adopt(model)  # also modules that the step never calls
        result = step()
        recorder.close()  # before `result` is freed, because its caller would have kept it
        del result
    account = _account(recorder.trace, model, device)
    account.notes = notes
    return account


def _built(build: Any) -> tuple[nn.Module, Callable[[], object], list[str]]:
    if not callable(build):
        raise CkptError(f"ledger needs ledger(model, step) or ledger(build), but got {type(build).__name__}")
    step = handed_in(build(), "build()")
    if step.model is None:
        raise CkptError("build() returned only a step, but a ledger describes a model. Return (model, step)")
    return step.model, step.run, step.notes


def _check(model: Any, step: Any) -> str:
    """The one device of the model."""
    if not isinstance(model, nn.Module):
        raise CkptError(f"ledger needs a model, an nn.Module, but got {type(model).__name__}")
    if not callable(step):
        raise CkptError(f"ledger needs a step to call, but got {type(step).__name__}. Was it called already?")
    return only_device(model)


# ---- from the trace -------------------------------------------------------------------------------------------------
def _account(trace: Trace, model: nn.Module, device: str) -> Ledger:
    here = [s for s in trace.storages if s.device == device]
    activations, before = _activations(trace), set(trace.before)
    columns: dict[str, set[int]] = {column: set() for column in COLUMNS}
    for storage in here:
        column = storage.category
        if column in ("activation", "temporary"):
            made = "activation" if storage.index in activations else "temporary"
            column = "input" if storage.index in before else made
        columns[column].add(storage.index)
    name = type(model).__name__
    paths = [path or name for path, _ in model.named_modules()] + [OUTSIDE]
    modules = {path: dict.fromkeys(COLUMNS, 0) for path in paths}
    for column, members in columns.items():
        for storage in _most_at_once(trace, members):
            modules[_owner(storage, modules)][column] += storage.nbytes
    return Ledger(name, modules, peak=sum(s.nbytes for s in _most_at_once(trace, {s.index for s in here})))


def _activations(trace: Trace) -> set[int]:
    """The tensors of forward that are alive whenever backward begins; without a backward, at the end."""
    alive: set[int] = set()
    saved: set[int] = set()
    began, before = False, "forward"
    for event in trace.events:
        if event.phase in ("backward", "recompute") and before not in ("backward", "recompute"):
            began = True
            saved |= alive
        before = event.phase
        if event.kind == "alloc" and trace.storages[event.storage].phase == "forward":
            alive.add(event.storage)
        elif event.kind == "free":
            alive.discard(event.storage)
    return saved if began else alive


def _most_at_once(trace: Trace, members: set[int]) -> list[Storage]:
    """Those of `members` that are alive together at the first moment at which their bytes sum to the most."""
    changes = [(i, 1) for i in trace.before if i in members]
    changes += [(e.storage, 1 if e.kind == "alloc" else -1) for e in trace.events if e.storage in members]
    total = most = moment = 0
    for n, (index, sign) in enumerate(changes, 1):
        total += sign * trace.storages[index].nbytes
        if total > most:
            most, moment = total, n
    alive: dict[int, None] = {}
    for index, sign in changes[:moment]:
        alive.pop(index) if sign < 0 else alive.setdefault(index)
    return [trace.storages[index] for index in alive]


def _owner(storage: Storage, modules: Iterable[str]) -> str:
    """The module that it is counted for, which is its own or the nearest one above it that the model knows."""
    path = storage.module
    while path and path not in modules:
        path = path.rpartition(".")[0]
    return path or OUTSIDE
