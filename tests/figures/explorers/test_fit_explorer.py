"""Does "will it fit?" tell what `ck.fit` measures, and does it move when a knob does? No kernel is needed."""

import time

import ipywidgets as widgets
import pytest

from ckptlib.cuda.memory_sizes import MEMORY
from ckptlib.figures.explorers.fit import fit_by_formula, fit_explorer, fit_figure, in_words, kept_nbytes, need
from ckptlib.fitting.fit import fits
from ckptlib.models.configs import CONFIGS, GPT2_XL
from ckptlib.models.formulas import STRATEGIES, layer_nbytes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "gpu", "tokens", "precision", "fused"),
    [
        ("gpt2-xl", "a100", 1024, "mixed", False),  # fullest in the head
        ("gpt2-xl", "a100", 4096, "mixed", False),  # in the last block's backward, when softmax is reversed
        ("gpt2-xl", "rtx4090", 512, "fp32", False),  # in the update: no batch fits
        ("gpt2-xl-swiglu", "80GB", 1024, "fp32", False),
        ("llama3-8b", "h200", 16384, "bf16", False),  # in the first block's backward
        ("llama3-8b", "h200", 8192, "bf16", True),
    ],
)
def test_formulas_are_what_is_measured_but_for_two_percent(model, gpu, tokens, precision, fused):
    for strategy, measured in fits(model, gpu, tokens, precision, STRATEGIES, fused=fused).found.items():
        formula = fit_by_formula(model, gpu, tokens, precision, strategy, fused)
        assert abs(formula.batch - measured.batch) <= 0.02 * measured.batch, strategy
        seen = measured.need or measured.too_much
        predicted = need(formula.config, seen.batch, precision, strategy, fused)
        assert predicted.nbytes == pytest.approx(seen.nbytes, rel=0.02), strategy
        assert predicted.extra == pytest.approx(seen.extra, abs=1e-9)


def test_what_is_kept_is_the_published_formula_and_a_gpus_statistics():
    s = GPT2_XL.tokens
    for strategy in STRATEGIES:
        statistics = 0 if strategy == "full" else 16 * s
        assert kept_nbytes(GPT2_XL, "mixed", strategy, False) == layer_nbytes(GPT2_XL, 1, strategy) + statistics


def test_the_largest_batch_is_the_edge():
    for strategy in STRATEGIES:
        found = fit_by_formula("gpt2-xl", "a100", 1024, "bf16", strategy)
        assert found.need.nbytes <= found.capacity < found.too_much.nbytes
        assert found.too_much.batch == found.batch + 1


def test_words_say_when_nothing_fits_and_what_recomputing_costs():
    setting = {"model": "llama3-8b", "gpu": "t4", "tokens": 8192, "precision": "mixed", "strategy": "full"}
    assert "Not even one sequence fits" in in_words(**setting, fused=True)
    assert "Recomputing costs +3" in in_words(**setting, fused=True)
    assert fit_figure(**setting, fused=True).alt == in_words(**setting, fused=True)
    assert "The largest batch is 6," in in_words(model="gpt2-xl", gpu="a100", tokens=1024)


def test_every_knob_changes_the_figure_and_the_words_at_once():
    box = fit_explorer()
    knobs = {knob.description: knob for row in box.children[:3] for knob in row.children}
    figure, words = box.children[3:]
    assert isinstance(words, widgets.HTML) and figure.value.startswith("<svg")
    assert list(knobs["model"].options) == list(CONFIGS) and list(knobs["GPU"].options) == list(MEMORY)
    took = []
    moves = {"attention": True, "recompute": "full", "sequence (tokens)": 512, "precision": "bf16", "GPU": "h200"}
    for description, value in {**moves, "model": "llama3-8b"}.items():
        before, start = (figure.value, words.value), time.process_time()
        knobs[description].value = value
        took.append(time.process_time() - start)
        assert figure.value != before[0] and words.value != before[1], description
    assert sorted(took)[len(took) // 2] < 2  # 0.1 s of processor time on an idle machine
