"""Do curves and bars show the numbers that they were given? They are read back from what was drawn."""

import pytest

from ckptlib import figures
from ckptlib.errors import CkptError

HELD = {"remember": {2: 2, 64: 64}, "recompute": {2: 1, 64: 1}}
CALLS = {"remember": {2: 2, 64: 64}, "recompute": {2: 5, 64: 2080}}


def drawn(ax):
    """Label -> {x: y} of the curves; the dashes that lead to a name have no label of their own."""
    named = [line for line in ax.lines if not line.get_label().startswith("_")]
    return {line.get_label(): dict(zip(*line.get_data(), strict=True)) for line in named}


def test_curves_are_the_numbers_and_each_is_named_in_its_colour():
    panels = {("functions", "held"): HELD, ("functions", "calls"): CALLS}
    drawing = figures.curves(panels, "Two panels.", lines={"here": 8})
    left, right = (ax for ax in drawing.figure.axes if ax.get_xlabel())
    assert drawn(left) == HELD and drawn(right) == CALLS
    assert (left.get_ylabel(), right.get_ylabel()) == ("held", "calls")
    for ax in (left, right):
        assert {text.get_text() for text in ax.texts} == {"remember", "recompute", "here"}
        assert ax.get_ylim()[0] == 0
    assert drawing.svg() == figures.curves(panels, "Two panels.", lines={"here": 8}).svg()


def test_names_of_curves_that_end_together_do_not_overlap():
    drawing = figures.curves({("x", "y"): {name: {0: 0, 1: 1} for name in "abcde"}}, "Five.")
    ax = drawing.figure.axes[-1]
    places = sorted(text.get_position()[1] for text in ax.texts)
    inches = ax.get_position().height * drawing.figure.get_figheight()
    assert min(b - a for a, b in zip(places, places[1:], strict=False)) * inches >= 0.16


def test_logarithmic_axes_name_what_was_measured():
    drawing = figures.curves({("k", "peak"): {"n": {1: 0.07, 4: 2, 16: 20}}}, "Log.", log="xy")
    ax = drawing.figure.axes[-1]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "4", "16"]
    assert "10^" not in drawing.svg() and "mathtext" not in drawing.svg()


def test_bars_are_stacked_and_end_with_their_note():
    rows = {"none": {"kept": 3.0}, "cpu": {"kept": 1.0, "moved": 4.0}}
    drawing = figures.bars(rows, "MiB", "Two bars.", notes={"cpu": "exact"})
    (ax,) = drawing.figure.axes
    found = [(round(p.get_x(), 9), round(p.get_width(), 9)) for p in ax.patches]
    assert found == [(0, 3), (3, 0), (0, 1), (1, 4)]
    assert [text.get_text() for text in ax.texts] == ["3", "exact", "■ kept", "■ moved"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["none", "cpu"]


def test_nothing_and_too_much_are_refused():
    for draw in (lambda: figures.curves({}, ""), lambda: figures.curves({("x", "y"): {"a": {}}}, "")):
        with pytest.raises(CkptError, match="nothing to draw"):
            draw()
    with pytest.raises(CkptError, match="6 curves in one panel: 5 can be told apart"):
        figures.curves({("x", "y"): {name: {0: 1} for name in "abcdef"}}, "")
    with pytest.raises(CkptError, match="nothing to draw"):
        figures.bars({"a": {}}, "x", "")
    with pytest.raises(CkptError, match="6 parts in one picture"):
        figures.bars({"a": dict.fromkeys("abcdef", 1)}, "x", "")
