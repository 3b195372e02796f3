"""What does `ckptlib plan` do? Of a model of yours, or of a chain's costs in a file: plan, print the schedule."""

from __future__ import annotations

import argparse
import json

from .command_parts import save_plot
from .errors import CkptError
from .recompute.costs import Costs
from .recompute.optimal import BudgetTooSmall, optimal, smallest_budget
from .recompute.schedule import LEGEND, Schedule

REQUIRED, OPTIONAL = ("ftime", "btime", "x", "xbar"), ("dx", "ftmp", "btmp", "atmp")


def plan_command(args: argparse.Namespace) -> tuple[str, int]:
    """What to print, and the exit code: 0, or 1 if no schedule fits in the budget."""
    if (args.target is None) == (args.chain is None):
        raise CkptError("plan needs a model of yours, as package.module:function, or --chain FILE.json, and not both")
    if args.budget is not None and args.budget < 0:
        raise CkptError(f"the budget is {args.budget}, expected a number of bytes, 0 or more")
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
        from . import plots

        save_plot(lambda: plots.schedule(schedule, costs), args.plot)
    return (json.dumps(answer, indent=2) if args.json else as_text(schedule, answer)), 0


def read_chain(path: str) -> Costs:
    """The costs in a JSON file of lists: ftime, btime, x, xbar, and if wanted dx, ftmp, btmp, atmp."""
    try:
        with open(path) as file:
            found = json.load(file)
    except OSError as error:
        raise CkptError(f"cannot read the chain: {error}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CkptError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise CkptError(f"{path} holds a {type(found).__name__}, expected an object with {', '.join(REQUIRED)}")
    lists = {name: found[name] for name in (*REQUIRED, *OPTIONAL) if name in found}
    if missing := [name for name in REQUIRED if name not in lists]:
        raise CkptError(f"{path} has no {', '.join(missing)}")
    for name, values in lists.items():
        if not isinstance(values, list):
            raise CkptError(f"{name} in {path} is {values!r}, expected a list of numbers")
    return Costs(**lists)


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
    return "\n".join([*facts, "", schedule.draw(), "", LEGEND])
