"""Is planning fast, and are its plans better than `checkpoint_sequential`? Both measured here, in one run.

    python tests/bench/planner_speed.py

First: seconds to plan chains of unequal stages at 500 memory levels. Then, on three models: the fastest plan that needs
no more than the measured peak of torch's `checkpoint_sequential`, and the ratio of their step times, interleaved.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint_sequential

from ckptlib.measure.measurement import measure
from ckptlib.recompute.builders import store_all
from ckptlib.recompute.costs import Costs
from ckptlib.recompute.memory_table import Table
from ckptlib.recompute.optimal import BudgetTooSmall, optimal
from ckptlib.recompute.planner import plan
from ckptlib.recompute.profile import profile_chain


def random_chain(n: int) -> Costs:
    draw = random.Random(n)
    x = [draw.randint(1, 10**7) for _ in range(n + 1)]
    xbar = [size + draw.randint(0, 3 * 10**7) for size in x[1:]]
    return Costs([draw.random() for _ in range(n)], [draw.random() for _ in range(n)], x, xbar)


def planning() -> None:
    print(f"{'stages':>6} {'levels':>6} {'table s':>8} {'plan s':>7} {'budget':>7} {'slowdown':>9}")
    for n in (25, 50, 100, 200):
        costs = random_chain(n)
        plain = store_all(n).cost(costs)
        start = time.perf_counter()
        Table(costs, 500, -(-plain.peak // 500))
        middle = time.perf_counter()
        found = optimal(costs, plain.peak // 5).cost(costs)
        seconds = time.perf_counter() - middle
        print(f"{n:6} {500:6} {middle - start:8.2f} {seconds:7.2f} {'20 %':>7} {found.time / plain.time:9.3f}")


def wide_mlp() -> tuple[nn.Sequential, Tensor]:
    widths = [256] * 6 + [4096] + [256] * 9
    pairs = zip(widths, widths[1:], strict=False)
    return nn.Sequential(*(nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in pairs)), torch.randn(256, 256)


def cnn() -> tuple[nn.Sequential, Tensor]:
    channels = [3, 16, 16, 32, 32, 64, 64, 64, 64]
    pairs = enumerate(zip(channels, channels[1:], strict=False))
    stages = (
        nn.Sequential(nn.Conv2d(a, b, 3, padding=1, stride=1 + i % 2), nn.BatchNorm2d(b), nn.ReLU())
        for i, (a, b) in pairs
    )
    return nn.Sequential(*stages), torch.randn(16, 3, 64, 64)


def transformer() -> tuple[nn.Sequential, Tensor]:
    layers = (nn.TransformerEncoderLayer(128, 4, 512, batch_first=True) for _ in range(8))
    return nn.Sequential(*layers), torch.randn(8, 64, 128)


def chain_peak(step: Callable[[], None]) -> int:
    line = measure(step).timeline
    now = high = 0
    for change in [*line.start, *line.changes]:
        kind = change.owner.category
        models = kind in ("parameter", "buffer") or (kind == "gradient" and change.owner.name)
        now += 0 if models else change.nbytes
        high = max(high, now)
    return high


def ratio(ours: Callable[[], None], theirs: Callable[[], None], rounds: int = 15) -> float:
    """Median step time over median step time, taken in turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for step, seconds in zip((ours, theirs), times, strict=True):
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
    ours_seconds, theirs_seconds = (sorted(seconds)[rounds // 2] for seconds in times)
    return ours_seconds / theirs_seconds


def plans() -> None:
    print(f"\n{'model':12} {'segments':>8} {'their peak':>11} {'our peak':>11} {'step time, ours / theirs':>25}")
    for make in (wide_mlp, cnn, transformer):
        torch.manual_seed(0)
        model, x = make()
        costs = profile_chain(model, x, repeats=7)
        for segments in (2, 3, 4):

            def theirs(model=model, segments=segments, x=x) -> None:
                model.zero_grad()
                checkpoint_sequential(model, segments, x, use_reentrant=False).mul(1).sum().backward()

            peak = chain_peak(theirs)
            try:
                module = plan(model, x, peak, costs).module
            except BudgetTooSmall as error:
                print(f"{make.__name__:12} {segments:8} {peak:11,}   {error}")
                continue

            def ours(model=model, module=module, x=x) -> None:
                model.zero_grad()
                module(x).mul(1).sum().backward()

            print(f"{make.__name__:12} {segments:8} {peak:11,} {chain_peak(ours):11,} {ratio(ours, theirs):25.3f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    planning()
    plans()
