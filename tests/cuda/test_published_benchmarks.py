"""Benchmarks whose memory others published, run after run on real GPUs: the simulation gives the same peaks.

"Liger" is https://github.com/linkedin/Liger-Kernel, folder benchmark/data; its scripts take the median of ten peaks.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import ckptlib as ck
from ckptlib.cuda.gpus import at_release, preset

MiB, GiB = 2**20, 2**30
PRE_HOPPER = preset("a100")
NO_WORKSPACE = replace(PRE_HOPPER, cublas_workspace=0, cublaslt_workspace=0)


def simulate(program, gpu=PRE_HOPPER, **options):
    return ck.measure(program, "sim:cuda", fake=True, gpu=gpu, **options)


def test_linear_without_bias():
    """https://github.com/pytorch/pytorch/issues/104604, torch 2.0: 4.0 MiB, then 16.125 and a peak of 16.125."""

    def program():
        model = nn.Linear(1024, 1024, bias=False)
        ck.mark("init")
        y = model(torch.rand(1, 512, 1024))  # noqa: F841  (upstream keeps the input too: the graph holds it)
        ck.mark("forward")

    init, forward = simulate(program).marks
    assert [init.allocated / MiB, forward.allocated / MiB, forward.peak / MiB] == [4.0, 16.125, 16.125]


def test_two_linears_before_and_after_backward():
    """https://github.com/pytorch/pytorch/issues/74443, torch 1.x (no workspaces): 16,777,728 and 20,972,032 B."""

    def program():
        model = nn.Sequential(nn.Linear(1024, 1024, bias=False), nn.Linear(1024, 1024, bias=False))
        x = torch.rand(4, 256, 1024)
        y = model(x).sum()
        ck.mark("forward")
        y.backward()
        ck.mark("backward")

    assert [mark.allocated for mark in simulate(program, NO_WORKSPACE).marks] == [16_777_728, 20_972_032]


def steady_peak(build, gpu=PRE_HOPPER) -> float:
    """Liger's `_test_memory`: the median of ten peaks in MiB; gradients of the iteration before are still there."""

    def program():
        step = build()
        for i in range(3):
            ck.mark(f"before {i}")
            step()
        ck.mark("after")

    return simulate(program, gpu).marks[-1].peak / MiB


def same(simulated: float, published: float) -> bool:
    """Liger takes its quantiles of float32 numbers."""
    return abs(simulated - published) <= np.spacing(np.float32(published)) / 2


@pytest.mark.parametrize(
    ("vocabulary", "published"),
    [
        (4096, 1280.1259765625),
        (8192, 2560.1259765625),
        (16384, 5120.1259765625),
        (32768, 10240.1259765625),
        (65536, 20480.125),
        (131072, 40960.125),
    ],
)
def test_liger_cross_entropy(vocabulary, published):
    """Liger, all_benchmark_data.csv, cross_entropy/huggingface/full, A100: float32, 8 x 2048 rows."""

    def build():
        x = torch.randn(8 * 2048, vocabulary, requires_grad=True)
        target = torch.randint(vocabulary, (8 * 2048,))
        return lambda: F.cross_entropy(x, target).backward()

    assert same(steady_peak(build), published)


@pytest.mark.parametrize(
    ("tokens", "published"),
    [(4096, 6092.2822265625), (8192, 9162.3134765625), (16384, 15302.3759765625), (32768, 27582.5)],
)
def test_liger_head_and_cross_entropy(tokens, published):
    """Liger, all_benchmark_data.csv, fused_linear_cross_entropy/huggingface/full, A100: bf16, both heads exist."""

    def build():
        head, unused = (nn.Linear(4096, 128256, bias=False, dtype=torch.bfloat16) for _ in range(2))
        x = torch.randn(tokens, 4096, requires_grad=True, dtype=torch.bfloat16)
        target = torch.randint(128256, (tokens,))
        step = lambda: F.cross_entropy(head(x), target).backward()  # noqa: E731
        step.unused = unused
        return step

    assert same(steady_peak(build), published)


class GatedMLP(nn.Module):
    """LlamaMLP of 4096 and 11008 features."""

    def __init__(self, activation):
        super().__init__()
        self.gate = nn.Linear(4096, 11008, bias=False, dtype=torch.bfloat16)
        self.up = nn.Linear(4096, 11008, bias=False, dtype=torch.bfloat16)
        self.down = nn.Linear(11008, 4096, bias=False, dtype=torch.bfloat16)
        self.activation = activation

    def forward(self, x):
        return self.down(self.activation(self.gate(x)) * self.up(x))


@pytest.mark.parametrize(
    ("batch", "tokens", "activation", "published"),
    [(4, t, nn.SiLU(), p) for t, p in [(1024, 1342.0), (2048, 2040.0), (4096, 3500.0), (8192, 6420.0)]]
    + [(8, t, nn.GELU("tanh"), p) for t, p in [(1024, 2040.0), (2048, 3500.0), (4096, 6420.0), (8192, 12260.0)]],
)
def test_liger_gated_mlp(batch, tokens, activation, published):
    """Liger, h100_all_benchmark_data.csv, swiglu and geglu/huggingface/full, H100 NVL: forward and backward."""

    def build():
        x = torch.randn(batch, tokens, 4096, dtype=torch.bfloat16, requires_grad=True)
        mlp = GatedMLP(activation)

        def step():
            y = mlp(x)
            y.backward(torch.randn_like(y), retain_graph=True)

        return step

    assert steady_peak(build, preset("h100")) == published


@pytest.mark.parametrize(
    ("width", "published"),
    [(1024, 80.0625), (2048, 160.09375), (4096, 320.15625), (8192, 640.28125), (16384, 1280.53125)],
)
def test_liger_layer_norm(width, published):
    """Liger, h100_all_benchmark_data.csv, layer_norm/huggingface/full, H100 NVL: float32, 4096 rows."""

    def build():
        norm, unused = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width)
        x = torch.randn(4096, width)
        dy = torch.randn_like(x)
        x.requires_grad_(True)
        step = lambda: norm(x).backward(dy, retain_graph=True)  # noqa: E731
        step.unused = unused
        return step

    assert steady_peak(build, preset("h100")) == published


ROPE = [
    ("a100", 512, 2048, 22.26611328125),
    ("a100", 2048, 2048, 64.64111328125),
    ("a100", 8192, 2048, 234.14111328125),
    ("a100", 8192, 1024, 121.13330078125),
    ("a100", 8192, 4096, 460.15673828125),
    ("a100", 8192, 8192, 912.18798828125),
    ("a100", 8192, 16384, 1816.25048828125),
    ("h100", 512, 2048, 46.14111328125),
    ("h100", 2048, 2048, 88.51611328125),
    ("h100", 8192, 2048, 258.01611328125),
]


@pytest.mark.parametrize(("gpu", "width", "tokens", "published"), ROPE)
def test_liger_rotary_embedding(gpu, width, tokens, published):
    """Liger, a100_ and h100_all_benchmark_data.csv, rope/huggingface/full: bf16, 32 and 8 heads.

    The angles come of a batched product, so one workspace is there, and the GPUs differ by its size.
    """

    def turned(x):
        first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
        return torch.cat((-second, first), dim=-1)

    def build():
        size, half = width // 32, torch.bfloat16
        frequencies = torch.ones(size // 2)
        q = torch.randn((1, tokens, 32, size), requires_grad=True, dtype=half).transpose(1, 2)
        k = torch.randn((1, tokens, 8, size), requires_grad=True, dtype=half).transpose(1, 2)
        dq, dk = torch.randn_like(q), torch.randn_like(k)
        positions = torch.arange(tokens).unsqueeze(0)
        with torch.no_grad():
            angles = (frequencies[None, :, None].expand(1, -1, 1) @ positions[:, None, :].float()).transpose(1, 2)
            angles = torch.cat((angles, angles), -1)
            cos, sin = angles.cos().to(half), angles.sin().to(half)
        del angles

        def step():
            c, s = cos.unsqueeze(1), sin.unsqueeze(1)
            outs = (q * c + turned(q) * s, k * c + turned(k) * s)
            torch.autograd.grad(outs, (q, k), (dq, dk), allow_unused=True, retain_graph=True)

        step.kept = frequencies, positions
        return step

    assert steady_peak(build, preset(gpu)) == published


@pytest.mark.parametrize(
    ("batch", "tokens", "width", "left_over", "published"),
    [
        (
            32,
            512,
            768,
            12240.0,
            {
                2048: 12371.359375,
                4096: 12401.40625,
                8192: 12461.5,
                16384: 12581.6875,
                32768: 12773.6875,
                65536: 13157.6875,
                131072: 13925.6875,
            },
        ),
        (
            8,
            2048,
            4096,
            13769.59375,
            {
                1024: 14388.130859375,
                2048: 14468.154296875,
                4096: 14628.201171875,
                8192: 14948.294921875,
                16384: 15588.482421875,
                32768: 16612.482421875,
                65536: 18660.482421875,
                131072: 22756.482421875,
            },
        ),
    ],
)
def test_liger_embedding(batch, tokens, width, left_over, published):
    """Liger, all_benchmark_data.csv, embedding/huggingface/full, A100: the slope in the vocabulary, to the byte.

    That process held a second table (torch.compile's or Liger's), and the same left-over in every row of a table.
    """
    for rows, peak in published.items():

        def build(rows=rows):
            ids, table, other = (
                torch.randint(0, rows, (batch, tokens)),
                nn.Embedding(rows, width),
                nn.Embedding(rows, width),
            )

            def step():
                y = table(ids)
                y.backward(torch.randn_like(y))

            step.other = other
            return step

        assert same(steady_peak(build) + left_over, peak)


class Attention(nn.Module):
    def __init__(self, width, length, dropout, heads, keep_mask):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.out, self.dropout, self.keep_mask = nn.Linear(width, width), nn.Dropout(dropout), keep_mask
        if keep_mask:
            self.register_buffer("mask", torch.triu(torch.ones(length, length), diagonal=1))

    def forward(self, x):
        b, t, width = x.shape
        k, q, v = (f(x).view(b, t, self.heads, -1) for f in (self.key, self.query, self.value))
        k, q, v = k.transpose(1, 2), q.transpose(1, 2), v.transpose(1, 2)
        scores = q @ k.transpose(2, 3)
        mask = self.mask.bool() if self.keep_mask else torch.triu(torch.ones(t, t, dtype=torch.bool), diagonal=1)
        scores.masked_fill_(mask[:t, :t], -torch.inf)
        weights = self.dropout(torch.softmax(scores / k.shape[-1] ** 0.5, dim=-1))
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, width))


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        mean, var = x.mean(dim=-1, keepdim=True), x.var(dim=-1, keepdim=True, unbiased=False)
        norm = (x - mean) / torch.sqrt(var + 1e-5)
        return self.scale * norm + self.shift


class Gelu(nn.Module):
    def forward(self, x):
        root = torch.sqrt(torch.tensor(2.0 / math.pi, device="cpu"))  # stays on the host
        return 0.5 * x * (1 + torch.tanh(root * (x + 0.044715 * torch.pow(x, 3))))


class Block(nn.Module):
    def __init__(self, width, length, dropout, heads, keep_mask):
        super().__init__()
        self.att = Attention(width, length, dropout, heads, keep_mask)
        self.ff = nn.Sequential(nn.Linear(width, 4 * width), Gelu(), nn.Linear(4 * width, width))
        self.norm1, self.norm2, self.drop = Norm(width), Norm(width), nn.Dropout(dropout)

    def forward(self, x):
        shortcut = x
        x = self.norm1(x)
        x = self.att(x)
        x = self.drop(x)
        x = x + shortcut
        shortcut = x
        x = self.norm2(x)
        x = self.ff(x)
        x = self.drop(x)
        return x + shortcut


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keep_mask", "fused", "published"), [(True, None, 26.2617), (False, None, 26.2422), (False, True, 26.2422)]
)
def test_gpt_training_reserved(keep_mask, fused, published):
    """https://github.com/rasbt/LLMs-from-scratch, ch05/10_llm-training-speed, A100, torch 2.6: whole AdamW steps.

    GPT of 124 M parameters, float32, batches of 8 x 1024; memory_reserved after an epoch, in GiB. What is reserved
    grows until the second step's backward and stays.
    """

    def build():
        tokens, positions = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
        drop, blocks = nn.Dropout(0.1), nn.Sequential(*[Block(768, 1024, 0.1, 12, keep_mask) for _ in range(12)])
        norm, head = Norm(768), nn.Linear(768, 50257, bias=False)
        model = nn.ModuleList([tokens, positions, blocks, norm, head])
        adamw = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.1, fused=fused)

        def loss_of():
            ids, target = torch.randint(50257, (8, 1024)), torch.randint(50257, (8, 1024))
            embedded, places = tokens(ids), positions(torch.arange(1024))  # held until the loss is there, as upstream
            x = drop(embedded + places)
            x = norm(blocks(x))
            logits = head(x)
            del embedded, places, x
            return F.cross_entropy(logits.flatten(0, 1), target.flatten())

        def step():
            for i in range(2):
                adamw.zero_grad()
                loss = loss_of()
                loss.backward()
                adamw.step()
                if not i:  # evaluated after the first step
                    model.eval(), drop.eval()
                    with torch.no_grad():
                        loss_of()
                    model.train(), drop.train()
            ck.mark("end")

        return step

    (end,) = simulate(build, at_release(PRE_HOPPER, "2.6"), builds=True).marks
    assert round(end.reserved / GiB, 4) == published
