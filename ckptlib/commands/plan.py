"""What does `ckptlib plan` do? Plan for your model, or for a chain whose costs are in a file; print it."""

from __future__ import annotations

import argparse
import difflib
import json
from dataclasses import MISSING, fields
from typing import Any

from ..errors import CkptError
from ..planning.optimal_schedule import BudgetTooSmall, optimal, smallest_budget
from ..planning.schedule import LEGEND, Schedule
from ..planning.stage_costs import Costs
from .output import save_plot

NAMES = [field.name for field in fields(Costs)]
REQUIRED = [field.name for field in fields(Costs) if field.default is MISSING]
BOOLEANS = ("saves_x", "saves_y", "once")


def plan_command(args: argparse.Namespace) -> tuple[str, int]:
    """The text to print, and the exit code, which is 1 if no schedule fits in the budget and 0 otherwise."""
    if (args.target is None) == (args.chain is None):
        raise CkptError("plan needs a model of yours, as package.module:function, or --chain FILE.json, and not both")
    if args.budget is not None and args.budget < 0:
        raise CkptError(f"the budget is {args.budget}, expected a number of bytes, 0 or more")
    if args.write and (args.budget is None or args.chain is not None):
        raise CkptError("--write needs --budget BYTES and a model of yours, because one plan of a model is written")
    if args.chain is None:
        from .plan_model import plan_model  # which needs torch, as a file of costs does not

        return plan_model(args)
    if args.budget is None:
        raise CkptError("plan --chain needs --budget BYTES")
    return plan_chain(args)


def plan_chain(args: argparse.Namespace) -> tuple[str, int]:
    costs = read_chain(args.chain)
    try:
        schedule = optimal(costs, args.budget)
    except BudgetTooSmall as error:
        answer = {"feasible": False, "budget": args.budget, "smallest_budget": error.smallest}
        return (json.dumps(answer, indent=2) if args.json else str(error)), 1
    answer = as_json(schedule, costs, args.budget)
    if args.plot:
        from .. import figures

        save_plot(lambda: figures.schedule(schedule, costs), args.plot)
    return (json.dumps(answer, indent=2) if args.json else as_text(schedule, answer)), 0


def read_chain(path: str) -> Costs:
    """The costs in a JSON file: an object with the names of `Costs`, all of them lists but dy_at_start."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except OSError as error:
        raise CkptError(f"cannot read the chain: {error}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CkptError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise CkptError(f"{path} holds a {type(found).__name__}, expected an object with {', '.join(REQUIRED)}")
    for name, values in found.items():
        _check_entry(path, name, values)
    if missing := [name for name in REQUIRED if name not in found]:
        raise CkptError(f"{path} has no {', '.join(missing)}")
    return Costs(**found)


def _check_entry(path: str, name: str, values: Any) -> None:
    """What `Costs` does not look at: names, lists, and booleans, where it would take "no" and "false" for true."""
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1)
        hint = f". Did you mean {near[0]}?" if near else ""
        raise CkptError(f"{path} has {name!r}, expected only {', '.join(NAMES)}{hint}")
    booleans = name in BOOLEANS
    if name != "dy_at_start" and not isinstance(values, list):
        raise CkptError(f"{name} in {path} is {values!r}, expected a list of {'booleans' if booleans else 'numbers'}")
    given = {name: values} if name == "dy_at_start" else {f"{name}[{i}]": v for i, v in enumerate(values) if booleans}
    for place, value in given.items():
        if not isinstance(value, bool):
            raise CkptError(f"{place} in {path} is {json.dumps(value)}, expected true or false")


def as_json(schedule: Schedule, costs: Costs, budget: int) -> dict:
    cost = schedule.cost(costs)
    return {
        "feasible": True,
        "budget": budget,
        "makespan": cost.time,
        "peak": cost.peak,
        "forwards": cost.forwards,
        "smallest_budget": smallest_budget(costs),
        "actions": [list(action) for action in schedule.actions],
    }


def as_text(schedule: Schedule, answer: dict) -> str:
    facts = [f"{name.replace('_', ' '):16} {answer[name]:,}" for name in ("makespan", "peak", "forwards", "budget")]
    note = [] if answer["makespan"] else ["All times are 0: planned with 1 for each forward."]
    return "\n".join([*facts, *note, "", schedule.draw(), "", LEGEND])
