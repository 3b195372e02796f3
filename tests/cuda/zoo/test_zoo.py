"""Does the simulation count what PyTorch's own CUDA code counts, for every op and program of the zoo?

The truth was recorded on phantom GPUs (record.py). What the simulation does not do right yet is listed in
known_differences.json with a reason. The list can only become shorter, because an entry that is no longer needed fails.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from compare import compare, known_differences
from zoo import DIFFERENT, GPUS, RELEASE, compared, entries, is_op, simulated, truth, truth_file

RECORDED = [gpu for gpu in GPUS if truth_file(gpu).exists()]
pytestmark = pytest.mark.skipif(not RECORDED, reason=f"no truth is recorded for torch {RELEASE}")


def test_the_truth_is_of_this_zoo():
    for gpu in RECORDED:
        assert truth(gpu).keys() == entries().keys(), "run `record.py --new`"


def test_listed_differences_are_of_this_zoo():
    for gpu, listed in known_differences().items():
        assert gpu in GPUS and listed.keys() <= entries().keys()


def test_no_difference_is_excused():
    """Neither by values that the program reads, nor by unknowns that the result names."""
    name = "op x[mask]"
    true, entry = truth("a100")[name], entries()[name]
    assert true.unknowns and compared(entry, {"a100": true})["a100"][0] == "exact"
    off_by_one = replace(true, reserved=true.reserved + 512)
    word, sim = compared(entry, {"a100": off_by_one})["a100"]
    assert sim.unknowns and word in DIFFERENT


def test_a_shared_trace_counts_what_a_trace_of_each_gpu_does():
    names = ["op attention long bfloat16", "op attention of head size 256 bfloat16", "op attention float32"]
    for name in names:
        shared = simulated(entries()[name], GPUS)
        apart = {gpu: simulated(entries()[name], [gpu])[gpu] for gpu in GPUS}
        assert {gpu: sim.figures() for gpu, sim in shared.items()} == {g: sim.figures() for g, sim in apart.items()}


def check(names: list[str]) -> None:
    """Each figure is exact, or listed, or the phantom lacks a library and the result declares what is unknown."""
    wrong: list[str] = []
    for gpu, rows in compare(names, RECORDED).items():
        listed = known_differences().get(gpu, {})
        for name, (word, why) in rows.items():
            differs = word in DIFFERENT
            if differs and name not in listed:
                wrong.append(f"{name} on {gpu}: {why}")
            if not differs and name in listed:
                wrong.append(f"{name} on {gpu} is right now, so take it from the list (compare.py --update)")
    assert not wrong, "\n".join(wrong)


OPS = [name for name in truth("a100") if is_op(name)] if RECORDED else []
PROGRAMS = [name for name in truth("a100") if not is_op(name)] if RECORDED else []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_ops(part):
    check(OPS[part::2])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_programs(part):
    check(PROGRAMS[part::4])
