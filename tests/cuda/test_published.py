"""Programs whose memory somebody measured on a real GPU and published: the simulation gives the same bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential

import ckptlib as ck
from ckptlib.cuda.gpus import preset
from ckptlib.models.mlp import mlp_step

KiB, MiB = 2**10, 2**20
PRE_HOPPER = preset("a100")
NO_WORKSPACE = replace(PRE_HOPPER, cublas_workspace=0, cublaslt_workspace=0)


def simulate(program, gpu=PRE_HOPPER, **options):
    return ck.measure(program, "sim:cuda", fake=True, gpu=gpu, **options)


@pytest.mark.parametrize("fake", [False, True])
@pytest.mark.parametrize(("checkpoint", "published"), [("none", 101.04), ("nonreentrant", 83.21), ("reentrant", 83.21)])
def test_mlp_forward_peak(checkpoint, published, fake):
    """B. Krishnan, "Quick Explainer: Activation Checkpointing", 2025: 101.04 MB and 83.21 MB."""
    result = ck.measure(lambda: mlp_step(checkpoint), "sim:cuda", builds=True, fake=fake)
    assert round(result.forward_peak / 1e6, 2) == published
    assert result.forward_peak == {101.04: 101_040_640, 83.21: 83_214_848}[published]


@pytest.mark.parametrize(
    ("checkpoint", "prototype"),
    [("none", 124_691_456), ("nonreentrant", 124_773_376), ("reentrant", 142_468_096)],
)
def test_mlp_step_peak(checkpoint, prototype):
    """A prototype without reductions' buffers put the whole step there; the rest is one column sum, tensor by tensor.

    The peak is at the bias gradient of the first layer: summing (3072, 512) over its rows, CUDA's kernel keeps
    48 partial sums for each of 512 columns, for 4 outputs a thread and 32 threads a block, and 4 semaphores.
    """
    result = ck.measure(lambda: mlp_step(checkpoint), "sim:cuda", builds=True, fake=True)
    inside = [c.nbytes for c in result.at_peak if c.owner.name == "inside aten.sum.dim_IntList"]
    assert inside == [48 * 512 * 4 * 32 * 4, 512]
    assert result.peak - sum(inside) == prototype


def test_cublas_workspace_stays():
    """pytorch#95668, A10G: 8,519,680 B stay allocated after everything was released."""

    def program():
        nn.Linear(1, 1)(torch.randn(1, 1))
        ck.mark("released")

    (released,) = simulate(program, gpu="a10g").marks
    assert released.allocated == 8_519_680


def test_reserved_is_more_than_allocated():
    """Published for torch 2.x: reserved 1044 MiB, allocated 1028 MiB; the small tensor sits alone in 20 MiB."""

    def program():
        small, large = torch.randn(1024, 1024), torch.randn(256, 1024, 1024, 1)  # noqa: F841
        ck.mark("both")

    (both,) = simulate(program).marks
    assert (both.reserved, both.allocated) == (1044 * MiB, 1028 * MiB)


def test_adam_step_by_step():
    """Published for torch 2.x with CUBLAS_WORKSPACE_CONFIG=:0:0: memory_allocated after every line of three steps."""

    def program():
        model = nn.Linear(256, 250)
        ck.mark("model")
        adam = torch.optim.Adam(model.parameters())
        x = torch.randn(1, 256)
        ck.mark("x")
        for step in range(3):
            if step:
                adam.zero_grad()
                ck.mark("zero_grad")
            y = model(x)
            ck.mark("forward")
            y.sum().backward()
            ck.mark("backward")
            adam.step()
            ck.mark("step")
            del y

    first = [257_024, 258_048, 259_072, 516_096, 1_030_144]
    later = [772_096, 773_120, 1_030_144, 1_030_144]
    marks = simulate(program, NO_WORKSPACE).marks
    assert [mark.allocated for mark in marks] == first + later * 2


def test_two_linear_layers():
    """Published for torch 2.x on a GPU older than Hopper: memory_allocated after every line, then the peak, in KiB."""

    def program():
        inner = nn.Linear(1024, 1024, bias=False)
        ck.mark("Linear(1024, 1024)")
        outer = nn.Linear(1024, 1, bias=False)
        ck.mark("Linear(1024, 1)")
        x = torch.randn(1024, 1024)
        ck.mark("x")
        y = inner(x)
        ck.mark("y")
        u = outer(y)
        ck.mark("u")
        loss = sum(u)
        ck.mark("loss")
        loss.backward()
        ck.mark("backward")

    result = simulate(program)
    assert [mark.allocated / KiB for mark in result.marks] == [4096, 4100, 8196, 20_612, 20_616, 20_616.5, 33_036.5]
    assert result.peak == 37_133 * KiB


def test_checkpoint_sequential():
    """Published for torch 2.x: one layer is so large that the peak is its weight, its gradient and little else."""

    def build():
        layers = nn.Sequential(
            nn.Linear(1000, 40000), nn.ReLU(), nn.Linear(40000, 1000), nn.ReLU(), nn.Linear(1000, 5), nn.ReLU()
        )

        def step():
            x = torch.randn(10, 1000, requires_grad=True)
            out = checkpoint_sequential(layers, 2, x, use_reentrant=True)
            out.sum().backward()  # `out` itself is alive until the step ends: 512 B

        return step

    assert simulate(build, builds=True).peak == 659_173_376


def test_linear_before_and_after_backward():
    """Published for torch 1.x, which did not count workspaces: 6.0 and 10.01 MiB."""

    def program():
        model, x = nn.Linear(1024, 1024), torch.randn(512, 1024)
        ck.mark("before")
        model(x).mean().backward()
        ck.mark("after")

    before, after = simulate(program, NO_WORKSPACE).marks
    assert (round(before.allocated / MiB, 1), round(after.allocated / MiB, 2)) == (6.0, 10.01)
