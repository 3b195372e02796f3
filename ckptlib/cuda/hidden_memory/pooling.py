"""How much hidden memory does pooling have? Its kernels read contiguous tensors, and copy others first.

Paths are inside pytorch/pytorch, aten/src/ATen/native/cuda. A tensor whose channels are last in memory stays as it is
where the kernel has a version for it.
"""

from __future__ import annotations

from ...tracing.events import Op
from ..gpus import Gpu
from .allocations import HiddenMemory, copies, copies_in_format, is_channels_last


def pool(op: Op, gpu: Gpu) -> HiddenMemory:
    """DilatedMaxPool2d.cu, DilatedMaxPool3d.cu, AveragePool2d.cu: `input.contiguous(memory_format)`."""
    x = op.args[0]
    return HiddenMemory(after=copies_in_format(is_channels_last(x), x))


def pool_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """DilatedMaxPool2d.cu, AveragePool2d.cu: the gradient and the input in the format of the input."""
    dy, x = op.args[:2]
    return HiddenMemory(after=copies_in_format(is_channels_last(x), dy, x))


def pool_3d_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """DilatedMaxPool3d.cu: the same, of the gradient alone."""
    dy, x = op.args[:2]
    return HiddenMemory(after=copies_in_format(is_channels_last(x), dy))


def contiguous_pool(op: Op, gpu: Gpu) -> HiddenMemory:
    """AveragePool3d.cu, AdaptiveMaxPooling3d.cu: `input.contiguous()`."""
    return HiddenMemory(after=copies(op.args[0]))


def contiguous_pool_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """AveragePool3d.cu, AdaptiveMaxPooling3d.cu, AdaptiveAveragePooling3d.cu: `gradOutput.contiguous()`."""
    return HiddenMemory(after=copies(op.args[0]))


def adaptive_mean(op: Op, gpu: Gpu) -> HiddenMemory:
    """AdaptiveAveragePooling.cu, AdaptiveAveragePooling3d.cu: the copy, and then room for the result."""
    x = op.args[0]
    return HiddenMemory(copies_in_format(len(x.shape) == 4 and is_channels_last(x), x))


def adaptive_mean_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """AdaptiveAveragePooling.cu `adaptive_avg_pool2d_backward_out_cuda_template`."""
    dy, x = op.args[:2]
    return HiddenMemory(after=copies_in_format(is_channels_last(x), dy))


def adaptive_maximum(op: Op, gpu: Gpu) -> HiddenMemory:
    """AdaptiveMaxPooling2d.cu: contiguous tensors for results that are not, then the input's copy."""
    return HiddenMemory(after=copies(*op.outputs, op.args[0]))


def adaptive_maximum_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """AdaptiveMaxPooling2d.cu: copies of the gradient and of the indices, and a gradient that is contiguous."""
    dy, _, indices = op.args[:3]
    return HiddenMemory(after=copies(dy, indices, *op.outputs))
