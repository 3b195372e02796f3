"""Are the measured costs right, and does the planned module train the same in the memory it promises?"""

import argparse
import copy
import json

import pytest
import torch
from torch import nn

from ckptlib.errors import CkptError
from ckptlib.measure.measurement import measure
from ckptlib.plan_command import plan_chain
from ckptlib.recompute.builders import periodic, revolve, sqrt, store_all
from ckptlib.recompute.chains import find_chain
from ckptlib.recompute.costs import Costs
from ckptlib.recompute.execute import execute
from ckptlib.recompute.optimal import BudgetTooSmall, smallest_budget
from ckptlib.recompute.planner import plan
from ckptlib.recompute.profile import profile_chain


# ---- three chains ---------------------------------------------------------------------------------------------------
def mlp():
    """One layer is 32 times as wide as the others."""
    torch.manual_seed(0)
    widths = [64, 64, 64, 2048, 64, 64, 64, 64, 64]
    pairs = zip(widths, widths[1:], strict=False)
    stages = (nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Dropout(0.1)) for a, b in pairs)
    return nn.Sequential(*stages), torch.randn(64, 64, requires_grad=True)


def cnn():
    torch.manual_seed(0)
    channels = [3, 8, 8, 16, 16, 16, 32]
    stages = (
        nn.Sequential(nn.Conv2d(a, b, 3, padding=1, stride=1 + (i % 3 == 2)), nn.BatchNorm2d(b), nn.ReLU())
        for i, (a, b) in enumerate(zip(channels, channels[1:], strict=False))
    )
    return nn.Sequential(*stages), torch.randn(4, 3, 32, 32, requires_grad=True)


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, dropout=0.1, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x, mask):
        h = self.norm_1(x)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norm_2(x))


class Transformer(nn.Module):
    def __init__(self, layers: int = 5, width: int = 32):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, width), nn.Linear(width, 50)
        self.inner = nn.ModuleDict({"blocks": nn.ModuleList(Block(width) for _ in range(layers))})

    def forward(self, ids):
        x, blocks = self.embed(ids), self.inner["blocks"]
        mask = torch.ones(ids.shape[1], ids.shape[1]).triu(1).bool()
        for i in range(len(blocks)):
            x = blocks[i](x, mask)
        return self.head(x)


def blocks():
    torch.manual_seed(0)
    chain = find_chain(Transformer(), torch.randint(50, (4, 16)))
    return nn.Sequential(*chain.stages), chain.x.detach().requires_grad_()


MODELS = {"mlp": mlp, "cnn": cnn, "transformer": blocks}


def peak_of(step, model, x) -> int:
    """Bytes of everything but the model's own tensors, the gradients of its parameters, and single numbers."""
    model.zero_grad()
    x.grad = None
    line = measure(step).timeline
    rng_state = torch.get_rng_state().nbytes
    now = high = 0
    for change in [*line.start, *line.changes]:
        kind, nbytes = change.owner.category, abs(change.nbytes)
        is_models = kind in ("parameter", "buffer") or (kind == "gradient" and change.owner.name)
        if not is_models and nbytes > 16 and nbytes != rng_state:
            now += change.nbytes
            high = max(high, now)
    return high


# ---- costs ----------------------------------------------------------------------------------------------------------
def test_the_bytes_of_a_stage_are_those_derived_by_hand():
    """Linear (N, 3) -> (N, 5), then tanh: tanh keeps its output, Linear only its input."""
    stage = nn.Sequential(nn.Linear(3, 5), nn.Tanh())
    costs = profile_chain([stage, stage[1]], torch.ones(7, 3, requires_grad=True))
    x, y = 4 * 7 * 3, 4 * 7 * 5
    assert (costs.x, costs.dx) == ((x, y, y), (x, y, y))
    assert costs.xbar == (y, y)
    assert costs.ftmp == (y, 0)  # Linear's output, until tanh has read it
    assert costs.atmp == (y, 0)
    assert costs.btmp == (y, y)  # the gradient that tanh makes while the one it was given is still there
    assert all(seconds > 0 for seconds in costs.ftime + costs.btime)


def test_profiling_leaves_no_trace():
    model, x = cnn()
    model.append(nn.Dropout(0.5))
    before, random = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    profile_chain(model, x)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(random, torch.get_rng_state())
    assert all(p.grad is None for p in model.parameters()) and x.grad is None


def test_an_input_without_gradient_and_frozen_stages_cost_no_gradient():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).requires_grad_(False)
    model[1].requires_grad_(True)
    costs = profile_chain(model, torch.ones(2, 4))
    assert costs.dx == (0, 0, 32)
    assert costs.btime[0] == 0 and costs.btime[1] > 0


def test_a_stage_that_returns_its_input_counts_as_a_copy():
    costs = profile_chain([torch.sin, nn.Flatten(), nn.Identity()], torch.ones(2, 4, requires_grad=True))
    assert costs.x == (32, 32, 32, 32)
    assert costs.xbar[1:] == (32, 32)


# ---- plans ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", MODELS)
def test_a_planned_step_is_the_plain_step_within_the_promised_bytes(name):
    model, x = MODELS[name]()
    costs = profile_chain(model, x)
    low, high = smallest_budget(costs), store_all(costs.n).cost(costs).peak
    assert low < high
    for budget in [low, (2 * low + high) // 3, (low + 2 * high) // 3, high]:
        found = plan(model, x, budget, costs)
        assert found.peak <= budget
        results = []
        for run in (model, found.module):
            start = copy.deepcopy(model.state_dict())
            torch.manual_seed(1)
            model.zero_grad()
            x.grad = None
            run(x).square().sum().backward()
            buffers = [b.clone() for b in model.buffers()]
            results.append([x.grad, *(p.grad for p in model.parameters()), *buffers, torch.rand(1)])
            model.load_state_dict(start)
        for plain, planned in zip(*results, strict=True):
            torch.testing.assert_close(planned, plain)
        peak = peak_of(lambda run=found.module: run(x).mul(1).sum().backward(), model, x)
        assert 0.9 * found.peak <= peak <= found.peak + 2048  # BatchNorm's statistics, kept to run it again


@pytest.mark.parametrize("name", MODELS)
def test_at_the_peak_of_a_classic_the_plan_is_no_slower_and_needs_no_more(name):
    model, x = MODELS[name]()
    costs = profile_chain(model, x)
    n = costs.n
    for schedule in [sqrt(n), *(periodic(n, k) for k in range(1, n + 1)), *(revolve(n, s) for s in (1, 2, 3))]:
        classic = schedule.cost(costs)
        found = plan(model, x, classic.peak, costs)
        assert found.time <= classic.time * (1 + 1e-9)
        theirs = peak_of(lambda s=schedule: execute(s, model, x).mul(1).sum().backward(), model, x)
        ours = peak_of(lambda run=found.module: run(x).mul(1).sum().backward(), model, x)
        assert ours <= max(theirs, found.peak) + 2048


def test_a_models_blocks_are_planned_where_they_are():
    torch.manual_seed(0)
    model, ids = Transformer(), torch.randint(50, (4, 16))
    costs = profile_chain(model, ids)
    assert costs.n == 5
    found = plan(model, ids, (smallest_budget(costs) + store_all(5).cost(costs).peak) // 2, costs)
    assert found.slowdown > 1
    assert found.pareto[0][0] == smallest_budget(costs)
    gradients = []
    for run in (model, found.module):
        model.zero_grad()
        torch.manual_seed(1)
        run(ids).sum().backward()
        gradients.append([p.grad for p in model.parameters()])
    for plain, planned in zip(*gradients, strict=True):
        torch.testing.assert_close(planned, plain)
    assert len(model.inner["blocks"]) == 5 and isinstance(model.inner["blocks"][0], Block)
    assert {id(p) for p in found.module.parameters()} == {id(p) for p in model.parameters()}


def test_a_planned_module_learns():
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(6)))
    x, target = torch.randn(32, 8), torch.rand(32, 8)
    costs = profile_chain(model, x)
    module = plan(model, x, smallest_budget(costs), costs).module
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(module(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


# ---- what is refused ------------------------------------------------------------------------------------------------
def test_a_budget_that_cannot_be_met_names_the_smallest_that_can():
    model, x = mlp()
    costs = profile_chain(model, x)
    with pytest.raises(BudgetTooSmall, match="the smallest budget is") as caught:
        plan(model, x, 1000, costs)
    assert plan(model, x, caught.value.smallest, costs).peak == caught.value.smallest


class Backwards(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        for layer in reversed(self.layers):
            x = layer(x)
        return x


class Cycle(Backwards):
    def forward(self, x):
        for layer in [*self.layers, *self.layers]:
            x = layer(x)
        return x


class Skip(Backwards):
    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


class Scaled(Backwards):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Bilinear(4, 4, 4) for _ in range(3))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x, torch.full((2, 4), float(i)))
        return x


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Backwards(), "did not run once each, in order"),
        (Cycle(), "did not run once each, in order"),
        (Skip(), "block 1 of layers does not receive what block 0 returned"),
        (Scaled(), "block 1 of layers is given other arguments than block 0"),
        (nn.Linear(4, 4), "Linear has no ModuleList or Sequential of blocks"),
        ([], "at least one module or function"),
        ([torch.sin, 3], "at least one module or function"),
        ("model", "got a str, expected nn.Sequential"),
        ([lambda x: (x, x)], "returned a tuple, expected one tensor"),
    ],
)
def test_what_is_no_chain_is_refused(model, message):
    with pytest.raises(CkptError, match=message):
        profile_chain(model, torch.ones(2, 4))


def test_costs_of_another_chain_are_refused():
    with pytest.raises(CkptError, match="the costs are of 2 stages, the chain has 1"):
        plan([torch.sin], torch.ones(2, requires_grad=True), 1000, Costs.unit(2))


# ---- the command ----------------------------------------------------------------------------------------------------
CHAIN = {"ftime": [1, 2, 3], "btime": [2, 2, 2], "x": [4, 5, 6, 7], "xbar": [9, 9, 9]}


def ask(tmp_path, content, budget, as_json=True):
    path = tmp_path / "chain.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    text, code = plan_chain(argparse.Namespace(chain=str(path), budget=budget, json=as_json))
    return (json.loads(text) if as_json else text), code


def test_the_command_prints_a_plan(tmp_path):
    answer, code = ask(tmp_path, CHAIN, 38)
    assert (answer["makespan"], answer["peak"], answer["forwards"], code) == (12, 38, 3, 0)
    answer, code = ask(tmp_path, CHAIN, 37)
    assert (answer["makespan"], answer["peak"], code) == (13, 34, 0)  # 4 + 5 kept inputs, 9 + 9 kept, 7 the gradient
    assert answer["actions"][0] == ["keep input", 0]
    text, _ = ask(tmp_path, CHAIN, 37, as_json=False)
    assert "makespan         13" in text and "0 |c" in text


def test_the_command_names_the_smallest_budget(tmp_path):
    answer, code = ask(tmp_path, CHAIN, 10)
    assert answer == {"feasible": False, "budget": 10, "smallest_budget": 26}
    assert code == 1
    assert ask(tmp_path, CHAIN, 26)[0]["peak"] == 26
    assert "the smallest budget is 26" in ask(tmp_path, CHAIN, 25, as_json=False)[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", "holds a list, expected an object"),
        ({"ftime": [1]}, "has no btime, x, xbar"),
        ({**CHAIN, "x": 3}, "x in .* is 3, expected a list"),
        ({**CHAIN, "x": [1, 2, 3]}, "x has 3 entries for 3 stages, expected 4"),
    ],
)
def test_a_bad_chain_is_explained(tmp_path, content, message):
    with pytest.raises(CkptError, match=message):
        ask(tmp_path, content, 10)


def test_a_missing_file_is_explained():
    with pytest.raises(CkptError, match="cannot read the chain"):
        plan_chain(argparse.Namespace(chain="/no/such/chain.json", budget=1, json=True))
