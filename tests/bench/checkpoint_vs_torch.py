"""Claim: our checkpoint takes no longer than torch's and never more memory.

Peers, interleaved in one process: torch.utils.checkpoint, both ways, on an MLP, a deep narrow chain and a GPT block.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable

import torch
import torch.utils.checkpoint
from rows import row
from torch import nn

import ckptlib as ck
from ckptlib.models.transformer import Block, Config, causal_mask
from ckptlib.recompute.checkpoint import checkpoint

REPEATS = 41
WAYS = {"ours": checkpoint, "torch's": torch.utils.checkpoint.checkpoint}


def mlp(way: Callable, use_reentrant: bool) -> Callable[[], None]:
    blocks = [nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)) for _ in range(4)]
    x = torch.randn(128, 256, requires_grad=True)
    return chain(way, blocks, x, use_reentrant)


def narrow(way: Callable, use_reentrant: bool) -> Callable[[], None]:
    """64 segments of next to no work: what is left is the cost of checkpointing itself."""
    layers = [nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh()) for _ in range(64)]
    x = torch.randn(4, 8, requires_grad=True)
    return chain(way, layers, x, use_reentrant)


def gpt_block(way: Callable, use_reentrant: bool) -> Callable[[], None]:
    config = Config(layers=1, width=128, heads=4, tokens=128, vocabulary=1)
    block, mask = Block(config), causal_mask(config.tokens, torch.float32)
    x = torch.randn(config.tokens, 2, config.width, requires_grad=True)
    return chain(way, [block], x, use_reentrant, mask)


def chain(way: Callable, segments: list, x: torch.Tensor, use_reentrant: bool, *more: torch.Tensor) -> Callable:
    def step() -> None:
        y = x
        for segment in segments:
            y = way(segment, y, *more, use_reentrant=use_reentrant)
        y.square().mean().backward()

    return step


def seconds(step: Callable[[], None]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def compare(build: Callable, use_reentrant: bool) -> None:
    steps = {name: build(way, use_reentrant) for name, way in WAYS.items()}
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for repeat in range(REPEATS):
        for name in sorted(WAYS, reverse=bool(repeat % 2)):  # neither is always the one that comes first
            took = seconds(steps[name])
            if repeat > 2:  # the first rounds warm up
                times[name].append(took)
    # Every pair of neighbours gives one ratio: what slows the machine down for a while slows both.
    ratios = [ours / peer for ours, peer in zip(*times.values(), strict=True)]
    peaks = [ck.measure(step).peak for step in steps.values()]
    kind = "reentrant" if use_reentrant else "non-reentrant"
    fastest = min(times["ours"]) / min(times["torch's"])
    claim = f"our checkpoint, {kind}, on {build.__name__.replace('_', ' ')}: step time; peak"
    row(claim, "`torch.utils.checkpoint`", f"{statistics.median(ratios):.2f}; {peaks[0] / peaks[1]:.4f}")
    print(
        f"{build.__name__:10} {kind:14} {statistics.median(times['ours']) * 1e3:8.2f} ms, ratio "
        f"{statistics.median(ratios):.2f} to torch's (fastest runs: {fastest:.2f}); peak {peaks[0]:,} B, ratio "
        f"{peaks[0] / peaks[1]:.4f}"
    )


def main() -> None:
    torch.set_num_threads(1)
    for build, use_reentrant in itertools.product((mlp, narrow, gpt_block), (False, True)):
        compare(build, use_reentrant)


if __name__ == "__main__":
    main()
