"""How many bytes and FLOPs, by formula? Korthikanti et al. 2022 (arXiv 2205.05198), term by term, and a Llama's.

All in half precision. Letters as in the literature: s tokens, b batch, h width, a heads, L layers, v vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import CkptError
from .configs import Config, LlamaConfig

STRATEGIES = ("none", "selective", "full")


class Term(NamedTuple):
    """One thing that a GPT layer saves: `coefficient` bytes for each of sbh, or of as²b, elements."""

    name: str
    coefficient: int
    squared: bool = False  # counts as²b: one matrix of s x s for each head, which selective recomputation drops
    sharded: bool = True  # tensor parallelism splits it; sequence parallelism splits the rest as well


TERMS = (
    Term("LayerNorm inputs", 4, sharded=False),
    Term("QKV input", 2, sharded=False),
    Term("Q and K", 4),
    Term("V", 2),
    Term("softmax output", 2, squared=True),
    Term("softmax dropout mask", 1, squared=True),
    Term("softmax dropout output", 2, squared=True),
    Term("projection input", 2),
    Term("attention dropout mask", 1, sharded=False),
    Term("MLP input", 2, sharded=False),
    Term("GELU input", 8),
    Term("GELU output", 8),
    Term("MLP dropout mask", 1, sharded=False),
)


def gpt_terms(config: Config, batch: int = 1) -> dict[str, int]:
    """The bytes that one GPT layer saves, tensor by tensor. Their sum is sbh(34 + 5as/h)."""
    s, h, a = config.tokens, config.width, config.heads
    return {t.name: batch * t.coefficient * (a * s * s if t.squared else s * h) for t in TERMS}


def layer_nbytes(
    config: Config,
    batch: int = 1,
    strategy: str = "none",
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
) -> int:
    """What each of `tensor_parallel` GPUs saves of one GPT layer.

    full: the layer's input only, 2sbh, all of it on every GPU unless sequences are split.
    """
    if strategy not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise CkptError(f"strategy is {strategy!r}, expected one of {known}")
    t, terms = tensor_parallel, gpt_terms(config, batch)
    if strategy == "full":
        return terms["QKV input"] // (t if sequence_parallel else 1)
    left = [term for term in TERMS if not (term.squared and strategy == "selective")]
    return sum(terms[k.name] // (t if k.sharded or sequence_parallel else 1) for k in left)


def activation_nbytes(
    config: Config,
    batch: int = 1,
    strategy: str = "none",
    *,
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
) -> int:
    """All layers of a GPT. Embeddings, the last norm, logits and loss are not in it."""
    return config.layers * layer_nbytes(config, batch, strategy, tensor_parallel, sequence_parallel)


def llama_terms(config: LlamaConfig, batch: int = 1, fused: bool = False, itemsize: int = 2) -> dict[str, int]:
    """What one Llama layer saves on a GPU. `itemsize` is 4 for float32; statistics are float32 in any case."""
    n, e = config.tokens * batch, itemsize  # tokens, bytes
    h, a, k, f = config.width, config.heads, config.kv_width, config.ffn
    attention = {"log-sum-exp": 4 * a * n} if fused else {"softmax output": e * a * n * config.tokens}
    return {
        "RMSNorm inputs": 2 * e * n * h,
        "RMSNorm statistics": 2 * 4 * n,
        "QKV input": e * n * h,
        "rotated Q": e * n * h,
        "rotated K": e * n * k,
        "V": e * n * k,
        **attention,
        "projection input": e * n * h,
        "MLP input": e * n * h,
        "gate": e * n * f,
        "SiLU of gate": e * n * f,
        "up": e * n * f,
        "down input": e * n * f,
    }


# ---- FLOPs ----------------------------------------------------------------------------------------------------------
def model_flops(config: Config, batch: int = 1) -> int:
    """Matrix products of one training step of a GPT, forward and twice that backward: 72bLsh²(1 + s/6h + v/12hL)."""
    return 3 * (config.layers * forward_flops(config, batch) + head_flops(config, batch))


def head_flops(config: Config, batch: int = 1) -> int:
    """The logits' forward: 2bshv."""
    return 2 * batch * config.tokens * config.width * config.vocabulary


def forward_flops(config: Config, batch: int = 1) -> int:
    """One layer's forward: 2 for each weight and token, 24bsh² in a GPT, and 4bs²h for attention."""
    h = config.width
    weights = 12 * h * h
    if isinstance(config, LlamaConfig):
        weights = 2 * h * h + 2 * h * config.kv_width + 3 * h * config.ffn
    return 2 * batch * config.tokens * weights + attention_flops(config, batch)


def attention_flops(config: Config, batch: int = 1) -> int:
    """One layer's scores and their products with V, 2bs²h each: what selective recomputation runs a second time.

    Torch's checkpoint stops early, before the second product: see `attention_again_flops`.
    """
    return 4 * batch * config.tokens**2 * config.width


def attention_again_flops(config: Config, batch: int = 1, fused: bool = False) -> int:
    """What a checkpoint around one layer's attention really runs again: the first product only, unless it is fused."""
    return attention_flops(config, batch) // (1 if fused else 2)


def recomputed_flops(config: Config, batch: int = 1, strategy: str = "none") -> int:
    """Matrix products that a strategy runs a second time, all layers."""
    again = {"none": 0, "selective": attention_flops(config, batch), "full": forward_flops(config, batch)}
    return config.layers * again[strategy]


def published_selective_flops(config: Config, batch: int = 1) -> int:
    """The paper's count with selective recomputation: 72bLsh²(1 + s/3h + v/12hL).

    It adds three times what is recomputed, as if attention's backward were run twice as well.
    """
    return model_flops(config, batch) + 3 * recomputed_flops(config, batch, "selective")


def training_state_nbytes(config: Config, itemsize: int = 4) -> int:
    """Parameters, gradients and AdamW's two moments in one dtype."""
    return 4 * itemsize * config.parameters


def probabilities_nbytes(config: Config, batch: int = 1, itemsize: int = 4) -> int:
    """Attention probabilities of all layers, if they are saved: L·a·s²·b elements."""
    return config.layers * config.heads * config.tokens**2 * batch * itemsize
