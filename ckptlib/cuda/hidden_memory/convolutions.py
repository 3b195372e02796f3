"""How much hidden memory does a convolution have on CUDA? PyTorch's own kernels, which it uses where cuDNN is not.

cuDNN is not used if `torch.backends.cudnn.enabled` is False, nor for most depthwise convolutions. Paths are inside
pytorch/pytorch, aten/src/ATen/native. Shapes are (N, C, ...) and (K, C/groups, ...); a convolution over one dimension
is one over two, the first of which is 1.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import torch

from ...tracing.events import Op, TensorMeta
from ..gpus import Gpu
from .allocations import (
    CUBLAS,
    Free,
    HiddenMemory,
    MemoryStep,
    Output,
    copies_in_format,
    is_channels_last,
    is_contiguous,
)
from .reductions import reduction_buffers

CUDNN_WORKSPACE = "cuDNN's workspace depends on the engine its heuristics pick; PyTorch bounds it by free memory alone"


class Convolution(NamedTuple):
    """One call, in two or three dimensions."""

    x: TensorMeta
    w: TensorMeta
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    groups: int
    size: tuple[int, ...]  # of the result: of each of its channels

    @property
    def depthwise(self) -> bool:
        c = self.x.shape[1]
        return not self.transposed and self.groups == c > 1 and self.w.shape[0] % c == 0

    @property
    def kernel(self) -> tuple[int, ...]:
        return self.w.shape[2:]

    @property
    def copies_elements(self) -> bool:
        """Whether the columns differ from the input itself: not those of a 1x1 kernel that visits all of it."""
        return {*self.kernel, *self.stride} != {1} or any(self.padding)

    def columns(self) -> int:
        """Bytes of the patches of one sample, as a matrix; of a group of channels, if there are groups."""
        if self.transposed:  # the columns of the result's gradient
            return self.w.shape[1] * prod(self.kernel) * prod(self.x.shape[2:]) * self.x.dtype.itemsize
        return self.w.shape[1] * prod(self.kernel) * prod(self.size) * self.x.dtype.itemsize


def cudnn_runs(x: TensorMeta | torch.Tensor, w: TensorMeta | torch.Tensor, transposed: bool, groups: int) -> bool:
    """Convolution.cpp `select_conv_backend`: whether cuDNN, where it is enabled, is asked for this convolution.

    `use_cudnn_depthwise`: for a depthwise convolution only if it is channels-last, or some of those in float16.
    """
    depthwise = not transposed and groups == x.shape[1] > 1 and w.shape[0] % x.shape[1] == 0
    return not depthwise or x.dtype is torch.float16 or any(is_channels_last(t) for t in (x, w))


def convolution(op: Op, gpu: Gpu) -> HiddenMemory:
    """Convolution.cpp `_convolution`: contiguous copies, the kernel for each group of channels, and their `cat`."""
    x, w, bias, *rest = op.args
    if op.cudnn and cudnn_runs(x, w, rest[3], rest[5]):
        last = _suggests_channels_last(x, w)
        return HiddenMemory(copies_in_format(last, x), copies_in_format(last, w), CUDNN_WORKSPACE)
    if not x.numel or not op.outputs:
        return HiddenMemory()
    call = _call(x, w, rest, op.outputs[0].shape[2:])
    run = _Kernel(gpu)
    run.contiguous(x)
    if call.depthwise:
        run.result()
        return run.done()
    run.contiguous(w)
    forward = {(2, False): _slow2d, (3, False): _dilated, (2, True): _transposed2d, (3, True): _transposed3d}
    kernel = _dilated if _is_dilated(call) else forward[len(call.size), call.transposed]
    if call.groups == 1:
        kernel(run, call, bias is not None, None)
        return run.done()
    for _ in range(call.groups):
        part = run.take(_part(x, call.groups)) if x.shape[0] > 1 else None
        kernel(run, call, bias is not None, op.outputs[0].nbytes // call.groups)
        run.free(part)
    run.result()  # at::cat
    return run.done()


def convolution_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """Convolution.cpp `convolution_backward`: as forward. Where a kernel leaves the bias out, its sum follows."""
    dy, x, w, _, *rest = op.args
    wanted = [bool(want) for want in rest[6]]
    if op.cudnn and cudnn_runs(x, w, rest[3], rest[5]):
        return _cudnn_backward(_Kernel(gpu, wanted), dy, x, w)
    if not x.numel or not op.outputs:
        return HiddenMemory()
    call = _call(x, w, rest, dy.shape[2:])
    run = _Kernel(gpu, wanted)
    run.contiguous(x)
    if call.depthwise:
        _depthwise_backward(run, call, dy)
        return run.done()
    run.contiguous(w)
    backward = {(2, False): _slow2d_backward, (3, False): _dilated_backward}
    kernel = _dilated_backward if _is_dilated(call) else backward.get((len(call.size), call.transposed), _t_backward)
    if call.groups == 1:
        run.contiguous(dy)
        kernel(run, call, _contiguous(dy), None)
        return run.done()
    sizes = (x.nbytes // call.groups, w.nbytes // call.groups, call.w.shape[0] * w.dtype.itemsize // call.groups)
    group = _contiguous(dy._replace(shape=(dy.shape[0], dy.shape[1] // call.groups, *dy.shape[2:])))
    if call.transposed:
        sizes = (*sizes[:2], call.w.shape[1] * w.dtype.itemsize)
    for _ in range(call.groups):
        copied = [run.take(_part(t, call.groups)) if x.shape[0] > 1 else None for t in (dy, x)]
        kernel(run, call, group, sizes)
        for part in reversed(copied):
            run.free(part)
    for which in range(3):
        run.result(which)
    return run.done()


# --- around cuDNN: Convolution.cpp `convolution_backward`, cudnn/ConvShared.cpp ---------------------------------------


def _suggests_channels_last(x: TensorMeta, w: TensorMeta) -> bool:
    """ConvUtils.h `cudnn_conv_suggest_memory_format`: channels last if either is, but never in float64."""
    return x.dtype is not torch.float64 and any(is_channels_last(t) for t in (x, w))


def _cudnn_backward(run: _Kernel, dy: TensorMeta, x: TensorMeta, w: TensorMeta) -> HiddenMemory:
    """The input is copied for the weight's gradient, the gradient for both, and the weight for the input's.

    All copies are gone before the gradient of the bias is summed.
    """
    last = _suggests_channels_last(x, w)
    copied = copies_in_format(last, *((x, dy) if run.wanted[1] else (dy,)))
    if not copied and not copies_in_format(last, w):
        return HiddenMemory(unknown=CUDNN_WORKSPACE)
    held = [run.take(nbytes) for nbytes in copied]
    run.result(0)
    for nbytes in copies_in_format(last, w) if run.wanted[0] else ():
        run.free(run.take(nbytes))
    run.result(1)
    for copy in reversed(held):
        run.free(copy)
    return run.done()._replace(unknown=CUDNN_WORKSPACE)


# --- the kernels ------------------------------------------------------------------------------------------------------


class _Kernel:
    """Writes down what a kernel allocates. `wanted` are the gradients of input, weight and bias."""

    def __init__(self, gpu: Gpu, wanted: list[bool] | None = None):
        self.gpu, self.wanted = gpu, wanted or [True]
        self.steps: list[MemoryStep] = []
        self.taken = 0

    def take(self, nbytes: int) -> int:
        self.steps.append(nbytes)
        self.taken += 1
        return self.taken - 1

    def free(self, number: int | None) -> None:
        if number is not None:
            self.steps.append(Free(number))

    def result(self, which: int = 0) -> None:
        if self.wanted[which]:
            self.steps.append(Output(sum(self.wanted[:which])))

    def make(self, which: int, sizes: tuple[int, int, int] | None) -> None:
        """A gradient, or a group's part of it."""
        if sizes is None:
            self.result(which)
        elif self.wanted[which]:
            self.take(sizes[which])

    def contiguous(self, t: TensorMeta) -> None:
        if t.numel and not is_contiguous(t):
            self.take(t.nbytes)

    def multiply(self) -> None:
        self.steps.append(CUBLAS)

    def sum(self, x: TensorMeta, dims: list[int]) -> None:
        """What a sum allocates besides its result."""
        total = Op(0, "aten.sum.dim_IntList", (x, dims), {}, "", "backward", outputs=())
        for part in [self.take(nbytes) for nbytes in reduction_buffers(total, self.gpu)]:
            self.free(part)

    def done(self) -> HiddenMemory:
        return HiddenMemory(before=tuple(self.steps))


def _slow2d(run: _Kernel, call: Convolution, bias: bool, part: int | None) -> None:
    """cuda/ConvolutionMM2d.cu `slow_conv2d_forward`: columns of one sample after the other, and their product."""
    _make(run, part)
    columns = run.take(call.columns()) if call.copies_elements else None
    run.multiply()
    run.free(columns)


def _slow2d_backward(run: _Kernel, call: Convolution, dy: TensorMeta, sizes: tuple[int, int, int] | None) -> None:
    """cuda/ConvolutionMM2d.cu `slow_conv2d_backward_out_cuda`: the input's gradient needs columns even if 1x1.

    So does the weight's, since the buffer is resized before anybody asks whether it is needed.
    """
    columns = None
    if run.wanted[0]:
        run.make(0, sizes)
        columns = run.take(call.columns())
        run.multiply()
    run.make(2, sizes)
    if run.wanted[2]:
        run.sum(dy, [0, 2, 3])
    if run.wanted[1]:
        run.make(1, sizes)
        if columns is None:
            columns = run.take(call.columns())
        run.multiply()
    run.free(columns)


def _dilated(run: _Kernel, call: Convolution, bias: bool, part: int | None) -> None:
    """cuda/NaiveDilatedConvolution.cu `slow_conv_dilated_all_cuda_template`: also for all in three dimensions."""
    _make(run, part)
    columns = run.take(call.columns())
    run.multiply()
    run.free(columns)


def _dilated_backward(run: _Kernel, call: Convolution, dy: TensorMeta, sizes: tuple[int, int, int] | None) -> None:
    """The same: all gradients first; each sample's part of the bias's gradient is a sum of its own."""
    for which in range(3):
        run.make(which, sizes)
    columns = None
    if any(run.wanted[:2]):
        columns = run.take(call.columns())
        run.multiply()
    if run.wanted[2]:
        sample = dy._replace(shape=dy.shape[1:], stride=dy.stride[1:])
        for _ in range(dy.shape[0]):
            total = run.take(dy.shape[1] * dy.dtype.itemsize)
            run.sum(sample, list(range(1, len(sample.shape))))
            run.free(total)
    run.free(columns)


def _transposed2d(run: _Kernel, call: Convolution, bias: bool, part: int | None) -> None:
    """cuda/NaiveConvolutionTranspose2d.cu: columns of the result, and a plane of ones that spreads the bias."""
    _make(run, part)
    taken = [run.take(call.columns())]
    if bias:
        taken.append(run.take(prod(call.size) * call.x.dtype.itemsize))
    run.multiply()
    for one in taken:
        run.free(one)


def _transposed3d(run: _Kernel, call: Convolution, bias: bool, part: int | None) -> None:
    """cuda/NaiveConvolutionTranspose3d.cu: as in two dimensions. The result begins as `empty_like(input)`."""
    first = run.take(call.x.nbytes // call.groups)
    _make(run, part)
    run.free(first)
    taken = [run.take(call.columns())]
    if bias:
        taken.append(run.take(prod(call.size) * call.x.dtype.itemsize))
    run.multiply()
    for one in taken:
        run.free(one)


def _t_backward(run: _Kernel, call: Convolution, dy: TensorMeta, sizes: tuple[int, int, int] | None) -> None:
    """cuda/NaiveConvolutionTranspose2d.cu, 3d.cu: the input's gradient, then the parameters', each with columns."""
    if run.wanted[0]:
        run.make(0, sizes)
        columns = run.take(call.columns()) if call.copies_elements else None
        run.multiply()
        run.free(columns)
    for which in (1, 2):
        run.make(which, sizes)
    if run.wanted[1]:
        columns = run.take(call.columns()) if call.copies_elements else None
        run.multiply()
        run.free(columns)
    if run.wanted[2]:
        run.sum(dy, [0, *range(2, len(dy.shape))])


def _depthwise_backward(run: _Kernel, call: Convolution, dy: TensorMeta) -> None:
    """cuda/DepthwiseConv2d.cu: the weight's gradient first. cuda/DepthwiseConv3d.cu: the input's."""
    run.contiguous(dy)
    for which in (1, 0) if len(call.size) == 2 else (0, 1):
        run.result(which)
    if run.wanted[2]:
        run.result(2)
        run.sum(dy, [0, *range(2, len(dy.shape))])


# --- shapes -----------------------------------------------------------------------------------------------------------


def _call(x: TensorMeta, w: TensorMeta, rest: list, size: tuple[int, ...]) -> Convolution:
    stride, padding, dilation, transposed, _, groups = rest[:6]
    if len(x.shape) == 3:  # `view1d_as_2d`
        x, w = _two_dimensional(x), _two_dimensional(w)
        stride, padding, dilation, size = (1, *stride), (0, *padding), (1, *dilation), (1, *size)
    return Convolution(x, w, tuple(stride), tuple(padding), tuple(dilation), transposed, groups, tuple(size))


def _two_dimensional(t: TensorMeta) -> TensorMeta:
    (n, c, length), (sn, sc, st) = t.shape, t.stride
    return t._replace(shape=(n, c, 1, length), stride=(sn, sc, st * length, st))


def _is_dilated(call: Convolution) -> bool:
    return not call.transposed and set(call.dilation) != {1}


def _part(t: TensorMeta, groups: int) -> int:
    return t.nbytes // groups


def _contiguous(t: TensorMeta) -> TensorMeta:
    stride, step = [], 1
    for size in reversed(t.shape):
        stride.append(step)
        step *= size
    return t._replace(stride=tuple(reversed(stride)))


def _make(run: _Kernel, part: int | None) -> None:
    """The result, or a group's part of it, which lives until all are concatenated."""
    if part is None:
        run.result()
    else:
        run.take(part)
