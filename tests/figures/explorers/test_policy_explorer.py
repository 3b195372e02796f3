"""Does the policy explorer predict what a checkpoint saves and recomputes, and does it move when a knob does?"""

import time

import ipywidgets as widgets
import pytest

import ckptlib as ck
from ckptlib.figures.explorers.policy import (
    LABELS,
    START,
    TOKENS,
    block_of,
    choices,
    front,
    in_words,
    picks,
    policy_explorer,
    policy_figure,
    results,
    weigh,
)


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [32, 128])
@pytest.mark.parametrize(
    "saved", [("scores",), START, ("qkv", "softmax", "values"), ("gelu",), ("narrow", "widen"), tuple(LABELS)]
)
def test_the_prediction_is_what_a_checkpoint_does(tokens, saved):
    row = ck.policy_report(lambda: block_of(tokens), mine=lambda f, *args: picks(saved))["mine"]
    assert weigh(tokens, saved) == (row.saved, row.recomputed)


def test_flops_and_bytes_by_hand():
    t, d = 64, 64
    costs = results(t)
    assert (costs["qkv"].flops, costs["qkv"].nbytes) == (2 * t * d * 3 * d, 4 * t * 3 * d)
    assert (costs["scores"].flops, costs["scores"].nbytes) == (2 * t * t * d, 4 * 4 * t * t)
    assert costs["widen"].flops == costs["narrow"].flops == 2 * t * d * 4 * d
    assert not costs["narrow"].again  # nothing is saved after it: early stop
    assert costs["gelu"].flops == costs["softmax"].flops == 0


@pytest.mark.parametrize("tokens", TOKENS)
def test_nothing_beats_the_front(tokens):
    best = front(tokens)
    assert best[0] == weigh(tokens, ()) and best[-1].flops == 0
    assert len(choices(tokens)) == 2 ** len(LABELS)
    for point in choices(tokens):
        assert any(b.nbytes <= point.nbytes and b.flops <= point.flops for b in best)


def test_moving_a_knob_redraws_figure_and_words():
    box = policy_explorer()
    tokens, first, second, figure, words = box.children
    knobs = {knob.description.removeprefix("save "): knob for knob in (*first.children, *second.children)}
    assert list(knobs) == list(LABELS) and all(isinstance(knob, widgets.Checkbox) for knob in knobs.values())
    before = figure.value, words.value
    assert "<svg" in figure.value and words.value == in_words(128, START)
    knobs["narrow"].value = True
    assert figure.value != before[0] and "Spares no FLOPs: narrow" in words.value
    tokens.value = 256
    saved = [label for label, knob in knobs.items() if knob.value]
    assert words.value == in_words(256, saved) == policy_figure(256, saved).alt


@pytest.mark.slow
def test_a_move_is_quick():
    policy_figure(128, START)
    times = []
    for saved in (("qkv",), ("qkv", "proj"), ("widen",)):
        start = time.process_time()
        policy_figure(128, saved).svg()
        times.append(time.process_time() - start)
    assert min(times) < 2  # far less on an idle machine
