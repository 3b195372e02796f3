"""How much hidden memory do softmax and the norms have? Copies in float, and partial gradients of blocks of rows."""

from __future__ import annotations

from math import prod

from ...tracing.events import Op, TensorMeta
from ..gpus import Gpu
from .allocations import (
    HALVES,
    NOTHING,
    HiddenMemory,
    Output,
    accumulated,
    ceil_div,
    copies,
    is_contiguous,
    is_permuted,
    last_pow2,
    passing,
)
from .reductions import reduced


def softmax(op: Op, gpu: Gpu) -> HiddenMemory:
    """SoftMax.cu `host_softmax`: works on `input.contiguous()`."""
    return HiddenMemory(after=copies(op.args[0]))


def safe_softmax(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/transformers/attention.cpp `safe_softmax`: marks the scores that were -inf, since 2.5; 2.5 also copies.

    Published: 3.99 GiB for 28 heads of 4000 x 4000 scores on 2.9.1 (ComfyUI#15135); the copy of 2.5 is pytorch#139612.
    """
    scores, out = op.args[0].numel, op.outputs[0]
    if not scores or gpu.torch_release < (2, 5):
        return NOTHING
    if gpu.torch_release == (2, 5):
        return HiddenMemory(before=(out.nbytes, scores))
    return HiddenMemory(after=(scores, scores // out.shape[op.args[1]], out.dtype.itemsize))


def softmax_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """SoftMax.cu `softmax_backward_cuda_out`: `tmp = grad * output`, of the output's size, then `tmp.contiguous()`."""
    grad, output = op.args[:2]
    tmp = output.numel * max(grad.dtype.itemsize, output.dtype.itemsize)
    again = (tmp,) if is_permuted(grad) else ()  # tmp takes the order of its dimensions from the gradient
    return HiddenMemory(after=(tmp, *again, *copies(output)) if tmp else ())


def log_softmax_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """SoftMax.cu `host_softmax_backward`: no product here, only `.contiguous()` of both inputs."""
    return HiddenMemory(after=copies(*op.args[:2]))


def layer_norm(op: Op, gpu: Gpu) -> HiddenMemory:
    """layer_norm_kernel.cu `layer_norm_cuda`: works on `input.contiguous()`."""
    return HiddenMemory(before=copies(op.args[0]))


def layer_norm_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """layer_norm_kernel.cu `LayerNormBackwardKernelImpl`."""
    dy, x, normalized = op.args[:3]
    wanted = sum(map(bool, op.args[7][1:]))
    after = copies(dy)
    if gpu.torch_release >= (2, 8):
        after += _partial_gradients(x, normalized, wanted, gpu)
    return HiddenMemory(before=copies(x), after=after)


def rms_norm_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """layer_norm_kernel.cu `_fused_rms_norm_backward_cuda`: the same kernel, with one gradient."""
    dy, x, normalized = op.args[:3]
    return HiddenMemory(copies(dy, x), _partial_gradients(x, normalized, int(bool(op.args[5][1])), gpu))


def _partial_gradients(x: TensorMeta, normalized: list[int], wanted: int, gpu: Gpu) -> tuple[int, ...]:
    """layer_norm_kernel.cu: over 65,536 rows of few features, partial sums of each gradient, then `sum(0)`."""
    d = prod(normalized)
    rows = x.numel // d if d else 0
    if rows <= 65536 or d // 32 >= gpu.sm_count // 2 or not wanted:
        return ()
    blocks = min(32768 // ceil_div(d, 32), ceil_div(rows, 32))
    partial = TensorMeta((blocks, d), (d, 1), x.dtype, -1)
    buffers = reduced(partial, gpu, "aten.sum.dim_IntList", [0])
    return (partial.nbytes,) * wanted + (d * x.dtype.itemsize, *buffers)


def batch_norm(op: Op, gpu: Gpu) -> HiddenMemory:
    """Normalization.cuh `batch_norm_stats_channels_last_cuda_template`: four moments of each block of rows."""
    x, training = op.args[0], op.args[5]
    return HiddenMemory(after=_by_blocks(x, 4) if training and _channels_last(x) else ())


def batch_norm_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """Normalization.cuh `batch_norm_backward_reduce_cuda_channels_last_template`: two sums, then the gradients."""
    x, training, wanted = op.args[1], op.args[7], op.args[9]
    if not training or not _channels_last(x):
        return NOTHING
    sums = (x.shape[1] * accumulated(x.dtype),) * 2
    weights = tuple(Output(i) for i in range(int(wanted[0]), int(wanted[0]) + sum(map(bool, wanted[1:]))))
    return HiddenMemory((*sums, *weights, *passing(*_by_blocks(x, 2))))


def _channels_last(x: TensorMeta) -> bool:
    """Normalization.cu `batch_norm_use_channels_last_kernels`: channels are next to each other in memory."""
    by_channel = x._replace(
        shape=(x.shape[0], *x.shape[2:], x.shape[1]), stride=(x.stride[0], *x.stride[2:], x.stride[1])
    )
    return bool(x.numel) and is_contiguous(by_channel)


def _by_blocks(x: TensorMeta, numbers: int) -> tuple[int, ...]:
    """Normalization.cuh `flexible_launch_configs`: `numbers` for each channel and block of rows, and semaphores."""
    channels, rows = x.shape[1], x.numel // x.shape[1]
    wide = min(last_pow2(channels), 32)
    high = min(last_pow2(ceil_div(rows, 16)), 512 // wide)
    if wide * high < 512:
        wide = min(last_pow2(channels), 512 // high)
    blocks = min(ceil_div(rows, high * 16), 128)
    return (numbers * channels * blocks * accumulated(x.dtype), 4 * ceil_div(channels, wide)) if blocks >= 8 else ()


def group_norm(op: Op, gpu: Gpu) -> HiddenMemory:
    """group_norm_kernel.cu: scale and shift fused per sample and channel, in float."""
    x, weight, bias, n, c, pixels = op.args[:6]
    fused = (n * c * accumulated(x.dtype),) * 2 if pixels != 1 and (weight or bias) and n else ()
    # Since 2.13 the moments are computed in float; those returned are in half.
    moments = (n * op.args[6] * 4,) * 2 if x.dtype in HALVES and gpu.torch_release >= (2, 13) else ()
    return HiddenMemory(after=moments + fused)


def group_norm_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """group_norm_kernel.cu: sums of dy*x and dy per sample and channel, and three factors made of them."""
    x, n, c, pixels, groups = op.args[1], *op.args[5:9]
    size = accumulated(x.dtype)
    factors = (n * groups * size,) * 2 if op.args[9][0] else ()
    scale = (n * c * size,) if op.args[9][0] and pixels != 1 and op.args[4] else ()
    return HiddenMemory(after=((n * c * size,) * 2 + factors + scale) if n else ())
