"""What if a checkpoint saved its expensive results? Policies for torch's selective checkpoints, and what each costs.

checkpoint(block, x, use_reentrant=False, context_fn=selective(by_op(aten.addmm.default)))
"""

from __future__ import annotations

import difflib
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from fnmatch import fnmatchcase
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import SAC_IGNORED_OPS, CheckpointPolicy, create_selective_checkpoint_contexts

from ..errors import CkptError
from ..torch_internals import (
    HigherOrderOperator,
    OpOverload,
    OpOverloadPacket,
    TorchDispatchMode,
    require_torch,
    schema,
    storage_address,
)
from ..tracing.storages import tensors_in
from .op_costs import OpCost, segment_costs, storage_bytes

SAVE, RECOMPUTE = CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_RECOMPUTE
_OFFLOAD = (CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD)


class PolicyError(CkptError):
    """A policy that would silently do nothing, or something different from what it says."""


def selective(policy: Policy | Callable | list) -> Selective:
    """A `context_fn` for checkpoint: what `policy` picks is saved, everything else in the segment is recomputed.

    policy: by_op(...), by_module(...), by_budget(...), a list of ops, or a function as torch accepts it,
    (ctx, op, *args, **kwargs) -> CheckpointPolicy or bool.

    Raises PolicyError in two cases: if the policy picked nothing in the segment, because the result would be a plain
    checkpoint, and if a policy function returns anything else, which torch would treat as "recompute". An error of the
    policy is raised when the segment has run. If the segment itself raises, torch's own checkpoint before torch 2.13
    leaves the policy active until the error object is freed. ck.checkpoint does not.
    Inside `torch.compile`, use it with ck.checkpoint, which breaks the graph. With torch's own checkpoint the compiler
    raises, because it accepts only a plain function or a functools.partial as context_fn.
    """
    if isinstance(policy, (list, tuple, set)):
        policy = by_op(*policy)
    if not callable(policy):
        raise CkptError(f"a policy is by_op, by_module, by_budget, a list of ops or a function, not {policy!r}")
    return Selective(policy if isinstance(policy, Policy) else Policy(policy))


class Policy:
    """Decides, op by op, which results are saved; `start` begins a new segment. This one calls the user's function."""

    by_result = False  # whether it reads ctx.op_output, which torch 2.11 does not have

    def __init__(self, decide: Callable[..., Any]):
        self._decide = decide

    def __call__(self, ctx: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        return self._decide(ctx, op, *args, **kwargs)

    def start(self) -> tuple[Callable[..., Any], Any]:
        """The function that decides in this segment, and a context to run the segment in."""
        return self._decide, nullcontext()

    def nothing_picked(self, ran: list[Any]) -> str:
        return "the policy picked no op that ran. Does it ask for a packet, aten.mm, and not for aten.mm.default?"


class Selective:
    """The `context_fn`. `saved` counts the ops whose results were saved since it was made."""

    def __init__(self, policy: Policy):
        if policy.by_result:
            require_torch("2.12", "by_module and by_budget look at the result of each op")
        self.policy, self.saved = policy, 0

    def __call__(self) -> tuple[Any, Any]:
        decide, around = self.policy.start()
        ran: dict[Any, bool] = {}
        drawn: list[Any] = []  # random ops whose results are saved: they draw nothing in the second run
        verdicts: defaultdict[Any, deque] = defaultdict(deque)  # before 2.13, torch asks in the second run again

        def checked(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            if ctx.is_recompute:
                return verdicts[op].popleft() if verdicts[op] else SAVE  # torch says that it has nothing left
            verdict = _verdict(decide(ctx, op, *args, **kwargs), op)
            save = verdict in (SAVE, CheckpointPolicy.PREFER_SAVE)
            ran[op] = ran.get(op, False) or save
            self.saved += save
            if _draws(op, args, kwargs):
                if drawn and not save:
                    raise PolicyError(
                        f"{op} is recomputed, but {drawn[0]} before it is saved and draws nothing in the second run: "
                        "the random numbers would be different. Save both, or neither"
                    )
                drawn.extend([op] * save)
            verdicts[op].append(verdict)
            return verdict

        def after() -> None:
            if not any(ran.values()):
                raise PolicyError(self.policy.nothing_picked(list(ran)))

        errors: list[Exception] = []  # by itself: a cycle through the modes would keep the saved tensors

        def asked(*question: Any, **kwargs: Any) -> CheckpointPolicy:
            if not errors:
                try:
                    return checked(*question, **kwargs)
                except Exception as error:
                    errors.append(error)
            return RECOMPUTE

        saving, restoring = create_selective_checkpoint_contexts(asked)
        return _Around(saving, around, after, errors), restoring


def _verdict(answer: Any, op: Any) -> CheckpointPolicy:
    """What a policy answered, in torch's words. Numbers are refused: 0 may be False, or the value of MUST_SAVE."""
    if isinstance(answer, (bool, np.bool_)):
        return SAVE if answer else RECOMPUTE
    if not isinstance(answer, CheckpointPolicy):
        hint = (
            "Does it have a branch without return?"
            if answer is None
            else "Return CheckpointPolicy.MUST_SAVE to save it"
        )
        why = "expected a CheckpointPolicy or a bool: torch would silently recompute the op"
        raise PolicyError(f"the policy returned {answer!r} for {op}, {why}. {hint}")
    if answer in _OFFLOAD:
        raise PolicyError(f"{answer.name} for {op}: eager torch recomputes it instead. Use ck.offload")
    return answer


def _draws(op: Any, args: tuple, kwargs: dict) -> bool:
    """Whether the op takes random numbers. Fused attention has that tag as well, but draws only for its dropout."""
    if torch.Tag.nondeterministic_seeded not in getattr(op, "tags", ()):
        return False
    arguments = schema(op).arguments
    passed = {a.name: a.default_value for a in arguments} | dict(zip((a.name for a in arguments), args, strict=False))
    return (passed | kwargs).get("dropout_p") != 0


class _Around(TorchDispatchMode):
    """Torch's mode with something before and after it. A mode itself, because torch.compile accepts nothing else.

    What the policy raised first waits in `errors` until the mode is off. Before torch 2.13, an error that ends a first
    run inside torch's own checkpoint leaves the mode on, and the same error would come from every op that runs later.
    """

    def __init__(self, mode: TorchDispatchMode, around: Any, after: Callable[[], None], errors: list[Exception]):
        super().__init__()
        self.mode, self._around, self._after, self.errors = mode, around, after, errors

    def __enter__(self) -> _Around:
        self._stack = ExitStack()
        self._stack.enter_context(self._around)
        self._stack.enter_context(self.mode)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._stack.__exit__(kind, error, trace)
        if kind is None and self.errors:
            raise self.errors.pop()  # and keep no reference: it leads to all frames below, and to their tensors
        if kind is None:
            self._after()


# ---- by op ----------------------------------------------------------------------------------------------------------
def by_op(*ops: OpOverload) -> Policy:
    """Save the results of these ops, such as torch.ops.aten.addmm.default.

    An op without its overload, such as aten.mm, is refused, because aten.mm.default runs.
    """
    if not ops:
        raise PolicyError("by_op needs at least one op to save")
    for op in ops:
        if isinstance(op, OpOverloadPacket):
            overloads = ", ".join(f"{op}.{name}" for name in op.overloads())
            why = f"what runs is one of its overloads. Say which: {overloads}"
            raise PolicyError(f"{op} never matches: {why}")
        if not isinstance(op, (OpOverload, HigherOrderOperator)):
            hint = "Expected something like torch.ops.aten.mm.default"
            raise PolicyError(f"{op!r} is not an op of the dispatcher. {hint}")
        if op in SAC_IGNORED_OPS:
            why = "torch's selective checkpoints pass it by"
            raise PolicyError(f"{op} never matches: {why}")
    return _ByOp(frozenset(ops))


class _ByOp(Policy):
    def __init__(self, ops: frozenset):
        self.ops = ops
        super().__init__(lambda ctx, op, *args, **kwargs: SAVE if op in ops else RECOMPUTE)

    def __reduce__(self) -> tuple:  # torch's ops cannot be pickled, but their names can
        return _named, (*sorted(map(str, self.ops)),)

    def nothing_picked(self, ran: list[Any]) -> str:
        names = [str(op) for op in ran]
        near = [m for op in self.ops for m in difflib.get_close_matches(str(op), names, n=2, cutoff=0.5)]
        wanted = ", ".join(sorted(map(str, self.ops)))
        hint = f"Nearest to it: {', '.join(dict.fromkeys(near))}. " if near else ""
        return f"{wanted} never ran in this segment. {hint}It ran {', '.join(sorted(names)) or 'nothing'}"


def _named(*names: str) -> Policy:
    found = (name if "." in name else f"higher_order.{name}" for name in names)
    start: Any = torch.ops
    return by_op(*(reduce(getattr, name.split("."), start) for name in found))


# ---- by module ------------------------------------------------------------------------------------------------------
def by_module(model: nn.Module, *names: str) -> Policy:
    """Save every result made inside these modules of `model`; `*` stands for any text: "blocks.*.attention.proj"."""
    paths = [path for path, _ in model.named_modules() if path]
    for name in names:
        if not any(fnmatchcase(path, name) for path in paths):
            near = difflib.get_close_matches(name, paths, n=3)
            raise PolicyError(f"{type(model).__name__} has no module {name!r}. Meant: {', '.join(near) or paths[:5]}?")
    if not names:
        raise PolicyError("by_module needs at least one module whose results to save")
    return _ByModule([m for path, m in model.named_modules() if any(fnmatchcase(path, n) for n in names)], names)


class _ByModule(Policy):
    by_result = True

    def __init__(self, modules: list[nn.Module], names: tuple[str, ...]):
        self.modules, self.names = modules, names

    def start(self) -> tuple[Callable[..., Any], Any]:
        inside: list[nn.Module] = []

        @contextmanager
        def watching() -> Iterator[None]:
            with ExitStack() as stack:
                for module in self.modules:
                    for handle in (
                        module.register_forward_pre_hook(lambda m, args: inside.append(m)),
                        module.register_forward_hook(lambda m, args, out: (inside.pop(), None)[1], always_call=True),
                    ):
                        stack.callback(handle.remove)
                yield

        def decide(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            # Saving a view of an outside tensor would keep its whole storage alive. Making a view again is free.
            return SAVE if inside and not _is_view(ctx.op_output, args) else RECOMPUTE

        return decide, watching()

    def nothing_picked(self, ran: list[Any]) -> str:
        return f"no module {', '.join(self.names)} ran in this segment. Are they another block's?"


def _is_view(out: Any, args: tuple) -> bool:
    inputs = {storage_address(t.untyped_storage()) for t in tensors_in(args)}
    return any(storage_address(t.untyped_storage()) in inputs for t in tensors_in(out))


# ---- by budget ------------------------------------------------------------------------------------------------------
def by_budget(nbytes: int, segment: Callable[..., Any], *args: Any) -> Policy:
    """Save the results that avoid the most FLOPs in backward, in at most `nbytes`: the best choice, not a greedy one.

    The segment is run once on fake tensors to learn its costs; it must run the same ops each time.
    """
    costs = segment_costs(segment, *args)
    candidates = [i for i, cost in enumerate(costs) if cost.flops and cost.again]
    if not candidates:
        raise PolicyError(
            "nothing in this segment has FLOPs that saving would avoid, so a budget has nothing to choose from"
        )
    smallest = min(costs[i].nbytes for i in candidates)
    if not nbytes >= smallest:  # written this way, because it also refuses NaN
        raise PolicyError(f"a budget of {nbytes:,} B saves nothing, because the smallest result takes {smallest:,} B")
    return _ByIndex(costs, _best(costs, candidates, nbytes))


class _ByIndex(Policy):
    """Picks by position among the ops that have FLOPs, because the number of views may differ, as under a profiler."""

    by_result = True

    def __init__(self, costs: list[OpCost], chosen: frozenset[int]):
        costly = {str(cost.op) for cost in costs if cost.flops}  # by name: torch's ops cannot be pickled
        planned = [(str(cost.op), cost.nbytes, i in chosen) for i, cost in enumerate(costs)]
        self.plan = [entry for entry in planned if entry[0] in costly]
        self.costly, self.chosen = costly, chosen

    def start(self) -> tuple[Callable[..., Any], Any]:
        plan = iter(self.plan)

        def decide(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            if str(op) not in self.costly:
                return RECOMPUTE
            *planned, save = next(plan, ("no op", 0, False))
            found = [str(op), storage_bytes(ctx.op_output)]
            if planned != found:
                text = "{} that makes {:,} B, but it was {} that makes {:,} B when the budget was planned"
                raise PolicyError(f"this is {text.format(*found, *planned)}. Is it a different segment or input?")
            return SAVE if save else RECOMPUTE

        return decide, nullcontext()


def _best(costs: list[OpCost], candidates: list[int], nbytes: int) -> frozenset[int]:
    """Solve the knapsack problem; keep sums that no other beats in bytes and FLOPs."""
    # (bytes, FLOPs, which)
    front: list[tuple[int, int, frozenset[int]]] = [(0, 0, frozenset())]
    for i in candidates:
        cost = costs[i]
        more = [(b + cost.nbytes, f + cost.flops, which | {i}) for b, f, which in front]
        merged, front = front + [m for m in more if m[0] <= nbytes], []
        for entry in sorted(merged, key=lambda e: (e[0], -e[1])):
            if not front or entry[1] > front[-1][1]:
                front.append(entry)
    return front[-1][2]
