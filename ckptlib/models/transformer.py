"""How much does a transformer layer remember? A GPT and a Llama written so that saved bytes can be counted and derived.

Layout is (T, N, D): with tokens first, heads are views of the one QKV product and nothing is copied before attention.
`recompute` says what backward runs again: "none", "selective" (scores, softmax and their product with V), or "full"
(every block). A model whose `schedule` is set follows that instead.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..planning.execute import execute
from ..planning.schedule import Schedule
from .configs import GPT2_XL, GPT3_175B, MT_NLG_530B, Config, LlamaConfig

# fmt: off
__all__ = [
    "GPT", "GPT2_XL", "GPT3_175B", "MT_NLG_530B", "Attention", "Block", "Config", "Llama", "LlamaAttention",
    "LlamaBlock", "LlamaConfig", "build", "causal_mask", "dropout", "gpt_step", "rope", "rope_tables",
]
# fmt: on


def again(fn: Callable[..., Tensor], recompute: bool, *args: object) -> Tensor:
    """fn(*args), which backward runs a second time if `recompute` is true."""
    return checkpoint(fn, *args, use_reentrant=False) if recompute else fn(*args)


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """The fused op that CUDA uses: it saves a mask of 1 byte an element. F.dropout on a CPU saves x's dtype instead."""
    return torch.native_dropout(x, p, True)[0] if p and training else x


def through(model: GPT | Llama, x: Tensor, *shared: Tensor) -> Tensor:
    """All blocks, then the head, by the model's schedule if it has one. x: (T, N, D) -> (T, N, vocabulary).

    `shared` goes to every block.
    """
    if model.schedule:
        stages = [lambda x, block=block: block(x, *shared) for block in model.blocks]
        return execute(model.schedule, [*stages, model.logits], x)
    for i, block in enumerate(model.blocks):
        x = again(block, i < model.recomputed, x, *shared)
    return model.logits(x)


class Attention(nn.Module):
    """Causal self-attention, plain or fused. x: (T, N, D) -> (T, N, D)."""

    def __init__(self, config: Config, fused: bool, recompute: bool = False):
        super().__init__()
        self.heads, self.p, self.fused, self.recompute = config.heads, config.dropout, fused, recompute
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.proj = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        t, n, d = x.shape
        # (T, N, 3D) -> three views (N * heads, T, D / heads) of one storage
        q, k, v = self.qkv(x).view(t, n * self.heads, -1).transpose(0, 1).chunk(3, dim=-1)
        attend = self.attend_fused if self.fused else self.attend
        y = again(attend, self.recompute, q, k, v, mask)
        return self.proj(y.transpose(0, 1).reshape(t, n, d))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        # Scaled and masked in the product: as ops, each would make one more T x T per head.
        scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=q.shape[-1] ** -0.5)
        return dropout(scores.softmax(-1), self.p, self.training) @ v

    def attend_fused(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (x.unflatten(0, (-1, self.heads)) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).flatten(0, 1)


class Block(nn.Module):
    """Attention, then an MLP four times as wide, each after a LayerNorm and with a residual. (T, N, D) -> (T, N, D)."""

    def __init__(self, config: Config, fused: bool = False, recompute: str = "none"):
        super().__init__()
        self.p = config.dropout
        self.norm_1, self.norm_2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.attention = Attention(config, fused, recompute == "selective")
        self.widen = nn.Linear(config.width, 4 * config.width)
        self.narrow = nn.Linear(4 * config.width, config.width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        p, training = self.p, self.training
        x = x + dropout(self.attention(self.norm_1(x), mask), p, training)
        return x + dropout(self.narrow(F.gelu(self.widen(self.norm_2(x)))), p, training)


def causal_mask(tokens: int, dtype: torch.dtype) -> Tensor:
    return torch.full((tokens, tokens), float("-inf"), dtype=dtype).triu(1)


class GPT(nn.Module):
    """Embeddings, blocks, a tied output. token ids: (T, N) -> logits: (T, N, vocabulary)."""

    mask: Tensor

    def __init__(self, config: Config, fused: bool = False, recompute: str = "none"):
        super().__init__()
        self.recomputed = config.layers if recompute == "full" else 0  # blocks, the first ones, that are run again
        self.schedule: Schedule | None = None  # of the blocks and, last, the head
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.position = nn.Embedding(config.tokens, config.width)
        self.blocks = nn.ModuleList(Block(config, fused, recompute) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.p = config.dropout
        self.register_buffer("mask", causal_mask(config.tokens, torch.get_default_dtype()), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        t = len(ids)
        positions = torch.arange(t, device=ids.device)[:, None]
        x = dropout(self.token(ids) + self.position(positions), self.p, self.training)
        return through(self, x, self.mask[:t, :t])

    def logits(self, x: Tensor) -> Tensor:
        return F.linear(self.norm(x), self.token.weight)


# ---- Llama ----------------------------------------------------------------------------------------------------------
def rope_tables(tokens: int, features: int, base: float = 500_000.0) -> tuple[Tensor, Tensor]:
    """Cosines and sines of each position's angles, both (T, 1, 1, features)."""
    angles = torch.arange(tokens)[:, None] * base ** -(torch.arange(0, features, 2) / features)
    angles = torch.cat([angles, angles], dim=-1)[:, None, None].to(torch.get_default_dtype())
    return angles.cos(), angles.sin()


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair of features by its position's angle. x: (T, N, heads, features). It saves nothing of x."""
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-right, left], dim=-1) * sin


class LlamaAttention(nn.Module):
    """Causal attention in which several heads of queries share one of keys and values. x: (T, N, D) -> (T, N, D)."""

    def __init__(self, config: LlamaConfig, fused: bool, recompute: bool = False):
        super().__init__()
        self.heads, self.kv_heads, self.fused, self.recompute = config.heads, config.kv_heads, fused, recompute
        self.q = nn.Linear(config.width, config.width, bias=False)
        self.k, self.v = (nn.Linear(config.width, config.kv_width, bias=False) for _ in "kv")
        self.proj = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x: Tensor, mask: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        t, n, d = x.shape
        q, k, v = (layer(x).view(t, n, -1, d // self.heads) for layer in (self.q, self.k, self.v))
        q, k = rope(q, cos, sin), rope(k, cos, sin)
        y = again(self.attend_fused if self.fused else self.attend, self.recompute, q, k, v, mask)
        return self.proj(y.reshape(t, n, d))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        t, n, _, d = q.shape
        # Queries that share a key stand below one another: (N * kv_heads, group * T, d). Keys are not repeated.
        q = (q * d**-0.5).unflatten(2, (self.kv_heads, -1)).permute(1, 2, 3, 0, 4).reshape(n * self.kv_heads, -1, d)
        k, v = (x.flatten(1, 2).transpose(0, 1) for x in (k, v))
        scores = (q @ k.transpose(1, 2)).unflatten(1, (-1, t)).add_(mask)  # in place: it saves nothing
        y = scores.softmax(-1).flatten(1, 2) @ v
        return y.view(n, self.heads, t, d).permute(2, 0, 1, 3)

    def attend_fused(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (x.permute(1, 2, 0, 3) for x in (q, k, v))  # (N, heads, T, d)
        gqa = self.heads != self.kv_heads
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=gqa).permute(2, 0, 1, 3)


class LlamaBlock(nn.Module):
    """Attention, then a SwiGLU, each after an RMSNorm and with a residual. (T, N, D) -> (T, N, D)."""

    def __init__(self, config: LlamaConfig, fused: bool = False, recompute: str = "none"):
        super().__init__()
        self.norm_1, self.norm_2 = (nn.RMSNorm(config.width, eps=1e-5) for _ in range(2))
        self.attention = LlamaAttention(config, fused, recompute == "selective")
        self.gate, self.up = (nn.Linear(config.width, config.ffn, bias=False) for _ in range(2))
        self.down = nn.Linear(config.ffn, config.width, bias=False)

    def forward(self, x: Tensor, mask: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x), mask, cos, sin)
        y = self.norm_2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Embedding, blocks, an output of its own. token ids: (T, N) -> logits: (T, N, vocabulary)."""

    mask: Tensor
    cos: Tensor
    sin: Tensor

    def __init__(self, config: LlamaConfig, fused: bool = False, recompute: str = "none"):
        super().__init__()
        self.recomputed = config.layers if recompute == "full" else 0  # blocks, the first ones, that are run again
        self.schedule: Schedule | None = None  # of the blocks and, last, the head
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(LlamaBlock(config, fused, recompute) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, eps=1e-5)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        tables = (causal_mask(config.tokens, torch.get_default_dtype()), *rope_tables(config.tokens, config.head_width))
        for name, table in zip(("mask", "cos", "sin"), tables, strict=True):
            self.register_buffer(name, table, persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        x, t = self.token(ids), len(ids)
        return through(self, x, self.mask[:t, :t], self.cos[:t], self.sin[:t])

    def logits(self, x: Tensor) -> Tensor:
        return self.head(self.norm(x))


def build(config: Config, fused: bool = False, recompute: str = "none") -> GPT | Llama:
    """The model that a config describes."""
    return Llama(config, fused, recompute) if isinstance(config, LlamaConfig) else GPT(config, fused, recompute)


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
