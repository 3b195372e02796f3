"""Is planning fast, and are its plans never slower than what others do in the same memory? Measured here, in one run.

    python tests/bench/planner_speed.py [rounds]

First: seconds to plan chains of unequal stages at 500 memory levels. Then, on three models, against torch's
`checkpoint_sequential` and periodic checkpoints in every number of segments, √n and Revolve: the fastest plan that
needs no more than the competitor's measured peak, the ratio of profiled times, and that of step times, taken in turns.

A peak is the chain's: without parameters, their gradients, and the copies (of the random state, of buffers) that
recomputation starts from. Where the plan takes the competitor's very steps, the time ratio shows the noise.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from itertools import accumulate

import torch
from rows import between, row
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint_sequential

from ckptlib.planning.block_detection import Chains, find_chain
from ckptlib.planning.execute import execute
from ckptlib.planning.known_schedules import periodic, revolve, sequential, sqrt, store_all
from ckptlib.planning.optimal_schedule import optimal
from ckptlib.planning.optimal_schedule_table import BudgetTable
from ckptlib.planning.profile_stages import profile_chain
from ckptlib.planning.schedule import Schedule
from ckptlib.planning.scheduled_model import ScheduledModel
from ckptlib.planning.stage_costs import Costs
from ckptlib.remember.measurement import measure


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
        start = time.process_time()  # of this process: other work on the machine does not count
        BudgetTable(costs, 500, -(-plain.peak // 500))
        middle = time.process_time()
        found = optimal(costs, plain.peak // 5).cost(costs)
        seconds = time.process_time() - middle
        if n == 100:
            row(f"100 unequal stages at 500 memory levels are planned in {seconds:.1f} s", "none", "–")
        print(f"{n:6} {500:6} {middle - start:8.2f} {seconds:7.2f} {'20 %':>7} {found.time / plain.time:9.3f}")


# ---- models ---------------------------------------------------------------------------------------------------------
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


# ---- competitors ----------------------------------------------------------------------------------------------------
def competitors(n: int, model: nn.Sequential) -> dict[str, tuple[Schedule, Callable[[Tensor], Tensor]]]:
    ours = {"sqrt": sqrt(n)} | {f"periodic({k})": periodic(n, k) for k in range(2, n + 1)}
    ours |= {f"revolve({slots})": revolve(n, slots) for slots in (1, 2, 3)}
    found = {name: (s, lambda x, s=s: execute(s, model, x)) for name, s in ours.items()}
    for k in range(2, n + 1):
        run = lambda x, k=k: checkpoint_sequential(model, k, x, use_reentrant=False)  # noqa: E731
        found[f"checkpoint_sequential({k})"] = (sequential(n, k), run)
    return found


def chain_peak(step: Callable[[], None]) -> int:
    result = measure(step)
    storages, ops, rng_state = result.trace.storages, result.trace.ops, torch.get_rng_state().nbytes

    def is_buffer(storage) -> bool:
        if storage.op is None or ops[storage.op].name != "aten.clone.default":
            return storage.category == "buffer"
        return is_buffer(storages[ops[storage.op].args[0].storage])

    def counts(s) -> bool:
        models = s.category in ("parameter", "buffer") or (s.category == "gradient" and s.name) or is_buffer(s)
        return not models and s.shape != () and not (s.nbytes == rng_state and s.dtype is torch.uint8)

    line = result.timeline
    return max(accumulate(c.nbytes for c in (*line.start, *line.changes) if counts(c.owner)))


def ratio(ours: Callable[[], None], theirs: Callable[[], None], rounds: int) -> float:
    """The median of the rounds' ratios. Who goes first alternates: the second finds memory that the first has left."""
    found = []
    for turn in range(-2, rounds):
        seconds = {}
        for step in (ours, theirs) if turn % 2 else (theirs, ours):
            start = time.process_time()
            step()
            seconds[step] = time.process_time() - start
        if turn >= 0:  # two rounds to warm up
            found.append(seconds[ours] / seconds[theirs])
    return statistics.median(found)


def plans(rounds: int) -> None:
    columns = ("their peak", "our peak", "predicted", "profiled", "measured")
    print(f"\n{'model':12} {'competitor':25}" + "".join(f"{name:>12}" for name in columns))
    print(f"{'':38}{'bytes':>12}{'bytes':>12}{'bytes':>12}{'time ratio':>12}{'time ratio':>12}")
    for make in (wide_mlp, cnn, transformer):
        torch.manual_seed(0)
        model, x = make()
        costs = profile_chain(model, x, repeats=9)

        def step_of(run: Callable[[Tensor], Tensor], model=model, x=x) -> Callable[[], None]:
            def step() -> None:
                model.zero_grad()
                run(x).mul(1).sum().backward()

            return step

        worst = []
        for name, (schedule, run) in competitors(costs.n, model).items():
            theirs = step_of(run)
            peak = chain_peak(theirs)
            planned = optimal(costs, peak)
            found, ours = planned.cost(costs), step_of(ScheduledModel(model, Chains([find_chain(model, x)]), planned))
            profiled, measured = found.time / schedule.cost(costs).time, ratio(ours, theirs, rounds)
            worst.append((profiled, measured))
            sizes = f"{peak:12,}{chain_peak(ours):12,}{found.peak:12,}"
            print(f"{make.__name__:12} {name:25}{sizes}{profiled:12.3f}{measured:12.3f}", flush=True)
        claim = f"the fastest plan in the same peak memory, step time: {make.__name__.replace('_', ' ')}"
        peer = "√n, periodic, Revolve, `checkpoint_sequential`, every number of segments"
        row(claim, peer, between([measured for _, measured in worst]))
        profiled, measured = (max(column) for column in zip(*worst, strict=True))
        print(f"{make.__name__:12} {'the worst':25}{'':36}{profiled:12.3f}{measured:12.3f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    planning()
    plans(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
