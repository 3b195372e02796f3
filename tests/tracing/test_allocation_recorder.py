"""The trace against other people's books: the CPU allocator's own record, torch's MemTracker, and hand counts."""

from __future__ import annotations

import gc
import threading
import warnings

import pytest
import torch
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker
from torch.nn.modules import module as module_hooks
from torch.optim import optimizer as optimizer_hooks
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils.checkpoint import checkpoint

import ckptlib as ck
from ckptlib.errors import CkptError
from ckptlib.tracing.allocation_recorder import recording
from ckptlib.tracing.cpu_allocator import marked, profiled, reconcile
from ckptlib.tracing.events import CATEGORIES, PHASES


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3)
        )
        self.head = nn.Linear(16 * 6 * 6, 10)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


MODELS = {
    "mlp": lambda: (nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 10)), (8, 30)),
    "cnn": lambda: (CNN(), (4, 3, 16, 16)),
    "transformer": lambda: (nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), (2, 7, 32)),
}


def train(name: str, steps: int = 2) -> None:
    model, shape = MODELS[name]()
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(shape)
    for _ in range(steps):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def live_after_each_op(trace) -> dict[int, int]:
    live, after = 0, {}
    for event in trace.events:
        if event.kind in ("alloc", "free"):
            live += trace.storages[event.storage].nbytes * (1 if event.kind == "alloc" else -1)
        if event.op >= 0:
            after[event.op] = live
    return after


@pytest.mark.parametrize("name", MODELS)
def test_live_bytes_equal_the_allocators_own_record(name):
    with profiled() as readings, recording(around=marked) as recorder:
        train(name)
    account = reconcile(readings, recorder.trace)
    assert account.live_after == live_after_each_op(recorder.trace)
    assert len(account.live_after) > 100


LAYER, ROWS = nn.Linear(4, 4), torch.randn(3, 4)
TRANSFORMS = {
    "grad": lambda: torch.func.grad(lambda p: torch.func.functional_call(LAYER, p, ROWS).sum())(
        dict(LAYER.named_parameters())
    ),
    "vmap": lambda: torch.vmap(LAYER)(ROWS),
    "jacrev": lambda: torch.func.jacrev(LAYER)(ROWS),
    "per-sample": lambda: torch.vmap(torch.func.grad(lambda x: LAYER(x).sum()))(ROWS),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_module_inside_a_function_transform(name):
    with profiled() as readings, recording(around=marked) as recorder:
        TRANSFORMS[name]()
    assert reconcile(readings, recorder.trace).live_after == live_after_each_op(recorder.trace)
    named = {storage.name for storage in recorder.trace.storages if storage.category == "parameter"}
    assert named == {"Linear.weight", "Linear.bias"}


def test_temporaries_inside_kernels_are_listed():
    """A convolution on the CPU unfolds its input inside the kernel: no op shows it, the allocator does."""
    result = ck.measure(lambda: train("cnn"), "cpu", hidden=True)
    convolutions = [h for h in result.hidden if h.op == "aten.convolution_backward.default"]
    assert max(h.nbytes for h in convolutions) >= 1000
    assert "inside its kernel" in str(result)


@pytest.mark.parametrize("name", MODELS)
def test_fake_run_has_the_real_runs_bytes(name):
    def totals(fake):
        with ck.trace(fake=fake) as trace:
            train(name)
        return [
            (e.kind, trace.storages[e.storage].nbytes, e.phase) for e in trace.events if e.kind in ("alloc", "free")
        ]

    assert totals(fake=True) == totals(fake=False)


@pytest.mark.parametrize("name", MODELS)
def test_categories_equal_memtrackers(name):
    """At every quiet moment: after the model, the forward, the backward, the optimizer's step, zero_grad."""
    theirs, labels = (
        [],
        {"Parameter": "parameter", "Buffer": "buffer", "Gradient": "gradient", "Optstate": "optimizer state"},
    )
    model, shape = MODELS[name]()
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(shape)

    def program(moment):
        loss = model(x).square().mean()
        moment("forward")
        loss.backward()
        del loss
        moment("backward")
        optimizer.step()
        moment("step")
        optimizer.zero_grad()
        moment("zero_grad")

    tracker = MemTracker()
    tracker.track_external(model, optimizer, x)  # or a view of x would count as an activation

    def snapshot(_):
        counts = tracker.get_tracker_snapshot()[torch.device("cpu")]
        found = {ours: counts.get(kind, 0) for kind, ours in labels.items()}
        found["activation"] = counts.get("Activation", 0)
        theirs.append(found)

    with warnings.catch_warnings(), tracker:
        warnings.simplefilter("ignore")
        program(snapshot)
    gc.collect()
    optimizer.state.clear()  # so that our run, too, starts without it

    ours = []
    with ck.trace() as trace:
        program(ck.mark)
    live = dict.fromkeys(CATEGORIES, 0)
    for index in trace.before:
        live[trace.storages[index].category] += trace.storages[index].nbytes
    for event in trace.events:
        if event.kind == "mark":
            ours.append({category: live[category] for category in theirs[0]})
        elif event.kind in ("alloc", "free"):
            storage = trace.storages[event.storage]
            live[storage.category] += storage.nbytes * (1 if event.kind == "alloc" else -1)
    assert ours == theirs


def test_tracing_does_not_change_what_is_allocated():
    """Autograd's engine adds gradients in place, but not under a dispatch mode: the trace makes up for it."""

    def step():
        a, b = nn.Linear(64, 64), nn.Linear(64, 64)
        x = torch.randn(512, 64)
        for _ in range(2):  # residual connections, and weights that are used twice
            x = x + a(x)
            x = x + b(x)
        x.square().sum().backward()

    with profiled() as readings:
        step()
    untraced = [r.nbytes for r in readings if abs(r.nbytes) >= 64 * 64 * 4]
    traced = [c.nbytes for c in ck.measure(step).timeline.changes if abs(c.nbytes) >= 64 * 64 * 4]
    assert traced == untraced


def test_phases_of_a_checkpointed_step():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    for reentrant in (True, False):
        with ck.trace() as trace:
            x = torch.randn(2, 4, requires_grad=True)
            checkpoint(model, x, use_reentrant=reentrant).sum().backward()
            optimizer.step()
        seen = [(op.phase, op.name) for op in trace.ops]
        assert [p for p, name in seen if name == "aten.tanh.default"] == ["forward", "recompute"]
        assert {p for p, name in seen if name == "aten.tanh_backward.default"} == {"backward"}
        assert {op.phase for op in trace.ops} == set(PHASES)
        assert {op.module for op in trace.ops if op.name == "aten.tanh_backward.default"} == {"1"}


def test_double_backward_is_not_recomputation():
    x = torch.randn(5, requires_grad=True)
    with ck.trace() as trace:
        (g,) = torch.autograd.grad(x.sin().sum(), x, create_graph=True)
        g.sum().backward()
    assert {op.phase for op in trace.ops} == {"forward", "backward"}


def test_recomputation_without_modules():
    x = torch.randn(5, requires_grad=True)
    with ck.trace() as trace:
        checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False).sum().backward()
    assert [op.phase for op in trace.ops if op.name == "aten.sin.default"] == ["forward", "recompute"]


def test_views_and_aliases_share_a_storage():
    with ck.trace() as trace:
        x = torch.zeros(10, 10)
        y = x.t()[1:].reshape(-1)  # noqa: F841
        z = x.add_(1).detach()  # noqa: F841
    assert [trace.storages[e.storage].nbytes for e in trace.events if e.kind == "alloc"] == [400, 360]


def test_resize_is_a_free_and_an_allocation():
    with ck.trace() as trace:
        x = torch.zeros(10)
        x.resize_(1000)
        x.add_(1)
    sizes = [(e.kind, trace.storages[e.storage].nbytes) for e in trace.events if e.kind in ("alloc", "free")]
    assert sizes == [("alloc", 40), ("free", 40), ("alloc", 4000)]


def test_frozen_parameters_tied_weights_and_buffers():
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.BatchNorm1d(6))
    model[1].weight = model[0].weight
    model[0].bias.requires_grad_(False)
    with ck.trace() as trace:
        model(torch.randn(3, 6)).sum().backward()
    by_category = {}
    for storage in trace.storages:
        by_category.setdefault(storage.category, []).append(storage.name)
    assert sorted(by_category["parameter"]) == ["0.bias", "0.weight", "1.bias", "2.bias", "2.weight"]
    assert sorted(by_category["gradient"]) == ["0.weight", "1.bias", "2.bias", "2.weight"]
    assert len(by_category["buffer"]) == 3


def test_inputs_stay_inputs_in_every_micro_batch():
    model = nn.Linear(4, 4)
    with ck.trace() as trace:
        for _ in range(3):
            model(torch.randn(2, 4)).sum().backward()
    assert [s.category for s in trace.storages if s.shape == (2, 4)].count("input") == 3


def test_parameters_without_a_module():
    p, q = nn.Parameter(torch.randn(100)), torch.randn(50, requires_grad=True)
    optimizer = torch.optim.SGD([p, q], lr=0.1)
    with ck.trace() as trace:
        made = nn.Parameter(torch.randn(30))
        (p.sum() + q.sum() + made.exp().sum()).backward()
        optimizer.step()
    found = {s.shape: s.category for s in trace.storages if s.category != "temporary" and s.op is None}
    assert found[(100,)] == found[(50,)] == "parameter"
    assert [s.category for s in trace.storages if s.shape == (30,)][0] == "parameter"


def test_lazy_modules():
    model = nn.Sequential(nn.LazyLinear(8), nn.ReLU())
    with ck.trace() as trace:
        model(torch.randn(4, 6)).sum().backward()
    assert {s.shape for s in trace.storages if s.category == "gradient"} == {(8, 6), (1, 8)}


def test_two_models_have_names_of_their_own():
    with ck.trace() as trace:
        g, d = (nn.Sequential(nn.Linear(4, 4)) for _ in range(2))
        d(g(torch.randn(2, 4))).sum().backward()
    names = {s.name for s in trace.storages if s.category == "parameter"}
    assert names == {"0.weight", "0.bias", "Sequential_2.0.weight", "Sequential_2.0.bias"}


def test_models_are_placed_in_the_order_of_their_calls():
    a, b, c = (nn.Linear(4, 4, bias=False) for _ in range(3))
    with ck.trace() as trace:
        c(b(a(torch.randn(2, 4))))
    assert [trace.storages[i].name for i in trace.before] == ["Linear.weight", "Linear_2.weight", "Linear_3.weight"]


def test_a_step_inside_backward_is_the_optimizers():
    p = nn.Parameter(torch.randn(10))
    optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9)
    p.register_post_accumulate_grad_hook(lambda _: optimizer.step())
    with ck.trace() as trace:
        p.exp().sum().backward()
    assert [op.phase for op in trace.ops][-1] == "optimizer"
    assert "backward" in {op.phase for op in trace.ops}


def test_after_a_step_that_raised_the_phase_is_right():
    class Broken(torch.optim.SGD):
        def step(self, closure=None):
            raise ArithmeticError

    optimizer = Broken([nn.Parameter(torch.ones(1))], lr=0.1)
    with ck.trace() as trace:
        with pytest.raises(ArithmeticError):
            optimizer.step()
        torch.ones(3) + 1
    assert {op.phase for op in trace.ops} == {"forward"}


def test_storage_resized_without_an_op():
    x = torch.randn(100)
    with ck.trace() as trace:
        for _ in range(3):
            x.untyped_storage().resize_(0)
            x.untyped_storage().resize_(400)
            x.add_(1)
    assert sum(trace.storages[i].nbytes for i in trace.before) == 400


# ---- bad input and clean-up ---------------------------------------------------------------------------------------


def registered_hooks() -> tuple:
    return (
        len(module_hooks._global_forward_hooks),
        len(module_hooks._global_forward_pre_hooks),
        len(optimizer_hooks._global_optimizer_pre_hooks),
        len(optimizer_hooks._global_optimizer_post_hooks),
        len(_get_current_dispatch_mode_stack()),
    )


@pytest.mark.parametrize("fake", [False, True])
def test_an_error_half_way_is_the_users_own_and_leaves_nothing(fake):
    before = registered_hooks()
    model = None if fake else nn.Linear(3, 3)

    def step():
        net = model or nn.Linear(3, 3)
        net(torch.randn(2, 3)).sum().backward()
        raise KeyError("the user's own")

    with pytest.raises(KeyError, match="the user's own"), ck.trace(fake=fake):
        step()
    assert registered_hooks() == before
    assert model is None or not model.weight._post_accumulate_grad_hooks


def test_an_error_inside_a_module_keeps_module_paths_right():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(Fails()))
    with ck.trace() as trace:
        with pytest.raises(ValueError, match="no"):
            model(torch.randn(2, 3))
        torch.zeros(5)
    assert trace.ops[-1].module == ""


def test_nested_traces_are_refused():
    with ck.trace(), pytest.raises(CkptError, match="already running"), ck.trace():
        pass
    with ck.trace():  # and the refusal left nothing behind
        pass


def test_threads_have_traces_of_their_own():
    sizes = {}

    def work(n):
        with ck.trace() as trace:
            for _ in range(20):
                nn.Linear(n, n)(torch.ones(1, n)).sum().backward()
        sizes[n] = {s.nbytes for s in trace.storages if s.category == "gradient"}

    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sizes == {n: {4 * n, 4 * n * n} for n in (3, 5, 7)}


def test_backward_twice_raises_torchs_own_error():
    x = torch.randn(3, requires_grad=True)
    with ck.trace(), pytest.raises(RuntimeError, match="second time"):
        loss = x.exp().sum()
        loss.backward()
        loss.backward()


def test_a_real_model_in_a_fake_run_is_refused_and_unharmed():
    model = nn.Linear(3, 3)
    with (
        pytest.raises(ck.CkptError, match="real tensor of shape \\(3, 3\\).*in your function, not above"),
        ck.trace(fake=True),
    ):
        model(torch.randn(2, 3)).sum().backward()
    assert model.weight.grad is None


def test_fake_models_can_change_dtype():
    with ck.trace(fake=True):
        nn.Sequential(nn.Embedding(8, 8), nn.LayerNorm(8)).to(torch.float32)  # no change at all is the harder case
    with ck.trace(fake=True) as trace:
        nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)).to(torch.bfloat16)(torch.ones(2, 8, dtype=torch.bfloat16))
    assert {s.nbytes for s in trace.storages if s.name == "0.weight"} == {128}


def test_mark_outside_a_trace_does_nothing():
    ck.mark("nobody listens")
