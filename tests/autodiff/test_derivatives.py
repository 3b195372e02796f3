"""Every op against three oracles: central differences in float64, autograd's gradients, autograd's saved bytes."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ckptlib.autodiff import derivatives
from ckptlib.autodiff.tape import Tape
from ckptlib.errors import CkptError

few = settings(max_examples=25, deadline=None)


class Case(NamedTuple):
    inputs: dict[str, Tensor]  # gradients are wanted for these
    options: dict[str, Any]
    reference: Callable[..., Tensor]  # PyTorch's own op, called with the inputs in order, then the options by name


def spaced(shape, dtype, seed: int, layout: str) -> Tensor:
    """Shuffled, evenly spaced numbers, none of them 0: no op has a kink within a difference step of them."""
    n = math.prod(shape)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    values = ((4 * order + 2.0) / max(n, 1) - 2.03).to(dtype).reshape(shape)
    if layout == "strided":
        base = torch.full((*shape, 2), math.nan, dtype=dtype)
        base[..., 0] = values
        return base[..., 0]
    if layout == "transposed" and len(shape) > 1:
        return values.mT.contiguous().mT
    return values


sizes = st.integers(0, 3)
leading = st.lists(sizes, max_size=2).map(tuple)
dtypes = st.sampled_from([torch.float64, torch.float32])


@st.composite
def tensors(draw, shape, dtype) -> Tensor:
    layout = draw(st.sampled_from(["contiguous", "strided", "transposed"]))
    return spaced(shape, dtype, draw(st.integers(0, 999)), layout)


@st.composite
def broadcast_to(draw, shape) -> tuple[int, ...]:
    """A shape that broadcasts to `shape`."""
    kept = shape[draw(st.integers(0, len(shape))) :]
    return tuple(1 if draw(st.booleans()) else n for n in kept)


def unary(reference, min_dims=0):
    @st.composite
    def case(draw, dtype):
        shape = draw(leading) + (draw(st.integers(1, 5)),) * min_dims
        return Case({"x": draw(tensors(shape, dtype))}, {}, reference)

    return case


@st.composite
def linear_case(draw, dtype):
    d, k = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    inputs = {"x": draw(tensors((*draw(leading), d), dtype)), "w": draw(tensors((k, d), dtype))}
    if draw(st.booleans()):
        inputs["b"] = draw(tensors((k,), dtype))
    return Case(inputs, {}, F.linear)


@st.composite
def cross_entropy_case(draw, dtype):
    rows, k, reduction = draw(leading), draw(st.integers(1, 5)), draw(st.sampled_from(["mean", "sum"]))
    target = torch.randint(k, rows, generator=torch.Generator().manual_seed(draw(st.integers(0, 99))))

    def reference(logits, target, reduction):
        return F.cross_entropy(logits.reshape(-1, k), target.reshape(-1), reduction=reduction)

    return Case({"logits": draw(tensors((*rows, k), dtype))}, {"target": target, "reduction": reduction}, reference)


@st.composite
def max_pool2d_case(draw, dtype):
    batch = draw(st.sampled_from([(), (0,), (1,), (2,)]))
    kernel = draw(st.integers(1, 3))
    options = {"kernel_size": kernel, "stride": draw(st.integers(1, 3)), "padding": draw(st.integers(0, kernel // 2))}
    shape = (*batch, draw(st.integers(1, 2)), draw(st.integers(kernel, 5)), draw(st.integers(kernel, 5)))
    if draw(st.booleans()):
        del options["stride"]  # as large as the window
    return Case({"x": draw(tensors(shape, dtype))}, options, F.max_pool2d)


@st.composite
def layer_norm_case(draw, dtype):
    d = draw(st.integers(1, 5))
    inputs = {"x": draw(tensors((*draw(leading), d), dtype))}
    for name in draw(st.sampled_from(["", "w", "b", "wb"])):
        inputs[name] = draw(tensors((d,), dtype))

    def reference(*values, eps):
        given_in = dict(zip(inputs, values, strict=True))
        return F.layer_norm(given_in["x"], (d,), given_in.get("w"), given_in.get("b"), eps)

    return Case(inputs, {"eps": draw(st.sampled_from([1e-5, 1e-2]))}, reference)


@st.composite
def matmul_case(draw, dtype):
    n, d, k = (draw(st.integers(1, 3)) for _ in range(3))
    batch = draw(leading)
    a = (*draw(broadcast_to(batch)), n, d)
    b = (*draw(broadcast_to(batch)), d, k)
    return Case({"a": draw(tensors(a, dtype)), "b": draw(tensors(b, dtype))}, {}, torch.matmul)


def elementwise(reference):
    @st.composite
    def case(draw, dtype):
        shape = draw(st.lists(sizes, max_size=3).map(tuple))
        a, b = (draw(tensors(draw(broadcast_to(shape)), dtype)) for _ in range(2))
        return Case({"a": a, "b": b}, {}, reference)

    return case


CASES = {
    "linear": linear_case,
    "relu": unary(torch.relu),
    "sigmoid": unary(torch.sigmoid),
    "tanh": unary(torch.tanh),
    "softmax": unary(lambda x: x.softmax(-1), min_dims=1),
    "cross_entropy": cross_entropy_case,
    "max_pool2d": max_pool2d_case,
    "layer_norm": layer_norm_case,
    "gelu": unary(F.gelu),
    "matmul": matmul_case,
    "add": elementwise(torch.add),
    "mul": elementwise(torch.mul),
}
every_op = pytest.mark.parametrize("op", CASES)


def functions(op: str) -> tuple[Callable, Callable]:
    return getattr(derivatives, op), getattr(derivatives, f"{op}_vjp")


def run_vjp(op: str, dy: Tensor, saved: tuple) -> dict[str, Tensor | None]:
    """The VJP's results by input name."""
    pull_back = functions(op)[1]
    dxs = pull_back(dy, *saved)
    return dict(zip(pull_back.needs, dxs if isinstance(dxs, tuple) else (dxs,), strict=True))


def random_like(y: Tensor) -> Tensor:
    return torch.randn(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(7))


def central_difference(f: Callable[[Tensor], Tensor], x: Tensor, dy: Tensor, h: float = 1e-5) -> Tensor:
    """d(f(x) · dy)/dx, one number of x at a time."""
    grad = torch.zeros(x.shape, dtype=x.dtype)
    for i in itertools.product(*map(range, x.shape)):
        up, down = x.clone(), x.clone()
        up[i] += h
        down[i] -= h
        grad[i] = ((f(up) - f(down)) * dy).sum() / (2 * h)
    return grad


def storages(tensors) -> dict[int, Any]:
    return {t.untyped_storage()._cdata: t.untyped_storage() for t in tensors if isinstance(t, Tensor)}


def autograd_saves(fn: Callable[[], Tensor]) -> list[Tensor]:
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        fn()
    return kept


def nbytes(tensors, without=()) -> int:
    apart = storages(without)
    return sum(s.nbytes() for key, s in storages(tensors).items() if key not in apart)


def test_every_vjp_has_a_case():
    assert [name.removesuffix("_vjp") for name in vars(derivatives) if name.endswith("_vjp")] == list(CASES)


@every_op
@few
@given(data=st.data())
def test_equals_autograd(op, data):
    """Autograd runs in float64 also where we run in float32: its own rounding is no part of the oracle."""
    dtype = data.draw(dtypes)
    case = data.draw(CASES[op](dtype))
    y, saved = functions(op)[0](**case.inputs, **case.options)
    dy = random_like(y)
    wanted = {name: x.double().requires_grad_() for name, x in case.inputs.items()}
    expected = case.reference(*wanted.values(), **case.options)
    grads = torch.autograd.grad(expected, list(wanted.values()), dy.double())
    ours = run_vjp(op, dy, saved)
    close = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-11}
    torch.testing.assert_close(y, expected.detach().to(dtype), equal_nan=True, **close)  # nan: the mean of no rows
    for name, grad in zip(wanted, grads, strict=True):
        torch.testing.assert_close(ours[name], grad.to(dtype), **close)


@every_op
@few
@given(data=st.data())
def test_equals_central_differences(op, data):
    case = data.draw(CASES[op](torch.float64))
    forward = functions(op)[0]
    y, saved = forward(**case.inputs, **case.options)
    dy = random_like(y)
    ours = run_vjp(op, dy, saved)
    for name, x in case.inputs.items():
        numeric = central_difference(lambda t, n=name: forward(**{**case.inputs, n: t}, **case.options)[0], x, dy)
        torch.testing.assert_close(ours[name], numeric, rtol=1e-5, atol=1e-6)


@every_op
@few
@given(data=st.data())
def test_never_saves_more_than_autograd(op, data):
    """For every choice of frozen inputs: new storages, and all storages."""
    case = data.draw(CASES[op](torch.float32))
    for wanted in itertools.product([True, False], repeat=len(case.inputs)):
        theirs = {n: x.detach().requires_grad_(w) for (n, x), w in zip(case.inputs.items(), wanted, strict=True)}
        tape = Tape()
        mine = {n: tape.var(x) if w else x for (n, x), w in zip(case.inputs.items(), wanted, strict=True)}
        autograd = autograd_saves(lambda kw=theirs: case.reference(*kw.values(), **case.options))
        getattr(tape, op)(**mine, **case.options)
        ours = [tensor for _, _, tensor in tape.saved()]
        given_in = [*case.inputs.values(), *case.options.values()]
        assert nbytes(ours, without=given_in) <= nbytes(autograd, without=given_in)
        assert tape.nbytes == nbytes(ours)
        if all(x.untyped_storage().nbytes() == x.nbytes for x in case.inputs.values()):
            assert nbytes(ours) <= nbytes(autograd)
        # else an input is a view of a larger storage: matmul in autograd may copy that part, and we keep the whole


EXACT = {  # (8, 16) float32 is 512 B; op -> new bytes, ours and autograd's
    "linear": (0, 0),
    "relu": (512, 512),
    "sigmoid": (512, 512),
    "tanh": (512, 512),
    "softmax": (512, 512),
    "cross_entropy": (512, 512 + 4),  # autograd: the sum of the class weights, a scalar
    "layer_norm": (2 * 8 * 4, 2 * 8 * 4),  # mean and rstd
    "gelu": (0, 0),
    "matmul": (0, 0),
    "add": (0, 0),
    "mul": (0, 0),
}


def example(op: str) -> Case:
    """One ordinary case per op, nothing empty, nothing degenerate."""
    x = spaced((8, 16), torch.float32, 1, "contiguous")
    w, b = spaced((4, 16), torch.float32, 2, "contiguous"), spaced((4,), torch.float32, 3, "contiguous")
    row = spaced((16,), torch.float32, 4, "contiguous")
    return {
        "linear": Case({"x": x, "w": w, "b": b}, {}, F.linear),
        "cross_entropy": Case({"logits": x}, {"target": torch.arange(8)}, F.cross_entropy),
        "max_pool2d": Case({"x": x.reshape(2, 8, 8)}, {"kernel_size": 2}, F.max_pool2d),
        "layer_norm": Case({"x": x, "w": row, "b": row + 1}, {}, lambda x, w, b: F.layer_norm(x, (16,), w, b)),
        "matmul": Case({"a": x, "b": w.mT}, {}, torch.matmul),
        "add": Case({"a": x, "b": row}, {}, torch.add),
        "mul": Case({"a": x, "b": row}, {}, torch.mul),
        "softmax": Case({"x": x}, {}, lambda x: x.softmax(-1)),
        "gelu": Case({"x": x}, {}, F.gelu),
    }.get(op) or Case({"x": x}, {}, getattr(torch, op))


@pytest.mark.parametrize("op", EXACT)
def test_new_bytes_to_the_byte(op):
    case = example(op)
    given_in = [*case.inputs.values(), *case.options.values()]
    wanted = {name: x.detach().requires_grad_() for name, x in case.inputs.items()}
    autograd = autograd_saves(lambda: case.reference(*wanted.values(), **case.options))
    _, saved = functions(op)[0](**case.inputs, **case.options)
    assert (nbytes(saved, given_in), nbytes(autograd, given_in)) == EXACT[op]


def test_max_pool_does_not_keep_its_input():
    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    indices_nbytes = 2 * 3 * 4 * 4 * 8
    assert nbytes(autograd_saves(lambda: F.max_pool2d(x, 2))) == x.nbytes + indices_nbytes
    assert nbytes(derivatives.max_pool2d(x.detach(), 2)[1]) == indices_nbytes


def test_broadcast_matmul_keeps_no_copies():
    a, b = torch.randn(5, 1, 8, 16, requires_grad=True), torch.randn(7, 16, 3, requires_grad=True)
    assert nbytes(autograd_saves(lambda: a @ b)) == 7 * a.nbytes + 5 * b.nbytes
    assert nbytes(derivatives.matmul(a.detach(), b.detach())[1]) == a.nbytes + b.nbytes


@every_op
def test_needs_is_enough_and_not_too_much(op):
    """A gradient is the same without the tensors it does not need, and lost without any that it does."""
    forward, pull_back = functions(op)
    case = example(op)
    y, saved = forward(**case.inputs, **case.options)
    dy = random_like(y)
    names = list(inspect.signature(pull_back).parameters)[1:]
    full = run_vjp(op, dy, saved)

    def without(dropped) -> dict[str, Tensor | None]:
        kept = [None if isinstance(s, Tensor) and n in dropped else s for n, s in zip(names, saved, strict=True)]
        return run_vjp(op, dy, tuple(kept))

    for name in case.inputs:
        needed = pull_back.needs[name]
        assert set(needed) <= set(names)
        torch.testing.assert_close(without(set(names) - set(needed))[name], full[name], rtol=0, atol=0)
        for argument in needed:
            try:
                lost = without({argument})[name]
            except (TypeError, AttributeError):
                continue
            assert lost is None or not torch.allclose(lost, full[name]), f"{op}: d{name} does not need {argument}"


@every_op
def test_dy_of_another_shape_is_refused(op):
    case = example(op)
    y, saved = functions(op)[0](**case.inputs, **case.options)
    for wrong in (torch.ones(1), torch.ones(2, *y.shape)):
        with pytest.raises(CkptError, match=rf"{op}_vjp: dy has shape .*, expected .*the shape of y"):
            functions(op)[1](wrong, *saved)


@given(st.data())
@few
def test_unbroadcast_is_sum_to_size(data):
    shape = data.draw(st.lists(sizes, max_size=4).map(tuple))
    target = data.draw(broadcast_to(shape))
    dy = spaced(shape, torch.float64, 0, "contiguous")
    torch.testing.assert_close(derivatives.unbroadcast(dy, target), dy.sum_to_size(target))


def both(reference, op: str, x: Tensor, dy: Tensor | None = None, **options) -> tuple[Tensor, Tensor]:
    """(our dx, autograd's dx)"""
    y, saved = functions(op)[0](x, **options)
    dy = torch.ones_like(y) if dy is None else dy
    x = x.clone().requires_grad_()
    return functions(op)[1](dy, *saved), torch.autograd.grad(reference(x, **options), x, dy)[0]


def test_relu_at_zero_and_beyond():
    x = torch.tensor([0.0, -0.0, 1e-45, -1e-45, math.inf, -math.inf, math.nan])
    dy = torch.tensor([3.0, 3.0, 3.0, math.inf, 3.0, math.inf, 3.0])
    ours, autograd = both(torch.relu, "relu", x, dy)
    assert ours.tolist()[:2] == [0, 0]
    torch.testing.assert_close(ours, autograd, rtol=0, atol=0)


@pytest.mark.parametrize("options", [{"kernel_size": 2}, {"kernel_size": 3, "stride": 1, "padding": 1}])
@pytest.mark.parametrize("x", [torch.zeros(2, 4, 4), -torch.ones(1, 2, 5, 5), torch.eye(6)[None] - 7])
def test_max_pool_ties_and_padding(x, options):
    """One cell wins a tie, as in PyTorch; padding is -inf, so it never wins, not even over negative numbers."""
    ours, autograd = both(F.max_pool2d, "max_pool2d", x, **options)
    torch.testing.assert_close(ours, autograd, rtol=0, atol=0)
    windows = derivatives.max_pool2d(x, **options)[0].numel()
    assert ours.sum() == windows


def test_softmax_ignores_a_constant_per_row():
    x = spaced((3, 5), torch.float64, 1, "contiguous")
    shift = torch.tensor([[-5.0], [0.5], [100.0]], dtype=torch.float64)
    y, saved = derivatives.softmax(x)
    dy = random_like(y)
    torch.testing.assert_close(derivatives.softmax(x + shift)[0], y)
    torch.testing.assert_close(derivatives.softmax_vjp(dy, *saved).sum(-1), torch.zeros(3, dtype=torch.float64))
    torch.testing.assert_close(derivatives.softmax_vjp(dy + shift, *saved), derivatives.softmax_vjp(dy, *saved))


def test_softmax_and_cross_entropy_of_huge_logits():
    x = torch.tensor([[1e4, 0.0, -1e4], [3e38, 3e38, -3e38], [-math.inf, 1.0, 2.0]])
    ours, autograd = both(lambda x: x.softmax(-1), "softmax", x, torch.tensor([[1.0, 2.0, 3.0]] * 3))
    assert ours.isfinite().all()
    torch.testing.assert_close(ours, autograd)
    ours, autograd = both(F.cross_entropy, "cross_entropy", x[:2], target=torch.tensor([2, 0]))
    assert ours.isfinite().all()
    torch.testing.assert_close(ours, autograd)
    torch.testing.assert_close(ours.sum(-1), torch.zeros(2))


def test_layer_norm_of_constant_rows():
    x = torch.tensor([[3.0] * 4, [0.0] * 4, [1e6] * 4])
    y, saved = derivatives.layer_norm(x)
    dy = torch.tensor([[1.0, -2.0, 3.0, 4.0]] * 3)
    leaf = x.clone().requires_grad_()
    (autograd,) = torch.autograd.grad(F.layer_norm(leaf, (4,)), leaf, dy)
    ours = derivatives.layer_norm_vjp(dy, *saved)[0]
    assert ours.isfinite().all()
    torch.testing.assert_close(ours, autograd)


def test_layer_norm_gradient_neither_shifts_nor_stretches():
    x = spaced((3, 5), torch.float64, 1, "contiguous")
    y, saved = derivatives.layer_norm(x, eps=0.0)
    dx = derivatives.layer_norm_vjp(random_like(y), *saved)[0]
    torch.testing.assert_close(dx.sum(-1), torch.zeros(3, dtype=torch.float64))
    torch.testing.assert_close((dx * y).sum(-1), torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize("op", ["sigmoid", "tanh", "softmax", "gelu"])
def test_autograd_can_differentiate_a_vjp(op):
    """Higher-order gradients: the VJPs are made of differentiable ops."""
    case = example(op)
    x = case.inputs["x"].double().requires_grad_()
    dy = random_like(x)
    y, saved = functions(op)[0](x)
    ours = torch.autograd.grad(functions(op)[1](dy, *saved).square().sum(), x)[0]
    (dx,) = torch.autograd.grad(case.reference(x), x, dy, create_graph=True)
    torch.testing.assert_close(ours, torch.autograd.grad(dx.square().sum(), x)[0])


t = torch.zeros


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: derivatives.linear(t(8, 16), t(16, 4)),
            r"x is \(8, 16\) and w is \(16, 4\).*did you pass w transposed",
        ),
        (lambda: derivatives.linear(t(8, 16), t(4, 16), t(8, 4)), r"b has shape \(8, 4\), expected \(4,\)"),
        (lambda: derivatives.linear(t(8, 16), t(16)), r"w is \(16,\), expected"),
        (lambda: derivatives.matmul(t(8, 16), t(4, 16)), r"a is \(8, 16\) and b is \(4, 16\).*`.mT`"),
        (lambda: derivatives.matmul(t(16), t(16, 4)), r"a is \(16,\).*`\[None\]`"),
        (lambda: derivatives.matmul(t(2, 3, 4), t(5, 4, 3)), r"a is \(2,\) and b is \(5,\).*broadcast"),
        (lambda: derivatives.add(t(8, 16), t(8)), r"add: a is \(8, 16\) and b is \(8,\).*keepdim=True"),
        (lambda: derivatives.mul(t(8, 16), t(8)), r"mul: a is \(8, 16\) and b is \(8,\).*keepdim=True"),
        (lambda: derivatives.cross_entropy(t(8, 4), t(8, 4)), r"target is torch.float32, expected .*One-hot"),
        (lambda: derivatives.cross_entropy(t(8, 4), t(4).long()), r"target has shape \(4,\), expected \(8,\)"),
        (
            lambda: derivatives.cross_entropy(t(8, 4), t(8).long(), "none"),
            r"reduction is 'none', expected 'mean' or 'sum'",
        ),
        (lambda: derivatives.layer_norm(t(8, 4), t(8)), r"w has shape \(8,\), expected \(4,\)"),
        (lambda: derivatives.layer_norm(t(8, 4), t(4), t(1)), r"b has shape \(1,\), expected \(4,\)"),
    ],
)
def test_errors_teach(call, message):
    with pytest.raises(CkptError, match=message):
        call()
