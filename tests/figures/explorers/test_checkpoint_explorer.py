"""Does the checkpoint explorer tell the truth, and does it move when a knob does? No kernel is needed."""

import ipywidgets as widgets
import pytest
import torch

import ckptlib as ck
from ckptlib.figures.explorers.checkpoint import (
    BLOCKS,
    JOINED,
    OWN,
    PLAIN,
    _block,
    checkpoint_explorer,
    checkpoint_figure,
    in_words,
    seen,
    segments,
)


def test_a_plain_run_saves_every_tensor_and_as_many_bytes_as_saved_tensors_counts():
    found = seen((PLAIN,) * BLOCKS)
    model, x = torch.nn.Sequential(*(_block() for _ in range(BLOCKS))), torch.randn(64, 64, requires_grad=True)
    saved = ck.saved_tensors(lambda: model(x))
    assert found.saved == found.nbytes.keys() and found.runs == [1] * BLOCKS and not found.recomputed
    assert found.saved_nbytes == saved.nbytes - saved.of("parameter").nbytes


@pytest.mark.parametrize(
    ("choice", "saved", "runs", "largest"),
    [
        ((OWN,) * 4, {"x1", "x2", "x3", "x4"}, [2, 2, 2, 2], 1),
        ((OWN, JOINED, JOINED, JOINED), {"x1"}, [2, 2, 2, 2], 4),
        ((OWN, JOINED, OWN, JOINED), {"x1", "x3"}, [2, 2, 2, 2], 2),
        ((PLAIN, PLAIN, OWN, PLAIN), {"x1", "h1", "g1", "x2", "h2", "g2", "x3", "x4", "h4", "g4"}, [1, 1, 2, 1], 1),
    ],
)
def test_only_a_segments_input_stays_and_the_largest_segment_comes_back(choice, saved, runs, largest):
    found = seen(choice)
    assert found.saved == saved and found.runs == runs
    block = sum(found.nbytes[name] for name in ("x1", "h1", "g1"))
    assert largest * block - found.nbytes["x1"] <= found.recomputed <= largest * block


def test_joining_a_plain_block_begins_a_segment():
    assert segments([PLAIN, JOINED, JOINED]) == [([0], False), ([1, 2], True)]
    assert "begins its own" in in_words([PLAIN, JOINED, JOINED, JOINED])
    assert "begins its own" not in in_words([OWN, JOINED, PLAIN, OWN])


def test_moving_a_knob_redraws_figure_and_words():
    box = checkpoint_explorer()
    knobs = [w for row in box.children[:2] for w in row.children]
    figure, words = box.children[2:]
    before = figure.value, words.value
    assert all(isinstance(w, widgets.Dropdown) and w.description for w in knobs) and "<svg" in figure.value
    knobs[0].value = PLAIN
    assert figure.value != before[0] and words.value != before[1]
    assert words.value == in_words([k.value for k in knobs]) == checkpoint_figure([k.value for k in knobs]).alt
