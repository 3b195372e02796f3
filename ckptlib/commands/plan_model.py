"""What does `ckptlib plan TARGET` do? Find the model's chain, plan it, run the step by the plan, print its needs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import accumulate, groupby
from math import inf

import torch

from ..planning.costs import Costs
from ..planning.nested_checkpoints import Calls, brackets, nested_calls
from ..planning.plan import planned
from ..planning.schedule import KEEP_INPUT, LEGEND, Schedule
from ..planning.whole_step import Found, NoPlanFits, WholeStep
from ..remember.training_step import Training
from ..tables import Table, mib
from .measure import chosen_gpu
from .output import bar, save_plot
from .target import Target, own_code

OFFERS = 6  # plans to choose from, where no budget is given
WIDEST = 100  # actions; a longer schedule is not drawn in text


def plan_model(args: argparse.Namespace) -> tuple[str, int]:
    """What to print, and the exit code: 0; 1 if no plan fits in the budget, or if it does not train the same."""
    target = Target(args.target)
    with bar("planning", "runs") as count, own_code(f"the step of {args.target} failed"):
        whole = WholeStep(target.training, args.device, chosen_gpu(args), args.fake, tick=count.update)
        whole.run()  # as it is, before anything is looked for: what is wrong with it, it tells here
        if args.budget is None:
            return _offers(whole, args), 0
        try:
            found = whole.within(args.budget)
        except NoPlanFits as error:
            answer = {"feasible": False, "budget": args.budget, "smallest_budget": error.smallest}
            return (json.dumps(answer, indent=2) if args.json else str(error)), 1
        same = None if args.fake else _trains_the_same(target.training(), whole, found.plan)
    if args.plot:
        from .. import figures

        save_plot(lambda: figures.schedule(found.plan, whole.costs, whole.unit), args.plot)
    answer = as_json(whole, found, args.budget, same)
    return (json.dumps(answer, indent=2) if args.json else as_text(whole, found, answer)), int(same is False)


# ---- with a budget --------------------------------------------------------------------------------------------------
def as_json(whole: WholeStep, found: Found, budget: int, same: bool | None) -> dict:
    cost = found.plan.cost(whole.costs)
    return {
        "feasible": True,
        "budget": budget,
        "step_peak": found.peak,
        "step_peak_without_plan": whole.all_kept.peak,
        "chain_peak": cost.peak,
        "chain_peak_without_plan": whole.all_kept.plan.cost(whole.costs).peak,
        "time_unit": whole.unit,
        "extra_time": whole.extra(found.plan),
        "same_gradients": same,
        "stages": whole.chain.names,
        "forwards": found.plan.forwards(),
        "calls": nested_calls(found.plan),
        "calls_may_add": _held_longer(found.plan, whole.costs),
        "actions": [list(action) for action in found.plan.actions],
    }


def as_text(whole: WholeStep, found: Found, answer: dict) -> str:
    rows = [
        ("budget", answer["budget"]),
        ("step with the plan, measured", answer["step_peak"]),
        ("step without it, measured", answer["step_peak_without_plan"]),
        ("chain with the plan, predicted", answer["chain_peak"]),
        ("chain without it, predicted", answer["chain_peak_without_plan"]),
    ]
    again = sum(answer["forwards"]) - whole.costs.n
    notes = [f"Run again: {again} forward{'s' * (again != 1)}, {_percent(whole, found.plan)}."]
    if answer["same_gradients"] is not None:
        verdict = "the same as" if answer["same_gradients"] else "OTHERS than"
        notes.append(f"Gradients with the plan, on this machine: {verdict} without it.")
    share = answer["chain_peak_without_plan"] / answer["step_peak_without_plan"]
    notes.append(f"The chain is {share:.0%} of the step: only that can be planned.")
    cells = [(what, nbytes, mib(nbytes)) for what, nbytes in rows]
    peaks = Table(f"peak on {found.measured.device}", ("what", "bytes", "MiB"), cells, notes)
    stages = Table(
        f"the chain: {whole.costs.n} stages",
        ("stage", "name", "type", "keeps, bytes", f"forward, {whole.unit}", "runs"),
        list(_stage_rows(whole, found.plan)),
        _what_to_call(answer["calls"], answer["calls_may_add"]),
    )
    drawn = [found.plan.draw(), LEGEND] if len(found.plan) <= WIDEST else []
    return "\n\n".join(map(str, (peaks, stages, *drawn)))


def _stage_rows(whole: WholeStep, schedule: Schedule) -> Iterator[tuple]:
    """One row for stages in a row that are alike."""
    c, runs, blocks = whole.costs, schedule.forwards(), whole.chain.blocks
    alike = [(type(block).__name__, nbytes, times) for block, nbytes, times in zip(blocks, c.xbar, runs, strict=True)]
    for (kind, nbytes, times), group in groupby(range(c.n), key=alike.__getitem__):
        members = list(group)
        time = sum(c.ftime[i] for i in members) / len(members)
        names = [whole.chain.names[i] for i in members]
        yield _ends(list(map(str, members))), _ends(names), kind, nbytes, _amount(time), times


def _what_to_call(calls: Calls, may_add: int) -> list[str]:
    lines = [f"Call: {brackets(calls)}"]
    if not all(isinstance(call, int) for call in calls):
        lines.append("[ ] is one torch.utils.checkpoint.checkpoint around all that is in it.")
    if may_add:
        lines.append(f"It holds its input until its backward is done: {may_add:,} bytes more, if the peak is then.")
    return lines


def _held_longer(schedule: Schedule, costs: Costs) -> int:
    """Bytes that a checkpoint of torch's may add to the peak. Ours drops a kept input when the stage has used it."""
    inputs = {stage for kind, stage in schedule.actions if kind == KEEP_INPUT} - {0}  # that of 0 is the caller's
    return max((costs.x[stage] for stage in inputs), default=0)


def _ends(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"


def _amount(time: float) -> str:
    """Seconds or FLOPs, to three digits."""
    return f"{time:,.0f}" if time >= 1000 else f"{time:.3g}"


def _percent(whole: WholeStep, schedule: Schedule) -> str:
    of = "FLOPs" if whole.unit == "FLOPs" else "of the chain's time"
    return f"+{100 * whole.extra(schedule):.1f} % {of}"


def _trains_the_same(training: Training, whole: WholeStep, schedule: Schedule) -> bool:
    """Whether one step, by the plan, leaves the gradients that the plain step leaves, on the CPU."""
    gradients = []
    training.model.zero_grad()
    state = {name: t.clone() for name, t in training.model.state_dict().items() if isinstance(t, torch.Tensor)}
    with torch.random.fork_rng():
        for steps in (training.passes(), training.passes(planned(training.model, whole.chain, schedule))):
            torch.manual_seed(0)
            steps()
            gradients.append([p.grad for p in training.model.parameters()])
            training.model.zero_grad()
            training.model.load_state_dict(state, strict=False)
    return all(_close(a, b) for a, b in zip(*gradients, strict=True))


def _close(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    a, b = a.to_dense(), b.to_dense()  # an embedding's may be sparse
    finite = a[a.isfinite()]  # a model that has diverged is planned for, too
    largest = finite.abs().max().item() if finite.numel() else 0.0
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5 * largest, equal_nan=True)


# ---- without a budget -----------------------------------------------------------------------------------------------
def _offers(whole: WholeStep, args: argparse.Namespace) -> str:
    """Plans from the most frugal one to none, each of which was run and measured."""
    peaks = {plan: plan.cost(whole.costs).peak for plan in whole.plans}
    low, high = min(peaks.values()), whole.all_kept.plan.cost(whole.costs).peak
    marks = [low + (high - low) * i // (OFFERS - 1) for i in range(OFFERS - 1)]
    fastest = [[plan for plan in whole.plans if peaks[plan] <= mark][-1] for mark in marks]
    found = [*map(whole.run, fastest), whole.all_kept]

    def time(one: Found) -> float:
        return one.plan.cost(whole.costs.timed).time

    found = sorted(found, key=lambda one: (one.peak, time(one)))
    best = accumulate(map(time, found), min, initial=inf)
    found = [one for one, before in zip(found, best, strict=False) if time(one) < before]
    if args.plot:
        from .. import figures

        points = [(one.peak, 100 * whole.extra(one.plan)) for one in found]
        save_plot(lambda: figures.pareto({"plans": points}, f"run again (% {whole.unit})"), args.plot)
    again = [sum(one.plan.forwards()) - whole.costs.n for one in found]
    if args.json:
        plans = [
            {"step_peak": one.peak, "forwards_again": times, "extra_time": whole.extra(one.plan)}
            for one, times in zip(found, again, strict=True)
        ]
        return json.dumps({"stages": whole.chain.names, "time_unit": whole.unit, "plans": plans}, indent=2)
    rows = [(o.peak, mib(o.peak), n, _percent(whole, o.plan)) for o, n in zip(found, again, strict=True)]
    names = whole.chain.names
    title = f"plans for {len(names)} stages, {_ends(names)}: the step on {found[0].measured.device}"
    columns = ("peak, bytes", "MiB", "forwards again", "cost")
    return str(Table(title, columns, rows, ["Choose one: --budget BYTES, for the whole step."]))
