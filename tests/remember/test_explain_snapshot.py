"""Is a snapshot's peak what the allocator counted, block by block, whoever recorded it?"""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import ckptlib as ck
from ckptlib.cuda.allocator import AllocatorRules, CachingAllocator
from ckptlib.cuda.snapshot import load, of_simulation
from ckptlib.models.mlp import CHECKPOINTS, mlp_step
from ckptlib.remember.explain_snapshot import RecordedBlock
from ckptlib.tracing.events import Storage, Trace
from ckptlib.tracing.timeline import Change, Timeline
from ckptlib.units import MiB

RECORDED = Path(__file__).parents[1] / "cuda" / "recorded_snapshot.pickle"  # by PyTorch: see test_snapshot.py there
PEAK, RESERVED, AT_FIRST = 41_681_920, 65_011_712, 2_944_000  # as torch.cuda counted
SEGMENT = {"device": 0, "address": 0, "total_size": 512}
SEGMENT["blocks"] = [{"size": 512, "state": "active_allocated", "frames": [{"name": "step", "line": 3}]}]
OWNER = Storage(-1, 0, None, "", "forward", "temporary", (), torch.uint8)
RULES = [AllocatorRules(), AllocatorRules(expandable_segments=True), AllocatorRules(max_split_size=32 * MiB)]


# ---- recorded by PyTorch --------------------------------------------------------------------------------------------
def test_the_peak_of_pytorchs_own_record_is_what_torch_counted():
    found = ck.explain(RECORDED)
    assert (found.allocated, found.reserved, found.before) == (PEAK, RESERVED, AT_FIRST)
    assert sum(block.size for block in found.blocks) == PEAK and found.notes == []
    assert not found.ours
    frames = found.by("frame")
    assert sum(frames.values()) == PEAK and list(frames.values()) == sorted(frames.values(), reverse=True)
    assert next(iter(frames)).startswith("test_snapshot.py:") and next(iter(frames)).endswith(":step")
    assert frames["(there before the record began)"] == AT_FIRST
    assert "after entry 31 of 91" in str(found)


def test_a_record_that_lost_its_beginning():
    """PyTorch keeps the last max_entries entries. What came before them is known from the memory at the end."""
    whole = load(RECORDED)
    full = ck.explain(whole)
    for kept in range(len(full.entries)):
        cut = whole | {"device_traces": [full.entries[len(full.entries) - kept :]]}
        found = ck.explain(cut)
        assert found.totals == full.totals[len(full.entries) - kept :], kept
        assert found.notes == [] if kept else "No history was recorded" in found.notes[0]


def test_the_formats_of_older_releases():
    """torch 2.0 had no addresses in blocks, and wrote frames and sizes into a block's history."""
    new = load(RECORDED)
    old = new | {"segments": [segment | {"blocks": []} for segment in new["segments"]]}
    for segment, before in zip(old["segments"], new["segments"], strict=True):
        for block in before["blocks"]:
            history = [{"real_size": block["requested_size"], "frames": block["frames"]}]
            segment["blocks"].append({"size": block["size"], "state": block["state"], "history": history})
    assert ck.explain(old).by("frame") == ck.explain(new).by("frame")


def test_two_devices():
    first = load(RECORDED)
    second = [segment | {"device": 1} for segment in first["segments"]]
    both = first | {"segments": [*first["segments"], *second], "device_traces": [*first["device_traces"], []]}
    assert ck.explain(both).device == 0  # whose record shows a peak
    assert ck.explain(both, 1).allocated == sum(segment["allocated_size"] for segment in second)
    with pytest.raises(ck.CkptError, match=r"device 2 is not in the snapshot, which has \[0, 1\]"):
        ck.explain(both, 2)


def test_another_stream_and_running_out_of_memory():
    """A block that another stream still uses is no longer allocated, but nobody else can have it."""
    entry = {"stream": 0, "frames": []}
    entries = [
        entry | {"action": "segment_alloc", "addr": 0, "size": 20 * MiB},
        entry | {"action": "alloc", "addr": 0, "size": 4 * MiB},
        entry | {"action": "free_requested", "addr": 0, "size": 4 * MiB},
        entry | {"action": "alloc", "addr": 4 * MiB, "size": 15 * MiB + 512 * 1024},  # gets the rest of the segment
        entry | {"action": "oom", "size": 30 * MiB, "device_free": 10 * MiB},
        entry | {"action": "free_completed", "addr": 0, "size": 4 * MiB},
    ]
    blocks = [{"size": 4 * MiB, "state": "inactive"}]
    blocks += [{"size": 16 * MiB, "requested_size": 15 * MiB + 512 * 1024, "state": "active_allocated", "frames": []}]
    segment = {"device": 0, "address": 0, "total_size": 20 * MiB, "blocks": blocks}
    found = ck.explain({"segments": [segment], "device_traces": [entries]})
    assert [total[0] // MiB for total in found.totals] == [0, 0, 4, 0, 16, 16, 16]
    assert found.notes == [
        "Entry 5: out of memory. 30.00 MiB were asked for, when 16.00 MiB were allocated, 20.00 MiB were reserved, and "
        "10.00 MiB of the GPU were free."
    ]


def test_backward_has_no_python_but_a_node():
    """The frames of two blocks, as torch 2.13 recorded them with stacks="all", shortened."""
    names = ["torch::unwind::unwind()", "at::detail::empty_cuda(c10::ArrayRef<long>)", "at::_ops::mm::call(at::Tensor)"]
    forward = [{"filename": "??", "line": 0, "name": name} for name in names]
    node = "torch::autograd::generated::AddmmBackward0::apply(std::vector<at::Tensor>&&)"
    backward = [*forward, {"filename": "??", "line": 0, "name": node}]
    layer = {"filename": "/env/lib/python3.12/site-packages/torch/nn/modules/linear.py", "line": 134, "name": "forward"}
    own = {"filename": "/home/me/torch/train.py", "line": 7, "name": "step"}
    asked = {"mm": forward, "AddmmBackward0": backward, "train.py:7:step": [*forward, layer, own]}
    asked["linear.py:134:forward"] = [layer]
    for expected, frames in asked.items():
        assert RecordedBlock(0, 512, 512, frames).name("frame") == expected


@pytest.mark.parametrize(
    ("snapshot", "message"),
    [
        ({"segments": [], "device_traces": []}, "the snapshot is empty"),
        (
            {"segments": [{"device": 0}], "device_traces": []},
            "not a snapshot as PyTorch writes it.*KeyError: 'address'",
        ),
        ({"segments": [SEGMENT], "device_traces": []}, "not a snapshot as PyTorch writes it.*'filename'"),
        ({"segments": [3], "device_traces": [[]]}, "not a snapshot as PyTorch writes it"),
        ({"segments": [], "device_traces": [["alloc"]]}, "not a snapshot as PyTorch writes it"),
    ],
)
def test_what_is_not_a_snapshot_is_refused(snapshot, message):
    with pytest.raises(ck.CkptError, match=message):
        ck.explain(snapshot)


# ---- recorded by us -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_the_peak_is_the_measurements(checkpoint, rules):
    result = ck.measure(partial(mlp_step, checkpoint), "sim:cuda", builds=True, rules=rules)
    found = ck.explain(result.snapshot())
    assert (found.allocated, found.totals[-1][1]) == (result.peak, result.allocator.reserved)
    assert {name: found.by("category")[name] for name in result.by_category} == result.by_category
    assert found.by("module") == result.by_module
    assert found.before == sum(change.nbytes for change in result.timeline.start) and found.notes == []
    with pytest.raises(ck.CkptError, match="there is no 'line' in a snapshot: expected one of op, tensor"):
        found.by("line")


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 24 * MiB) | st.integers(1, 2000)), min_size=1, max_size=60),
    st.sampled_from(RULES),
    st.integers(0, 100),
)
def test_every_block_has_the_allocators_size(actions, rules, cut):
    """Any program, recorded from any moment on: the sizes come from addresses alone."""
    gpu = CachingAllocator(rules)
    gpu.history = []
    live, changes = [], []
    for choice, nbytes in actions:
        if choice < len(live):
            gpu.free(block := live.pop(choice))
            changes.append(-block.size)
        else:
            live.append(gpu.malloc(nbytes, tag=OWNER))
            changes.append(live[-1].size)
    snapshot = of_simulation(gpu, Timeline([], [Change(n, OWNER, "forward", -1) for n in changes]), Trace())
    entries = snapshot["device_traces"][0]
    found = ck.explain(snapshot)
    moves = zip(found.totals[1:], entries, strict=True)
    counted = [total for (total, _), entry in moves if entry["action"] in ("alloc", "free_requested")]
    assert counted == list(accumulate(changes))
    assert found.totals[-1] == (gpu.allocated, gpu.reserved) and found.allocated == gpu.peak_allocated
    cut %= len(entries)
    shorter = ck.explain(snapshot | {"device_traces": [entries[cut:]]})
    assert shorter.totals == found.totals[cut:]
