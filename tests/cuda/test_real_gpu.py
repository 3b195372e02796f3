"""Where there is a GPU: what its allocator counts against what we simulate. Elsewhere these are skipped, and say so."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

import ckptlib as ck
from ckptlib.cuda.gpus import at_release, preset
from ckptlib.models.mlp import CHECKPOINTS, MLP
from ckptlib.remember.explain_snapshot import explain

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("fresh_gpu")]


def this_gpu():
    """The preset of the GPU's generation, with this GPU's own numbers and this torch's workspaces."""
    found = torch.cuda.get_device_properties(0)
    generation = {7: "turing" if found.minor >= 5 else "volta", 8: "ampere", 9: "hopper", 10: "blackwell"}[found.major]
    threads = found.max_threads_per_multi_processor
    gpu = replace(preset(generation), sm_count=found.multi_processor_count, max_threads_per_sm=threads)
    return at_release(gpu, torch.__version__)


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_mlp(checkpoint):
    def build(device):
        model = MLP(checkpoint).to(device)

        def step():
            x = torch.randn(3072, 3000, device=device, requires_grad=True)
            out = model(x)
            out.backward(torch.ones_like(out))

        return step

    real = ck.measure(lambda: build("cuda"), "cuda", builds=True)
    simulated = ck.measure(lambda: build("cpu"), "sim:cuda", builds=True, gpu=this_gpu())
    assert real.forward_peak == simulated.forward_peak
    assert real.peak == pytest.approx(simulated.peak, rel=0.005)


def test_adamw_step():
    def build(device):
        model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.LayerNorm(2048), nn.Linear(2048, 512)).to(device)
        optimizer = torch.optim.AdamW(model.parameters())

        def step():
            model(torch.randn(4096, 512, device=device)).square().mean().backward()
            optimizer.step()

        return step

    real = ck.measure(lambda: build("cuda"), "cuda", builds=True)
    simulated = ck.measure(lambda: build("cpu"), "sim:cuda", builds=True, gpu=this_gpu())
    assert real.peak == pytest.approx(simulated.peak, rel=0.005)
    for found in (real, simulated):
        assert explain(found.snapshot()).allocated == found.peak
