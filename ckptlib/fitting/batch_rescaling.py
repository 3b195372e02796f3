"""What would a run have needed at another batch? One record of it, rewritten: no second run.

The batch that is run is a prime. It divides no size of the model, so a number in the record that it divides is the
batch's, and grows with the batch. What is rewritten is replayed through the allocator's rules, rounding included.
A batch of 1 is another run: torch copies less then.
"""

from __future__ import annotations

from dataclasses import astuple, replace
from functools import lru_cache
from itertools import count
from typing import Any

from ..cuda.simulate import simulate
from ..models.configs import Config
from ..tracing.events import Op, TensorMeta, Trace
from ..tracing.timeline import Timeline
from .transformer_step import RULES, Setting, forward_backward, simulated


def replayed(at: Setting, kind: str, recomputed: int) -> tuple[Timeline, list[Op]]:
    """Forward and backward at the setting's batch: the bytes in use, moment by moment, and the ops."""
    if at.batch == 1:
        trace = _run(at, kind, recomputed)
    else:
        prime = batch_to_run(at.config)
        trace = rewritten(_run(replace(at, batch=prime), kind, recomputed), prime, at.batch)
    return simulate(trace, at.gpu, RULES).timeline, trace.ops


@lru_cache(maxsize=64)
def _run(at: Setting, kind: str, recomputed: int) -> Trace:
    return simulated(lambda: forward_backward(at, kind, recomputed), at.gpu).trace


def batch_to_run(config: Config) -> int:
    """A prime above 100 that divides none of the model's sizes.

    >>> from ckptlib.models.configs import GPT2_XL
    >>> batch_to_run(GPT2_XL)
    101
    """
    numbers = (*astuple(config), getattr(config, "kv_width", 1))
    sizes = {n for n in numbers if isinstance(n, int) and n}  # dropout may be 0, which every prime divides
    return next(p for p in count(101, 2) if all(p % d for d in range(3, p, 2)) and all(n % p for n in sizes))


def rewritten(trace: Trace, prime: int, batch: int) -> Trace:
    """The record of the same run at another batch."""

    def at(value: Any) -> Any:
        if type(value) is int:
            return value if value % prime else value // prime * batch
        if isinstance(value, TensorMeta):
            return value._replace(shape=at(tuple(value.shape)), stride=at(tuple(value.stride)))
        if type(value) in (tuple, list):
            return type(value)(map(at, value))
        return value

    def kwargs(op: Op) -> dict[str, Any]:
        return {name: at(value) for name, value in op.kwargs.items()}

    ops = [replace(op, args=at(op.args), kwargs=kwargs(op), outputs=at(op.outputs)) for op in trace.ops]
    storages = [replace(s, nbytes=at(s.nbytes), shape=at(tuple(s.shape))) for s in trace.storages]
    return replace(trace, storages=storages, ops=ops)
