"""What should this model recompute to train as fast as possible within a given memory budget?"""

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

from ..cuda.gpus import DEFAULT, Gpu, preset
from ..cuda.op_choice.host_tensors import mark_host, step_counters
from ..cuda.phantom import launch as phantom
from ..errors import CkptError
from ..remember.measurement import SIMULATED
from ..remember.user_models import Training, as_module, build, call_of, own_loss, refuse_compiled, training_of
from ..torch_internals import without_dispatch_modes
from ..tracing.storages import tensors_in
from .block_detection import NoChain
from .budget_search import NoPlanFits, WholeStep
from .module_plan import ModulePlan, NoModules, plan_modules, saved_outside
from .optimal_schedule import check_budget
from .schedule import Schedule
from .scheduled_model import ScheduledModel, apply_schedule
from .stage_costs import Costs

# A plan over modules is tried if the chains leave much of the memory alone:
OUTSIDE = 0.1  # at least this part of the activations is saved outside of their blocks,
LITTLE = 0.25  # or their frugal plan needs less than the plain step by no more than this part of it


@dataclass
class Plan:
    """The fastest schedule of the model's chains that was found to keep the whole training step within the budget."""

    schedule: Schedule
    budget: float
    peak: int  # bytes of the whole step by this schedule, measured
    whole: WholeStep = field(repr=False)  # how the step was measured: its chain, the chain's costs, other plans
    # the model that was passed in; None if a function was passed
    model: nn.Module | None = field(default=None, repr=False)

    @property
    def costs(self) -> Costs:
        """The costs of all chains' stages. Times are seconds if the step was measured on its own device, else FLOPs."""
        return self.whole.costs

    @property
    def chain_peak(self) -> int:
        """The bytes that the chains need by their costs. The rest of `peak` does not depend on the schedule."""
        return self.schedule.cost(self.costs).peak

    @property
    def extra(self) -> float:
        """The recomputed work, as a fraction of the step's FLOPs or, if times are seconds, of the chain's seconds."""
        return self.whole.extra(self.schedule)

    @cached_property
    def module(self) -> ScheduledModel:
        """The model that was passed in, run by the schedule; if a function was passed in, a model that it builds.

        The module shares the model's parameters.
        """
        return self.applied_to(self.whole.build().model if self.model is None else self.model)

    @cached_property
    def offers(self) -> list[Plan]:
        """Plans to choose from, starting with the one that needs the least memory.

        Each plan is faster than the one before it.
        """
        return [replace(self, schedule=f.plan, budget=f.peak, peak=f.peak) for f in self.whole.offers()]

    def applied_to(self, model: nn.Module) -> ScheduledModel:
        """`model`, run by the schedule. It must be built like the model that was planned, and it trains as before."""
        return apply_schedule(model, self.whole.chains, self.schedule)


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
) -> Plan | ModulePlan:
    """Find the fastest schedule for a training step that fits in `budget` bytes on the device.

    model       a function that returns (model, inputs), (model, inputs, loss) or (model, inputs, loss, optimizer); or
                the model itself, in which case you pass inputs, loss and optimizer too. The model is not changed.
    inputs      the model's inputs: a tensor, a tuple of arguments, or a dict of named arguments.
    optimizer   one that has the model's parameters. The memory of its state and of its update is counted. By default
                no update is counted.
    budget      bytes. By default nothing is recomputed, and `offers` of the result lists the plans that exist.
    loss        a function that turns the model's output into one number. By default the loss is output.loss,
                output["loss"], the output itself or, if the output is a larger tensor, its sum. Pass your real loss,
                because cross-entropy alone may need gigabytes.
    device      "sim:cuda" (by default an A100), "cpu", or your own GPU. "phantom:a100" and other phantom cards need a
                program that was started with `ckptlib phantom`, because every plan is run there.
    gpu         the card that "sim:cuda" simulates, such as the result of `ckptlib.cuda.gpus.preset("h100")`.
    fake        plan with shapes only. Nothing is computed, so planning takes only seconds, however large the model is.

    The library recomputes chains. A chain is an `nn.Sequential`, a list of stages, or a row of the model's blocks, each
    of which receives a tensor from the one before, whatever else it takes and returns. A model may have several, such
    as an encoder and a decoder, which are planned together. The budget is the peak of the whole step, as `ck.measure`
    counts it. It includes parameters, gradients, the optimizer's state and its step, and the rounding of the allocator.
    If no plan fits, NoPlanFits reports the smallest budget that would work.

    If the model has no chain, because something happens between its blocks or they form a tree, the result is a
    ModulePlan. It lists modules to checkpoint one by one, which were chosen by measured bytes and FLOPs. The same holds
    if that saves more than a plan of the chains, because they are a small part of the model.
    """
    if phantom.is_phantom(device):
        phantom.require(device)
    check_budget(budget)  # before the model is run, which may take long
    own = None if callable(model) and not isinstance(model, nn.Module) else _own(model, inputs)
    if own is None and inputs is not None:
        raise CkptError(
            "plan was called with a function and with inputs, but the function returns the inputs with its model. "
            "If the second argument was meant to be the budget, pass it by keyword: plan(build, budget=8 * 2**30)"
        )

    def training() -> Training:
        if own is None:
            return training_of(build(cast(Callable, model)), getattr(model, "__name__", "the function"))
        return Training(*_copied((own, inputs, loss or _own_loss_or_sum, optimizer), fake))

    # Runs are counted on stderr, if it is a terminal.
    with tqdm(desc="planning", unit=" runs", disable=None, delay=1, leave=False) as bar, torch.random.fork_rng():
        whole = WholeStep(training, device, gpu or preset(DEFAULT), fake, tick=bar.update)
        whole.run()  # run the unchanged step first, so that an error in the step shows before any search
        try:
            outside = saved_outside(whole) if whole.chains.rows[0].paths else 0.0
        except NoChain as error:
            return plan_modules(whole, budget, str(error))
        plain = whole.run().peak
        if plain <= budget < inf:
            return _of_chains(whole, budget, own)  # nothing needs to run again
        if outside >= OUTSIDE or plain - whole.least.peak <= LITTLE * plain:
            return _better(whole, budget, own)
        return _of_chains(whole, budget, own)


def _of_chains(whole: WholeStep, budget: float, own: nn.Module | None) -> Plan:
    found = whole.within(budget)
    return Plan(found.plan, budget, found.peak, whole, own)


def _better(whole: WholeStep, budget: float, own: nn.Module | None) -> Plan | ModulePlan:
    """Schedules of the chains, or a plan over modules: whichever computes less or, without a budget, may save more."""
    rows = " and ".join(f"{row.names[0]} … {row.names[-1]}" for row in whole.chains.rows)
    why = f"a plan of the chains alone ({rows}) needs at least {whole.least.peak:,} B, or computes more"
    found: list[Plan | ModulePlan] = []
    smallest = []
    for attempt in (lambda: _of_chains(whole, budget, own), lambda: plan_modules(whole, budget, why)):
        try:
            found.append(attempt())
        except NoPlanFits as error:
            smallest.append(error.smallest)
        except NoModules:
            pass
    if not found:
        raise NoPlanFits(budget, min(smallest))
    of_chains, of_modules = found[0], found[-1]
    if isinstance(of_chains, Plan) and isinstance(of_modules, ModulePlan):
        if not of_chains.extra and not of_modules.extra:  # nothing needs to run again
            return of_modules if of_modules.search.least() < whole.least.peak else of_chains
        if whole.unit != "FLOPs" or of_chains.extra <= of_modules.extra:
            return of_chains
    return of_modules


def _own(model: Any, inputs: Any) -> nn.Module:
    if not isinstance(model, (nn.Module, list, tuple)):
        raise CkptError(
            f"model is a {type(model).__name__}, but plan expects an nn.Module, a list of stages, or a function that "
            "returns (model, inputs, loss)"
        )
    if inputs is None:
        raise CkptError("plan needs the inputs that the model is called with: plan(model, inputs, budget)")
    found = as_module(model)
    refuse_compiled(found)
    return found


def _own_loss_or_sum(out: Any) -> Tensor:
    if isinstance(out, Tensor) and out.numel() > 1:
        return out.mul(1).sum()  # so that the output's gradient takes up as many bytes as after a loss
    return own_loss(out)


def _copied(handed: tuple, fake: bool) -> tuple:
    """A copy that the runs may change. It is made outside of all tracers, which would count the copied tensors too."""
    model, inputs, _, optimizer = handed
    states = [] if optimizer is None else list(optimizer.state.values())
    with without_dispatch_modes():
        on_host = {id(t): mark_host(t.clone()) for t in (step_counters(optimizer) if optimizer else ())}
        if not fake:
            try:
                return copy.deepcopy(handed, on_host)
            except RuntimeError as error:  # torch refuses to copy a tensor that has a graph
                hint = "Pass a function that builds the model instead"
                raise CkptError(f"the model or its inputs cannot be copied: {error}. {hint}") from None
    tensors = tensors_in([*model.parameters(), *model.buffers(), list(call_of(inputs)), states])
    return copy.deepcopy(handed, {id(t): _empty_like(t) for t in tensors if t.layout is torch.strided} | on_host)


def _empty_like(t: Tensor) -> Tensor:
    """An empty tensor like `t`, made from its sizes only, because an op that reads `t` would be traced."""
    empty = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device)
    return (
        nn.Parameter(empty, t.requires_grad) if isinstance(t, nn.Parameter) else empty.requires_grad_(t.requires_grad)
    )
