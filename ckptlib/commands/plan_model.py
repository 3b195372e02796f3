"""What does `ckptlib plan TARGET` do? Find the model's chain, plan it, run the step by the plan, print its needs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import groupby

import torch

from ..errors import CkptError
from ..planning.apply import apply, write_plan
from ..planning.budget_search import NoPlanFits, WholeStep
from ..planning.module_plan import ModulePlan
from ..planning.nested_checkpoints import Calls, brackets, nested_calls
from ..planning.plan import Plan, plan
from ..planning.schedule import LEGEND, SAVE_INPUT, Schedule
from ..planning.stage_costs import Costs
from ..remember.user_models import Training
from ..tables import Table
from ..units import mib
from .measure import chosen_gpu
from .output import save_plot
from .target import Target
from .user_code_errors import own_code

WIDEST = 100  # actions; a longer schedule is not drawn in text


def plan_model(args: argparse.Namespace) -> tuple[str, int]:
    """The text to print, and the exit code, which is 1 if no plan fits in the budget or the plan trains differently."""
    target = Target(args.target)
    how = {"device": args.device, "gpu": chosen_gpu(args), "fake": args.fake}
    with own_code(f"the step of {args.target} failed"):
        if args.budget is None:
            any_budget = plan(target.training, **how)
            if isinstance(any_budget, ModulePlan):
                return _module_offers(any_budget.offers, args), 0
            return _offers(any_budget.offers, args), 0
        try:
            found = plan(target.training, budget=args.budget, **how)
        except NoPlanFits as error:
            answer = {"feasible": False, "budget": args.budget, "smallest_budget": error.smallest}
            return (json.dumps(answer, indent=2) if args.json else str(error)), 1
        same = None if args.fake else _trains_the_same(target.training(), found)
    if isinstance(found, ModulePlan):
        if args.plot:
            raise CkptError("--plot draws a schedule, and this plan has none. Leave out --budget to draw all plans")
        answer = modules_as_json(found, same)
        text = "\n".join([str(found), *([] if same is None else [_verdict(same)])])
    else:
        if args.plot:
            from .. import figures

            schedule, costs, unit = found.schedule, found.costs, found.whole.unit
            save_plot(lambda: figures.schedule(schedule, costs, unit), args.plot)
        answer = as_json(found, same)
        text = "" if args.json else as_text(found, answer)
    text = json.dumps(answer, indent=2) if args.json else text
    if args.write:
        write_plan(found, args.write)
        if not args.json:
            text += f"\n\nWritten: {args.write}. In your training: ck.apply(model, {args.write!r})"
    return text, int(same is False)


# ---- with a budget --------------------------------------------------------------------------------------------------
def as_json(found: Plan, same: bool | None) -> dict:
    whole = found.whole
    return {
        "feasible": True,
        "budget": found.budget,
        "step_peak": found.peak,
        "step_peak_without_plan": whole.all_saved.peak,
        "chain_peak": found.chain_peak,
        "chain_peak_without_plan": whole.all_saved.plan.cost(whole.costs).peak,
        "time_unit": whole.unit,
        "extra_time": found.extra,
        "same_gradients": same,
        "stages": whole.chains.names,
        "forwards": found.schedule.forwards(),
        "calls": nested_calls(found.schedule),
        "calls_may_add": _held_longer(found.schedule, whole.costs),
        "actions": [list(action) for action in found.schedule.actions],
    }


def modules_as_json(found: ModulePlan, same: bool | None) -> dict:
    return {
        "feasible": True,
        "budget": found.budget,
        "step_peak": found.peak,
        "step_peak_without_plan": found.plain_peak,
        "time_unit": "FLOPs",
        "extra_time": found.extra,
        "same_gradients": same,
        "checkpoint": [module._asdict() for module in found.modules],
        "no_chain_because": found.why,
    }


def _verdict(same: bool) -> str:
    return f"Gradients with the plan, on this machine: {'the same as' if same else 'OTHERS than'} without it."


def as_text(found: Plan, answer: dict) -> str:
    whole, several = found.whole, len(found.whole.chains.rows) > 1
    chain = "chains" if several else "chain"
    rows = [
        ("budget", answer["budget"]),
        ("step with the plan, measured", answer["step_peak"]),
        ("step without it, measured", answer["step_peak_without_plan"]),
        (f"{chain} with the plan, predicted", answer["chain_peak"]),
        (f"{chain} without it, predicted", answer["chain_peak_without_plan"]),
    ]
    again = sum(answer["forwards"]) - whole.costs.n
    notes = [f"Run again: {again} forward{'s' * (again != 1)}, {_percent(found)}."]
    if answer["same_gradients"] is not None:
        notes.append(_verdict(answer["same_gradients"]))
    share = answer["chain_peak_without_plan"] / answer["step_peak_without_plan"]
    notes.append(f"The {chain} {'are' if several else 'is'} {share:.0%} of the step: only that can be planned.")
    notes += _unknown(whole)
    cells = [(what, nbytes, mib(nbytes)) for what, nbytes in rows]
    peaks = Table(f"peak on {whole.run().measured.device}", ("what", "bytes", "MiB"), cells, notes)
    stages = Table(
        f"the {chain}: {whole.costs.n} stages",
        ("stage", "name", "type", "saves, bytes", f"forward, {whole.unit}", "runs"),
        list(_stage_rows(whole, found.schedule)),
        _what_to_call(answer["calls"], answer["calls_may_add"]),
    )
    drawn = [found.schedule.draw(), LEGEND] if len(found.schedule) <= WIDEST else []
    return "\n\n".join(map(str, (peaks, stages, *drawn)))


def _stage_rows(whole: WholeStep, schedule: Schedule) -> Iterator[tuple]:
    """One row for stages in a row that are alike."""
    c, runs, blocks = whole.costs, schedule.forwards(), whole.chains.blocks
    of_chain = [number for number, row in enumerate(whole.chains.rows) for _ in row.blocks]
    kinds = (type(block).__name__ for block in blocks)
    alike = list(zip(of_chain, kinds, c.xbar, runs, strict=True))
    for (_, kind, nbytes, times), group in groupby(range(c.n), key=alike.__getitem__):
        members = list(group)
        time = sum(c.ftime[i] for i in members) / len(members)
        names = [whole.chains.names[i] for i in members]
        yield _ends(list(map(str, members))), _ends(names), kind, nbytes, _amount(time), times


def _what_to_call(calls: Calls, may_add: int) -> list[str]:
    lines = [f"Call: {brackets(calls)}"]
    if not all(isinstance(call, int) for call in calls):
        lines.append("[ ] is one torch.utils.checkpoint.checkpoint around everything in the brackets.")
    if may_add:
        lines.append(f"It holds its input until its backward is done. A peak at that time is {may_add:,} bytes higher.")
    return lines


def _held_longer(schedule: Schedule, costs: Costs) -> int:
    """Bytes that a checkpoint of torch's may add to the peak. Ours drops a saved input when the stage has used it."""
    inputs = {stage for kind, stage in schedule.actions if kind == SAVE_INPUT} - {0}  # that of 0 is the caller's
    return max((costs.x[stage] for stage in inputs), default=0)


def _ends(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"


def _and(whole: WholeStep) -> str:
    return " and ".join(_ends(row.names) for row in whole.chains.rows)


def _amount(time: float) -> str:
    """Seconds or FLOPs, to three digits."""
    return f"{time:,.0f}" if time >= 1000 else f"{time:.3g}"


def _percent(found: Plan) -> str:
    of = "FLOPs" if found.whole.unit == "FLOPs" else "of the chain's time"
    return f"+{100 * found.extra:.1f} % {of}"


def _trains_the_same(training: Training, found: Plan | ModulePlan) -> bool:
    """Whether one step, by the plan, leaves the gradients that the plain step leaves, on the CPU."""
    gradients = []
    training.model.zero_grad()
    state = {name: t.clone() for name, t in training.model.state_dict().items() if isinstance(t, torch.Tensor)}
    with torch.random.fork_rng():
        for planned in (False, True):
            torch.manual_seed(0)
            if planned:
                apply(training.model, found)
            training.passes()()
            gradients.append([p.grad for p in training.model.parameters()])
            training.model.zero_grad()
            training.model.load_state_dict(state, strict=False)
    return all(_close(a, b) for a, b in zip(*gradients, strict=True))


def _close(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    a, b = a.to_dense(), b.to_dense()  # an embedding's may be sparse
    finite = a[a.isfinite()]  # a model that has diverged is planned for as well
    largest = finite.abs().max().item() if finite.numel() else 0.0
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5 * largest, equal_nan=True)


# ---- without a budget -----------------------------------------------------------------------------------------------
def _offers(found: list[Plan], args: argparse.Namespace) -> str:
    whole = found[0].whole
    if args.plot:
        from .. import figures

        points = [(one.peak, 100 * one.extra) for one in found]
        save_plot(lambda: figures.pareto({"plans": points}, f"run again (% {whole.unit})"), args.plot)
    again = [sum(one.schedule.forwards()) - whole.costs.n for one in found]
    if args.json:
        plans = [
            {"step_peak": one.peak, "forwards_again": times, "extra_time": one.extra}
            for one, times in zip(found, again, strict=True)
        ]
        return json.dumps({"stages": whole.chains.names, "time_unit": whole.unit, "plans": plans}, indent=2)
    rows = [(one.peak, mib(one.peak), times, _percent(one)) for one, times in zip(found, again, strict=True)]
    names = whole.chains.names
    title = f"plans for {len(names)} stages, {_and(whole)}: the step on {whole.run().measured.device}"
    columns = ("peak, bytes", "MiB", "forwards again", "cost")
    notes = ["Choose one: --budget BYTES, for the whole step.", *_unknown(whole)]
    return str(Table(title, columns, rows, notes))


def _module_offers(found: list[ModulePlan], args: argparse.Namespace) -> str:
    if args.plot:
        from .. import figures

        points = [(one.peak, 100 * one.extra) for one in found]
        save_plot(lambda: figures.pareto({"plans": points}, "run again (% FLOPs)"), args.plot)
    if args.json:
        plans = [{"step_peak": one.peak, "checkpoint": one.paths, "extra_time": one.extra} for one in found]
        return json.dumps({"no_chain_because": found[0].why, "time_unit": "FLOPs", "plans": plans}, indent=2)
    rows = [(one.peak, mib(one.peak), len(one.paths), f"+{100 * one.extra:.1f} % FLOPs") for one in found]
    measured = found[0].search.step.run().measured
    notes = [
        f"Modules are checkpointed one by one, because {found[0].why}.",
        "Choose one: --budget BYTES, for the whole step.",
        *measured.notes,
    ]
    columns = ("peak, bytes", "MiB", "modules", "cost")
    return str(Table(f"plans for single modules: the step on {measured.device}", columns, rows, notes))


def _unknown(whole: WholeStep) -> list[str]:
    measured = whole.run().measured
    return [*measured.notes, *(f"{op}: {why}" for op, why in measured.unknowns.items())]
