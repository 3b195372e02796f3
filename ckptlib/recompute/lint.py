"""Which of the twelve known pitfalls of checkpointing are in this model, or in this training step?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy

from ..errors import CkptError
from ..remember.hooks import Watch, watch
from ..tables import ShownAsTable, Table
from ..torch_internals import current_graph_task, forward_hooks, forward_pre_hooks
from .lint_calls import CheckpointCall, CheckpointCalls, recorded_calls
from .lint_errors import from_error, known_by_message
from .lint_source import from_source
from .pitfalls import PITFALLS, Finding, Pitfall, updates_statistics

# A run shows all others where they are, so hints about them are dropped.
ONLY_IN_SOURCE = {Pitfall.DDP, Pitfall.POLICY_NEVER_MATCHES}
# Of these, a finding about the whole run is dropped if one about a module or a call says where it is.
SHOWN_ONCE = {Pitfall.BATCHNORM_TWICE, Pitfall.POLICY_NEVER_MATCHES}
SAVES = {CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE}
OFFLOADS = {CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD}


@dataclass(frozen=True, repr=False)
class Lint(ShownAsTable):
    findings: list[Finding]
    error: Exception | None = None  # the error that ended the run early, if a pitfall caused it

    @property
    def numbers(self) -> set[Pitfall]:
        return {finding.number for finding in self.findings}

    def table(self) -> Table:
        rows = [(f.number, PITFALLS[f.number][0], f.where, f.found, f.fix) for f in self.findings]
        notes = [f"The run ended early: {self.error!s:.200}"] if self.error else []
        title = f"{len(rows)} findings" if rows else "no pitfall found"
        return Table(title, ("pitfall", "name", "where", "found", "fix"), rows, notes)


def lint(model: nn.Module | None = None, step: Callable[[], object] | None = None) -> Lint:
    """Look for the twelve pitfalls in a model's source and, if there is a `step`, in one training step of it.

    step  a function without arguments that runs forward and backward once. It really runs, so weights, gradients and
          buffers change. If a second run saves values that differ from the first (3), backward stops there with an
          error, and the gradients are incomplete.

    The source of the model's classes gives hints about 1, 2, 4, 6, 8, 9, 11 and 12, if they are visible in a call of
    checkpoint. These are hints, because the code may never run. A run that reaches a checkpoint and ends without an
    error replaces all of these hints except 8 and 9.
    A run finds 1 to 8 and 10 to 12 for certain, and 9 if a policy saved nothing at all. 7 and 8 are only found if the
    run ends in their error. Without a model, a run cannot find 5 and cannot tell whether autocast was restored. It then
    recognizes BatchNorm by its call of F.batch_norm, so a module that calls torch.batch_norm is reported as 3. In a
    checkpoint written by hand, 4, 5 and 12 are found, because its modules run again.
    """
    if model is None and step is None:
        raise CkptError("lint needs a model, a step to run, or both")
    if model is not None and not isinstance(model, nn.Module):
        raise CkptError(
            f"model is {type(model).__name__}, expected an nn.Module. To check only a step, call lint(step=...)"
        )
    findings = [*from_source(model)] if model is not None else []
    error = None
    if step is not None:
        found, error, seen = _from_run(model, step)
        if seen and error is None:
            findings = [f for f in findings if f.number in ONLY_IN_SOURCE]
        findings += found
    return Lint(sorted(dict.fromkeys(findings)), error)


def _from_run(model: nn.Module | None, step: Callable) -> tuple[list[Finding], Exception | None, bool]:
    """The findings of the run, the error that ended it early, and whether it reached a checkpoint at all."""
    hooked = {m for m in model.modules() if forward_hooks(m) or forward_pre_hooks(m)} if model is not None else set()
    error, autocast = None, _Autocast()
    with (
        recorded_calls(model) as recorded,
        autocast.followed(model) if model is not None else nullcontext(),
        watch(model) if model is not None else nullcontext() as watched,
    ):
        try:
            step()
        except Exception as e:
            if not (isinstance(e, torch.utils.checkpoint.CheckpointError) or known_by_message(e)):
                raise
            error = e
    calls = recorded.calls
    found = [f for call in calls for f in _of_call(call)] + [*_of_chains(calls)] + autocast.findings
    if watched is not None and model is not None:
        found += _of_modules(watched, calls, dict(model.named_modules()), hooked)
    more = [*_of_functions(recorded), *(from_error(error, calls) if error is not None else ())]
    known = {f.number for f in found} & SHOWN_ONCE
    return found + [f for f in more if f.number not in known], error, bool(calls)


def _of_functions(recorded: CheckpointCalls) -> Iterator[Finding]:
    for name, times in recorded.updates.items():
        yield Finding(Pitfall.BATCHNORM_TWICE, f"F.{name}", f"updated its running statistics {times} times again")
    if recorded.undrawn:
        why = "its noise was never drawn, and the gradient is wrong. Pass early_stop=False"
        yield Finding(
            Pitfall.OTHER_VALUES, "F.rrelu", f"the second run stopped inside it {recorded.undrawn} times, so {why}"
        )


def _of_call(call: CheckpointCall) -> Iterator[Finding]:
    if call.reentrant and call.outermost and not call.inputs_need_grad:
        yield Finding(Pitfall.NOTHING_TRAINED, call.name, "reentrant, and no input requires a gradient")
    masked = call.drew and not call.preserve_rng_state
    if masked:
        yield Finding(Pitfall.OTHER_MASK, call.name, "draws random numbers under preserve_rng_state=False")
    if call.second_differs and not masked:
        yield Finding(Pitfall.OTHER_VALUES, call.name, "the second run's outputs differ from the first run's")
    if call.policy and not call.policy.keys() & SAVES:
        yield Finding(
            Pitfall.POLICY_NEVER_MATCHES,
            call.name,
            f"the policy was asked {call.policy.total()} times and saved nothing",
        )
    if call.policy.keys() & OFFLOADS:
        yield Finding(
            Pitfall.POLICY_WRONG_AMOUNT,
            call.name,
            "outside torch.compile, the answer CPU_OFFLOAD means that the op is recomputed",
        )
    if call.policy and call.policy.keys() <= SAVES:
        yield Finding(
            Pitfall.POLICY_WRONG_AMOUNT,
            call.name,
            "the policy saves every op, which is more than autograd saves without a checkpoint",
        )
    if call.tensors_in_containers:
        yield Finding(
            Pitfall.TENSORS_IN_CONTAINERS,
            call.name,
            f"{call.tensors_in_containers} tensors inside containers stay alive in spite of the checkpoint",
        )
    if call.compiled:
        yield Finding(
            Pitfall.AUTOCAST_OR_COMPILE,
            call.name,
            "it contains a compiled module, whose second run may use a different graph",
        )


def _of_chains(calls: list[CheckpointCall]) -> Iterator[Finding]:
    """Finds calls of checkpoint_sequential whose last segment, which is not checkpointed, is the longest."""
    chains = [call.chain for call in calls if call.chain]
    if chains:
        (start, end, layers), last = chains[-1], chains[-1][1]
        if layers - 1 - last > end - start + 1:
            found = f"{layers - 1 - last} of {layers} layers are in the last segment, which is not checkpointed"
            yield Finding(Pitfall.NO_MEMORY_SAVED, "checkpoint_sequential", found)


def _of_modules(watched: Watch, calls: list[CheckpointCall], modules: dict, hooked: set) -> Iterator[Finding]:
    for row in watched.rows:
        module = modules[next((n for n in row.names if n in modules), "")]
        if row.recompute and updates_statistics(module):
            yield Finding(
                Pitfall.BATCHNORM_TWICE,
                row.module,
                f"ran {row.forward + row.recompute} times, {row.recompute} of them again",
            )
        if row.recompute and module in hooked:
            yield Finding(
                Pitfall.HOOKS_AGAIN,
                row.module,
                f"its hooks ran {row.recompute} times again, {row.cut} of them cut short",
            )
    outermost = sum(call.outermost for call in calls)
    if outermost == 1 and watched.recomputed > watched.saved:
        found = f"it recomputes {watched.recomputed:,} B at once; only {watched.saved:,} B are saved outside it"
        yield Finding(Pitfall.NO_MEMORY_SAVED, next(call.name for call in calls if call.outermost), found)


class _Autocast:
    """Did every module that ran again have the autocast settings of its first run?"""

    def __init__(self) -> None:
        self.first: dict[str, tuple] = {}
        self.findings: list[Finding] = []

    def followed(self, model: nn.Module) -> ExitStack:
        def hook(name: str) -> Callable:
            def entered(module: nn.Module, args: tuple) -> None:
                now = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
                if current_graph_task() == -1:
                    self.first[name] = now
                elif name in self.first and now != self.first[name]:
                    self.findings.append(
                        Finding(
                            Pitfall.AUTOCAST_OR_COMPILE,
                            name,
                            f"autocast was {self.first[name]} first, and {now} in the second run",
                        )
                    )

            return entered

        handles = ExitStack()
        for name, m in model.named_modules():
            handles.enter_context(m.register_forward_pre_hook(hook(name)))
        return handles
