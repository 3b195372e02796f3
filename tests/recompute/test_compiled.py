"""Inside `torch.compile`, and around a compiled model: does each function do what it does without, or say so?"""

import pytest
import torch
import torch.utils.checkpoint as theirs
from torch import nn

import ckptlib as ck
from ckptlib.recompute.selective import by_module

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])
PLACES = pytest.mark.parametrize("place", ["cpu", "disk", "bf16", "int8"])
ADDMM = torch.ops.aten.addmm.default
pytestmark = pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.Linear(9, 6), nn.Tanh())


def grads(model, step):
    model.zero_grad()
    step(torch.linspace(-1, 1, 30).view(5, 6).requires_grad_()).square().sum().backward()
    return [p.grad.clone() for p in model.parameters()]


def close(found, expected):
    return all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found, expected, strict=True))


def packing(place, folder):
    return ck.offload("cpu" if place == "cpu" else folder) if place in ("cpu", "disk") else ck.compress(place)


def packed(way, make, model):
    """The gradients, and what the packing counted."""
    pack = make()

    def step(x):
        with pack:
            return way(x)

    return lambda wrap=lambda f: f: (
        grads(model, wrap(step)),
        (pack.saved, pack.on_device, pack.moved_out, pack.moved_in),
    )


@pytest.mark.slow
@BACKENDS
@PLACES
def test_packing_inside_and_around(backend, place, model, tmp_path):
    make = lambda: packing(place, tmp_path)  # noqa: E731
    expected, counted = packed(model, make, model)()
    inside = packed(model, make, model)(lambda f: torch.compile(f, backend=backend))
    around = packed(torch.compile(model, backend=backend), make, model)()
    for found, count in (inside, around):
        assert close(found, expected) and count == counted and count[0] > 0
    assert not list(tmp_path.iterdir())


@BACKENDS
def test_the_function_itself(backend, model):
    expected = grads(model, model)
    apply = ck.CheckpointFunction.apply
    assert close(grads(model, torch.compile(lambda x: apply(model, True, x), backend=backend)), expected)
    compiled = torch.compile(model, backend=backend)
    assert close(grads(model, lambda x: apply(compiled, True, x)), expected)


@BACKENDS
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_compiled_model_inside_a_checkpoint_and_a_graph_that_must_not_break(backend, use_reentrant, model):
    expected = grads(model, model)
    compiled = torch.compile(model, backend=backend)
    assert close(grads(model, lambda x: ck.checkpoint(compiled, x, use_reentrant=use_reentrant)), expected)
    whole = torch.compile(
        lambda x: ck.checkpoint(model, x, use_reentrant=use_reentrant), backend=backend, fullgraph=True
    )
    with pytest.raises(torch._dynamo.exc.Unsupported, match="should not be traced"):
        grads(model, whole)


@BACKENDS
def test_selective_works_with_our_checkpoint_and_raises_with_torchs(backend, model):
    expected = grads(model, model)
    context = ck.selective([ADDMM])
    step = torch.compile(lambda x: ck.checkpoint(model, x, use_reentrant=False, context_fn=context), backend=backend)
    assert close(grads(model, step), expected) and context.saved == 2
    compiled = torch.compile(model, backend=backend)
    step = lambda x: ck.checkpoint(compiled, x, use_reentrant=False, context_fn=ck.selective([ADDMM]))  # noqa: E731
    assert close(grads(model, step), expected)
    broken = torch.compile(
        lambda x: theirs.checkpoint(model, x, use_reentrant=False, context_fn=ck.selective([ADDMM])), backend=backend
    )
    with pytest.raises(Exception, match="context_fn"):
        grads(model, broken)


@pytest.mark.needs_torch("2.12")
@BACKENDS
def test_selective_by_module_works_with_our_checkpoint(backend, model):
    context = ck.selective(by_module(model, "0", "2"))
    step = torch.compile(lambda x: ck.checkpoint(model, x, use_reentrant=False, context_fn=context), backend=backend)
    assert close(grads(model, step), grads(model, model)) and context.saved == 2


@BACKENDS
def test_equivalent_and_lint_of_a_compiled_model(backend, model):
    x = torch.randn(5, 6)
    compiled = torch.compile(model, backend=backend)
    assert ck.equivalent(model, compiled, x)
    assert ck.equivalent(
        model, lambda m, x: torch.compile(lambda x: ck.checkpoint(m, x, use_reentrant=False), backend=backend)(x), x
    )
    assert ck.lint(compiled, lambda: compiled(x).sum().backward()).numbers == set()
