"""How does a CPU run an op that only CUDA has? It runs a replacement, and also where outputs differ from CUDA's.

They run below autograd and below the tracer, so what they allocate on the way is not counted. What they return
has the shapes, dtypes and strides of CUDA's kernels (torch/_meta_registrations.py, and the .cu files named below).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..gpus import Gpu
from ..hidden_memory.allocations import HALVES
from ..hidden_memory.convolutions import cudnn_runs
from .host_tensors import host_scalar, mark_host

aten = torch.ops.aten
_forward = aten._scaled_dot_product_flash_attention_for_cpu
_backward = aten._scaled_dot_product_flash_attention_for_cpu_backward
Kernel = Callable[..., Any]


# --- attention: (N, H, T, D) queries, (N, G, S, D) keys and values --------------------------------------------------


def _flash(
    gpu: Gpu, q: Tensor, k: Tensor, v: Tensor, p: float = 0.0, causal: bool = False, debug: bool = False, *,
    scale: float | None = None,
) -> tuple:  # fmt: skip
    """flash_attn/flash_api.cpp `mha_fwd`. The generator's state is on the device since 2.7, before on the CPU.

    Dropout is left out of the values: the kernel draws its mask inside, so it changes no byte.
    """
    out, lse = _fused(q, k, v, None, causal, scale)
    state = q.new_empty(2, dtype=torch.uint64), q.new_empty((), dtype=torch.uint64)
    if gpu.torch_release < (2, 7):
        state = host_scalar(), host_scalar()
    return _like(q, out), lse, None, None, q.shape[2], k.shape[2], *state, q.new_empty(0)


def _flash_backward(
    gpu: Gpu, dy: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, cq: Tensor | None,
    ck: Tensor | None, tq: int, tk: int, p: float, causal: bool, seed: Tensor, offset: Tensor, *,
    scale: float | None = None,
) -> tuple:  # fmt: skip
    grads = _fused_backward(dy, q, k, v, out, lse, None, causal, scale)
    return tuple(_like(t, g) for t, g in zip((q, k, v), grads, strict=True))


def _cudnn(
    gpu: Gpu, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, with_lse: bool, p: float = 0.0,
    causal: bool = False, debug: bool = False, *, scale: float | None = None,
) -> tuple:  # fmt: skip
    """cudnn/MHA.cpp. What it saves is flash's, and two seeds; only cuDNN knows its workspace."""
    out, lse = _fused(q, k, v, mask, causal, scale)
    lse = lse.unsqueeze(-1) if with_lse else lse.new_empty(0)
    seed, offset = (q.new_empty((), dtype=torch.int64) for _ in range(2))
    return _like(q, out), lse, None, None, q.shape[2], k.shape[2], seed, offset, None


def _cudnn_backward(
    gpu: Gpu, dy: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, seed: Tensor, offset: Tensor,
    mask: Tensor | None, cq: Tensor | None, ck: Tensor | None, tq: int, tk: int, p: float, causal: bool, *,
    scale: float | None = None,
) -> tuple:  # fmt: skip
    grads = _fused_backward(dy, q, k, v, out, lse.squeeze(-1), mask, causal, scale)
    return tuple(_like(t, g) for t, g in zip((q, k, v), grads, strict=True))


def _efficient(
    gpu: Gpu, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, with_lse: bool, p: float = 0.0,
    causal: bool = False, *, scale: float | None = None,
) -> tuple:  # fmt: skip
    """attention.cu `_efficient_attention_forward`: tokens before heads; log-sum-exp padded to 32; seeds on the CPU."""
    out, lse = _fused(q, k, v, mask, causal, scale)
    n, h, t, _ = q.shape
    padded = q.new_empty(n, h, -(-t // 32) * 32 if with_lse else 0, dtype=torch.float32)
    if with_lse:
        padded[..., :t].copy_(lse)
    return _by_token(out), padded, host_scalar(), host_scalar()


def _efficient_backward(
    gpu: Gpu, dy: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, out: Tensor, lse: Tensor, seed: Tensor,
    at: Tensor, p: float, wanted: list[bool], causal: bool = False, *, scale: float | None = None,
) -> tuple:  # fmt: skip
    """attention_backward.cu: gradients with tokens before heads, the mask's padded to 16 columns."""
    lse = lse[..., : q.shape[2]]
    grads = _fused_backward(dy, q, k, v, out, lse, mask, causal, scale)
    d_mask = _mask_backward(dy, q, k, v, mask, out, lse, causal, scale) if mask is not None and wanted[3] else None
    return *(_by_token(g) for g in grads), d_mask


def _fused(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float | None) -> tuple:
    """The CPU's fused kernel. It needs heads of one width, as many heads of keys as of queries, and no dropout."""
    wide, scale = max(q.shape[3], v.shape[3]), scale if scale is not None else q.shape[3] ** -0.5
    q_, k_, v_ = (_widened(t, wide, q.shape[1]) for t in (q, k, v))
    out, lse = _forward(q_, k_, v_, 0.0, causal, attn_mask=mask, scale=scale)
    return out[..., : v.shape[3]], lse


def _fused_backward(
    dy: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, mask: Tensor | None, causal: bool,
    scale: float | None,
) -> list[Tensor]:  # fmt: skip
    wide, scale = max(q.shape[3], v.shape[3]), scale if scale is not None else q.shape[3] ** -0.5
    dy_, q_, k_, v_, out_ = (_widened(t, wide, q.shape[1]) for t in (dy, q, k, v, out))
    grads = _backward(dy_, q_, k_, v_, out_, lse, 0.0, causal, attn_mask=mask, scale=scale)
    return [
        g[..., : t.shape[3]].unflatten(1, (t.shape[1], -1)).sum(2) if t.shape[1] != g.shape[1] else g[..., : t.shape[3]]
        for t, g in zip((q, k, v), grads, strict=True)
    ]


def _widened(t: Tensor, wide: int, heads: int) -> Tensor:
    t = F.pad(t, (0, wide - t.shape[3])) if t.shape[3] != wide else t
    return t.repeat_interleave(heads // t.shape[1], 1) if t.shape[1] != heads else t


def _mask_backward(
    dy: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, out: Tensor, lse: Tensor, causal: bool,
    scale: float | None,
) -> Tensor:  # fmt: skip
    scores = (q @ k.mT).float() * (scale if scale is not None else q.shape[3] ** -0.5) + mask
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    weights = (scores - lse.unsqueeze(-1)).exp()
    grad = weights * ((dy @ v.mT).float() - (dy * out).float().sum(-1, keepdim=True))
    n, h, t, s = mask.shape
    return mask.new_empty(n, h, t, -(-s // 16) * 16)[..., :s].copy_(grad)


def _like(t: Tensor, value: Tensor) -> Tensor:
    """`value` with `t`'s order of dimensions: what `empty_like(t)` gives."""
    made = torch.empty_like(t)
    made = made if made.shape == value.shape else torch.empty_like(value)
    return made.copy_(value)


def _by_token(value: Tensor) -> Tensor:
    n, h, t, d = value.shape
    return value.new_empty(n, t, h, d).transpose(1, 2).copy_(value)


# --- normalisation --------------------------------------------------------------------------------------------------


def _batch_norm(
    gpu: Gpu, x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor | None, var: Tensor | None, training: bool,
    momentum: float, eps: float,
) -> tuple:  # fmt: skip
    """cudnn/BatchNorm.cpp: statistics in the weight's dtype. The size of its reserve is unknown, so it is 0 here."""
    out, save_mean, save_var = aten.native_batch_norm(x, weight, bias, mean, var, training, momentum, eps)
    stats = (save_mean, save_var) if training else (weight.new_empty(0), weight.new_empty(0))
    return out, *(t.to(weight.dtype) for t in stats), x.new_empty(0, dtype=torch.uint8)


def _batch_norm_backward(
    gpu: Gpu, x: Tensor, dy: Tensor, weight: Tensor, mean: Tensor | None, var: Tensor | None, save_mean: Tensor | None,
    save_var: Tensor | None, eps: float, reserve: Tensor,
) -> tuple:  # fmt: skip
    """cuDNN computes all three gradients, wanted or not."""
    return aten.native_batch_norm_backward(dy, x, weight, mean, var, save_mean, save_var, True, eps, [True] * 3)


def _rms_norm(gpu: Gpu, x: Tensor, shape: list[int], weight: Tensor | None, eps: float | None) -> tuple:
    """layer_norm_kernel.cu `_fused_rms_norm_cuda`: the reciprocal root in float32 for half inputs."""
    wide = x.float() if x.dtype in HALVES else x
    dims = list(range(-len(shape), 0))
    rstd = (wide.pow(2).mean(dims, keepdim=True) + (eps if eps is not None else torch.finfo(wide.dtype).eps)).rsqrt()
    y = wide * rstd if weight is None else wide * rstd * weight
    return y.to(x.dtype).contiguous(), rstd


def _rms_norm_backward(
    gpu: Gpu, dy: Tensor, x: Tensor, shape: list[int], rstd: Tensor, weight: Tensor | None, wanted: list[bool]
) -> tuple:
    wide, dims, rows = x.to(rstd.dtype), list(range(-len(shape), 0)), list(range(x.dim() - len(shape)))
    unit, scaled = wide * rstd, dy if weight is None else dy * weight
    dx = (scaled - unit * (unit * scaled).mean(dims, keepdim=True)) * rstd
    dw = (dy * unit).sum(rows) if rows else dy * unit
    wants_weight = wanted[1] and weight is not None
    return dx.to(x.dtype).contiguous() if wanted[0] else None, dw.to(x.dtype) if wants_weight else None


def _with_float_statistics(op: Any) -> Kernel:
    """layer_norm_kernel.cu, Normalization.cu: half inputs have float statistics. The CPU's are in half."""

    def kernel(gpu: Gpu, x: Tensor, *args: Any) -> tuple:
        out, *stats = op(x, *args)
        return out, *(t.float() if x.dtype in HALVES else t for t in stats)

    return kernel


def _native_batch_norm(gpu: Gpu, x: Tensor, *args: Any) -> tuple:
    """Normalization.cu `batch_norm_cuda`: makes room for statistics in evaluation too."""
    out, *stats = _with_float_statistics(aten.native_batch_norm.default)(gpu, x, *args)
    return out, *(t if t.numel() else t.new_empty(x.shape[1]) for t in stats)


def _layer_norm_backward(
    gpu: Gpu, dy: Tensor, x: Tensor, shape: list[int], mean: Tensor, rstd: Tensor, weight: Tensor | None,
    bias: Tensor | None, wanted: list[bool],
) -> tuple:  # fmt: skip
    stats = (_as_on_cpu(t, x, weight) for t in (mean, rstd))
    return aten.native_layer_norm_backward(dy, x, shape, *stats, weight, bias, wanted)


def _native_batch_norm_backward(
    gpu: Gpu, dy: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor | None, var: Tensor | None,
    save_mean: Tensor | None, save_var: Tensor | None, *rest: Any,
) -> tuple:  # fmt: skip
    save_mean, save_var = (_as_on_cpu(t, x, weight) for t in (save_mean, save_var))
    return aten.native_batch_norm_backward(dy, x, weight, mean, var, save_mean, save_var, *rest)


def _as_on_cpu(stat: Tensor | None, x: Tensor, weight: Tensor | None) -> Tensor | None:
    return stat.to(x.dtype) if stat is not None and (weight is None or weight.dtype == x.dtype) else stat


# --- softmax: SoftMax.cpp reads float16 and writes float32 in one kernel --------------------------------------------


def _softmax(op: Any) -> Kernel:
    return lambda gpu, x, dim, to_float: op(x.float() if to_float else x, dim, False)


def _softmax_backward(op: Any) -> Kernel:
    return lambda gpu, dy, y, dim, dtype: op(dy, y, dim, y.dtype).to(dtype)


# --- convolutions: PyTorch's own kernels take and return contiguous tensors -----------------------------------------


def _convolution(gpu: Gpu, x: Tensor, weight: Tensor, *rest: Any) -> Tensor:
    """Convolution.cpp `_convolution`, where cuDNN does not run it (hidden_memory/convolutions.py)."""
    out = aten.convolution(x, weight, *rest)
    return out if _in_any_format(x, weight, rest) else out.contiguous()


def _in_any_format(x: Tensor, weight: Tensor, rest: tuple) -> bool:
    """Whether cuDNN runs it, channels last too: in float64 it does not (`cudnn_conv_suggest_memory_format`)."""
    in_cudnn = torch.backends.cudnn.enabled and cudnn_runs(x, weight, rest[4], rest[6])
    return in_cudnn and x.dtype is not torch.float64


def _convolution_backward(gpu: Gpu, dy: Tensor, x: Tensor, weight: Tensor, *rest: Any) -> tuple:
    grads = aten.convolution_backward(dy, x, weight, *rest)
    return grads if _in_any_format(x, weight, rest) else tuple(None if g is None else g.contiguous() for g in grads)


# --- cells of recurrent networks: cuda/RNN.cu -------------------------------------------------------------------------


def _lstm_cell(
    gpu: Gpu, x: Tensor, h: Tensor, cx: Tensor, b_x: Tensor | None = None, b_h: Tensor | None = None
) -> tuple:
    """`_thnn_fused_lstm_cell_cuda`: (N, 4H) gates -> h, c, and the four gates for backward."""
    i, f, g, o = _added(x, h, b_x, b_h).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def _lstm_cell_backward(
    gpu: Gpu, dh: Tensor | None, dc: Tensor | None, cx: Tensor, cy: Tensor, gates: Tensor, has_bias: bool
) -> tuple:
    """`_thnn_fused_lstm_cell_backward_impl_cuda`."""
    i, f, g, o = gates.chunk(4, 1)
    dh, dc = (torch.zeros_like(cx) if d is None else d for d in (dh, dc))
    tanh = cy.tanh()
    dc = dc + dh * o * (1 - tanh * tanh)
    d_gates = [dc * g * i * (1 - i), dc * cx * f * (1 - f), dc * i * (1 - g * g), dh * tanh * o * (1 - o)]
    grads = torch.cat(d_gates, 1)
    return grads, dc * f, grads.sum(0) if has_bias else None


def _gru_cell(
    gpu: Gpu, x: Tensor, h: Tensor, hx: Tensor, b_x: Tensor | None = None, b_h: Tensor | None = None
) -> tuple:
    """`_thnn_fused_gru_cell_cuda`: (N, 3H) gates -> h, and five pieces of its size for backward."""
    x, h = (t if b is None else t + b for t, b in ((x, b_x), (h, b_h)))
    (r, z, n), (h_r, h_z, h_n) = x.chunk(3, 1), h.chunk(3, 1)
    r, z = (r + h_r).sigmoid(), (z + h_z).sigmoid()
    n = (n + r * h_n).tanh()
    return n + z * (hx - n), torch.cat([r, z, n, hx, h_n], 1)


def _gru_cell_backward(gpu: Gpu, dh: Tensor, workspace: Tensor, has_bias: bool) -> tuple:
    """`_thnn_fused_gru_cell_backward_cuda`."""
    r, z, n, hx, h_n = workspace.chunk(5, 1)
    d_z, d_n = dh * (hx - n) * (1 - z) * z, dh * (1 - z) * (1 - n * n)
    d_r = d_n * h_n * (1 - r) * r
    d_x, d_h = torch.cat([d_r, d_z, d_n], 1), torch.cat([d_r, d_z, d_n * r], 1)
    return d_x, d_h, dh * z, d_x.sum(0) if has_bias else None, d_h.sum(0) if has_bias else None


def _added(x: Tensor, h: Tensor, b_x: Tensor | None, b_h: Tensor | None) -> Tensor:
    return x + h if b_x is None or b_h is None else x + h + b_x + b_h


# --- log-sigmoid: CUDA computes exp(-|x|) again, the CPU saves it -----------------------------------------------------


def _log_sigmoid(gpu: Gpu, x: Tensor) -> tuple:
    return aten.log_sigmoid_forward(x)[0], x.new_empty(0)


def _log_sigmoid_backward(gpu: Gpu, dy: Tensor, x: Tensor, buffer: Tensor) -> Tensor:
    return aten.log_sigmoid_backward(dy, x, aten.log_sigmoid_forward(x)[1])


# --- embedding bags: CUDA always notes the bag of each index, and the largest only for "max" -------------------------


def _embedding_bag(op: Any) -> Kernel:
    """EmbeddingBag.cu `_embedding_bag_cuda`."""

    def kernel(gpu: Gpu, weight: Tensor, indices: Tensor, offsets: Tensor, *args: Any) -> tuple:
        out, _, _, largest = op(weight, indices, offsets, *args)
        mode, last = (args[1] if len(args) > 1 else 0), (args[5] if len(args) > 5 else False)
        starts = offsets[:-1] if last else offsets
        places = torch.arange(indices.numel(), dtype=starts.dtype, device=starts.device)
        bags = torch.searchsorted(starts, places, right=True) - 1
        ends = torch.cat([starts[1:], starts.new_full((1,), indices.numel())])
        return (
            out,
            bags.to(indices.dtype),
            (ends - starts).to(indices.dtype),
            largest if mode == 2 else bags.new_empty(0),
        )

    return kernel


# --- unfold and fold: Im2Col.cu and Col2Im.cu allocate the result at least as large as the input ----------------------


def _in_room_of_input(op: Any) -> Kernel:
    def kernel(gpu: Gpu, x: Tensor, *args: Any) -> Tensor:
        out = op(x, *args)
        if out.numel() >= x.numel():
            return out
        return x.new_empty(x.numel()).as_strided(out.shape, out.stride()).copy_(out)

    return kernel


def _unique(gpu: Gpu, x: Tensor, *args: Any, **kw: Any) -> tuple:
    """UniqueCub.cu `compute_unique`: the results are made with the size of the input, and keep that room."""
    out, inverse, counts = aten._unique2(x, *args, **kw)
    room, numbers = x.new_empty(x.numel()), counts.new_empty(x.numel() if counts.numel() else 0)
    return room[: out.numel()].copy_(out), inverse, numbers[: counts.numel()].copy_(counts)


# --- shuffles: ChanelShuffle.cpp, PixelShuffle.cpp are views and one copy, which is contiguous ------------------------


def _shuffled(op: Any) -> Kernel:
    """`math_pixel_shuffle`, `math_channel_shuffle`. The CPU's kernels keep the channels last where they are last."""
    return lambda gpu, x, *args: op(x, *args).contiguous()


def _packed(gpu: Gpu, x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """PackedSequence.cpp `_pack_padded_sequence`: the sizes of the batches stay on the host."""
    out, sizes = aten._pack_padded_sequence(x, lengths, batch_first)
    return out, mark_host(sizes)


SHUFFLES = (aten.pixel_shuffle, aten.pixel_unshuffle, aten.channel_shuffle, aten.native_channel_shuffle)
KERNELS: dict[Any, Kernel] = {
    **{op.default: _shuffled(op.default) for op in SHUFFLES},
    aten._pack_padded_sequence.default: _packed,
    aten._unique2.default: _unique,
    aten.im2col.default: _in_room_of_input(aten.im2col.default),
    aten.col2im.default: _in_room_of_input(aten.col2im.default),
    aten.convolution.default: _convolution,
    aten.convolution_backward.default: _convolution_backward,
    aten._thnn_fused_lstm_cell.default: _lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: _lstm_cell_backward,
    aten._thnn_fused_gru_cell.default: _gru_cell,
    aten._thnn_fused_gru_cell_backward.default: _gru_cell_backward,
    aten._embedding_bag.default: _embedding_bag(aten._embedding_bag.default),
    aten._embedding_bag_forward_only.default: _embedding_bag(aten._embedding_bag_forward_only.default),
    aten.log_sigmoid_forward.default: _log_sigmoid,
    aten.log_sigmoid_backward.default: _log_sigmoid_backward,
    aten._scaled_dot_product_flash_attention.default: _flash,
    aten._scaled_dot_product_flash_attention_backward.default: _flash_backward,
    aten._scaled_dot_product_efficient_attention.default: _efficient,
    aten._scaled_dot_product_efficient_attention_backward.default: _efficient_backward,
    aten._scaled_dot_product_cudnn_attention.default: _cudnn,
    aten._scaled_dot_product_cudnn_attention_backward.default: _cudnn_backward,
    aten.cudnn_batch_norm.default: _batch_norm,
    aten.cudnn_batch_norm_backward.default: _batch_norm_backward,
    aten._fused_rms_norm.default: _rms_norm,
    aten._fused_rms_norm_backward.default: _rms_norm_backward,
    aten.native_layer_norm.default: _with_float_statistics(aten.native_layer_norm.default),
    aten.native_layer_norm_backward.default: _layer_norm_backward,
    aten.native_batch_norm.default: _native_batch_norm,
    aten.native_batch_norm_backward.default: _native_batch_norm_backward,
    aten._softmax.default: _softmax(aten._softmax.default),
    aten._log_softmax.default: _softmax(aten._log_softmax.default),
    aten._softmax_backward_data.default: _softmax_backward(aten._softmax_backward_data.default),
    aten._log_softmax_backward_data.default: _softmax_backward(aten._log_softmax_backward_data.default),
}
