"""Does the schedule explorer tell the truth, and does it move when a knob does? No kernel is needed."""

import ipywidgets as widgets
import pytest

from ckptlib.figures.explorers.schedule import (
    ALONE,
    BUILDERS,
    DRAWN,
    LONGEST,
    RECOMPUTE,
    REVOLVE,
    SAVED,
    STORE,
    curve,
    in_words,
    pareto_figure,
    point,
    schedule_explorer,
)
from ckptlib.planning.known_schedules import extra_forwards


def test_its_points_are_the_literatures():
    assert point(STORE, 20, 1) == (21, 20)
    assert point(RECOMPUTE, 20, 1) == (3, 210)
    assert point(SAVED, 16, 4) == (4 + 4, 2 * 16 - 4)
    assert point(ALONE, 16, 4) == (4 + 2, 12 + 4 * 10)
    assert point(REVOLVE, 20, 3) == (5, 20 + extra_forwards(20, 3))


@pytest.mark.parametrize("strategy", BUILDERS)
@pytest.mark.parametrize("n", [2, 3, 17, LONGEST])
def test_a_curve_only_falls_and_no_point_of_its_strategy_lies_below(strategy, n):
    found = curve(strategy, n)
    assert all(p < q and f > g for (p, f), (q, g) in zip(found, found[1:], strict=False))
    for slots in (k for k in DRAWN if k <= n):
        peak, forwards = point(strategy, n, slots)
        assert any(p <= peak and f <= forwards for p, f in found)


def test_the_sentence_says_who_is_better():
    assert in_words(16, 4, SAVED).startswith("16 stages: 28 forwards, 1.75 for each stage; at most 8 activations.")
    assert "Revolve" in in_words(16, 4, ALONE)  # fewer forwards, as many activations
    assert in_words(16, 4, STORE).endswith("No point drawn beats it in both.")
    assert pareto_figure(16, 4, ALONE).alt.endswith(in_words(16, 4, ALONE))


def parts(box):
    choice, (length, number) = box.children[0], box.children[1].children
    return (choice, length, number), box.children[2:]


def test_moving_a_knob_redraws_pictures_and_words():
    knobs, shown = parts(schedule_explorer())
    assert all(knob.description for knob in knobs) and isinstance(knobs[0], widgets.Dropdown)
    assert "<svg" in shown[1].value and "<svg" in shown[2].value
    for knob, value in zip(knobs, (REVOLVE, 12, 3), strict=True):
        before = [each.value for each in shown]
        knob.value = value
        assert all(each.value != old for each, old in zip(shown, before, strict=True))
    assert shown[0].value == in_words(12, 3, REVOLVE)


def test_slots_never_exceed_the_stages_and_are_off_where_there_is_nothing_to_choose():
    (choice, length, number), shown = parts(schedule_explorer(n=16, slots=12))
    length.value = 5
    assert (number.max, number.value) == (5, 5) and shown[0].value == in_words(5, 5, SAVED)
    choice.value = STORE
    assert number.disabled
    choice.value = REVOLVE
    assert not number.disabled


@pytest.mark.slow
@pytest.mark.parametrize("strategy", BUILDERS)
def test_the_shortest_and_the_longest_chain_can_be_drawn(strategy):
    for n in (2, LONGEST):
        (_, _, number), shown = parts(schedule_explorer(n=n, slots=1, strategy=strategy))
        number.value = n
        assert "<svg" in shown[1].value
