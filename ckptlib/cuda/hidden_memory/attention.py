"""How much hidden memory does fused attention have on CUDA? Rules for each kernel that a GPU may choose.

Paths are inside pytorch/pytorch, aten/src/ATen/native/transformers/cuda. Shapes are (N, H, T, D): batch, heads, tokens,
features of a head; S tokens on the key side. FlashAttention 2 as in torch >= 2.2, efficient attention as in >= 2.1.
"""

from __future__ import annotations

from ...tracing.events import Op, TensorMeta
from ..allocator_rules import round_up
from ..gpus import Gpu
from .allocations import HALVES, NOTHING, HiddenMemory, Output, ceil_div, copies, passing

CUDNN = "cuDNN's attention takes a workspace that depends on the engine it picks"


def flash(op: Op, gpu: Gpu) -> HiddenMemory:
    """flash_attn/flash_api.cpp `mha_fwd`: partial outputs, if the keys are split, which dropout forbids."""
    q, k = op.args[:2]
    if not q.numel or not k.numel:
        return NOTHING
    if len(op.args) > 3 and op.args[3] > 0:
        return HiddenMemory(after=passing(16))  # the generator's state
    return HiddenMemory(after=_split_buffers(q, k, gpu))


def flash_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """flash_api.cpp `mha_bwd`: softmax_d and a float accumulator for dq; grouped queries expand dk and dv."""
    dy, q, k, _, out = op.args[:5]
    if not q.numel or not k.numel:
        return NOTHING
    n, h, t, d = q.shape
    rows, columns = round_up(t, 128), round_up(d, 32 if d <= 128 else 64)
    after: tuple[int, ...] = (n * h * rows * 4, n * rows * h * columns * 4)
    if k.shape[1] != h:  # dk and dv of every query head, summed afterwards
        after += (n * k.shape[2] * h * round_up(d, 8) * q.dtype.itemsize,) * 2
    return HiddenMemory(copies(_by_token(dy), _by_token(out)), after)


def efficient(op: Op, gpu: Gpu) -> HiddenMemory:
    """attention.cu `_efficient_attention_forward`: wide heads need a float output besides the half one."""
    q, _, v = op.args[:3]
    n, h, t, d = q.shape
    wide = q.dtype in HALVES and max(d, v.shape[3]) > 128
    return HiddenMemory(after=(n * t * h * v.shape[3] * 4,)) if wide and q.numel else NOTHING


def efficient_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """attention_backward.cu `_efficient_attention_backward`: delta, and accumulators by blocks."""
    dy, q, k, v = op.args[:4]
    if not q.numel or not k.numel:
        return NOTHING
    n, h, t, _ = q.shape
    delta, product = n * h * t * 4, n * t * h * v.shape[3] * 4
    # float kernels have delta = (dy * out).sum(-1) computed for them, and made contiguous
    before = () if q.dtype in HALVES else (product, delta, delta, -delta, -product)
    return HiddenMemory(copies(_by_token(dy)), (*(before or (delta,)), _efficient_workspace(q, k, v, gpu)))


def cudnn(op: Op, gpu: Gpu) -> HiddenMemory:
    """attention.cu `_cudnn_attention_forward`: seed and offset are allocated before output and statistics."""
    return HiddenMemory(unknown=CUDNN, before=(Output(2), Output(3), Output(0), Output(1)))


def cudnn_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """cudnn/MHA.cpp `permute_to_matching_layout`: a gradient that is laid out otherwise than the output is copied."""
    dy, out = op.args[0], op.args[4]
    same = [st for st, n in zip(dy.stride, dy.shape, strict=True) if n > 1]
    same_as_out = same == [st for st, n in zip(out.stride, out.shape, strict=True) if n > 1]
    return HiddenMemory(after=() if same_as_out else (dy.nbytes,), unknown=CUDNN)


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
        dkv = splits * columns * (round_up(d, rows) + round_up(v.shape[3], rows))
    return n * h * round_up(dq + dkv, 4) * 4


def _efficient_block(d: int, half: bool, gpu: Gpu) -> tuple[int, int, bool]:
    """kernels/generate_kernels.py: queries and keys of a block, and whether dk and dv stay in registers.

    GPUs with little shared memory (Turing; Ampere and Ada outside the data centre) fall back to 64 queries, the latter
    only where dk and dv would stay in registers.
    """
    roomy = gpu.capability in ((7, 0), (8, 0), (9, 0), (10, 0))
    if d <= 64:
        return 64, 64, half
    if not half:
        return (128, 64, False) if roomy and gpu.capability >= (8, 0) else (64, 64, False)
    if d <= 96 and gpu.capability in ((8, 6), (8, 9)):
        return 128, 64, True
    if d <= 128 and not roomy or gpu.capability < (8, 0) and gpu.capability != (7, 0):
        return 64, 64, False
    return 128, 128 if d <= 128 and gpu.capability >= (8, 0) else 64, d <= 128


def _by_token(x: TensorMeta) -> TensorMeta:
    """(N, H, T, D) seen as (N, T, H, D), the layout the kernels want contiguous."""
    (n, h, t, d), (sn, sh, st, sd) = x.shape, x.stride
    return x._replace(shape=(n, t, h, d), stride=(sn, st, sh, sd))
