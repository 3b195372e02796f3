"""Does lint find each of the twelve pitfalls where it is, and none where there is none?"""

import contextlib
import functools

import pytest
import torch
import torch.utils.checkpoint
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

import ckptlib as ck
from ckptlib.errors import CkptError
from ckptlib.recompute.checkpoint import checkpoint as ours
from ckptlib.recompute.lint import lint
from ckptlib.recompute.pitfalls import PITFALLS, Pitfall
from ckptlib.recompute.selective import PolicyError, by_module

theirs = torch.utils.checkpoint.checkpoint  # a name of its own, as most programs have
WAYS = pytest.mark.parametrize("checkpoint", [ours, theirs], ids=["ours", "torch's"])
pytestmark = pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True")


def net(*extra):
    return nn.Sequential(nn.Linear(8, 8), nn.GELU(), *extra, nn.Linear(8, 8))


def run(checkpoint, model, x=None, segments=3, **options):
    """A step in which `model` is used for several checkpoints, one after another."""
    options = {"use_reentrant": False} | options

    def step():
        y = torch.randn(5, 8, requires_grad=True) if x is None else x
        for _ in range(segments):
            y = checkpoint(model, y, **options)
        if y.requires_grad:
            y.sum().backward()

    return step


@WAYS
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_good_model_has_no_findings(checkpoint, use_reentrant):
    model = net(nn.Dropout())
    found = lint(model, run(checkpoint, model, use_reentrant=use_reentrant))
    assert found.numbers == set(), found
    assert str(found).startswith("no pitfall found")


@WAYS
def test_1_reentrant_and_no_input_requires_a_gradient(checkpoint):
    model = net()
    assert 1 in lint(model, run(checkpoint, model, x=torch.randn(5, 8), use_reentrant=True)).numbers


@WAYS
def test_1_is_not_found_in_an_evaluation_without_gradients(checkpoint):
    model = net()
    trains = run(checkpoint, model, use_reentrant=True)

    def step():
        with torch.no_grad():  # a teacher's targets
            checkpoint(model, torch.randn(5, 8), use_reentrant=True)
        trains()

    assert lint(model, step).numbers == set()


@WAYS
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_2_dropout_without_the_rngs_state(checkpoint, use_reentrant):
    model = net(nn.Dropout())
    found = lint(model, run(checkpoint, model, preserve_rng_state=False, use_reentrant=use_reentrant))
    assert found.numbers == {2}, found
    model = net()  # draws nothing, so it does no harm
    assert lint(model, run(checkpoint, model, preserve_rng_state=False, use_reentrant=use_reentrant)).numbers == set()


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.calls = nn.Linear(8, 8), 0

    def forward(self, x):
        self.calls += 1
        return (self.linear(x) * self.calls).sin()


@WAYS
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_3_a_counter(checkpoint, use_reentrant):
    model = Counting()
    found = lint(model, run(checkpoint, model, use_reentrant=use_reentrant))
    assert found.numbers == {3}, found


@WAYS
def test_3_says_what_was_compared(checkpoint):
    model = Counting()
    found = lint(step=run(checkpoint, model))
    assert "have different values than during the forward pass." in found.findings[0].found

    def grows(x, calls=[1]):  # noqa: B006 a counter, on purpose
        calls[0] += 1
        return x.expand(calls[0], 8).sin()

    found = lint(step=run(checkpoint, grows, x=torch.randn(1, 8, requires_grad=True), segments=1))
    assert found.numbers == {3} and "have different metadata than" in found.findings[0].found


@WAYS
def test_4_batchnorm(checkpoint):
    model = net(nn.BatchNorm1d(8))
    found = lint(model, run(checkpoint, model))
    assert [(f.number, f.where) for f in found.findings] == [(4, "2")]
    model.eval()
    assert lint(model, run(checkpoint, model)).numbers == set()


@WAYS
@pytest.mark.parametrize(("norm", "where"), [(nn.BatchNorm1d, "F.batch_norm"), (nn.InstanceNorm1d, "F.instance_norm")])
def test_4_without_a_model_and_the_gradients_are_there(checkpoint, norm, where):
    x = torch.randn(4, 5, 8, requires_grad=True)
    model = nn.Sequential(nn.Linear(8, 8), norm(5, track_running_stats=True), nn.Tanh())
    found = lint(step=run(checkpoint, model, x))
    assert found.numbers == {4} and found.error is None, found
    assert [f.where for f in found.findings] == [where]
    assert all(p.grad is not None for p in model.parameters())
    assert lint(model, run(checkpoint, model, x)).numbers == {4}  # InstanceNorm saves copies of its buffers
    model.eval()
    assert lint(step=run(checkpoint, model, x)).numbers == set()


@WAYS
def test_3_is_still_found_beside_batchnorm(checkpoint):
    model = nn.Sequential(Counting(), nn.BatchNorm1d(8))
    assert lint(step=run(checkpoint, model)).numbers == {3, 4}


def test_functions_that_are_followed_are_torchs_own_again_and_compile_whole():
    own = nn.functional.batch_norm, nn.functional.instance_norm, nn.functional.rrelu
    model = torch.compile(net(nn.BatchNorm1d(8)), backend="eager", fullgraph=True)
    assert 12 in lint(step=run(ours, model, segments=1)).numbers
    assert own == (nn.functional.batch_norm, nn.functional.instance_norm, nn.functional.rrelu)


@WAYS
@pytest.mark.parametrize("inplace", [False, True])
def test_3_rrelu_is_an_alarm_where_its_gradient_is_wrong(checkpoint, inplace):
    """It saves its noise before it is drawn. At the end of a segment, early stop comes before the drawing."""
    model, x = nn.Sequential(nn.Linear(8, 8), nn.RReLU(inplace=inplace)), torch.randn(5, 8, requires_grad=True)

    def gradient(way):
        torch.manual_seed(0)
        return torch.autograd.grad(way(model, x).square().sum(), x)[0]

    expected = gradient(lambda model, x: model(x))
    with unwritten_is_nan():
        for early_stop in (True, False):
            way = functools.partial(checkpoint, use_reentrant=False, early_stop=early_stop)
            right = torch.equal(gradient(way), expected)
            assert right is (inplace or not early_stop)
            found = lint(step=run(checkpoint, model, early_stop=early_stop))
            assert found.numbers == (set() if right else {3}), found


@contextlib.contextmanager
def unwritten_is_nan():
    """What torch.empty leaves is chance; in this block it is NaN."""
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@WAYS
def test_5_hooks(checkpoint):
    model = net()
    model[0].register_forward_hook(lambda *args: None)
    found = lint(model, run(checkpoint, model))
    assert [(f.number, f.where) for f in found.findings] == [(5, "0")]
    assert len(model[0]._forward_hooks) == 1  # lint's own are gone


@WAYS
def test_6_one_segment_around_everything(checkpoint):
    model = net(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8), nn.GELU())
    found = lint(model, run(checkpoint, model, segments=1))
    assert found.numbers == {6}, found


@pytest.mark.parametrize(("segments", "found"), [(5, True), (4, False), (2, False), (8, False)])
def test_6_eight_layers_in_five_segments(segments, found):
    layers = nn.Sequential(*(nn.Linear(8, 8) for _ in range(8)))
    x = torch.randn(5, 8, requires_grad=True)

    def step():
        torch.utils.checkpoint.checkpoint_sequential(layers, segments, x, use_reentrant=False).sum().backward()

    assert [f.found[:6] for f in lint(step=step).findings if f.number == 6] == (["4 of 8"] if found else [])


@WAYS
def test_7_autograd_grad(checkpoint):
    x = torch.randn(8, requires_grad=True)
    found = lint(step=lambda: torch.autograd.grad(checkpoint(torch.exp, x, use_reentrant=True).sum(), x))
    assert found.numbers == {7} and "incompatible" in str(found.error)


@WAYS
def test_8_ddp(checkpoint, tmp_path):
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            return checkpoint(self.linear, checkpoint(self.linear, x, use_reentrant=True), use_reentrant=True)

    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(Shared(), find_unused_parameters=True)
        x = torch.randn(5, 8, requires_grad=True)
        found = lint(model, lambda: model(x).sum().backward())
        assert 8 in found.numbers and found.error is not None
        assert 8 in lint(model).numbers
    finally:
        torch.distributed.destroy_process_group()


def selective(policy):
    return functools.partial(create_selective_checkpoint_contexts, policy)


@WAYS
def test_9_a_policy_that_names_a_family_of_ops(checkpoint):
    def policy(ctx, op, *args, **kwargs):
        return op == torch.ops.aten.addmm  # an overload never equals its packet

    model = net()
    assert lint(model, run(checkpoint, model, context_fn=selective(policy))).numbers == {9}
    good = selective([torch.ops.aten.addmm.default])
    assert lint(model, run(checkpoint, model, context_fn=good)).numbers == set()


@WAYS
@pytest.mark.parametrize("answer", [CheckpointPolicy.PREFER_SAVE, CheckpointPolicy.MUST_CPU_OFFLOAD])
def test_10_policies_that_do_not_do_what_they_say(checkpoint, answer):
    model = net()
    found = lint(model, run(checkpoint, model, context_fn=selective(lambda ctx, op, *args, **kwargs: answer)))
    assert 10 in found.numbers


@WAYS
def test_9_and_10_with_our_selective(checkpoint):
    """As with torch's contexts, though ours raises where torch's is silent."""
    model, addmm = net(), torch.ops.aten.addmm.default

    def found(policy):
        return lint(model, run(checkpoint, model, context_fn=ck.selective(policy)))

    assert found([addmm]).numbers == set()
    assert found(lambda ctx, op, *args, **kwargs: True).numbers == {10}
    nothing = found([torch.ops.aten.mm.default])
    assert [f.number for f in nothing.findings] == [9] and "Nearest to it: aten.addmm" in str(nothing.error)
    assert found(lambda ctx, op, *args, **kwargs: False).numbers == {9}
    assert lint(model, lambda: ck.selective([torch.ops.aten.mm])).numbers == {9}
    offload = CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_RECOMPUTE
    assert found(lambda ctx, op, *args, **kwargs: offload[op is not addmm]).numbers == {10}
    with pytest.raises(PolicyError, match="expected a CheckpointPolicy or a bool"):  # no pitfall: a mistake
        found(lambda ctx, op, *args, **kwargs: 1)


@pytest.mark.needs_torch("2.12")
@WAYS
def test_9_with_our_selective_by_module(checkpoint):
    model = net()
    found = lint(model, run(checkpoint, model, context_fn=ck.selective(by_module(net(), "0"))))  # another model's
    assert found.numbers == {9}


@WAYS
def test_11_containers_and_keywords(checkpoint):
    x = torch.randn(8, requires_grad=True)
    found = lint(step=lambda: checkpoint(lambda d: d["x"].exp(), {"x": x}, use_reentrant=False).sum().backward())
    assert found.numbers == {11}
    found = lint(step=lambda: checkpoint(torch.mul, x, other=x, use_reentrant=True))
    assert found.numbers == {11} and isinstance(found.error, ValueError)


class Forgetful(torch.autograd.Function):
    """A checkpoint written by hand, without autocast."""

    @staticmethod
    def forward(ctx, fn, x):
        ctx.fn = fn
        ctx.save_for_backward(x)
        return fn(x)

    @staticmethod
    def backward(ctx, dy):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.fn(x)
        y.backward(dy.to(y.dtype))
        return None, x.grad


def test_12_autocast_that_was_not_restored():
    model, x = net(), torch.randn(5, 8, requires_grad=True)

    def step(checkpoint):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = checkpoint(model, x)
        y.sum().backward()

    assert lint(model, lambda: step(Forgetful.apply)).numbers == {12}
    twice = functools.partial(ours, use_reentrant=False)
    assert 12 not in lint(model, lambda: step(twice)).numbers


@WAYS
def test_12_a_compiled_segment(checkpoint):
    model = torch.compile(net(), backend="eager")
    assert lint(step=run(checkpoint, model)).numbers == {12}


# ---- from the source ------------------------------------------------------------------------------------------------
class Careless(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net(nn.Dropout(), nn.BatchNorm1d(8))
        self.ops = [torch.ops.aten.mm]

    def forward(self, x):
        x = theirs(self.net, x)
        x = torch.utils.checkpoint.checkpoint(self.net, x, use_reentrant=True, preserve_rng_state=False)
        x = torch.utils.checkpoint.checkpoint_sequential(self.net, 1, x, use_reentrant=False)
        return torch.utils.checkpoint.checkpoint(self.net, {"x": x}, use_reentrant=False)


class Careful(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net(nn.Dropout(), nn.BatchNorm1d(8, momentum=0.0))
        self.ops = [torch.ops.aten.mm.default]

    def forward(self, x):
        return ours(self.net, torch.ops.aten.sin(x), use_reentrant=False)


def test_the_source_alone_tells_a_part():
    found = lint(Careless())
    assert found.numbers == {1, 2, 4, 6, 9, 11}, found
    assert lint(Careful()).numbers == set() and lint(net(nn.BatchNorm1d(8))).numbers == set()


def test_every_finding_comes_with_a_fix_and_renders():
    found = lint(Careless())
    assert len(PITFALLS) == 12 and all(f.fix in str(found) for f in found.findings)
    assert "<table>" in found._repr_html_()


def test_a_pitfall_is_equal_to_its_number_and_printed_as_it():
    assert list(Pitfall) == list(PITFALLS) == list(range(1, 13))
    found = lint(Careless())
    assert found.numbers == {1, 2, 4, 6, 9, 11} and {type(number) for number in found.numbers} == {Pitfall}
    shown = (str(Pitfall.HOOKS_AGAIN), repr(Pitfall.HOOKS_AGAIN), f"{Pitfall.HOOKS_AGAIN:>2}", str({Pitfall.DDP}))
    assert shown == ("5", "5", " 5", "{8}")


def test_other_errors_are_not_swallowed_and_bad_arguments_are_refused():
    def step():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lint(step=step)
    assert torch.utils.checkpoint._allowed_determinism_checks_to_fns["default"].__name__ == "_default_meta_extractor"
    with pytest.raises(CkptError, match="needs a model, a step to run, or both"):
        lint()
    with pytest.raises(CkptError, match="expected an nn.Module"):
        lint(step)


# ---- healthy models: not one false alarm ----------------------------------------------------------------------------
way = {"checkpoint": theirs}


def checkpoint(*args, **kwargs):
    """What the models below call: the name is what lint looks for in their source."""
    return way["checkpoint"](*args, **kwargs)


class Chain(nn.Module):
    """Blocks in checkpoints, with something before them and something after them."""

    def __init__(self, blocks, before=None, after=None):
        super().__init__()
        self.before, self.blocks, self.after = before or nn.Identity(), nn.ModuleList(blocks), after or nn.Identity()

    def forward(self, x):
        x = self.before(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.after(x)


class Reentrant(Chain):
    def forward(self, x):
        x = self.before(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)
        return self.after(x)


class Autocast(Chain):
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return super().forward(x)


class NoDropoutInside(Chain):
    def forward(self, x):
        x = self.before(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False, preserve_rng_state=False)
        return x


class WithNumbers(Chain):
    def one(self, block, x, scale, sizes):
        return block(x) * scale

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(self.one, block, x, 0.5, (1, 2), use_reentrant=False)
        return x


class Recurrent(Chain):
    def forward(self, x):
        for block in self.blocks:
            x, _ = checkpoint(block, x, use_reentrant=False)
        return x


class WritesFiles(nn.Linear):
    def checkpoint(self, path):
        return path

    def forward(self, x):
        self.checkpoint("model.pt")
        return super().forward(x)


def tied():
    embedding, head = nn.Embedding(8, 8), nn.Linear(8, 8, bias=False)
    head.weight = embedding.weight
    return Chain([nn.TransformerEncoderLayer(8, 2, 16, 0.1, batch_first=True) for _ in range(3)], embedding, head)


def residual(norm):
    return nn.Sequential(nn.Conv1d(5, 5, 3, padding=1), norm, nn.ReLU())


HEALTHY = {
    "a ResNet that checkpoints nothing": lambda: nn.Sequential(*[residual(nn.BatchNorm1d(5)) for _ in range(3)]),
    "a ResNet with GroupNorm": lambda: Chain([residual(nn.GroupNorm(1, 5)) for _ in range(3)]),
    "BatchNorm before the checkpoints": lambda: Chain([net() for _ in range(3)], nn.BatchNorm1d(5)),
    "BatchNorm in eval mode": lambda: Chain([residual(nn.BatchNorm1d(5)) for _ in range(3)]).eval(),
    "dropout": lambda: Chain([net(nn.Dropout()) for _ in range(3)]),
    "RReLU": lambda: Chain([net(nn.RReLU()) for _ in range(3)]),
    "a GPT with tied weights": tied,
    "reentrant, behind a layer": lambda: Reentrant([net() for _ in range(3)], nn.Linear(8, 8)),
    "autocast": lambda: Autocast([net() for _ in range(3)]),
    "dropout outside, preserve_rng_state=False": lambda: NoDropoutInside([net() for _ in range(3)], nn.Dropout()),
    "numbers in a tuple": lambda: WithNumbers([net() for _ in range(3)]),
    "an LSTM": lambda: Recurrent([nn.LSTM(8, 8, batch_first=True) for _ in range(3)]),
    "a method of that name": lambda: WritesFiles(8, 8),
}


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("checkpoint", [ours, theirs], ids=["ours", "torch's"])
def test_a_healthy_model_raises_no_alarm(name, checkpoint, monkeypatch):
    monkeypatch.setitem(way, "checkpoint", checkpoint)
    model = HEALTHY[name]()
    x = torch.randint(8, (2, 5)) if "GPT" in name else torch.randn(2, 5, 8)
    found = lint(model, lambda: model(x).float().square().sum().backward())
    assert found.numbers == set(), found
    if not isinstance(model, Reentrant):  # of which the source alone cannot tell
        assert lint(model).numbers == set(), lint(model)


def test_batchnorm_in_a_checkpoint_is_found_in_the_source_and_in_the_run():
    model = Chain([residual(nn.BatchNorm1d(5)) for _ in range(3)])
    assert lint(model).numbers == {4}
    assert 4 in lint(model, lambda: model(torch.randn(2, 5, 8)).sum().backward()).numbers
