"""What does one rank hold, if d replicas of t ranks each train a GPT? Five ways to share, one stacked bar for each."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from ...errors import CkptError
from ...models.configs import CONFIGS, Config
from ...models.formulas import STRATEGIES, activation_nbytes, layer_nbytes
from ...units import GiB, size
from ..memory_bars import ledger_bars
from ..styles import Drawing
from ._panel import look, panel

WAYS = ("DDP", "FSDP", "DDP, tensor", "FSDP, tensor", "FSDP, tensor + sequence")
MODELS = ("gpt2-xl", "gpt3-175b", "mt-nlg-530b")
TENSOR = (1, 2, 4, 8, 16, 32)
DATA = tuple(2**i for i in range(11))
CARD = 80 * GiB  # bytes of a GPU


def rank_nbytes(config: Config, way: str, tensor: int, data: int, recompute: str = "none") -> dict[str, int]:
    """Bytes of one rank, by category; one sequence for each replica, bfloat16, float32 master weights and moments.

    Temporary memory is needed only by the running layer: its gathered weights under FSDP, and its recomputed tensors.
    Norms and biases, less than a thousandth of the parameters, are counted as if tensor parallelism split them as well.
    """
    if way not in WAYS:
        raise CkptError(f"way is {way!r}, expected one of {', '.join(WAYS)}")
    t = tensor if "tensor" in way else 1
    d = data if "FSDP" in way else 1
    split: dict[str, Any] = {"tensor_parallel": t, "sequence_parallel": "sequence" in way}
    layer = 12 * config.width**2 + 13 * config.width
    again = layer_nbytes(config, 1, "none", **split) - layer_nbytes(config, 1, recompute, **split)
    return {
        "parameter": 2 * config.parameters // (t * d),
        "gradient": 2 * config.parameters // (t * d),
        "optimizer state": 12 * config.parameters // (t * d),
        "activation": activation_nbytes(config, 1, recompute, **split),
        "temporary": (2 * layer // t if d > 1 else 0) + again,
    }


def _bars(model: str, tensor: int, data: int, recompute: str) -> dict[str, dict[str, int]]:
    return {way: rank_nbytes(CONFIGS[model], way, tensor, data, recompute) for way in WAYS}


def ranks_figure(model: str, tensor: int, data: int, recompute: str) -> Drawing:
    """One bar for each way to share the model among tensor x data ranks."""
    drawn = ledger_bars(_bars(model, tensor, data, recompute))
    return Drawing(drawn.figure, in_words(model, tensor, data, recompute))


def in_words(model: str, tensor: int, data: int, recompute: str) -> str:
    """Which of the ways fit a GPU of 80 GiB, and what the smallest of them holds."""
    totals = {way: sum(parts.values()) for way, parts in _bars(model, tensor, data, recompute).items()}
    least = min(totals, key=totals.__getitem__)
    fitting = [way for way, total in totals.items() if total <= CARD]
    fits = f"Within {size(CARD)}: {'; '.join(fitting)}." if fitting else f"None fits within {size(CARD)}."
    return (
        f"Bytes of one rank: {data} replicas, of {tensor} ranks each where tensors are split; one sequence each, "
        f"recomputation: {recompute}. Least with {least}: {size(totals[least])}. {fits}"
    )


def ranks_explorer() -> widgets.VBox:
    """Choose model, t, d and recomputation; see what one rank holds in each of five ways to share."""
    knobs = [
        widgets.Dropdown(options=MODELS, value="gpt3-175b", description="model", **look()),
        widgets.SelectionSlider(options=TENSOR, value=8, description="tensor parallel size t", **look()),
        widgets.SelectionSlider(options=DATA, value=64, description="data parallel size d", **look()),
        widgets.Dropdown(options=STRATEGIES, value="none", description="recomputation", **look()),
    ]

    def draw() -> tuple[str, str]:
        drawn = ranks_figure(*(knob.value for knob in knobs))
        return drawn.svg(), drawn.alt

    return panel([knobs[:2], knobs[2:]], draw)
