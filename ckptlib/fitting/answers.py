"""What is the answer? The largest batch, what its memory is used for, and the strategies side by side."""

from __future__ import annotations

from dataclasses import dataclass

from ..cards import GiB
from ..configs import Config
from ..measure.table import Table
from .chain import Need


@dataclass(frozen=True)
class Fit:
    """The answer. `need` is what the largest batch needs, `too_much` what one sequence more would."""

    config: Config
    capacity: int
    precision: str
    strategy: str
    fused: bool
    batch: int  # 0: not even one sequence fits
    need: Need | None
    too_much: Need

    def table(self) -> Table:
        shown = self.need or self.too_much
        rows = [(part, n, f"{n / GiB:,.2f}") for part, n in shown.parts.items()]
        rows.append((f"batch {shown.batch}, in the {shown.window}", shown.nbytes, f"{shown.nbytes / GiB:,.2f}"))
        rows.append(("the GPU has", self.capacity, f"{self.capacity / GiB:,.2f}"))
        kind = "fused" if self.fused else "plain"
        title = f"largest batch {self.batch}: {self.config.tokens} tokens, {self.precision}, {kind} attention, "
        more = self.too_much.nbytes
        notes = [f"Batch {self.too_much.batch} would need {more:,} B ({more / GiB:,.2f} GiB)."]
        if shown.extra:
            notes.append(f"Recomputing costs {percent(shown.extra)} FLOPs.")
        return Table(f"{title}recomputed: {self.strategy}", ("what", "bytes", "GiB"), rows, notes)

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


@dataclass(frozen=True)
class Fits:
    """The answers for several strategies, and what each costs at the batches that the others reach."""

    found: dict[str, Fit]
    costs: dict[int, dict[str, float | None]]  # batch -> strategy -> FLOPs run again, as a fraction; None: too large

    def __getitem__(self, strategy: str) -> Fit:
        return self.found[strategy]

    def table(self) -> Table:
        rows = [
            (batch, *("does not fit" if extra is None else percent(extra) for extra in row.values()))
            for batch, row in self.costs.items()
        ]
        notes = [] if rows else ["Not even one sequence fits."]
        return Table("FLOPs more than without recomputing, by batch", ("batch", *self.found), rows, notes)

    def __str__(self) -> str:
        return "\n\n".join(map(str, (*self.found.values(), self.table())))

    def _repr_html_(self) -> str:
        return "".join(t._repr_html_() for t in (*(fit.table() for fit in self.found.values()), self.table()))


def percent(extra: float) -> str:
    """
    >>> percent(0.3333), percent(0.0)
    ('+33.3 %', '0 %')
    """
    return f"+{100 * extra:.1f} %" if extra else "0 %"
