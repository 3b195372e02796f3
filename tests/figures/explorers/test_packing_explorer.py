"""Does the packing explorer tell the truth, and does it move when a knob does? No kernel is needed."""

import ipywidgets as widgets
import pytest

from ckptlib.figures.explorers.packing import (
    FEATURES,
    FUNCTIONS,
    ROWS,
    WAYS,
    in_words,
    packed,
    packing_explorer,
    packing_figure,
)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_bytes_are_what_the_bits_say_and_only_fewer_bits_cost_an_error(function):
    unit = 4 * ROWS * FEATURES
    units = {"ReLU": 3 + 1, "tanh": 3 + 1, "GELU": 2 * 3}[function]  # GELU saves its input, not its output
    for way in WAYS:
        found = packed(way, 3, function)
        assert found.saved == units * unit
        scales = 4 * ROWS * units
        left = {"bf16": found.saved // 2, "int8": found.saved // 4 + scales, "unchanged": found.saved}
        assert found.on_device == left.get(way, 0)
        assert (found.moved_out == found.saved) == (way in ("host memory", "disk"))
        assert bool(found.worst) == (way in ("bf16", "int8"))


def test_eight_bits_cost_relu_its_mask_and_gelu_little():
    assert packed("int8", 8, "ReLU").worst > 10 * packed("int8", 8, "GELU").worst
    assert packed("bf16", 8, "ReLU").worst < 0.01


def test_every_knob_changes_the_figure_and_the_words():
    box = packing_explorer()
    (way, function), depth, figure, words = box.children[0].children, *box.children[1:]
    assert isinstance(words, widgets.HTML) and figure.value.startswith("<svg")
    for knob, value in ((way, "disk"), (depth, 3), (function, "GELU"), (way, "bf16")):
        before = figure.value, words.value
        knob.value = value
        assert figure.value != before[0] and words.value != before[1], knob.description


def test_the_words_are_the_alternative_text():
    assert packing_figure("disk", 2, "tanh").alt == in_words("disk", 2, "tanh")
    assert "exact" in in_words("disk", 2, "tanh")
