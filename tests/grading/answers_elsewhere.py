"""What do the sample answers to an assignment return on this processor? Prints JSON for test_other_processors.py.

    python tests/grading/answers_elsewhere.py 04_hooks

Only tasks whose data hold floats: bytes, counts and text are the same wherever they are counted.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

import torch
from answers import answers
from test_answers import assignment, data_of, expected


def holds_floats(data: Any) -> bool:
    if isinstance(data, dict):
        return data.get("stored", "").startswith("float") or any(map(holds_floats, data.values()))
    return isinstance(data, float) or (isinstance(data, list) and any(map(holds_floats, data)))


def everything(name: str) -> dict:
    """The instruction set that torch uses; for each task what is expected; for each sample answer what it returns."""
    wanted = {task: expected(name, task) for task in assignment(name).tasks}
    wanted = {task: each for task, each in wanted.items() if holds_floats(each[0])}
    got = [data_of(answer) if answer.task in wanted else None for answer in answers(name)]  # titles may be alike
    return {"capability": torch.backends.cpu.get_cpu_capability(), "expected": wanted, "answers": got}


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):  # what solutions print
        found = everything(sys.argv[1])
    json.dump(found, sys.stdout)
