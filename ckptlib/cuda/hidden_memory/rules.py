"""How much memory does a CUDA kernel allocate that no tensor shows? One rule for each op, with its reason and source.

Paths are inside pytorch/pytorch, aten/src/ATen/native/cuda by default. An op without a rule counts as having no
hidden memory, because a wrong rule is worse than none. Inputs are taken to start at the beginning of their storage.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import torch

from ...tracing.events import Op, TensorMeta
from ..gpus import Gpu
from . import cub, linear_algebra, losses, normalisation, pooling, sorting
from .allocations import (
    CUBLAS,
    HALVES,
    NOTHING,
    Free,
    HiddenMemory,
    MemoryStep,
    Output,
    accumulated,
    ceil_div,
    copies,
    is_contiguous,
    is_dense,
    passing,
)
from .attention import cudnn, cudnn_backward, efficient, efficient_backward, flash, flash_backward
from .convolutions import CUDNN_WORKSPACE, convolution, convolution_backward
from .matmuls import CUSPARSE, batched_product, matrix_product, uses_cublas, uses_cublaslt
from .reductions import KERNELS, reduced, reduction_buffers

__all__ = ["HiddenMemory", "hidden_memory", "uses_cublas", "uses_cublaslt"]
Rule = Callable[[Op, Gpu], HiddenMemory]


def hidden_memory(op: Op, gpu: Gpu) -> HiddenMemory:
    """What `op` allocates on `gpu` besides its outputs; nothing for an op without a rule."""
    rule = RULES.get(op.name)
    return rule(op, gpu) if rule else NOTHING


def _reduction(op: Op, gpu: Gpu) -> HiddenMemory:
    """reductions.py: partial sums of blocks, and their semaphores."""
    return HiddenMemory(after=reduction_buffers(op, gpu))


def _logsumexp(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/ReduceOps.cpp `logsumexp_out_impl`: the maxima, those that are infinite, and `(x - maxima).exp_()`."""
    x, out = op.args[0], op.outputs[0] if op.outputs else None
    if not x.numel or out is None:
        return NOTHING
    dims = [op.args[1]] if isinstance(op.args[1], int) else list(op.args[1])
    size, flags = out.nbytes, out.numel
    maxima = passing(*reduced(x, gpu, "aten.amax.default", dims))
    sums = passing(*reduced(x, gpu, "aten.sum.dim_IntList", dims))
    return HiddenMemory((size, *maxima, size, flags, -flags, -size, x.nbytes), sums)


def _native_dropout(op: Op, gpu: Gpu) -> HiddenMemory:
    """Dropout.cu `dropout_cuda`: the mask first."""
    return HiddenMemory((Output(1),) if len(op.outputs) > 1 else ())


def _scan(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/ReduceOps.cpp `impl_func_cum_ops`, ScanUtils.cuh `scan_dim`: in the result's dtype; CUB's if flat."""
    x = op.args[0]
    n = x.numel
    if not x.shape or not n:
        return NOTHING
    result = op.outputs[0].dtype if op.outputs else x.dtype
    steps: tuple[MemoryStep, ...] = copies(x)
    if result != x.dtype:  # what is converted keeps its strides if they are dense, and is contiguous if they are not
        size = n * result.itemsize
        steps = (size, size) if is_dense(x) and not is_contiguous(x) else (size,)
    flat = n > 1 and x.shape[op.args[1]] == n
    return HiddenMemory(after=(*steps, *(passing(cub.scan(n, result)) if flat else ())))


def _count_nonzero(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/TensorAdvancedIndexing.cpp `count_nonzero_cuda`: sums `self != 0`, in int64."""
    x = op.args[0]._replace(dtype=torch.bool)
    named = op.args[1] if len(op.args) > 1 else op.kwargs.get("dim")
    dims = [named] if isinstance(named, int) else list(named) if named else None
    buffers = reduced(x, gpu, "aten.sum.dim_IntList", dims, to=op.outputs[0]) if x.numel else ()
    return HiddenMemory((x.nbytes,), buffers)


def _histogram(op: Op, gpu: Gpu) -> HiddenMemory:
    """SummaryOps.cu `_histc_cuda_template`: asks for the extremes if no range is given."""
    x = op.args[0]
    low, high = ((*op.args[2:], 0, 0)[:2]) if len(op.args) > 2 else (op.kwargs.get("min", 0), op.kwargs.get("max", 0))
    size = x.dtype.itemsize
    return HiddenMemory(after=(size, size, *passing(*reduced(x, gpu, "aten.aminmax.default"))) if low == high else ())


def _bincount(op: Op, gpu: Gpu) -> HiddenMemory:
    """SummaryOps.cu `_bincount_cuda_template`: the extremes first."""
    return HiddenMemory((8, 8))


def _unfolded(op: Op, gpu: Gpu) -> HiddenMemory:
    """Im2Col.cu, Col2Im.cu: the output is made in the input's size, and grows. A smaller one keeps that room."""
    x = op.args[0]
    if op.outputs and x.nbytes >= op.outputs[0].nbytes:
        return HiddenMemory(after=copies(x))
    return HiddenMemory((x.nbytes, *copies(x)))


def _unfold_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/UnfoldBackward.cpp, UnfoldBackwardKernel.cu: the places that windows which overlap cover."""
    dy, _, dim, size, step = op.args[:5]
    covered = (dy.shape[dim] - 1) * step + size
    return HiddenMemory(after=passing(8 * covered) if step < size and dy.numel else ())


def _bicubic_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """UpSampleBicubic2d.cu `upsample_bicubic2d_backward_out_cuda_template`: works on `grad_output.contiguous()`."""
    return HiddenMemory(after=copies(op.args[0]))


def _mode(op: Op, gpu: Gpu) -> HiddenMemory:
    """TensorModeKernel.cpp `mode_kernel_impl`: works on a contiguous copy with the dimension last."""
    x, dim = op.args[0], op.args[1] if len(op.args) > 1 else -1
    if len(x.shape) < 2:
        return NOTHING
    order = list(range(len(x.shape)))
    order[dim], order[-1] = order[-1], order[dim]
    moved = x._replace(shape=tuple(x.shape[d] for d in order), stride=tuple(x.stride[d] for d in order))
    return HiddenMemory(after=copies(moved))


def _conv_tbc(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/ConvolutionTBC.cpp: a matrix product for each place of the kernel."""
    return HiddenMemory(after=(CUBLAS,))


def _pdist_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """DistanceKernel.cu `pdist_backward_kernel_impl`: the gradient of every pair, summed afterwards."""
    x = op.args[1]
    return HiddenMemory(after=_summed((x.shape[0] - 1, *x.shape), [0], x.dtype, gpu) if x.numel else ())


def _cdist_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """DistanceKernel.cu `cdist_backward_kernel_impl`: the gradient of every pair, summed afterwards."""
    x, y = op.args[1:3]
    pairs = (*x.shape[:-2], y.shape[-2], *x.shape[-2:])
    return HiddenMemory(after=_summed(pairs, [len(x.shape) - 2], x.dtype, gpu) if x.numel and y.numel else ())


def _summed(shape: tuple[int, ...], dims: list[int], dtype: torch.dtype, gpu: Gpu) -> tuple[int, ...]:
    stride = tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
    x = TensorMeta(shape, stride, dtype, -1)
    return (x.nbytes, *reduced(x, gpu, "aten.sum.dim_IntList", dims))


def _euclidean_dist(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/Distance.cpp `_euclidean_dist`: one product of both inputs, each with its squares and ones beside it."""
    steps: tuple[MemoryStep, ...] = ()
    ends: tuple[MemoryStep, ...] = ()
    for x in op.args[:2]:
        norms = x.nbytes // x.shape[-1] if x.numel else 0
        steps += (x.nbytes, norms, -x.nbytes, norms)
    for i, x in enumerate(op.args[:2]):
        norms = x.nbytes // x.shape[-1] if x.numel else 0
        scaled = (x.nbytes,) if i == 0 else ()
        ends += (*scaled, x.nbytes + 2 * norms, -norms, -norms, *(-nbytes for nbytes in scaled))
    return HiddenMemory((*steps, *ends), (CUBLAS,) if op.outputs[0].numel else ())


def _affine_grid(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/AffineGridGenerator.cpp: the grid of the corners, filled by an axis at a time, times theta."""
    theta, (n, _, *space), aligned = op.args[:3]
    size = theta.dtype.itemsize
    steps: tuple[MemoryStep, ...] = (n * prod(space) * (len(space) + 1) * size,)
    for steps_along in reversed(space):
        steps += passing(*(steps_along * size,) * (1 if aligned or steps_along == 1 else 3))
    return HiddenMemory(steps, (CUBLAS,))


def _trilinear(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/Linear.cpp `_trilinear`: one slice of the unrolled dimension at a time, a pair of factors at a time."""
    factors, expanded, summed = op.args[:3], op.args[3:6], op.args[6]
    unrolled = op.args[7] if len(op.args) > 7 else 1
    sizes: dict[int, int] = {}
    for factor, missing in zip(factors, expanded, strict=True):
        present = [d for d in range(len(factor.shape) + len(missing)) if d not in missing]
        sizes |= dict(zip(present, factor.shape, strict=True))
    early = [d for d in summed if d in expanded[2]]  # the third factor does not have them: summed with the first pair
    late = [d for d in summed if d not in expanded[2]]
    first = {d for d in sizes if not (d in expanded[0] and d in expanded[1])} - {unrolled, *early}
    second = (first | {d for d in sizes if d not in expanded[2]}) - {unrolled, *late}
    pair, triple = (prod(sizes[d] for d in dims) * factors[0].dtype.itemsize for dims in (first, second))
    if not op.outputs[0].numel or not all(factor.numel for factor in factors):
        return NOTHING
    return HiddenMemory(after=(pair, *((CUBLAS,) if early else ()), triple, *((CUBLAS,) if late else ())))


def _renorm(op: Op, gpu: Gpu) -> HiddenMemory:
    """RenormKernel.cu, native/ReduceOps.cpp: a norm for each slice, and a factor in the input's dtype."""
    x, dim = op.args[0], op.args[2]
    slices = x.shape[dim]
    half = (slices * x.dtype.itemsize,) if x.dtype in HALVES else ()
    return HiddenMemory(after=(slices * accumulated(x.dtype), *half))


def _scatter_mean(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/TensorAdvancedIndexing.cpp `scatter_reduce_two`: counts what was added to each place, by adding ones."""
    x, _, _, src, reduce = op.args[:5]
    if reduce != "mean":
        return NOTHING
    return HiddenMemory(after=(src.nbytes, x.nbytes, x.numel))


def _index_mean(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/cuda/Indexing.cu `index_reduce_func_cuda_impl`: the same."""
    x, _, _, src, reduce = op.args[:5]
    if reduce != "mean":
        return NOTHING
    return HiddenMemory(after=(x.nbytes, *passing(src.nbytes), x.numel))


def _complex_to_float(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/UnaryOps.cpp `unary_op_impl_with_complex_to_float_out`: first in complex numbers."""
    x = op.args[0]
    return HiddenMemory(after=(x.nbytes,)) if x.dtype.is_complex and x.numel else NOTHING


def _where(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/TensorCompare.cpp `where_self_out`: both sides in the common dtype, before there is a result."""
    dtype = op.outputs[0].dtype
    return HiddenMemory(tuple(t.numel * dtype.itemsize for t in op.args[1:3] if t.dtype != dtype and t.numel))


def _ldexp(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/BinaryOps.cpp `ldexp`: x * 2 ** other, unless a float is scaled by whole numbers, which has a kernel."""
    x, other = op.args[:2]
    if gpu.torch_release >= (2, 13) and x.dtype.is_floating_point and not other.dtype.is_floating_point:
        return NOTHING
    size = (other.dtype if other.dtype.is_floating_point else torch.get_default_dtype()).itemsize
    return HiddenMemory((other.numel * size, *passing(8))) if other.numel else NOTHING


def _dirichlet(op: Op, gpu: Gpu) -> HiddenMemory:
    """Distributions.cpp `_s_dirichlet_cuda`: Gamma samples in the result's place, divided by their sums."""
    x = op.args[0]
    if not x.numel:
        return NOTHING
    last = len(x.shape) - 1
    return HiddenMemory(after=(x.nbytes // x.shape[last], *passing(*reduced(x, gpu, "aten.sum.dim_IntList", [last]))))


def _normal(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/DistributionTemplates.h `normal_impl`, `normal_out_impl`: both test that no deviation is below zero."""
    deviations = op.args[1]
    if not deviations.numel:
        return NOTHING
    size = deviations.dtype.itemsize
    tests = (size, *passing(*reduced(deviations, gpu, "aten.min.default")), *passing(1), -size)
    return HiddenMemory((*tests, Output(0)), tests)


def _normal_around(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/DistributionTemplates.h `normal_out_impl`: one deviation becomes a tensor, which tells the shape."""
    return HiddenMemory(after=(op.args[0].nbytes,) if op.args[0].numel else ())


def _number_to_power(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/Pow.cpp `pow_Scalar_out`: the number becomes a tensor on the GPU, unless it is 1."""
    return HiddenMemory(after=(8,)) if op.args[0] != 1 else NOTHING


def _mvlgamma(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/UnaryOps.cpp `mvlgamma`: p terms for each element, in a new last dimension that is summed."""
    x, p = op.args[:2]
    size = (op.outputs[0] if op.outputs else x).dtype.itemsize
    if not x.numel:
        return NOTHING
    terms = x._replace(shape=(*x.shape, p), stride=(*(stride * p for stride in x.stride), 1))
    sums = passing(*reduced(terms, gpu, "aten.sum.dim_IntList", [len(x.shape)]))
    made = (p * size, x.numel * p * size, -p * size)
    in_place = op.name == "aten.mvlgamma_.default"
    return HiddenMemory((*made, x.numel * size, *sums)) if in_place else HiddenMemory(made, sums)


def _roll(op: Op, gpu: Gpu) -> HiddenMemory:
    """TensorTransformations.h `roll_common`: one dimension after the other, each into a tensor of its own."""
    x, dims = op.args[0], op.args[2] if len(op.args) > 2 else []
    copied: tuple[MemoryStep, ...] = copies(x)
    if len(dims) < 2 or not x.numel:
        return HiddenMemory(copied)
    freed = (Free(0),) if copied else ()
    return HiddenMemory((*copied, x.nbytes, *freed, *(x.nbytes,) * (len(dims) - 2)))


def _embedding(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/Embedding.cpp `embedding_symint`: `indices.reshape(-1)`, which copies what has no flat view."""
    indices = op.args[1]
    return NOTHING if len(indices.shape) == 1 or _has_flat_view(indices) else HiddenMemory((indices.nbytes,))


def _has_flat_view(t: TensorMeta) -> bool:
    """Whether the elements are at equal distances in their order (TensorUtils.cpp `computeStride`)."""
    pairs = [(size, stride) for size, stride in zip(t.shape, t.stride, strict=True) if size != 1]
    return not t.numel or all(a == b * size for (_, a), (size, b) in zip(pairs, pairs[1:], strict=False))


def _repeat_interleave(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/Repeat.h `repeat_interleave_common`: where each run ends, and how many there are if nobody says so."""
    repeats = op.args[0]
    n = repeats.numel
    if not n:
        return NOTHING
    converted = (n * 8,) if repeats.dtype != torch.int64 else ()
    scan = passing(cub.scan(n, torch.int64))
    ends = (*copies(repeats), n * 8, *converted, *scan, *(-size for size in converted))
    if op.kwargs.get("output_size") is not None:
        return HiddenMemory(ends)
    tests = (n, *(passing(1, *reduced(repeats._replace(dtype=torch.bool), gpu, "aten.all.default"))), -n)
    return HiddenMemory((*ends, *tests), unknown=sorting.VALUES)


def _foreach_norm(op: Op, gpu: Gpu) -> HiddenMemory:
    """ForeachReduceOp.cu: one partial norm for every 65,536 elements of the largest tensor, for each of the tensors."""
    tensors = op.args[0]
    chunks = max((ceil_div(t.numel, 65536) for t in tensors), default=0)
    return HiddenMemory(before=(len(tensors) * chunks * accumulated(tensors[0].dtype),) if chunks else ())


def _fused_cell(op: Op, gpu: Gpu) -> HiddenMemory:
    """RNN.cu `_thnn_fused_lstm_cell_cuda`, `_thnn_fused_gru_cell_cuda`: what backward needs is allocated first."""
    last = len(op.outputs) - 1
    return HiddenMemory(before=(Output(last), *(Output(i) for i in range(last))))


def _fused_cell_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """RNN.cu: the gradients of the biases are sums over the rows of the gates' gradients, after all others."""
    biases = [i for i, t in enumerate(op.outputs) if len(t.shape) == 1]
    steps: list[MemoryStep] = [Output(i) for i in range(len(op.outputs) - len(biases))]
    for number, i in enumerate(biases):
        total = Op(op.index, "aten.sum.dim_IntList", (op.outputs[number], [0]), {}, op.module, op.phase)
        first = sum(isinstance(step, int) for step in steps)
        buffers = reduction_buffers(total, gpu)
        steps += [Output(i), *buffers, *(Free(first + n) for n in range(len(buffers)))]
    return HiddenMemory(before=tuple(steps))


def _unknown(why: str) -> Rule:
    return lambda op, gpu: HiddenMemory(unknown=why)


RULES: dict[str, Rule] = {
    **dict.fromkeys(KERNELS, _reduction),
    "aten.mm.default": matrix_product,
    "aten.addmm.default": matrix_product,
    "aten.addmm_.default": matrix_product,
    "aten._addmm_activation.default": matrix_product,
    "aten.bmm.default": batched_product,
    "aten.baddbmm.default": batched_product,
    "aten.baddbmm_.default": batched_product,
    "aten._softmax.default": normalisation.softmax,
    "aten._log_softmax.default": normalisation.softmax,
    "aten._softmax_backward_data.default": normalisation.softmax_backward,
    "aten._log_softmax_backward_data.default": normalisation.log_softmax_backward,
    "aten.native_layer_norm.default": normalisation.layer_norm,
    "aten.native_layer_norm_backward.default": normalisation.layer_norm_backward,
    "aten.native_group_norm.default": normalisation.group_norm,
    "aten.native_group_norm_backward.default": normalisation.group_norm_backward,
    "aten.logsumexp.default": _logsumexp,
    "aten._foreach_norm.Scalar": _foreach_norm,
    "aten._scaled_dot_product_flash_attention.default": flash,
    "aten._scaled_dot_product_flash_attention_backward.default": flash_backward,
    "aten._scaled_dot_product_efficient_attention.default": efficient,
    "aten._scaled_dot_product_efficient_attention_backward.default": efficient_backward,
    "aten._scaled_dot_product_cudnn_attention.default": cudnn,
    "aten._scaled_dot_product_cudnn_attention_backward.default": cudnn_backward,
    "aten.cudnn_batch_norm.default": _unknown(CUDNN_WORKSPACE),
    "aten.cudnn_batch_norm_backward.default": _unknown(CUDNN_WORKSPACE),
    "aten._safe_softmax.default": normalisation.safe_softmax,
    "aten.convolution.default": convolution,
    "aten.convolution_backward.default": convolution_backward,
    "aten._thnn_fused_lstm_cell.default": _fused_cell,
    "aten._thnn_fused_lstm_cell_backward_impl.default": _fused_cell_backward,
    "aten._thnn_fused_gru_cell.default": _fused_cell,
    "aten._thnn_fused_gru_cell_backward.default": _fused_cell_backward,
    "aten._sparse_addmm.default": _unknown(CUSPARSE),
    "aten.sort.default": sorting.sort,
    "aten.sort.stable": sorting.sort,
    "aten.topk.default": sorting.top_k,
    "aten.median.default": sorting.median,
    "aten.nanmedian.default": sorting.median,
    "aten.randperm.default": sorting.randperm,
    "aten.multinomial.default": sorting.multinomial,
    "aten.embedding_dense_backward.default": sorting.embedding_backward,
    "aten._embedding_bag.default": sorting.embedding_bag,
    "aten._embedding_bag_forward_only.default": sorting.embedding_bag,
    "aten._embedding_bag_backward.default": sorting.embedding_bag_backward,
    "aten.index.Tensor": sorting.index,
    "aten.index_put.default": sorting.index_put,
    "aten.index_put_.default": sorting.index_put,
    "aten._index_put_impl_.default": sorting.index_put,
    "aten._unsafe_index_put.default": sorting.index_put,
    "aten.nonzero.default": sorting.nonzero,
    "aten.segment_reduce.default": sorting.segment_reduce,
    "aten._segment_reduce_backward.default": sorting.segment_reduce,
    "aten.masked_scatter.default": sorting.masked_scatter,
    "aten.masked_scatter_.default": sorting.masked_scatter,
    "aten.masked_select.default": sorting.masked_select,
    "aten._unique2.default": sorting.unique,
    "aten.unique_dim.default": _unknown(sorting.VALUES),
    "aten.unique_consecutive.default": _unknown(sorting.VALUES),
    "aten.isin.Tensor_Tensor": sorting.is_in,
    "aten.binary_cross_entropy_with_logits.default": losses.bce_with_logits,
    "aten.binary_cross_entropy.default": losses.reduced_in_place,
    "aten.soft_margin_loss.default": losses.reduced_in_place,
    "aten.soft_margin_loss_backward.default": losses.soft_margin_backward,
    "aten.mse_loss.default": losses.elementwise_then_reduced,
    "aten.smooth_l1_loss.default": losses.elementwise_then_reduced,
    "aten.huber_loss.default": losses.huber,
    "aten.multi_margin_loss.default": losses.multi_margin,
    "aten.multilabel_margin_loss_forward.default": losses.multilabel_margin,
    "aten.dist.default": losses.distance,
    "aten._ctc_loss.default": losses.ctc,
    "aten._ctc_loss.Tensor": losses.ctc,
    "aten._ctc_loss_backward.default": losses.ctc_backward,
    "aten._ctc_loss_backward.Tensor": losses.ctc_backward,
    "aten.normal.float_Tensor": _normal,
    "aten.normal.Tensor_Tensor": _normal,
    "aten.normal.Tensor_float": _normal_around,
    "aten.nll_loss_forward.default": losses.nll,
    "aten.nll_loss_backward.default": losses.nll_backward,
    "aten.nll_loss2d_forward.default": losses.nll2d,
    "aten.nll_loss2d_backward.default": losses.nll2d_backward,
    "aten.native_dropout.default": _native_dropout,
    "aten.native_batch_norm.default": normalisation.batch_norm,
    "aten.native_batch_norm_backward.default": normalisation.batch_norm_backward,
    "aten._fused_rms_norm_backward.default": normalisation.rms_norm_backward,
    "aten.cumsum.default": _scan,
    "aten.cumprod.default": _scan,
    "aten.logcumsumexp.default": _scan,
    "aten._logcumsumexp.default": _scan,
    "aten.count_nonzero.default": _count_nonzero,
    "aten.count_nonzero.dim_IntList": _count_nonzero,
    "aten.histc.default": _histogram,
    "aten.bincount.default": _bincount,
    "aten.im2col.default": _unfolded,
    "aten.col2im.default": _unfolded,
    "aten.scatter_reduce.two": _scatter_mean,
    "aten.scatter_reduce_.two": _scatter_mean,
    "aten.index_reduce.default": _index_mean,
    "aten.index_reduce_.default": _index_mean,
    "aten.abs.default": _complex_to_float,
    "aten.angle.default": _complex_to_float,
    "aten.pow.Scalar": _number_to_power,
    "aten.where.self": _where,
    "aten.ldexp.Tensor": _ldexp,
    "aten._sample_dirichlet.default": _dirichlet,
    "aten.max_pool2d_with_indices.default": pooling.pool,
    "aten.max_pool2d_with_indices_backward.default": pooling.pool_backward,
    "aten.max_pool3d_with_indices.default": pooling.pool,
    "aten.max_pool3d_with_indices_backward.default": pooling.pool_3d_backward,
    "aten.avg_pool2d.default": pooling.pool,
    "aten.avg_pool2d_backward.default": pooling.pool_backward,
    "aten.avg_pool3d.default": pooling.contiguous_pool,
    "aten.avg_pool3d_backward.default": pooling.contiguous_pool_backward,
    "aten._adaptive_avg_pool2d.default": pooling.adaptive_mean,
    "aten._adaptive_avg_pool2d_backward.default": pooling.adaptive_mean_backward,
    "aten._adaptive_avg_pool3d.default": pooling.adaptive_mean,
    "aten._adaptive_avg_pool3d_backward.default": pooling.contiguous_pool_backward,
    "aten.adaptive_max_pool2d.default": pooling.adaptive_maximum,
    "aten.adaptive_max_pool2d_backward.default": pooling.adaptive_maximum_backward,
    "aten.adaptive_max_pool3d.default": pooling.contiguous_pool,
    "aten.adaptive_max_pool3d_backward.default": pooling.contiguous_pool_backward,
    "aten.mvlgamma.default": _mvlgamma,
    "aten.mvlgamma_.default": _mvlgamma,
    "aten.roll.default": _roll,
    "aten.embedding.default": _embedding,
    "aten.unfold_backward.default": _unfold_backward,
    "aten.upsample_bicubic2d_backward.default": _bicubic_backward,
    "aten.mode.default": _mode,
    "aten.conv_tbc.default": _conv_tbc,
    "aten.repeat_interleave.Tensor": _repeat_interleave,
    "aten.embedding_renorm_.default": _unknown(f"looks for equal indices: {sorting.VALUES}"),
    "aten._pdist_backward.default": _pdist_backward,
    "aten._cdist_backward.default": _cdist_backward,
    "aten._euclidean_dist.default": _euclidean_dist,
    "aten.affine_grid_generator.default": _affine_grid,
    "aten._trilinear.default": _trilinear,
    "aten.renorm.default": _renorm,
    **dict.fromkeys(linear_algebra.SOLVERS, linear_algebra.unknown_solver),
    "aten.linalg_matrix_exp.default": linear_algebra.matrix_exp,
    "aten.linalg_solve_triangular.default": linear_algebra.triangular,
    "aten._fft_r2c.default": linear_algebra.fft,
    "aten._fft_c2r.default": linear_algebra.fft,
    "aten._fft_c2c.default": linear_algebra.fft,
}
