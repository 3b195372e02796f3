"""How much memory does a CUDA kernel allocate that no tensor shows? One rule for each op, with its reason and source.

Paths are inside pytorch/pytorch, aten/src/ATen/native/cuda by default. An op without a rule counts as having no
hidden memory, because a wrong rule is worse than none. Inputs are taken to start at the beginning of their storage.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...tracing.events import Op, TensorMeta
from ..gpus import Gpu
from .allocations import NOTHING, HiddenMemory, accumulated, ceil_div, copies, is_permuted
from .attention import CUDNN, efficient, efficient_backward, flash, flash_backward
from .matmuls import CUSPARSE, batched_product, matrix_product, uses_cublas, uses_cublaslt
from .reductions import KERNELS, reduction_buffers

__all__ = ["HiddenMemory", "hidden_memory", "uses_cublas", "uses_cublaslt"]
Rule = Callable[[Op, Gpu], HiddenMemory]
CUDNN_WORKSPACE = "cuDNN's workspace depends on the engine its heuristics pick; PyTorch bounds it by free memory alone"
SORT_STORAGE = "sorting takes library storage of a few times its input, by an algorithm chosen at run time"


def hidden_memory(op: Op, gpu: Gpu) -> HiddenMemory:
    """What `op` allocates on `gpu` besides its outputs; nothing for an op without a rule."""
    rule = RULES.get(op.name)
    return rule(op, gpu) if rule else NOTHING


# --- softmax and normalisation ----------------------------------------------------------------------------------------


def _softmax(op: Op, gpu: Gpu) -> HiddenMemory:
    """SoftMax.cu `host_softmax`: works on `input.contiguous()`."""
    return HiddenMemory(after=copies(op.args[0]))


def _safe_softmax(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/transformers/attention.cpp `_safe_softmax`: marks the scores that were -inf, since 2.5; 2.5 also copies.

    Published: 3.99 GiB for 28 heads of 4000 x 4000 scores on 2.9.1 (ComfyUI#15135); the copy of 2.5 is pytorch#139612.
    """
    scores = op.args[0].numel
    if not scores or gpu.torch_release < (2, 5):
        return NOTHING
    return HiddenMemory(before=(op.outputs[0].nbytes, scores) if gpu.torch_release == (2, 5) else (scores,))


def _softmax_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """SoftMax.cu `softmax_backward_cuda_out`: `tmp = grad * output`, of the output's size, then `tmp.contiguous()`."""
    grad, output = op.args[:2]
    tmp = output.numel * max(grad.dtype.itemsize, output.dtype.itemsize)
    again = (tmp,) if is_permuted(grad) else ()  # tmp takes the order of its dimensions from the gradient
    return HiddenMemory(after=(tmp, *again, *copies(output)) if tmp else ())


def _log_softmax_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """SoftMax.cu `host_softmax_backward`: no product here, only `.contiguous()` of both inputs."""
    return HiddenMemory(after=copies(*op.args[:2]))


def _layer_norm(op: Op, gpu: Gpu) -> HiddenMemory:
    """layer_norm_kernel.cu `layer_norm_cuda`: works on `input.contiguous()`."""
    return HiddenMemory(before=copies(op.args[0]))


def _layer_norm_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """layer_norm_kernel.cu: over 65,536 rows of few features, partial sums of each gradient, then `sum(0)` (>= 2.8)."""
    dy, x, normalized = op.args[:3]
    d = prod(normalized)
    rows = x.numel // d if d else 0
    wanted = sum(map(bool, op.args[7][1:]))
    after = copies(dy)
    if gpu.torch_release >= (2, 8) and rows > 65536 and d // 32 < gpu.sm_count // 2 and wanted:
        blocks = min(32768 // ceil_div(d, 32), ceil_div(rows, 32))
        partial = TensorMeta((blocks, d), (d, 1), x.dtype, -1)
        total = Op(op.index, "aten.sum.dim_IntList", (partial, [0]), {}, op.module, op.phase)
        after += (partial.nbytes,) * wanted + (d * x.dtype.itemsize, *reduction_buffers(total, gpu))
    return HiddenMemory(before=copies(x), after=after)


def _group_norm(op: Op, gpu: Gpu) -> HiddenMemory:
    """group_norm_kernel.cu: scale and shift fused per sample and channel, in float."""
    x, weight, bias, n, c, pixels = op.args[:6]
    fused = (n * c * accumulated(x.dtype),) * 2 if pixels != 1 and (weight or bias) and n else ()
    return HiddenMemory(after=fused)


def _group_norm_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """group_norm_kernel.cu: sums of dy*x and dy per sample and channel, and three factors made of them."""
    x, n, c, pixels, groups = op.args[1], *op.args[5:9]
    size = accumulated(x.dtype)
    factors = (n * groups * size,) * 2 if op.args[9][0] else ()
    scale = (n * c * size,) if op.args[9][0] and pixels != 1 and op.args[4] else ()
    return HiddenMemory(after=((n * c * size,) * 2 + factors + scale) if n else ())


# --- the rest ---------------------------------------------------------------------------------------------------------


def _reduction(op: Op, gpu: Gpu) -> HiddenMemory:
    """reductions.py: partial sums of blocks, and their semaphores."""
    return HiddenMemory(after=reduction_buffers(op, gpu))


def _logsumexp(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/ReduceOps.cpp `logsumexp_out_impl`: the maxima, and `(x - maxima).exp_()` of the input's size."""
    x, size = op.args[0], op.outputs[0].nbytes if op.outputs else 0
    return HiddenMemory(before=(size, x.nbytes) if x.numel else ())


def _embedding_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """Embedding.cu, EmbeddingBackwardKernel.cu: over 3072 indices, sorts them and sums runs of equal ones in tens.

    The sort's own storage is freed before the result is allocated, so it is left out.
    """
    dy, indices, rows, _, by_frequency = op.args[:5]
    n, size = indices.numel, indices.dtype.itemsize
    before = copies(indices, dy)
    if n <= 3072 and not by_frequency:
        return HiddenMemory(before)
    runs = min(n, rows)
    parts = n // 10 + runs
    sums = parts * dy.shape[-1] * accumulated(dy.dtype)
    sorted_ = (n * size,) * (3 if by_frequency else 2)
    return HiddenMemory(before + sorted_, (n * size, 8, runs * size, runs * size, 8, parts * size, sums))


def _foreach_norm(op: Op, gpu: Gpu) -> HiddenMemory:
    """ForeachReduceOp.cu: one partial norm for every 65,536 elements of the largest tensor, for each of the tensors."""
    tensors = op.args[0]
    chunks = max((ceil_div(t.numel, 65536) for t in tensors), default=0)
    return HiddenMemory(before=(len(tensors) * chunks * accumulated(tensors[0].dtype),) if chunks else ())


def _unknown(why: str) -> Rule:
    return lambda op, gpu: HiddenMemory(unknown=why)


RULES: dict[str, Rule] = {
    **dict.fromkeys(KERNELS, _reduction),
    "aten.mm.default": matrix_product,
    "aten.addmm.default": matrix_product,
    "aten._addmm_activation.default": matrix_product,
    "aten.bmm.default": batched_product,
    "aten.baddbmm.default": batched_product,
    "aten._softmax.default": _softmax,
    "aten._log_softmax.default": _softmax,
    "aten._softmax_backward_data.default": _softmax_backward,
    "aten._log_softmax_backward_data.default": _log_softmax_backward,
    "aten.native_layer_norm.default": _layer_norm,
    "aten.native_layer_norm_backward.default": _layer_norm_backward,
    "aten.native_group_norm.default": _group_norm,
    "aten.native_group_norm_backward.default": _group_norm_backward,
    "aten.logsumexp.default": _logsumexp,
    "aten.embedding_dense_backward.default": _embedding_backward,
    "aten._foreach_norm.Scalar": _foreach_norm,
    "aten._scaled_dot_product_flash_attention.default": flash,
    "aten._scaled_dot_product_flash_attention_backward.default": flash_backward,
    "aten._scaled_dot_product_efficient_attention.default": efficient,
    "aten._scaled_dot_product_efficient_attention_backward.default": efficient_backward,
    "aten._scaled_dot_product_cudnn_attention.default": _unknown(CUDNN),
    "aten._scaled_dot_product_cudnn_attention_backward.default": _unknown(CUDNN),
    "aten.cudnn_batch_norm.default": _unknown(CUDNN_WORKSPACE),
    "aten.cudnn_batch_norm_backward.default": _unknown(CUDNN_WORKSPACE),
    "aten._safe_softmax.default": _safe_softmax,
    "aten.convolution.default": _unknown(CUDNN_WORKSPACE),
    "aten.convolution_backward.default": _unknown(CUDNN_WORKSPACE),
    "aten._sparse_addmm.default": _unknown(CUSPARSE),
    "aten.sort.default": _unknown(SORT_STORAGE),
    "aten.sort.stable": _unknown(SORT_STORAGE),
    "aten.topk.default": _unknown(SORT_STORAGE),
}
