"""The front door: the same run by several ways of measuring, and a clear answer to every wrong question."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import ckptlib as ck
from ckptlib.cli import main
from ckptlib.cuda.allocator import CUDA_RULES, OutOfMemory
from ckptlib.cuda.gpus import PRESETS
from ckptlib.cuda.real_gpu import NoSuchDevice
from ckptlib.errors import CkptError


def build(rows: int = 64):
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8))
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        model(torch.randn(rows, 32)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def test_cpu_peak_by_hand():
    """x * x: x, the sum and its seed of 4 bytes each, and the two gradients of the product, before one takes both."""
    x = torch.randn(1000, requires_grad=True)
    result = ck.measure(lambda: (x * x).sum().backward())
    assert result.forward_peak == 4000 + 4000 + 4  # x, its square, the sum of that
    assert result.peak == 4000 + 2 * 4000 + 2 * 4
    assert result.timeline.total(-1) == 4000  # x was there before
    assert result.by_category["input"] == 4000
    assert result.timeline.total(len(result.timeline.changes) - 1) == 8000  # x and its gradient stay


def test_real_and_fake_runs_agree():
    for device in ("cpu", "sim:cuda"):
        real, fake = (ck.measure(build, device, builds=True, fake=fake) for fake in (False, True))
        assert (real.peak, real.forward_peak, real.by_category) == (fake.peak, fake.forward_peak, fake.by_category)


def test_a_built_step_and_a_ready_step_agree():
    ready = ck.measure(build(), "sim:cuda")
    built = ck.measure(build, "sim:cuda", builds=True)
    assert (ready.peak, ready.forward_peak) == (built.peak, built.forward_peak)


def test_breakdowns_add_up_to_the_peak():
    result = ck.measure(build, "sim:cuda", builds=True)
    assert sum(result.by_category.values()) == sum(result.by_module.values()) == result.peak
    assert sum(change.nbytes for change in result.at_peak) == result.peak
    assert sum(row[result.timeline.peak_moment] for row in result.timeline.stacked().values()) == result.peak
    assert result.reserved >= result.peak
    assert "peak before backward" in str(result)
    assert "<table>" in result._repr_html_()


def test_the_peak_may_be_the_start():
    x, y = torch.randn(1000), torch.randn(10)

    def step():
        nonlocal x
        x.sum()
        x = None

    result = ck.measure(step)
    assert (result.peak, result.timeline.peak_moment) == (4004, 0)  # x and its sum
    assert ck.measure(lambda: y.sub_(1)).timeline.peak_moment == -1  # nothing is ever added to what was there


def test_fn_may_return_nothing_and_do_nothing():
    result = ck.measure(lambda: None)
    assert (result.peak, result.by_category) == (0, {})
    assert ck.measure(lambda: None, "sim:cuda").peak == 0


def test_capacity():
    enough = ck.measure(build, "sim:cuda", builds=True, capacity=100 * 2**20)
    assert enough.peak < 100 * 2**20
    with pytest.raises(OutOfMemory, match="Tried to allocate"):
        ck.measure(build, "sim:cuda", builds=True, capacity=3 * 2**20)


@pytest.mark.parametrize("gpu", PRESETS)
def test_every_preset_runs(gpu):
    assert ck.measure(build, "sim:cuda", builds=True, fake=True, gpu=gpu).peak > 0


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "xpu"])
def test_no_accelerator_is_said_and_never_0(device):
    if torch.accelerator.is_available():
        pytest.skip("there is an accelerator here")
    with pytest.raises(NoSuchDevice, match="sim:cuda"):
        ck.measure(build, device, builds=True)


@pytest.mark.parametrize("device", ["tpu9", "cpu:banana", ""])
def test_unknown_device(device):
    with pytest.raises(NoSuchDevice, match="expected 'cpu', 'sim:cuda'"):
        ck.measure(lambda: None, device)


def test_unknown_gpu():
    with pytest.raises(CkptError, match="a100"):
        ck.measure(lambda: None, "sim:cuda", gpu="voodoo")


def test_not_callable():
    with pytest.raises(CkptError, match="Was it called already"):
        ck.measure(build()())


def test_builds_needs_a_step():
    with pytest.raises(CkptError, match="with builds=True, returned int, expected a function: the step"):
        ck.measure(lambda: 3, builds=True)


def test_hidden_needs_real_cpu_tensors():
    with pytest.raises(CkptError, match="real tensors"):
        ck.measure(build, "sim:cuda", hidden=True)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"capacity": 1}, "capacity"),
        ({"gpu": "h100"}, "gpu"),
        ({"rules": CUDA_RULES}, "rules"),
        ({"gpu": "a100", "capacity": 2**30}, "gpu and capacity"),
    ],
)
def test_what_describes_a_simulated_gpu_is_not_ignored_elsewhere(device, options, named):
    with pytest.raises(CkptError, match=f"got {named}, .* device is '{device}'.*device='sim:cuda' left out"):
        ck.measure(build, device, builds=True, **options)


def test_an_error_half_way_is_the_users_own():
    def step():
        nn.Linear(3, 3)(torch.randn(2, 3))
        raise ZeroDivisionError("mine")

    for device in ("cpu", "sim:cuda"):
        with pytest.raises(ZeroDivisionError, match="mine"):
            ck.measure(step, device)
    assert not _get_current_dispatch_mode_stack()
    assert torch.optim.Adam([nn.Parameter(torch.ones(1))]).defaults["foreach"] is None


def test_a_model_on_two_devices():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3, device="meta"))
    for ask in (ck.measure, ck.saved_tensors):
        with pytest.raises(CkptError, match=r"on 2 devices: cpu \(0.weight\), meta \(1.weight\)"):
            ask(lambda: model(torch.randn(2, 3)))


@pytest.mark.parametrize("device", ["cpu", "sim:cuda"])
def test_a_meta_model_counts_as_the_model_it_stands_for(device):
    def peaks(where):
        with torch.device(where):
            model, x = nn.Linear(100, 100), torch.randn(64, 100)
        result = ck.measure(lambda: model(x).sum().backward(), device)
        return result.peak, result.forward_peak, result.by_category

    assert peaks("meta") == peaks("cpu")
    assert peaks("meta")[0] > 2 * (100 * 100 + 100) * 4  # parameters and gradients


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_a_sparse_product_on_the_simulated_gpu(layout):
    """It is cuSPARSE's, not cuBLAS's: no workspace for it, and its buffer is an honest unknown."""
    a, x = torch.eye(100).to_sparse(layout=layout), torch.randn(100, 8, requires_grad=True)
    result = ck.measure(lambda: torch.sparse.mm(a, x).sum().backward(), "sim:cuda")
    assert "workspace" not in result.by_category
    assert all("cuSPARSE" in why for why in result.unknowns.values())
    assert {"aten._sparse_addmm.default", "aten.mm.default"} == set(result.unknowns)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_product_on_the_simulated_gpu():
    ragged = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)])
    assert ck.measure(lambda: torch.bmm(ragged, ragged.transpose(1, 2)), "sim:cuda").peak > 0


def test_marks_and_peaks_between_them():
    def program():
        x = torch.empty(1000)
        ck.mark("one")
        y = torch.empty(5000)
        del y
        ck.mark("two")
        del x
        ck.mark("three")

    marks = ck.measure(program).marks
    assert [(m.label, m.allocated, m.peak) for m in marks] == [
        ("one", 4000, 4000),
        ("two", 4000, 24000),
        ("three", 0, 4000),
    ]


def test_the_front_door_can_be_read():
    assert "fake" in inspect.signature(ck.measure).parameters
    assert "what memory it needed" in ck.measure.__doc__


# ---- the command --------------------------------------------------------------------------------------------------


def command(*args: str, cwd=None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "ckptlib.cli", "measure", *args], capture_output=True, text=True, cwd=cwd
    )


@pytest.fixture(scope="module")
def user_module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mine")
    (folder / "mine.py").write_text(
        "import torch\n"
        "def build_step():\n"
        "    model = torch.nn.Linear(4, 4)\n"
        "    return lambda: model(torch.ones(2, 4)).sum().backward()\n"
        "def forgot():\n"
        "    return torch.ones(3)\n"
        "def raises():\n"
        "    raise OSError('my own trouble')\n"
        "number = 3\n"
    )
    return folder


@pytest.mark.slow
def test_measure_mlp_json():
    done = command("mlp", "--checkpoint", "nonreentrant", "--device", "sim:cuda", "--json")
    figures = json.loads(done.stdout)
    assert figures["forward_peak"] == 83_214_848
    assert figures["step_peak"] == ck.measure(lambda: ck.models.mlp_step("nonreentrant"), "sim:cuda", builds=True).peak


@pytest.mark.slow
def test_measure_ones_own_model(user_module):
    done = command("mine:build_step", "--json", cwd=user_module)
    assert json.loads(done.stdout)["step_peak"] > 8_519_680, done.stderr
    assert "peak before backward" in command("mine:build_step", "--fake", cwd=user_module).stdout
    assert "memory on cpu" in command("mine:build_step", "--device", "cpu", cwd=user_module).stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["mine:forgot"], "returned Tensor, expected a function"),
        (["mine:number"], "is of type int, expected a function"),
        (["mine:nothing"], "has no function 'nothing'. It has build_step"),
        (["nowhere:build"], "no module 'nowhere'"),
        (["mine"], "expected package.module:function"),
        (["./mine.py:build_step"], "expected package.module:function"),
        (["mine:build_step", "--plot", "nowhere/a.svg"], "cannot draw to nowhere/a.svg"),
        (["mlp", "--checkpoint", "half"], "expected one of none, reentrant, nonreentrant"),
        (["mlp", "--device", "cuda"], "no accelerator"),
        (["mlp", "--gpu", "voodoo"], "no preset"),
        (["mlp", "--torch", "two"], "no torch release"),
        (["mlp", "--device", "cpu", "--gpu", "h100"], "got --gpu, for a simulated GPU, but --device is 'cpu'"),
        (["mlp", "--device", "cpu", "--gpu", "h100", "--torch", "2.9"], "got --gpu and --torch, for a simulated GPU"),
    ],
)
def test_wrong_targets(user_module, args, message, monkeypatch, capsys):
    monkeypatch.chdir(user_module)
    assert main(["measure", *args]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


def test_an_error_in_ones_own_code_keeps_its_traceback(user_module):
    done = command("mine:raises", cwd=user_module)
    assert done.returncode == 1
    assert "my own trouble" in done.stderr
    assert "Traceback" in done.stderr


def with_adamw(rows: int = 64):
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8))
    loss = lambda y: y.square().mean()  # noqa: E731
    return model, torch.randn(rows, 32), loss, torch.optim.AdamW(model.parameters())


PARAMETERS = 4 * (32 * 64 + 64 + 64 * 8 + 8)
COUNTERS = 4 * 4  # one number for each of four parameters


@pytest.mark.parametrize("fake", [False, True])
def test_a_later_step_holds_the_optimizers_state_from_its_start(fake):
    """Two moments for each weight, and a counter for each parameter. The first step makes them at its end."""
    first, second, third = (ck.measure(with_adamw, builds=True, fake=fake, step=n) for n in (1, 2, 3))
    assert second.forward_peak - first.forward_peak == 2 * PARAMETERS + COUNTERS
    assert (second.peak, second.forward_peak) == (third.peak, third.forward_peak)
    assert sum("first step, in which the optimizer made its state" in note for note in first.notes) == 1
    assert any("this was step 3: those before it ran first" in note for note in third.notes)


def test_a_later_step_is_the_one_that_follows_the_first_in_a_loop():
    """The same step, called once before it is measured."""
    step = build()
    later = ck.measure(step, step=2)
    again = ck.measure(step)
    assert (later.peak, later.by_category) == (again.peak, again.by_category)
    assert ck.measure(build, builds=True, step=2).peak == later.peak
    simulated = ck.measure(build, "sim:cuda", builds=True, fake=True, step=2)
    assert simulated.by_category["optimizer state"] >= 2 * PARAMETERS


@pytest.mark.parametrize("step", [0, -1, 1.5, True])
def test_a_step_that_is_none_is_refused(step):
    with pytest.raises(CkptError, match="expected the number of the step to measure"):
        ck.measure(build, builds=True, step=step)


def test_the_command_measures_a_later_step(tmp_path, monkeypatch, capsys):
    (tmp_path / "with_optimizer.py").write_text(
        "import torch\n\n\ndef build():\n    model = torch.nn.Linear(64, 64)\n"
        "    return model, torch.ones(2, 64), torch.sum, torch.optim.AdamW(model.parameters())\n"
    )
    monkeypatch.chdir(tmp_path)
    peaks = []
    for step in ("1", "2"):
        assert main(["measure", "with_optimizer:build", "--device", "cpu", "--step", step, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["step"] == int(step)
        peaks.append(found["forward_peak"])
    assert peaks[1] - peaks[0] == 2 * 4 * (64 * 64 + 64) + 2 * 4
