"""What happens when a knob moves? One module per explorer; each shows itself in Jupyter and needs a kernel.

`ck.widgets.fit_explorer()` shows one. Its module is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...errors import require

require("book", "ckptlib.figures.explorers")

_EXPLORERS = (
    "budget",
    "checkpoint",
    "fit",
    "ledger",
    "packing",
    "policy",
    "ranks",
    "schedule",
    "tape",
    "throughput",
    "timeline",
)


def __getattr__(name: str) -> Any:
    module = name.removesuffix("_explorer")
    if module not in _EXPLORERS or module == name:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *(f"{name}_explorer" for name in _EXPLORERS)})
