"""How much hidden memory do sorting and indexing have? Indices, their order, and CUB's storage.

Paths are inside pytorch/pytorch, aten/src/ATen/native/cuda.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log, log2, prod

import torch

from ...tracing.events import Op, TensorMeta
from ..gpus import Gpu
from . import cub
from .allocations import (
    HALVES,
    NOTHING,
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
from .reductions import reduced

SMALL = 4096  # Sort.h `should_use_small_sort`: so many are sorted in place by one block
VALUES = "how much it takes depends on the values"


def _bits(n: int) -> int:
    """cuda/cub.h `get_num_bits`."""
    return max(1, n.bit_length())


def _unknown_sort(n: int, key: int, gpu: Gpu) -> str:
    return cub.SPINE if n > SMALL and not cub.one_sweep(key, gpu) else ""


# --- sort, median, topk -----------------------------------------------------------------------------------------------


def sort(op: Op, gpu: Gpu) -> HiddenMemory:
    """Sort.cpp `sort_stable_out`."""
    x = op.args[0]
    stable = op.name.endswith("stable")
    positional = op.args[1:] if not stable else ()
    dim = positional[0] if positional else op.kwargs.get("dim", -1)
    return _sort(x, dim, gpu)


def _sort(x: TensorMeta, dim: int, gpu: Gpu) -> HiddenMemory:
    """Few are numbered by one `arange` and sorted in place; many are sorted by CUB, whose storage comes last."""
    if not x.shape or not x.numel:
        return NOTHING
    dim %= len(x.shape)
    along, n, key = x.shape[dim], x.numel, x.dtype.itemsize
    if along <= SMALL:
        return HiddenMemory(after=passing(along * 8))
    before: tuple[MemoryStep, ...] = ()
    after: tuple[MemoryStep, ...] = ()
    if not is_dense(x) or x.stride[dim] != 1:  # the dimension is moved to the end, and back
        before, after = (n * key,), (n * key, n * 8)
    return HiddenMemory(before, after + _sort_kernel(n, along, key, gpu), _unknown_sort(n, key, gpu))


def _sort_kernel(n: int, along: int, key: int, gpu: Gpu) -> tuple[MemoryStep, ...]:
    """SortStable.cu `launch_stable_sort_kernel`: one segment, few long ones, or many."""
    segments = n // along
    if segments == 1:
        return (n * 8, *passing(cub.radix_sort(n, key, 8, gpu)))
    if segments < 128:  # all values, then all segments
        by_value = passing(n * key, cub.radix_sort(n, key, 8, gpu))
        return (n * 8, n * 8, *by_value, *passing(cub.radix_sort(n, 8, 8, gpu, _bits(segments))))
    return (n * 8, *passing(cub.segmented_sort(n, key, 8)))


def median(op: Op, gpu: Gpu) -> HiddenMemory:
    """Sorting.cpp `median_impl`: sorts all elements, and asks whether the last of them is a NaN."""
    x = op.args[0]
    n, nbytes = x.numel, x.nbytes
    if not n:
        return NOTHING
    flat = x._replace(shape=(n,), stride=(1,))
    inside = _sort(flat, 0, gpu)
    freed = tuple(-step for step in inside.after[:1] if n > SMALL and isinstance(step, int))
    steps = (*copies(x), nbytes, n * 8, *inside.after, *freed, -n * 8, 1, Output(0), -1)
    return HiddenMemory(steps, unknown=inside.unknown)


def top_k(op: Op, gpu: Gpu) -> HiddenMemory:
    """TensorTopK.cu: several blocks to a slice count digits, if there are few slices or long ones."""
    x, k, dim = op.args[0], op.args[1], op.args[2] if len(op.args) > 2 else -1
    if not x.numel or not x.shape:
        return NOTHING
    along = x.shape[dim]
    slices = x.numel // along
    after = _multi_block(slices, along, x.dtype, gpu) if _use_multi_block(slices, along) else ()
    if k > SMALL and (op.args[4] if len(op.args) > 4 else True):  # TensorTopK.cpp: too many to sort in place
        found = op.outputs[0]
        inside = _sort(found, dim, gpu)
        return HiddenMemory(after=(*after, *inside.before, found.nbytes, found.numel * 8, *inside.after))
    return HiddenMemory(after=after)


def _use_multi_block(slices: int, along: int) -> bool:
    """TensorTopK.cu `should_use_sbtopk`: the more slices, the shorter each may be."""
    least = ((20, 20000), (40, 10000), (80, 8000), (199, 5000), (799, 3000), (4000, 800))
    return along >= next((shortest for most, shortest in least if slices <= most), 400)


def _multi_block(slices: int, along: int, dtype: torch.dtype, gpu: Gpu) -> tuple[int, ...]:
    """TensorTopK.cu `mbtopk::launch`, 256 threads of 40 registers to a block."""
    resident = gpu.sm_count * (65536 // (40 * 256)) * 256
    items = max(4, min(64, ceil_div(slices * along, resident)))
    blocks = slices * ceil_div(along, items * 256)
    word = max(4, dtype.itemsize)
    counts = passing(cub.scan_by_key(blocks)) * 2
    held = (slices * dtype.itemsize, slices * 8, slices * 2 * word, blocks * 512, slices * 1024, blocks * 4, blocks * 4)
    return (*held, *counts, *(-nbytes for nbytes in reversed(held)))


# --- random choices ---------------------------------------------------------------------------------------------------


def randperm(op: Op, gpu: Gpu) -> HiddenMemory:
    """Randperm.cu `randperm_out_cuda`: sorts by random keys of so many bits that equal ones are improbable."""
    n = op.args[0]
    if n < 2:
        return NOTHING
    bits = min(64, ceil(log2(n - (6 * n * n + 1) / (log(0.9) * 12))))
    key, value = 4 if bits <= 32 else 8, op.outputs[0].dtype.itemsize
    return HiddenMemory(after=(*passing(8), n * value, n * key, n * key, cub.radix_sort(n, key, value, gpu, bits)))


def multinomial(op: Op, gpu: Gpu) -> HiddenMemory:
    """Distributions.cpp `multinomial_out`: the largest of random numbers; with replacement MultinomialKernel.cu."""
    x, samples = op.args[:2]
    replacement = op.args[2] if len(op.args) > 2 else op.kwargs.get("replacement", False)
    if not x.numel:
        return NOTHING
    size, rows = x.dtype.itemsize, x.numel // x.shape[-1]
    if replacement and samples > 1:
        return HiddenMemory(after=(x.nbytes,) * 3 + (passing(cub.scan(x.numel, x.dtype)) if rows == 1 else ()))
    checks: tuple[MemoryStep, ...] = (size, size, *passing(*reduced(x, gpu, "aten.aminmax.default")), 1, 1, 1, -1, -1)
    sums = passing(*reduced(x, gpu, "aten.sum.dim_IntList", [len(x.shape) - 1]))
    zeros = (rows * size, *sums, rows, 1, -rows, -rows * size) if len(x.shape) > 1 else (size, *sums, 1, -size)
    after = (*checks, *zeros, 1, -1, x.nbytes)
    if samples == 1:
        return HiddenMemory(after=(*after, *passing(*reduced(x, gpu, "aten.argmax.default", [len(x.shape) - 1]))))
    blocks = _multi_block(rows, x.shape[-1], x.dtype, gpu) if _use_multi_block(rows, x.shape[-1]) else ()
    return HiddenMemory(after=(*after, rows * samples * size, *blocks))


# --- embeddings and indices -------------------------------------------------------------------------------------------


def embedding_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """Embedding.cu `embedding_dense_backward_cuda`: over 3072 indices, sorts them."""
    dy, indices, rows, _, by_frequency = op.args[:5]
    before = copies(indices, dy)
    if indices.numel <= 3072 and not by_frequency:
        return HiddenMemory(before)
    inside = _sorted_backward(
        dy, indices, rows, by_frequency, gpu, adds=not torch.are_deterministic_algorithms_enabled()
    )
    return inside._replace(before=before + inside.before)


def embedding_bag_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """EmbeddingBag.cu: as an embedding's, for sums and means of any size. A maximum needs no order."""
    dy, indices, _, _, _, _, rows, by_frequency, mode, sparse = op.args[:10]
    if sparse:
        return NOTHING
    if mode == 2 or not indices.numel:
        return HiddenMemory(copies(dy))
    inside = _sorted_backward(dy, indices, rows, by_frequency, gpu)
    return inside._replace(before=copies(dy) + inside.before)


def _sorted_backward(
    dy: TensorMeta, indices: TensorMeta, rows: int, by_frequency: bool, gpu: Gpu, adds: bool = False
) -> HiddenMemory:
    """EmbeddingBackwardKernel.cu: sums runs of equal indices in tens, and then the sums of each run.

    Since 2.11 (pytorch#172454), where few runs are long and it `adds` in any order, each sum of ten is added to its row
    at once: there the run of each is needed and not its sum, and for half a gradient in float.
    """
    n, size = indices.numel, indices.dtype.itemsize
    runs = min(n, rows)
    parts = n // 10 + runs
    sums: tuple[int, ...] = (parts * dy.shape[-1] * accumulated(dy.dtype),)
    if adds and gpu.torch_release >= (2, 11) and runs < 4 * gpu.sm_count and parts > 4 * runs:
        sums = (parts * size, *((rows * dy.shape[-1] * 4,) if dy.dtype in HALVES else ()))
    scan = passing(cub.scan_by_key(n))
    order = (n * size, n * size, *passing(n * size, cub.radix_sort(n, size, size, gpu, _bits(rows))))
    counts = (n * size, *scan, *scan) if by_frequency else ()
    starts = (n * size, 8, *passing(n * size, cub.scan_by_key(n)), runs * size, runs * size)
    return HiddenMemory((*order, *counts), (*starts, *passing(cub.scan_by_key(runs)), 8, parts * size, *sums))


def embedding_bag(op: Op, gpu: Gpu) -> HiddenMemory:
    """EmbeddingBag.cu `_embedding_bag_cuda`: sizes of bags, the bag of each index, and then the result."""
    return HiddenMemory((Output(2), Output(1), Output(0)))


def index_put(op: Op, gpu: Gpu) -> HiddenMemory:
    """Indexing.cu `index_put_with_sort_kernel`: adding to equal indices one after another needs them in order.

    Autograd, which adds the gradient of `x[i, j]` so, does not look whether the indices are in range.
    """
    x, indices, values = op.args[:3]
    accumulate = op.args[3] if len(op.args) > 3 else op.kwargs.get("accumulate", False)
    found: tuple[MemoryStep, ...] = ()
    freed: tuple[MemoryStep, ...] = ()
    unknown = ""
    if masks := _masks(indices):
        number, unknown = _selected_of(values, x, indices) if accumulate else 0, f"a mask: {VALUES}"
        found = (Output(0), *_found_by(masks, number, gpu))  # out of place, it writes into a copy
        if not number:
            return HiddenMemory(found, unknown=unknown)
        indices = _numbered(indices, number)
        freed = tuple(-8 * number * len(mask.shape) for mask in masks)
    dims = [d for d, index in enumerate(indices) if index is not None]
    if not accumulate or not x.numel:
        return NOTHING
    shape = torch.broadcast_shapes(*(indices[d].shape for d in dims))
    n = prod(shape)
    if not n:
        return NOTHING
    split = len(dims) > 1 and dims[-1] - dims[0] != len(dims) - 1  # TensorAdvancedIndexingUtils.h `transposeToFront`
    slice_size = prod(s for d, s in enumerate(x.shape) if (d not in dims if split else d > dims[-1]))
    before = 1 if split else prod(x.shape[: dims[0]])
    checked = op.phase not in ("backward", "recompute")
    steps = _linear_index(x, [indices[d] for d in dims], dims, slice_size, n, checked, gpu) + freed
    steps += (x.nbytes,) if split else ()
    if values.numel != n * slice_size * before or not is_contiguous(values):  # `expandedValue.contiguous()`
        steps += (n * slice_size * before * values.dtype.itemsize,)
    sort_storage = passing(cub.radix_sort(n, 8, 8, gpu, _bits(x.numel // slice_size)))
    return HiddenMemory(found, (*steps, n * 8, n * 8, n * 8, *sort_storage), unknown)


def _linear_index(
    x: TensorMeta, indices: Sequence[TensorMeta], dims: list[int], slice_size: int, n: int, checked: bool, gpu: Gpu
) -> tuple[MemoryStep, ...]:
    """Indexing.cu `computeLinearIndex`: each index brought into range, times its stride, added to those before it."""
    steps: tuple[MemoryStep, ...] = ()
    for position, index in enumerate(indices):
        if checked:
            extremes = passing(*reduced(index, gpu, "aten.max.default"))
            steps += (8, *extremes, 8, *extremes, 1, -1, 1, -1, -8, -8)
        inner = prod(x.shape[d] for d in dims[position + 1 :]) * slice_size
        steps += (n * 8,) if inner == 1 else (n * 8, n * 8, -n * 8)
        if position:
            steps += (n * 8, -n * 8, -n * 8)
    return steps


def _masks(indices: Sequence[TensorMeta | None]) -> list[TensorMeta]:
    return [i for i in indices if i is not None and i.dtype in (torch.bool, torch.uint8)]


def _found_by(masks: Sequence[TensorMeta], number: int, gpu: Gpu) -> tuple[MemoryStep, ...]:
    """IndexingUtils.h `expandTensors`: `nonzero` turns a mask into an index for each of its dimensions.

    They are there until the op is done. `number` elements are selected.
    """
    steps: tuple[MemoryStep, ...] = ()
    for mask in masks:
        found = 8 * number * len(mask.shape)
        copied = copies(mask)
        chosen = _count_and_select(mask.numel, gpu, (found,) if found else ())
        steps += (*copied, *chosen, *(-nbytes for nbytes in copied))
    return steps


def _numbered(indices: Sequence[TensorMeta | None], number: int) -> list[TensorMeta | None]:
    """The indices with each mask replaced by what `expandTensors` makes of it."""
    found: list[TensorMeta | None] = []
    for i in indices:
        is_mask = i is not None and i.dtype in (torch.bool, torch.uint8)
        found += [TensorMeta((number,), (1,), torch.int64, -1)] * len(i.shape) if i is not None and is_mask else [i]
    return found


def _selected_of(values: TensorMeta, x: TensorMeta, indices: Sequence[TensorMeta | None]) -> int:
    """How many elements of `x` the masks select, if `values` has a value for each of them."""
    indexed = sum(len(i.shape) for i in _masks(indices))
    kept = [*x.shape[indices.index(None) :]] if None in indices else list(x.shape[indexed:])
    return values.numel // max(1, prod(kept)) if len(indices) == 1 else 0


def index(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/TensorAdvancedIndexing.cpp `AdvancedIndex`: several indices must agree in their strides."""
    given = [i for i in op.args[1] if isinstance(i, TensorMeta)]
    if masks := _masks(given):
        adjacent = op.args[1].index(given[0])
        number = op.outputs[0].shape[adjacent] if op.outputs else 0
        return HiddenMemory(_found_by(masks, number, gpu), unknown=f"a mask: {VALUES}")
    if len(given) < 2:
        return NOTHING
    shape = torch.broadcast_shapes(*(i.shape for i in given))
    expanded = [_expanded(i, shape) for i in given]
    return HiddenMemory(copies(*expanded)) if len({i.stride for i in expanded}) > 1 else NOTHING


def _expanded(t: TensorMeta, shape: Sequence[int]) -> TensorMeta:
    new = len(shape) - len(t.shape)
    stride = (0,) * new + tuple(0 if a != b else s for a, b, s in zip(t.shape, shape[new:], t.stride, strict=True))
    return t._replace(shape=tuple(shape), stride=stride)


def nonzero(op: Op, gpu: Gpu) -> HiddenMemory:
    """Nonzero.cu `nonzero_cuda_out_impl`: counts, then selects."""
    x = op.args[0]
    return HiddenMemory((*copies(x), *_count_and_select(x.numel, gpu, (Output(0),))), unknown=VALUES)


def _count_and_select(n: int, gpu: Gpu, result: tuple[MemoryStep, ...]) -> tuple[MemoryStep, ...]:
    return (4, *passing(cub.reduce(n, gpu)), *result, *passing(cub.select(n, gpu)), -4) if n else ()


def segment_reduce(op: Op, gpu: Gpu) -> HiddenMemory:
    """SegmentReduce.cu `_segment_reduce_lengths_cuda_kernel`: the lengths become offsets, by a `cat` and a cumsum."""
    lengths = op.kwargs.get("lengths")
    if lengths is None or not lengths.numel:
        return NOTHING
    rows = lengths.numel // lengths.shape[-1]
    size = lengths.dtype.itemsize
    offsets = (lengths.numel + rows) * size
    scan = passing(cub.scan(offsets // size, lengths.dtype)) if rows == 1 else ()
    return HiddenMemory(after=(rows * size, offsets, -rows * size, *scan))


def masked_scatter(op: Op, gpu: Gpu) -> HiddenMemory:
    """IndexKernel.cpp `masked_scatter__cuda`: where each source goes, by a prefix sum of the mask in int64."""
    x, mask = op.args[:2]
    n, shape = x.numel, torch.broadcast_shapes(x.shape, mask.shape)
    copied = copies(_expanded(mask, shape))
    return HiddenMemory(after=passing(n * 8, *copied, cub.scan(n, torch.int64))) if n else NOTHING


def masked_select(op: Op, gpu: Gpu) -> HiddenMemory:
    """IndexKernel.cpp `masked_select_out_cuda_impl`: indexes with the mask, in the shape that both are broadcast to."""
    x, mask = op.args[:2]
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    number = op.outputs[0].numel if op.outputs else 0
    return HiddenMemory(_found_by([_expanded(mask, shape)], number, gpu), unknown=VALUES)


def unique(op: Op, gpu: Gpu) -> HiddenMemory:
    """UniqueCub.cu `UniqueCub`: sorted, with the places if the inverse is wanted, and then the unique ones."""
    x, inverse, counts = op.args[0], *(_flag(op, i, name) for i, name in ((2, "return_inverse"), (3, "return_counts")))
    n, key = x.numel, x.dtype.itemsize
    if not n:
        return NOTHING
    if x.dtype is torch.bool:
        return HiddenMemory(copies(x), unknown=VALUES)
    steps: tuple[MemoryStep, ...] = (*copies(x), n * key)
    if inverse:
        steps += (n * 8, n * 8, *passing(cub.radix_sort(n, key, 8, gpu)), -n * 8)
        steps += (Output(1), *passing(n * 8, cub.scan(n, torch.int64)))
    else:
        steps += passing(cub.radix_sort(n, key, 0, gpu))
    steps += (Output(0), 8, *((Output(2),) if counts else ()))
    return HiddenMemory((*steps, *passing(cub.select(n, gpu))), unknown=VALUES)


def _flag(op: Op, place: int, name: str) -> bool:
    return bool(op.args[place] if len(op.args) > place else op.kwargs.get(name, False))


def is_in(op: Op, gpu: Gpu) -> HiddenMemory:
    """TensorCompare.cpp `isin`: few test elements are compared with all; many are sorted."""
    x, tests = op.args[:2]
    if not isinstance(x, TensorMeta) or not isinstance(tests, TensorMeta):
        return NOTHING
    if tests.numel < 10 * x.numel**0.145:
        return HiddenMemory(after=(x.numel * tests.numel, x.numel))
    return HiddenMemory(unknown=f"sorts both: {VALUES}")
