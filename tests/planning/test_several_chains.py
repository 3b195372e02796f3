"""Are all chains of a model planned together, whatever their blocks take and return, and in the bytes predicted?"""

import gc
import json
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import ckptlib as ck
from ckptlib.cli import main
from ckptlib.errors import CkptError
from ckptlib.planning.apply import write_plan
from ckptlib.planning.block_detection import NoChain, find_chain, find_chains
from ckptlib.planning.module_plan import ModulePlan
from ckptlib.planning.plan import Plan

WIDTH = 16
EXACT = {"rtol": 1e-12, "atol": 1e-14}


class Part(nn.Module):
    """Takes its tensor by name, in a container or by place, and a bias that its first of a kind has made. Returns both,
    and a loss of its own. Dropout and running statistics must be as in one run."""

    def __init__(self, first=False):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm, self.drop = nn.BatchNorm1d(WIDTH), nn.Dropout(0.1)
        self.bias = nn.Parameter(torch.ones(WIDTH)) if first else None

    def forward(self, mask, hidden, more=None, bias=None):
        x = hidden["x"]
        bias = torch.tanh(self.bias) * mask if bias is None else bias
        y = x + self.drop(self.down(torch.tanh(self.up(self.norm(x))))) * bias
        y = y if more is None else y + more
        return {"bias": bias, "out": [y, y.square().mean()]}


class EncoderAndDecoder(nn.Module):
    """Two chains. What the first returns is an argument of every block of the second."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleList(Part(first=not i) for i in range(4))
        self.decoder = nn.ModuleList(Part(first=not i) for i in range(3))
        self.between, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, x, mask):
        losses, more = [], None
        for parts in (self.encoder, self.decoder):
            bias = None
            for part in parts:
                out = part(mask, hidden={"x": x}, more=more, bias=bias)
                bias, (x, loss) = out["bias"], out["out"]
                losses.append(loss)
            more = x = self.between(x)
        return self.head(x).square().mean() + 0.01 * sum(losses)


class Siamese(nn.Module):
    """One chain that runs twice, and the difference of what it returns."""

    def __init__(self):
        super().__init__()
        parts = ((nn.Linear(WIDTH, 4 * WIDTH), nn.Tanh(), nn.Dropout(0.1), nn.Linear(4 * WIDTH, WIDTH)) for _ in "1234")
        self.parts = nn.ModuleList(nn.Sequential(*layers) for layers in parts)

    def forward(self, a, b):
        for part in self.parts:
            a = part(a)
        for part in self.parts:
            b = part(b)
        return (a - b).square().mean()


class Pair(nn.Module):
    def __init__(self, inside, out):
        super().__init__()
        self.one, self.two = nn.Conv2d(inside, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)

    def forward(self, x, t):
        return F.silu(self.two(F.silu(self.one(x) + t)))


class UNet(nn.Module):
    """Two blocks at each size, on the way down and on the way up, and skip connections between them."""

    def __init__(self, widths=(4, 8)):
        super().__init__()
        steps = zip((3, *widths), widths, strict=False)
        self.down = nn.ModuleList(nn.ModuleList([Pair(a, b), Pair(b, b)]) for a, b in steps)
        self.up = nn.ModuleList(nn.ModuleList([Pair(2 * b, a), Pair(a, a)]) for a, b in ((4, 8), (3, 4)))

    def forward(self, x, t):
        skips = []
        for one, two in self.down:
            x = two(one(x, t), t)
            skips.append(x)
            x = F.avg_pool2d(x, 2)
        for one, two in self.up:
            x = torch.cat([F.interpolate(x, scale_factor=2.0), skips.pop()], 1)
            x = two(one(x, t), t)
        return x.square().mean()


def encoder_and_decoder():
    torch.manual_seed(0)
    return EncoderAndDecoder().double(), (torch.randn(256, WIDTH).double(), torch.ones(256, 1).double())


def siamese():
    torch.manual_seed(0)
    return Siamese().double(), tuple(torch.randn(2, 256, WIDTH).double())


def unet():
    torch.manual_seed(0)
    return UNet().double(), (torch.randn(2, 3, 16, 16).double(), torch.rand(2, 1, 1, 1).double())


ROWS = {
    encoder_and_decoder: [[f"encoder.{i}" for i in range(4)], [f"decoder.{i}" for i in range(3)]],
    siamese: [[f"parts.{i}" for i in range(4)]],
    unet: [["down.0.0", "down.0.1"], ["down.1.0", "down.1.1"], ["up.0.0", "up.0.1"], ["up.1.0", "up.1.1"]],
}


@pytest.fixture(scope="module")
def offers():
    made = {}

    def of(build):
        if build not in made:
            made[build] = ck.plan(build, device="cpu", fake=True).offers
        return made[build]

    return of


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


@pytest.mark.parametrize("build", ROWS)
def test_all_chains_are_found(build):
    model, inputs = build()
    chains = find_chains(model, inputs)
    assert [row.names for row in chains.rows] == ROWS[build]
    assert {row.runs for row in chains.rows} == {2 if build is siamese else 1}
    assert len(find_chain(model, inputs).names) == max(map(len, ROWS[build]))
    if build is encoder_and_decoder:  # the second leaf of {"bias": ..., "out": [..., ...]}, and not the bias
        assert {place.gives for row in chains.rows for place in row.places} == {1}


@pytest.mark.slow
@pytest.mark.parametrize("build", ROWS)
def test_gradients_and_buffers_are_those_of_the_plain_model(build, offers, tmp_path):
    plain = trained(*build())
    for plan in offers(build)[:-1]:
        write_plan(plan, tmp_path / "plan.json")
        for given in (plan, tmp_path / "plan.json"):
            model, inputs = build()
            names = list(model.state_dict())
            for ours, autograds in zip(trained(ck.apply(model, given), inputs), plain, strict=True):
                torch.testing.assert_close(ours, autograds, **EXACT)
            assert list(model.state_dict()) == names
        ck.unapply(model)
        model, inputs = build()
        for ours, autograds in zip(trained(plan.applied_to(model), inputs), plain, strict=True):
            torch.testing.assert_close(ours, autograds, **EXACT)


@pytest.mark.slow
@pytest.mark.parametrize("build", ROWS)
@pytest.mark.parametrize("fake", [True, False])
def test_a_step_in_place_needs_the_bytes_of_the_plan(build, fake, offers):
    found = offers(build)
    assert [plan.peak for plan in found] == sorted({plan.peak for plan in found})
    assert [plan.extra for plan in found] == sorted({plan.extra for plan in found}, reverse=True)
    for plan in found[:2]:

        def planned(plan=plan):
            model, inputs = build()
            return ck.apply(model, plan), inputs

        assert ck.measure(planned, builds=True, fake=fake).peak == plan.peak < found[-1].peak


@pytest.mark.slow
def test_every_chain_gives_way_where_memory_is_short(offers):
    """The least is less than either chain could reach alone, which is what the other one saves."""
    least = offers(encoder_and_decoder)[0]
    by_row = least.whole.chains.schedules(least.schedule)
    assert all(max(schedule.forwards()) > 1 for schedule in by_row)
    for kept in (0, 1):
        rows = [ck.store_all(s.n) if i == kept else s for i, s in enumerate(by_row)]
        starts = least.whole.chains.starts
        firsts, lasts = [], []  # of both chains, up to the first backward, and from it on
        for start, schedule in zip(starts, rows, strict=False):
            actions = [(kind, stage + start) for kind, stage in schedule.actions]
            first = next(i for i, (kind, _) in enumerate(actions) if kind == "backward")
            firsts, lasts = firsts + actions[:first], actions[first:] + lasts
        alone = ck.Schedule(starts[-1], firsts + lasts)
        assert least.whole.run(alone).peak > least.peak


@pytest.mark.slow
def test_a_budget_holds_for_the_whole_step_and_is_not_wasted(offers, tmp_path, monkeypatch, capsys):
    found = offers(encoder_and_decoder)
    budget = (found[0].peak + found[-1].peak) // 2
    plan = ck.plan(encoder_and_decoder, budget=budget, device="cpu", fake=True)
    assert found[0].peak <= plan.peak <= budget and plan.extra < found[0].extra
    (tmp_path / "two_chains.py").write_text(
        "import torch\nfrom torch import nn\n\n\nclass Two(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        for name in ('a', 'b'):\n"
        "            blocks = (nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 8)) for _ in range(3))\n"
        "            self.add_module(name, nn.ModuleList(blocks))\n\n"
        "    def forward(self, x):\n        for block in self.a:\n            x = block(x)\n        x = x.sin()\n"
        "        for block in self.b:\n            x = block(x)\n        return x.square().mean()\n\n\n"
        "def build():\n    torch.manual_seed(0)\n    return Two(), torch.randn(1024, 8)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "two_chains:build", "--device", "cpu", "--fake"]) == 0
    assert "plans for 6 stages, a.0 … a.2 and b.0 … b.2" in capsys.readouterr().out
    assert main(["plan", "two_chains:build", "--device", "cpu", "--budget", "1MB", "--write", "plan.json"]) == 0
    out = capsys.readouterr().out
    assert "the chains: 6 stages" in out and "the same as without it" in out
    contents = json.loads((tmp_path / "plan.json").read_text())
    assert [row["blocks"] for row in contents["rows"]] == [[f"{name}.{i}" for i in range(3)] for name in "ab"]
    assert contents["step_peak"] <= 1_000_000


class Stage(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.relu()


class Stages(nn.Module):
    """Rows inside of the blocks of a row, as in a Swin Transformer or a ConvNeXt."""

    def __init__(self, *layers):
        super().__init__()
        self.stages = nn.ModuleList(map(Stage, layers))

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        return x.sum()


@pytest.mark.parametrize(
    ("layers", "found"),
    [
        ((2, 4, 3), [[f"stages.{i}.layers.{j}" for j in range(n)] for i, n in enumerate((2, 4, 3))]),
        ((2, 2, 2), [["stages.0", "stages.1", "stages.2"]]),  # not finer, but in pieces
        ((1, 1, 1, 1, 1, 1, 1, 9), [[f"stages.7.layers.{j}" for j in range(9)]]),
        ((2, 3), [[f"stages.{i}.layers.{j}" for j in range(n)] for i, n in enumerate((2, 3))]),
    ],
)
def test_rows_inside_of_a_row_are_preferred_if_they_are_longer(layers, found):
    assert [row.names for row in find_chains(Stages(*layers), torch.ones(2, WIDTH)).rows] == found


# ---- when not to plan a chain ---------------------------------------------------------------------------------------
class Branch(nn.Sequential):
    """Of another type than the blocks of the chain, so that none of them is its last block."""


class SmallChain(nn.Module):
    """A chain of three small blocks, and wide branches that are none."""

    def __init__(self):
        super().__init__()
        self.chain = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(3))
        wide = ((nn.Linear(WIDTH, 8 * WIDTH), nn.Tanh(), nn.Linear(8 * WIDTH, WIDTH)) for _ in range(4))
        self.branches = nn.ModuleDict({name: Branch(*b) for name, b in zip("abcd", wide, strict=True)})

    def forward(self, x):
        for block in self.chain:
            x = block(x)
        return sum(branch(x) for branch in self.branches.values()).square().mean()


@pytest.mark.slow
def test_a_chain_that_is_a_small_part_of_the_model_gives_way_to_a_plan_over_modules():
    def built():
        torch.manual_seed(0)
        return SmallChain(), torch.randn(512, WIDTH)

    model, x = built()
    assert find_chain(model, x).names == ["chain.0", "chain.1", "chain.2"]
    plan = ck.plan(built, device="cpu", fake=True)
    assert isinstance(plan, ModulePlan) and "a plan of the chains alone (chain.0 … chain.2) needs at least" in plan.why
    least = plan.offers[0]
    assert least.peak < 0.65 * plan.plain_peak and "branches.a" in least.paths
    tight = ck.plan(built, budget=least.peak, device="cpu", fake=True)
    assert isinstance(tight, ModulePlan) and tight.peak <= least.peak
    loose = ck.plan(built, budget=plan.plain_peak - 1, device="cpu", fake=True)
    assert isinstance(loose, Plan) and loose.extra < 0.05  # a small block again is cheaper than a wide branch


@pytest.mark.slow
def test_a_chain_of_two_stages_that_saves_nothing_gives_way():
    """While one of two large blocks runs again, it needs what it would have saved."""

    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            layers = ((nn.Linear(WIDTH, 4 * WIDTH), nn.Tanh(), nn.Linear(4 * WIDTH, WIDTH)) for _ in "1234")
            self.parts = nn.ModuleList(Branch(*part) for part in layers)

        def forward(self, x):
            for part in self.parts:
                x = x + part(x)
            return x

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.small, self.large = Wide(), Wide()
            self.small.parts = self.small.parts[:1]

        def forward(self, x):
            return self.large(self.small(x)).square().mean()

    def two():
        torch.manual_seed(0)
        return Two(), torch.randn(512, WIDTH)

    model, x = two()
    assert find_chain(model, x).names == ["small", "large"]
    plan = ck.plan(two, device="cpu", fake=True)
    assert isinstance(plan, ModulePlan) and plan.offers[0].peak < 0.8 * plan.plain_peak


# ---- what does not go -----------------------------------------------------------------------------------------------
def test_a_block_that_is_called_otherwise_than_planned_is_told(offers):
    model, (x, mask) = encoder_and_decoder()
    plan = ck.plan(encoder_and_decoder, device="cpu", fake=True)
    own = type(model).forward

    def reordered(self, x, mask):
        return self.encoder[0](mask, hidden={"x": None})

    ck.apply(model, plan)
    type(model).forward = reordered
    try:
        with pytest.raises(CkptError, match="encoder.0 was given NoneType where the plan expects the tensor"):
            model(x, mask)
    finally:
        type(model).forward = own


def test_a_module_that_runs_several_times_in_one_row_is_no_chain():
    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = nn.Linear(4, 4)

        def forward(self, x):
            for _ in range(3):
                x = self.block(x)
            return x.sum()

    with pytest.raises(NoChain):
        find_chains(Again(), torch.ones(2, 4))


def test_a_forward_without_a_backward_leaves_nothing_behind(offers):
    """A block's argument that comes from its own chain has a graph, which must not hold the run that it is held by."""
    model, inputs = encoder_and_decoder()
    ck.apply(model, offers(encoder_and_decoder)[0])
    seen = []
    model.encoder[2].register_forward_hook(lambda module, args, out: seen.append(weakref.ref(out["out"][0])))
    gc.disable()  # what only the collector could free is found out
    try:
        loss = model(*inputs)
        assert seen[0]() is None or loss.requires_grad
        del loss
        assert seen[0]() is None
    finally:
        gc.enable()
