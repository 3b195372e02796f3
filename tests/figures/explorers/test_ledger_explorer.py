"""Does the ledger explorer tell the truth, and does it move when a knob does? No kernel is needed."""

import ipywidgets as widgets
import pytest
import torch
from torch import nn

import ckptlib as ck
from ckptlib.figures.explorers.ledger import STATES, in_words, ledger_explorer, predicted_ledger

OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters),
    "SGD with momentum": lambda parameters: torch.optim.SGD(parameters, momentum=0.9),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters),
}


@pytest.mark.parametrize(("batch", "depth", "width", "optimizer"), [(32, 3, 16, name) for name in STATES])
def test_the_prediction_is_what_a_step_is_measured_to_need(batch, depth, width, optimizer):
    model = nn.Sequential(*[layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())])
    x, optim = torch.randn(batch, width), OPTIMIZERS[optimizer](model.parameters())

    def step():
        model(x).sum().backward()
        optim.step()

    measured = ck.ledger(model, step).by_category
    measured["activation"] -= 8  # the loss, and the 1 that backward starts from
    predicted = predicted_ledger(batch, depth, width, optimizer)
    assert predicted == {category: measured[category] for category in predicted}


def everything_in(box):
    for child in getattr(box, "children", ()):
        yield child
        yield from everything_in(child)


def test_every_knob_changes_the_figure_and_the_words():
    parts = list(everything_in(ledger_explorer()))
    knobs = [part for part in parts if hasattr(part, "options") or isinstance(part, widgets.IntSlider)]
    figure, words = [part for part in parts if isinstance(part, widgets.HTML)]
    assert figure.value.startswith("<svg") and len(knobs) == 4
    for knob in knobs:
        before = figure.value, words.value
        knob.value = knob.options[-2] if hasattr(knob, "options") else knob.max
        assert figure.value != before[0], knob.description
        assert words.value != before[1] or knob.description == "depth (layers)"


def test_the_words_count_what_the_bar_shows():
    assert in_words(batch=257, depth=8, width=256).endswith("and 1.00 times the parameters.")
