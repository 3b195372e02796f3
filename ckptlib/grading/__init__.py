"""Is the answer right? Probes, verdicts, and kernels that no submission can break out of."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "Checks":  # loaded when used, because it needs torch and `import ckptlib` must not wait for that
        from .assignment.instructor_checks import Checks

        return Checks
    raise AttributeError(f"module 'ckptlib.grading' has no attribute {name!r}")
