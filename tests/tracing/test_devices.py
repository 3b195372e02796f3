"""What a set-up did on the device before the step: it decides which blocks the step finds in the allocator's cache."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import ckptlib as ck

MiB = 2**20


def zeros(mebibytes: int, **options: str) -> torch.Tensor:
    return torch.zeros(mebibytes * MiB, dtype=torch.uint8, **options)


def scratch_on_device(device):
    zeros(30, device=device)


def scratch_on_host(device):
    zeros(30)


def scratch_moved(device):
    zeros(30).to(device)


def scratch_computed(device):
    zeros(30, device=device).bool()


def scratch_like_a_tensor_of_the_host(device):
    zeros(30, device=zeros(1).device)


def scratch_like_a_tensor_of_the_device(device):
    zeros(30, device=zeros(1, device=device).device)


@pytest.mark.parametrize(
    ("prepare", "reserved"),
    [
        (scratch_on_device, 30),
        (scratch_on_host, 20),
        (scratch_moved, 30),
        (scratch_computed, 60),
        (scratch_like_a_tensor_of_the_host, 20),
        (scratch_like_a_tensor_of_the_device, 32),
    ],
)
def test_the_step_finds_what_set_up_left_in_the_cache(prepare, reserved):
    """A request of 10 MiB or more has a segment of its own, which is kept. A smaller one takes part of 20 MiB."""

    def build(device):
        prepare(device)
        return lambda: zeros(2)

    found = ck.measure(build, "sim:cuda", builds=True)
    assert (found.peak, found.reserved) == (2 * MiB, reserved * MiB)


def test_a_model_that_is_converted_on_the_device_leaves_its_first_weights_in_the_cache():
    def build(device):
        model = nn.Linear(2048, 2048, bias=False).to(device).bfloat16()
        return lambda: model.weight.detach() + 0

    found = ck.measure(build, "sim:cuda", builds=True)
    assert sum(change.nbytes for change in found.timeline.start) == 8 * MiB  # in bfloat16
    assert found.reserved == (16 + 20) * MiB  # the weights in float32 had a segment of their own, which is kept


def test_a_product_in_the_set_up_leaves_the_workspace_of_cublas():
    def build(device):
        a = torch.ones(8, 8, device=device)
        a @ a
        return lambda: a @ a

    found = ck.measure(build, "sim:cuda", builds=True)
    assert found.by_category["workspace"] == 8_519_680
    assert [change.owner.category for change in found.timeline.start] == ["input", "workspace"]
    assert not any(change.owner.category == "workspace" for change in found.timeline.changes)
    snapshot = found.snapshot()  # whose entries must agree with what was there
    assert sum(segment["allocated_size"] for segment in snapshot["segments"]) == 8_519_680 + 2 * 512


def test_a_product_on_the_host_leaves_nothing():
    def build(device):
        a = torch.ones(8, 8)
        b = (a @ a).to(device)
        return lambda: b + 0

    assert not ck.measure(build, "sim:cuda", builds=True).by_category.get("workspace")


def test_a_set_up_that_is_not_told_the_device_is_placed_in_order():
    def build():
        zeros(30)
        kept = zeros(1)
        return lambda: kept + 0

    assert ck.measure(build, "sim:cuda", builds=True).reserved == 2 * MiB
