"""Will it fit? Choose a model, a card, a sequence, a precision and a strategy, and see what `ck.fit` measures."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import ipywidgets as widgets

from ...cuda.gpus import MEMORY
from ...fitting.fit import fit
from ...fitting.fit_results import Fit, Fits, percent
from ...fitting.transformer_step import PRECISIONS
from ...models import formulas
from ...models.configs import CONFIGS
from ...units import size
from ..memory_bars import fit_bars
from ..styles import Drawing
from ._panel import look, panel

TOKENS = [2**p for p in range(8, 18)]
MEASURING = "Measuring: a new model, sequence or precision takes a second or two …"


@cache
def measured(
    model: str, gpu: str, tokens: int, precision: str = "mixed", strategy: str = "none", fused: bool = False
) -> Fit:
    """`ck.fit`, once for each setting, because a reader comes back to settings."""
    return fit(model, gpu, tokens, precision, strategy, fused=fused)


def fit_figure(**setting: object) -> Drawing:
    """The largest batch that fits, and one sequence more, stacked by purpose, against the card's memory."""
    fits = measured(**setting)
    bars = {"more": replace(fits, batch=fits.batch + 1, need=fits.too_much)}
    drawn = fit_bars(Fits(({"fits": fits} if fits.batch else {}) | bars, {}))
    return Drawing(drawn.figure, in_words(**setting))


def in_words(**setting: object) -> str:
    """The largest batch, when memory is fullest, of what, and what recomputing costs."""
    fits = measured(**setting)
    shown = fits.need or fits.too_much
    largest = max(shown.parts, key=shown.parts.__getitem__)
    share = f"{100 * shown.parts[largest] / shown.nbytes:.0f} %"
    when = f"memory is fullest in the {shown.window}, and its largest part is {largest}, {share}"
    cost = f" Recomputing costs {percent(shown.extra)} FLOPs." if shown.extra else ""
    if not fits.batch:
        return f"Not even one sequence fits: it needs {size(shown.nbytes)}; {when}.{cost}"
    return f"The largest batch is {fits.batch:,}, {size(shown.nbytes)}; {when}.{cost}"


def fit_explorer() -> widgets.VBox:
    """Choose model, GPU, sequence, precision, recomputation and attention; see what fits, and the largest batch."""
    knobs = {
        "model": widgets.Dropdown(options=list(CONFIGS), value="gpt2-xl", description="model", **look()),
        "gpu": widgets.Dropdown(options=list(MEMORY), value="a100", description="GPU", **look()),
        "tokens": widgets.SelectionSlider(options=TOKENS, value=1024, description="sequence (tokens)", **look()),
        "precision": widgets.Dropdown(options=list(PRECISIONS), value="mixed", description="precision", **look()),
        "strategy": widgets.Dropdown(options=formulas.STRATEGIES, value="none", description="recompute", **look()),
        "fused": widgets.Dropdown(
            options=[("plain", False), ("fused", True)], value=False, description="attention", **look()
        ),
    }

    def draw() -> tuple[str, str]:
        drawn = fit_figure(**{name: knob.value for name, knob in knobs.items()})
        return drawn.svg(), drawn.alt

    row = list(knobs.values())
    return panel([row[:2], row[2:4], row[4:]], draw, MEASURING)
