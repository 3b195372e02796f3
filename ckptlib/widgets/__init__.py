"""What happens when a knob moves? One small module per explorer; each shows itself in Jupyter and needs a kernel.

`ck.widgets.fit_explorer` is the module, imported when it is first used; `ck.widgets.fit_explorer.fit_explorer()` shows.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from ..errors import require

require("book", "ckptlib.widgets")

_EXPLORERS = ("budget", "checkpoint", "fit", "ledger", "packing", "policy", "ranks", "schedule", "tape", "timeline")


def __getattr__(name: str) -> ModuleType:
    if name.removesuffix("_explorer") not in _EXPLORERS or not name.endswith("_explorer"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")  # found directly from now on


def __dir__() -> list[str]:
    return sorted({*globals(), *(f"{name}_explorer" for name in _EXPLORERS)})
