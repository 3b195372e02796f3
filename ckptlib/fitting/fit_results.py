"""What is the answer? The largest batch, what its memory is used for, and the strategies side by side."""

from __future__ import annotations

from dataclasses import dataclass

from ..models.configs import Config
from ..planning.schedule import Schedule
from ..tables import ShownAsTable, Table
from ..units import GiB, MiB
from .peak_windows import Parts


@dataclass(frozen=True)
class Need:
    """The bytes that a training step needs at its peak, by part; `window` says when the peak is."""

    batch: int
    window: str
    parts: Parts
    extra: float  # FLOPs that are run again, as a fraction of all those of a step that recomputes nothing
    schedule: Schedule  # of the blocks and, last, the head
    selective: bool  # whether blocks that save everything recompute their attention nevertheless

    @property
    def nbytes(self) -> int:
        return sum(self.parts.values())


@dataclass(frozen=True, repr=False)
class Fit(ShownAsTable):
    """The answer. `need` is the need of the largest batch, `too_much` the need of a batch with one more sequence."""

    config: Config | str  # a model of your own has only a name
    capacity: int
    precision: str
    strategy: str
    fused: bool
    batch: int  # 0 means that not even one sequence fits
    need: Need | None
    too_much: Need
    notes: tuple[str, ...] = ()  # what is different from the model as it was handed in

    @property
    def about(self) -> str:
        if not isinstance(self.config, Config):
            return f"{self.config}, {self.precision}"
        kind = "fused" if self.fused else "plain"
        return f"{self.config.tokens} tokens, {self.precision}, {kind} attention"

    def table(self) -> Table:
        shown = self.need or self.too_much
        per, unit = (GiB, "GiB") if self.capacity >= GiB else (MiB, "MiB")
        used = [(part, nbytes) for part, nbytes in shown.parts.items() if nbytes]
        needed = (f"batch {shown.batch}, in the {shown.window}", shown.nbytes)
        rows = [(what, n, f"{n / per:,.2f}") for what, n in (*used, needed, ("the GPU has", self.capacity))]
        title = f"largest batch {self.batch}: {self.about}, "
        more = self.too_much.nbytes
        notes = [f"Batch {self.too_much.batch} would need {more:,} B ({more / per:,.2f} {unit})."]
        if shown.extra:
            notes.append(f"Recomputing costs {percent(shown.extra)} FLOPs.")
        notes += self.notes
        return Table(f"{title}recomputed: {self.strategy}", ("what", "bytes", unit), rows, notes)


@dataclass(frozen=True)
class Fits:
    """The answers for several strategies, and what each costs at the batches that the others reach."""

    found: dict[str, Fit]
    costs: dict[int, dict[str, float | None]]  # batch -> strategy -> FLOPs run again, as a fraction; None: too large
    notes: tuple[str, ...] = ()

    def __getitem__(self, strategy: str) -> Fit:
        return self.found[strategy]

    def table(self) -> Table:
        rows = [
            (batch, *("does not fit" if extra is None else percent(extra) for extra in row.values()))
            for batch, row in self.costs.items()
        ]
        notes = [*self.notes, *([] if rows else ["Not even one sequence fits."])]
        return Table("FLOPs more than without recomputing, by batch", ("batch", *self.found), rows, notes)

    def __str__(self) -> str:
        last = [self.table()] if self.costs or not any(f.batch for f in self.found.values()) else list(self.notes)
        return "\n\n".join(map(str, (*self.found.values(), *last)))

    def _repr_html_(self) -> str:
        return "".join(t._repr_html_() for t in (*(fit.table() for fit in self.found.values()), self.table()))


def percent(extra: float) -> str:
    """
    >>> percent(0.3333), percent(0.0)
    ('+33.3 %', '0 %')
    """
    return f"+{100 * extra:.1f} %" if extra else "0 %"
