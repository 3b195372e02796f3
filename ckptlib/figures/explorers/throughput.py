"""When does recomputing pay? Choose a card, an attention and a wait, and see tokens per second up to each limit."""

from __future__ import annotations

from functools import cache

import ipywidgets as widgets

from ...cuda.gpus import SPEEDS, speed_of
from ...fitting.step_times import passes, update
from ...models import formulas
from ...models.configs import GPT2_XL
from ..curves_and_bars import curves
from ..styles import Drawing
from ._panel import look, panel
from .fit import measured

TOKENS = GPT2_XL.tokens
WAITS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
WORKING = "Working: a new card or attention takes a few seconds …"


@cache
def largest(gpu: str, strategy: str, fused: bool = False) -> int:
    """The largest batch of GPT-2 XL that fits, in mixed precision, as `ck.fit` measures it."""
    return measured("gpt2-xl", gpu, TOKENS, "mixed", strategy, fused).batch


def step_seconds(gpu: str, batch: int, strategy: str, fused: bool = False, wait: float = 0.0) -> float:
    """Forward and backward, or the wait for the network if that is longer, and then AdamW's update."""
    speed = speed_of(gpu)
    one, two = (passes(GPT2_XL, b, strategy, gpu, fused) for b in (1, 2))
    computing = one + (two + one * -1) * (batch - 1)  # from the first sequence on, each takes as long as the others
    return max(computing.seconds(speed), wait) + update(GPT2_XL, gpu).seconds(speed)


def throughput(gpu: str, fused: bool = False, wait: float = 0.0) -> dict[str, dict[float, float]]:
    """Tokens per second of GPT-2 XL on one GPU: strategy -> batch -> number, up to the largest batch that fits."""
    found: dict[str, dict[float, float]] = {}
    for strategy in formulas.STRATEGIES:
        if most := largest(gpu, strategy, fused):
            steps = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
            batches = [*(batch for batch in steps if batch < most), most]
            found[strategy] = {b: TOKENS * b / step_seconds(gpu, b, strategy, fused, wait) for b in batches}
    return found


def throughput_figure(gpu: str, fused: bool = False, wait: float = 0.0) -> Drawing:
    """A curve for each strategy, which ends at its largest batch."""
    panels = {("batch (sequences)", "tokens per second"): throughput(gpu, fused, wait)}
    return curves(panels, in_words(gpu, fused, wait), log="x")


def in_words(gpu: str, fused: bool = False, wait: float = 0.0) -> str:
    """Which strategy is the fastest, at which batch, and by how much."""
    ends = {name: list(curve.items())[-1] for name, curve in throughput(gpu, fused, wait).items()}
    fastest = max(ends, key=lambda name: ends[name][1])
    batch, most = ends[fastest]
    reached = f"{most:,.0f} tokens per second at batch {batch}"
    if fastest == "none":
        return f"Recomputing does not pay here: without it {reached}, the most of all."
    gain = most / ends["none"][1] - 1
    compared = f"{gain:.0%} more than without recomputation at batch {ends['none'][0]}"
    return f"Recomputing pays: {fastest}, {reached}, {compared}."


def throughput_explorer() -> widgets.VBox:
    """Choose GPU, attention, and the seconds that a step waits for the network; see when recomputing pays."""
    knobs = {
        "gpu": widgets.Dropdown(options=list(SPEEDS), value="a100", description="GPU", **look()),
        "fused": widgets.Dropdown(
            options=[("plain", False), ("fused", True)], value=False, description="attention", **look()
        ),
        "wait": widgets.SelectionSlider(options=WAITS, value=0.0, description="wait per step (s)", **look()),
    }

    def draw() -> tuple[str, str]:
        drawn = throughput_figure(**{name: knob.value for name, knob in knobs.items()})
        return drawn.svg(), drawn.alt

    row = list(knobs.values())
    return panel([row[:2], row[2:]], draw, WORKING)
