"""Which schedules does the literature know? From saving everything to Revolve, each as one list of actions."""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from itertools import pairwise
from math import comb
from numbers import Integral

from ..errors import CkptError
from .schedule import BACKWARD, FORWARD, RESTORE, SAVE_ALL, SAVE_INPUT, Action, Schedule


def store_all(n: int) -> Schedule:
    """Plain autograd: save everything, recompute nothing. n forwards, n + 1 activations."""
    _at_least(1, n=n)
    return Schedule(n, _save(0, n))


def recompute_all(n: int) -> Schedule:
    """Save only the chain's input: n(n + 1)/2 forwards, at most 3 activations."""
    return revolve(n, 1)


def periodic(n: int, k: int, save_chunk: bool = True) -> Schedule:
    """k checkpoints, one per chunk of about n/k stages.

    save_chunk=True saves a chunk while it is reversed (Chen et al.): 2n - n/k forwards, k + n/k activations.
    save_chunk=False saves only its checkpoint, and runs from there to every stage of the chunk in turn: about
    n + n²/2k forwards, k + 2 activations. Both are called "C checkpoints", and that is why textbooks disagree.
    """
    _at_least(1, n=n, k=k)
    if k > n:
        raise CkptError(f"k is {k}, more checkpoints than the {n} stages")
    return _chunks([round(i * n / k) for i in range(k + 1)], save_chunk)


def sequential(n: int, segments: int) -> Schedule:
    """As torch's `checkpoint_sequential`: equal segments; the last one takes the rest and is not checkpointed."""
    _at_least(1, n=n, segments=segments)
    if segments > n:
        raise CkptError(f"segments is {segments}, more than the {n} stages")
    return _chunks([*(i * (n // segments) for i in range(segments)), n], save_chunk=True)


def recompute_each(n: int, stages: int) -> Schedule:
    """Checkpoint each of the first `stages` stages by itself, as most training code does with a model's blocks."""
    _at_least(1, n=n)
    again = [a for i in reversed(range(stages)) for a in (Action(RESTORE, i), *_save(i, i + 1))]
    return Schedule(n, [*(Action(SAVE_INPUT, i) for i in range(stages)), *_save(stages, n), *again])


def sqrt(n: int) -> Schedule:
    """Chen's schedule at its best, k = √n: about 2√n activations for not quite one more forward."""
    _at_least(1, n=n)
    return periodic(n, round(n**0.5))


def revolve(n: int, slots: int) -> Schedule:
    """Fewest forwards with at most `slots` checkpoints, the chain's input among them.

    The algorithm of Griewank & Walther 2000, for a chain of n stages.

    >>> revolve(10, 3).cost().forwards - 10 == extra_forwards(10, 3) == 15
    True
    """
    _at_least(1, n=n, slots=slots)
    return Schedule(n, _reverse(0, n, slots))


def beta(slots: int, repeats: int) -> int:
    """How long a chain can be if no stage may advance more than `repeats` times: C(slots + repeats, slots)."""
    return comb(slots + repeats, slots) if repeats >= 0 else 0


@cache
def extra_forwards(length: int, slots: int) -> int:
    """Griewank & Walther's t(l, s): the fewest forwards beyond the one per stage that saves everything."""
    r = 0
    while beta(slots, r) < length:
        r += 1
    return r * length - beta(slots + 1, r - 1)


@cache
def _split(length: int, slots: int) -> int:
    """How far to advance before the next checkpoint is placed."""
    if slots == 1:
        return length - 1

    def forwards(k: int) -> int:
        return k + extra_forwards(length - k, slots - 1) + extra_forwards(k, slots)

    # Every term is convex in k, so their sum is: the best k is the first where one more saves nothing.
    return 1 + bisect_left(range(1, length - 1), True, key=lambda k: forwards(k + 1) >= forwards(k))


def _chunks(edges: list[int], save_chunk: bool) -> Schedule:
    n, chunks = edges[-1], list(pairwise(edges))
    actions = [a for lo, hi in chunks[:-1] for a in _advance(lo, hi)]
    for lo, hi in reversed(chunks):
        if hi < n:
            actions.append(Action(RESTORE, lo))
        actions += _save(lo, hi) if save_chunk else _reverse(lo, hi, 1)
    return Schedule(n, actions)


def _reverse(lo: int, hi: int, slots: int) -> list[Action]:
    """Revolve on stages lo to hi - 1; lo's input is current and takes the first slot."""
    actions, waiting = [], []  # parts before a checkpoint wait for those after it
    while True:
        while hi - lo > 1:
            middle = lo + _split(hi - lo, slots)
            actions += _advance(lo, middle)
            waiting.append((lo, middle, slots))
            lo, slots = middle, slots - 1
        actions += _save(lo, hi)
        if not waiting:
            return actions
        lo, hi, slots = waiting.pop()
        actions.append(Action(RESTORE, lo))


def _advance(lo: int, hi: int) -> list[Action]:
    return [Action(SAVE_INPUT, lo), *(Action(FORWARD, i) for i in range(lo + 1, hi))]


def _save(lo: int, hi: int) -> list[Action]:
    return [Action(SAVE_ALL, i) for i in range(lo, hi)] + [Action(BACKWARD, i) for i in reversed(range(lo, hi))]


def _at_least(least: int, **values: int) -> None:
    for name, value in values.items():
        if not isinstance(value, Integral) or value < least:
            raise CkptError(f"{name} is {value!r}, expected a whole number, {least} or more")
