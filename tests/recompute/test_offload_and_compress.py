"""Packed gradients against autograd's own, packed bytes against hand counts, and nothing left on the disk."""

from __future__ import annotations

import errno
import gc
import math
import os
import shutil
import subprocess
import sys
import threading
from contextlib import nullcontext

import pytest
import torch
from torch import nn

import ckptlib as ck
from ckptlib.errors import CkptError
from ckptlib.models.transformer import GPT, Config
from ckptlib.recompute import disk
from ckptlib.recompute.offload_and_compress import compress, gradient_error, offload

SMALL = Config(layers=2, width=32, heads=4, tokens=16, vocabulary=50)


@pytest.fixture
def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.GELU(), nn.Linear(64, 8))


@pytest.fixture
def x():
    return torch.randn(32, 64)


@pytest.fixture(params=["cpu", "disk"])
def place(request, tmp_path):
    return "cpu" if request.param == "cpu" else tmp_path


def grads(model, x, packing=None):
    model.zero_grad()
    if packing is None:
        model(x).square().sum().backward()
    else:
        with packing:
            loss = model(x).square().sum()
        loss.backward()
    return [p.grad.clone() for p in model.parameters()]


# ---- offload --------------------------------------------------------------------------------------------------------
def test_offloaded_gradients_are_the_same_bits(mlp, x, place):
    for mine, reference in zip(grads(mlp, x, offload(place)), grads(mlp, x), strict=True):
        assert torch.equal(mine, reference)


def test_offload_moves_what_saved_tensors_lists(mlp, x, place):
    saved = ck.saved_tensors(lambda: mlp(x).square().sum())
    expected = saved.nbytes - saved.of("parameter").nbytes
    # by hand: x, relu's output once for relu and linear, gelu's input and output, the result; square's input
    assert expected == 4 * 32 * (64 + 128 + 64 + 64 + 8)
    packing = offload(place)
    grads(mlp, x, packing)
    assert (packing.saved, packing.on_device, packing.moved_out) == (expected, 0, expected)
    assert packing.moved_in >= expected
    assert packing.storages == 5


def test_a_storage_saved_twice_is_packed_once_and_brought_back_once():
    x = torch.randn(8, 8, requires_grad=True)
    with offload("cpu") as packing:
        h = x.exp()  # exp saves h, both factors of the product are h, and its transpose is the same storage
        y = (h * h.t()).sum()
    assert (packing.storages, packing.saved) == (1, 8 * 8 * 4)
    y.backward()
    h = x.exp()
    torch.testing.assert_close(x.grad, torch.autograd.grad((h * h.t()).sum(), x)[0])


def test_two_saves_around_an_in_place_change_are_two_packs(place):
    x = torch.randn(8, requires_grad=True)
    with offload(place) as packing:
        h = x * 1
        a = h.detach()
        y = x * a
        a.mul_(2)  # torch itself would refuse to go back through y now; a packed copy still has the old values
        z = x * a
    assert packing.storages == 2
    (y + z).sum().backward()
    torch.testing.assert_close(x.grad, 3 * x.detach())


@pytest.mark.parametrize("packing", [lambda: offload("cpu"), lambda: compress("int8")])
@pytest.mark.parametrize("frozen", [False, True])
def test_parameters_and_their_transposes_are_not_packed(packing, frozen):
    layer = nn.Linear(16, 16).requires_grad_(not frozen)
    x = torch.randn(4, 16, requires_grad=True)
    with packing() as p:
        layer(x)
    assert p.saved == (0 if frozen else 4 * 16 * 4)


def test_strides_offsets_and_conjugates_survive(place):
    x = torch.randn(6, 6, 6, requires_grad=True)

    def run():
        a = x.exp().transpose(0, 2)[1:, ::2].chunk(2, dim=1)
        z = torch.complex(a[0], a[0]).conj()
        return (a[0] * a[0].flip(0)).sum() + (z * z).real.sum()

    reference = torch.autograd.grad(run(), x)[0]
    with offload(place):
        y = run()
    assert torch.equal(torch.autograd.grad(y, x)[0], reference)


def test_half_precision_and_scalars_on_disk(tmp_path):
    x = torch.randn(7, 5, dtype=torch.bfloat16, requires_grad=True)
    with offload(tmp_path):
        y = x.sigmoid().prod() * x.sum()
    assert torch.equal(torch.autograd.grad(y, x)[0], torch.autograd.grad(x.sigmoid().prod() * x.sum(), x)[0])


def test_a_transformer_with_dropout(place):
    torch.manual_seed(1)
    model, ids = GPT(SMALL), torch.randint(50, (16, 2))
    error = gradient_error(lambda: model(ids).logsumexp(-1).sum(), model, offload(place))
    assert error.worst == 0 and len(error.relative) == len(list(model.parameters()))
    assert "moved" in str(error) and "0.00e+00" in str(error)


def test_double_backward_and_retained_graphs(place):
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    with offload(place):
        y = x.exp().sin().sum()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    (again,) = torch.autograd.grad(y, x, retain_graph=True)
    assert torch.equal(first, again)
    (second,) = torch.autograd.grad(first.sum(), x)
    e = x.detach().exp()
    torch.testing.assert_close(second, e * e.cos() - e * e * e.sin())


def test_a_second_backward_says_so(place):
    x = torch.randn(5, requires_grad=True)
    with offload(place):
        y = x.exp().sum()
    y.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


def test_a_parameter_changed_between_forward_and_backward(mlp, x):
    with offload("cpu"):
        loss = mlp(x.requires_grad_()).sum()
    with torch.no_grad():
        mlp[4].weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation.*before backward"):
        loss.backward()


# ---- files ----------------------------------------------------------------------------------------------------------
def files(path):
    return [p for p in path.rglob("*") if p.is_file()]


def test_files_exist_between_forward_and_backward_only(mlp, x, tmp_path):
    packing = offload(tmp_path)
    with packing:
        loss = mlp(x).square().sum()
    assert len(files(tmp_path)) == 5 and sum(p.stat().st_size for p in files(tmp_path)) == packing.saved
    loss.backward()
    assert not list(tmp_path.iterdir())


def test_files_go_with_a_graph_that_is_dropped(mlp, x, tmp_path):
    with offload(tmp_path):
        loss = mlp(x).square().sum()
    assert files(tmp_path)
    del loss
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_files_go_when_forward_fails(mlp, x, tmp_path):
    with pytest.raises(ZeroDivisionError) as info, offload(tmp_path):
        kept = mlp(x).square().sum()
        assert len(files(tmp_path)) == 5
        1 / 0  # noqa: B018
    assert info.tb and not list(tmp_path.iterdir())  # although the traceback and the graph are still here
    with pytest.raises(RuntimeError, match="forward failed inside"):
        kept.backward()


@pytest.mark.slow
def test_files_go_when_python_exits(tmp_path):
    code = (
        "import sys, torch; from ckptlib.recompute.offload_and_compress import offload\n"
        "x = torch.randn(9, requires_grad=True)\n"
        "with offload(sys.argv[1]): y = x.exp()\n"
        "import os; print(len(os.listdir(sys.argv[1])))"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert (run.stdout.strip(), run.stderr) == ("1", "") and not list(tmp_path.iterdir())


def test_a_full_disk(mlp, x, tmp_path, monkeypatch):
    room, write = [10_000], disk._write

    def limited(path, data):
        if room[0] < len(data):
            write(path, data[: room[0]])  # as a real disk does: part of it is written
            raise OSError(errno.ENOSPC, "No space left on device")
        room[0] -= len(data)
        write(path, data)

    monkeypatch.setattr(disk, "_write", limited)
    with pytest.raises(CkptError, match=r"full: no room for 16,384 B more after 1 files") as info, offload(tmp_path):
        mlp(x).square().sum()
    assert info.tb and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_file_size_limit_set_by_the_system(tmp_path):
    """The kernel's own error, in a process of its own: RLIMIT_FSIZE stays for good."""
    code = (
        "import sys, signal, resource, torch; from ckptlib.recompute.offload_and_compress import offload\n"
        "x = torch.randn(5000, requires_grad=True)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))\n"
        "try:\n    with offload(sys.argv[1]): x.exp()\n"
        "except Exception as e: print(type(e).__name__, e)"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert run.stdout.startswith("OffloadError cannot write 20,000 B to"), run.stderr
    assert "File too large" in run.stdout and not list(tmp_path.iterdir())


def test_a_folder_removed_during_forward(mlp, x, tmp_path):
    folder = tmp_path / "spill"
    folder.mkdir()
    with pytest.raises(CkptError, match="was removed while"), offload(folder):
        h = mlp[0](x)
        shutil.rmtree(folder)
        mlp[1](h)


def test_a_folder_removed_before_backward(mlp, x, tmp_path):
    folder = tmp_path / "spill"
    folder.mkdir()
    with offload(folder):
        loss = mlp(x).sum()
    shutil.rmtree(folder)
    with pytest.raises(CkptError, match="cleaned up between forward and backward"):
        loss.backward()


def test_a_file_cut_short(mlp, x, tmp_path):
    with offload(tmp_path):
        loss = mlp(x).sum()
    for path in files(tmp_path):
        path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(CkptError, match="were written to it"):
        loss.backward()


def test_places_that_do_not_exist(tmp_path):
    with pytest.raises(CkptError, match="expected 'cpu' or an existing folder, and found nothing"):
        offload(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(CkptError, match="found a file"):
        offload(tmp_path / "file")


# ---- compress -------------------------------------------------------------------------------------------------------
def through(packing, x):
    """What x looks like after packing: the gradient of x * w with respect to w."""
    w = torch.ones_like(x, requires_grad=True)
    with packing:
        y = (w * x).sum()
    return torch.autograd.grad(y, w)[0]


def test_bf16_is_torchs_own_rounding():
    x = torch.randn(50, 40)
    packing = compress("bf16")
    assert torch.equal(through(packing, x), x.bfloat16().float())
    # w is saved only if x requires a gradient
    assert (packing.saved, packing.on_device, packing.moved_out) == (8000, 4000, 0)
    assert ((through(compress("bf16"), x) - x).abs() <= 2**-8 * x.abs()).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_int8_errs_by_half_a_step_of_its_row_at_most(dtype):
    x = (torch.randn(50, 40) * torch.logspace(-3, 3, 50)[:, None]).to(dtype)
    packing = compress("int8")
    error = (through(packing, x).double() - x.double()).abs()
    bound = x.abs().amax(1, keepdim=True).double() / 254
    assert (error <= bound * 1.001 + torch.finfo(dtype).eps * x.abs().double()).all()
    assert error.max() > 0
    assert packing.on_device == 50 * 40 + 50 * (8 if dtype is torch.float64 else 4)


def test_int8_zeros_tiny_and_broken_rows():
    x = torch.zeros(4, 32)
    x[1, 0], x[2, 3], x[3] = float("inf"), float("nan"), 1e-42
    y = through(compress("int8"), x)
    assert torch.equal(y[0], x[0]) and y[1].isnan().all() and y[2].isnan().all()
    assert (y[3] - x[3]).abs().max() <= torch.finfo(torch.float32).tiny


def test_rows_follow_the_memory_of_a_transposed_tensor():
    x = (torch.randn(40, 50) * torch.logspace(-3, 3, 40)[:, None]).t()  # one scale per row of the storage
    error = (through(compress("int8"), x) - x).abs()
    assert (error <= x.abs().amax(0, keepdim=True) / 253).all()


@pytest.mark.parametrize("to", ["bf16", "int8"])
def test_integers_and_masks_pass_unchanged(to):
    table, at = nn.Embedding(10, 6), torch.tensor([0, 3, 3, 9, 1])
    with compress(to) as packing:
        y = torch.native_dropout(table(at), 0.5, True)[0].sum()
    assert packing.on_device == packing.saved == at.nbytes + 5 * 6  # indices, and a mask of one byte an element
    y.backward()
    assert table.weight.grad[3].max() in (2.0, 4.0) and not table.weight.grad[2].any()


def test_what_gains_nothing_passes_unchanged():
    half = torch.randn(8, 8, dtype=torch.float16)
    assert torch.equal(through(compress("bf16"), half), half)
    pairs = torch.randn(8, 2, dtype=torch.float64)  # two 8-bit numbers and a scale of 8 bytes, instead of 16
    packing = compress("int8")
    assert (through(packing, pairs) != pairs).any() and packing.on_device == 8 * (2 + 8)
    assert torch.equal(through(compress("int8"), pairs.half()), pairs.half())


def test_error_grows_as_bits_shrink(mlp, x):
    errors = [gradient_error(lambda: mlp(x).square().sum(), mlp, compress(to)) for to in ("bf16", "int8")]
    # 8 bits turn small activations into zeros, and relu's backward takes zeros for negative inputs: not a small error
    assert 0 < errors[0].worst < 0.01 < errors[1].worst < 0.3
    assert errors[0].packing.on_device * 2 == errors[0].packing.saved
    assert errors[1].packing.on_device < 0.3 * errors[1].packing.saved
    assert all(p.grad is None for p in mlp.parameters())


def test_packing_on_fake_tensors():
    def run():
        x = torch.randn(512, 512, requires_grad=True)
        with compress("int8") as packing:
            y = x.exp().sin().sum()
        y.backward()
        return packing

    with torch._subclasses.FakeTensorMode():
        packing = run()
    assert (packing.saved, packing.on_device) == (
        512 * 512 * 4,
        512 * 512 + 512 * 4,
    )  # exp's output, for exp and for sin


def test_mistakes():
    with pytest.raises(CkptError, match="'bf16', 'int8'"):
        compress("int4")
    with pytest.raises(CkptError, match="requires a gradient"):
        gradient_error(lambda: None, {"x": torch.ones(2)}, compress("bf16"))
    model, other = nn.Linear(2, 2), nn.Linear(2, 2)
    with pytest.raises(CkptError, match="loss.. uses none of weight, bias. Does it run another model"):
        gradient_error(lambda: model(torch.ones(1, 2)).sum(), other, compress("bf16"))
    assert str(compress("int8")).startswith("compress('int8'): 0 storages")


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_a_sparse_tensor_is_refused_by_its_layout(layout):
    x, neighbours = torch.ones(4, 4, requires_grad=True), torch.eye(4).to_sparse(layout=layout)
    message = f"packs plain dense tensors; autograd saved a Tensor of layout {layout}"
    with pytest.raises(CkptError, match=message), offload("cpu"):
        torch.sparse.mm(neighbours, x)


def test_bf16_of_float64_has_the_range_of_float32():
    """As the docstring of compress says. int8 keeps a float64 scale, and the value."""
    for value, to, finite in ((1e38, "bf16", True), (1e39, "bf16", False), (1e39, "int8", True)):
        x = torch.full((64, 64), value, dtype=torch.float64, requires_grad=True)
        error = gradient_error(lambda x=x: x.square().sum(), {"x": x}, compress(to))
        assert math.isfinite(error.worst) == finite


def test_the_error_is_that_of_two_runs_and_buffers_move_twice():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    gradient_error(lambda: model(torch.ones(8, 4)).square().sum(), model, offload("cpu"))
    assert model[1].num_batches_tracked == 2


# ---- what a measurement sees ----------------------------------------------------------------------------------------
def build(packing):
    """The set-up of a step that packs: eight layers of 1 MiB, 16 storages saved."""

    def set_up():
        model = nn.Sequential(*[nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(8)])
        x = torch.randn(1024, 256)

        def step():
            with packing() as p:
                loss = model(x).sum()
            loss.backward()
            assert p is None or (p.saved, p.on_device, p.moved_out, p.moved_in) == (16 << 20, 0, 16 << 20, 16 << 20)

        return step

    return set_up


@pytest.mark.parametrize("fake", [False, True])
def test_on_a_simulated_gpu_copies_on_the_host_are_not_device_memory(fake):
    plain = ck.measure(build(nullcontext), "sim:cuda", fake=fake, builds=True)
    found = ck.measure(build(lambda: offload("cpu")), "sim:cuda", fake=fake, builds=True)
    # 16 MiB are saved; three of them are alive anyway, while one is made. The allocator rounds the small ones up.
    assert 0 <= plain.forward_peak - found.forward_peak - (13 << 20) < 4096


def test_what_comes_back_from_disk_is_new_and_not_there_from_the_start(tmp_path):
    host = ck.measure(build(lambda: offload("cpu")), builds=True)
    disk = ck.measure(build(lambda: offload(tmp_path)), builds=True)
    assert host.forward_peak - disk.forward_peak == 16 << 20  # a CPU's host copies are the same memory


def test_a_fake_tensor_cannot_be_written(tmp_path):
    with pytest.raises(CkptError, match="no bytes to write"):
        ck.measure(build(lambda: offload(tmp_path)), fake=True, builds=True)
    assert not list(tmp_path.iterdir())


# ---- threads, interrupts, other processes ---------------------------------------------------------------------------
def test_a_packing_in_use_cannot_be_entered_again_but_later(mlp, x, place):
    packing = offload(place)
    with packing, pytest.raises(CkptError, match="in use already"), packing:
        pass
    assert len(grads(mlp, x, packing)) == 6


def test_backward_in_other_threads(mlp, x, place):
    expected = grads(mlp, x)
    mlp.zero_grad()
    with offload(place):
        loss = mlp(x).square().sum()
    threads = [threading.Thread(target=loss.backward, kwargs={"retain_graph": True}) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.allclose(p.grad, 4 * g) for p, g in zip(mlp.parameters(), expected, strict=True))
    del loss, threads, thread
    assert place == "cpu" or not list(place.iterdir())


def test_an_interrupt_removes_the_files(mlp, x, tmp_path):
    with pytest.raises(KeyboardInterrupt), offload(tmp_path):
        mlp(x)
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_leaves_its_parents_files(tmp_path):
    code = (
        "import sys, os, torch; from ckptlib.recompute.offload_and_compress import offload\n"
        "x = torch.randn(9, requires_grad=True)\n"
        "with offload(sys.argv[1]): y = x.exp().sum()\n"
        "child = os.fork()\n"
        "if not child: del y; sys.exit()\n"
        "os.waitpid(child, 0); y.backward(); print(torch.equal(x.grad, x.exp()))"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert run.stdout.strip() == "True" and not list(tmp_path.iterdir()), run.stderr


def test_a_disk_that_is_really_full(mlp, x, tmp_path):
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path]).returncode:
        pytest.skip("only root can mount a small disk")
    try:
        big = torch.randn(500, 64)
        with pytest.raises(CkptError, match="is full: no room for"), offload(tmp_path):
            mlp(big)
        assert not list(tmp_path.iterdir())
        assert len(grads(mlp, x[:4], offload(tmp_path))) == 6  # there is room again
    finally:
        subprocess.run(["umount", tmp_path], check=True)
