"""Which calls of torch.utils.checkpoint do the same as a schedule? Brackets around stages stand for one checkpoint."""

from __future__ import annotations

from collections import deque
from itertools import groupby

from ..errors import CkptError
from .schedule import BACKWARD, FORWARD, FORWARDS, RESTORE, SAVE_INPUT, Action, Schedule

Calls = list["int | Calls"]  # a number is a call of that stage, and a list is one checkpoint around its calls


def nested_calls(schedule: Schedule) -> Calls:
    """The stages in order. The stages inside one checkpoint form a list of their own, and lists may be nested.

    All schedules of `optimal` and of known_schedules.py can be written this way. Other schedules may save a checkpoint
    inside another one, and continue from it after the outer one was freed.

    >>> from ckptlib.planning.known_schedules import periodic, recompute_all
    >>> nested_calls(periodic(6, 3)), nested_calls(recompute_all(3))
    ([[0, 1], [2, 3], 4, 5], [[[0], 1], 2])
    """
    todo = deque(schedule.actions)

    def forward_and_backward() -> Calls:
        calls: Calls = []
        while todo and todo[0].kind in FORWARDS:
            kind, stage = todo.popleft()
            if kind == FORWARD and calls and isinstance(calls[-1], list):
                calls[-1].append(stage)
            else:
                calls.append([stage] if kind == SAVE_INPUT else stage)
        for place in reversed(range(len(calls))):
            stages = calls[place]
            if isinstance(stages, list):
                first = stages[0]
                assert isinstance(first, int)  # inner lists have not been filled in yet
                _expect(todo, Action(RESTORE, first))
                calls[place] = forward_and_backward()  # the second run shows what is nested inside
            else:
                _expect(todo, Action(BACKWARD, stages))
        return calls

    return forward_and_backward()


def _expect(todo: deque[Action], action: Action) -> None:
    if not todo or todo.popleft() != action:
        raise CkptError(
            f"nested checkpoints cannot do what this schedule does from {action} on. Use ck.execute instead"
        )


def brackets(calls: Calls) -> str:
    """The calls as text. Three or more single stages in a row, or single checkpointed stages, are abbreviated.

    >>> brackets([0, 1, 2, [3], [4], [5], [[6, 7, 8], 9]])
    '0 … 2, [3] … [5], [[6 … 8], 9]'
    """

    def kind(call: int | Calls) -> str:
        alone = isinstance(call, int) or (len(call) == 1 and isinstance(call[0], int))
        return type(call).__name__ if alone else str(call)  # a longer list is never abbreviated with its neighbours

    words: list[str] = []
    for _, alike in groupby(calls, kind):
        row = [str(call) if isinstance(call, int) else f"[{brackets(call)}]" for call in alike]
        words += row if len(row) < 3 else [f"{row[0]} … {row[-1]}"]
    return ", ".join(words)
