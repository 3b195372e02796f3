"""A transformer's saved bytes against the formula of Korthikanti et al. 2022 (arXiv 2205.05198), to the byte."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import ckptlib as ck
from ckptlib.models.transformer import GPT, GPT2_XL, GPT3_175B, MT_NLG_530B, Block, Config, causal_mask, gpt_step

HALF = torch.bfloat16


def layer(config, batch=1, fused=False, dtype=HALF):
    """A function that builds and runs one block whose input is an activation, as inside a model."""

    def run():
        x = torch.randn(config.tokens, batch, config.width, dtype=dtype, requires_grad=True)
        return Block(config, fused).to(dtype)(x, causal_mask(config.tokens, dtype))

    return run


def remembered(fn, fake=True):
    saved = ck.saved_tensors(fn, fake=fake)
    return saved.nbytes - saved.of("parameter").nbytes


@pytest.mark.parametrize(
    ("config", "coefficient"),
    [(GPT2_XL, 114.0050), (GPT3_175B, 114.0007), (MT_NLG_530B, 98.0004)],
    ids=["gpt2-xl", "gpt3", "mt-nlg"],
)
def test_a_layer_keeps_what_the_formula_says(config, coefficient):
    s, h, a = config.tokens, config.width, config.heads
    nbytes = remembered(layer(config))
    assert nbytes == s * h * 34 + 5 * a * s * s + 8 * s == config.layer_nbytes()
    assert round(nbytes / (s * h), 4) == coefficient
    assert (nbytes / (s * h)) - (34 + 5 * a * s / h) == pytest.approx(8 / h, rel=1e-6)


@pytest.mark.parametrize("batch", [1, 3])
def test_real_and_fake_layers_agree(batch):
    config = Config(layers=1, width=32, heads=4, tokens=16, vocabulary=50)
    assert (
        remembered(layer(config, batch)) == remembered(layer(config, batch), fake=False) == config.layer_nbytes(batch)
    )


def test_fused_attention_drops_the_square():
    nbytes = remembered(layer(GPT2_XL, fused=True))
    assert round(nbytes / (GPT2_XL.tokens * GPT2_XL.width), 2) == 34.07


def test_plain_and_fused_attention_compute_the_same():
    config = Config(layers=2, width=32, heads=4, tokens=16, vocabulary=50, dropout=0.0)
    plain, fused = GPT(config), GPT(config, fused=True)
    fused.load_state_dict(plain.state_dict())
    ids = torch.randint(50, (16, 3))
    torch.testing.assert_close(plain(ids), fused(ids))


def test_evaluation_drops_nothing():
    config = Config(layers=2, width=32, heads=4, tokens=16, vocabulary=50)
    model, ids = GPT(config).eval(), torch.randint(50, (16, 3))
    assert torch.equal(model(ids), model(ids))
    assert not torch.equal(model.train()(ids), model(ids))


def test_gpt_is_causal():
    config = Config(layers=2, width=32, heads=4, tokens=16, vocabulary=50, dropout=0.0)
    model, ids = GPT(config), torch.randint(50, (16, 1))
    changed = ids.clone()
    changed[10:] = 7
    torch.testing.assert_close(model(ids)[:10], model(changed)[:10])


@pytest.mark.slow
def test_gpt2_xl_training_step_on_a_laptop():
    """One step, and nothing is allocated: parameters, gradients, AdamW's moments, 48 layers' activations."""
    result = ck.measure(lambda: gpt_step(GPT2_XL), builds=True, fake=True)
    parameters = 1_557_611_200
    moment = next(i for i, change in enumerate(result.timeline.changes) if change.phase == "backward")
    at_backward = result.timeline.by_category(moment - 1)
    assert at_backward["parameter"] == 2 * parameters
    after = result.timeline.by_category(len(result.timeline.changes) - 1)
    assert after["optimizer state"] == 2 * 2 * parameters + 4 * (48 * 12 + 4)  # and a step counter per tensor
    layers = sum(
        change.nbytes
        for change in result.timeline.alive(moment - 1)
        if change.owner.category == "activation" and change.owner.module.startswith("blocks.")
    )
    # Each block's last output is the next one's input, so 48 outputs and no input are the blocks' own: the same bytes.
    assert layers == 48 * GPT2_XL.layer_nbytes()


def test_one_gpt3_layer_training_step():
    one = replace(GPT3_175B, layers=1)

    def build():
        block = Block(one).to(HALF)
        optimizer = torch.optim.AdamW(block.parameters())

        def step():
            x = torch.randn(one.tokens, 1, one.width, dtype=HALF, requires_grad=True)
            block(x, causal_mask(one.tokens, HALF)).sum().backward()
            optimizer.step()

        return step

    result = ck.measure(build, builds=True, fake=True)
    parameters = 12 * one.width**2 + 13 * one.width
    assert result.timeline.total(-1) == 2 * parameters
    assert result.peak > 4 * 2 * parameters
