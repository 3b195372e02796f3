"""Claim: importing ckptlib, and its front door, adds almost nothing to importing torch.

Each import runs in a fresh interpreter, in turns, so that a busy machine slows all of them alike; medians of user time.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

from rows import row

STATEMENTS = {
    "torch": "import torch",
    "torch, ckptlib": "import torch, ckptlib",
    "torch, ck.measure": "import torch, ckptlib.remember.measurement",
    "torch, ck.saved_tensors": "import torch, ckptlib.remember.saved_tensors",
}
REPEATS = 9


def cpu_seconds(statement: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    for statement in STATEMENTS.values():
        cpu_seconds(statement)  # the first one reads from disk
    times = {name: [] for name in STATEMENTS}
    for _ in range(REPEATS):
        for name, statement in STATEMENTS.items():
            times[name].append(cpu_seconds(statement))
    torch_alone = statistics.median(times["torch"])
    for name, seconds in times.items():
        median = statistics.median(seconds)
        if name != "torch":
            row(f"`import {name}` adds almost nothing", "`import torch` alone", f"{median / torch_alone:.2f}")
        print(f"import {name:25} {median:6.3f} s CPU, ratio {median / torch_alone:5.3f} to torch alone")


if __name__ == "__main__":
    main()
