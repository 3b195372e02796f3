"""`watch`, against hooks written out in the test, counts by hand, and autograd itself."""

from __future__ import annotations

import copy
import gc
import threading
import weakref

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from ckptlib.errors import CkptError
from ckptlib.models.mlp import MLP
from ckptlib.remember.hooks import watch
from ckptlib.tracing.allocation_recorder import recording

ROWS = 8


def no_hooks(*models: nn.Module) -> bool:
    modules = [m for model in models for m in model.modules()]
    top = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return top is None and not any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in modules)


def saved_bytes(model: nn.Module, run) -> int:
    """The test's own count: storages that autograd packs during `run`, the model's tensors left out."""
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    found: dict[int, Tensor] = {}  # the tensors are held, so that no address is used twice

    def pack(t: Tensor) -> Tensor:
        if t.untyped_storage().data_ptr() not in own:
            found[t.untyped_storage().data_ptr()] = t
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        run()
    return sum(t.untyped_storage().nbytes() for t in found.values())


def step(model: nn.Module, x: Tensor) -> None:
    out = model(x)
    out.backward(torch.ones_like(out))


def mlp_input() -> Tensor:
    return torch.randn(ROWS, 3000, requires_grad=True)


class Residual(nn.Module):
    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


class Checkpointed(nn.Module):
    def __init__(self, inner: nn.Module, **options):
        super().__init__()
        self.inner, self.options = inner, options

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.inner, x, **self.options)


# ---- what source 002 printed -----------------------------------------------------------------------------------------
def test_log_reproduces_the_fifteen_lines_of_source_002():
    model, printed = MLP("reentrant"), []
    for sequential in (model.block_1, model.block_2, model.block_3):
        for layer in sequential:
            layer.register_forward_hook(lambda m, args, out: printed.append((type(m).__name__, out.requires_grad)))
    with watch(model) as w:
        step(model, mlp_input())
    log = [(c.cls, c.requires_grad) for c in w.log if c.leaf and c.phase != "backward"]
    assert log == printed
    assert [cls for cls, _ in log] == ["Linear", "ReLU", "Linear"] * 5
    assert [flag for _, flag in log] == [False] * 6 + [True] * 9
    ran_again = [c.module for c in w.log if c.leaf and c.phase == "recompute"]
    assert ran_again == ["block_1.0", "block_1.1", "block_1.2", "block_2.0", "block_2.1", "block_2.2"]


def test_requires_grad_says_nothing_of_storage_under_a_nonreentrant_checkpoint():
    model = MLP("nonreentrant")
    with watch(model) as w:
        step(model, mlp_input())
    for name in ("block_1.0", "block_1.1", "block_1.2", "block_2.0", "block_2.1", "block_2.2"):
        assert w[name].requires_grad is True
        assert w[name].saved == 0


def test_addition_needs_gradients_and_stores_nothing():
    model = Residual(nn.Identity())
    with watch(model) as w:
        model(torch.randn(4, 4, requires_grad=True)).sum().backward()
    assert w["Residual"].requires_grad is True
    assert (w.saved, w["Residual"].backward) == (0, 1)


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("input_needs_grad", [True, False])
def test_frozen_layers_in_all_four_cases(frozen, input_needs_grad):
    layer = nn.Linear(16, 32)
    layer.requires_grad_(not frozen)
    with watch(layer) as w:
        layer(torch.randn(4, 16, requires_grad=input_needs_grad))
    assert w["Linear"].requires_grad is (not frozen or input_needs_grad)
    assert w.saved == (0 if frozen else 4 * 16 * 4)  # dx needs the weight alone


# ---- bytes -----------------------------------------------------------------------------------------------------------
def cnn() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten())


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: MLP(), (4, 3000)),
        (cnn, (2, 3, 12, 12)),
        (lambda: cnn().eval(), (2, 3, 12, 12)),
        (lambda: nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True), (2, 5, 32)),
        (lambda: nn.Sequential(Residual(nn.Linear(8, 8)), nn.GELU(), nn.Softmax(-1), nn.LayerNorm(8)), (3, 8)),
    ],
)
@pytest.mark.parametrize("needs_grad", [True, False])
def test_saved_equals_the_tests_own_saved_tensor_hooks(make, shape, needs_grad):
    model, x = make(), torch.randn(*shape, requires_grad=needs_grad)
    expected = saved_bytes(model, lambda: model(x))
    with watch(model) as w:
        out = model(x)
    assert w.saved == expected > 0
    assert sum(row.saved for row in w.rows) == expected
    del out


@pytest.mark.parametrize("kind", ["reentrant", "nonreentrant"])
def test_saved_and_recomputed_are_counted_apart(kind):
    model, x = MLP(kind), mlp_input()
    with watch(model) as w:
        step(model, x)
    relu, between = ROWS * 512 * 4, ROWS * 700 * 4
    assert w["MLP"].saved == x.nbytes  # the segment's input, which the checkpoint keeps
    assert w.saved == x.nbytes + between + relu  # and block_3's
    assert w["block_1.1"].recomputed == w["block_2.1"].recomputed == relu
    assert w["block_2.0"].recomputed == between
    assert w.recomputed == relu + between + relu
    assert w["block_3.1"].recomputed == 0


def test_the_last_tensor_before_early_stop_is_counted():
    inner = nn.Sequential(nn.Linear(8, 8), nn.Sigmoid())  # sigmoid's output: the last tensor saved, and it is new
    model = Checkpointed(inner, use_reentrant=False)
    with watch(model) as w:
        model(torch.randn(4, 8, requires_grad=True)).sum().backward()
    assert w["inner.1"].recomputed == 4 * 8 * 4
    assert w["inner.1"].cut == 1


def test_a_second_step_does_not_add_to_what_is_saved_at_once():
    model = MLP()
    batches = [mlp_input() for _ in range(3)]  # all alive, as in a data loader's list: autograd holds one at a time
    with watch(model) as w:
        step(model, batches[0])
        once = w.saved
        step(model, batches[1])
        step(model, batches[2])
    assert w.saved == once
    assert w["block_2"].forward == w["block_2"].backward == 3


def test_a_model_used_twice_in_one_graph_stores_twice():
    model, x = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), torch.randn(4, 8)
    with watch(model) as w:
        model(model(x)).sum().backward()
    assert (w["0"].forward, w["0"].backward) == (2, 2)
    assert w["0"].saved == x.nbytes  # its second input is tanh's output, and counted there
    assert w["1"].saved == 2 * 4 * 8 * 4


def test_what_other_hooks_leave_of_a_tensor_is_what_counts():
    model, x = nn.Sequential(nn.Linear(64, 64), nn.Sigmoid(), nn.Sigmoid()), torch.randn(4, 64)
    with watch(model) as plain:
        expected = torch.autograd.grad(model(x).sum(), model[0].weight)
    with watch(model) as w, saved_tensors_hooks(lambda t: t.bfloat16(), lambda t: t.float()):
        out = model(x)
    assert plain.saved == 3 * x.nbytes
    assert w["1"].saved == w["2"].saved == x.nbytes // 2
    grads = torch.autograd.grad(out.sum(), model[0].weight)
    torch.testing.assert_close(grads, expected, rtol=0.05, atol=0.05)
    with watch(model) as nothing, saved_tensors_hooks(lambda t: t.tolist(), torch.tensor):
        model(x).sum().backward()  # a list of numbers is no tensor
    assert nothing.saved == 0
    with save_on_cpu(), watch(model) as w:
        model(x).sum().backward()
    assert w.saved >= 3 * x.nbytes


def test_hooks_that_a_module_brings_along_work_too():
    class Halved(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sigmoid()

        def forward(self, x: Tensor) -> Tensor:
            with saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
                return self.inner(x)

    model, x = nn.Sequential(nn.Linear(8, 8), Halved()), torch.randn(4, 8)
    with watch(model) as w:
        model(x).sum().backward()
    assert (w["0"].saved, w["1.inner"].saved) == (x.nbytes, x.nbytes // 2)


def test_the_watch_itself_keeps_no_tensor_alive():
    model = nn.Sequential(nn.Linear(8, 8), nn.Sigmoid())
    with watch(model) as w:
        out = model(torch.randn(4, 8))
        alive = weakref.ref(out.untyped_storage())
        del out
        gc.collect()
        assert alive() is None
    assert w.saved == 2 * 4 * 8 * 4


def test_lazy_parameters_do_not_count_as_activations():
    model, x = nn.LazyLinear(16), torch.randn(4, 8, requires_grad=True)  # so that the weight is saved, too
    with watch(model) as w:
        model(x)
    assert w.saved == x.nbytes


# ---- calls and phases ------------------------------------------------------------------------------------------------
def test_early_stop_is_marked_and_can_be_turned_off():
    x = torch.randn(4, 8, requires_grad=True)
    counts = {}
    for early_stop in (True, False):
        model = Checkpointed(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)), use_reentrant=False)
        model.options["early_stop"] = early_stop
        with watch(model) as w:
            model(x).sum().backward()
        counts[early_stop] = [(w[name].recompute, w[name].cut) for name in ("inner", "inner.0", "inner.1", "inner.2")]
        cut = {c.module for c in w.log if c.cut}
        assert cut == ({"inner", "inner.2"} if early_stop else set())
    assert counts[True] == [(1, 1), (1, 0), (1, 0), (1, 1)]
    assert counts[False] == [(1, 0)] * 4


@pytest.mark.parametrize("reentrant", [True, False])
def test_nested_checkpoints_recompute_the_inner_one_twice(reentrant):
    inner = Checkpointed(nn.Sequential(nn.Linear(8, 8), nn.Tanh()), use_reentrant=reentrant)
    model = Checkpointed(nn.Sequential(inner, nn.Linear(8, 8)), use_reentrant=reentrant)
    calls = []
    inner.inner[0].register_forward_pre_hook(lambda m, args: calls.append(torch._C._current_graph_task_id() != -1))
    with watch(model) as w:
        model(torch.randn(4, 8, requires_grad=True)).sum().backward()
    row = w["inner.0.inner.0"]
    assert (row.forward, row.recompute, row.backward) == (calls.count(False), calls.count(True), 1) == (1, 2, 1)


def test_backward_twice_recomputes_twice():
    model = Checkpointed(nn.Sequential(nn.Linear(8, 8), nn.Tanh()), use_reentrant=False)
    with watch(model) as w:
        loss = model(torch.randn(4, 8, requires_grad=True)).sum()
        loss.backward(retain_graph=True)
        loss.backward()
    assert (w["inner.0"].forward, w["inner.0"].recompute, w["inner.0"].backward) == (1, 2, 2)


def test_several_outputs_are_one_backward():
    model = nn.LSTM(4, 4)
    with watch(model) as w:
        out, (h, c) = model(torch.randn(3, 2, 4))
        (out.sum() + h.sum() + c.sum()).backward()
    assert [call.phase for call in w.log] == ["forward", "backward"]


def test_a_shared_module_is_one_row_with_all_its_names():
    shared = nn.Linear(8, 8)
    model = nn.Sequential(shared, nn.Tanh(), shared)
    with watch(model) as w:
        model(torch.randn(4, 8)).sum().backward()
    assert w["0"] == w["2"]
    assert (w["2"].names, w["2"].forward, w["2"].backward) == (("0", "2"), 2, 2)
    assert "0 = 2" in str(w)
    assert [c.module for c in w.log if c.phase == "forward" and c.leaf] == ["0", "1", "0"]


def test_modules_that_never_run_have_a_row():
    model = nn.ModuleDict({"used": nn.Linear(4, 4), "unused": nn.Linear(4, 4)})
    with watch(model) as w:
        model["used"](torch.randn(2, 4)).sum().backward()
    assert (w["used"].forward, w["unused"].forward, w["unused"].requires_grad) == (1, 0, None)
    with pytest.raises(KeyError, match="'nowhere' is not one of the 3 modules"):
        w["nowhere"]


def test_without_gradients_nothing_is_saved():
    model = MLP()
    with watch(model) as w, torch.no_grad():
        model(torch.randn(2, 3000))
    assert (w.saved, w["block_1.0"].requires_grad, w["block_1.0"].backward) == (0, False, 0)


@pytest.mark.parametrize("kind", ["none", "reentrant", "nonreentrant"])
def test_gradients_are_those_without_a_watch(kind):
    torch.manual_seed(0)
    model, x = MLP(kind), mlp_input()
    step(model, x)
    expected = [p.grad.clone() for p in model.parameters()] + [x.grad.clone()]
    model.zero_grad()
    x.grad = None
    with watch(model):
        step(model, x)
    grads = [p.grad for p in model.parameters()] + [x.grad]
    assert all(torch.equal(a, b) for a, b in zip(grads, expected, strict=True))


def test_second_derivatives_are_those_without_a_watch():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)).double(), torch.randn(3, 4).double()
    x.requires_grad_()

    def penalty() -> Tensor:
        (dx,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        return torch.autograd.grad((dx**2).sum(), model[0].weight)[0]

    expected = penalty()
    with watch(model):
        assert torch.equal(penalty(), expected)


# ---- nothing is left behind ------------------------------------------------------------------------------------------
class Failing(nn.Module):
    def __init__(self, error: type[BaseException] | None):
        super().__init__()
        self.error = error

    def forward(self, x: Tensor) -> Tensor:
        if self.error:
            raise self.error("mine")
        return x


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("options", [None, {"use_reentrant": True}, {"use_reentrant": False}])
def test_the_users_own_error_comes_out_and_no_hook_stays(error, options):
    inner = nn.Sequential(nn.Linear(4, 4), Failing(error), nn.Linear(4, 4))
    model = nn.Sequential(nn.Linear(4, 4), Checkpointed(inner, **options) if options else inner)
    with pytest.raises(error, match="mine"), watch(model) as w:
        model(torch.randn(2, 4, requires_grad=True))
    assert no_hooks(model)
    failed = [c.module for c in w.log if c.cut]
    if error is ValueError:
        assert failed == ["Sequential", "1", "1.inner", "1.inner.1"] if options else ["Sequential", "1", "1.1"]
    with watch(model) as again:
        model[0](torch.randn(2, 4)).sum().backward()
    assert again["0"].forward == 1


def test_an_interrupt_that_is_caught_leaves_a_watch_that_still_works():
    model = nn.Sequential(nn.Linear(4, 4), Failing(KeyboardInterrupt))
    with watch(model) as w:
        with pytest.raises(KeyboardInterrupt):
            model(torch.randn(2, 4))
        model[1].error = None
        model(torch.randn(2, 4)).sum().backward()
    assert no_hooks(model)
    assert (w["0"].forward, w["0"].backward, w["0"].saved) == (2, 1, 2 * 4 * 4)


def test_an_error_in_recomputation_is_the_users_own():
    failing = Failing(None)
    model = Checkpointed(nn.Sequential(nn.Linear(4, 4), failing, nn.Linear(4, 4)), use_reentrant=False)
    with pytest.raises(ValueError, match="mine"), watch(model) as w:
        out = model(torch.randn(2, 4))
        failing.error = ValueError
        out.sum().backward()
    assert no_hooks(model)
    assert [(c.phase, c.module) for c in w.log if c.cut] == [("recompute", "inner"), ("recompute", "inner.1")]


def test_a_hook_that_raises_before_ours_is_harmless():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))

    def refuse(module, args):
        raise ValueError("mine")

    handle = model[1].register_forward_pre_hook(refuse)
    with pytest.raises(ValueError, match="mine"), watch(model) as w:
        model(torch.randn(2, 4))
    handle.remove()
    assert no_hooks(model)
    assert [c.module for c in w.log] == ["Sequential", "0"]


def test_a_forward_inside_an_except_block_is_not_cut():
    model = nn.Linear(4, 4)
    with watch(model) as w:
        try:
            raise ValueError
        except ValueError:
            model(torch.randn(2, 4))
    assert not w.log[0].cut


def test_a_graph_that_outlives_the_watch_runs_and_is_not_logged():
    model = MLP("nonreentrant")
    with watch(model) as w:
        out = model(mlp_input())
    before = len(w.log)
    out.sum().backward()
    assert len(w.log) == before
    assert all(p.grad is not None for p in model.parameters())


def test_a_model_copied_while_watched_is_a_stranger():
    model = nn.Sequential(nn.Linear(4, 4))
    with watch(model) as w:
        copy.deepcopy(model)(torch.randn(2, 4)).sum().backward()
    assert w.log == []


# ---- several at once -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["none", "reentrant", "nonreentrant"])
def test_two_watches_on_one_model_see_the_same_as_one(kind):
    model = MLP(kind)
    with watch(model) as alone:
        step(model, mlp_input())
    with watch(model) as outer, watch(model) as inner:
        step(model, mlp_input())
    assert outer.rows == inner.rows == alone.rows
    assert outer.log == inner.log == alone.log
    assert no_hooks(model)


def test_a_watch_on_a_part_sees_the_part():
    model = MLP()
    with watch(model.block_2) as part, watch(model) as whole:
        step(model, mlp_input())
    assert part.saved == sum(whole[f"block_2{end}"].saved for end in ("", ".0", ".1", ".2"))
    assert [c.module for c in part.log if c.phase == "forward"] == ["Sequential", "0", "1", "2"]


def test_watches_on_two_models():
    one, two = nn.Linear(8, 8), nn.Linear(8, 4)
    with watch(one) as a, watch(two) as b:
        two(one(torch.randn(2, 8))).sum().backward()
    assert (a.saved, b.saved) == (2 * 8 * 4, 2 * 8 * 4)
    assert (len(a.log), len(b.log)) == (2, 2)


def test_threads_share_one_log_and_do_not_mix_their_modules():
    model = nn.Sequential(nn.Linear(8, 8), nn.Sigmoid())
    both, outputs = threading.Barrier(4), []
    model[0].register_forward_pre_hook(lambda m, args: (both.wait(20), None)[1])  # all four are inside at once

    def work() -> None:
        outputs.append(model(torch.randn(4, 8)))
        assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None

    with watch(model) as w:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(outputs) == 4
        sum(out.sum() for out in outputs).backward()
    assert [(row.forward, row.backward) for row in w.rows] == [(4, 4)] * 3
    assert w["0"].saved == w["1"].saved == 4 * 4 * 8 * 4


def test_inside_a_trace():
    model = MLP("nonreentrant")
    with recording() as recorder, watch(model) as w:
        step(model, mlp_input())
    assert w["block_1.0"].recompute == 1
    assert {op.phase for op in recorder.trace.ops} == {"forward", "recompute", "backward"}


# ---- input and output ------------------------------------------------------------------------------------------------
def test_a_table_in_text_and_html():
    model = MLP("nonreentrant")
    with watch(model) as w:
        step(model, mlp_input())
    text = str(w)
    assert text.splitlines()[0] == f"{w.saved:,} B saved in forward, {w.recomputed:,} B at once in recompute"
    line = next(line for line in text.splitlines() if line.startswith("block_2.2"))
    assert line.split() == ["block_2.2", "Linear", "1", "1", "(1", "cut)", "1", "True", "0", "0"]
    assert ">block_2.2</td>" in w._repr_html_() and ">Linear</td>" in w._repr_html_()


@pytest.mark.parametrize(
    ("wrong", "hint"), [(MLP, "class MLP: was it not called"), (len, "builtin"), (None, "NoneType")]
)
def test_what_is_not_a_model_is_refused(wrong, hint):
    with pytest.raises(CkptError, match=hint), watch(wrong):
        pass
