"""Is a snapshot of ours what PyTorch would have recorded, and does nothing happen when a file is read?

`recorded_snapshot.pickle` is PyTorch's own record of `program`, made by torch 2.13 on a phantom A100:
    ckptlib phantom --gpu a100 tests/cuda/test_snapshot.py
"""

from __future__ import annotations

import os
import pickle
import pickletools
import re
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.cuda import _memory_viz as viz

import ckptlib as ck
from ckptlib.cuda.allocator import AllocatorRules, CachingAllocator
from ckptlib.cuda.gpus import at_release, preset
from ckptlib.cuda.snapshot import load, of_simulation, save
from ckptlib.models.mlp import mlp_step
from ckptlib.tracing.events import Storage, Trace
from ckptlib.tracing.timeline import Change, Timeline

RECORDED = Path(__file__).with_name("recorded_snapshot.pickle")
# What PyTorch's viewer can read of the pickle format (`unpickle` in torch/utils/viz/MemoryViz.js).
READABLE = set(
    """APPENDS BINGET BININT BININT1 BININT2 EMPTY_DICT EMPTY_LIST FRAME LONG1 LONG_BINGET MARK MEMOIZE PROTO SETITEMS
    SHORT_BINUNICODE STOP TUPLE2 APPEND NEWFALSE BINPUT BINUNICODE EMPTY_TUPLE NEWTRUE NONE BINFLOAT TUPLE TUPLE1 TUPLE3
    LONG_BINPUT LIST DICT SETITEM""".split()
)


def program(device: str = "cpu"):
    """A training step whose blocks are of both pools, cut, reused, and too small a rest to be cut."""
    model = nn.Sequential(nn.Linear(600, 1200), nn.GELU(), nn.LayerNorm(1200), nn.Linear(1200, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        model(torch.ones(1000, 600, device=device)).square().mean().backward()
        optimizer.step()

    return step


def record() -> None:
    """Run `program` on this process's GPU, and keep what PyTorch writes down, with names of files that all have."""
    from ckptlib.torch_internals import memory_snapshot, record_memory_history

    step = program("cuda")
    record_memory_history("all", stacks="python")
    step()
    found = memory_snapshot()
    root = str(Path(__file__).resolve().parents[2]) + os.sep
    entries = [*found["device_traces"][0], *found["segments"], *(b for s in found["segments"] for b in s["blocks"])]
    for frame in (frame for entry in entries for frame in entry.get("frames", ())):
        frame["filename"] = re.sub(r".*/site-packages/|.*/lib/python[^/]*/", "", frame["filename"].removeprefix(root))
    RECORDED.write_bytes(pickle.dumps(found, protocol=4))
    print(f"{torch.cuda.max_memory_allocated()} bytes at the peak, {torch.cuda.max_memory_reserved()} reserved")


A100 = at_release(preset("a100"), "2.13")
PEAK, RESERVED = 41_681_920, 65_011_712  # what torch.cuda counted, as `record` printed


@pytest.fixture(scope="module")
def recorded() -> dict:
    return load(RECORDED)


@pytest.fixture(scope="module")
def simulated() -> ck.measure:
    return ck.measure(program, "sim:cuda", builds=True, gpu=A100)


# ---- against PyTorch's own record -----------------------------------------------------------------------------------
def kinds(value, at=""):
    """The types of everything in a snapshot, by where it is."""
    found = {(at, type(value).__name__)}
    if isinstance(value, dict):
        for key, inner in value.items():
            found |= kinds(inner, f"{at}.{key}")
    elif isinstance(value, list):
        for inner in value:
            found |= kinds(inner, f"{at}[]")
    return found


def test_keys_and_types_are_those_of_pytorch(recorded, simulated):
    ours = kinds(simulated.snapshot())
    theirs = kinds(recorded | {"external_annotations": []})  # ranges that a program names for the profiler
    assert theirs - ours == set()
    assert {at for at, _ in ours - theirs} == {".device_traces[][].category"}  # which the viewer colours blocks by


def test_segments_are_those_of_pytorch(recorded, simulated):
    def described(snapshot: dict) -> list:
        segments = sorted(snapshot["segments"], key=lambda segment: segment["address"])
        facts = ("total_size", "allocated_size", "active_size", "requested_size", "segment_type", "is_expandable")
        return [
            [*(segment[fact] for fact in facts), [(block["size"], block["state"]) for block in segment["blocks"]]]
            for segment in segments
        ]

    assert described(simulated.snapshot()) == described(recorded)


def test_entries_are_those_of_pytorch(recorded, simulated):
    def in_step(snapshot: dict) -> list:
        entries = [e for e in snapshot["device_traces"][0] if e["user_metadata"] != "before"]
        first = min(segment["address"] for segment in snapshot["segments"])
        return [(e["action"], e["size"], e["addr"] - first) for e in entries]

    assert in_step(simulated.snapshot()) == in_step(recorded)


def test_pytorchs_own_tools_read_it(simulated, recorded):
    ours = simulated.snapshot()
    text = partial(str)  # in the place of a script that torch would download
    assert viz.segsum(ours).splitlines()[-12:] == viz.segsum(recorded).splitlines()[-12:]
    total = re.search(r"TOTAL MEM.*", viz.trace(ours))
    assert total is not None
    assert "category:0:gradient;phase:0:backward;module:0:0;tensor:0:0.weight float32 (1200, 600);op:" in viz.memory(
        ours, text
    )
    assert viz.segments(ours, text).count("seg_") > 10
    assert "only_after" in viz.compare([], ours["segments"], text)
    assert "base64" in viz.trace_plot(ours)


@pytest.mark.parametrize("checkpoint", ["none", "nonreentrant"])
def test_the_viewer_can_read_the_file(tmp_path, checkpoint):
    result = ck.measure(partial(mlp_step, checkpoint), "sim:cuda", builds=True)
    result.save_snapshot(tmp_path / "mine.pickle")
    data = (tmp_path / "mine.pickle").read_bytes()
    assert {opcode.name for opcode, _, _ in pickletools.genops(data)} <= READABLE
    assert load(tmp_path / "mine.pickle") == result.snapshot()
    categories = {entry["category"] for entry in result.snapshot()["device_traces"][0] if "category" in entry}
    assert "unknown" in categories  # where it is missing, MemoryViz.js wants to add it, and misspells its own list


def test_frames_name_the_op_the_module_and_the_category(simulated):
    allocs = [entry for entry in simulated.snapshot()["device_traces"][0] if entry["action"] == "alloc"]
    told = [{frame["filename"]: frame["name"] for frame in entry["frames"]} for entry in allocs]
    gelu = {"op": "aten.gelu.default", "module": "1", "phase": "forward", "category": "activation"}
    assert gelu | {"tensor": "float32 (1000, 1200)"} in told
    assert told[0] == {
        "tensor": "0.weight float32 (1200, 600)",
        "module": "0",
        "phase": "before",
        "category": "parameter",
    }
    assert Counter(t["category"] for t in told) >= Counter({"optimizer state": 6, "gradient": 6, "workspace": 2})


@pytest.mark.gpu
def test_a_gpus_own_record_gets_the_same_frames():
    real = ck.measure(partial(program, "cuda"), "cuda", builds=True).snapshot()
    simulated = ck.measure(program, "sim:cuda", builds=True, gpu=at_release(A100, torch.__version__)).snapshot()

    def described(snapshot: dict) -> list:
        entries = [entry for entry in snapshot["device_traces"][0] if entry["action"] == "alloc"]
        told = [[(f["filename"], f["name"]) for f in e["frames"] if f["filename"] != "tensor"] for e in entries]
        return [(e["size"], e["user_metadata"], e["category"], frames) for e, frames in zip(entries, told, strict=True)]

    assert described(real) == described(simulated)
    assert ck.explain(real).allocated == ck.explain(simulated).allocated


def test_the_cpu_has_no_snapshot():
    with pytest.raises(ck.CkptError, match=r"but 'cpu' does not have that allocator.*sim:cuda"):
        ck.measure(program, builds=True).snapshot()


def test_expandable_segments():
    rules = AllocatorRules(expandable_segments=True)
    found = ck.measure(program, "sim:cuda", builds=True, gpu=A100, rules=rules)
    snapshot = found.snapshot()
    actions = Counter(entry["action"] for entry in snapshot["device_traces"][0])
    assert actions["segment_map"] and not actions["segment_alloc"]
    assert sum(segment["total_size"] for segment in snapshot["segments"]) == found.reserved
    assert snapshot["allocator_settings"]["expandable_segments"] is True


def test_a_cache_that_is_emptied_is_written_down():
    gpu = CachingAllocator(capacity=30 * 2**20)
    gpu.history = []
    owner = Storage(-1, 0, None, "", "forward", "temporary", (), torch.uint8)
    gpu.free(gpu.malloc(15 * 2**20, tag=owner))
    gpu.malloc(20 * 2**20, tag=owner)
    changes = [Change(nbytes * 2**20, owner, "forward", -1) for nbytes in (15, -15, 20)]
    entries = of_simulation(gpu, Timeline([], changes), Trace())["device_traces"][0]
    freed = ["free_requested", "free_completed"]
    expected = ["segment_alloc", "alloc", *freed, "segment_free", "segment_alloc", "alloc"]
    assert [entry["action"] for entry in entries] == expected


# ---- files ----------------------------------------------------------------------------------------------------------
class Hostile:
    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")  # which would make the file


def test_a_hostile_file_is_refused_and_does_nothing(tmp_path):
    trap = tmp_path / "trap"
    for i, content in enumerate([Hostile(trap), {"segments": [Hostile(trap)], "device_traces": []}]):
        file = tmp_path / f"{i}.pickle"
        file.write_bytes(pickle.dumps(content))
        with pytest.raises(ck.CkptError, match=r"was not read, because it asks for _?io\.open"):
            load(file)
    assert not trap.exists()
    pickle.loads(file.read_bytes())  # the pickle is a trap indeed
    assert trap.exists()


def test_other_files_are_refused_in_one_line(tmp_path):
    torch.save({"weight": torch.ones(2)}, tmp_path / "model.pt")
    torch.save({"weight": torch.ones(2)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    (tmp_path / "notes.txt").write_text("no pickle")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "cut.pickle").write_bytes(RECORDED.read_bytes()[:200])
    (tmp_path / "dict.pickle").write_bytes(pickle.dumps({"loss": 3.0}))
    (tmp_path / "number.pickle").write_bytes(pickle.dumps(3))
    expected = {
        "model.pt": "is a zip file, as torch.save writes it",
        "old.pt": "expected the pickle",
        "notes.txt": "is not a pickle",
        "empty": r"is not a pickle \(EOFError\)",
        "cut.pickle": "is not a pickle",
        "dict.pickle": "holds a dict of loss, and no segments and no device_traces",
        "number.pickle": "holds a int, and no segments",
        "missing.pickle": "cannot read the snapshot: .*No such file",
    }
    for name, message in expected.items():
        with pytest.raises(ck.CkptError, match=message) as raised:
            load(tmp_path / name)
        assert len(str(raised.value).splitlines()) == 1


def test_a_file_that_cannot_be_written_is_told(tmp_path, recorded):
    with pytest.raises(ck.CkptError, match="cannot write the snapshot"):
        save(recorded, tmp_path / "nowhere" / "file.pickle")


if __name__ == "__main__":
    record()
    sys.exit()
