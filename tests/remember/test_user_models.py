"""Does one way to hand in a model serve every function that asks for one?"""

import pytest
import torch
from torch import nn

import ckptlib as ck
from ckptlib.cuda.gpus import preset
from ckptlib.errors import CkptError
from ckptlib.fitting.fit import fits
from ckptlib.planning.budget_search import WholeStep
from ckptlib.remember.user_models import Training, handed_in


def parts():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 8))
    return model, torch.randn(64, 8), lambda out: out.square().mean(), torch.optim.SGD(model.parameters(), momentum=0.9)


class Scored(nn.Module):
    """As models of others: the output has its loss."""

    def __init__(self, model, loss):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, x):
        return {"loss": self.loss(self.model(x))}


def by_hand(model, x, loss, optimizer=None):
    def step():
        loss(model(x)).backward()
        if optimizer:
            optimizer.step()

    return step


def made_of(pick):
    """A function that hands in what `pick` makes of new parts."""
    return lambda: pick(*parts())


WITHOUT_OPTIMIZER = {
    "step": made_of(lambda model, x, loss, _: by_hand(model, x, loss)),
    "model, step": made_of(lambda model, x, loss, _: (model, by_hand(model, x, loss))),
    "model, inputs": made_of(lambda model, x, loss, _: (Scored(model, loss), x)),
    "model, inputs, loss": made_of(lambda model, x, loss, _: (model, x, loss)),
    "inputs by name": made_of(lambda model, x, loss, _: (model, {"input": x}, loss)),
    "inputs in a tuple": made_of(lambda model, x, loss, _: (model, (x,), loss)),
}
WITH_OPTIMIZER = {
    "step": made_of(by_hand),
    "model, step": made_of(lambda model, *others: (model, by_hand(model, *others))),
    "model, inputs, loss, optimizer": parts,
    "no loss": made_of(lambda model, x, loss, optimizer: (Scored(model, loss), x, None, optimizer)),
}


@pytest.mark.parametrize("forms", [WITHOUT_OPTIMIZER, WITH_OPTIMIZER], ids=["passes", "with an optimizer"])
@pytest.mark.parametrize("device", ["cpu", "sim:cuda"])
def test_every_form_is_the_same_step(forms, device):
    found = {name: ck.measure(build, device, builds=True) for name, build in forms.items()}
    assert len({(m.peak, m.forward_peak, m.reserved) for m in found.values()}) == 1
    assert all("optimizer" in {op.phase for op in m.trace.ops} for m in found.values()) is (forms is WITH_OPTIMIZER)


@pytest.mark.parametrize("forms", [WITHOUT_OPTIMIZER, WITH_OPTIMIZER], ids=["passes", "with an optimizer"])
def test_a_ledger_takes_every_form_that_has_a_model(forms):
    found = {name: ck.ledger(build) for name, build in forms.items() if name != "step"}
    assert len({tuple(account.by_category.items()) for account in found.values()}) == 1
    with pytest.raises(CkptError, match="a ledger describes a model"):
        ck.ledger(forms["step"])


@pytest.mark.parametrize("name", [name for name in WITHOUT_OPTIMIZER if name not in ("step", "model, step")])
def test_planners_take_every_form_that_has_inputs(name):
    step = handed_in(WITHOUT_OPTIMIZER[name]())
    assert isinstance(step.training, Training)
    whole = WholeStep(lambda: handed_in(WITHOUT_OPTIMIZER[name]()).training, "sim:cuda", preset(), fake=True)
    assert whole.run().peak == ck.measure(WITHOUT_OPTIMIZER[name], "sim:cuda", fake=True, builds=True).peak


def test_an_optimizer_that_is_handed_in_is_counted():
    def build(batch, optimizer):
        model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(4)))
        return model, torch.randn(batch, 256), torch.sum, optimizer(model.parameters()) if optimizer else None

    def largest(optimizer):
        return fits(lambda batch: build(batch, optimizer), 32 * 2**20, strategies=("none",))["none"]

    adam, plain = largest(None), largest(torch.optim.SGD)
    assert plain.batch > adam.batch > 0
    assert adam.need.parts["optimizer"] > plain.need.parts["optimizer"] == 0


def test_a_policy_report_takes_every_form_that_has_inputs():
    forms = [WITHOUT_OPTIMIZER[name] for name in ("model, inputs, loss", "inputs by name", "inputs in a tuple")]
    forms += [WITH_OPTIMIZER["model, inputs, loss, optimizer"], lambda: parts()[:2]]
    reports = [ck.policy_report(build, all=[torch.ops.aten.addmm.default]) for build in forms]
    assert all(report == reports[0] for report in reports) and reports[0]["all"].recomputed == 0
    assert len(ck.policy_report(WITHOUT_OPTIMIZER["model, inputs"])) == 2  # the output has its loss
    for name in ("step", "model, step"):
        with pytest.raises(CkptError, match=r"expected \(segment, inputs\) or \(segment, inputs, loss\)"):
            ck.policy_report(WITHOUT_OPTIMIZER[name])


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (3, "returned int, expected a function"),
        (nn.Linear(1, 1), "A model alone cannot be run"),
        ((nn.Linear(1, 1),), "returned a tuple of 1"),
        ((3, torch.ones(1)), "returned int for a model"),
        ((nn.Linear(1, 1), torch.ones(1), torch.ones(1)), "for a loss, expected a function. Was it called already"),
        ((nn.Linear(1, 1), torch.ones(1), None, torch.optim.SGD), "returned type for an optimizer"),
        (lambda x: x, r"needs arguments \(x\)"),
    ],
)
def test_what_cannot_be_run_is_told(made, says):
    with pytest.raises(CkptError, match=says):
        handed_in(made)


# ---- what is not run as it was handed in ----------------------------------------------------------------------------
class Config:
    use_cache = True


class Caching(nn.Module):
    """As the decoders of transformers: unless the config says otherwise, it keeps what every call has computed."""

    def __init__(self):
        super().__init__()
        self.config, self.fc, self.cache = Config(), nn.Linear(8, 8), []

    def forward(self, x):
        y = self.fc(x)
        if self.config.use_cache:
            self.cache.append(y.clone())
        return y.sum()


@pytest.mark.parametrize("form", ["inputs", "step"])
def test_a_cache_is_off_during_the_run_and_the_result_says_so(form):
    built = []

    def build():
        model = Caching()
        built.append(model)
        x = torch.ones(4, 8)
        return (model, x) if form == "inputs" else (model, lambda: model(x).backward())

    result, account = ck.measure(build, builds=True), ck.ledger(build)
    assert all(model.config.use_cache and not model.cache for model in built)
    assert "use_cache, which is on" in str(result) and "use_cache, which is on" in str(account)

    def without():
        model, rest = build()
        model.config = Config()
        model.config.use_cache = False
        return model, rest if form == "inputs" else lambda: model(torch.ones(4, 8)).backward()

    plain = ck.measure(without, builds=True)
    assert not plain.notes and "use_cache" not in str(plain)
    if form == "inputs":
        assert plain.peak == result.peak


def compiled_module():
    return torch.compile(nn.Linear(4, 4), backend="eager")


def compiled_in_place():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    model[0].compile(backend="eager")
    return model


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [compiled_module, compiled_in_place])
def test_a_compiled_model_is_refused_everywhere_in_one_line(compiled):
    x, model = torch.ones(2, 4), compiled()
    with_batch = lambda batch: (compiled(), torch.ones(batch, 4), torch.sum)  # noqa: E731
    for ask in (
        lambda: ck.measure(lambda: model(x).sum().backward()),
        lambda: ck.measure(lambda: (model, x, torch.sum), builds=True),
        lambda: ck.measure(lambda: lambda: model(x).sum().backward(), builds=True),
        lambda: ck.ledger(lambda: (model, x, torch.sum)),
        lambda: ck.ledger(nn.Linear(4, 4), lambda: model(x).sum().backward()),
        lambda: ck.plan(model, x),
        lambda: ck.plan(lambda: (model, x, torch.sum)),
        lambda: ck.fit(with_batch),
    ):
        with pytest.raises(CkptError, match="is compiled by torch.compile, and .* before it is compiled$") as caught:
            ask()
        assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_compiled_function_is_refused_and_one_that_is_never_compiled_is_not():
    x = torch.ones(4, requires_grad=True)
    loss = torch.compile(torch.sum, backend="eager")
    with pytest.raises(CkptError, match="^loss is compiled"):
        ck.measure(lambda: loss(x).backward())
    eager = torch.compiler.disable(lambda t: t.sum())
    assert ck.measure(lambda: eager(x).backward()).peak > 0
