"""The time of a training step under the roofline, against formulas, whole runs and a published measurement."""

from __future__ import annotations

import pytest

from ckptlib.cuda.gpus import Speed, speed_of
from ckptlib.errors import CkptError
from ckptlib.fitting import step_times
from ckptlib.fitting.step_times import GpuWork, passes, update
from ckptlib.models import formulas
from ckptlib.models.configs import GPT2_XL, MT_NLG_530B, Config

SMALL = Config(layers=5, width=64, heads=4, tokens=32, vocabulary=96)


@pytest.mark.parametrize("config", [SMALL, GPT2_XL])
def test_the_flops_are_those_of_the_formulas(config):
    none, full = passes(config, 2), passes(config, 2, "full")
    assert none.flops == formulas.model_flops(config, 2)
    assert full.flops - none.flops == formulas.recomputed_flops(config, 2, "full")
    selective = passes(config, 2, "selective").flops - none.flops  # it stops early, before the second product
    assert selective == config.layers * formulas.attention_again_flops(config, 2)


def test_two_short_models_tell_what_all_layers_do():
    for strategy in formulas.STRATEGIES:
        whole = step_times._run(step_times._passes(SMALL, 3, strategy, False), speed_of("a100"))
        found = passes(SMALL, 3, strategy)
        assert (found.kernels, found.flops) == (whole.kernels, whole.flops)
        assert found.busy == pytest.approx(whole.busy)


def test_the_update_moves_96_bytes_for_each_parameter_and_depends_on_no_batch():
    """By hand, for each parameter p of 2 bytes, with gradient g, master weight w and moments m and v of 4 bytes."""
    to_float32 = 2 + 4
    decay, first_moment, second_moment = 4 + 4, (4 + 4) + 4, (4 + 4) + (4 + 4 + 4 + 4)  # w; m and g; v, v, g and g
    root, correction, epsilon = 4 + 4, 4 + 4, 4 + 4  # of v
    step, rounded = 4 + 4 + 4 + 4, 4 + 2  # w, m, the root, w; p from w
    by_hand = to_float32 + decay + first_moment + second_moment + root + correction + epsilon + step + rounded
    moved = update(GPT2_XL).busy * speed_of("a100").bandwidth
    assert moved / GPT2_XL.parameters == pytest.approx(by_hand, rel=1e-4) == 96


def test_recomputing_takes_longer_at_the_same_batch_and_fused_attention_less():
    none, selective, full = (passes(GPT2_XL, 4, strategy).busy for strategy in formulas.STRATEGIES)
    assert none < selective < full < 1.4 * none
    assert passes(GPT2_XL, 4, fused=True).busy < 0.8 * none


def test_a_small_model_waits_for_the_host():
    tiny = passes(SMALL, 1)
    assert tiny.seconds(Speed(1e15, 1e13, launch=1e-5)) == pytest.approx(tiny.kernels * 1e-5)
    assert GpuWork(10, 0, 1.0).seconds(Speed(1e15, 1e13)) == 1.0


def test_a_published_gain_is_what_the_roofline_predicts():
    """Korthikanti et al. 2022: MT-NLG 530B on 2240 A100 is "29% faster" with selective recomputation than with full."""
    selective, full = (passes(MT_NLG_530B, 1, strategy).busy for strategy in ("selective", "full"))
    assert full / selective == pytest.approx(0.542 / 0.421, rel=0.05)


def test_an_unknown_gpu_is_named_with_those_that_are_known():
    with pytest.raises(CkptError, match="a100-40gb, a100, h100"):
        speed_of("b200")
