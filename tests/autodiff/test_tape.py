"""The tape against autograd: gradients on random graphs, bytes kept, and when memory is let go."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import ckptlib as ck
from ckptlib.autodiff import derivatives
from ckptlib.autodiff.tape import Tape, Var
from ckptlib.errors import CkptError


def autograd_nbytes(fn: Callable[[], object]) -> int:
    """What autograd saves for fn, each storage counted once."""
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        alive = fn()  # noqa: F841  (autograd frees the branches of outputs that are gone)
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in kept}.values())


class Torch:
    """The tape's methods, done by autograd: one program runs on either."""

    add, mul, linear = staticmethod(torch.add), staticmethod(torch.mul), staticmethod(F.linear)
    relu, sigmoid, tanh, gelu = map(staticmethod, (torch.relu, torch.sigmoid, torch.tanh, F.gelu))
    softmax = staticmethod(lambda x: x.softmax(-1))
    layer_norm = staticmethod(lambda x: F.layer_norm(x, x.shape[-1:]))


LEAVES = [(3, 4), (3, 4), (4,), (1, 4), (4, 4)]  # two matrices, a row, a row to broadcast, a weight
STEPS = ["add", "mul", "x * x", "scale", "minus", "matmul", "linear", "detach"]
STEPS += ["relu", "sigmoid", "tanh", "gelu", "softmax", "layer_norm"]
programs = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=12)


def run(program, engine, leaves: list) -> list:
    """Every value of the program: each step takes its arguments from all the values before it."""
    *pool, w = leaves
    for step, i, j in program:
        a, b = pool[i % len(pool)], pool[j % len(pool)]
        if step in ("add", "mul"):
            pool.append(getattr(engine, step)(a, b))
        elif step == "x * x":
            pool.append(a * a)
        elif step == "scale":
            pool.append(0.5 * a + 1)
        elif step == "minus":
            pool.append(1 - (a - b))
        elif step == "matmul":
            pool.append((pool[i % 2] + a) @ w)  # a row is no matrix, its sum with one is
        elif step == "linear":
            pool.append(engine.linear(a, w))
        elif step == "detach":
            pool.append(a.detach())
        else:
            pool.append(getattr(engine, step)(a))
    return pool


def leaf_values(seed: int = 0) -> list[Tensor]:
    random = torch.Generator().manual_seed(seed)
    return [torch.rand(shape, dtype=torch.float64, generator=random) * 2 - 1 for shape in LEAVES]


@settings(max_examples=150, deadline=None)
@given(programs, st.integers(0, 99), st.lists(st.integers(0, 99), min_size=1, max_size=3))
def test_random_graphs_equal_autograd(program, seed, picks):
    """Fan-out, reuse, x * x, detach, dead branches, several outputs, outputs inside the graph, leaves as outputs."""
    values = leaf_values(seed)
    tape = Tape()
    theirs = [value.clone().requires_grad_() for value in values]
    mine = [tape.var(value) for value in values]
    ours, autograd = run(program, tape, mine), run(program, Torch, theirs)
    picked = [k % len(ours) for k in picks if isinstance(ours[k % len(ours)], Var)]
    assume(picked)
    for k, y in enumerate(ours):
        assert isinstance(y, Var) == autograd[k].requires_grad
    dys = [autograd[k].detach().cos() for k in picked]  # any numbers will do
    tape.backward([ours[k] for k in picked], dys)
    expected = torch.autograd.grad([autograd[k] for k in picked], theirs, dys, allow_unused=True)
    assume(all(grad is None or grad.isfinite().all() for grad in expected))
    for var, grad in zip(mine, expected, strict=True):
        assert (var.grad is None) == (grad is None)
        if grad is not None:
            torch.testing.assert_close(var.grad, grad)


@settings(max_examples=60, deadline=None)
@given(programs)
def test_random_graphs_keep_no_more_than_autograd(program):
    theirs = [value.requires_grad_() for value in leaf_values()]
    tape = Tape()
    run(program, tape, [tape.var(value) for value in theirs])
    assert tape.nbytes <= autograd_nbytes(lambda: run(program, Torch, theirs))


def test_public_name():
    assert ck.Tape is Tape
    assert ck.vjp is derivatives


def test_the_three_functions_of_source_002():
    """(f₃(f₂(f₁(x))) - 10)² with f₁ = x², f₂ = x³, f₃ = x⁴: a₂⁴ is made of one product, used twice."""

    def loss(x):
        a1 = x * x
        a2 = a1 * a1 * a1
        square = a2 * a2
        error = square * square - 10
        return error * error

    x = torch.tensor(1.1, dtype=torch.float64, requires_grad=True)
    tape = Tape()
    mine = tape.var(x)
    tape.backward(loss(mine))
    torch.testing.assert_close(mine.grad, torch.autograd.grad(loss(x), x)[0])


def test_three_lines_keep_one_tensor():
    """FACTS: y = x * 3; z = y + 5; loss = z² keeps z alone. A Python number is no tensor."""
    tape = Tape()
    x = tape.var(torch.tensor(2.0))
    z = x * 3 + 5
    assert tape.nbytes == 0
    loss = z * z
    assert [(op, name) for op, name, _ in tape.saved()] == [("mul", "a"), ("mul", "b")]
    assert tape.nbytes == 4
    tape.backward(loss)
    assert x.grad == 2 * (3 * 2 + 5) * 3


def test_mlp_equals_autograd_in_gradients_and_bytes():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 12), nn.ReLU(), nn.Linear(12, 7), nn.LayerNorm(7), nn.GELU(), nn.Linear(7, 5))
    model.double()
    x, target = torch.randn(6, 30, dtype=torch.float64, requires_grad=True), torch.arange(6) % 5

    tape = Tape()
    mine = {name: tape.var(p) for name, p in model.named_parameters()}
    inp = tape.var(x)
    h = tape.relu(tape.linear(inp, mine["0.weight"], mine["0.bias"]))
    h = tape.layer_norm(tape.linear(h, mine["2.weight"], b=mine["2.bias"]), mine["3.weight"], mine["3.bias"])
    loss = tape.cross_entropy(tape.linear(tape.gelu(h), mine["5.weight"], mine["5.bias"]), target)

    spared = 8 + 7 * 8  # that autograd also keeps: the sum of cross_entropy's class weights, and LayerNorm's bias
    assert tape.nbytes == autograd_nbytes(lambda: F.cross_entropy(model(x), target)) - spared
    F.cross_entropy(model(x), target).backward()
    tape.backward(loss)
    torch.testing.assert_close(inp.grad, x.grad)
    for name, p in model.named_parameters():
        torch.testing.assert_close(mine[name].grad, p.grad)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("input_needs_grad", [False, True])
def test_frozen_layers_keep_what_autograd_keeps(frozen, input_needs_grad):
    x, w = torch.randn(8, 16, requires_grad=input_needs_grad), torch.randn(4, 16, requires_grad=not frozen)
    tape = Tape()
    tape.linear(*(tape.var(t) if t.requires_grad else t for t in (x, w)))
    kept = {name for _, name, _ in tape.saved()}
    assert kept == ({"x"} if not frozen else set()) | ({"w"} if input_needs_grad else set())
    assert tape.nbytes == autograd_nbytes(lambda: F.linear(x, w))


def test_a_storage_kept_twice_counts_once():
    tape = Tape()
    x = tape.var(torch.randn(256, 64))
    y = tape.relu(x * x)
    assert tape.nbytes == 65536 * 2  # x, which mul saves twice, and relu's output
    tape.linear(y, torch.randn(3, 64))
    tape.sigmoid(tape.var(torch.randn(4096)[:4]))
    assert tape.nbytes == 65536 * 2 + 3 * 64 * 4 + 4 * 4  # the linear layer is frozen: w, not y
    y * torch.randn(()).expand(64)  # dx needs the other factor: 64 numbers, one of them stored
    assert tape.nbytes == 65536 * 2 + 3 * 64 * 4 + 4 * 4 + 4
    assert repr(tape).startswith("Tape: 5 ops, 131,860 B\n  mul saves a (256, 64)\n  mul saves b (256, 64)\n  relu")


def test_fan_out_adds_up():
    tape = Tape()
    x = tape.var(torch.tensor([1.0, 2.0]))
    tape.backward([x * x + x + 3 * x, x], [torch.ones(2), torch.tensor([10.0, 20.0])])
    assert x.grad.tolist() == [2 * 1 + 4 + 10, 2 * 2 + 4 + 20]


def test_gradients_are_not_shared():
    """add sends one dy to both its inputs; whoever clips one gradient must not clip another, nor dy itself."""
    tape = Tape()
    a, b, dy = tape.var(torch.zeros(3)), tape.var(torch.zeros(3)), torch.ones(3)
    tape.backward(a + b, dy)
    a.grad.mul_(0)
    assert b.grad.tolist() == dy.tolist() == [1, 1, 1]


def test_detach_cuts_and_constants_pass_through():
    tape = Tape()
    x = tape.var(torch.tensor(3.0))
    cut = (x * x).detach()
    assert isinstance(cut, Tensor)
    assert isinstance(tape.relu(cut), Tensor)  # constants in, constant out
    tape.backward(x * cut)
    assert x.grad == 9  # not 27


def test_unused_variables_get_none_and_dead_branches_nothing():
    tape = Tape()
    x, unused = tape.var(torch.ones(2)), tape.var(torch.ones(2))
    tape.sigmoid(x * unused)
    tape.backward(x * 2, torch.ones(2))
    assert unused.grad is None
    assert x.grad.tolist() == [2, 2]
    assert tape.nbytes == 0  # the dead branch is freed too


def test_memory_goes_where_no_gradient_needs_it():
    """relu's input is held by nobody; its output by the tape, until backward, though the tape itself lives on."""
    tape = Tape()
    x = tape.var(torch.randn(5))
    h = x + 1
    y = tape.relu(h)
    h_ref, y_ref = weakref.ref(h.value), weakref.ref(y.value)
    gc.disable()
    try:
        del h
        assert h_ref() is None
        loss = y + 0
        del y
        assert y_ref() is not None
        tape.backward(loss, torch.ones(5))
        assert y_ref() is None
    finally:
        gc.enable()


def test_backward_frees_on_the_way():
    """When the first op's turn comes, what the later ones saved is gone, and so are the gradients between them."""
    outputs, gradients, alive = [], [], []

    def spy(x):
        return x.clone(), ()

    def spy_vjp(dy):
        alive.append([ref() is not None for ref in outputs + gradients])
        gradients.append(weakref.ref(dy))
        return dy * 1

    tape = Tape()
    x = tape.var(torch.randn(5))
    h = tape.apply(spy, spy_vjp, x)
    for _ in range(2):
        h = tape.tanh(h)
        outputs.append(weakref.ref(h.value))
    loss = tape.apply(spy, spy_vjp, h)
    del h
    tape.backward(loss * 2, torch.ones(5))
    assert alive == [[True, True], [False, False, False]]


def test_a_dropped_tape_lets_go_without_the_garbage_collector():
    gc.disable()
    try:
        tape = Tape()
        x = tape.var(torch.randn(5))
        y = tape.tanh(x)
        refs = [weakref.ref(y.value), weakref.ref(tape), weakref.ref(x)]
        del y, x, tape
        assert [ref() for ref in refs] == [None] * 3
    finally:
        gc.enable()


def test_second_backward_and_later_use_are_refused():
    tape = Tape()
    x = tape.var(torch.tensor(2.0))
    loss = x * x
    tape.backward(loss)
    for again in (lambda: tape.backward(loss), lambda: x * 2, lambda: tape.var(torch.ones(1)), lambda: tape.relu(x)):
        with pytest.raises(RuntimeError, match=r"has been played: backward freed .* new Tape.*backward\(\[y, z\]\)"):
            again()
    assert x.grad == 4


def test_a_saved_tensor_changed_in_place_is_refused():
    tape = Tape()
    w = torch.ones(3)
    loss = tape.var(torch.ones(3)) * w
    w.mul_(2)
    with pytest.raises(RuntimeError, match="mul: b was changed in place"):
        tape.backward(loss, torch.ones(3))


def test_your_own_op():
    def cube(x):
        return x**3, (x,)

    def cube_vjp(dy, x):
        return 3 * x * x * dy

    tape = Tape()
    x = tape.var(torch.tensor([1.0, 2.0]))
    y = tape.apply(cube, cube_vjp, x)
    assert tape.nbytes == x.value.nbytes
    tape.backward(y, torch.ones(2))
    assert x.grad.tolist() == [3, 12]


def test_autograd_does_not_record_beside_the_tape():
    p = torch.ones(2, requires_grad=True)
    tape = Tape()
    x = tape.var(p)
    y = tape.apply(lambda x: (x * p, ()), lambda dy: dy * p, x)  # p comes in by the back door
    assert not y.value.requires_grad
    tape.backward(y, p)
    assert not x.grad.requires_grad


def test_your_own_vjp_for_an_op_with_options():
    """A VJP without @needs has one result per floating-point argument: none for kernel_size, none for target."""

    def my_pool_vjp(dy, indices, shape):
        return derivatives.max_pool2d_vjp(dy, indices, shape)

    def my_loss_vjp(dy, p, target, reduction):
        return derivatives.cross_entropy_vjp(dy, p, target, reduction)

    tape = Tape()
    x, target = tape.var(torch.rand(1, 2, 4)), torch.tensor([[1]])
    y = tape.apply(derivatives.max_pool2d, my_pool_vjp, x, kernel_size=2)
    tape.backward(tape.apply(derivatives.cross_entropy, my_loss_vjp, y, target))
    leaf = x.value.clone().requires_grad_()
    F.cross_entropy(F.max_pool2d(leaf, 2)[0], target[0]).backward()
    torch.testing.assert_close(x.grad, leaf.grad)


@pytest.mark.parametrize(
    ("forward", "pull_back", "message"),
    [
        (lambda x: (x * 2, (x, x)), lambda dy, x: dy, "saved 2 values, its VJP expects 1 after dy"),
        (lambda x: (x * 2, ()), lambda dy: (dy, dy), "returned 2 gradients, expected one each for"),
        (lambda x: (x * 2, ()), lambda dy: None, "returned None for x"),
        (lambda x: (x * 2, ()), lambda dy: dy.sum(0), r"the gradient of x has shape \(3,\), expected \(2, 3\)"),
        (lambda x: (x.double(), ()), lambda dy: dy, "x is torch.float32, y is torch.float64"),
        (lambda x: (x * 2, ()), derivatives.needs(z="")(lambda dy: dy), r"x is a variable, .* only for \['z'\]"),
    ],
)
def test_a_wrong_op_is_told_what_is_wrong(forward, pull_back, message):
    tape = Tape()
    with pytest.raises(CkptError, match=message):
        tape.backward(tape.apply(forward, pull_back, tape.var(torch.ones(2, 3))), torch.ones(2, 3))


def mistake(name: str) -> None:
    tape = Tape()
    x = tape.var(torch.ones(2, 3))
    {
        "no such op": lambda: tape.conv2d(x),
        "integer": lambda: tape.var(torch.arange(3)),
        "a number": lambda: tape.var(3.0),
        "another tape": lambda: tape.add(x, Tape().var(torch.ones(3))),
        "requires grad": lambda: tape.linear(x, nn.Parameter(torch.ones(4, 3))),
        "mixed dtypes": lambda: x * torch.ones(3, dtype=torch.float64),
        "not a scalar": lambda: tape.backward(x * 2),
        "dy's shape": lambda: tape.backward(x * 2, torch.ones(3)),
        "dy's dtype": lambda: tape.backward(x * 2, torch.ones(2, 3, dtype=torch.float64)),
        "too few dys": lambda: tape.backward([x, x * 2], [torch.ones(2, 3)]),
        "a constant": lambda: tape.backward(torch.ones(())),
        "another's output": lambda: Tape().backward(x),
        "shapes": lambda: tape.matmul(x, torch.ones(2, 3)),
    }[name]()


@pytest.mark.parametrize(
    ("name", "message"),
    {
        "no such op": r"no op 'conv2d'. It has linear, .*, mul; run your own with apply",
        "integer": "found torch.int64, expected a floating-point tensor",
        "a number": "found float, expected a floating-point tensor",
        "another tape": "b is a variable of another tape",
        "requires grad": r"w requires grad but is not a variable of this tape.*tape.var\(",
        "mixed dtypes": "a is torch.float32, y is torch.float64",
        "not a scalar": r"dy has shape \(\), expected \(2, 3\). Only a scalar can do without",
        "dy's shape": r"dy has shape \(3,\), expected \(2, 3\)",
        "dy's dtype": "dy is torch.float64, expected torch.float32",
        "too few dys": "found 1 dys for 2 outputs",
        "a constant": "found a Tensor, expected a Var",
        "another's output": "output 0 is a variable of another tape",
        "shapes": r"matmul: a is \(2, 3\) and b is \(2, 3\)",
    }.items(),
)
def test_errors_teach(name, message):
    with pytest.raises((AttributeError, CkptError), match=message):
        mistake(name)
