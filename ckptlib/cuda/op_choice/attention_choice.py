"""Which attention would CUDA run? `scaled_dot_product_attention` as torch's CUDA build decomposes it.

Sources, in aten/src/ATen/native/transformers: cuda/sdp_utils.cpp (the choice), attention.cpp (what surrounds the
kernel). Shapes are (N, H, T, D): batch, heads, tokens, features of a head; S tokens on the key side.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ...torch_internals import attention_priorities
from ..gpus import Gpu
from ..hidden_memory.allocations import HALVES

aten = torch.ops.aten
DEFAULT_ORDER = [1, 2, 0, 3, 4]  # flash, efficient, math, cuDNN, and another vendor's (ATen/Context.h)


@dataclass(frozen=True)
class AttentionCall:
    """The arguments of one call."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None = None
    dropout: float = 0.0
    causal: bool = False
    scale: float | None = None
    grouped: bool = False  # enable_gqa: fewer heads of keys and values than of queries

    @property
    def trains(self) -> bool:
        return torch.is_grad_enabled() and any(t.requires_grad for t in (self.q, self.k, self.v))


def attention(call: AttentionCall, gpu: Gpu) -> Tensor:
    """(N, H, T, D), (N, H, S, D), (N, H, S, Dv) -> (N, H, T, Dv), by the ops CUDA would dispatch."""
    return {"flash": _flash, "efficient": _efficient, "cudnn": _cudnn, "math": _math}[backend(call, gpu)](call)


# --- the choice: sdp_utils.cpp `select_sdp_backend` -----------------------------------------------------------------


def backend(call: AttentionCall, gpu: Gpu) -> str:
    """The first of the enabled backends, in order of priority, whose kernel can do it.

    `torch.nn.attention.sdpa_kernel` is honoured.
    """
    rules: dict[int, tuple[str, bool, Callable[[AttentionCall, Gpu], bool]]] = {
        0: ("math", torch.backends.cuda.math_sdp_enabled(), lambda call, gpu: True),
        1: ("flash", torch.backends.cuda.flash_sdp_enabled(), _flash_can),
        2: ("efficient", torch.backends.cuda.mem_efficient_sdp_enabled(), _efficient_can),
        3: ("cudnn", torch.backends.cuda.cudnn_sdp_enabled(), _cudnn_can),
    }
    for index in _priorities(gpu):
        name, enabled, can = rules.get(index, ("", False, _flash_can))
        if enabled and can(call, gpu):
            return name
    raise RuntimeError("No available kernel. Aborting execution: every attention backend CUDA could use is disabled")


def _priorities(gpu: Gpu) -> list[int]:
    """`priority_order`: torch's default puts cuDNN first on an H100 or B200, if cuDNN is newer than 9.15.

    `check_prefer_cudnn_attention`. Wheels bring such a cuDNN since torch 2.11. An order that the program set stays.
    """
    order = list(attention_priorities())
    deprioritized = os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") == "1"
    prefers = gpu.capability in ((9, 0), (10, 0)) and gpu.torch_release >= (2, 11) and not deprioritized
    # Where this process runs on such a GPU, real or phantom, torch may have put its default in place already.
    is_default = order in (DEFAULT_ORDER, [3, *(i for i in DEFAULT_ORDER if i != 3)])
    others = [i for i in order if i != 3]
    return ([3, *others] if prefers else [*others[:3], 3, *others[3:]]) if is_default else order


def _dense(call: AttentionCall, grouped: bool) -> bool:
    q, k, v = call.q, call.k, call.v
    if not q.dim() == k.dim() == v.dim() == 4 or not q.dtype == k.dtype == v.dtype:
        return False
    if not q.shape[0] == k.shape[0] == v.shape[0] or not q.shape[2] or not k.shape[2]:
        return False
    if call.grouped and grouped:
        return k.shape[1] == v.shape[1] and q.shape[1] % k.shape[1] == 0
    return q.shape[1] == k.shape[1] == v.shape[1]


def _last_stride_is_1(call: AttentionCall) -> bool:
    return all(t.stride(-1) == 1 for t in (call.q, call.k, call.v, call.mask) if t is not None)


def _flash_can(call: AttentionCall, gpu: Gpu) -> bool:
    q = call.q
    if gpu.capability < (8, 0) or q.dtype not in HALVES or call.mask is not None or not _dense(call, grouped=True):
        return False
    d, others = q.shape[3], (call.k.shape[3], call.v.shape[3])
    if others != (d, d) or d > 256 or (call.causal and q.shape[2] != call.k.shape[2]):
        return False
    small = (8, 6) <= gpu.capability <= (8, 9) or (12, 0) <= gpu.capability <= (12, 1)
    if small and call.trains and d > 192 and (call.dropout > 0 or d <= 224):
        return False
    return d == 1 or _last_stride_is_1(call)


def _efficient_can(call: AttentionCall, gpu: Gpu) -> bool:
    q, half = call.q, call.q.dtype in HALVES
    known = (torch.float32, *HALVES) if gpu.capability >= (8, 0) else (torch.float32, torch.float16)
    if q.dtype not in known or not _dense(call, grouped=False) or not _last_stride_is_1(call):
        return False
    aligned = 8 if half else 4 if gpu.capability >= (8, 0) else 1
    d, dv = q.shape[3], call.v.shape[3]
    return d == call.k.shape[3] and d > 0 and dv > 0 and d % aligned == 0 and dv % aligned == 0


def _cudnn_can(call: AttentionCall, gpu: Gpu) -> bool:
    """`can_use_cudnn_attention`: wide heads on Hopper alone, no gradient for the mask, dropout in sixteenths."""
    q, v = call.q, call.v
    if gpu.capability < (8, 0) or q.dtype not in HALVES or not _dense(call, grouped=True):
        return False
    if (call.mask is not None and call.mask.requires_grad) or torch.are_deterministic_algorithms_enabled():
        return False
    widest = 256 if gpu.capability == (9, 0) and gpu.torch_release >= (2, 11) else 128
    small = max(q.shape[3], v.shape[3]) <= widest and q.shape[3] % 8 == v.shape[3] % 8 == 0
    single = call.k.shape[2] == 1 or (q.shape[2] == 1 and call.dropout > 0)
    return small and not single and call.dropout * 16 % 1 == 0 and _last_stride_is_1(call)


# --- what surrounds the kernel: attention.cpp `scaled_dot_product_attention` ----------------------------------------


def _flash(call: AttentionCall) -> Tensor:
    """Heads are padded to a multiple of 8 outside the kernel, so the padded copies are what autograd saves."""
    d = call.q.shape[3]
    padded = (F.pad(t, (0, -d % 8)) if d % 8 else t for t in (call.q, call.k, call.v))
    scale = call.scale if call.scale is not None else 1 / math.sqrt(d)
    out = aten._scaled_dot_product_flash_attention(*padded, call.dropout, call.causal, False, scale=scale)[0]
    return out[..., :d] if d % 8 else out


def _efficient(call: AttentionCall) -> Tensor:
    mask = additive(call.mask, call.q.dtype)
    if mask is not None:
        mask = _aligned(mask).expand(*call.q.shape[:3], call.k.shape[2])
    rest = (mask, call.trains, call.dropout, call.causal)
    return aten._scaled_dot_product_efficient_attention(call.q, call.k, call.v, *rest, scale=call.scale)[0]


def _cudnn(call: AttentionCall) -> Tensor:
    rest = (additive(call.mask, call.q.dtype), call.trains, call.dropout, call.causal, False)
    return aten._scaled_dot_product_cudnn_attention(call.q, call.k, call.v, *rest, scale=call.scale)[0]


def _math(call: AttentionCall) -> Tensor:
    """`_scaled_dot_product_attention_math`. Called directly, it would see our modes and add the mask out of place.

    Half precision is computed in float32, and the weights are rounded to half for a caller who asks for none. The
    copies in float32 and the mask live until it returns.
    """
    low, q, k, v = call.q.dtype, call.q, call.k, call.v
    mask = additive(call.mask, low)
    if low in HALVES and not torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed():
        q, k, v = q.float(), k.float(), v.float()
    wide = q, k, v  # noqa: F841
    root = math.sqrt(abs(call.scale) if call.scale is not None else 1 / math.sqrt(q.shape[-1]))
    q = aten.mul.Scalar(q, -root if call.scale is not None and call.scale < 0 else root)
    if call.causal:
        if mask is not None:
            raise RuntimeError("Explicit attn_mask should not be set when is_causal=True")
        mask = additive(torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril(), q.dtype)
    if call.grouped:
        k, v = (t.repeat_interleave(n, -3) if (n := q.shape[-3] // t.shape[-3]) > 1 else t for t in (k, v))
    scores = torch.matmul(q, aten.mul.Scalar(k.transpose(-2, -1), root))  # (N, H, T, S)
    if mask is not None:
        scores.add_(mask)
    weights = aten._safe_softmax(scores, -1)
    del scores
    if call.dropout > 0:
        weights = torch.dropout(weights, call.dropout, True)
    rounded = weights.to(low)  # noqa: F841  the second result: made before the product, alive until it is done
    return torch.matmul(weights, v).to(low)


def additive(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """`convert_boolean_attn_mask`: False becomes -inf in a new tensor of the queries' dtype."""
    if mask is None or mask.dtype is not torch.bool:
        return mask
    return aten.where.ScalarSelf(mask, 0.0, torch.scalar_tensor(-math.inf, dtype=dtype, device=mask.device))


def _aligned(mask: Tensor) -> Tensor:
    """`preprocess_mask`: rows must start at multiples of 8 elements. A width that is one still gains 8 (`pad_bias`)."""
    if mask.stride(-1) == 1 and all(stride % 8 == 0 for stride in mask.stride()[:-1]):
        return mask
    width = mask.shape[-1]
    return F.pad(mask, (0, 8 - width % 8))[..., :width]
