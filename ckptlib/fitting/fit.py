"""Will it fit? The largest batch that a GPU can train, how its memory is used then, and the cost of recomputing.

Every way to train is a schedule of the model's blocks. The memory that the step needs under a schedule is measured on
fake tensors, and one such record is enough for every batch (batch_rescaling.py). The steps of a user's model are run
from end to end (user_model_needs.py). Named models have equal blocks, so it is enough, and faster, to run three of them
(named_model_needs.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tqdm.auto import tqdm

from ..cuda.gpus import capacity
from ..errors import CkptError
from ..models.configs import Config, named
from .fit_results import Fit, Fits, Need
from .largest_batch import STRATEGIES, FitQuestion, Steps
from .named_model_needs import EqualBlocks
from .transformer_step import PRECISIONS, Setting
from .user_model_needs import AS_BUILT, WholeSteps

# with more, plain attention's bytes would exceed the largest integer that a float represents exactly
MOST_TOKENS = 2**21

__all__ = ["STRATEGIES", "Fit", "Fits", "Need", "fit", "fits"]

Model = str | Config | Callable[..., Any]


def fit(
    model: Model,
    gpu: str | int = "80GiB",
    seq: int | None = None,
    precision: str | None = None,
    strategy: str = "none",
    *,
    fused: bool = False,
) -> Fit:
    """The largest batch whose training step, AdamW's included, fits on one GPU, and what it needs there.

    model       a name such as "gpt2-xl", a Config, or a function of yours with a parameter `batch` that returns
                (model, inputs), (model, inputs, loss) or (model, inputs, loss, optimizer)
    gpu         its memory, such as "80GiB" or a number of bytes, or the name of a card, such as "a100"
    seq, fused  only for a model by name: the number of tokens, if not the model's own, and whether attention is fused
    precision   "fp32", "bf16" (everything), or "mixed" (bfloat16, with float32 master weights and moments). By
                default a model by name is "mixed", and your own model keeps the dtypes that you give it
    strategy    recompute "none", "selective" (plain attention's scores, softmax and product with V; by name only),
                "full" (every block), or as "planned": the fastest schedule of the blocks that fits

    The result counts the blocks that torch's allocator hands out under expandable_segments:True. It does not include
    the memory that the driver takes. With torch's default settings, each large tensor may take up to 1 MiB more.
    """
    return fits(model, gpu, seq, precision, (strategy,), fused=fused)[strategy]


def fits(
    model: Model,
    gpu: str | int = "80GiB",
    seq: int | None = None,
    precision: str | None = None,
    strategies: tuple[str, ...] | None = None,
    *,
    fused: bool = False,
    batches: tuple[int, ...] = (),
    name: str | None = None,
) -> Fits:
    """`fit` for several strategies, and what each of them costs at the largest batches of the others.

    `strategies` are by default all strategies that the model can be trained with. `batches` are additional batches at
    which they are compared. `name` is the name of your function in answers and errors.
    """
    nbytes, card = capacity(gpu)
    # No bar is shown where stderr is not a terminal, or where the work takes less than a second.
    with tqdm(desc="steps looked at", disable=None, delay=1, leave=False) as bar:
        shown: Config | str
        steps: Steps
        if callable(model):
            if seq is not None or fused:
                raise CkptError("seq and fused are for models by name, because your own function decides on both")
            shown, precision = name or _name_of(model), precision or AS_BUILT
            _known("precision", precision, (*PRECISIONS, AS_BUILT))
            steps = WholeSteps(model, shown, precision, card, bar.update)
        else:
            shown, precision = _config(model, seq), precision or "mixed"
            _known("precision", precision, PRECISIONS)
            steps = EqualBlocks(Setting(shown, 1, precision, fused, card), bar.update)
        strategies = steps.strategies if strategies is None else strategies
        for strategy in strategies:
            _known("strategy", strategy, steps.strategies)
        possible, notes = steps.possible(strategies)

        def answers() -> tuple[dict[str, FitQuestion], dict[str, Fit]]:
            asked = {strategy: FitQuestion(steps, nbytes, strategy) for strategy in possible}
            largest = {strategy: question.largest() for strategy, question in asked.items()}
            own = steps.notes if len(possible) == 1 else ()  # the notes of several answers follow at the end
            return asked, {
                s: Fit(shown, nbytes, precision, s, fused, need.batch if need else 0, need, too_much, own)
                for s, (need, too_much) in largest.items()
            }

        asked, found = answers()
        if not steps.confirmed(found.values()):
            asked, found = answers()
        reached = {answer.batch for answer in found.values()} - {0} if len(found) > 1 else set()
        compared = sorted({*reached, *batches})
        return Fits(
            found,
            {b: {s: _extra(asked[s], found[s], b) for s in found} for b in compared},
            (*notes, *(f"{note}." for note in steps.notes)),
        )


def _name_of(function: Callable) -> str:
    name = getattr(function, "__name__", "<")
    return "your model" if name.startswith("<") else name  # "<lambda>" says nothing


def _config(model: str | Config, seq: int | None) -> Config:
    config = named(model)
    if seq is None:
        return config
    if isinstance(seq, bool) or not isinstance(seq, int) or not 1 <= seq <= MOST_TOKENS:
        raise CkptError(f"seq is {seq!r}, expected a whole number of tokens, from 1 to {MOST_TOKENS:,}")
    return replace(config, tokens=seq)


def _extra(question: FitQuestion, answer: Fit, batch: int) -> float | None:
    if batch > answer.batch:
        return None
    need = answer.need if answer.need is not None and batch == answer.batch else question.need(batch)
    return need.extra


def _known(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise CkptError(f"{name} is {value!r}, expected one of {', '.join(known)}")
