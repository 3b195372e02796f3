"""What does it look like? Each function returns a Drawing, which Jupyter shows and `.save("name.svg")` writes.

`.alt` says in words what a drawing shows, and `.figure` is matplotlib's own figure. Nothing here touches pyplot.
"""

from .allocator_segments import allocator_map
from .curves_and_bars import bars, curves
from .memory_bars import fit_bars, ledger_bars, saved_bars
from .schedules import schedule
from .styles import Drawing, ink, style, svg
from .timelines import compare, timeline
from .tradeoffs import pareto

# fmt: off
__all__ = [
    "Drawing", "allocator_map", "bars", "compare", "curves", "fit_bars", "ink", "ledger_bars", "pareto", "saved_bars",
    "schedule", "style", "svg", "timeline",
]
# fmt: on
