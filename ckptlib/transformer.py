"""How much does a transformer layer remember? A GPT written so that its saved bytes can be counted and derived.

Layout is (T, N, D): with tokens first, heads are views of the one QKV product and nothing is copied before attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """A GPT's sizes, under their usual names: `width` is h, `heads` a, `tokens` s of the literature."""

    layers: int
    width: int
    heads: int
    tokens: int
    vocabulary: int
    dropout: float = 0.1

    def layer_nbytes(self, batch: int = 1) -> int:
        """What one layer keeps in half precision: sbh(34 + 5as/h), and 8 bytes a token for two LayerNorms' statistics.

        Korthikanti et al. 2022 leave the statistics out; on a GPU they are float32, and 16 bytes.
        """
        s, h, a = self.tokens, self.width, self.heads
        return batch * (34 * s * h + 5 * a * s * s + 8 * s)


GPT2_XL = Config(layers=48, width=1600, heads=25, tokens=1024, vocabulary=50257)
GPT3_175B = Config(layers=96, width=12288, heads=96, tokens=2048, vocabulary=51200)
MT_NLG_530B = Config(layers=105, width=20480, heads=128, tokens=2048, vocabulary=51200)


def dropout(x: Tensor, p: float) -> Tensor:
    """The fused op that CUDA uses: it keeps a mask of 1 byte an element. F.dropout on a CPU keeps x's dtype instead."""
    return torch.native_dropout(x, p, True)[0] if p else x


class Attention(nn.Module):
    """Causal self-attention, plain or fused. x: (T, N, D) -> (T, N, D)."""

    def __init__(self, config: Config, fused: bool):
        super().__init__()
        self.heads, self.p, self.fused = config.heads, config.dropout, fused
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.proj = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        t, n, d = x.shape
        # (T, N, 3D) -> three views (N * heads, T, D / heads) of one storage
        q, k, v = self.qkv(x).view(t, n * self.heads, -1).transpose(0, 1).chunk(3, dim=-1)
        y = self.attend_fused(q, k, v, n) if self.fused else self.attend(q, k, v, mask)
        return self.proj(y.transpose(0, 1).reshape(t, n, d))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        # Scaling and masking inside the product: as ops of their own, each would save a matrix of T x T per head.
        scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=q.shape[-1] ** -0.5)
        return dropout(scores.softmax(-1), self.p) @ v

    def attend_fused(self, q: Tensor, k: Tensor, v: Tensor, n: int) -> Tensor:
        q, k, v = (x.unflatten(0, (n, self.heads)) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).flatten(0, 1)


class Block(nn.Module):
    """Attention, then an MLP four times as wide, each behind a LayerNorm, beside a residual. (T, N, D) -> (T, N, D)."""

    def __init__(self, config: Config, fused: bool = False):
        super().__init__()
        self.p = config.dropout
        self.norm_1, self.norm_2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.attention = Attention(config, fused)
        self.widen = nn.Linear(config.width, 4 * config.width)
        self.narrow = nn.Linear(4 * config.width, config.width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + dropout(self.attention(self.norm_1(x), mask), self.p)
        return x + dropout(self.narrow(F.gelu(self.widen(self.norm_2(x)))), self.p)


def causal_mask(tokens: int, dtype: torch.dtype) -> Tensor:
    return torch.full((tokens, tokens), float("-inf"), dtype=dtype).triu(1)


class GPT(nn.Module):
    """Embeddings, blocks, a tied output. token ids: (T, N) -> logits: (T, N, vocabulary)."""

    def __init__(self, config: Config, fused: bool = False):
        super().__init__()
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.position = nn.Embedding(config.tokens, config.width)
        self.blocks = nn.ModuleList(Block(config, fused) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.p = config.dropout
        self.register_buffer("mask", causal_mask(config.tokens, torch.get_default_dtype()), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        t = len(ids)
        positions = torch.arange(t, device=ids.device)[:, None]
        x = dropout(self.token(ids) + self.position(positions), self.p)
        for block in self.blocks:
            x = block(x, self.mask[:t, :t])
        return F.linear(self.norm(x), self.token.weight)


def gpt_step(config: Config, batch: int = 1, dtype: torch.dtype = torch.bfloat16, fused: bool = False) -> Callable:
    """Build a GPT and AdamW; return one training step on random tokens."""
    model = GPT(config, fused).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.randint(config.vocabulary, (config.tokens, batch))

    def step() -> None:
        logits = model(ids)
        F.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
