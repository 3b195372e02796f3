"""What does each policy keep, and what does it recompute? Measured on fake tensors, policy by policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from ..measure.measurement import measure
from ..measure.storages import storages_of, tensors_in
from ..measure.table import Table, mib
from .op_costs import op_flops
from .selective import selective

NONE, FULL = "no checkpoint", "nothing kept"


class Row(NamedTuple):
    policy: str
    kept: int  # bytes alive between forward and backward, the segment's inputs and outputs left out
    recomputed: int  # FLOPs that backward runs a second time


class Report(list[Row]):
    """One row per policy, and one each for no checkpoint and for one that keeps nothing but its input."""

    def __getitem__(self, key: Any) -> Any:
        return next(row for row in self if row.policy == key) if isinstance(key, str) else super().__getitem__(key)

    def table(self) -> Table:
        plain = self[NONE].kept
        notes = [
            f"{row.policy} keeps more than no checkpoint does: it keeps results that backward never asks for"
            for row in self
            if row.kept > plain
        ]
        rows = [(row.policy, row.kept, mib(row.kept), row.recomputed) for row in self]
        return Table("one segment", ("policy", "bytes kept", "MiB", "FLOPs recomputed"), rows, notes)

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def policy_report(
    build: Callable[[], tuple[Callable[..., Any], tuple]], **policies: Callable[[Callable], Any]
) -> Report:
    """Run forward and backward of one segment under each policy, on fake tensors, and count.

    build       makes the segment and its arguments: () -> (segment, args)
    policies    name=function of the segment and its arguments that makes the policy: mm=lambda f, *x: by_op(...)
    """
    makers: dict[str, Callable | None] = {NONE: None, FULL: None, **policies}
    plain = _flops(build, NONE, None)
    return Report(
        Row(name, _kept(build, name, make), _flops(build, name, make) - plain) for name, make in makers.items()
    )


def _run(segment: Callable[..., Any], args: tuple, name: str, make: Callable | None) -> Any:
    if name == NONE:
        return segment(*args)
    extra = {"context_fn": selective(make(segment, *args))} if make else {}
    return checkpoint(segment, *args, use_reentrant=False, preserve_rng_state=False, **extra)


def _kept(build: Callable, name: str, make: Callable | None) -> int:
    outputs: list[int] = []

    def set_up() -> Callable[[], Any]:
        segment, args = build()
        if make:
            policy = make(segment, *args)  # before the step: what planning allocates is not the segment's

        def step() -> Any:
            out = _run(segment, args, name, (lambda *_: policy) if make else None)
            outputs.append(sum({s._cdata: s.nbytes() for t in tensors_in(out) for s in storages_of(t)}.values()))
            return out

        return step

    line = measure(set_up, fake=True, builds=True).timeline
    return line.total(len(line.changes) - 1) - line.total(-1) - outputs[0]


def _flops(build: Callable, name: str, make: Callable | None) -> int:
    with FakeTensorMode():
        segment, args = build()
        policy = make(segment, *args) if make else None
        with _Flops() as counter:
            out = _run(segment, args, name, (lambda *_: policy) if make else None)
            sum(t.float().sum() for t in tensors_in(out, Tensor) if t.requires_grad).backward()
    return counter.flops


class _Flops(TorchDispatchMode):
    flops = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.flops += op_flops(func, args, kwargs or {}, out)
        return out
