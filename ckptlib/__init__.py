"""What does a model remember, what can it recompute, and what does each cost?

    import ckptlib as ck

Every name below is imported when it is first used: `import ckptlib` by itself loads nothing, not even torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# public name -> the module that defines it; a name that maps to itself is that module
_HOME = {
    "CachingAllocator": "measure.cuda.allocator",
    "checkpoint": "recompute.checkpoint",
    "CheckpointFunction": "recompute.checkpoint",
    "CkptError": "errors",
    "compress": "recompute.packing",
    "Costs": "recompute.costs",
    "equivalent": "recompute.equivalent",
    "execute": "recompute.execute",
    "fit": "fitting",
    "ledger": "measure.ledger",
    "lint": "recompute.lint",
    "mark": "measure.trace",
    "measure": "measure",  # a package that can also be called: see its __init__.py
    "models": "models",
    "offload": "recompute.packing",
    "optimal": "recompute.optimal",
    "periodic": "recompute.builders",
    "plan": "recompute.planner",
    "plots": "plots",
    "policy_report": "recompute.policy_report",
    "profile_chain": "recompute.profile",
    "recompute_all": "recompute.builders",
    "revolve": "recompute.builders",
    "saved_tensors": "measure.saved",
    "Schedule": "recompute.schedule",
    "selective": "recompute.selective",
    "sqrt": "recompute.builders",
    "store_all": "recompute.builders",
    "Tape": "tape",
    "trace": "measure.trace",
    "vjp": "vjp",
    "watch": "measure.hooks",
    "widgets": "widgets",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ckptlib' has no attribute {name!r}")
    module = import_module(f"ckptlib.{_HOME[name]}")
    value = module if _HOME[name] == name else getattr(module, name)
    globals()[name] = value  # found directly from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
