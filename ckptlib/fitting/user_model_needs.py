"""What does the training step of any model need? It is run on fake tensors from end to end, AdamW's part included.

Each schedule of the model's blocks is run once, at one batch, and its record is rewritten for other batches
(batch_rescaling.py). The answer's own batch is run again, to be sure.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from ..cuda.gpus import Gpu
from ..cuda.simulate import simulate
from ..errors import CkptError
from ..planning.block_detection import Chains
from ..planning.budget_search import Found, WholeStep
from ..planning.known_schedules import recompute_each, store_all
from ..planning.schedule import Schedule
from ..planning.stage_costs import Costs
from ..remember.measurement import SIMULATED, Measurement
from ..remember.user_models import Training, call_of, training_of
from ..torch_internals import tree_map
from ..tracing.storages import tensors_in
from .batch_rescaling import rewritten
from .fit_results import Fit, Need
from .largest_batch import Steps
from .peak_windows import parts
from .transformer_step import RULES, adamw

AS_BUILT = "as built"
BATCH = "batch"  # the parameter of the function that builds the model


class WholeSteps(Steps):
    """`build(batch)` makes model, inputs and loss; and an optimizer, if AdamW is not the one to count.

    `tick` is called after each run.
    """

    strategies = ("none", "full", "planned")

    def __init__(
        self, build: Callable[..., Any], name: str, precision: str, gpu: Gpu, tick: Callable[[], object] = lambda: None
    ):
        self.build, self.name, self.precision, self.gpu, self.tick = build, name, precision, gpu, tick
        self.run_at: dict[int, WholeStep] = {}
        self.rewritten_at: dict[int, WholeStep] = {}
        self.rewrites = True
        _refuse_without_batch(build, name)
        self.notes = tuple(self._run(1).run().measured.notes)  # any mistake in the model shows here

    def possible(self, strategies: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Without a chain nothing can be recomputed. The answer says so, and contains the rest."""
        if strategies == ("none",):
            return strategies, ()
        try:
            chains = self._run(1).chains
        except CkptError as error:
            if "none" not in strategies:
                raise
            return ("none",), (f"Nothing was recomputed: {error}.",)
        rows = " and ".join(f"{len(row.names)}: {row.names[0]} … {row.names[-1]}" for row in chains.rows)
        return strategies, (f"Recomputed are blocks of {rows}.",)

    def need(self, batch: int, strategy: str, nbytes: int) -> Need:
        found = self._found(batch, strategy, nbytes)
        schedule = found.schedule
        extra = self._at(batch).extra(schedule) if schedule else 0.0
        line = found.measured.timeline
        by_part = parts(line, line.peak_moment)
        return Need(batch, _window(found.measured), by_part, extra, schedule or store_all(1), False)

    def least(self, batch: int, strategy: str, nbytes: int) -> int:
        if strategy != "planned":
            return self._found(batch, strategy, nbytes).peak
        step = self._at(batch)
        return min(step.least.peak, step.run().peak)

    def confirmed(self, answers: Iterable[Fit]) -> bool:
        """Whether the largest batches, run themselves, need the bytes that were found. If one does not, a size of the
        model came with the batch's prime, and from now on every batch is run."""
        self.rewrites = self.rewrites and all(map(self._as_run, answers))
        return self.rewrites

    def _as_run(self, fit: Fit) -> bool:
        if fit.need is None:
            return True
        schedule = None if fit.strategy == "none" or max(fit.need.schedule.forwards()) == 1 else fit.need.schedule
        return self._run(fit.batch).run(schedule).peak == fit.need.nbytes

    def _found(self, batch: int, strategy: str, nbytes: int) -> Found:
        step = self._at(batch)
        if strategy == "none":
            return step.run()
        if strategy == "full":
            return step.run(recompute_each(step.costs.n, step.costs.n))
        if self.least(batch, strategy, nbytes) > nbytes:
            return step.least  # without a search, which would run one plan after another
        return step.within(nbytes)

    def _at(self, batch: int) -> WholeStep:
        if batch == 1 or not self.rewrites:
            return self._run(batch)
        if batch not in self.rewritten_at:
            prime = self.prime
            self.rewritten_at[batch] = Rewritten(self._run(prime), self._run(2 * prime), prime, batch)
        return self.rewritten_at[batch]

    def _run(self, batch: int) -> WholeStep:
        if batch not in self.run_at:
            self.run_at[batch] = WholeStep(
                lambda: _converted(self._training(batch), self.precision),
                SIMULATED,
                self.gpu,
                True,
                RULES,
                self._update,
                self.tick,
            )
        return self.run_at[batch]

    def _training(self, batch: int) -> Training:
        return training_of(self.build(**{BATCH: batch}), self.name)

    def _update(self, training: Training) -> Callable[[], object]:
        if training.optimizer is not None:
            return training.optimizer.step
        return _with_dense_gradients(training.model, adamw(training.model, self.precision))

    @cached_property
    def prime(self) -> int:
        """The batch that is run is a prime that divides none of the model's sizes."""
        with self._run(1).as_measured():  # fake, because the model may be larger than this machine
            training = self._training(1)
        own = [*training.model.parameters(), *training.model.buffers(), *tensors_in(list(call_of(training.inputs)))]
        sizes = {n for t in own for n in t.shape}
        prime = next(p for p in count(101, 2) if all(p % d for d in range(3, p, 2)) and all(n % p for n in sizes))
        # All that a step makes is compared, and not its peak, which may be in the update, where no batch is seen.
        one, many = (sum(s.nbytes for s in self._run(n).run().measured.trace.storages) for n in (1, prime))
        if one == many:
            raise CkptError(f"the step needs the same bytes at batch 1 and {prime}: does your function use `batch`?")
        return prime


def _refuse_without_batch(build: Callable[..., Any], name: str) -> None:
    try:
        parameters = inspect.signature(build).parameters
    except (TypeError, ValueError):  # a builtin, perhaps
        return
    if BATCH not in parameters and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        function = getattr(build, "__name__", "build")
        raise CkptError(f"{name} has no parameter called batch, and fit needs one: def {function}(batch): ...")


class Rewritten(WholeStep):
    """The step at a batch, from its runs at a prime: every schedule is run there once. The chain's costs are
    interpolated between two batches, because they are linear in the batch."""

    def __init__(self, at_prime: WholeStep, at_double: WholeStep, prime: int, batch: int):
        super().__init__(at_prime.build, at_prime.device, at_prime.gpu, True, at_prime.rules)
        self.at_prime, self.at_double, self.prime, self.batch = at_prime, at_double, prime, batch

    def run(self, schedule: Schedule | None = None) -> Found:
        if schedule not in self.seen:
            trace = rewritten(self.at_prime.run(schedule).measured.trace, self.prime, self.batch)
            sim = simulate(trace, self.gpu, self.rules)
            measured = Measurement(self.device, sim.timeline, trace, sim.marks, unknowns=sim.unknowns)
            self.seen[schedule] = Found(schedule, measured)
        return self.seen[schedule]

    @property
    def chains(self) -> Chains:
        return self.at_prime.chains

    @property
    def flops(self) -> int:
        return self.at_prime.flops * self.batch // self.prime

    @cached_property
    def rows(self) -> list[Costs]:
        return [self._on_a_line(*both) for both in zip(self.at_prime.rows, self.at_double.rows, strict=True)]

    def _on_a_line(self, one: Costs, two: Costs) -> Costs:
        def between(name: str) -> list[int]:
            pairs = zip(getattr(one, name), getattr(two, name), strict=True)
            return [max(a + (b - a) * (self.batch - self.prime) // self.prime, 0) for a, b in pairs]

        numbers = ("ftime", "btime", "x", "xbar", "dx", "ftmp", "btmp", "atmp")
        given: dict[str, Any] = {name: between(name) for name in numbers}
        return replace(one, **given)


def _with_dense_gradients(model: nn.Module, update: Callable[[], None]) -> Callable[[], None]:
    def checked() -> None:
        for name, p in model.named_parameters():
            if p.grad is not None and p.grad.is_sparse:
                raise CkptError(
                    f"the gradient of {name} is sparse, and AdamW, which is counted here, takes dense ones only. "
                    "Is it an nn.Embedding(..., sparse=True)? Build it with sparse=False"
                )
        update()

    return checked


def _converted(training: Training, precision: str) -> Training:
    if precision == AS_BUILT:
        return training
    dtype = torch.float32 if precision == "fp32" else torch.bfloat16

    def to(x: Any) -> Any:
        return x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x

    return replace(training, model=training.model.to(dtype), inputs=tree_map(to, training.inputs))


def _window(measured: Measurement) -> str:
    """The moment when the step needs the most memory, named by its phase and the running module."""
    moment = measured.timeline.peak_moment
    if moment < 0:
        return "state before the step"
    change = measured.timeline.changes[moment]
    module = measured.trace.ops[change.op].module if change.op >= 0 else ""
    phase = {"optimizer": "update", "recompute": "recomputed forward"}.get(change.phase, change.phase)
    return f"{phase} of {module}" if module and phase != "update" else phase
