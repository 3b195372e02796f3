"""How does a training step's ledger change with batch, depth, width and optimizer? Stacked bars with knobs."""

from __future__ import annotations

import ipywidgets as widgets

from ..memory_bars import ledger_bars
from ..styles import Drawing
from ._panel import look, panel

STATES = {"SGD": 0, "SGD with momentum": 1, "AdamW": 2}  # numbers for each parameter that stay in memory between steps
BATCHES = [2**p for p in range(13)]
WIDTHS = [2**p for p in range(5, 12)]


def predicted_ledger(batch: int, depth: int, width: int = 256, optimizer: str = "AdamW") -> dict[str, int]:
    """Bytes by purpose of a training step of `depth` times (Linear, ReLU) in float32, computed without a run.

    x: (batch, width). Each pair saves one tensor of the size of x, ReLU's output, which is the next Linear's input.
    """
    parameter = 4 * depth * (width * width + width)
    counters = 4 * 2 * depth if optimizer == "AdamW" else 0  # AdamW counts its steps in each weight's and bias's state
    return {
        "parameter": parameter,
        "gradient": parameter,
        "optimizer state": STATES[optimizer] * parameter + counters,
        "input": 4 * batch * width,
        "activation": 4 * batch * width * depth,
    }


def ledger_figure(batch: int, depth: int, width: int = 256, optimizer: str = "AdamW") -> Drawing:
    """The ledger of one choice, and those for twice the batch and for twice the depth, on one scale."""
    return ledger_bars(
        {
            f"batch {batch:,}, depth {depth}": predicted_ledger(batch, depth, width, optimizer),
            f"batch {2 * batch:,}, depth {depth}": predicted_ledger(2 * batch, depth, width, optimizer),
            f"batch {batch:,}, depth {2 * depth}": predicted_ledger(batch, 2 * depth, width, optimizer),
        }
    )


def in_words(batch: int, depth: int, width: int = 256, optimizer: str = "AdamW") -> str:
    """The conclusion of the first bar: the activations' share, and how they compare with the parameters."""
    ledger = predicted_ledger(batch, depth, width, optimizer)
    share = ledger["activation"] / sum(ledger.values())
    times = ledger["activation"] / ledger["parameter"]
    return f"Activations are {share:.0%} of the first bar, and {times:,.2f} times the parameters."


def ledger_explorer() -> widgets.VBox:
    """Move batch, depth, width and optimizer; see how a training step's memory changes, category by category."""
    knobs = {
        "batch": widgets.SelectionSlider(options=BATCHES, value=64, description="batch (rows)", **look()),
        "depth": widgets.IntSlider(8, min=1, max=24, description="depth (layers)", **look()),
        "width": widgets.SelectionSlider(options=WIDTHS, value=256, description="width (features)", **look()),
        "optimizer": widgets.Dropdown(options=list(STATES), value="AdamW", description="optimizer", **look()),
    }

    def draw() -> tuple[str, str]:
        chosen = {name: knob.value for name, knob in knobs.items()}
        return ledger_figure(**chosen).svg(), in_words(**chosen)

    row = list(knobs.values())
    return panel([row[:2], row[2:]], draw)
