"""Does checkpoint give the gradients of the plain call, behave as torch's does, and hold nothing longer than needed?"""

import contextlib
import functools
import gc
import inspect
import threading
import warnings
import weakref

import pytest
import torch
import torch.utils.checkpoint as theirs
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointError, CheckpointPolicy, create_selective_checkpoint_contexts

import ckptlib as ck
from ckptlib.errors import CkptError
from ckptlib.models import mlp
from ckptlib.recompute.checkpoint import CheckpointFunction, checkpoint
from ckptlib.recompute.rng_and_autocast import GlobalState

BOTH = pytest.mark.parametrize("use_reentrant", [False, True], ids=["hooks", "function"])
STOP = pytest.mark.parametrize("early_stop", [True, False], ids=["early", "full"])
safe = functools.partial(checkpoint, use_reentrant=False)


def segment(p=0.0):
    return nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.Dropout(p), nn.Linear(9, 6), nn.Tanh())


def inputs(*shape):
    return torch.randn(shape, requires_grad=True)


def grads_of(step, model, x):
    """All gradients after `step(x).backward()`, from the same random numbers each time."""
    model.zero_grad()
    x.grad = None
    torch.manual_seed(7)
    step(x).square().sum().backward()
    return [x.grad.clone(), *(p.grad.clone() for p in model.parameters())]


def changing(*ways):
    """A function that does the first thing when called first, the second when called again, and so on."""
    left = list(ways)
    return lambda *args: (left.pop(0) if len(left) > 1 else left[0])(*args)


# ---- gradients ------------------------------------------------------------------------------------------------------
@BOTH
@pytest.mark.parametrize("p", [0.0, 0.5])
def test_gradients_of_inputs_and_weights_are_autograds(use_reentrant, p):
    model, x = segment(p), inputs(5, 6)
    expected = grads_of(model, model, x)
    found = grads_of(lambda x: checkpoint(model, x, use_reentrant=use_reentrant), model, x)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@BOTH
def test_the_random_numbers_after_a_step_are_those_after_a_plain_step(use_reentrant):
    model, x = segment(0.5), inputs(5, 6)
    grads_of(model, model, x)
    expected = torch.rand(3)
    grads_of(lambda x: checkpoint(model, x, use_reentrant=use_reentrant), model, x)
    assert torch.equal(torch.rand(3), expected)


@BOTH
def test_without_preserve_rng_state_the_mask_is_drawn_again(use_reentrant):
    x = torch.ones(10_000, requires_grad=True)
    out = checkpoint(nn.Dropout(), x, use_reentrant=use_reentrant, preserve_rng_state=False)
    out.sum().backward()
    assert 0.4 < ((out == 0) != (x.grad == 0)).float().mean() < 0.6


@BOTH
def test_autocast_is_restored_though_backward_runs_outside(use_reentrant):
    seen = []

    def fn(x, w):
        y = x @ w
        seen.append(y.dtype)
        return y

    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = checkpoint(fn, inputs(3, 3), inputs(3, 3), use_reentrant=use_reentrant, early_stop=False)
    y.sum().backward()
    assert seen == [torch.bfloat16, torch.bfloat16]


@BOTH
def test_an_autocast_around_backward_alone_does_not_reach_the_segment(use_reentrant):
    seen = []
    y = checkpoint(lambda x: seen.append((x @ x).dtype) or x @ x, inputs(3, 3), use_reentrant=use_reentrant)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y.sum().backward()
        assert torch.is_autocast_enabled("cpu")
    assert seen == [torch.float32, torch.float32]


def test_a_default_device_is_restored():
    seen = []

    def fn(x):
        seen.append(torch.empty(1).device.type)
        return x.exp()

    with torch.device("meta"):
        y = safe(fn, torch.ones(2, device="cpu", requires_grad=True))
    y.sum().backward()
    assert seen == ["meta", "meta"]


@BOTH
def test_many_inputs_and_outputs_and_what_is_no_tensor(use_reentrant):
    def fn(a, scale, b, name, c):
        return scale, a * b * scale, None, (b + c) * scale, name, a

    a, b, c = inputs(4), inputs(4), torch.randn(4)
    out = checkpoint(fn, a, 3, b, "bar", c, use_reentrant=use_reentrant)
    assert (out[0], out[2], out[4]) == (3, None, "bar") and torch.equal(out[5], a)
    torch.autograd.backward([out[1].sum(), out[3].sum(), out[5].sum()])
    torch.testing.assert_close(a.grad, 3 * b + 1)
    torch.testing.assert_close(b.grad, 3 * a + 3)
    assert c.grad is None


def test_structures_and_keyword_arguments_work_without_reentrance():
    model, x, y = nn.Linear(3, 3), inputs(2, 3), inputs(2, 3)
    out = safe(lambda d, *, more: {"out": model(d["x"]) * more}, {"x": x}, more=y)["out"]
    found = torch.autograd.grad(out.sum(), [x, y, model.weight])
    expected = torch.autograd.grad((model(x) * y).sum(), [x, y, model.weight])
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_no_input_needs_a_gradient_yet_the_weights_are_trained():
    model, x = segment(), torch.randn(5, 6)
    safe(model, x).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


@STOP
@pytest.mark.parametrize("order", [1, 2, 3])
def test_nested_checkpoints_and_higher_orders(order, early_stop):
    def c(fn):
        return lambda x: safe(fn, x, early_stop=early_stop)

    def grad(fn):
        def wrapped(x):
            with torch.enable_grad():
                return torch.autograd.grad(fn(x).sum(), x, create_graph=True)[0]

        return wrapped

    def f(x):
        return x.sin().exp().sin()

    def g(x):  # a backward of its own inside
        (dx,) = torch.autograd.grad(x.sin().exp().sum(), x)
        return x.cos() * dx

    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    for fn in (f, g):
        wrapped = [c(fn), c(c(fn)), lambda x, fn=fn: c(lambda y: c(fn)(y) + y)(x) - x]
        for way in wrapped:
            expected, found, inside = fn, way, c(way)
            for _ in range(order):
                expected, found, inside = grad(expected), grad(found), c(grad(inside))
            torch.testing.assert_close(found(x), expected(x))
            torch.testing.assert_close(inside(x), expected(x))


def test_gradgradcheck():
    w = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)

    def fn(x, w):
        return safe(lambda x: (x @ w).tanh(), x)

    assert torch.autograd.gradcheck(fn, (x, w)) and torch.autograd.gradgradcheck(fn, (x, w))


@STOP
def test_a_retained_graph_can_be_run_backward_again_and_recomputes_each_time(early_stop):
    runs = []
    x = inputs(3)
    out = safe(lambda x: runs.append(1) or x.sin().exp(), x, early_stop=early_stop).sum()
    first = torch.autograd.grad(out, x, retain_graph=True)[0]
    second = torch.autograd.grad(out, x, retain_graph=True)[0]
    assert len(runs) == 3 and torch.equal(first, second)
    torch.autograd.grad(out, x)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(out, x)


def test_part_of_the_outputs_and_part_of_the_inputs():
    x, y = inputs(3), inputs(3)
    a, b = safe(lambda x, y: (x.sin(), (x * y).exp()), x, y)
    torch.testing.assert_close(torch.autograd.grad(b.sum(), y, retain_graph=True)[0], x * (x * y).exp())
    torch.testing.assert_close(torch.autograd.grad(a.sum(), x)[0], x.cos())


def test_backward_starts_again_inside_a_backward_hook():
    x = torch.tensor(1.0, requires_grad=True)
    y, out = safe(lambda x: ((y := x.sin().cos()), y.sin()), x)
    out.grad_fn.register_hook(lambda *_: y.backward(retain_graph=True))
    out.backward(retain_graph=True)
    plain = torch.tensor(1.0, requires_grad=True)
    (plain.sin().cos().sin() + plain.sin().cos()).backward()
    torch.testing.assert_close(x.grad, plain.grad)


def test_a_weight_used_inside_and_outside_has_its_hook_called_once():
    w, calls = inputs(3), []
    w.register_hook(calls.append)
    safe(lambda x: w * x, w * 2).sum().backward()
    assert len(calls) == 1


def test_the_tensor_that_backward_gets_is_the_one_that_was_saved():
    got = []

    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            return x.clone()

        @staticmethod
        def backward(ctx, dy):
            got.extend(ctx.saved_tensors)
            return dy, None

    y = torch.ones(1)
    safe(Keep.apply, inputs(1), y).backward()
    assert got[0] is y


def test_an_input_changed_in_place_before_backward_is_an_error():
    x = inputs(3).clone()
    out = safe(lambda x: x.sin().exp(), x)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_without_grad_mode_nothing_is_kept():
    with torch.no_grad():
        out = safe(segment(), inputs(5, 6))
    assert out.grad_fn is None


# ---- the reentrant way ----------------------------------------------------------------------------------------------
def test_reentrant_without_an_input_that_needs_a_gradient_warns_and_trains_nothing():
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True") as caught:
        out = checkpoint(segment(), torch.randn(5, 6), use_reentrant=True)
    assert not out.requires_grad and caught[0].filename == __file__


def test_reentrant_refuses_what_it_cannot_do():
    x = inputs(3)
    with pytest.raises(RuntimeError, match="torch.utils.checkpoint is incompatible"):
        torch.autograd.grad(checkpoint(torch.exp, x, use_reentrant=True).sum(), x)
    checkpoint(torch.exp, x, use_reentrant=True).sum().backward()  # and the next one works
    with pytest.raises(ValueError, match="Unexpected keyword arguments: y"):
        checkpoint(torch.mul, x, y=x, use_reentrant=True)
    for option in ({"debug": True}, {"context_fn": lambda: None}):
        with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
            checkpoint(torch.exp, x, use_reentrant=True, **option)
    with pytest.raises(RuntimeError, match="none of output has requires_grad=True"):
        checkpoint(lambda x: x.detach(), x, use_reentrant=True).sum().backward()


def test_reentrant_inside_reentrant():
    model, x = segment(), inputs(5, 6)
    expected = grads_of(model, model, x)
    inner = functools.partial(CheckpointFunction.apply, model[2:], True)
    found = grads_of(lambda x: CheckpointFunction.apply(lambda x: inner(model[:2](x)), True, x), model, x)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_the_default_is_the_safe_one_and_warns_in_the_callers_line():
    x = inputs(3)
    with pytest.warns(UserWarning, match="the use_reentrant parameter should be passed explicitly") as caught:
        out = checkpoint(torch.exp, x)
    assert caught[0].filename == __file__
    assert torch.equal(torch.autograd.grad(out.sum(), x)[0], x.exp())  # the other way would refuse this
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        safe(torch.exp, x)


# ---- early stop, contexts, groups -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("option", "context", "runs"),
    [(True, None, 1), (False, None, 2), (True, False, 2), (False, True, 1)],
)
def test_early_stop_and_its_context_which_wins(option, context, runs):
    ends = []

    def fn(x):
        y = x.sin().cos()
        ends.append(1)
        return y.clone()  # clone saves nothing: a stopped run never comes here

    with theirs.set_checkpoint_early_stop(context) if context is not None else contextlib.nullcontext():
        out = safe(fn, inputs(3), early_stop=option)
    out.sum().backward()
    assert len(ends) == runs


def test_a_function_that_catches_the_stop_is_stopped_again():
    caught = []

    def fn(x):
        y = x.sin()
        try:
            return y.exp()  # the last that saves a tensor
        except Exception as error:
            caught.append(type(error).__name__)
            return y.cos().cos()

    x = inputs(3)
    safe(fn, x).sum().backward()
    assert caught == ["_Stop"]
    torch.testing.assert_close(x.grad, torch.autograd.grad(fn(x).sum(), x)[0])


class Ops(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_each_run_has_its_context():
    first, second = Ops(), Ops()
    safe(torch.exp, inputs(3), context_fn=lambda: (first, second)).sum().backward()
    assert first.names == ["exp.default"] and second.names == ["exp.default", "detach.default"]


def test_a_context_that_swallows_the_functions_error_is_an_error():
    def fn(x):
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        safe(fn, inputs(3))
    with pytest.raises(RuntimeError, match="suppressed an exception"):
        safe(fn, inputs(3), context_fn=lambda: (contextlib.suppress(ValueError), contextlib.nullcontext()))


def test_selective_checkpointing_keeps_what_the_policy_says():
    second = Ops()
    policy = [torch.ops.aten.mm.default]

    def contexts():
        keep, restore = create_selective_checkpoint_contexts(policy)
        return keep, Both(second, restore)

    class Both(contextlib.ExitStack):
        def __init__(self, *contexts):
            super().__init__()
            self.contexts = contexts

        def __enter__(self):
            for context in self.contexts:
                self.enter_context(context)
            return super().__enter__()

    x, w = inputs(3, 3), inputs(3, 3)

    def fn(x, w):
        return (x.cos() @ w).sin().sum()

    found = torch.autograd.grad(safe(fn, x, w, context_fn=contexts), (x, w))
    assert all(torch.equal(a, b) for a, b in zip(found, torch.autograd.grad(fn(x, w), (x, w)), strict=True))
    assert "cos.default" in second.names and "mm.default" not in second.names


def test_selective_checkpointing_frees_its_cache_and_says_when_it_is_gone():
    def save_all(ctx, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE

    context = functools.partial(create_selective_checkpoint_contexts, save_all)
    out = safe(lambda x: x.sin().cos().exp(), inputs(3), context_fn=context).sum()
    out.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="backward an extra time"):
        out.backward()


def test_backward_passes_in_one_group_share_one_recomputation():
    runs = []

    def fn(x):
        runs.append(1)
        y = x.sin().cos()
        return y, y.sin().cos()

    y, z = safe(fn, inputs(3))
    with theirs.GraphExecGroup():
        torch.autograd.grad(z.sum(), y, retain_graph=True)
        y.sum().backward()
        assert len(runs) == 2
        with pytest.raises(CheckpointError, match="two backward calls that overlap"):
            torch.autograd.grad(z.sum(), y)


# ---- is the second run the same? ------------------------------------------------------------------------------------
def three(x):
    return x.sin().exp().sin()


def two(x):
    return x.sin().exp()


def other_shape(x):
    return x.sin() * torch.ones(3, 1)


@pytest.mark.parametrize(
    ("ways", "early_stop", "message"),
    [
        ((three, two), True, "A different number of tensors was saved"),
        ((two, three), False, "trying to save more tensors during recomputation"),
        ((two, other_shape), True, "Recomputed values for the following tensors have different metadata"),
    ],
)
def test_a_run_that_saves_other_tensors_is_an_error(ways, early_stop, message):
    for check in ("default", "values"):
        out = safe(changing(*ways), inputs(1), early_stop=early_stop, determinism_check=check)
        with pytest.raises(CheckpointError, match=message):
            out.sum().backward()


@pytest.mark.parametrize(
    ("ways", "early_stop"), [((three, two), True), ((two, three), False), ((two, other_shape), True)]
)
def test_other_saved_tensors_may_come_from_another_compiled_graph(ways, early_stop):
    """The error says so, as torch's own does since pytorch#166926, and names the way out."""
    out = safe(changing(*ways), inputs(1), early_stop=early_stop)
    with pytest.raises(CheckpointError, match=r"torch\.compile(.|\n)*torch\._dynamo\.mark_dynamic\(\)"):
        out.sum().backward()


def test_no_check_lets_other_shapes_pass():
    out = safe(changing(two, lambda x: x.sin().expand(1, 1).exp()), inputs(1), determinism_check="none")
    out.sum().backward()


def counter():
    """Scaled by the number of its call: the classic that no check of metadata finds (pytorch#155171)."""
    calls = []

    def fn(x):
        calls.append(1)
        return (x * len(calls)).sin()

    return fn


def test_other_values_pass_unseen_by_default_and_are_found_by_values():
    x = torch.ones(1, requires_grad=True)
    safe(counter(), x).backward()
    torch.testing.assert_close(x.grad, torch.tensor([2.0]).cos())  # of the second run; the first gave sin 1
    with pytest.raises(CheckpointError, match="different values"):
        safe(counter(), x, determinism_check="values").backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.complex64])
def test_equal_values_pass_whatever_their_type(dtype):
    x = torch.ones(2, 3, dtype=dtype, requires_grad=True)
    scalar = torch.tensor(2.0, dtype=dtype, requires_grad=True)
    safe(lambda x, s: (x.t() * s).sin() * s.conj(), x, scalar, determinism_check="values").abs().sum().backward()
    plain = torch.ones(2, 3, dtype=dtype, requires_grad=True)
    ((plain.t() * scalar).sin() * scalar.conj()).abs().sum().backward()
    assert torch.equal(x.grad, plain.grad)


def test_values_find_a_mask_that_was_drawn_again_and_accept_the_same_mask():
    x = inputs(100)
    safe(nn.Dropout(), x, determinism_check="values").sum().backward()
    out = safe(nn.Dropout(), x, determinism_check="values", preserve_rng_state=False)
    with pytest.raises(CheckpointError, match="preserve_rng_state=False"):
        out.sum().backward()


def test_values_find_that_batchnorm_was_updated():
    x, norm = inputs(5, 3), nn.BatchNorm1d(3)
    with pytest.raises(CheckpointError, match=r"(?s)different values.*BatchNorm and RReLU in training differ by them"):
        safe(norm, x, determinism_check="values").sum().backward()
    safe(norm.eval(), x, determinism_check="values").sum().backward()


def test_rrelu_at_the_end_of_a_segment_needs_its_second_run_to_the_end():
    """What the docstring says of early_stop: torch saves the noise first and draws it then."""
    model, x = nn.Sequential(nn.Linear(6, 6), nn.RReLU()), inputs(5, 6)
    expected = grads_of(model, model, x)
    torch.use_deterministic_algorithms(True)  # what nobody wrote is NaN, not chance
    try:
        for way in (checkpoint, theirs.checkpoint):
            full = grads_of(lambda x: way(model, x, use_reentrant=False, early_stop=False), model, x)  # noqa: B023
            assert all(torch.equal(a, b) for a, b in zip(full, expected, strict=True))
            early = grads_of(lambda x: way(model, x, use_reentrant=False), model, x)  # noqa: B023
            assert early[0].isnan().any()
    finally:
        torch.use_deterministic_algorithms(False)


def test_values_work_under_a_policy_and_are_not_seen_by_it():
    seen = Ops()
    safe(two, inputs(3), determinism_check="values", context_fn=lambda: (seen, contextlib.nullcontext()))
    assert seen.names == ["sin.default", "exp.default"]


def test_values_of_a_meta_tensor_are_refused():
    with pytest.raises(CkptError, match="cannot read the bytes of a meta tensor"):
        safe(two, torch.ones(3, device="meta", requires_grad=True), determinism_check="values")


def test_an_unknown_check_is_refused():
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        safe(two, inputs(3), determinism_check="value")
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(two, inputs(3), determinism_check="values", use_reentrant=True)


@pytest.mark.parametrize(
    ("option", "context", "logged"), [(True, None, True), (False, True, True), (True, False, False)]
)
def test_debug_shows_the_ops_of_both_runs_and_its_context_wins(option, context, logged):
    with theirs.set_checkpoint_debug_enabled(context):
        out = safe(changing(two, other_shape), inputs(1), debug=option)
        with pytest.raises(CheckpointError, match="have different metadata") as caught:
            out.sum().backward()
    text = str(caught.value)
    assert ("because you passed `debug=True` to checkpoint" in text) == logged
    if logged:
        assert text.index("aten.exp.default") < text.index("during recomputation (") < text.index("aten.ones.default")
        assert "test_checkpoint.py" in text
    with pytest.raises(ValueError, match="incompatible with non-default context_fn"):
        safe(two, inputs(1), debug=True, context_fn=lambda: None)


def test_saved_tensors_asked_for_twice_in_one_backward_are_an_error():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, dy):
            (x,) = ctx.saved_tensors
            with pytest.raises(CheckpointError, match="already unpacked once"):
                _ = ctx.saved_tensors
            return 2 * x * dy

    x = inputs(3)
    safe(lambda x: Twice.apply(x.sin()), x).sum().backward()


# ---- what is held, and for how long ---------------------------------------------------------------------------------
def test_a_node_looked_at_by_hand_recomputes_each_time_and_holds_nothing():
    runs = []
    out = safe(lambda x: runs.append(1) or x.sin().exp(), inputs(3))
    for expected in (2, 3):
        assert torch.equal(out.grad_fn._saved_result, out) and len(runs) == expected
    out.sum().backward()
    with pytest.raises(RuntimeError, match="already been freed"):
        _ = out.grad_fn._saved_result


@contextlib.contextmanager
def no_collector():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("backward", [False, True])
def test_the_function_and_its_inputs_go_with_the_graph(use_reentrant, backward):
    class Fn:
        def __call__(self, x):
            return x.sin().exp()

    checkpoint(torch.sin, inputs(3), use_reentrant=use_reentrant)  # the first call imports parts of torch: garbage
    with no_collector():
        fn, x = Fn(), inputs(3).clone()
        refs = [weakref.ref(fn), weakref.ref(x)]
        out = checkpoint(fn, x, use_reentrant=use_reentrant).sum()
        del fn, x
        assert all(ref() for ref in refs[:1])
        if backward:
            out.backward()
        del out
        assert not any(ref() for ref in refs)


def test_what_a_partial_backward_recomputed_in_vain_goes_when_it_ends():
    recomputed = []

    def fn(x):
        y, z = x.sin(), x.cos()
        recomputed[:] = [weakref.ref(y), weakref.ref(z)]
        return y.exp(), z * z

    x = inputs(3)
    with no_collector():
        y, z = safe(fn, x, early_stop=False)
        torch.autograd.grad(y.sum(), x, retain_graph=True)
        held = [slot for slot in gc.get_objects() if type(slot).__name__ == "_Slot"]
        assert held and not any(slot.tensors for slot in held)
        del held
        torch.testing.assert_close(torch.autograd.grad(z.sum(), x)[0], -2 * x.sin() * x.cos())


@BOTH
def test_an_error_in_the_second_run_reaches_the_caller_and_leaves_everything_as_it_was(use_reentrant):
    def fail(x):
        torch.rand(1)
        raise ValueError("in the second run")

    out = checkpoint(changing(two, fail), inputs(3), use_reentrant=use_reentrant)
    state = torch.get_rng_state()
    with pytest.raises(ValueError, match="in the second run"):
        out.sum().backward()
    assert torch.equal(torch.get_rng_state(), state) and torch.is_grad_enabled()
    safe(two, inputs(3)).sum().backward()


def test_threads_can_run_one_graph_backward_at_the_same_time():
    x = torch.linspace(0, 1, 1000, dtype=torch.float64, requires_grad=True)
    out = safe(three, safe(three, x)).sum()
    expected = torch.autograd.grad(three(three(x)).sum(), x)[0]
    found = [None] * 8

    def run(i):
        found[i] = torch.autograd.grad(out, x, retain_graph=True)[0]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(found))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(grad, expected) for grad in found)


@BOTH
def test_it_needs_the_memory_that_torchs_needs(use_reentrant):
    def peak(way):
        torch.manual_seed(0)
        blocks, x = [segment() for _ in range(6)], inputs(50, 6)

        def step():
            y = x
            for block in blocks:
                y = way(block, y, use_reentrant=use_reentrant)
            y.sum().backward()

        return ck.measure(step).peak

    assert peak(checkpoint) == peak(theirs.checkpoint)


def test_checkpoint_sequential_runs_on_it(monkeypatch):
    monkeypatch.setattr(theirs, "checkpoint", checkpoint)
    model, x = segment(0.5), inputs(5, 6)
    expected = grads_of(model, model, x)
    for use_reentrant in (True, False):
        found = grads_of(lambda x: theirs.checkpoint_sequential(model, 2, x, use_reentrant=use_reentrant), model, x)  # noqa: B023
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


# ---- torch.compile, accelerators ------------------------------------------------------------------------------------
@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("inside", [False, True], ids=["forward", "whole step"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_inside_a_compiled_function(backend, inside, use_reentrant):
    """With dropout: torch's own checkpoint, under backend="eager", draws another mask in backward."""
    torch._dynamo.reset()
    model, x = segment(0.5), inputs(5, 6)

    def step(x):
        loss = checkpoint(model, x.sin().asin(), use_reentrant=use_reentrant).square().sum()
        if inside:
            loss.backward()
        return loss

    expected = grads_of(lambda x: model(x.sin().asin()), model, x)
    model.zero_grad()
    x.grad = None
    torch.manual_seed(7)
    loss = torch.compile(step, backend=backend)(x)
    if not inside:
        loss.backward()
    found = [x.grad, *(p.grad for p in model.parameters())]
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found, expected, strict=True))


def test_a_compiled_segment():
    torch._dynamo.reset()
    model, x = segment(), inputs(5, 6)
    expected = grads_of(model, model, x)
    found = grads_of(lambda x: safe(torch.compile(model, backend="eager"), x), model, x)
    assert all(torch.allclose(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.gpu
@BOTH
def test_dropout_on_the_accelerator_draws_the_same_mask(use_reentrant):
    device = torch.accelerator.current_accelerator()
    x = torch.ones(1000, device=device, requires_grad=True)
    out = checkpoint(nn.Dropout(), x, use_reentrant=use_reentrant)
    out.sum().backward()
    assert torch.equal(out == 0, x.grad == 0)


@pytest.fixture
def accelerator(monkeypatch):
    """There is none here: a device module that keeps its state in an attribute stands in for it."""

    class Module:
        initialized = True
        state = torch.tensor([1])

        @classmethod
        def is_initialized(cls):
            return cls.initialized

        @classmethod
        def get_rng_state(cls, device):
            return cls.state

        @classmethod
        def set_rng_state(cls, state, device):
            cls.state = state

    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("xpu"))
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    monkeypatch.setattr(torch, "get_device_module", lambda device: Module)
    return Module


def test_the_state_of_an_accelerator_in_use_is_saved_and_restored(accelerator):
    then = GlobalState(True, ())
    accelerator.state = torch.tensor([2])
    with then.restored():
        assert accelerator.state.item() == 1
    assert accelerator.state.item() == 2


def test_an_accelerator_first_used_inside_a_checkpoint_is_an_error(accelerator):
    def fn(x):
        accelerator.initialized = True
        return x.exp()

    accelerator.initialized = False
    with pytest.raises(RuntimeError, match="initialized in the forward pass of a Checkpoint"):
        safe(fn, inputs(3))
    accelerator.initialized = False
    safe(fn, inputs(3), preserve_rng_state=False)


# ---- with the measuring half ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("device", ["cpu", "sim:cuda"])
@pytest.mark.parametrize("kind", ["reentrant", "nonreentrant"])
def test_fake_tensors_and_the_simulated_gpu_see_what_they_see_with_torchs(monkeypatch, kind, device):
    expected = ck.measure(lambda: ck.models.mlp_step(kind), device, fake=True, builds=True)
    monkeypatch.setattr(mlp, "checkpoint", checkpoint)
    found = ck.measure(lambda: ck.models.mlp_step(kind), device, fake=True, builds=True)
    assert (found.peak, found.forward_peak) == (expected.peak, expected.forward_peak)


def test_watch_sees_the_second_run():
    model = segment()
    with ck.watch(model) as watched:
        safe(model, inputs(5, 6)).sum().backward()
    assert [(row.forward, row.recompute) for row in watched.rows] == [(1, 1)] * 6
    assert watched.saved < watched.recomputed


# ---- as torch's, in the small ---------------------------------------------------------------------------------------
def test_the_parameters_have_torchs_names():
    mine, others = (inspect.signature(f).parameters for f in (checkpoint, theirs.checkpoint))
    assert set(mine) - set(others) == {"preserve_rng_state"} and set(others) <= set(mine)  # there, among the kwargs
    assert safe(function=lambda: 3) == 3


@BOTH
@pytest.mark.parametrize("transform", ["grad", "vjp", "jvp", "vmap", "jacrev", "jacfwd", "hessian"])
def test_functional_transforms_end_as_they_do_with_torchs(transform, use_reentrant):
    x = torch.linspace(0, 1, 12).view(4, 3)

    def end(way):
        def fn(x):
            return way(lambda x: (x.sin() * x.exp()).tanh().sum(), x, use_reentrant=use_reentrant)

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if transform == "vjp":
                    return torch.func.vjp(fn, x)[1](torch.ones(()))[0]
                if transform == "jvp":
                    return torch.func.jvp(fn, (x,), (x,))[1]
                return getattr(torch.func, transform)(fn)(x)
        except RuntimeError as error:
            return type(error), str(error)[:60]

    mine, others = end(checkpoint), end(theirs.checkpoint)
    assert torch.equal(mine, others) if isinstance(mine, torch.Tensor) else mine == others


def test_threads_with_different_modes_do_not_meet():
    wrong = []

    def work(i):
        model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
        for step in range(10):
            x, reentrant = torch.randn(4, 8, requires_grad=True), bool((i + step) % 2)
            expected = torch.autograd.grad(model(model(x)).sum(), [x, *model.parameters()])
            model.zero_grad()
            hidden = checkpoint(model, x, use_reentrant=reentrant)
            loss = checkpoint(model, hidden, use_reentrant=not reentrant).sum()
            other = threading.Thread(target=loss.backward)  # not the thread of forward
            other.start()
            other.join()
            found = [x.grad, *(p.grad for p in model.parameters())]
            wrong.extend(i for a, b in zip(found, expected, strict=True) if not torch.allclose(a, b, atol=1e-6))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_autocast_twice_inside_sums_gradients_as_the_plain_run_does():
    """Torch's own puts one autocast around both, which then share a cast weight and add its gradients in bfloat16."""
    layer, x = nn.Linear(4, 4), torch.randn(4, 4, requires_grad=True)

    def fn(x):
        for _ in range(2):
            with torch.autocast("cpu", torch.bfloat16):
                x = layer(x).float()
        return x

    expected = grads_of(fn, layer, x)
    for use_reentrant in (True, False):
        found = grads_of(lambda x: checkpoint(fn, x, use_reentrant=use_reentrant), layer, x)  # noqa: B023
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("cell", [nn.RNN, nn.GRU, nn.LSTM])
def test_values_of_a_recurrent_layer_pass(cell):
    """Its workspace, made by oneDNN, holds bytes that nobody wrote."""
    layer = cell(8, 8, num_layers=2)
    for _ in range(3):
        safe(layer, inputs(5, 2, 8), determinism_check="values")[0].sum().backward()
