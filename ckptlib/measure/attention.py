"""What does fused attention hold on CUDA? Rules for `scaled_dot_product_attention`, which a CPU runs by another kernel.

Paths are inside pytorch/pytorch, aten/src/ATen/native/transformers/cuda. Shapes are (N, H, T, D): batch, heads, tokens,
features of a head; S tokens on the key side. FlashAttention 2 as in torch >= 2.2, efficient attention as in >= 2.1.
"""

from __future__ import annotations

from types import MappingProxyType

import torch

from .events import Op, TensorMeta
from .held import HALVES, NOTHING, Held, ceil_div, copies, round_up
from .presets import Gpu

CUDNN = "cuDNN's attention may be chosen instead of FlashAttention here; its workspace depends on the engine it picks"
MATH = "CUDA has no fused attention for {}: it runs matrix products and a softmax, and holds T x S scores per head"


def attention(op: Op, gpu: Gpu) -> Held:
    """flash_attn/flash_api.cpp `mha_fwd`, attention.cu `_efficient_attention_forward`: what is saved beside `out`."""
    q, k, v = op.args[:3]
    if not q.numel or not k.numel:
        return NOTHING
    backend, why = _backend(q, k, v, op.kwargs.get("attn_mask"), gpu)
    if backend == "math":
        return Held(unknown=why)
    n, h, t, d = q.shape
    if backend == "efficient":  # logsumexp is padded for backward's blocks; wide heads need a float output in half
        accumulator = (n * t * h * v.shape[3] * 4,) if q.dtype in HALVES and max(d, v.shape[3]) > 128 else ()
        return Held(after=accumulator, resized=MappingProxyType({1: n * h * round_up(t, 32) * 4}))
    wide = round_up(d, 8)
    padded = tuple(x.nbytes // d * wide for x in (q, k, v)) if wide != d else ()  # and these are what is saved
    random = (16, 8) if gpu.torch_release >= (2, 7) else ()  # the generator's state; on the CPU before
    resized = {0: q.nbytes // d * wide} if padded else {}
    return Held((), _split_buffers(q, k, gpu), padded + random, MappingProxyType(resized), why)


def attention_backward(op: Op, gpu: Gpu) -> Held:
    """flash_api.cpp `mha_bwd`, attention_backward.cu `_efficient_attention_backward`: float accumulators for dq."""
    dy, q, k, v, out = op.args[:5]
    if not q.numel or not k.numel:
        return NOTHING
    backend, why = _backend(q, k, v, op.kwargs.get("attn_mask"), gpu)
    if backend == "math":
        return Held(unknown=why)
    n, h, t, d = q.shape
    if backend == "efficient":
        product = n * t * h * v.shape[3] * 4  # float kernels compute delta = (dy * out).sum(-1) in passing
        passing = 0 if q.dtype in HALVES else product + n * h * t * 4
        # the product is freed before the workspace is allocated: only the larger of the two is ever held
        workspace = max(passing, _efficient_workspace(q, k, v, gpu))
        return Held(copies(_by_token(dy)), (n * h * t * 4, workspace))
    rows, columns = round_up(t, 128), round_up(d, 32 if d <= 128 else 64)
    after = (n * h * rows * 4, n * rows * h * columns * 4)  # softmax_d and dq_accum
    if k.shape[1] != h:  # grouped queries: dk and dv of every query head, summed afterwards
        after += (n * k.shape[2] * h * round_up(d, 8) * q.dtype.itemsize,) * 2
    return Held(copies(_by_token(dy), _by_token(out)), after, unknown=why)


def _backend(q: TensorMeta, k: TensorMeta, v: TensorMeta, mask: TensorMeta | None, gpu: Gpu) -> tuple[str, str]:
    """sdp_utils.cpp: the backend CUDA would pick, and what is uncertain about it."""
    half, d = q.dtype in HALVES, max(q.shape[3], v.shape[3])
    if half and mask is None and gpu.has_flash_attention and d <= 256 and q.shape[3] == v.shape[3]:
        prefers_cudnn = gpu.capability in ((9, 0), (10, 0)) and gpu.torch_release >= (2, 8)
        return "flash", CUDNN if prefers_cudnn and d <= 128 else ""
    if q.dtype not in (torch.float32, *HALVES) or (q.dtype == torch.bfloat16 and gpu.capability < (8, 0)):
        return "math", MATH.format(f"{str(q.dtype).removeprefix('torch.')} on {gpu.name}")
    if k.shape[1] != q.shape[1]:
        return "math", MATH.format("grouped queries in this dtype or with a mask")
    aligned = 8 if half else 4 if gpu.capability >= (8, 0) else 1
    if q.shape[3] % aligned or v.shape[3] % aligned:
        return "math", MATH.format(f"heads of {d} features in this dtype")
    return "efficient", ""


def _split_buffers(q: TensorMeta, k: TensorMeta, gpu: Gpu) -> tuple[int, ...]:
    """`set_params_splitkv`: too few blocks for the GPU, so the keys are split too, each with an output of its own."""
    n, h, t, d = q.shape
    wide = round_up(d, 8)
    blocks, slots = n * h * ceil_div(t, 64), 2 * gpu.sm_count
    key_blocks = ceil_div(k.shape[2], 256 if wide <= 64 else 128 if wide <= 128 else 64)
    if not blocks or blocks >= 0.8 * slots:
        return ()
    candidates = [
        s
        for s in range(1, min(128, slots, key_blocks) + 1)
        if s == 1 or ceil_div(key_blocks, s) != ceil_div(key_blocks, s - 1)
    ]
    filled = {s: blocks * s / slots / ceil_div(blocks * s, slots) for s in candidates}
    splits = next((s for s in candidates if filled[s] >= 0.85 * max(filled.values())), 1)
    if splits == 1:
        return ()
    return splits * n * h * t * 4, splits * n * h * t * round_up(wide, 32 if wide <= 128 else 64) * 4


def _efficient_workspace(q: TensorMeta, k: TensorMeta, v: TensorMeta, gpu: Gpu) -> int:
    """mem_eff_attention/kernel_backward.h `workspace_size`: dq by blocks; dk and dv if registers cannot hold them."""
    n, h, t, d = q.shape
    rows, columns, in_registers = _efficient_block(max(d, v.shape[3]), q.dtype in HALVES, gpu)
    dq = ceil_div(t, rows) * ceil_div(d, columns) * (16 + rows * columns * 4) // 4
    dkv = 0
    if q.dtype in HALVES and not in_registers:
        splits = ceil_div(k.shape[2], columns)
        if n * h >= 256 and k.shape[2] <= 2 * columns:
            splits = 1
        splits = max(1, min(splits, 200 // max(1, n * h)))
        dkv = splits * round_up(k.shape[2], columns) * (round_up(d, rows) + round_up(v.shape[3], rows))
    return n * h * round_up(dq + dkv, 4) * 4


def _efficient_block(d: int, half: bool, gpu: Gpu) -> tuple[int, int, bool]:
    """kernels/generate_kernels.py: queries and keys of a block, and whether dk and dv stay in registers.

    GPUs with little shared memory (Turing; Ampere and Ada outside the data centre) fall back to 64 queries.
    """
    roomy = gpu.capability in ((7, 0), (8, 0), (9, 0), (10, 0))
    if d <= 64:
        return 64, 64, half
    if not half:
        return (128, 64, False) if roomy and gpu.capability >= (8, 0) else (64, 64, False)
    if d <= 96 and gpu.capability in ((8, 6), (8, 9)):
        return 128, 64, True
    if not roomy:
        return 64, 64, False
    return 128, 128 if d <= 128 and gpu.capability >= (8, 0) else 64, d <= 128


def _by_token(x: TensorMeta) -> TensorMeta:
    """(N, H, T, D) seen as (N, T, H, D), the layout the kernels want contiguous."""
    (n, h, t, d), (sn, sh, st, sd) = x.shape, x.stride
    return x._replace(shape=(n, t, h, d), stride=(sn, st, sh, sd))
