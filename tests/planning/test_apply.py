"""Does a model that keeps to a plan in place train as before, in the bytes of the plan, whatever it is wrapped in?"""

import copy
import importlib
import json
import tempfile
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import ckptlib as ck
from ckptlib.cli import main
from ckptlib.errors import CkptError
from ckptlib.planning.apply import FORMAT, write_plan

WIDTH = 16
EXACT = {"rtol": 1e-12, "atol": 1e-14}


class Block(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(3 * WIDTH, WIDTH)
        self.norm, self.drop = nn.BatchNorm1d(WIDTH), nn.Dropout(dropout)

    def forward(self, x, scale=None):
        y = x + self.drop(self.down(torch.tanh(self.up(self.norm(x)))))
        return y if scale is None else y * scale


class Model(nn.Module):
    """Blocks in a row, every other one with an argument of its own; dropout and running statistics."""

    def __init__(self, dropout=0.1):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dropout) for _ in range(5))

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = block(x, scale=x.new_full((1,), 0.5)) if i % 2 else block(x)
        return x.square().mean()


def built(dropout=0.1, rows=64):
    torch.manual_seed(0)
    return Model(dropout).double(), torch.randn(rows, WIDTH, dtype=torch.float64)


@pytest.fixture(scope="module")
def plans():
    """All that recompute something, and one that has checkpoints inside of checkpoints."""
    found = ck.plan(built, device="cpu", fake=True).offers[:-1]  # fake, so that FLOPs decide and not the clock
    assert all(max(plan.schedule.forwards()) > 1 for plan in found)
    return [*found, nested(found[0])]


def nested(plan):
    return replace(plan, schedule=ck.recompute_all(5))


def trained(model, x, steps=2):
    """The losses, gradients and buffers of some steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    results = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(x)
        loss.backward()
        results += [loss.detach(), *(p.grad.clone() for p in model.parameters()), *(b.clone() for b in model.buffers())]
        optimizer.step()
    return results


def assert_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, **EXACT)


def test_a_model_in_place_has_the_plain_models_gradients_names_and_parameters(plans):
    plain = trained(*built())
    for plan in plans:
        model, x = built()
        before = list(model.state_dict()), [id(p) for p in model.parameters()]
        assert ck.apply(model, plan) is model
        assert_same(trained(model, x), plain)
        assert (list(model.state_dict()), [id(p) for p in model.parameters()]) == before


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "sim:cuda"])
def test_a_step_in_place_needs_the_bytes_of_the_plan(device):
    def many():
        return built(rows=20_000)

    def planned(plan):
        model, x = many()
        return ck.apply(model, plan), x

    offers = ck.plan(many, device=device, fake=True).offers
    for plan in (offers[0], offers[len(offers) // 2]):
        measured = ck.measure(lambda plan=plan: planned(plan), device, builds=True, fake=True)
        assert measured.peak == plan.peak < offers[-1].peak


def test_unapply_leaves_nothing_behind(plans):
    (model, x), (plain, _) = built(), built()
    ck.unapply(ck.apply(model, plans[0]))
    assert [set(vars(m)) for m in model.modules()] == [set(vars(m)) for m in plain.modules()]
    assert_same(trained(model, x), trained(plain, x))
    ran = []
    model.blocks[0].register_forward_hook(lambda *call: ran.append(call))
    model(x).backward()
    assert len(ran) == 1
    with pytest.raises(CkptError, match="keeps to no plan"):
        ck.unapply(model)


def test_a_deep_copy_is_a_plain_model_of_its_own(plans):
    model, x = built()
    plain = trained(*built())
    twin = copy.deepcopy(ck.apply(model, plans[0]))
    assert_same(trained(twin, x), plain)
    assert_same(trained(model, x), plain)  # which the twin's steps have not changed
    with pytest.raises(CkptError, match="Was it copied"):
        ck.unapply(twin)


def test_a_forward_that_failed_or_was_not_reversed_does_not_disturb_the_next(plans):
    model, x = built(dropout=0.0)
    expected = trained(*built(dropout=0.0), steps=1)
    start = copy.deepcopy(model.state_dict())
    ck.apply(model, plans[0])
    with torch.no_grad():
        model(x)
    model(x)
    handle = model.blocks[2].register_forward_pre_hook(lambda *call: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model(x)
    handle.remove()
    model.load_state_dict(start)
    assert_same(trained(model, x, steps=1), expected)
    first, second = model(x), model(x)  # two forwards before two backwards
    model.zero_grad()
    second.backward()
    first.backward()
    assert model.blocks[0].up.weight.grad.isfinite().all()


@pytest.mark.slow
def test_compiled_it_has_the_same_gradients_and_saves_less(plans):
    (model, x), (plain, _) = built(dropout=0.0), built(dropout=0.0)
    for part in (model, plain):
        part.eval()  # running statistics would be updated twice, as by any checkpoint in a compiled program
    ck.apply(model, plans[0])

    def step(one):
        """Its gradients, and the bytes that it saves besides its parameters."""
        saved, own = {}, {p.untyped_storage().data_ptr() for p in one.parameters()}
        torch._dynamo.reset()
        run = torch.compile(one, backend="aot_eager", fullgraph=True)
        one.zero_grad()
        with saved_tensors_hooks(lambda t: saved.update({t.untyped_storage().data_ptr(): t.nbytes}) or t, lambda t: t):
            loss = run(x)
        loss.backward()
        return [p.grad for p in one.parameters()], sum(n for place, n in saved.items() if place not in own)

    (gradients, saved), (expected, all_saved) = step(model), step(plain)
    assert_same(gradients, expected)
    assert saved < 0.5 * all_saved
    with pytest.raises(CkptError, match="the model is compiled: apply the plan first"):
        ck.apply(torch.compile(plain), plans[0])


# ---- many ranks -----------------------------------------------------------------------------------------------------
class Plain(nn.Module):
    """No dropout and no running statistics: the ranks' gradients are the mean of those of one process."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(5))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


def built_plain():
    torch.manual_seed(0)
    return Plain().double(), torch.randn(64, WIDTH, dtype=torch.float64)


def wrapped(model, kind):
    if kind == "ddp":
        return DistributedDataParallel(model)
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def rank(number, ranks, address, paths):
    dist.init_process_group("gloo", init_method=f"file://{address}", rank=number, world_size=ranks)
    data = [torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(r)).double() for r in range(ranks)]
    plain, _ = built_plain()
    (sum(map(plain, data)) / ranks).backward()
    for path in paths:
        for kind in ("ddp", "fsdp2"):
            for early in (True, False):  # applied before the model is wrapped, or afterwards
                model, _ = built_plain()
                model = wrapped(ck.apply(model, path), kind) if early else ck.apply(wrapped(model, kind), path)
                for _ in range(2):  # the second step begins with everything as the first has left it
                    model.zero_grad()
                    model(data[number]).backward()
                    found = [p.grad.full_tensor() if kind == "fsdp2" else p.grad for p in model.parameters()]
                    assert_same(found, [p.grad for p in plain.parameters()])
                ck.unapply(model)
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_under_ddp_and_fsdp2_the_gradients_are_those_of_one_process(tmp_path, ranks):
    paths = []
    found = ck.plan(built_plain, device="cpu", fake=True).offers[0]
    for i, plan in enumerate([found, nested(found)]):
        assert max(plan.schedule.forwards()) > 1
        paths.append(str(tmp_path / f"plan{i}.json"))
        write_plan(plan, paths[-1])
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank, (ranks, f"{folder}/meeting", paths), nprocs=ranks)


# ---- files ----------------------------------------------------------------------------------------------------------
def test_a_plan_in_a_file_is_the_plan(plans, tmp_path):
    path = tmp_path / "plan.json"
    write_plan(plans[0], path)
    model, x = built()
    assert_same(trained(ck.apply(model, path), x), trained(*built()))
    assert json.loads(path.read_text(encoding="utf-8"))["step_peak"] == plans[0].peak


@pytest.mark.slow
def test_the_command_writes_a_plan_that_keeps_to_the_budget(tmp_path, monkeypatch, capsys):
    (tmp_path / "planned_model.py").write_text(
        "import torch\nfrom torch import nn\n\n\ndef build():\n    torch.manual_seed(0)\n"
        "    blocks = (nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(6))\n"
        "    return nn.Sequential(*blocks), torch.randn(32768, 64), lambda y: y.square().mean()\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "planned_model:build", "--fake", "--budget", "100MB", "--write", "plan.json"]) == 0
    assert "Written: plan.json. In your training: ck.apply(model, 'plan.json')" in capsys.readouterr().out
    build = importlib.import_module("planned_model").build

    def planned():
        model, *rest = build()
        return ck.apply(model, "plan.json"), *rest

    with_plan, without = (ck.measure(f, "sim:cuda", builds=True, fake=True).peak for f in (planned, build))
    assert with_plan <= 100_000_000 < without
    assert main(["plan", "planned_model:build", "--write", "plan.json"]) == 2
    assert "--write needs --budget" in capsys.readouterr().err


def test_what_cannot_be_applied_is_told(plans, tmp_path):
    model, _ = built()
    cases = [
        (lambda: ck.apply([nn.Tanh()], plans[0]), "model is a list, but apply changes an nn.Module"),
        (lambda: ck.apply(nn.Linear(2, 2), plans[0]), "for blocks blocks.0 … blocks.4, but .*made for another model"),
        (lambda: ck.apply(model, 3), "plan is a int, expected the result of ck.plan"),
        (lambda: ck.apply(model, tmp_path / "none.json"), "cannot read the plan"),
        (lambda: ck.apply(ck.apply(model, plans[0]), plans[0]), "keeps to a plan already"),
        (lambda: write_plan(plans[0], tmp_path), "cannot write the plan"),
    ]
    for contents, message in [
        ("{", "is not JSON"),
        ("{}", "not a plan of this release"),
        (json.dumps({"format": FORMAT}), "complete"),
    ]:
        path = tmp_path / f"{len(cases)}.json"
        path.write_text(contents)
        cases.append((lambda path=path: ck.apply(nn.Linear(2, 2), path), message))
    for call, message in cases:
        with pytest.raises(CkptError, match=message):
            call()
