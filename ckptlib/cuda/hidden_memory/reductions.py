"""How much hidden memory does a CUDA reduction have while it adds up?

A sum over many rows is divided among blocks of threads that cannot communicate with each other. Each writes its partial
sums to a buffer, and the last to finish adds the buffer up. The buffer is allocated after the result, together with
one 4-byte semaphore per group of blocks, and both are freed when the kernel has been launched.

All of it follows ATen/native/cuda/Reduce.cuh (`setReduceConfig`, `global_memory_size`, `semaphore_size`) and the
order of dimensions in ATen/TensorIterator.cpp; it has been the same in all of torch 2.x, on CUDA.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import torch

from ...tracing.events import Op, TensorMeta
from ..gpus import Gpu
from .allocations import HALVES, accumulated, ceil_div, last_pow2

WARP = 32
INT32_MAX = 2**31 - 1


class Kernel(NamedTuple):
    """How one op's reduction kernel is compiled."""

    accumulator: str  # "opmath", "same", "both", "flag", "pair" or "welford": what a thread adds up in
    dim: int | None = None  # position of the argument that names the dimensions; None: all of them
    casts: bool = False  # converts its input to the result's dtype first, unless that is half -> float


KERNELS = {
    "aten.sum.default": Kernel("opmath", None, casts=True),
    "aten.sum.dim_IntList": Kernel("opmath", 1, casts=True),
    "aten.mean.default": Kernel("opmath", None, casts=True),
    "aten.mean.dim": Kernel("opmath", 1, casts=True),
    "aten.nansum.default": Kernel("opmath", 1, casts=True),
    "aten.prod.default": Kernel("opmath", None, casts=True),
    "aten.prod.dim_int": Kernel("opmath", 1, casts=True),
    "aten.norm.Scalar": Kernel("opmath", None),
    "aten.norm.ScalarOpt_dim": Kernel("opmath", 2),
    "aten.linalg_vector_norm.default": Kernel("opmath", 2, casts=True),
    "aten.amax.default": Kernel("same", 1),
    "aten.amin.default": Kernel("same", 1),
    "aten.max.default": Kernel("same", None),
    "aten.min.default": Kernel("same", None),
    "aten.aminmax.default": Kernel("both", None),
    "aten.any.default": Kernel("flag", None),
    "aten.all.default": Kernel("flag", None),
    "aten.any.dim": Kernel("flag", 1),
    "aten.all.dim": Kernel("flag", 1),
    "aten.any.dims": Kernel("flag", 1),
    "aten.all.dims": Kernel("flag", 1),
    "aten.max.dim": Kernel("pair", 1),
    "aten.min.dim": Kernel("pair", 1),
    "aten.argmax.default": Kernel("pair", 1),
    "aten.argmin.default": Kernel("pair", 1),
    "aten.var.correction": Kernel("welford", 1),
    "aten.std.correction": Kernel("welford", 1),
    "aten.var_mean.correction": Kernel("welford", 1),
    "aten.std_mean.correction": Kernel("welford", 1),
}


class Axis(NamedTuple):
    size: int
    stride: int  # of the input, in bytes
    kept: int  # of the output, in bytes; 0 where the axis is reduced


def reduction_buffers(op: Op, gpu: Gpu) -> tuple[int, ...]:
    """Bytes of each allocation between the result and the kernel's launch, in order; () if there is none.

    >>> x = TensorMeta((4096, 1280), (1280, 1), torch.float32, 0)
    >>> from ckptlib.cuda.gpus import preset
    >>> reduction_buffers(Op(0, "aten.sum.dim_IntList", (x, [0], True), {}, "", "backward"), preset("h100-pcie"))
    (41943040, 40)
    """
    kernel = KERNELS.get(op.name)
    if kernel is None or not op.args or not isinstance(op.args[0], TensorMeta):
        return ()
    x = op.args[0]
    if x.numel == 0:
        return ()
    result = op.outputs[0].dtype if op.outputs else x.dtype
    before: tuple[int, ...] = ()
    fused = x.dtype in HALVES and result == torch.float32
    if kernel.casts and result != x.dtype and not fused and not x.dtype.is_complex:
        x = x._replace(dtype=result)
        before = (x.nbytes,)
    named = op.args[kernel.dim] if kernel.dim is not None and len(op.args) > kernel.dim else op.kwargs.get("dim")
    return before + _reduce(x, _dims(named, x), _accumulator(kernel, x.dtype), result, gpu)


def reduced(
    x: TensorMeta, gpu: Gpu, name: str = "aten.sum.default", dims: list[int] | None = None, to: TensorMeta | None = None
) -> tuple[int, ...]:
    """The buffers of a reduction inside another op: of `x`, over `dims` or all dimensions, in its dtype or `to`'s."""
    return reduction_buffers(Op(-1, name, (x, dims), {}, "", "forward", outputs=(to or x,)), gpu)


def _reduce(x: TensorMeta, reduced: frozenset[int], element: int, result: torch.dtype, gpu: Gpu) -> tuple[int, ...]:
    """`gpu_reduce_kernel`: what reducing `x` over the dimensions `reduced` allocates, `element` bytes a partial sum."""
    axes = _axes(x, reduced, result.itemsize)
    extra: tuple[int, ...] = ()
    if not _fits_32_bits(axes):  # works through the input in halves; a half result needs a float one beside it
        if element > result.itemsize:
            extra = (max([result.itemsize, *(a.size * a.kept for a in axes)]) // result.itemsize * element,)
        while not _fits_32_bits(axes):
            axes = _halved(axes)
    return extra + _partial_sums(axes, x.dtype.itemsize, element, gpu)


def _accumulator(kernel: Kernel, dtype: torch.dtype) -> int:
    """Bytes of one partial sum: float for half and bfloat16, with the index or the other moments beside it."""
    opmath = accumulated(dtype)
    return {
        "opmath": opmath,
        "same": dtype.itemsize,
        "both": 2 * dtype.itemsize,  # the smallest and the largest
        "flag": 1,
        "pair": 16,  # thrust::pair<value, int64_t>, padded
        "welford": 4 * max(opmath, 4),  # mean, m2, n, nf; n is padded to the others
    }[kernel.accumulator]


def _dims(dims: Any, x: TensorMeta) -> frozenset[int]:
    everything = frozenset(range(len(x.shape)))
    if dims is None or dims == [] or not everything:
        return everything
    return frozenset(d % len(x.shape) for d in ([dims] if isinstance(dims, int) else dims))


def _axes(x: TensorMeta, reduced: frozenset[int], itemsize: int) -> list[Axis]:
    """The dimensions as TensorIterator walks them: reduced ones first, the smallest stride first, neighbours merged."""
    axes, kept = [], itemsize
    for d in reversed(range(len(x.shape))):
        axes.append(Axis(x.shape[d], x.stride[d] * x.dtype.itemsize, 0 if d in reduced else kept))
        kept *= 1 if d in reduced else x.shape[d]
    for i in range(1, len(axes)):  # insertion sort: the comparison may be undecided
        at = i
        for before in reversed(range(i)):
            order = _order(axes[before], axes[at])
            if order > 0:
                axes[before], axes[at] = axes[at], axes[before]
                at = before
            elif order < 0:
                break
    return _merged(axes)


def _order(a: Axis, b: Axis) -> int:
    """1 if a comes after b, -1 if before, 0 if undecided (`should_swap`)."""
    if (a.kept == 0) != (b.kept == 0):
        return 1 if b.kept == 0 else -1
    for stride, other in ((a.kept, b.kept), (a.stride, b.stride)):
        if stride == 0 or other == 0:
            continue
        if stride != other:
            return -1 if stride < other else 1
        if a.size > b.size:
            return 1
    return 0


def _merged(axes: list[Axis]) -> list[Axis]:
    merged: list[Axis] = []
    for axis in axes:
        last = merged[-1] if merged else None
        if last is None:
            merged.append(axis)
        elif last.size == 1:
            merged[-1] = axis
        elif axis.size == 1 or (last.size * last.stride == axis.stride and last.size * last.kept == axis.kept):
            merged[-1] = last._replace(size=last.size * axis.size)
        else:
            merged.append(axis)
    return merged


def _fits_32_bits(axes: list[Axis]) -> bool:
    numel = prod(a.size for a in axes)
    reach = (sum((a.size - 1) * a.stride for a in axes), sum((a.size - 1) * a.kept for a in axes))
    return numel <= INT32_MAX and max(reach) < INT32_MAX


def _halved(axes: list[Axis]) -> list[Axis]:
    """The larger half of an iteration split along its longest axis (`with_32bit_indexing`)."""
    widest = max(reversed(range(len(axes))), key=lambda i: (axes[i].size - 1) * max(axes[i].stride, axes[i].kept))
    return [a._replace(size=a.size - a.size // 2) if i == widest else a for i, a in enumerate(axes)]


def _block(dim0: int, dim1: int, threads: int) -> tuple[int, int]:
    """`set_block_dimension`: a block is at least a warp wide if it can be, then as high, then as wide as it can be."""
    most_wide = last_pow2(dim0) if dim0 < threads else threads
    most_high = last_pow2(dim1) if dim1 < threads else threads
    height = min(most_high, threads // min(most_wide, WARP))
    return min(most_wide, threads // height), height


def _partial_sums(axes: list[Axis], itemsize: int, element: int, gpu: Gpu) -> tuple[int, ...]:
    """`setReduceConfig`: how outputs and inputs are shared out among lanes, warps and blocks, and what that takes."""
    outputs = prod(a.size for a in axes if a.kept)
    inputs = prod(a.size for a in axes) // outputs
    first = sum(1 for a in axes if not a.kept)  # the first axis that is kept
    along = first == len(axes) or axes[0].stride < axes[first].stride  # reduces the axis memory runs along
    vec = 1  # outputs that one thread loads at a time
    if not along and axes[first].stride == itemsize:
        vec = _output_vec(axes, first, itemsize)
    # Along memory a thread loads several inputs at a time, but that never changes a block that needs a buffer.
    width, height = _block(*((inputs, outputs) if along else (outputs // vec, inputs)), 512 // vec)
    lanes, columns = (width, 1) if along else (1, width)  # lanes share an output, or have one each
    if ceil_div(inputs, lanes) < min(height * 16, 256):
        return ()  # too few values for a thread to share them with other warps, let alone blocks
    per_thread = ceil_div(inputs, lanes * height)
    grid = ceil_div(outputs // vec, columns)
    target = gpu.sm_count * (gpu.max_threads_per_sm // (width * height))  # blocks that keep the GPU busy
    if per_thread < 256 or grid > target:
        return ()
    blocks = max(min(ceil_div(target, grid), ceil_div(per_thread, 16)), ceil_div(per_thread, 256))
    if blocks == 1:
        return ()
    return element * outputs * blocks * (1 if along else width * vec), 4 * grid


def _output_vec(axes: list[Axis], first: int, itemsize: int) -> int:
    vec = 4  # taking the tensor to start its storage, or a multiple of four elements into it
    for i, axis in enumerate(axes):
        while (axis.size if i == first else axis.stride // itemsize) % vec:
            vec //= 2
    return vec
