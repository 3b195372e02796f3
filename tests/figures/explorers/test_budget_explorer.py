"""Does the budget explorer tell the truth, and does it move when a knob does? No kernel is needed."""

import time

import ipywidgets as widgets
import pytest

import ckptlib as ck
from ckptlib.figures.explorers.budget import (
    budget_explorer,
    budgets,
    curves,
    in_words,
    place_figure,
    planned,
    schedule_figure,
)
from ckptlib.planning.optimal_schedule import BudgetTooSmall, optimal

KIB = 1024
UNEQUAL = ck.Costs(
    ftime=[1, 5, 5, 2, 5, 5],
    btime=[1, 10, 10, 4, 10, 10],
    x=[KIB * size for size in (3, 64, 64, 64, 16, 16, 16)],
    xbar=[KIB * size for size in (128, 128, 128, 32, 32, 32)],
)
CHAINS = {"unequal stages": UNEQUAL, "equal stages": ck.Costs.unit(8)}


@pytest.mark.parametrize("costs", CHAINS.values(), ids=CHAINS)
def test_the_budgets_begin_where_something_fits_and_end_where_everything_is_kept(costs):
    low, *_, high = budgets(costs)
    with pytest.raises(BudgetTooSmall):
        optimal(costs, low - 1)
    assert planned(costs, low).cost(costs).peak == low
    assert planned(costs, high) == ck.store_all(costs.n)
    assert planned(costs, high - 1) != ck.store_all(costs.n)


@pytest.mark.parametrize("costs", CHAINS.values(), ids=CHAINS)
def test_no_other_schedule_lies_below_the_curve_and_every_plan_lies_on_it(costs):
    found, plain = curves(costs), sum(costs.ftime) + sum(costs.btime)
    for name in ("√n segments", "checkpoint_sequential"):
        for peak, work in found[name]:
            assert min(w for b, w in found["planned"] if b <= peak) <= work
    for budget in budgets(costs):
        work = planned(costs, budget).cost(costs).time / plain
        assert work == pytest.approx(min(w for b, w in found["planned"] if b <= budget))


def test_the_words_say_what_the_plan_needs_and_repeats():
    low, *_, high = budgets(UNEQUAL)
    assert "nothing is run again" in in_words(UNEQUAL, high)
    plan = planned(UNEQUAL, low)
    again = 100 * (plan.cost(UNEQUAL).time / 68 - 1)
    words = in_words(UNEQUAL, low)
    assert f"{again:.1f} % more work" in words and f"more than {max(plan.forwards())} times" in words
    assert schedule_figure(UNEQUAL, low).alt == words
    assert "this budget" in place_figure(UNEQUAL, low).alt


def test_every_knob_changes_the_figures_and_the_words():
    box = budget_explorer(CHAINS)
    choice, slider, *shown = box.children
    assert isinstance(choice, widgets.Dropdown) and choice.description and slider.description
    for knob, name, value in ((slider, "index", 0), (choice, "value", "equal stages"), (slider, "index", 5)):
        before = [part.value for part in shown]
        setattr(knob, name, value)
        assert all(part.value != was for part, was in zip(shown, before, strict=True)), (knob.description, value)
    words, plan, place = shown
    assert words.value == in_words(CHAINS["equal stages"], slider.value)
    assert plan.value.startswith("<svg") and place.value.startswith("<svg")
    assert [budget for _, budget in slider.options] == budgets(CHAINS["equal stages"])


def test_a_move_is_quick():
    slider = budget_explorer(CHAINS).children[1]
    start = time.process_time()
    for index in range(5):
        slider.index = index
    assert time.process_time() - start < 5 * 4  # 0.15 s each on an idle machine
