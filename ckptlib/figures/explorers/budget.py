"""What does a byte more or less buy? A budget moved along a chain: the planned schedule, and its place on the curve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from html import escape

import ipywidgets as widgets

from ...planning.known_schedules import sequential, sqrt, store_all
from ...planning.optimal_schedule import optimal, pareto, smallest_budget
from ...planning.schedule import FORWARDS, SAVE_ALL, Schedule
from ...planning.stage_costs import Costs
from ...units import size
from .. import schedules, tradeoffs
from ..styles import Drawing
from ._panel import look

STEPS = 40  # budgets on the slider


@cache
def budgets(costs: Costs) -> list[int]:
    """From the smallest that a schedule fits in to the one that saves everything, in equal steps."""
    low, high = smallest_budget(costs), store_all(costs.n).cost(costs).peak
    return sorted({low + (high - low) * step // STEPS for step in range(STEPS + 1)})


@cache
def planned(costs: Costs, budget: int) -> Schedule:
    return optimal(costs, budget)


@cache
def curves(costs: Costs) -> dict[str, list[tuple[int, float]]]:
    """(peak, work) of every plan, of √n and of torch's segments; work in units of a step that repeats nothing."""
    n, plain = costs.n, _plain(costs)
    root = sqrt(n).cost(costs)
    torchs = [sequential(n, k).cost(costs) for k in range(2, n + 1)]
    return {
        "planned": [(nbytes, time / plain) for nbytes, time in pareto(costs)],
        "√n segments": [(root.peak, root.time / plain)],
        "checkpoint_sequential": tradeoffs.unbeaten((cost.peak, cost.time / plain) for cost in torchs),
    }


def _plain(costs: Costs) -> float:
    return sum(costs.ftime) + sum(costs.btime)


def schedule_figure(costs: Costs, budget: int) -> Drawing:
    """The plan as boxes over time, in units of a step that repeats nothing; beneath it the bytes alive."""
    plan = planned(costs, budget)
    drawn = schedules.schedule(plan, _in_steps(costs), time="steps that repeat nothing")
    return Drawing(drawn.figure, in_words(costs, budget))


@cache
def _in_steps(costs: Costs) -> Costs:
    plain = _plain(costs)
    return replace(costs, ftime=[t / plain for t in costs.ftime], btime=[t / plain for t in costs.btime])


def place_figure(costs: Costs, budget: int) -> Drawing:
    """The plan's point among all plans, √n and `checkpoint_sequential`."""
    cost = planned(costs, budget).cost(costs)
    here = {"this budget": [(cost.peak, cost.time / _plain(costs))]}
    return tradeoffs.pareto(curves(costs) | here, time="work (steps that repeat nothing)")


def in_words(costs: Costs, budget: int) -> str:
    """How many bytes the plan needs, how much time it costs, and how many stages save everything in the first pass."""
    plan = planned(costs, budget)
    cost, runs = plan.cost(costs), max(plan.forwards())
    needs = f"Budget {size(budget)}: a peak of {size(cost.peak)}"
    if runs == 1:
        return f"{needs}, and nothing is run again."
    forwards = (action for action in reversed(plan.actions) if action.kind in FORWARDS)
    first = {action.stage: action.kind for action in forwards}  # the earliest one of each stage is the last to be set
    saved = sum(kind == SAVE_ALL for kind in first.values())
    more = 100 * (cost.time / _plain(costs) - 1)
    return (
        f"{needs}, {more:.1f} % more work than a step that repeats nothing. {saved} of {plan.n} stages save everything "
        f"when they first run; the others run again, and no stage more than {runs} times in all."
    )


def budget_explorer(chains: Mapping[str, Costs]) -> widgets.VBox:
    """Choose a chain, move the budget, see what is saved and what is run again. `chains` is {name: its costs}."""
    first = next(iter(chains.values()))
    choice = widgets.Dropdown(options=list(chains), description="chain", **look(300))
    slider = widgets.SelectionSlider(options=_options(first), description="budget", **look(560))
    slider.index = len(slider.options) // 3
    plan, place, words = widgets.HTML(), widgets.HTML(), widgets.HTML()

    def draw(_: object = None) -> None:
        costs, budget = chains[choice.value], slider.value
        plan.value, place.value = schedule_figure(costs, budget).svg(), place_figure(costs, budget).svg()
        words.value = escape(in_words(costs, budget))

    def change_chain(_: object) -> None:
        slider.unobserve(draw, names="value")
        slider.options = _options(chains[choice.value])  # forgets the value
        slider.index = len(slider.options) // 3
        slider.observe(draw, names="value")
        draw()

    choice.observe(change_chain, names="value")
    slider.observe(draw, names="value")
    draw()
    return widgets.VBox([choice, slider, words, plan, place])


def _options(costs: Costs) -> list[tuple[str, int]]:
    return [(size(budget), budget) for budget in budgets(costs)]
