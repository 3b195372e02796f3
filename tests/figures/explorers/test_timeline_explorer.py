"""Does the timeline explorer show what is alive, and does it move when a knob does? No kernel is needed."""

import time

import ipywidgets as widgets
import pytest
import torch
from torch import nn

import ckptlib as ck
from ckptlib.figures.explorers.timeline import alive_table, in_words, timeline_explorer


def step(depth):
    model = nn.Sequential(*[layer for _ in range(depth) for layer in (nn.Linear(16, 16), nn.ReLU())])
    return lambda: model(torch.randn(8, 16)).sum().backward()


@pytest.fixture(scope="module")
def runs():
    return {str(n): ck.measure(lambda n=n: step(n), "sim:cuda", builds=True, fake=True) for n in (2, 4)}


def everything_in(box):
    for child in getattr(box, "children", ()):
        yield child
        yield from everything_in(child)


def parts(runs):
    found = list(everything_in(timeline_explorer(runs)))

    def pick(kind):
        return [part for part in found if isinstance(part, kind)]

    (choice,), (slider,), (button,) = pick(widgets.Dropdown), pick(widgets.IntSlider), pick(widgets.Button)
    return choice, slider, button, pick(widgets.HTML)


def test_it_opens_at_the_peak_and_every_move_shows(runs):
    _, slider, button, (figure, words, table) = parts(runs)
    assert "This is the peak." in words.value and figure.value.startswith("<svg")
    before = figure.value, words.value, table.value
    slider.value = 3
    assert all(now != then for now, then in zip((figure.value, words.value, table.value), before, strict=True))
    button.click()
    assert (figure.value, words.value, table.value) == before


def test_another_run_has_its_own_events(runs):
    choice, slider, _, (_, words, _) = parts(runs)
    slider.value = slider.max
    choice.value = "4"
    assert slider.max == len(runs["4"].timeline.changes) and f"of {slider.max}," in words.value
    slider.value = slider.max
    choice.value = "2"  # shorter: the slider must come along
    assert slider.value <= slider.max and f"of {slider.max}," in words.value


def test_the_table_adds_up_to_what_is_in_use(runs):
    run = runs["4"]
    for moment in (-1, 0, run.timeline.peak_moment):
        cells = alive_table(run, moment).split("text-align: right; padding: 0 8px'>")[2:]
        assert sum(int(cell.split("<")[0].replace(",", "")) for cell in cells) == run.timeline.total(moment)
    assert in_words(run, -1).startswith("Before the step")


def test_a_move_is_quick(runs):
    _, slider, _, _ = parts(runs)
    start = time.process_time()
    for moment in range(5):
        slider.value = moment
    assert time.process_time() - start < 5 * 2  # 0.1 s each on an idle machine
