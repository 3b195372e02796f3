"""Will it fit? A model, a card, a sequence, a precision and a strategy, by formula: as fast as a knob can be moved.

`ck.fit` measures the same on fake tensors, to the byte, and takes seconds for a new setting. Here a training step is
four moments, each a sum of formulas; the fullest decides.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from functools import cache
from itertools import count

import ipywidgets as widgets

from ...cuda.memory_sizes import MEMORY, capacity
from ...fitting.answers import Fit, Fits, percent
from ...fitting.block_chain import Need, recompute_each
from ...fitting.windows import PARTS, Parts
from ...models import formulas
from ...models.configs import CONFIGS, Config, LlamaConfig, named
from ...planning.known_schedules import store_all
from ..measurements import fit_bars
from ..styles import Drawing, size

ITEMSIZE = {"fp32": 4, "bf16": 2, "mixed": 2}  # of parameters and activations
STATE = {"fp32": 8, "bf16": 4, "mixed": 12}  # of the optimizer, for each parameter: two moments, and master weights
UPDATE = {"fp32": 4, "bf16": 2, "mixed": 4}  # of each gradient in the update, and of each temporary of foreach
WORKSPACE = 8_519_680  # cuBLAS'
TOKENS = [2**p for p in range(8, 18)]


def layer_terms(config: Config, precision: str, fused: bool) -> dict[str, int]:
    """What one layer keeps of one sequence on a GPU, in bytes: linear in the tokens, and the square."""
    s, h, a, e = config.tokens, config.width, config.heads, ITEMSIZE[precision]
    if isinstance(config, LlamaConfig):
        terms = formulas.llama_terms(config, fused=fused, itemsize=e)
        square = terms.pop("log-sum-exp" if fused else "softmax output")
        return {"linear": sum(terms.values()), "square": square}
    linear = (16 * e + 2) * s * h + 16 * s  # masks have one byte in any precision, statistics are float32
    return {"linear": linear, "square": 4 * a * s if fused else (2 * e + 1) * a * s * s}


def kept_nbytes(config: Config, precision: str, strategy: str, fused: bool) -> int:
    """What a layer keeps of one sequence until backward comes by."""
    if strategy == "full":
        return ITEMSIZE[precision] * config.tokens * config.width
    terms = layer_terms(config, precision, fused)
    return terms["linear"] + (terms["square"] if strategy == "none" else 0)


def moments(config: Config, batch: int, precision: str, strategy: str, fused: bool) -> dict[str, Parts]:
    """Moment -> bytes by part, at the four moments of which one is the fullest."""
    e, n, layers = ITEMSIZE[precision], config.parameters, config.layers
    x = e * batch * config.tokens * config.width
    kept = batch * kept_nbytes(config, precision, strategy, fused)
    block, work = _block_backward(config, batch, precision, strategy, fused)
    gradients = UPDATE[precision] * n

    def parts(**more: int) -> Parts:
        mask = e * config.tokens**2
        state = {"parameters": e * n, "optimizer": STATE[precision] * n, "other": mask}
        return {**dict.fromkeys(PARTS, 0), **state, **{name.replace("_", " "): nbytes for name, nbytes in more.items()}}

    return {
        "backward of the head": parts(
            activations=layers * kept + 2 * x,
            logits_and_loss=3 * e * batch * config.tokens * config.vocabulary,  # log-softmax, its gradient, the logits'
            workspace=WORKSPACE,
        ),
        f"backward of block {layers - 1}": parts(
            gradients=e * config.vocabulary * config.width,
            activations=(layers - 1) * kept + block + x,
            workspace=work + 2 * WORKSPACE,
        ),
        "backward of block 0": parts(gradients=e * n, activations=block, workspace=work + 2 * WORKSPACE),
        "update": parts(gradients=gradients, workspace=gradients + 2 * WORKSPACE),
    }


def _block_backward(config: Config, batch: int, precision: str, strategy: str, fused: bool) -> tuple[int, int]:
    """Activations of the block that is being reversed, and gradients on their way, at the fuller of two moments.

    Its MLP comes first: everything is still there, and gradients of two wide tensors. When softmax is reversed, the MLP
    has been given back; for each head there are the probabilities and three more matrices.
    """
    e, terms = ITEMSIZE[precision], layer_terms(config, precision, fused)
    hidden = config.ffn if isinstance(config, LlamaConfig) else 4 * config.width
    square = 0 if strategy == "selective" else terms["square"]  # not recomputed yet
    mlp = terms["linear"] + square, 2 * e * config.tokens * hidden
    matrix = 0 if fused else e * config.heads * config.tokens**2
    softmax = terms["linear"] // 2 + matrix, 3 * matrix
    kept, work = max(mlp, softmax, key=sum)
    return batch * kept, batch * work


def need(config: Config, batch: int, precision: str, strategy: str, fused: bool) -> Need:
    """The fullest moment of a training step."""
    found = moments(config, batch, precision, strategy, fused)
    window = max(found, key=lambda name: sum(found[name].values()))
    again = formulas.recomputed_flops(config, 1, strategy)
    if strategy == "selective":
        again = config.layers * formulas.attention_again_flops(config, fused=fused)
    schedule = (recompute_each if strategy == "full" else lambda n: store_all(n + 1))(config.layers)
    extra = again / (3 * (config.layers * formulas.forward_flops(config) + formulas.head_flops(config)))
    return Need(batch, window, found[window], extra, schedule, strategy == "selective")


@cache
def fit_by_formula(
    model: str | Config,
    gpu: str | int,
    tokens: int,
    precision: str = "mixed",
    strategy: str = "none",
    fused: bool = False,
) -> Fit:
    """The largest batch that fits by formula: what `ck.fit` measures, but for a few percent."""
    config, nbytes = replace(named(model), tokens=tokens), capacity(gpu)[0]
    setting = (precision, strategy, fused)

    def total(batch: int) -> int:
        return max(sum(parts.values()) for parts in moments(config, batch, *setting).values())

    high = next(2**p for p in count() if total(2**p) > nbytes)
    batch = bisect_right(range(1, high), nbytes, key=total)
    fitting = need(config, batch, *setting) if batch else None
    return Fit(config, nbytes, precision, strategy, fused, batch, fitting, need(config, batch + 1, *setting))


def fit_figure(**setting: object) -> Drawing:
    """The largest batch that fits, and one sequence more, stacked by purpose, against the card's memory."""
    fits = fit_by_formula(**setting)
    bars = {"more": replace(fits, batch=fits.batch + 1, need=fits.too_much)}
    drawn = fit_bars(Fits(({"fits": fits} if fits.batch else {}) | bars, {}))
    return Drawing(drawn.figure, in_words(**setting))


def in_words(**setting: object) -> str:
    """The largest batch, when memory is fullest, of what, and what recomputing costs."""
    fits = fit_by_formula(**setting)
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
    look = {"style": {"description_width": "initial"}, "layout": widgets.Layout(width="360px")}
    knobs = {
        "model": widgets.Dropdown(options=list(CONFIGS), value="gpt2-xl", description="model", **look),
        "gpu": widgets.Dropdown(options=list(MEMORY), value="a100", description="GPU", **look),
        "tokens": widgets.SelectionSlider(options=TOKENS, value=1024, description="sequence (tokens)", **look),
        "precision": widgets.Dropdown(options=list(ITEMSIZE), value="mixed", description="precision", **look),
        "strategy": widgets.Dropdown(options=formulas.STRATEGIES, value="none", description="recompute", **look),
        "fused": widgets.Dropdown(
            options=[("plain", False), ("fused", True)], value=False, description="attention", **look
        ),
    }
    figure, words = widgets.HTML(), widgets.HTML()

    def draw(_: object = None) -> None:
        setting = {name: knob.value for name, knob in knobs.items()}
        drawn = fit_figure(**setting)
        figure.value, words.value = drawn.svg(), drawn.alt

    for knob in knobs.values():
        knob.observe(draw, names="value")
    draw()
    rows = list(knobs.values())
    return widgets.VBox([*(widgets.HBox(rows[i : i + 2]) for i in (0, 2, 4)), figure, words])
