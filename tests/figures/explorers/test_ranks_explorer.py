"""Does the ranks explorer tell the truth, and does it move when a knob does? No kernel is needed."""

import time

import ipywidgets as widgets
import pytest

from ckptlib.errors import CkptError
from ckptlib.figures.explorers.ranks import (
    DATA,
    MODELS,
    STRATEGIES,
    TENSOR,
    WAYS,
    in_words,
    rank_nbytes,
    ranks_explorer,
    ranks_figure,
)
from ckptlib.models.configs import CONFIGS, GPT3_175B


def test_one_rank_holds_sixteen_bytes_a_parameter_and_the_published_activations():
    alone = rank_nbytes(GPT3_175B, "DDP", 1, 1)
    state = alone["parameter"] + alone["gradient"] + alone["optimizer state"]
    assert state == 16 * GPT3_175B.parameters and alone["temporary"] == 0
    assert round(alone["activation"] / 1e9, 1) == 275.4  # Korthikanti et al., as in chapter 8


@pytest.mark.parametrize("recompute", STRATEGIES)
def test_each_way_takes_away_what_its_name_says(recompute):
    ddp, fsdp, tensor, both, sequence = (rank_nbytes(GPT3_175B, way, 8, 64, recompute) for way in WAYS)
    assert fsdp["parameter"] == ddp["parameter"] // 64 and fsdp["activation"] == ddp["activation"]
    assert tensor["parameter"] == ddp["parameter"] // 8 and both["activation"] == tensor["activation"]
    assert sequence["activation"] == ddp["activation"] // 8 < tensor["activation"]
    assert sequence["parameter"] == both["parameter"] == ddp["parameter"] // 512


def test_tensor_parallelism_alone_leaves_ten_bytes_for_each_element():
    sbh = 2048 * 12288
    for t in (2, 4, 8):
        found = rank_nbytes(GPT3_175B, "DDP, tensor", t, 1)["activation"]
        assert found == 96 * sbh * (10 + 24 // t + 80 // t)


def test_an_unknown_way_is_refused():
    with pytest.raises(CkptError, match="expected one of DDP"):
        rank_nbytes(GPT3_175B, "ZeRO", 1, 1)


@pytest.mark.parametrize("model", MODELS)
def test_every_position_of_the_knobs_can_be_drawn(model):
    assert model in CONFIGS
    for t, d, recompute in ((TENSOR[0], DATA[0], "none"), (TENSOR[-1], DATA[-1], "full"), (4, 16, "selective")):
        figure = ranks_figure(model, t, d, recompute)
        assert "<svg" in figure.svg() and f"{d} replicas, of {t} ranks each" in figure.alt


def test_moving_a_knob_redraws_figure_and_words_quickly():
    box = ranks_explorer()
    knobs = [w for row in box.children[:2] for w in row.children]
    figure, words = box.children[2:]
    assert all(isinstance(w, widgets.Dropdown | widgets.SelectionSlider) and w.description for w in knobs)
    for knob, value in zip(knobs, ("mt-nlg-530b", 4, 8, "full"), strict=True):
        before = figure.value, words.value
        began = time.process_time()
        knob.value = value
        assert time.process_time() - began < 2  # far less on an idle machine
        assert figure.value != before[0] and words.value != before[1]
    assert words.value == in_words(*(k.value for k in knobs)) == ranks_figure(*(k.value for k in knobs)).alt
