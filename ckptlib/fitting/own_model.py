"""Will a model of your own fit? Its whole training step, AdamW's included, is run on fake tensors at several batches.

The named models are measured block by block; of a model that we have never seen, the step is run from end to end, once
for each schedule, and rewritten for other batches (other_batch.py). The answer's own batch is run again, to be sure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from ..cuda.memory_sizes import capacity
from ..cuda.simulate import simulate
from ..errors import CkptError
from ..planning.chains import Chain
from ..planning.costs import Costs
from ..planning.known_schedules import store_all
from ..planning.schedule import BACKWARD, KEEP_ALL, KEEP_INPUT, RESTORE, Schedule
from ..planning.whole_step import Found, NoPlanFits, WholeStep
from ..remember.measurement import SIMULATED, Measurement
from ..remember.training_step import Training, call_of
from ..torch_internals import tree_map
from ..tracing.storages import tensors_in
from .answers import Fit, Fits
from .block_chain import Need
from .largest_batch import Question
from .other_batch import rewritten
from .training_runs import PRECISIONS, RULES, adamw
from .windows import parts

OWN_STRATEGIES = ("none", "full", "planned")
AS_BUILT = "as built"


class OwnFit(Fit):
    """`config` is the name of the model."""

    @property
    def about(self) -> str:
        return f"{self.config}, {self.precision}"


def fits_own(
    build: Callable[[int], Training],
    gpu: str | int = "80GiB",
    precision: str = AS_BUILT,
    strategies: tuple[str, ...] = OWN_STRATEGIES,
    name: str = "your model",
) -> Fits:
    """The largest batch for each strategy. `build(batch)` makes model, inputs and loss; and an optimizer, if AdamW is
    not the one to count.

    precision   "fp32", "bf16", "mixed" (see `fit`), or as the model is built
    strategies  recompute "none", "full" (every block of the model's chain), or as "planned"
    """
    for what, value, known in (
        ("precision", precision, (*PRECISIONS, AS_BUILT)),
        *(("strategy", strategy, OWN_STRATEGIES) for strategy in strategies),
    ):
        if value not in known:
            raise CkptError(f"{what} is {value!r}, expected one of {', '.join(known)}")
    nbytes, card = capacity(gpu)
    with tqdm(desc="steps run", disable=None, delay=1, leave=False) as bar:

        @cache
        def run_at(batch: int) -> WholeStep:
            def setup() -> Training:
                return _converted(build(batch), precision)

            def update(training: Training) -> Callable[[], None]:
                if training.optimizer is not None:
                    return training.optimizer.step
                return _with_dense_gradients(training.model, adamw(training.model, precision))

            return WholeStep(setup, SIMULATED, card, True, RULES, update, bar.update)

        run_at(1).run()  # whatever is wrong with the model shows here
        strategies, notes = _possible(run_at(1), strategies)
        prime = _prime(build(1))
        _refuse_a_fixed_batch(run_at, prime)

        @cache
        def rewritten_at(batch: int) -> WholeStep:
            return run_at(1) if batch == 1 else Rewritten(run_at(prime), run_at(2 * prime), prime, batch)

        def answers(at: Callable[[int], WholeStep]) -> tuple[dict[str, OwnQuestion], dict[str, Fit]]:
            asked = {strategy: OwnQuestion(None, nbytes, strategy, step_at=at) for strategy in strategies}
            largest = {strategy: question.largest() for strategy, question in asked.items()}
            return asked, {
                s: OwnFit(name, nbytes, precision, s, False, need.batch if need else 0, need, too_much)
                for s, (need, too_much) in largest.items()
            }

        asked, found = answers(rewritten_at)
        if not all(_as_run(fit, run_at) for fit in found.values()):
            asked, found = answers(run_at)  # a size of the model came with the batch's prime: no way but to run it
        compared = sorted({answer.batch for answer in found.values()} - {0}) if len(found) > 1 else []
        costs = {
            batch: {s: None if batch > found[s].batch else asked[s].need(batch).extra for s in found}
            for batch in compared
        }
    return Fits(found, costs, notes)


class Rewritten(WholeStep):
    """The step at a batch, from its runs at a prime: every schedule is run there once. The chain's costs come from two
    batches: they lie on lines."""

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
    def chain(self) -> Chain:
        return self.at_prime.chain

    @property
    def flops(self) -> int:
        return self.at_prime.flops * self.batch // self.prime

    @cached_property
    def costs(self) -> Costs:
        one, two = self.at_prime.costs, self.at_double.costs

        def between(name: str) -> list[int]:
            pairs = zip(getattr(one, name), getattr(two, name), strict=True)
            return [max(a + (b - a) * (self.batch - self.prime) // self.prime, 0) for a, b in pairs]

        numbers = ("ftime", "btime", "x", "xbar", "dx", "ftmp", "btmp", "atmp")
        given: dict[str, Any] = {name: between(name) for name in numbers}
        return replace(one, **given)


def _prime(training: Training) -> int:
    """A prime that divides none of the model's sizes."""
    tensors = [*training.model.parameters(), *training.model.buffers(), *tensors_in(list(call_of(training.inputs)))]
    sizes = {n for t in tensors for n in t.shape}
    return next(p for p in count(101, 2) if all(p % d for d in range(3, p, 2)) and all(n % p for n in sizes))


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


def _refuse_a_fixed_batch(run_at: Callable[[int], WholeStep], batch: int) -> None:
    """All that a step makes is compared, and not its peak: that may be in the update, where the batch is not seen."""
    one, many = (sum(s.nbytes for s in run_at(n).run().measured.trace.storages) for n in (1, batch))
    if one == many:
        raise CkptError(f"the step needs the same bytes at batch 1 and {batch}: does your function use `batch`?")


def _as_run(fit: Fit, run_at: Callable[[int], WholeStep]) -> bool:
    """Whether the largest batch, run itself, needs the bytes that were found."""
    if fit.need is None:
        return True
    schedule = None if fit.strategy == "none" or max(fit.need.schedule.forwards()) == 1 else fit.need.schedule
    return run_at(fit.batch).run(schedule).peak == fit.need.nbytes


def _possible(step: WholeStep, strategies: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Without a chain there is nothing to recompute: say so, and answer the rest."""
    if strategies == ("none",):
        return strategies, ()
    try:
        names = step.chain.names
    except CkptError as error:
        if "none" not in strategies:
            raise
        return ("none",), (f"Nothing was recomputed: {error}.",)
    return strategies, (f"Recomputed are blocks of {len(names)}: {names[0]} … {names[-1]}.",)


@dataclass
class OwnQuestion(Question):
    """As `Question`, with every step run."""

    step_at: Callable[[int], WholeStep] = field(kw_only=True)

    def need(self, batch: int) -> Need:
        step, found = self.step_at(batch), self._found(batch)
        schedule = found.schedule
        extra = step.extra(schedule) if schedule else 0.0
        return Need(batch, _window(found.measured), _parts(found.measured), extra, schedule or store_all(1), False)

    def _least(self, batch: int) -> int:
        step = self.step_at(batch)
        if self.strategy != "planned":
            return self._found(batch).peak
        return min(step.least.peak, step.run().peak)

    def _found(self, batch: int) -> Found:
        step = self.step_at(batch)
        if self.strategy == "none":
            return step.run()
        if self.strategy == "full":
            return step.run(each_again(step.costs.n))
        try:
            return step.within(self.nbytes)
        except NoPlanFits:
            return step.least


def each_again(n: int) -> Schedule:
    """Keep every stage's input, and run each again when its turn comes."""
    again = [(kind, i) for i in reversed(range(n)) for kind in (RESTORE, KEEP_ALL, BACKWARD)]
    return Schedule(n, [(KEEP_INPUT, i) for i in range(n)] + again)


def _converted(training: Training, precision: str) -> Training:
    if precision == AS_BUILT:
        return training
    dtype = torch.float32 if precision == "fp32" else torch.bfloat16

    def to(x: Any) -> Any:
        return x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x

    return replace(training, model=training.model.to(dtype), inputs=tree_map(to, training.inputs))


def _parts(measured: Measurement) -> dict[str, int]:
    return parts(measured.timeline, measured.timeline.peak_moment)


def _window(measured: Measurement) -> str:
    """When the step is fullest: the phase, and the module that is at work."""
    moment = measured.timeline.peak_moment
    if moment < 0:
        return "state before the step"
    change = measured.timeline.changes[moment]
    module = measured.trace.ops[change.op].module if change.op >= 0 else ""
    phase = {"optimizer": "update", "recompute": "recomputed forward"}.get(change.phase, change.phase)
    return f"{phase} of {module}" if module and phase != "update" else phase
