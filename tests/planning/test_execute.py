"""Does a schedule, run on real layers, give autograd's gradients, and take exactly the memory it was said to take?"""

import copy
import gc
import weakref
from collections import Counter
from itertools import accumulate
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ckptlib.errors import CkptError
from ckptlib.planning.execute import execute
from ckptlib.planning.known_schedules import periodic, recompute_all, revolve, sqrt, store_all
from ckptlib.planning.optimal_schedule import optimal, smallest_budget
from ckptlib.planning.schedule import Schedule
from ckptlib.planning.stage_costs import Costs
from ckptlib.remember.measurement import measure


def classics(n: int) -> dict[str, Schedule]:
    k = min(n, 3)
    return {
        "store_all": store_all(n),
        "recompute_all": recompute_all(n),
        "sqrt": sqrt(n),
        "periodic": periodic(n, k),
        "periodic, chunk not saved": periodic(n, k, save_chunk=False),
        "revolve 2": revolve(n, 2),
        "revolve 4": revolve(n, 4),
    }


# ---- bytes ----------------------------------------------------------------------------------------------------------
class Resize(torch.autograd.Function):
    """A stage with known costs: it keeps its input, its output, and `extra` more elements."""

    @staticmethod
    def forward(ctx, x, size, extra):
        y = x.new_ones(size)
        ctx.save_for_backward(x, y, *([x.new_ones(extra)] if extra else []))
        return y

    @staticmethod
    def backward(ctx, dy):
        x, y, *extra = ctx.saved_tensors  # named, so that none is freed before the gradient is there
        return torch.ones_like(x), None, None


class Loss(torch.autograd.Function):
    """A loss whose gradient is a tensor of its own, which autograd frees when it was used."""

    @staticmethod
    def forward(ctx, y):
        ctx.size = y.shape
        return y.sum()

    @staticmethod
    def backward(ctx, d):
        return torch.ones(ctx.size)


UNIT = 256  # elements of 4 bytes: what is smaller, the loss for one, is not the chain's


class Stage(nn.Module):
    def __init__(self, size: int, extra: int):
        super().__init__()
        self.size, self.extra, self.ran = UNIT * size, UNIT * extra, 0

    def forward(self, x):
        self.ran += 1
        return Resize.apply(x, self.size, self.extra)


class Measured(NamedTuple):
    peak: float  # in units
    activations: float  # the peak of these alone
    forwards: list[int]  # of each stage


def measured(schedule: Schedule, x_sizes: list[int], extras: list[int]) -> Measured:
    layers = [Stage(size, extra) for size, extra in zip(x_sizes[1:], extras, strict=True)]
    x = torch.ones(UNIT * x_sizes[0], requires_grad=True)
    line = measure(lambda: Loss.apply(execute(schedule, layers, x)).backward()).timeline
    units = [change for change in (*line.start, *line.changes) if change.nbytes % (4 * UNIT) == 0]
    everything = accumulate(change.nbytes for change in units)
    activations = accumulate(c.nbytes for c in units if c.owner.category in ("activation", "input"))
    return Measured(max(everything) / (4 * UNIT), max(activations) / (4 * UNIT), [layer.ran for layer in layers])


def equal_stages(n: int) -> Costs:
    """What the stages above cost: backward makes the input's gradient while the output's is still there."""
    return Costs([1] * n, [1] * n, [1] * (n + 1), [1] * n, btmp=[1] * n, dy_at_start=False)


def schedules(n: int) -> list[Schedule]:
    """From every builder, k, slots and budgets going through many values as n does."""
    k, slots = 1 + n % min(n, 9), 2 + n % 8
    costs = equal_stages(n)
    low, high = smallest_budget(costs), store_all(n).cost(costs).peak
    budgets = [low + 2, (low + high) // 2, *([low] if n <= 16 else [])]  # the lowest repeats about n²/2 forwards
    found = [store_all(n), recompute_all(n), sqrt(n), periodic(n, k), periodic(n, min(2 * k, n), save_chunk=False)]
    found += [revolve(n, slots), revolve(n, 2 * slots), *(optimal(costs, min(budget, high)) for budget in budgets)]
    return list(dict.fromkeys(found))  # each once


@pytest.mark.parametrize("n", [*range(1, 17), *(pytest.param(n, marks=pytest.mark.slow) for n in range(17, 65))])
def test_executed_peaks_and_forward_counts_are_the_predicted_ones(n):
    for schedule in schedules(n):
        found = measured(schedule, [1] * (n + 1), [0] * n)
        assert found.peak == schedule.cost(equal_stages(n)).peak
        assert found.activations == schedule.cost().peak
        assert found.forwards == schedule.forwards()


@pytest.mark.parametrize("n", [16, 64, pytest.param(144, marks=pytest.mark.slow)])
def test_chens_peak_is_measured_as_k_plus_n_over_k(n):
    for k in (k for k in range(1, n + 1) if n % k == 0):
        found = measured(periodic(n, k), [1] * (n + 1), [0] * n)
        assert found.activations == k + n // k
        assert sum(found.forwards) == 2 * n - n // k


@pytest.mark.parametrize(("n", "slots", "extra"), [(10, 3, 15), (56, 3, 210), (100, 5, 316), (100, 10, 222)])
def test_revolve_runs_the_published_number_of_forwards(n, slots, extra):
    found = measured(revolve(n, slots), [1] * (n + 1), [0] * n)
    assert sum(found.forwards) == n + extra
    assert found.activations <= slots + 2  # the slots, and the input and output of the stage that runs


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_planned_peaks_of_unequal_stages_are_the_executed_ones(data):
    n = data.draw(st.integers(1, 8))
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=n + 1, max_size=n + 1))
    extras = data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    xbar = [a + b for a, b in zip(sizes[1:], extras, strict=True)]
    costs = Costs([1] * n, [1] * n, sizes, xbar, ftmp=extras, atmp=[0] * n, btmp=sizes[:-1], dy_at_start=False)
    low, high = smallest_budget(costs), store_all(n).cost(costs).peak
    schedule = optimal(costs, data.draw(st.integers(low, high)))
    assert measured(schedule, sizes, extras).peak == schedule.cost(costs).peak


# ---- gradients ------------------------------------------------------------------------------------------------------
def stages(n: int) -> nn.Sequential:
    torch.manual_seed(0)
    kinds = [
        lambda: nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(0.4)),
        lambda: nn.BatchNorm1d(6),
        lambda: nn.Sequential(nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 6)),
        lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6)),
    ]
    return nn.Sequential(*(kinds[i % len(kinds)]() for i in range(n)))


def state_after_a_step(model, run, x):
    """Everything a training step leaves behind."""
    torch.manual_seed(1)
    model, x = copy.deepcopy(model), x.clone().requires_grad_()
    out = run(model, x)
    (out * torch.arange(out.numel()).view_as(out)).sum().backward()
    gradients = {name: p.grad for name, p in model.named_parameters()}
    return {"x": x.grad, "out": out.detach(), "random": torch.rand(3), **gradients, **dict(model.named_buffers())}


@pytest.mark.parametrize("n", [1, 2, 4, 9])
@pytest.mark.parametrize("name", classics(1))
def test_a_step_leaves_exactly_what_plain_autograd_leaves(name, n):
    """Output, all gradients, BatchNorm's and spectral norm's buffers, the random numbers to come."""
    model, x, schedule = stages(n), torch.randn(5, 6), classics(n)[name]
    expected = state_after_a_step(model, lambda m, x: m(x), x)
    found = state_after_a_step(model, lambda m, x: execute(schedule, m, x), x)
    assert found.keys() == expected.keys()
    for key in expected:
        torch.testing.assert_close(found[key], expected[key], msg=lambda text, key=key: f"{key}: {text}")


@pytest.mark.parametrize("name", classics(1))
def test_stages_run_as_often_as_the_schedule_says(name):
    schedule, ran = classics(9)[name], Counter()

    def stage(i):
        def run(x):
            ran[i] += 1
            return x.sin()

        return run

    x = torch.ones(3, requires_grad=True)
    execute(schedule, [stage(i) for i in range(9)], x).sum().backward()
    assert [ran[i] for i in range(9)] == schedule.forwards()


def test_an_input_that_needs_no_gradient_and_frozen_stages():
    model = stages(4)
    model[0].requires_grad_(False)
    for schedule in classics(4).values():
        model.zero_grad()
        torch.manual_seed(1)
        model(torch.ones(5, 6)).sum().backward()
        expected = [p.grad.clone() if p.grad is not None else None for p in model.parameters()]
        model.zero_grad()
        torch.manual_seed(1)
        execute(schedule, model, torch.ones(5, 6)).sum().backward()
        for p, gradient in zip(model.parameters(), expected, strict=True):
            assert (p.grad is None) == (gradient is None)
            if gradient is not None:
                torch.testing.assert_close(p.grad, gradient)


def test_a_shared_layer_and_tensors_from_outside_get_their_gradients():
    shared, outside = nn.Linear(4, 4), torch.randn(4, requires_grad=True)
    layers = [shared, lambda x: x * outside, shared, torch.tanh]
    x = torch.randn(2, 4)
    expected = torch.autograd.grad(torch.tanh(shared(shared(x) * outside)).sum(), [outside, *shared.parameters()])
    for schedule in classics(4).values():
        y = execute(schedule, layers, x)
        found = torch.autograd.grad(y.sum(), [outside, *shared.parameters()])
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("backward_inside", [False, True])
def test_autocast_is_as_it_was(backward_inside):
    model, x = nn.Sequential(*(nn.Linear(8, 8) for _ in range(5))), torch.randn(3, 8)
    with torch.autocast("cpu", torch.bfloat16):
        model(x).float().sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        loss = execute(recompute_all(5), model, x).float().sum()
        if backward_inside:
            loss.backward()
    if not backward_inside:
        loss.backward()
    for p, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, gradient)


def test_a_sparse_buffer_that_a_stage_writes_is_as_it_was():
    class Fading(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weights", torch.eye(4).to_sparse())

        def forward(self, x):
            self.weights = self.weights * 0.5
            return torch.sparse.mm(self.weights, x.sin())

    x = torch.randn(4, 3)
    layers = nn.Sequential(*(Fading() for _ in range(4)))
    expected = state_after_a_step(layers, lambda m, x: m(x), x)
    for schedule in classics(4).values():
        found = state_after_a_step(layers, lambda m, x, schedule=schedule: execute(schedule, m, x), x)
        for key in expected:
            torch.testing.assert_close(found[key], expected[key])


def test_without_gradients_the_chain_is_run_once_and_nothing_is_kept():
    model = stages(3).eval()
    x = torch.randn(5, 6)
    with torch.no_grad():
        y = execute(recompute_all(3), model, x)
        torch.testing.assert_close(y, model(x))
    assert not y.requires_grad


def test_nothing_outlives_the_step():
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(6)))
    alive = []
    for layer in model:
        layer.register_forward_hook(lambda m, args, out: alive.append(weakref.ref(out.untyped_storage())))
    gc.disable()
    try:
        execute(revolve(6, 2), model, torch.ones(2, 4)).sum().backward()
        assert [ref() for ref in alive if ref() is not None] == []
    finally:
        gc.enable()


# ---- what is refused ------------------------------------------------------------------------------------------------
def test_a_wrong_number_of_layers():
    with pytest.raises(CkptError, match="there are 3 layers, but the schedule has 4 stages"):
        execute(store_all(4), [torch.sin] * 3, torch.ones(2))


def test_an_input_that_is_no_tensor():
    with pytest.raises(CkptError, match="x is a list, but the chain"):
        execute(store_all(1), [torch.sin], [1.0])


def test_a_stage_that_returns_two_tensors():
    with pytest.raises(CkptError, match="stage 1 returned a tuple, but in a chain each stage passes one tensor"):
        execute(store_all(2), [torch.sin, lambda x: (x, x)], torch.ones(2, requires_grad=True))


def test_a_stage_that_works_in_place():
    with pytest.raises(CkptError, match="stage 1 changed its input in place"):
        execute(recompute_all(3), [torch.sin, nn.ReLU(inplace=True), torch.sin], torch.ones(2, requires_grad=True))


INPLACE = "modified by an inplace operation"


def gradients_after_overwriting(run, model, x, value: int) -> list[torch.Tensor]:
    """A step that loses one value of the chain before backward: 0 is its input, i what stage i - 1 returned at first"""
    model, values = copy.deepcopy(model), [x.clone()]
    for layer in model:
        layer.register_forward_hook(lambda m, args, out: values.append(out))
    loss = run(model, values[0]).sum()
    with torch.no_grad():
        values[value].copy_(torch.randn(5, 6))  # the next batch, perhaps
    loss.backward()
    return [p.grad for p in model.parameters()]


@pytest.mark.parametrize("name", classics(1))
def test_a_value_that_is_overwritten_before_backward_is_noticed_or_was_not_needed(name):
    """Plain autograd refuses: Linear saves its input, tanh its output."""
    torch.manual_seed(0)
    model, x = nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(6))), torch.randn(5, 6)
    model(x).sum().backward()
    noticed = []
    for value in range(7):
        with pytest.raises(RuntimeError, match=INPLACE):
            gradients_after_overwriting(lambda m, x: m(x), model, x, value)
        try:
            found = gradients_after_overwriting(lambda m, x: execute(classics(6)[name], m, x), model, x, value)
        except RuntimeError as error:
            assert INPLACE in str(error)
            noticed.append(value)
        else:
            for gradient, p in zip(found, model.parameters(), strict=True):
                torch.testing.assert_close(gradient, p.grad)
    kept = {stage for kind, stage in classics(6)[name].actions[:6] if kind != "forward"}
    assert {0, *kept} <= set(noticed)


def test_a_stage_that_overwrites_what_it_saved():
    """As plain autograd does; `torch.utils.checkpoint` goes on with zeros."""

    def forgetful(x):
        h = x.exp()
        y = h.sin()
        h.detach().zero_()
        return y

    layers, x = [forgetful, torch.sin, torch.sin], torch.ones(2, requires_grad=True)
    for schedule in classics(3).values():
        with pytest.raises(RuntimeError, match=INPLACE):
            execute(schedule, layers, x).sum().backward()


@pytest.mark.parametrize("n", [3, 4, 9])  # with one chunk to recompute, and with more
@pytest.mark.parametrize("name", ["recompute_all", "sqrt", "periodic", "periodic, chunk not saved", "revolve 2"])
def test_a_second_backward(name, n):
    loss = execute(classics(n)[name], [torch.sin] * n, torch.ones(2, requires_grad=True)).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(CkptError, match="has already been reversed, and a schedule can run backward only once"):
        loss.backward()


def test_higher_order_gradients():
    x = torch.ones(2, requires_grad=True)
    loss = execute(recompute_all(3), [torch.sin] * 3, x).sum()
    with pytest.raises(CkptError, match="create_graph"):
        torch.autograd.grad(loss, x, create_graph=True)


def test_a_stage_that_is_not_the_same_twice():
    calls = []

    def fickle(x):
        calls.append(1)
        return x.sin() if len(calls) == 1 else x.sin().sin()

    loss = execute(recompute_all(2), [fickle, torch.sin], torch.ones(2, requires_grad=True)).sum()
    with pytest.raises(CkptError, match="stage 0 saved 1 tensors in its first run and 2 when it ran again"):
        loss.backward()


def test_saved_tensors_are_read_once():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, dy):
            return dy * (ctx.saved_tensors[0] + ctx.saved_tensors[0])

    loss = execute(recompute_all(2), [Twice.apply, torch.sin], torch.ones(2, requires_grad=True)).sum()
    with pytest.raises(CkptError, match="read the same saved tensor twice"):
        loss.backward()


@pytest.mark.parametrize("name", classics(1))
def test_under_the_eager_compiler_backend(name):
    model, x = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4))), torch.randn(2, 4)
    model(x).sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    compiled = [torch.compile(layer, backend="eager") for layer in model]
    execute(classics(4)[name], compiled, x).sum().backward()
    for p, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, gradient)
