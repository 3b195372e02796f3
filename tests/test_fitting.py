"""What fits, against a fake run of all layers, hand counts of the training state, and source 001's "batch 21"."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace

import pytest
import torch

from ckptlib import formulas
from ckptlib.configs import GPT2_XL_SWIGLU, LLAMA3_8B, Config, LlamaConfig
from ckptlib.errors import CkptError
from ckptlib.fit_command import fit_model
from ckptlib.fitting import GiB, capacity, fit, needs, training_step, windows
from ckptlib.transformer import build

SMALL = Config(layers=7, width=128, heads=4, tokens=64, vocabulary=1000)
SMALL_LLAMA = LlamaConfig(layers=7, width=128, heads=4, tokens=64, vocabulary=1000, kv_heads=2, ffn=320)
A100 = capacity("a100")[1]


@pytest.mark.parametrize(
    ("config", "precision", "batch", "strategy"),
    [
        (SMALL, "fp32", 5, "none"),
        (SMALL, "mixed", 64, "selective"),
        (SMALL, "bf16", 64, "full"),
        (SMALL_LLAMA, "bf16", 64, "none"),
        (SMALL_LLAMA, "mixed", 2, "selective"),
        (SMALL_LLAMA, "fp32", 32, "full"),
    ],
)
def test_few_layers_continued_are_all_layers_measured(config, precision, batch, strategy):
    """Within 3 %: in a small model, what the allocator's blocks are too large weighs more than in a large one."""
    guess = needs(config, batch, precision, strategy, False, A100)[0]
    full = windows(config, batch, precision, strategy, False, A100)
    assert guess.nbytes == pytest.approx(max(sum(parts.values()) for parts in full.values()), rel=3e-2)


def test_gpt2_xl_continued_is_gpt2_xl_measured():
    """All 48 layers, at the batch that is found to fit: within a thousandth, and on the right side of 80 GiB."""
    at_four, at_five = (needs(GPT2_XL_SWIGLU, n, "fp32", "none", False, A100)[0] for n in (4, 5))
    full = windows(GPT2_XL_SWIGLU, 4, "fp32", "none", False, A100)
    assert at_four.nbytes == pytest.approx(max(sum(parts.values()) for parts in full.values()), rel=1e-3)
    assert at_four.nbytes < 80 * GiB < at_five.nbytes


def test_source_001_and_its_batch_of_21():
    """Source 001: 2,127,057,600 parameters in fp32 on 80 GB; "2.27 GB" of activations a sequence, so 21 fit."""
    found = {s: fit(GPT2_XL_SWIGLU, "80GiB", 1024, "fp32", s) for s in formulas.STRATEGIES}
    assert {s: f.batch for s, f in found.items()} == {"none": 4, "selective": 7, "full": 63}
    per_sequence = [needs(GPT2_XL_SWIGLU, n, "fp32", "none", False, A100)[0].nbytes for n in (4, 5)]
    assert 5 * 2.27 < (per_sequence[1] - per_sequence[0]) / 1e9 < 6 * 2.27
    # What the layers alone keep, by formula: more than five times the 2.27 of the source.
    layers = 48 * sum(formulas.llama_terms(GPT2_XL_SWIGLU, itemsize=4).values())
    assert layers / 1e9 == pytest.approx(12.6, abs=0.05)
    none = found["none"].need
    assert none.parts["activations"] == pytest.approx(4 * layers, rel=0.02)


@pytest.mark.parametrize(("precision", "nbytes"), [("fp32", (4, 12)), ("bf16", (2, 6)), ("mixed", (2, 14))])
def test_training_state_is_what_adam_needs(precision, nbytes):
    """Parameters, and then with the optimizer's state and gradients: 16, 8 or 16 bytes for each parameter."""
    config = replace(GPT2_XL_SWIGLU, layers=4, tokens=64)
    found = {need.window: need.parts for need in needs(config, 1, precision, "none", False, A100)}
    update, forward = found["update"], found["forward"]
    slack = 1.06  # the allocator's blocks: up to 1 MiB more than was asked for
    assert nbytes[0] <= forward["parameters"] / config.parameters <= nbytes[0] * slack
    state = nbytes[1] - nbytes[0]
    assert state <= forward["optimizer"] / config.parameters <= (state + 4) * slack
    assert update["gradients"] + update["workspace"] > 0


def test_a_step_trains(monkeypatch):
    """The step whose memory is measured, run for real: mixed precision moves the parameters as fp32 does."""
    moved = {}
    for precision in ("fp32", "mixed"):
        torch.manual_seed(0)
        built = []
        monkeypatch.setattr("ckptlib.fitting.build", lambda *args, built=built: built.append(build(*args)) or built[0])
        step = training_step(SMALL_LLAMA, 2, precision, "none", False)
        before = built[0].head.weight.detach().double().clone()
        for _ in range(3):
            step()
        moved[precision] = (built[0].head.weight.detach().double() - before).flatten()
    assert moved["fp32"].abs().max() > 1e-3
    assert torch.cosine_similarity(moved["mixed"], moved["fp32"], dim=0) > 0.9


def test_nothing_fits():
    answer = fit(LLAMA3_8B, "24GiB", 1024, "mixed")
    assert answer.batch == 0 and answer.need is None
    assert answer.too_much.nbytes > 16 * LLAMA3_8B.parameters
    assert "largest batch 0" in str(answer) and "would need" in str(answer)


@pytest.mark.parametrize(
    ("gpu", "nbytes"),
    [("80GiB", 80 * 2**30), ("80GB", 80 * 10**9), ("80 gb", 80 * 10**9), (1234, 1234), ("0.5TB", 5 * 10**11)],
)
def test_sizes(gpu, nbytes):
    assert capacity(gpu)[0] == nbytes


def test_cards():
    assert capacity("H200") == (141 * 10**9, capacity("h100")[1])
    assert capacity("a100-40gb")[0] == 40 * GiB
    for wrong in ("80Gi", "80iB", "gtx", "-3", "80G"):
        with pytest.raises(CkptError, match="expected a size such as 80GiB or 80GB, or one of t4"):
            capacity(wrong)


def test_mistakes():
    with pytest.raises(CkptError, match="precision is 'fp8', expected one of fp32, bf16, mixed"):
        fit("gpt2-xl", precision="fp8")
    with pytest.raises(CkptError, match="strategy is 'some'"):
        fit("gpt2-xl", strategy="some")
    with pytest.raises(CkptError, match="no model 'gpt9'"):
        fit("gpt9")


def test_the_command():
    args = {"model": "gpt2-xl-swiglu", "gpu": "80GiB", "seq": 1024, "precision": "fp32", "fused": False}
    answer = json.loads(fit_model(argparse.Namespace(**args, strategy="all", json=True)))
    assert answer["parameters"] == GPT2_XL_SWIGLU.parameters and answer["gpu_bytes"] == 80 * GiB
    batches = [found["batch"] for found in answer["strategies"].values()]
    assert list(answer["strategies"]) == ["none", "selective", "full"] and batches == sorted(batches) and batches[0] > 1
    for found in answer["strategies"].values():
        assert sum(found["breakdown"].values()) == found["bytes"] <= 80 * GiB < found["next_batch_bytes"]
    text = fit_model(argparse.Namespace(**args, strategy="full", json=False))
    assert text.startswith("largest batch")
