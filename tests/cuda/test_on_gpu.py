"""Does every function of the library work on CUDA, real or phantom, and count there what it predicts?

The oracles are torch.cuda.memory_stats and, for whole steps, the simulation of this GPU under this torch.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint as torch_checkpoint

import ckptlib as ck
from ckptlib.cuda.gpus import at_release, preset
from ckptlib.cuda.op_choice.cuda_dispatch import as_cuda
from ckptlib.cuda.phantom import launch
from ckptlib.recompute.offload_and_compress import gradient_error

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("fresh_gpu")]
on_phantom = pytest.mark.skipif(not launch.running(), reason="needs a phantom GPU")


def this_gpu():
    return at_release(preset(launch.running() or "a100"), torch.__version__)


def requested():
    """Bytes that were asked for and are in use: without the allocator's rounding."""
    return torch.cuda.memory_stats()["requested_bytes.all.current"]


def chain(n=6):
    return nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Dropout(0.1)) for _ in range(n)))


def rows(n=4096):
    return torch.randn(n, 256, requires_grad=True)


# ---- whole steps, against the simulation ----------------------------------------------------------------------------
def executed(schedule):
    model, x = chain(), rows()
    return lambda: ck.execute(schedule, model, x).sum().backward()


def checkpointed(reentrant):
    model, x = chain(), rows()
    return lambda: ck.checkpoint(model, x, use_reentrant=reentrant).sum().backward()


def packed(make):
    model, x = chain(), rows()

    def step():
        with make():
            loss = model(x).sum()
        loss.backward()

    return step


def selective():
    model, x = chain(), rows()
    policy = ck.selective([torch.ops.aten.addmm.default])
    return lambda: torch_checkpoint(model, x, use_reentrant=False, context_fn=policy).sum().backward()


def trained(optimizer, **options):
    model = chain()
    return model, rows(), lambda y: y.square().mean(), optimizer(model.parameters(), **options)


STEPS = {
    "store_all": partial(executed, ck.store_all(6)),
    "sqrt": partial(executed, ck.sqrt(6)),
    "revolve": partial(executed, ck.revolve(6, 2)),
    "checkpoint, reentrant": partial(checkpointed, True),
    "checkpoint": partial(checkpointed, False),
    "offload to the host": partial(packed, partial(ck.offload, "cpu")),
    "compress to bf16": partial(packed, partial(ck.compress, "bf16")),
    "compress to int8": partial(packed, partial(ck.compress, "int8")),
    "selective": selective,
    "AdamW, not foreach": partial(trained, torch.optim.AdamW, foreach=False),
    **{
        name: partial(trained, getattr(torch.optim, name))
        for name in ("AdamW", "NAdam", "RAdam", "RMSprop", "Adadelta", "Rprop")  # they count steps on the CPU
    },
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_counts_as_simulated(name):
    real = ck.measure(STEPS[name], "cuda", builds=True)
    simulated = ck.measure(STEPS[name], "sim:cuda", builds=True, gpu=this_gpu())
    found, expected = ((m.forward_peak, m.peak, m.reserved) for m in (real, simulated))
    assert found == expected


def test_a_step_is_counted_as_in_a_new_process_whatever_ran_before():
    """As it was the first of this process in the tests above."""
    torch.empty(2**25 + 2**20, device="cuda").add(1)  # leaves blocks in the cache
    for _ in range(2):
        test_a_step_counts_as_simulated("compress to int8")


def test_a_step_offloaded_to_files_counts_as_simulated(tmp_path):
    step = partial(packed, partial(ck.offload, tmp_path))
    simulated = ck.measure(step, "sim:cuda", builds=True, gpu=this_gpu())
    assert ck.measure(step, "cuda", builds=True).peak == simulated.peak
    assert not list(tmp_path.iterdir())


def test_an_offload_leaves_nothing_on_the_device():
    model, x = chain().cuda(), rows().cuda()
    with ck.offload("cpu") as packing:
        loss = model(x).sum()
    before = requested()
    del loss
    assert packing.on_device == 0 and before - requested() == 4  # the loss itself


# ---- parts of a step, against torch.cuda.memory_stats ---------------------------------------------------------------
def test_saved_tensors_and_watch_are_what_forward_leaves_allocated():
    model, x = nn.Sequential(*(nn.Sequential(nn.LayerNorm(256), nn.Tanh()) for _ in range(4))).cuda(), rows().cuda()
    before = requested()
    y = model(x)
    left = requested() - before
    del y
    saved = ck.saved_tensors(lambda: model(x))
    assert saved.nbytes - saved.of("parameter").nbytes - x.nbytes == left
    with ck.watch(model) as watched:
        model(x).sum().backward()
    assert watched.saved - x.nbytes == left
    assert [call.phase for call in watched.log].count("backward") == 13  # modules


def test_watch_sees_what_is_run_again():
    model, x = chain().cuda(), rows(64).cuda()
    with ck.watch(model) as watched:
        ck.checkpoint(model, x, use_reentrant=False).sum().backward()
    assert {call.phase for call in watched.log} == {"forward", "recompute", "backward"} and watched.saved == 0


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1024, 256))

    def forward(self, x):
        return torch.tanh(self.weight * x)


def test_a_ledger_adds_up_to_what_the_allocator_was_asked_for():
    model, x = nn.Sequential(*(Scaled() for _ in range(4))).cuda(), torch.randn(1024, 256, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    account = ck.ledger(model, lambda: model(x).sum().backward())
    assert account.peak == torch.cuda.memory_stats()["requested_bytes.all.peak"]
    weights = 4 * 1024 * 256 * 4
    assert account.by_category["parameter"] == account.by_category["gradient"] == weights


def test_the_state_of_adamw_is_in_the_ledger_without_its_counters():
    model = chain().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    account = ck.ledger(lambda: (model, rows().cuda(), lambda y: y.mean(), optimizer))
    assert account.by_category["optimizer state"] == 2 * sum(p.nbytes for p in model.parameters())


def test_a_profiled_chain_has_the_bytes_of_the_simulation():
    real = ck.profile_chain(chain().cuda(), rows().cuda())
    with as_cuda(this_gpu()):
        simulated = ck.profile_chain(chain(), rows())
    for name in ("x", "dx", "xbar", "ftmp", "btmp", "atmp", "saves_x", "saves_y"):
        assert getattr(real, name) == getattr(simulated, name), name


def test_a_policy_report_counts_as_on_the_cpu():
    def segment(device):
        with torch.device(device):
            return nn.Sequential(nn.Linear(256, 256), nn.GELU()), rows(64)

    policy = [torch.ops.aten.addmm.default]
    on_gpu, on_cpu = (ck.policy_report(partial(segment, device), products=policy) for device in ("cuda", "cpu"))
    assert list(on_gpu) == list(on_cpu)


def test_lint_finds_what_it_finds_on_the_cpu():
    def findings(device):
        model, x = chain().to(device), rows(64).detach().to(device)
        return ck.lint(model, lambda: ck.checkpoint(model, x, use_reentrant=False).sum().backward()).numbers

    assert findings("cuda") == findings("cpu") != set()


@on_phantom
def test_values_are_not_compared_on_a_phantom():
    model, x = chain().cuda(), rows(64).cuda()
    with pytest.raises(ck.CkptError, match="equivalent compares values, and on a phantom GPU all of them are zeros"):
        ck.equivalent(model, lambda m, x: ck.checkpoint(m, x, use_reentrant=False), x)
    with pytest.raises(ck.CkptError, match="gradient_error compares values"):
        gradient_error(lambda: model(x).sum(), model, ck.compress("bf16"))


# ---- plans ----------------------------------------------------------------------------------------------------------
def wide(batch=4096):
    blocks = (nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(6))
    return nn.Sequential(*blocks), torch.randn(batch, 256), lambda y: y.square().mean()


def test_plans_are_measured_on_the_device_and_need_what_simulated_ones_need():
    real, simulated = (ck.plan(wide, device=device, gpu=this_gpu()) for device in ("cuda", "sim:cuda"))
    assert real.costs.xbar == simulated.costs.xbar
    if launch.running():  # the clock says nothing there, so the same plans are offered
        assert real.whole.unit == "FLOPs"
        assert [(o.peak, o.schedule) for o in real.offers] == [(o.peak, o.schedule) for o in simulated.offers]
    half = real.peak // 2
    assert ck.plan(wide, budget=half, device="cuda").peak <= half
    torch._C._cuda_clearCublasWorkspaces()
    assert requested() == 0  # no model of a plan stays on the device
