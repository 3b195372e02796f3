"""What autograd keeps, measured: FACTS a reader can check, and every kind of tensor counted once and right."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.checkpoint import checkpoint

import ckptlib as ck
from ckptlib.errors import CkptError

N, K = 8, 6
NEW = torch.__version__ >= "2.12"  # before, a checkpoint's own node saved an empty tensor, too


def needs_grad(*shape: int, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype).requires_grad_()


def kinds(saved):
    return [(row.kind, row.shape, row.nbytes) for row in saved]


def test_three_lines_save_one_tensor():
    def three_lines():
        x = torch.tensor(2.0, requires_grad=True)
        y = x * 3
        z = y + 5
        return z**2

    saved = ck.saved_tensors(three_lines)
    assert [(row.op, row.nbytes) for row in saved] == [("PowBackward0", 4)]


X, Y = "input", "activation"
OPS = {  # op -> (saved from the input or as an activation, bytes an element of x)
    "mul_number": (lambda x: x * 3, []),
    "add": (lambda x: x + x, []),
    "sum": (lambda x: x.sum(), []),
    "clone": (lambda x: x.clone(), []),
    "mul": (lambda x: x * x, [(X, 4)]),
    "cos": (lambda x: x.cos(), [(X, 4)]),
    "gelu": (F.gelu, [(X, 4)]),
    "relu": (F.relu, [(Y, 4)]),
    "sigmoid": (torch.sigmoid, [(Y, 4)]),
    "tanh": (torch.tanh, [(Y, 4)]),
    "exp": (torch.exp, [(Y, 4)]),
    "softmax": (lambda x: x.softmax(-1), [(Y, 4)]),
    "dropout": (lambda x: F.dropout(x, 0.5), [(Y, 4)]),
    "native_dropout": (lambda x: torch.native_dropout(x, 0.5, True)[0], [(Y, 1)]),
}


@pytest.mark.parametrize("name", OPS)
def test_op_table(name):
    op, expected = OPS[name]
    x = needs_grad(N, K)
    saved = ck.saved_tensors(lambda: op(x))
    assert kinds(saved) == [(kind, (N, K), size * N * K) for kind, size in expected]


def test_max_pool_saves_input_and_indices():
    x = needs_grad(1, 2, 8, 8)
    assert kinds(ck.saved_tensors(lambda: F.max_pool2d(x, 2))) == [
        ("input", (1, 2, 8, 8), 512),
        ("activation", (1, 2, 4, 4), 8 * 32),
    ]


def test_layer_norm_saves_input_and_two_numbers_a_row():
    x = needs_grad(N, K)
    assert kinds(ck.saved_tensors(lambda: F.layer_norm(x, (K,)))) == [
        ("input", (N, K), 4 * N * K),
        ("activation", (N, 1), 4 * N),
        ("activation", (N, 1), 4 * N),
    ]


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("input_needs_grad", [False, True])
def test_frozen_linear(frozen, input_needs_grad):
    """A trainable layer keeps its input; a layer whose input needs a gradient keeps its weight; neither: nothing."""
    layer = nn.Linear(K, K).requires_grad_(not frozen)
    x = torch.randn(N, K, requires_grad=input_needs_grad)
    saved = ck.saved_tensors(lambda: layer(x))
    assert [row.kind for row in saved] == ["input"] * (not frozen) + ["parameter"] * input_needs_grad


def test_a_view_of_a_weight_is_the_weight():
    """Linear saves weight.t(), which is no Parameter: counted by tensor it would be an activation."""
    model = nn.Linear(64, 64)
    x = needs_grad(1, 64)
    saved = ck.saved_tensors(lambda: model(x))
    assert saved.of("parameter").nbytes == model.weight.nbytes
    assert saved.of("activation").nbytes == 0


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoints_input_is_saved_by_the_caller_and_not_by_a_module_inside(reentrant):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(K, K), nn.GELU())

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=reentrant)

    x = torch.randn(N, K, requires_grad=True)
    model = nn.Sequential(nn.Sequential(Outer()))
    op = "CheckpointFunctionBackward" if reentrant else "outside the graph" if NEW else "aten.empty.memory_format"
    rows = [row for row in ck.saved_tensors(lambda: model(x)) if row.nbytes]
    assert [(row.op, row.module) for row in rows] == [(op, "0.0")]
    rows = ck.saved_tensors(lambda: checkpoint(model[0][0].inner, x, use_reentrant=reentrant))
    assert [row.module for row in rows if row.nbytes] == [""]


def test_modules_ops_and_buffers_are_named():
    model = nn.Sequential(nn.Linear(K, K), nn.BatchNorm1d(K).eval(), nn.GELU())
    saved = ck.saved_tensors(lambda: model(torch.randn(N, K)))
    assert {(row.op, row.module) for row in saved} == {
        ("AddmmBackward0", "0"),
        ("NativeBatchNormBackward0", "1"),
        ("GeluBackward0", "2"),
    }
    assert [row.name for row in saved.of("buffer")] == ["1.running_mean", "1.running_var"]
    assert [row.name for row in saved.of("parameter")] == ["1.weight"]  # the first layer's input needs no gradient
    assert saved.of("activation").nbytes == 2 * 4 * N * K  # what BatchNorm and GELU are given


def test_checkpoint_keeps_its_input_only():
    model = nn.Sequential(nn.Linear(K, K), nn.Tanh(), nn.Linear(K, K), nn.Tanh())
    x = needs_grad(N, K)
    for reentrant in (True, False):
        saved = ck.saved_tensors(lambda r=reentrant: checkpoint(model, x, use_reentrant=r))
        assert kinds(saved) == [("activation", (0,), 0)] * (not NEW and not reentrant) + [("input", (N, K), x.nbytes)]


def test_custom_function_is_named():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, dy):
            return 2 * ctx.saved_tensors[0] * dy

    x = needs_grad(N)
    assert [row.op for row in ck.saved_tensors(lambda: Square.apply(x))] == ["SquareBackward"]


def test_sparse_complex_zero_size_and_non_contiguous():
    sparse = torch.eye(4).to_sparse().requires_grad_()
    dense = needs_grad(4, 3)
    saved = ck.saved_tensors(lambda: torch.sparse.mm(sparse, dense))
    assert sorted(row.nbytes for row in saved) == [16, 48, 64]  # 4 values, the dense factor, 2 x 4 indices
    z = needs_grad(5, dtype=torch.complex64)
    assert ck.saved_tensors(lambda: z * z.conj()).nbytes == 40
    empty = needs_grad(0, 3)
    assert kinds(ck.saved_tensors(lambda: empty.exp())) == [("activation", (0, 3), 0)]
    x = needs_grad(6, 4)
    saved = ck.saved_tensors(lambda: x.t()[::2].cos())  # half of it, but it keeps the whole storage alive
    assert kinds(saved) == [("input", (2, 6), x.nbytes)]


def test_in_place_saves_once():
    x = needs_grad(N, K)
    assert kinds(ck.saved_tensors(lambda: (x + 1).relu_())) == [("activation", (N, K), x.nbytes)]


def test_wrapper_tensors_are_counted_by_what_they_wrap():
    from torch.testing._internal.two_tensor import TwoTensor

    x = TwoTensor(torch.randn(N), torch.randn(N)).requires_grad_()
    assert ck.saved_tensors(lambda: x.exp()).nbytes == 2 * 4 * N


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["exp", "mul", "relu", "view", "add", "cos"]), max_size=12), st.integers(1, 5))
def test_equals_the_storages_in_the_graph(steps, n):
    """Random chains, against the graph itself: every distinct storage behind a `_saved_*` attribute of a node."""
    x = needs_grad(n, 4)

    def chain():
        y = x
        for step in steps:
            y = {
                "exp": lambda y: (y * 0.1).exp(),
                "mul": lambda y: y * y,
                "relu": torch.relu,
                "view": lambda y: y.t().t(),
                "add": lambda y: y + x,
                "cos": torch.cos,
            }[step](y)
        return y * 1.0

    def in_graph(node, found):
        for name in dir(node):
            # a 0-dimensional one is a Python number that the node shows as a tensor: no hook sees it, no op made it
            if name.startswith("_saved_") and isinstance(t := getattr(node, name), torch.Tensor) and t.dim():
                found[t.untyped_storage()._cdata] = t.untyped_storage().nbytes()
        for following, _ in node.next_functions:
            if following is not None:
                in_graph(following, found)
        return found

    out = chain()
    assert ck.saved_tensors(chain).nbytes == sum(in_graph(out.grad_fn, {}).values())


def test_nothing_is_leaked():
    """An op that saves its output must not be kept alive by our own ticket for it."""
    import weakref

    x = needs_grad(1000)
    outputs = []

    def fn():
        y = x.sigmoid()
        outputs.append(weakref.ref(y.untyped_storage()))
        return y.sum()

    ck.saved_tensors(fn)
    assert outputs[0]() is None


def test_what_a_second_model_is_given_is_still_an_activation():
    a, b = nn.Linear(K, K), nn.Linear(K, K)
    saved = ck.saved_tensors(lambda: b(torch.relu(a(torch.randn(N, K)))))
    assert [row.kind for row in saved] == ["input", "activation", "parameter"]
    assert [row.module for row in saved] == ["Linear", "", "Linear_2"]


def test_an_in_place_change_is_still_noticed():
    """Autograd leaves this check to saved-tensor hooks where there are any."""

    def spoiled():
        y = torch.sigmoid(x)
        y.mul_(2)
        y.sum().backward()

    x = needs_grad(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        ck.saved_tensors(spoiled)


@pytest.mark.slow
def test_a_long_graph():
    """Deeper than torch can take down recursively, were its nodes given Python objects one by one."""
    code = (
        "import torch, ckptlib as ck\n"
        "def chain(x):\n"
        "    for _ in range(60_000): x = x.sin()\n"
        "    return x.sum()\n"
        "x = torch.randn(4, requires_grad=True)\n"
        "print(ck.measure(lambda: chain(x)).peak)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-300:]
    assert int(done.stdout) >= 60_000 * 16


def test_table_reads_well():
    x = needs_grad(256, 64)
    assert str(ck.saved_tensors(lambda: x * 3)) == "no saved tensors"
    text = str(ck.saved_tensors(lambda: x * x))
    assert text.splitlines()[0] == "1 storage, 65,536 B"
    assert "MulBackward0 x2" in text
    assert "<table>" in ck.saved_tensors(lambda: x * x)._repr_html_()


@pytest.mark.parametrize("fn", [3, None, torch.ones(2)])
def test_not_callable(fn):
    with pytest.raises(CkptError, match="needs a function to call"):
        ck.saved_tensors(fn)


def test_a_graph_that_is_gone_is_an_error():
    x = needs_grad(3)
    for fn in (lambda: x.exp().sum().backward(), lambda: None):
        with pytest.raises(CkptError, match="Return the loss from fn"):
            ck.saved_tensors(fn)


def test_nothing_saved_is_no_error():
    assert ck.saved_tensors(lambda: torch.ones(3)).nbytes == 0
