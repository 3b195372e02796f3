"""Gradients that meet: the trace adds them up in place where autograd's engine, left alone, does so."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import ckptlib as ck


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def profiled_adds(fn):
    """(in place, out of place) as the profiler counts them without a dispatch mode."""
    with torch.profiler.profile() as profile:
        fn()
    names = [event.name for event in profile.events()]
    return names.count("aten::add_"), names.count("aten::add")


def traced_adds(fn, **options):
    names = [op.name for op in ck.measure(fn, **options).trace.ops]
    return names.count("aten.add_.Tensor"), names.count("aten.add.Tensor")


FAN_IN = {
    "fresh": lambda h, w: torch.relu(h) + torch.sin(h) + torch.tanh(h),
    "shared": lambda h, w: h + torch.relu(h),
    "residual": lambda h, w: h + torch.relu(h @ w),
    "square": lambda h, w: h * h,
    "tied": lambda h, w: torch.relu(h) @ w,
    "norms": lambda h, w: h + F.layer_norm(h + F.layer_norm(h, (4,)), (4,)),
    "tied linear": lambda h, w: F.linear(F.linear(h, w), w),
    "hooked": lambda h, w: (h.register_hook(lambda g: g * 2), torch.relu(h) + torch.sin(h))[1],
}


def step(kind):
    def fn():
        torch.manual_seed(0)
        x, w = leaf(4, 4), leaf(4, 4)
        FAN_IN[kind](x @ w, w).sum().backward()
        return x.grad, w.grad

    return fn


@pytest.mark.parametrize("kind", FAN_IN)
@pytest.mark.parametrize("fake", [False, True])
@pytest.mark.parametrize("device", ["cpu", "sim:cuda"])
def test_gradients_are_added_up_in_place_where_torch_does_so(kind, fake, device):
    assert traced_adds(step(kind), device=device, fake=fake) == profiled_adds(step(kind))


@pytest.mark.parametrize("kind", FAN_IN)
def test_and_they_are_right(kind):
    with ck.trace():
        traced = step(kind)()
    for mine, theirs in zip(traced, step(kind)(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_gradient_that_a_hook_keeps_is_left_alone():
    def kept_by_hook():
        torch.manual_seed(0)
        kept, x = [], leaf(4)
        w = (x * 1).exp() + x
        w.register_hook(kept.append)
        (w.sin() + w).sum().backward()
        return kept[0]

    untraced = kept_by_hook()
    for device in ("cpu", "sim:cuda"):
        results = []
        ck.measure(lambda results=results: results.append(kept_by_hook()), device)
        assert torch.equal(results[0], untraced)


def test_sparse_gradients_meet():
    table, ids = torch.nn.Embedding(10, 4, sparse=True), torch.tensor([1, 2])
    with ck.trace():
        (table(ids).sum() + (table(ids) * 2).sum()).backward()
    assert table.weight.grad.to_dense().sum() == 3 * 8


def test_a_python_backward_is_not_added_up_for():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, dy):
            total = dy + dy
            return total + (dy - dy)

    def fn():
        x = leaf(4, 4)
        Twice.apply(torch.relu(x)).sum().backward()

    assert traced_adds(fn) == (0, 2)
