"""What does it look like? Each function returns a Drawing, which Jupyter shows and `.save("name.svg")` writes."""

from .measurements import allocator_map, ledger_bars, saved_bars
from .schedules import fit_bars, pareto, schedule
from .styles import Drawing, ink, style, svg
from .timelines import compare, timeline

# fmt: off
__all__ = [
    "Drawing", "allocator_map", "compare", "fit_bars", "ink", "ledger_bars", "pareto", "saved_bars", "schedule",
    "style", "svg", "timeline",
]
# fmt: on
