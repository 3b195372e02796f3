"""How is a result shown? One small table: aligned text in a terminal, HTML in Jupyter."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any, NamedTuple


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


class Table(NamedTuple):
    """Whole numbers get thousands separators and are aligned to the right, like every text that starts with a digit."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        cells = [list(self.columns)] + [[_cell(value) for value in row] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [self.title]
        for row in cells:
            padded = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, self._right(), strict=True)]
            lines.append("  ".join(padded).rstrip())
        lines.insert(2, "  ".join("-" * w for w in widths))
        return "\n".join([*lines, *self.notes])

    def __repr__(self) -> str:
        return str(self)

    def _right(self) -> list[bool]:
        """Which columns are aligned to the right."""
        return [
            all(_cell(row[i])[:1].isdigit() for row in self.rows) and bool(self.rows) for i in range(len(self.columns))
        ]

    def _repr_html_(self) -> str:
        styles = ["" if right else ' style="text-align: left"' for right in self._right()]  # Jupyter's own is right

        def row(values: Sequence[Any], tag: str) -> str:
            cells = (f"<{tag}{s}>{html.escape(_cell(v))}</{tag}>" for v, s in zip(values, styles, strict=True))
            return f"<tr>{''.join(cells)}</tr>"

        body = "".join(row(r, "td") for r in self.rows)
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        caption = f"<caption>{html.escape(self.title)}</caption>"
        return f"<table>{caption}<thead>{row(self.columns, 'th')}</thead><tbody>{body}</tbody></table>{notes}"


class ShownAsTable:
    """A result that is shown as its table, wherever it is printed."""

    def table(self) -> Table:
        raise NotImplementedError

    def __str__(self) -> str:
        return str(self.table())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()
