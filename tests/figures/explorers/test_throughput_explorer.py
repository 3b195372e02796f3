"""Does the explorer of throughput tell what the roofline says, and does it move when a knob does?"""

import ipywidgets as widgets
import pytest

from ckptlib.cuda.gpus import SPEEDS, speed_of
from ckptlib.figures.explorers.throughput import (
    TOKENS,
    in_words,
    largest,
    step_seconds,
    throughput,
    throughput_explorer,
    throughput_figure,
)
from ckptlib.fitting.fit import fit
from ckptlib.fitting.step_times import passes, update
from ckptlib.models.configs import GPT2_XL
from ckptlib.models.formulas import STRATEGIES

pytestmark = pytest.mark.slow


def test_a_curve_ends_at_the_largest_batch_that_fits():
    found = throughput("a100-40gb")
    assert {name: max(curve) for name, curve in found.items()} == {s: largest("a100-40gb", s) for s in STRATEGIES}
    assert largest("a100-40gb", "none") == fit("gpt2-xl", "a100-40gb").batch == 2


@pytest.mark.parametrize(("strategy", "batch"), [("none", 6), ("selective", 21), ("full", 100)])
def test_the_seconds_are_those_of_the_whole_step(strategy, batch):
    """They are computed from those of one sequence and of two."""
    run = passes(GPT2_XL, batch, strategy).seconds(speed_of("a100"))
    whole = run + update(GPT2_XL).seconds(speed_of("a100"))
    assert step_seconds("a100", batch, strategy) == pytest.approx(whole, rel=1e-3)
    assert step_seconds("a100", batch, strategy, wait=100) == pytest.approx(100 + whole - run)


def test_the_words_compare_the_ends_of_the_curves():
    ends = {name: curve[max(curve)] for name, curve in throughput("a100-40gb").items()}
    words = in_words("a100-40gb")
    assert f"{max(ends.values()):,.0f} tokens per second" in words
    assert f"{max(ends.values()) / ends['none'] - 1:.0%} more" in words
    assert in_words("a100", fused=True).startswith("Recomputing does not pay here")
    assert in_words("a100", wait=5.0).startswith("Recomputing pays: full")
    assert throughput_figure("a100", wait=5.0).alt == in_words("a100", wait=5.0)


def test_where_the_network_decides_a_batch_costs_nothing_until_it_computes_longer():
    found = throughput("a100", wait=2.0)["full"]
    assert found[8] == pytest.approx(8 * found[1]) and found[8] == pytest.approx(
        TOKENS * 8 / step_seconds("a100", 8, "full", wait=2.0)
    )
    assert found[128] < 10 * found[16]


def test_every_knob_changes_the_figure_and_the_words():
    box = throughput_explorer()
    knobs = {knob.description: knob for row in box.children[:2] for knob in getattr(row, "children", [row])}
    figure, words = box.children[2:]
    assert isinstance(words, widgets.HTML) and figure.value.startswith("<svg")
    assert list(knobs["GPU"].options) == list(SPEEDS)
    for description, value in {"attention": True, "GPU": "h100", "wait per step (s)": 5.0}.items():
        before = figure.value, words.value
        knobs[description].value = value
        assert figure.value != before[0] and words.value != before[1], description
