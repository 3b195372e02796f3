"""Does a phantom GPU refuse clearly where it cannot be, and does it count as published GPUs do where it can?"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential

import ckptlib as ck
from ckptlib.book import doctor
from ckptlib.cuda.gpus import MEMORY, at_release, preset
from ckptlib.cuda.phantom import build, launch
from ckptlib.models.mlp import CHECKPOINTS, mlp_step
from ckptlib.remember.move_to_device import Moved
from ckptlib.remember.user_models import Training

needs_cuda_build = pytest.mark.skipif(torch.version.cuda is None, reason="this is torch's CPU build")


def phantom(*program, gpu="a100", cwd=None, **environment):
    """Run a program on a phantom GPU."""
    command = [sys.executable, "-m", "ckptlib.cli", "phantom", "--gpu", gpu, *map(str, program)]
    given = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", cwd=cwd, env=given)


@pytest.mark.parametrize("card", MEMORY)
def test_every_card_has_a_description(card):
    if card == "h200":  # the chip of an h100
        assert launch.description(card).startswith("h200,132,2048,9,0,")
    name, *numbers = launch.description(card).split(",")
    assert name == launch.card_of(f"phantom:{card}") == card
    assert len(numbers) == 9 and int(numbers[5]) == MEMORY[card]


def test_a_card_has_the_names_that_presets_have():
    assert launch.card_of("phantom") == "a100" and launch.card_of("phantom:hopper") == "h100"
    with pytest.raises(ck.CkptError, match="no preset for the GPU 'a1000'"):
        launch.card_of("phantom:a1000")


def test_other_systems_are_told(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(build.NoPhantom, match="only on Linux, and this is darwin.*sim:cuda"):
        build.libraries()


@pytest.mark.skipif(torch.version.cuda is not None, reason="this is torch's CUDA build")
def test_the_cpu_build_is_told_in_one_line():
    command = [sys.executable, "-m", "ckptlib.cli", "measure", "mlp", "--device", "phantom:a100"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "runs PyTorch's CUDA build" in done.stderr and "sim:cuda" in done.stderr and not done.stdout


def test_the_doctor_says_whether_there_is_one_and_what_is_missing(monkeypatch):
    """Nobody needs one, so it is never a fault."""
    found = doctor.phantom()
    assert found.ok and ("ckptlib phantom" if torch.version.cuda else "PyTorch's CUDA build") in found.says
    monkeypatch.setattr(sys, "platform", "darwin")
    missing = doctor.phantom()
    assert missing.ok and not missing.needed_for and "none is needed" in missing.says and "darwin" in missing.says


def test_no_compiler_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "_torch_folder", lambda: Path(torch.__file__).parent)
    monkeypatch.setattr(build, "_headers", lambda torch: [])
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(build.NoPhantom, match="no C compiler, such as gcc, was found.*sim:cuda"):
        build.libraries()


def test_what_was_compiled_needs_no_compiler_again(monkeypatch, tmp_path):
    def compile_both(compiler, headers, torch, folder):
        for name in (build.CUDA, build.NVML):
            (folder / name).touch()
        return [folder / build.CUDA, folder / build.NVML]

    monkeypatch.setattr(build, "_torch_folder", lambda: Path(torch.__file__).parent)
    monkeypatch.setattr(build, "_headers", lambda torch: [])
    monkeypatch.setattr(build, "_compile", compile_both)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("cc", "nm"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    made = build.libraries()
    monkeypatch.setenv("PATH", "")
    assert build.libraries() == made and all(library.exists() for library in made)


def test_a_cache_that_cannot_be_written_is_told(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(build, "_torch_folder", lambda: Path(torch.__file__).parent)
    monkeypatch.setattr(build, "_headers", lambda torch: [])
    monkeypatch.setattr(build.shutil, "which", lambda name: name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(build.NoPhantom, match="cannot be written.*sim:cuda"):
        build.libraries()


def test_what_was_compiled_before_for_the_same_torch_is_removed(tmp_path):
    for name in ("phantom-a-1", "phantom-a-2", "phantom-b-1", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / build.CUDA).touch()
    build.remove_older(tmp_path / "phantom-a-2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "phantom-a-2", "phantom-b-1"]


def test_stubs_succeed_or_fail_by_library():
    text = build._stubs({"cublasSgemm_v2", "cusolverDnCreate", "cudnnSetStream", "cudaGraphLaunch"})
    assert "int cublasSgemm_v2(void) { return 0; }" in text
    assert 'int cusolverDnCreate(void) { return phantom_note("cusolverDnCreate", 7); }' in text
    assert 'int cudnnSetStream(void) { return phantom_note("cudnnSetStream", 0); }' in text
    assert 'int cudaGraphLaunch(void) { return phantom_note("cudaGraphLaunch", 801); }' in text


def test_a_local_function_cannot_be_sent(monkeypatch):
    monkeypatch.setattr(launch, "environment", lambda card: {})
    with pytest.raises(ck.CkptError, match="needs a process of its own.*top level of a file"):
        launch.call("a100", ck.measure, lambda: None)


# ---- moving what a function built -----------------------------------------------------------------------------------
META = torch.device("meta")  # tensors can be moved there everywhere


def test_everything_that_a_step_uses_is_moved_once():
    model, x, y = nn.Linear(3, 3), torch.randn(2, 3, requires_grad=True), torch.randn(2, 3)
    seen = []

    def loss(out, again=y):
        seen.append((y, again))
        return (out - y).square().mean()

    inputs, partial = (x, {"more": [x]}), functools.partial(loss)

    def step():
        return inputs, model, partial

    inputs, _, moved_loss = Moved(META)(step)()
    assert inputs[0].device == META and inputs[0].requires_grad and inputs[0].is_leaf
    assert inputs[1]["more"][0] is inputs[0]
    assert {p.device for p in model.parameters()} == {META}
    moved_loss(torch.zeros(2, 3, device="meta"))
    assert seen[0][0].device == META and seen[0][0] is seen[0][1]


def test_a_training_is_moved_in_place():
    training = Training(nn.Linear(3, 1), torch.randn(2, 3), lambda out: out.mean())
    assert Moved(META)(training) is training and training.inputs.device == META
    assert next(training.model.parameters()).device == META


def test_a_function_with_a_device_is_told():
    def build_it(device):
        assert device == "cpu"
        return nn.Linear(4, 4, device=device), torch.randn(2, 4, device=device), lambda out: out.sum()

    assert ck.measure(build_it, builds=True).peak > 0


@needs_cuda_build
@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is a GPU, so they run by themselves")
@pytest.mark.slow
def test_everything_marked_gpu_passes_on_a_phantom(root):
    """Where torch's CUDA build is installed and no GPU is. See tests/conftest.py."""
    which = "tests" if torch.__version__ >= "2.13" else "@tests/library.txt"  # chapters need the torch of the book
    done = phantom("-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", which, cwd=root)
    assert done.returncode == 0, done.stdout[-20_000:]


# ---- on CUDA, real or phantom ---------------------------------------------------------------------------------------
on_phantom = pytest.mark.skipif(not launch.running(), reason="needs a phantom GPU")


@pytest.mark.gpu
def test_published_one_linear_layer(fresh_gpu):
    model, x = nn.Linear(1, 1).cuda(), torch.randn(1, 1, device="cuda")
    model(x)
    del model, x
    assert torch.cuda.memory_allocated() == 8_519_680


@pytest.mark.gpu
def test_published_reserved_and_allocated(fresh_gpu):
    kept = torch.randn(1024, 1024, device="cuda"), torch.randn(256, 1024, 1024, 1, device="cuda")
    assert (torch.cuda.memory_reserved(), torch.cuda.memory_allocated()) == (1044 * 2**20, 1028 * 2**20) and kept


@pytest.mark.gpu
def test_published_checkpoint_sequential(fresh_gpu):
    widths = [(1000, 40000), (40000, 1000), (1000, 5)]
    model = nn.Sequential(*(layer for width in widths for layer in (nn.Linear(*width), nn.ReLU()))).cuda()
    x = torch.randn(10, 1000, device="cuda", requires_grad=True)
    out = checkpoint_sequential(model, 2, x, use_reentrant=True)
    out.sum().backward()
    assert torch.cuda.max_memory_allocated() == 659_173_376


@pytest.mark.gpu
def test_published_two_linear_layers(fresh_gpu):
    """In KiB: after every line, and at the peak."""
    seen = []

    def after(made):
        seen.append(torch.cuda.memory_allocated() / 1024)
        return made

    inner = after(nn.Linear(1024, 1024, bias=False, device="cuda"))
    outer = after(nn.Linear(1024, 1, bias=False, device="cuda"))
    x = after(torch.randn(1024, 1024, device="cuda"))
    y = after(inner(x))
    u = after(outer(y))
    loss = after(sum(u))
    after(loss.backward())
    assert seen == [4096, 4100, 8196, 20_612, 20_616, 20_616.5, 33_036.5]
    assert torch.cuda.max_memory_allocated() == 37_133 * 1024


@pytest.mark.gpu
def test_published_forward_peak_of_the_mlp(fresh_gpu):
    """101.04 MB. The published 83.21 MB with a checkpoint had 1 MiB of cuBLASLt's, which torch 2.12 no longer takes."""

    def forward_peak(kind):
        return ck.measure(functools.partial(mlp_step, kind), "cuda", builds=True).forward_peak

    assert forward_peak("none") == 101_040_640
    assert forward_peak("nonreentrant") == 83_214_848 - (2**20 if torch.__version__ >= "2.12" else 0)


WITHOUT_WORKSPACES = """
import os

import torch
from torch import nn

seen = []
model = nn.Linear(256, 250).cuda()
seen.append(torch.cuda.memory_allocated())
adam = torch.optim.Adam(model.parameters())
x = torch.randn(1, 256, device="cuda")
seen.append(torch.cuda.memory_allocated())
for step in range(2):
    if step:
        adam.zero_grad()
        seen.append(torch.cuda.memory_allocated())
    y = model(x)
    seen.append(torch.cuda.memory_allocated())
    y.sum().backward()
    seen.append(torch.cuda.memory_allocated())
    adam.step()
    seen.append(torch.cuda.memory_allocated())
    del y
del model, adam, x
model, x = nn.Linear(1024, 1024).cuda(), torch.randn(512, 1024, device="cuda")
seen.append(round(torch.cuda.memory_allocated() / 2**20, 1))
model(x).mean().backward()
seen.append(round(torch.cuda.memory_allocated() / 2**20, 2))
print(*seen, flush=True)
os._exit(0)
"""


@pytest.mark.gpu
@pytest.mark.slow
def test_published_without_workspaces(tmp_path):
    """Two programs that were measured with CUBLAS_WORKSPACE_CONFIG=:0:0, or in a torch that counted no workspaces."""
    script = tmp_path / "script.py"
    script.write_text(WITHOUT_WORKSPACES, encoding="utf-8")
    given = os.environ | {"CUBLAS_WORKSPACE_CONFIG": ":0:0"}  # which cuBLAS reads once, so in a process of its own
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, encoding="utf-8", env=given)
    first, later = "257024 258048 259072 516096 1030144", "772096 773120 1030144 1030144"
    assert done.stdout.split() == f"{first} {later} 6.0 10.01".split()


@pytest.mark.gpu
@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_a_step_built_on_the_cpu_counts_as_simulated(fresh_gpu, kind):
    gpu = at_release(preset(launch.running() or "a100"), torch.__version__)
    real = ck.measure(functools.partial(mlp_step, kind), "cuda", builds=True)
    simulated = ck.measure(functools.partial(mlp_step, kind), "sim:cuda", builds=True, gpu=gpu)
    assert (real.forward_peak, real.peak, real.reserved) == (
        simulated.forward_peak,
        simulated.peak,
        simulated.reserved,
    )


@pytest.mark.gpu
def test_the_state_of_an_optimizer_is_moved_with_its_model(fresh_gpu):
    model = nn.Linear(3, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(2, 3)).sum().backward()
    optimizer.step()
    Moved(torch.device("cuda"))(lambda: (model, optimizer))
    assert {id(p) for group in optimizer.param_groups for p in group["params"]} == {id(p) for p in model.parameters()}
    assert all(state["exp_avg"].is_cuda and state["exp_avg_sq"].is_cuda for state in optimizer.state.values())


@pytest.mark.gpu
def test_a_step_that_runs_elsewhere_is_an_error(fresh_gpu):
    def step():
        torch.randn(1000, device="cpu").sum()

    with pytest.raises(ck.CkptError, match="allocated nothing on 'cuda'"):
        ck.measure(lambda: step, "cuda", builds=True)


@pytest.mark.gpu
@on_phantom
def test_kernels_of_triton_do_not_run(fresh_gpu):
    """Since torch 2.13 a batch of outer products is one of them, so cuBLAS and its workspace are not needed."""
    made = torch.bmm(torch.ones(8, 512, 1, device="cuda"), torch.ones(8, 1, 512, device="cuda"))
    assert made.shape == (8, 512, 512)


@pytest.mark.gpu
@on_phantom
def test_a_process_from_which_the_card_is_hidden_finds_none():
    ask = "import torch; print(torch.cuda.is_available())"
    found = [
        subprocess.check_output(
            [sys.executable, "-c", ask], text=True, env=os.environ | {"CUDA_VISIBLE_DEVICES": hidden}
        )
        for hidden in ("", "0")
    ]
    assert found == ["False\n", "True\n"]


@pytest.mark.gpu
@on_phantom
def test_a_full_card_is_out_of_memory(fresh_gpu):
    most = torch.cuda.get_device_properties(0).total_memory
    with pytest.raises(torch.cuda.OutOfMemoryError, match=f"total capacity of {most / 2**30:.2f} GiB"):
        torch.empty(most + 1, dtype=torch.uint8, device="cuda")


def one_layer(layer, loss):
    return layer, torch.randn(2, 3, 16, 16), loss


@pytest.mark.gpu
@on_phantom
def test_what_a_phantom_cannot_know_is_named_where_it_was_used(fresh_gpu):
    def unknowns(layer, loss):
        found = ck.measure(lambda: one_layer(layer, loss), f"phantom:{launch.running()}", builds=True)
        assert all(name in str(found) for name in found.unknowns)
        return found.unknowns

    conv, linear = nn.Conv2d(3, 8, 3), nn.Linear(16, 16)
    assert "workspaces are not counted" in unknowns(conv, lambda out: out.mean())["cuDNN"]
    assert "may take another path" in unknowns(linear, lambda out: out.mean() / (1 + out.sum().item()))["values"]
    assert "values, which are zeros" in unknowns(linear, lambda out: out[out > 0].sum() + out.sum())["nonzero"]
    assert unknowns(linear, lambda out: out.mean()) == {}  # though this process has used all of it


VALUE_DEPENDENT = {
    "nonzero": lambda x: x.nonzero(),
    "_unique2": lambda x: x.unique(),
    "masked_select": lambda x: x.masked_select(x > 0),
    "bincount": lambda x: x.long().bincount(),
    "one_hot": lambda x: nn.functional.one_hot(x.long()),
    "repeat_interleave_Tensor": lambda x: torch.repeat_interleave(x.long()),
    "to_sparse": lambda x: x.to_sparse(),
}


@pytest.mark.gpu
@on_phantom
@pytest.mark.parametrize("name", VALUE_DEPENDENT)
def test_an_op_whose_result_depends_on_values_is_named(fresh_gpu, name):
    x, before = torch.ones(100, device="cuda"), launch.used()
    VALUE_DEPENDENT[name](x)
    assert list(launch.unknowns(before)) == [name]


@pytest.mark.gpu
@on_phantom
@pytest.mark.parametrize(
    ("loss", "missing"),
    [
        (torch.linalg.det, "cuSOLVER"),
        (lambda out: torch.fft.fft(out).abs().sum(), "cuFFT"),
        (lambda out: nn.LSTM(8, 8, device="cuda")(out)[0].sum(), "cuDNN"),
    ],
)
def test_a_library_that_a_phantom_lacks_is_an_error_that_names_it(fresh_gpu, loss, missing):
    with pytest.raises(RuntimeError) as raised:
        ck.measure(lambda: (nn.Linear(8, 8), torch.randn(8, 8), loss), "cuda", builds=True)
    assert any(note.startswith(f"phantom GPU: {missing}: ") for note in raised.value.__notes__)


LOOP = """
import sys

import torch
from torch import nn

model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    loss = model(torch.randn(4, 8, device="cuda")).square().mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if "read" in sys.argv:
        loss.item()
"""


@needs_cuda_build
@pytest.mark.slow
def test_a_program_that_reads_values_is_told_once_and_another_is_not(tmp_path):
    script = tmp_path / "loop.py"
    script.write_text(LOOP, encoding="utf-8")
    assert phantom(script).stderr == ""
    told = phantom(script, "read").stderr
    assert told.count("\n") == 1 and told.startswith("phantom GPU: values: the program read values from the device")


@needs_cuda_build
@pytest.mark.slow
def test_expandable_segments_are_counted_and_end_where_the_card_does(tmp_path):
    script = tmp_path / "script.py"
    text = """
import torch

kept = [torch.empty(1024, 1024, device="cuda"), *(torch.empty(3 * 2**20, device="cuda") for _ in range(4))]
print(torch.cuda.memory_allocated() // 2**20, torch.cuda.memory_reserved() // 2**20, len(torch.cuda.memory_snapshot()))
try:
    torch.empty(17 * 2**30, dtype=torch.uint8, device="cuda")
except torch.cuda.OutOfMemoryError:
    print("full", torch.cuda.memory_allocated() // 2**20)
"""
    script.write_text(text, encoding="utf-8")
    done = phantom(script, gpu="t4", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    assert done.stdout == "52 60 1\nfull 52\n"  # one segment, which grows by pages of 20 MiB


def dies():
    os._exit(7)


@needs_cuda_build
@pytest.mark.slow
def test_a_process_that_ends_without_an_answer_is_told():
    with pytest.raises(ck.CkptError, match="ended with exit code 7, without an answer"):
        ck.measure(dies, "phantom:a100")


@needs_cuda_build
@pytest.mark.slow
def test_the_commands_give_the_same_bytes_on_a_phantom_and_simulated(tmp_path):
    text = """
import torch
from torch import nn


def build(batch=4096):
    blocks = (nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(6))
    return nn.Sequential(*blocks), torch.randn(batch, 256), lambda y: y.square().mean()
"""
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    given = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

    def run(*arguments):
        command = [sys.executable, "-m", "ckptlib.cli", *arguments, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", cwd=tmp_path, env=given)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    release = (*"--gpu a100 --torch".split(), torch.__version__)
    on_cuda = "phantom", "-m", "ckptlib.cli"
    for command in ("measure", "plan"):
        simulated = run(command, "mine:build", *release)
        for found in (
            run(command, "mine:build", "--device", "phantom:a100"),
            run(*on_cuda, command, "mine:build", "--device", "cuda"),
        ):
            if command == "plan":
                assert found == simulated
            else:
                peaks = "forward_peak", "step_peak", "reserved_peak"
                assert [found[peak] for peak in peaks] == [simulated[peak] for peak in peaks]


@needs_cuda_build
def test_measure_starts_a_process_of_its_own():
    found = ck.measure(functools.partial(mlp_step, "none"), "phantom:h100", builds=True)
    gpu = at_release(preset("h100"), torch.__version__)
    assert found.peak == ck.measure(functools.partial(mlp_step, "none"), "sim:cuda", builds=True, gpu=gpu).peak


FITTED = """
import torch
from torch import nn

import ckptlib as ck


def build(batch):
    blocks = (nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(6))
    return nn.Sequential(*blocks), torch.randn(batch, 256), lambda y: y.square().mean()


def with_moments():
    model, x, loss = build(found.batch)
    optimizer = torch.optim.AdamW(model.cuda().parameters())
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    optimizer.zero_grad()
    return model, x, loss, optimizer


found = ck.fit(build, gpu="1GiB")
print(found.need.nbytes, ck.measure(with_moments, "cuda", builds=True).peak)
"""


@needs_cuda_build
@pytest.mark.slow
def test_the_largest_batch_needs_what_fit_says(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(FITTED, encoding="utf-8")
    predicted, counted = phantom(script, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True").stdout.split()
    assert predicted == counted and 0.99 * 2**30 < int(counted) <= 2**30
