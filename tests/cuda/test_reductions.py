"""The buffers of CUDA's reductions, against a published allocator trace and against hand-worked examples."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptlib.cuda.gpus import PRESETS, preset
from ckptlib.cuda.hidden_memory.reductions import KERNELS, reduction_buffers
from ckptlib.tracing.events import Op, TensorMeta

A100, H100_PCIE = preset("a100"), preset("h100-pcie")


def tensor(*shape: int, dtype: torch.dtype = torch.float32, order: tuple[int, ...] | None = None) -> TensorMeta:
    """A tensor of that shape whose memory runs along its dimensions in that order, the last one fastest."""
    stride, n = [0] * len(shape), 1
    for d in reversed(order or range(len(shape))):
        stride[d], n = n, n * shape[d]
    return TensorMeta(shape, tuple(stride), dtype, 0)


def buffers(name: str, *args, gpu=A100, result: torch.dtype | None = None) -> tuple[int, ...]:
    outputs = (TensorMeta((), (), result, 1),) if result else ()
    return reduction_buffers(Op(0, f"aten.{name}", args, {}, "", "backward", outputs=outputs), gpu)


@pytest.mark.parametrize(("columns", "nbytes"), [(1280, 41_943_040), (5120, 120_586_240)])
def test_column_sums_seen_in_an_allocator_trace_on_an_h100_pcie(columns, nbytes):
    """The gradient of a bias over 4096 rows, as published (FACTS.md, section 2)."""
    assert buffers("sum.dim_IntList", tensor(4096, columns), [0], True, gpu=H100_PCIE)[0] == nbytes


def test_semaphores_are_four_bytes_for_every_128_columns():
    """A block of 32 lanes, four columns each, takes 128 columns: 1280 columns are 10 groups of blocks."""
    assert buffers("sum.dim_IntList", tensor(4096, 1280), [0])[1:] == (4 * 10,)


def test_full_sum_has_one_partial_sum_for_each_block_the_gpu_can_run():
    """512 threads a block, so 4 blocks on each of 108 multiprocessors, and one semaphore."""
    assert buffers("sum.default", tensor(3072, 3000)) == (108 * 4 * 4, 4)
    assert buffers("mean.default", tensor(3072, 3000), gpu=preset("t4")) == (40 * 2 * 4, 4)  # 1024 threads there


def test_an_odd_number_of_columns_is_loaded_one_by_one():
    """1281 columns: 32 x 16 threads, 41 groups, 4096 / 16 = 256 values a thread; 432 blocks to fill make 11 a group."""
    assert buffers("sum.dim_IntList", tensor(4096, 1281), [0]) == (4 * 1281 * 11 * 32, 4 * 41)


def test_half_precision_is_added_up_in_float():
    whole = buffers("sum.dim_IntList", tensor(4096, 1280), [0])
    for dtype in (torch.bfloat16, torch.float16):
        assert buffers("sum.dim_IntList", tensor(4096, 1280, dtype=dtype), [0], result=dtype) == whole
        assert buffers("sum.dim_IntList", tensor(4096, 1280, dtype=dtype), [0], result=torch.float32) == whole
    assert buffers("amax.default", tensor(4096, 1280, dtype=torch.bfloat16), [0])[0] == whole[0] // 2  # no float needed
    assert buffers("max.dim", tensor(4096, 1280), 0)[0] == 4 * whole[0]  # 4-byte value, 8-byte index, padding
    assert buffers("var.correction", tensor(4096, 1280), [0])[0] == 4 * whole[0]  # two moments and two counts


def test_other_dtypes_are_converted_first():
    """`mask.sum()` of a million booleans makes a million int64s."""
    assert buffers("sum.default", tensor(1000, 1000, dtype=torch.bool), result=torch.int64)[0] == 8_000_000
    assert buffers("sum.default", tensor(1000, 1000), result=torch.float32)[0] < 1_000_000


def test_small_reductions_need_no_buffer():
    assert buffers("sum.dim_IntList", tensor(512, 1024), [0]) == ()  # 512 rows over 4 warps: 128 values a thread
    assert buffers("sum.dim_IntList", tensor(1, 250), [0], True) == ()
    assert buffers("mean.dim", tensor(8192, 768), [-1]) == ()
    assert buffers("sum.default", tensor()) == buffers("sum.default", tensor(0, 7)) == ()
    assert buffers("relu.default", tensor(4096, 1280)) == ()


def test_only_memory_order_counts_not_how_dimensions_are_named():
    columns = buffers("sum.dim_IntList", tensor(4096, 1280), [0])
    assert buffers("sum.dim_IntList", tensor(1280, 4096, order=(1, 0)), [1]) == columns  # the transpose
    assert buffers("sum.dim_IntList", tensor(64, 64, 1280), [0, 1]) == columns  # (batch, token, feature)
    assert buffers("sum.dim_IntList", tensor(1, 4096, 1, 1280), [1]) == columns
    for order in permutations(range(3)):
        assert buffers("sum.default", tensor(96, 512, 768, order=order)) == buffers(
            "sum.default", tensor(96 * 512 * 768)
        )


def test_beyond_32_bits_the_input_is_reduced_in_halves():
    """4 GiB of float: 32,768 rows at a time. 16,384 columns are 128 groups, 8192 values a thread, 32 blocks a group."""
    assert buffers("sum.dim_IntList", tensor(65536, 16384), [0]) == (4 * 16384 * 32 * 128, 4 * 128)
    half = tensor(131072, 16384, dtype=torch.bfloat16)
    carried, *rest = buffers("sum.dim_IntList", half, [0], result=torch.bfloat16)
    assert carried == 4 * 16384  # the sums so far, in float, because the result cannot hold them
    assert rest == [4 * 16384 * 64 * 128, 4 * 128]  # 65,536 rows at a time


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(sorted(KERNELS)),
    shape=st.lists(st.sampled_from([0, 1, 2, 3, 5, 64, 1000, 4096, 100_000]), max_size=4),
    strides=st.lists(st.integers(0, 10_000), min_size=4, max_size=4),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64]),
    gpu=st.sampled_from(list(PRESETS.values())),
    data=st.data(),
)
def test_any_shape_and_stride_gives_positive_sizes(name, shape, strides, dtype, gpu, data):
    x = TensorMeta(tuple(shape), tuple(strides[: len(shape)]), dtype, 0)
    args: list = [x]
    if KERNELS[name].dim is not None:
        dims = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True)) if shape else []
        args += [2.0] * (KERNELS[name].dim - 1) + [dims]
    sizes = reduction_buffers(Op(0, name, tuple(args), {}, "", "forward"), gpu)
    assert all(type(n) is int and n > 0 for n in sizes)
    if x.numel < 256:
        assert sizes == ()
