"""What does a model remember, what can it recompute, and what does each cost?

    import ckptlib as ck

Every name below is imported when it is first used: `import ckptlib` by itself loads nothing, not even torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# public name -> the module that defines it
_HOME = {
    "apply": "planning.apply",
    "CachingAllocator": "cuda.allocator",
    "checkpoint": "recompute.checkpoint",
    "CheckpointFunction": "recompute.checkpoint",
    "CkptError": "errors",
    "compress": "recompute.offload_and_compress",
    "Costs": "planning.stage_costs",
    "equivalent": "recompute.plain_model_comparison",
    "execute": "planning.execute",
    "explain": "remember.explain_snapshot",
    "fit": "fitting.fit",
    "ledger": "remember.ledger",
    "lightning_callback": "planning.training_callbacks",
    "lint": "recompute.lint",
    "mark": "tracing.allocation_recorder",
    "measure": "remember.measurement",
    "offload": "recompute.offload_and_compress",
    "optimal": "planning.optimal_schedule",
    "periodic": "planning.known_schedules",
    "plan": "planning.plan",
    "policy_report": "recompute.policy_report",
    "profile_chain": "planning.profile_stages",
    "recompute_all": "planning.known_schedules",
    "revolve": "planning.known_schedules",
    "saved_tensors": "remember.saved_tensors",
    "Schedule": "planning.schedule",
    "selective": "recompute.selective",
    "sqrt": "planning.known_schedules",
    "store_all": "planning.known_schedules",
    "Tape": "autodiff.tape",
    "trace": "tracing.allocation_recorder",
    "trainer_callback": "planning.training_callbacks",
    "unapply": "planning.apply",
    "watch": "remember.hooks",
}
# public name -> the module or package that it stands for
_MODULES = {
    "models": "models",
    "plots": "figures",
    "vjp": "autodiff.derivatives",
    "widgets": "figures.explorers",
}

__all__ = [*_HOME, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = import_module(f"ckptlib.{_MODULES[name]}")
    elif name in _HOME:
        value = getattr(import_module(f"ckptlib.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module 'ckptlib' has no attribute {name!r}")
    globals()[name] = value  # found directly from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
