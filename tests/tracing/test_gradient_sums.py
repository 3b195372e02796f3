"""Backward writes over its tensors under a trace where autograd's engine and formulas, left alone, do so."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import ckptlib as ck
from ckptlib.tracing.cpu_allocator import profiled
from ckptlib.tracing.timeline import of_trace


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


# ---- the formulas' own tensors --------------------------------------------------------------------------------------

ROWS = torch.arange(3)
PICKED = {  # the formula fills zeros of the input's size
    "index": lambda x: x[ROWS],
    "two indices": lambda x: x[ROWS, ROWS],
    "index_select": lambda x: x.index_select(0, ROWS),
    "repeat_interleave": lambda x: x.repeat_interleave(torch.full((100,), 2), 0, output_size=200),
    "gather": lambda x: x.gather(1, torch.zeros(100, 2, dtype=torch.long)),
    "take_along_dim": lambda x: torch.take_along_dim(x, torch.zeros(100, 2, dtype=torch.long), 1),
    "take": lambda x: x.take(ROWS),
    "trace": lambda x: x.trace(),
    "max": lambda x: x.max(1)[0],
    "min": lambda x: x.min(0, keepdim=True)[0],
    "median": lambda x: x.median(1)[0],
    "nanmedian": lambda x: x.nanmedian(1)[0],
    "kthvalue": lambda x: x.kthvalue(3)[0],
    "mode": lambda x: x.mode()[0],
    "topk": lambda x: x.topk(5)[0],
    "sort": lambda x: x.sort()[0],
    "stable sort": lambda x: x.sort(stable=True)[0],
    "cummax": lambda x: x.cummax(0)[0],
    "cummin": lambda x: x.cummin(0)[0],
}
COMPUTED = {  # the formula goes on with its last result
    "bce": lambda x: F.binary_cross_entropy_with_logits(x, x.detach().sigmoid()),
    "weighted bce": lambda x: F.binary_cross_entropy_with_logits(
        x, x.detach().sigmoid(), weight=torch.rand(50), pos_weight=torch.rand(50)
    ),
    "clamp": lambda x: torch.clamp(x, x.detach() - 1, x.detach() + 1),
}
COPIED = {  # the same ops in other formulas: out of place in every run
    "xlogy": lambda x: torch.xlogy(x, x.detach().exp()),  # masked_fill
    "pow": lambda x: torch.pow(x.detach().abs() + 1, x),  # logical_and
    "var": lambda x: x.var(0),  # mul, sub
    "unsafe index": lambda x: torch.ops.aten._unsafe_index(x, [ROWS]),
}
FORMULAS = PICKED | COMPUTED | COPIED


def backward(pick, create_graph):
    """A backward that is ready to run, with its graph and its input."""
    torch.manual_seed(0)
    x = leaf(100, 50)
    y = pick(x).sum()
    return lambda: torch.autograd.grad(y, x, create_graph=create_graph)[0]


def allocated(fn):
    """The peak above the start, by the CPU allocator's own record of a run that nobody traces."""
    live, peak = 0, 0
    with profiled() as readings:
        fn()
    for reading in readings:
        live += reading.nbytes
        peak = max(peak, live)
    return peak


def traced(fn, device="cpu", **options):
    line, _ = of_trace(ck.measure(fn, device, **options).trace, "cpu")
    return line.peak - line.total(-1)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("kind", FORMULAS)
def test_formulas_need_what_the_allocator_records(kind, create_graph):
    theirs = allocated(backward(FORMULAS[kind], create_graph))
    for device in ("cpu", "sim:cuda"):
        ours = traced(backward(FORMULAS[kind], create_graph), device)
        assert 0 <= theirs - ours <= 16, device  # a Python number in a formula is a tensor of 8 bytes to the allocator
    assert theirs >= 100 * 50 * 4  # at least the gradient itself
    fake = traced(lambda: backward(FORMULAS[kind], create_graph), fake=True, builds=True)
    assert fake == ours


def test_formulas_with_temporaries_inside_their_kernels_need_no_more_than_the_allocator_records():
    for pick in (lambda x: x.masked_select(x > 0), lambda x: x[x > 0]):
        assert 100 * 50 * 4 <= traced(backward(pick, False)) <= allocated(backward(pick, False))


@pytest.mark.parametrize("kind", FORMULAS)
@pytest.mark.parametrize("device", ["cpu", "sim:cuda"])
def test_formulas_are_right(kind, device):
    untraced, results = backward(FORMULAS[kind], False)(), []
    ck.measure(lambda: results.append(backward(FORMULAS[kind], False)()), device)
    torch.testing.assert_close(results, [untraced])


@pytest.mark.parametrize("kind", FORMULAS)
def test_their_derivatives_are_right(kind):
    """create_graph=True: the zeros that were written into are part of a graph."""

    def twice():
        torch.manual_seed(0)
        x = leaf(100, 50)
        dx = torch.autograd.grad(FORMULAS[kind](x**3).square().sum(), x, create_graph=True)[0]
        return dx, torch.autograd.grad(dx.square().sum(), x)[0]

    with ck.trace():
        results = twice()
    torch.testing.assert_close(results, twice())


@pytest.mark.parametrize("reduce", [torch.max, torch.min, torch.median, torch.nanmedian])
def test_a_reduction_to_one_element_by_hand(reduce):
    """`evenly_distribute_backward`: two masks of 1 byte per element on CUDA, and the gradient."""
    masks_and_gradient = 100 * 50 * (1 + 1 + 4)
    assert 0 <= traced(backward(reduce, False), "sim:cuda") - masks_and_gradient < 64  # and a few single elements


def test_a_classifier_of_the_last_token():
    """Embedding, an index per row, a maximum over time, cross-entropy: 64 x 30 x 16 floats, never two gradients."""
    torch.manual_seed(0)
    embed, mix, head = torch.nn.Embedding(40, 16), torch.nn.Linear(16, 16), torch.nn.Linear(48, 5)
    ids, last, rows = torch.randint(40, (64, 30)), torch.randint(30, (64,)), torch.arange(64)
    target = torch.randint(5, (64,))

    def step():
        h = mix(embed(ids)).tanh()
        pooled = F.adaptive_max_pool2d(h[:, None], (1, 16))[:, 0, 0]
        loss = F.cross_entropy(head(torch.cat([h[rows, last], h.max(1)[0], pooled], 1)), target)
        loss.backward()
        for module in (embed, mix, head):
            module.zero_grad()

    step()
    theirs = allocated(step)
    assert traced(step) == traced(step, "sim:cuda") == theirs


def test_a_python_backward_is_not_written_over():
    class Gather(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[:, :2].clone()

        @staticmethod
        def backward(ctx, dy):
            zeros = torch.zeros(100, 50)
            filled = zeros.scatter_add(1, torch.zeros(100, 2, dtype=torch.long), dy)
            assert not zeros.any()
            return filled

    assert "aten.scatter_add.default" in [op.name for op in ck.measure(backward(Gather.apply, False)).trace.ops]
