"""Does a model without a chain train as before, in the measured bytes, with checkpoints around the modules chosen?"""

import importlib
import json

import pytest
import torch
from torch import nn

import ckptlib as ck
from ckptlib.cli import main
from ckptlib.planning.apply import write_plan
from ckptlib.planning.budget_search import NoPlanFits
from ckptlib.planning.module_plan import ModulePlan

pytestmark = pytest.mark.slow  # each plan is a dozen of runs
WIDTH = 16


class Part(nn.Module):
    """Takes a tensor and a dict, and returns a tuple. Dropout and running statistics must be as in one run."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm, self.drop = nn.BatchNorm1d(WIDTH), nn.Dropout(0.1)

    def forward(self, x, more):
        y = self.drop(self.down(torch.tanh(self.up(self.norm(x)))))
        return y * more["scale"], y.mean()


class Siamese(nn.Module):
    """Two branches with one set of weights, skip connections around all blocks, and a head."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(Part() for _ in range(4))
        self.inplace, self.head = nn.ReLU(inplace=True), nn.Linear(WIDTH, 1)

    def branch(self, x):
        losses, start = [], x
        for part in self.parts:
            y, loss = part(x, {"scale": x.new_full((1,), 0.5)})
            x = x + y
            losses.append(loss)
        return self.head(self.inplace(x + start)), sum(losses)

    def forward(self, a, b):
        (y, first), (z, second) = self.branch(a), self.branch(b)
        return (y - z).square().mean() + 0.01 * (first + second)


def built():
    torch.manual_seed(0)
    return Siamese().double(), tuple(torch.randn(2, 256, WIDTH, dtype=torch.float64))


@pytest.fixture(scope="module")
def found():
    return ck.plan(built, device="cpu", fake=True)


def trained(model, inputs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    results = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(*inputs)
        loss.backward()
        results += [loss.detach(), *(p.grad.clone() for p in model.parameters()), *(b.clone() for b in model.buffers())]
        optimizer.step()
    return results


def test_plans_are_offered_from_the_least_memory_on(found):
    assert isinstance(found, ModulePlan) and not found.paths and found.peak == found.plain_peak
    offers = found.offers
    assert offers[0].paths == [f"parts.{i}" for i in range(4)]  # each of them runs twice in a step
    assert [o.peak for o in offers] == sorted({o.peak for o in offers})
    assert [o.extra for o in offers] == sorted({o.extra for o in offers}, reverse=True)
    assert found.plain_peak > 2 * offers[0].peak and offers[-1].extra == 0  # of norms, it may still save something
    again = 2 * 4 * 2 * (2 * 256 * WIDTH * 4 * WIDTH)  # branches, parts, layers, FLOPs of a product
    assert offers[0].extra == pytest.approx(again / (3 * (again + 2 * 2 * 256 * WIDTH)), rel=0.01)


def test_with_it_in_place_gradients_and_buffers_are_those_of_the_plain_model(found, tmp_path):
    plain = trained(*built())
    for plan in found.offers[:-1]:
        model, inputs = built()
        names = list(model.state_dict())
        write_plan(plan, tmp_path / "plan.json")
        for given in (plan, tmp_path / "plan.json"):
            model, inputs = built()
            for ours, autograds in zip(trained(ck.apply(model, given), inputs), plain, strict=True):
                torch.testing.assert_close(ours, autograds, rtol=1e-12, atol=1e-14)
            assert list(model.state_dict()) == names
        ck.unapply(model)
        assert not any("_compiled_call_impl" in vars(part) or "forward" in vars(part) for part in model.modules())


@pytest.mark.parametrize("fake", [True, False])
def test_it_needs_the_bytes_that_were_measured(found, fake):
    least = found.offers[0]  # whose runs are over before the next one begins

    def planned():
        model, inputs = built()
        return ck.apply(model, least), inputs

    assert ck.measure(planned, builds=True, fake=fake).peak == least.peak


def test_a_budget_is_kept_with_no_more_modules_than_it_takes(found):
    least, plain = found.offers[0], found.plain_peak
    budget = (least.peak + plain) // 2
    plan = ck.plan(built, budget=budget, device="cpu", fake=True)
    assert plan.peak <= budget and 0 < plan.extra < least.extra and "less, for" in str(plan)
    with pytest.raises(NoPlanFits) as caught:
        ck.plan(built, budget=1000, device="cpu", fake=True)
    assert caught.value.smallest == least.peak


def test_the_command_lists_the_modules_writes_them_and_compares_gradients(tmp_path, monkeypatch, capsys):
    (tmp_path / "planned_tree.py").write_text(
        "import torch\nfrom torch import nn\n\n\nclass Tree(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        parts = (nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 8)) for _ in range(4))\n"
        "        self.leaves = nn.ModuleList(parts)\n\n"
        "    def forward(self, x):\n        return sum(leaf(x) for leaf in self.leaves).square().mean()\n\n\n"
        "def build():\n    torch.manual_seed(0)\n    return Tree(), torch.randn(1024, 8)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "planned_tree:build", "--device", "cpu"]) == 0
    assert "Modules are checkpointed one by one, because there is no chain to plan" in capsys.readouterr().out
    assert main(["plan", "planned_tree:build", "--device", "cpu", "--budget", "900KB", "--write", "plan.json"]) == 0
    out = capsys.readouterr().out
    assert "the same as without it" in out and "leaves.0" in out and "ck.apply(model, 'plan.json')" in out
    assert main(["plan", "planned_tree:build", "--device", "cpu", "--budget", "900KB", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["step_peak"] <= 900_000 < answer["step_peak_without_plan"]
    build = importlib.import_module("planned_tree").build

    def planned():
        model, x = build()
        return ck.apply(model, "plan.json"), x

    assert ck.measure(planned, builds=True).peak == answer["step_peak"]
