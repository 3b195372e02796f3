"""How long does each op take on a GPU, at best? As long as its FLOPs or the bytes that it moves, whichever is slower.

This is the roofline model: three numbers of a GPU, and nothing measured. It is a lower bound of every time, and says
which of two plans is faster where they differ clearly.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import Tensor

from ..cuda.gpus import Speed
from ..torch_internals import TorchDispatchMode, schema, storage_address
from ..tracing.storages import tensors_in
from .op_costs import op_flops

MOVES_NOTHING = ("empty", "_local_scalar_dense", "detach")  # ops that only allocate, or are read by the host
OVERWRITES = ("copy_", "fill_", "zero_", "_foreach_copy_", "_foreach_zero_")  # in place, and what was there is not read


class OpWork(NamedTuple):
    """One op, in the order they run: what it computes, and what it reads and writes."""

    op: Any
    flops: int
    nbytes: int


class Work(TorchDispatchMode):
    """Writes down each op that runs inside, forward or backward. Views are left out, because they launch no kernel.

    An op is taken to read each of its tensors once and to write each of its results once, as a fused kernel does that
    misses no cache. With fake tensors nothing is computed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[OpWork] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        given, results = list(tensors_in((args, kwargs or {}))), list(tensors_in(out))
        values = {arg.name: value for arg, value in zip(schema(func).arguments, args, strict=False)} | (kwargs or {})
        written = [values.get(arg.name) for arg in schema(func).arguments if arg.is_write]  # of an op in place, or out=
        changed = list(tensors_in(written))
        homes = {storage_address(t.untyped_storage()) for t in given}
        made = [t for t in results if storage_address(t.untyped_storage()) not in homes]
        if (made or changed) and not name.startswith(MOVES_NOTHING):
            read = sum(map(moved, given)) - (sum(map(moved, changed)) if name in OVERWRITES else 0)
            nbytes = read + sum(map(moved, changed)) + sum(map(moved, made))
            self.ops.append(OpWork(func, op_flops(func, args, kwargs or {}, out), nbytes))
        return out


def moved(t: Tensor) -> int:
    """The bytes of its elements. An expanded tensor has fewer in memory than it shows."""
    return min(t.numel() * t.element_size(), t.untyped_storage().nbytes())


def op_seconds(work: OpWork, speed: Speed) -> float:
    """It computes while it reads and writes, so the slower of the two decides."""
    return max(work.flops / speed.flops, work.nbytes / speed.bandwidth)


def seconds(ops: Iterable[OpWork], speed: Speed) -> float:
    """One op after another, or as fast as the host launches them if that is slower."""
    ops = list(ops)
    return max(sum(op_seconds(work, speed) for work in ops), len(ops) * speed.launch)
