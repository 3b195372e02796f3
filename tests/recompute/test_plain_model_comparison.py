"""Does the checker find each way in which a checkpointed model stops being the same model, and nothing else?"""

import copy
from dataclasses import dataclass

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.utils.checkpoint as theirs
from torch import nn
from torch.distributed.fsdp import fully_shard

import ckptlib as ck
from ckptlib.models.mlp import MLP
from ckptlib.recompute.checkpoint import checkpoint
from ckptlib.recompute.plain_model_comparison import equivalent


def net(*extra):
    return nn.Sequential(nn.Linear(4, 6), nn.GELU(), *extra, nn.Linear(6, 4))


def wrap(**options):
    options = {"use_reentrant": False} | options
    return lambda m, x: checkpoint(m, x, **options)


def test_a_model_equals_itself_and_is_left_alone():
    model, x = net(nn.Dropout()), torch.randn(3, 4, requires_grad=True)
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    found = equivalent(model, model, x)
    assert found and {f.verdict for f in found.comparisons} == {"equal"}
    assert torch.equal(torch.get_rng_state(), state) and x.grad is None
    assert all(p.grad is None and torch.equal(p, before[n]) for n, p in model.named_parameters())
    assert str(found).startswith("the same results")


@pytest.mark.parametrize("way", [checkpoint, theirs.checkpoint])
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpoint_is_equivalent_and_its_modules_ran_again(way, use_reentrant):
    x = torch.randn(3, 4, requires_grad=True)
    found = equivalent(net(nn.Dropout()), lambda m, x: way(m, x, use_reentrant=use_reentrant), x)
    assert found
    again = {f.name: f.wrapped for f in found.comparisons if f.verdict == "again"}
    assert again["0"] == "2" and again["Sequential"] == ("2" if use_reentrant else "2 (1 cut)")


def test_two_models_of_one_class_with_other_weights_are_compared_with_the_same():
    assert equivalent(MLP(), MLP("nonreentrant"), torch.randn(2, 3000))


def test_other_parameters_are_an_error():
    with pytest.raises(ck.CkptError, match="do not have the same parameters: 4 and 2"):
        equivalent(net(), nn.Linear(4, 6), torch.randn(3, 4))


@dataclass
class Output:
    y: torch.Tensor
    loss: float


class InDataclass(nn.Linear):
    def forward(self, x):
        return Output(super().forward(x), 1.5)


def test_what_a_dataclass_holds_is_compared():
    x = torch.randn(3, 4)
    assert equivalent(InDataclass(4, 4), lambda m, x: checkpoint(m, x, use_reentrant=False), x)
    found = equivalent(InDataclass(4, 4), lambda m, x: Output(m(x).y.detach() * m.weight.sum(), 1.5), x)
    assert {f.what for f in found.differences} == {"output", "gradient"}


def test_sparse_gradients_are_compared():
    model, tokens = nn.Sequential(nn.Embedding(9, 4, sparse=True), nn.Linear(4, 4)), torch.tensor([1, 2, 2])
    assert equivalent(model, wrap(), tokens)
    found = equivalent(model, lambda m, x: m[1](2 * m[0](x)) - m[1](m[0](x)) + m[1].bias, tokens)
    assert not found.differences  # the same function, written another way
    found = equivalent(model, lambda m, x: m[1](m[0](x).detach() + 0 * m[0].weight.sum()), tokens)
    assert "0.weight" in [f.name for f in found.differences]


def test_a_model_that_returns_no_tensor_is_an_error():
    class Silent(nn.Linear):
        def forward(self, x):
            return "done"

    with pytest.raises(ck.CkptError, match=r"no tensor was found in what the model returns \(str\)"):
        equivalent(Silent(4, 4), wrap(), torch.randn(3, 4))


def only(found, what):
    assert {f.what for f in found.differences} == {what}, found
    return [f.name for f in found.differences]


def test_batchnorm_is_updated_twice():
    model = net(nn.BatchNorm1d(6))
    found = equivalent(model, wrap(early_stop=False), torch.randn(3, 4))
    assert only(found, "buffer") == ["2.running_mean", "2.running_var", "2.num_batches_tracked"]
    count = found.differences[-1]
    assert (count.plain, count.wrapped) == ("1", "2") and "second run" in count.why


def test_a_mask_drawn_again_changes_gradients_and_the_rng():
    found = equivalent(net(nn.Dropout()), wrap(preserve_rng_state=False), torch.randn(50, 4, requires_grad=True))
    assert {f.what for f in found.differences} == {"gradient", "rng"}
    assert all("preserve_rng_state=True" in f.why for f in found.differences)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True")
def test_reentrant_with_no_input_that_needs_a_gradient_trains_nothing():
    found = equivalent(net(), wrap(use_reentrant=True), torch.randn(3, 4))
    assert {f.what for f in found.differences} == {"output", "gradient"}
    assert all("use_reentrant=False" in f.why for f in found.differences)
    assert len(found.differences) == 1 + 4


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.calls = nn.Linear(4, 4), 0

    def forward(self, x):
        self.calls += 1
        return (self.linear(x) * self.calls).sin()


def test_a_counter_changes_the_gradients_alone():
    model = Counting()
    found = equivalent(model, wrap(), torch.randn(3, 4, requires_grad=True))
    assert only(found, "gradient") == ["input 0", "linear.weight", "linear.bias"]
    assert "determinism_check='values'" in found.differences[0].why
    assert model.calls == 0


def test_another_function_is_another_output_and_several_inputs_are_a_tuple():
    found = equivalent(nn.Bilinear(4, 4, 4), lambda m, a, b: 2 * m(a, b), (torch.randn(3, 4), torch.randn(3, 4)))
    assert [f.what for f in found.differences] == ["output", "gradient", "gradient"]


def test_rounding_is_shown_but_is_no_difference():
    def reordered(m, x):
        return m(x) * 3 / 3

    found = equivalent(net(), reordered, torch.randn(30, 4))
    assert found and "rounding" in str(found)


def test_the_table_renders_as_text_and_html():
    found = equivalent(net(nn.BatchNorm1d(6)), wrap(early_stop=False), torch.randn(3, 4))
    assert "num_batches_tracked" in str(found) and "<table>" in found._repr_html_()


# ---- checkpoints written by hand, and what is wrong with them -------------------------------------------------------
class Hand(torch.autograd.Function):
    """A checkpoint that forgets random numbers and autocast."""

    @staticmethod
    def forward(ctx, fn, x):
        ctx.fn = fn
        ctx.save_for_backward(x)
        with torch.no_grad():
            return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        torch.autograd.backward(y, dy.to(y.dtype))
        return None, x.grad


class ForgetsWeights(Hand):
    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            return None, *torch.autograd.grad(ctx.fn(x), x, dy)


class Twice(Hand):
    @staticmethod
    def backward(ctx, dy):
        Hand.backward(ctx, dy)
        return Hand.backward(ctx, dy)


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net()

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.net(x)


def autocast_by_hand(m, x):
    with torch.autocast("cpu", torch.bfloat16):
        return Hand.apply(m.net, x)


@pytest.mark.parametrize(
    ("model", "wrapped", "what", "why"),
    [
        (net(), lambda m, x: ForgetsWeights.apply(m, x), "gradient", "autograd.grad"),
        (net(), lambda m, x: Twice.apply(m, x), "gradient", "exactly twice"),
        (net(nn.Dropout()), lambda m, x: Hand.apply(m, x), "gradient", "other random numbers"),
        (Autocast(), autocast_by_hand, "gradient", "Autocast"),
        (net(), lambda m, x: m(x.detach()), "gradient", "no gradient arrived"),
        (net(), lambda m, x: m(x).detach(), "output", "no gradient arrived"),
        (net(), lambda m, x: m(x) * 2, "gradient", "follows from the outputs"),
        (net(), lambda m, x: (m(x), m(x)), "output", "already differs"),
        (net(), lambda m, x: m(x).double(), "output", "already differs"),
        (net(), lambda m, x: (torch.rand(1), m(x))[1], "rng", "not put back"),
    ],
)
def test_a_wrong_wrapper_is_told_why(model, wrapped, what, why):
    torch.manual_seed(0)
    found = equivalent(model, wrapped, torch.randn(64, 4, requires_grad=True))
    assert not found and any(f.what == what and why in f.why for f in found.differences), found


# ---- other inputs and other models ----------------------------------------------------------------------------------
class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.drop = nn.Linear(4, 4), nn.Dropout(0.5)

    def forward(self, *, x, scale):
        return {"y": self.drop(self.fc(x)) * scale}


def test_inputs_may_be_named():
    model, x = Named(), {"x": torch.randn(3, 4, requires_grad=True), "scale": 2.0}
    right = ck.equivalent(model, lambda m, **x: ck.checkpoint(m, use_reentrant=False, **x), x)
    assert right and {f.name for f in right.comparisons if f.what == "gradient"} >= {"input 0", "fc.weight"}
    random = ck.equivalent(
        model, lambda m, **x: ck.checkpoint(m, use_reentrant=False, preserve_rng_state=False, **x), x
    )
    assert {f.what for f in random.differences} == {"gradient", "rng"}


class Blocks(nn.Module):
    """Checkpointed with these options, if there are any. Its buffer counts its forwards."""

    def __init__(self, **options):
        super().__init__()
        self.options = options
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 4)) for _ in range(2))
        self.register_buffer("forwards", torch.zeros(()))

    def forward(self, x):
        self.forwards += 1
        for block in self.blocks:
            x = ck.checkpoint(block, x, **self.options) if self.options else block(x)
        return x


def compare_sharded(rank, address):
    dist.init_process_group("gloo", init_method=f"file://{address}", rank=rank, world_size=2)

    def sharded(**options):
        torch.manual_seed(0)
        model = Blocks(**options)
        for block in model.blocks:
            fully_shard(block)
        return fully_shard(model)

    model, x = sharded(), torch.randn(6, 4)
    model(x).sum().backward()
    values = [p.detach().to_local().clone() for p in model.parameters()]
    grads = [p.grad for p in model.parameters()]
    assert ck.equivalent(model, sharded(use_reentrant=False), x)
    wrong = ck.equivalent(model, sharded(use_reentrant=False, preserve_rng_state=False), x)
    assert "gradient" in {f.what for f in wrong.differences}
    for p, own, grad in zip(model.parameters(), values, grads, strict=True):
        assert torch.equal(p.detach().to_local(), own) and p.grad is grad
    assert model.forwards == 1
    dist.destroy_process_group()


@pytest.mark.slow
def test_models_that_fsdp_has_sharded_are_compared_and_left_as_they_were(tmp_path):
    mp.spawn(compare_sharded, (str(tmp_path / "meeting"),), nprocs=2)
