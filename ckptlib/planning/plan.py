"""What should this model recompute, to train fastest in so much memory? A plan, measured, and ready to train with."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from tqdm.auto import tqdm

from ..cuda.dispatch.host_tensors import mark_host, step_counters
from ..cuda.gpus import DEFAULT, Gpu, preset
from ..errors import CkptError
from ..remember.measurement import SIMULATED
from ..remember.training_step import Training, as_module, call_of, own_loss, training_of
from ..torch_internals import without_dispatch_modes
from ..tracing.storages import tensors_in
from .apply import ScheduledModel, apply_schedule
from .costs import Costs
from .optimal import check_budget
from .schedule import Schedule
from .whole_step import WholeStep


@dataclass
class Plan:
    """The fastest schedule of the model's chain that was found to keep the whole training step within the budget."""

    schedule: Schedule
    budget: float
    peak: int  # bytes of the whole step by this schedule, measured
    whole: WholeStep = field(repr=False)  # how the step was measured: its chain, the chain's costs, other plans
    model: nn.Module | None = field(default=None, repr=False)  # the one that was handed in, if it was not a function

    @property
    def costs(self) -> Costs:
        """Of the chain's stages. Their times are FLOPs, or seconds where the step runs on the device that it is for."""
        return self.whole.costs

    @property
    def chain_peak(self) -> int:
        """What the chain alone needs, by its costs. The rest of `peak` cannot be planned."""
        return self.schedule.cost(self.costs).peak

    @property
    def extra(self) -> float:
        """What is run again: FLOPs as a fraction of the whole step's, or seconds as a fraction of the chain's."""
        return self.whole.extra(self.schedule)

    @cached_property
    def module(self) -> ScheduledModel:
        """The model that was handed in, or else one newly built, run by the schedule. It shares its parameters."""
        return self.applied_to(self.whole.build().model if self.model is None else self.model)

    @cached_property
    def offers(self) -> list[Plan]:
        """Plans to choose a budget from: the most frugal one first, and each faster than those before it."""
        return [replace(self, schedule=f.plan, budget=f.peak, peak=f.peak) for f in self.whole.offers()]

    def applied_to(self, model: nn.Module) -> ScheduledModel:
        """A model that is built as the planned one is, run by the schedule. It trains as the model does."""
        return apply_schedule(model, self.whole.chain, self.schedule)


def plan(
    model: nn.Module | Sequence[Callable] | Callable[[], Any],
    inputs: Any = None,
    budget: float = inf,
    loss: Callable[[Any], Tensor] | None = None,
    optimizer: Optimizer | None = None,
    *,
    device: str = SIMULATED,
    gpu: Gpu | None = None,
    fake: bool = False,
) -> Plan:
    """The fastest way to train `model` whose whole step needs at most `budget` bytes on the device.

    model       a function that returns (model, inputs), (model, inputs, loss) or (model, inputs, loss, optimizer); or
                the model itself, with inputs, loss and optimizer beside it. It is copied, and not changed
    inputs      what the model is called with: a tensor, a tuple of arguments, or a dict of named ones
    budget      without one, nothing is recomputed, and `offers` of the answer shows which plans there are
    loss        loss(output) is one number. Without it, that is output.loss, output["loss"], the output itself or, if
                the output is a larger tensor, its sum. Hand in the real one: cross-entropy may need gigabytes
    device      "sim:cuda" (by default an A100), "cpu", or a GPU of yours
    fake        plan with shapes alone. No number is computed, so models of any size take seconds

    What can be recomputed is a chain: an `nn.Sequential`, a list of stages, or the model's repeated blocks, wherever
    they are. The budget is for the step as `ck.measure` counts it: parameters, gradients, the optimizer's state and
    step, rounding of the allocator and all. If no plan fits, `NoPlanFits` knows the smallest budget that can be met.
    """
    check_budget(budget)  # before the model is run, which may take long
    own = None if callable(model) and not isinstance(model, nn.Module) else _own(model, inputs)
    if own is None and inputs is not None:
        raise CkptError(
            "plan was called with a function and with inputs, but the function returns the inputs with its model. "
            "Name the budget: plan(build, budget=8 * 2**30)"
        )

    def training() -> Training:
        if own is None:
            return training_of(cast(Callable, model)(), getattr(model, "__name__", "the function"))
        return Training(*_copied((own, inputs, loss or _own_loss_or_sum, optimizer), fake))

    # Runs are counted on stderr, if it is a terminal.
    with tqdm(desc="planning", unit=" runs", disable=None, delay=1, leave=False) as bar, torch.random.fork_rng():
        whole = WholeStep(training, device, gpu or preset(DEFAULT), fake, tick=bar.update)
        whole.run()  # as it is, before anything is looked for: whatever is wrong with the step shows here
        found = whole.within(budget)
    return Plan(found.plan, budget, found.peak, whole, own)


def _own(model: Any, inputs: Any) -> nn.Module:
    if not isinstance(model, (nn.Module, list, tuple)):
        raise CkptError(
            f"model is a {type(model).__name__}, expected an nn.Module, a list of stages, or a function that "
            "returns (model, inputs, loss)"
        )
    if inputs is None:
        raise CkptError("plan needs the inputs that the model is called with: plan(model, inputs, budget)")
    return as_module(model)


def _own_loss_or_sum(out: Any) -> Tensor:
    if isinstance(out, Tensor) and out.numel() > 1:
        return out.mul(1).sum()  # so that the output's gradient takes up as many bytes as after a loss
    return own_loss(out)


def _copied(handed: tuple, fake: bool) -> tuple:
    """A copy that the runs may change. No tracer sees that it is made, which would count what is copied as well."""
    model, inputs, _, optimizer = handed
    states = [] if optimizer is None else list(optimizer.state.values())
    with without_dispatch_modes():
        on_host = {id(t): mark_host(t.clone()) for t in (step_counters(optimizer) if optimizer else ())}
        if not fake:
            try:
                return copy.deepcopy(handed, on_host)
            except RuntimeError as error:  # of torch, about a tensor that was computed
                hint = "Hand in a function that builds it instead"
                raise CkptError(f"the model or its inputs cannot be copied: {error}. {hint}") from None
    tensors = tensors_in([*model.parameters(), *model.buffers(), list(call_of(inputs)), states])
    return copy.deepcopy(handed, {id(t): _empty_like(t) for t in tensors if t.layout is torch.strided} | on_host)


def _empty_like(t: Tensor) -> Tensor:
    """Of the same shape, by its sizes alone, because an op that reads `t` would be traced."""
    empty = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device)
    return (
        nn.Parameter(empty, t.requires_grad) if isinstance(t, nn.Parameter) else empty.requires_grad_(t.requires_grad)
    )
