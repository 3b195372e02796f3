"""Claim: tracing costs microseconds an op, and little of a real training step.

Peers, interleaved in one process: the bare call, the profiler with memory, and MemTracker of torch.distributed.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable

import torch
from rows import row
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker

import ckptlib as ck

REPEATS = 7
SMALL_OPS = 2000


def small_ops() -> None:
    x = torch.ones(8)
    for _ in range(SMALL_OPS):
        x = x + 1.0


def training_step() -> Callable[[], None]:
    model = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(512, 512), nn.GELU())))
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(2048, 512)

    def step() -> None:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


@contextlib.contextmanager
def quiet():
    """The profiler announces itself on stderr, from C++."""
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)


def profiler():
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True)


WAYS = {
    "bare": contextlib.nullcontext,
    "ck.trace": ck.trace,
    "MemTracker": MemTracker,
    "torch.profiler": profiler,
}


def seconds(fn: Callable[[], None], way: Callable) -> float:
    with way():  # entering and leaving is not part of it
        start = time.perf_counter()
        fn()
        return time.perf_counter() - start


def compare(name: str, fn: Callable[[], None]) -> dict[str, float]:
    times = {way: [] for way in WAYS}
    for repeat in range(REPEATS + 1):
        for way, context in WAYS.items():
            took = seconds(fn, context)
            if repeat:  # the first round warms up
                times[way].append(took)
    medians = {way: statistics.median(took) for way, took in times.items()}
    for way, median in medians.items():
        if way == "ck.trace":
            peers = f"untraced; with MemTracker {medians['MemTracker'] / medians['bare']:.2f}"
            row(f"what tracing costs: {name}", peers, f"{median / medians['bare']:.2f}")
        print(f"{name:14} {way:15} {median * 1e3:9.2f} ms, ratio {median / medians['bare']:6.2f} to the bare run")
    return medians


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with quiet():
        per_op = compare(f"{SMALL_OPS} small ops", small_ops)
        compare("training step", training_step())
    cost = (per_op["ck.trace"] - per_op["bare"]) / SMALL_OPS
    print(f"ck.trace adds {cost * 1e6:.1f} us to an op")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
