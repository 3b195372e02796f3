"""The FLOPs, bytes and seconds of single ops, against hand counts."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from ckptlib.cuda.gpus import Speed
from ckptlib.recompute.op_times import OpWork, Work, op_seconds, seconds

N, D, K = 24, 40, 56
SLOW = Speed(flops=1e9, bandwidth=1e8, launch=1e-3)  # ridge: 10 FLOPs per byte


def ops(fn):
    with Work() as work:
        fn()
    return [(op.op.overloadpacket.__name__, op.flops, op.nbytes) for op in work.ops]


def test_a_matrix_product_reads_both_factors_and_writes_the_product():
    x, w, b = torch.randn(N, D), torch.randn(D, K), torch.randn(K)
    assert ops(lambda: x @ w) == [("mm", 2 * N * D * K, 4 * (N * D + D * K + N * K))]
    # F.linear: the transposed weight is a view, which moves nothing; the bias has K numbers
    assert ops(lambda: F.linear(x, w.t().contiguous().t().mT, b))[-1] == (
        "addmm",
        2 * N * D * K,
        4 * (K + N * D + D * K + N * K),
    )


def test_a_product_that_is_written_into_a_tensor_counts_like_one_that_makes_it():
    x, w, y = torch.randn(N, D), torch.randn(D, K), torch.randn(N, K)
    assert ops(lambda: torch.mm(x, w, out=y)) == [("mm", 2 * N * D * K, 4 * (N * D + D * K + 2 * N * K))]
    found = ops(lambda: torch.addmm(y, x, w, out=y))  # y += x @ w
    assert found == [("addmm", 2 * N * D * K, 4 * (N * D + D * K + 3 * N * K))]


def test_ops_without_products_have_bytes_and_no_flops():
    x, w, b = torch.randn(N, D), torch.randn(D), torch.randn(D)
    assert ops(x.exp) == [("exp", 0, 4 * 2 * N * D)]
    assert ops(lambda: x.softmax(-1)) == [("_softmax", 0, 4 * 2 * N * D)]
    # reads x, weight and bias; writes y, and for each row a mean and 1/std
    assert ops(lambda: F.layer_norm(x, (D,), w, b)) == [("native_layer_norm", 0, 4 * (2 * N * D + 2 * D + 2 * N))]


def test_backward_is_counted_too():
    x, w = torch.randn(N, D, requires_grad=True), torch.randn(D, K, requires_grad=True)
    y = x @ w
    dy = torch.randn(N, K)
    assert ops(lambda: y.backward(dy)) == [("mm", 2 * N * D * K, 4 * (N * D + D * K + N * K))] * 2


def test_attention_in_steps_and_fused():
    a, s, d = 3, 64, 16
    q, k, v = (torch.randn(1, a, s, d) for _ in range(3))
    product, square, narrow = 2 * a * s * s * d, 4 * a * s * s, 4 * a * s * d
    plain = ops(lambda: (q @ k.mT).softmax(-1) @ v)
    assert plain == [
        ("bmm", product, 2 * narrow + square),
        ("_softmax", 0, 2 * square),
        ("bmm", product, square + 2 * narrow),
    ]
    (fused,) = ops(lambda: F.scaled_dot_product_attention(q, k, v))
    assert fused[1:] == (2 * product, 4 * narrow + 4 * a * s)  # q, k, v, the output, and a number for each row


def test_views_and_empty_tensors_launch_nothing_and_ops_in_place_read_and_write():
    x, one = torch.randn(N, D), torch.randn(1, D)
    assert ops(lambda: x.t()[3:].detach()) == []
    assert ops(lambda: torch.empty_like(x)) == []
    assert ops(lambda: x.add_(one.expand(N, D))) == [("add_", 0, 4 * (2 * N * D + D))]  # an expanded row is read once
    assert ops(lambda: x.copy_(one.expand(N, D))) == [("copy_", 0, 4 * (N * D + D))]
    assert ops(lambda: torch._foreach_mul_([x, one], 2.0)) == [("_foreach_mul_", 0, 4 * 2 * (N * D + D))]
    assert ops(lambda: x.t().contiguous()) == [("clone", 0, 4 * 2 * N * D)]


def test_flops_are_those_of_torchs_counter():
    model = torch.nn.Sequential(torch.nn.Linear(D, K), torch.nn.GELU(), torch.nn.Linear(K, D))
    x = torch.randn(N, D, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        model(x).sum().backward()
    assert sum(flops for _, flops, _ in ops(lambda: model(x).sum().backward())) == counter.get_total_flops()


@pytest.mark.parametrize(
    ("flops", "nbytes", "expected"),
    [(10_000_000, 100, 1e-2), (100, 1_000_000, 1e-2), (10_000_000, 1_000_000, 1e-2), (0, 1_000_000, 1e-2)],
)
def test_the_slower_of_two_decides(flops, nbytes, expected):
    assert op_seconds(OpWork(None, flops, nbytes), SLOW) == pytest.approx(expected)


def test_the_host_launches_no_faster_than_it_can():
    long, short = OpWork(None, 10_000_000, 0), OpWork(None, 1, 1)
    assert seconds([long] * 3, SLOW) == pytest.approx(3e-2)
    assert seconds([short] * 3, SLOW) == pytest.approx(3e-3)  # three launches
    assert seconds([long] + [short] * 3, SLOW) == pytest.approx(1e-2, rel=1e-4)  # launched while the long one runs
    assert seconds([], SLOW) == 0


def test_the_ridge_is_where_both_take_as_long():
    assert SLOW.ridge == pytest.approx(10)
    work = OpWork(None, int(SLOW.ridge * 1000), 1000)
    assert work.flops / SLOW.flops == pytest.approx(work.nbytes / SLOW.bandwidth)
