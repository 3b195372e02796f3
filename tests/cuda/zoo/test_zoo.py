"""Does the simulation count what PyTorch's own CUDA code counts, for every op and program of the zoo?

The truth was recorded on phantom GPUs (record.py). What the simulation does not do right yet is listed in
known_differences.json with a reason. The list can only become shorter, because an entry that is no longer needed fails.
"""

from __future__ import annotations

import pytest
from compare import compare, known_differences
from zoo import GPUS, RELEASE, entries, is_op, truth, truth_file

RECORDED = [gpu for gpu in GPUS if truth_file(gpu).exists()]
pytestmark = pytest.mark.skipif(not RECORDED, reason=f"no truth is recorded for torch {RELEASE}")


def test_the_truth_is_of_this_zoo():
    """All of it for an A100. Another GPU may lack an entry that is new."""
    assert truth("a100").keys() == entries().keys(), "run `record.py --new`"
    for gpu in RECORDED:
        assert truth(gpu).keys() <= entries().keys(), "run `record.py --new`"


def test_listed_differences_are_of_this_zoo():
    for gpu, listed in known_differences().items():
        assert gpu in GPUS and listed.keys() <= entries().keys()


def check(gpu: str, names: list[str]) -> None:
    """Declared is as good as exact: the result names what is unknown."""
    rows, _ = compare(gpu, names)
    listed = known_differences().get(gpu, {})
    differ = {name: why for name, (word, why) in rows.items() if word in ("within 1 %", "wrong")}
    new = [f"{name}: {why}" for name, why in differ.items() if name not in listed]
    assert not new, f"these differ on {gpu}:\n" + "\n".join(new)
    gone = [name for name in names if name in listed and name not in differ]
    assert not gone, "these are right now, so take them from the list (compare.py --update):\n" + "\n".join(gone)


@pytest.mark.slow
@pytest.mark.parametrize("gpu", RECORDED)
def test_ops(gpu):
    check(gpu, [name for name in truth(gpu) if is_op(name)])


@pytest.mark.slow
@pytest.mark.parametrize("gpu", RECORDED)
def test_programs(gpu):
    check(gpu, [name for name in truth(gpu) if not is_op(name)])
