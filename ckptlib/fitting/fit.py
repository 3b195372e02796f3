"""Will it fit? The largest batch that a GPU can train, what its memory is then used for, and what recomputing costs.

Every way to train is a schedule over the model's blocks and its head (block_chain.py); their bytes are measured
(block_costs.py), once for all batches (other_batch.py).
"""

from __future__ import annotations

from dataclasses import replace

from tqdm.auto import tqdm

from ..cuda.memory_sizes import capacity
from ..errors import CkptError
from ..models.configs import Config, named
from .answers import Fit, Fits
from .block_chain import Need
from .largest_batch import STRATEGIES, Question
from .training_runs import PRECISIONS, Setting

MOST_TOKENS = 2**21  # plain attention over more would need more bytes than a float counts exactly

__all__ = ["STRATEGIES", "Fit", "Fits", "Need", "fit", "fits"]


def fit(
    config: str | Config,
    gpu: str | int = "80GiB",
    seq: int | None = None,
    precision: str = "mixed",
    strategy: str = "none",
    *,
    fused: bool = False,
) -> Fit:
    """The largest batch whose training step, AdamW's included, fits on one GPU, and what it needs there.

    config      a Config or a name such as "gpt2-xl"; `seq` tokens instead of its own number
    precision   "fp32", "bf16" (everything), or "mixed" (bfloat16, with float32 master weights and moments)
    strategy    recompute "none", "selective" (plain attention's scores, softmax and product with V), "full" (every
                block), or as "planned": the fastest schedule of the blocks (`ck.optimal`) that fits

    Counted are the blocks that torch's allocator hands out under expandable_segments:True. What the driver takes comes
    on top; so does, by default, up to 1 MiB for each large tensor.
    """
    return fits(config, gpu, seq, precision, (strategy,), fused=fused)[strategy]


def fits(
    config: str | Config,
    gpu: str | int = "80GiB",
    seq: int | None = None,
    precision: str = "mixed",
    strategies: tuple[str, ...] = STRATEGIES,
    *,
    fused: bool = False,
    batches: tuple[int, ...] = (),
) -> Fits:
    """`fit` for several strategies, and what each of them costs at the batches that the others reach.

    `batches` are more of them to compare at.
    """
    config = named(config)
    _known("precision", precision, PRECISIONS)
    for strategy in strategies:
        _known("strategy", strategy, STRATEGIES)
    if seq is not None:
        if isinstance(seq, bool) or not isinstance(seq, int) or not 1 <= seq <= MOST_TOKENS:
            raise CkptError(f"seq is {seq!r}, expected a whole number of tokens, from 1 to {MOST_TOKENS:,}")
        config = replace(config, tokens=seq)
    nbytes, card = capacity(gpu)
    at = Setting(config, 1, precision, fused, card)
    # No bar is shown where stderr is not a terminal, or where the work takes less than a second.
    with tqdm(desc="blocks looked at", disable=None, delay=1, leave=False) as bar:
        asked = {strategy: Question(at, nbytes, strategy, bar.update) for strategy in strategies}
        found = {}
        for strategy, question in asked.items():
            need, too_much = question.largest()
            batch = need.batch if need else 0
            found[strategy] = Fit(config, nbytes, precision, strategy, fused, batch, need, too_much)
        reached = {answer.batch for answer in found.values()} - {0} if len(found) > 1 else set()
        compared = sorted({*reached, *batches})
        return Fits(found, {b: {s: _extra(asked[s], found[s], b) for s in found} for b in compared})


def _extra(question: Question, answer: Fit, batch: int) -> float | None:
    if batch > answer.batch:
        return None
    need = answer.need if answer.need is not None and batch == answer.batch else question.need(batch)
    return need.extra


def _known(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise CkptError(f"{name} is {value!r}, expected one of {', '.join(known)}")
