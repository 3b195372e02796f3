"""What does each policy save, and what does it recompute? Measured on fake tensors, policy by policy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..errors import CkptError
from ..remember.measurement import measure
from ..remember.user_models import call_of
from ..tables import ShownAsTable, Table
from ..torch_internals import FakeTensorMode, storage_address
from ..tracing.storages import storages_of, tensors_in
from ..tracing.timeline import of_trace
from ..units import mib
from .op_costs import Flops
from .selective import Policy, selective

NONE, FULL = "no checkpoint", "nothing saved"


class PolicyRow(NamedTuple):
    policy: str
    saved: int  # bytes alive between forward and backward, the segment's inputs and outputs left out
    recomputed: int  # FLOPs that backward runs a second time


class PolicyReport(ShownAsTable, list[PolicyRow]):
    """One row for each policy, one without a checkpoint, and one for a checkpoint that saves only its inputs."""

    def __getitem__(self, key: Any) -> Any:
        return next(row for row in self if row.policy == key) if isinstance(key, str) else super().__getitem__(key)

    def table(self) -> Table:
        plain = self[NONE].saved
        notes = [
            f"{row.policy} saves more than no checkpoint does, because it saves results that backward never asks for"
            for row in self
            if row.saved > plain
        ]
        rows = [(row.policy, row.saved, mib(row.saved), row.recomputed) for row in self]
        return Table("one segment", ("policy", "bytes saved", "MiB", "FLOPs recomputed"), rows, notes)


def policy_report(build: Callable[[], tuple[Any, ...]], **policies: Policy | list | Callable[..., Any]) -> PolicyReport:
    """Run forward and backward of one segment under each policy, on fake tensors, and count.

    build       makes the segment and its inputs, () -> (segment, inputs): a tensor, a tuple or a dict of arguments.
                A model is a segment too. A loss and an optimizer may follow, as for measure, and are not part of it
    policies    name=policy: by_op(...) or a list of ops; or, where it depends on the segment, a function that makes it
                from the segment and its arguments: half=lambda f, *x: by_budget(2**20, f, *x). A policy that is a
                function itself needs one around it as well: mine=lambda f, *x: decide
    """
    makers: dict[str, Any] = {NONE: None, FULL: None, **policies}
    plain = _flops(build, NONE, None)
    return PolicyReport(
        PolicyRow(name, _saved(build, name, make), _flops(build, name, make) - plain) for name, make in makers.items()
    )


def _built(build: Callable) -> tuple[Callable[..., Any], tuple]:
    made = build()
    parts = made if isinstance(made, (tuple, list)) else [made]
    if not (len(parts) in (2, 3, 4) and callable(parts[0]) and not callable(parts[1]) and _is_loss(*parts[2:3])):
        found = ", ".join(type(part).__name__ for part in parts)
        raise CkptError(
            f"build returned {found}; expected (segment, inputs) or (segment, inputs, loss), where one tensor is an "
            "input by itself"
        )
    args, kwargs = call_of(parts[1])
    return partial(parts[0], **kwargs) if kwargs else parts[0], args


def _is_loss(part: Any = None) -> bool:
    return part is None or callable(part)


def _policy(name: str, make: Any, segment: Callable, args: tuple) -> Any:
    """A Policy is callable too, but it is called with an op, so it needs no function around it."""
    if isinstance(make, (Policy, list, tuple, set)):
        return make
    policy = make(segment, *args)
    if not (callable(policy) or isinstance(policy, (list, tuple, set))):
        hint = f"If that function is the policy: {name}=lambda f, *x: it"
        raise CkptError(f"{name} was called with the segment to make a policy, and made {policy!r}. {hint}")
    return policy


def _run(segment: Callable[..., Any], args: tuple, name: str, policy: Any) -> Any:
    if name == NONE:
        return segment(*args)
    extra: dict[str, Any] = {"context_fn": selective(policy)} if policy is not None else {}
    return checkpoint(segment, *args, use_reentrant=False, preserve_rng_state=False, **extra)


def _saved(build: Callable, name: str, make: Any) -> int:
    outputs: list[int] = []
    devices: set[str] = set()

    def set_up() -> Callable[[], Any]:
        segment, args = _built(build)
        # before the step, because memory that planning allocates does not belong to the segment
        policy = _policy(name, make, segment, args) if make is not None else None

        def step() -> Any:
            out = _run(segment, args, name, policy)
            storages = {storage_address(s): s for t in tensors_in(out) for s in storages_of(t)}
            outputs.append(sum(s.nbytes() for s in storages.values()))
            devices.update(t.device.type for t in tensors_in(out))
            return out

        return step

    line, _ = of_trace(measure(set_up, fake=True, builds=True).trace, *devices)
    return line.total(len(line.changes) - 1) - line.total(-1) - outputs[0]


def _flops(build: Callable, name: str, make: Any) -> int:
    with FakeTensorMode():
        segment, args = _built(build)
        policy = _policy(name, make, segment, args) if make is not None else None
        with Flops() as counter:
            out = _run(segment, args, name, policy)
            sum(t.float().sum() for t in tensors_in(out, Tensor) if t.requires_grad).backward()
    return counter.total
