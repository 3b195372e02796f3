"""What do fewer bytes cost? Saved tensors unchanged, in fewer bits, or on disk; bytes against gradient errors."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from functools import cache
from math import log10
from typing import NamedTuple

import ipywidgets as widgets
import torch
from torch import nn

from ...recompute.offload_and_compress import Packing, compress, gradient_error, offload
from ...units import KiB, size
from .. import styles
from ..styles import LOOKS, WIDTH, Drawing
from ._panel import look, panel

WAYS = {"unchanged": "", "bf16": "bf16", "int8": "int8", "host memory": "cpu", "disk": "disk"}
FUNCTIONS = {"ReLU": nn.ReLU, "GELU": nn.GELU, "tanh": nn.Tanh}
ROWS, FEATURES, DEEPEST = 128, 64, 16


class PackedBytes(NamedTuple):
    """One step of `depth` times (Linear, activation function), measured."""

    saved: int  # bytes, parameters left out
    on_device: int
    moved_out: int
    moved_in: int
    errors: tuple[float, ...]  # of each layer's weight gradient, relative, the input's layer first

    @property
    def worst(self) -> float:
        return max(self.errors)


@cache
def packed(way: str, depth: int, function: str) -> PackedBytes:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [m for _ in range(depth) for m in (nn.Linear(FEATURES, FEATURES), FUNCTIONS[function]())]
        model, x = nn.Sequential(*layers), torch.randn(ROWS, FEATURES)
    weights = {name: p for name, p in model.named_parameters() if name.endswith("weight")}
    to = WAYS[way]
    with tempfile.TemporaryDirectory() if to == "disk" else nullcontext() as folder:
        # without packing there is nothing to compare: offloading keeps the gradients, and counts
        packing: Packing = compress(to) if to in ("bf16", "int8") else offload(folder or "cpu")
        found = gradient_error(lambda: model(x).sum(), weights, packing)
    errors = tuple(float(f"{error:.1e}") for error in found.relative.values())
    if not to:
        return PackedBytes(packing.saved, packing.saved, 0, 0, errors)
    return PackedBytes(packing.saved, packing.on_device, packing.moved_out, packing.moved_in, errors)


def in_words(way: str, depth: int, function: str) -> str:
    """How much stays on the device, how much moves, how wrong the gradients are."""
    found = packed(way, depth, function)
    moved = found.moved_out + found.moved_in
    share = f"{size(found.on_device)} of {size(found.saved)} stay on the device, {found.on_device / found.saved:.0%}"
    travel = f"{size(moved)} move" if moved else "nothing moves"
    worst = "the gradients are exact" if not found.worst else f"the worst gradient is off by {found.worst:.1%}"
    return f"{share}; {travel}; {worst}."


@styles.style()
def packing_figure(way: str, depth: int, function: str) -> Drawing:
    """Left: bytes saved, left on the device and moved. Right: each layer's gradient error."""
    found = packed(way, depth, function)
    figure, _ = styles.sheet(2.5)
    left = styles.axes_at(figure, 1.15, 0.5, 2.2, 1.75)
    bars = {
        "saved": ("input", found.saved),
        "on device": ("activation", found.on_device),
        "moved out": ("temporary", found.moved_out),
        "moved back": ("temporary", found.moved_in),
    }
    for y, (category, nbytes) in enumerate(bars.values()):
        styles.fill(left, category, styles.boxes((0, y - 0.36, nbytes / KiB, y + 0.36)))
        left.annotate(f"{nbytes / KiB:,.0f}", (nbytes / KiB, y), (3, 0), textcoords="offset points", va="center")
    left.set(xlim=(0, 2 * found.saved / KiB), ylim=(3.5, -0.5), xlabel="KiB", yticks=range(4), yticklabels=list(bars))
    left.tick_params(axis="y", length=0)
    right = styles.axes_at(figure, 4.75, 0.5, WIDTH - 4.95, 1.75)
    layers = range(1, depth + 1)
    right.set(xlim=(0.5, depth + 0.5), xticks=layers[:: 1 + depth // 9], xlabel="layer (1: next to the input)")
    right.set(ylim=(-5, 0.2), yticks=range(-5, 1), ylabel="relative error of the gradient")
    right.set_yticklabels(f"{10.0 ** (power + 2):g} %" for power in range(-5, 1))  # a log axis takes 0.2 s longer
    if found.worst:
        right.plot(layers, [log10(e) for e in found.errors], "o-", color=LOOKS["activation"].colour, markersize=4)
    else:
        right.text((depth + 1) / 2, -2.5, "exact: 0 in every layer", ha="center")
    return Drawing(figure, in_words(way, depth, function))


def packing_explorer() -> widgets.VBox:
    """Choose how saved tensors wait, the activation function and the depth; see bytes and errors."""
    knobs = {
        "way": widgets.Dropdown(options=list(WAYS), value="int8", description="saved tensors", **look(300)),
        "function": widgets.Dropdown(options=list(FUNCTIONS), description="activation function", **look(300)),
        "depth": widgets.IntSlider(8, min=1, max=DEEPEST, description="depth (layers)", **look(300)),
    }

    def draw() -> tuple[str, str]:
        drawn = packing_figure(**{name: knob.value for name, knob in knobs.items()})
        return drawn.svg(), drawn.alt

    row = list(knobs.values())
    return panel([row[:2], row[2:]], draw)
