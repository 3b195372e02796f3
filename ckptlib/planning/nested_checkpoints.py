"""Which calls of torch.utils.checkpoint do what a schedule does? Stages in brackets: a checkpoint around them all."""

from __future__ import annotations

from collections import deque
from itertools import groupby

from ..errors import CkptError
from .schedule import BACKWARD, FORWARD, FORWARDS, KEEP_INPUT, RESTORE, Action, Schedule

Calls = list["int | Calls"]  # a number: call that stage; a list: one checkpoint around what is in it


def nested_calls(schedule: Schedule) -> Calls:
    """The stages in order, those that one checkpoint goes around in a list of their own; lists may be nested.

    All schedules of `optimal` and of known_schedules.py are such nestings. Others may keep a checkpoint that was made
    inside of another, and run on from it when that one is gone.

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
                calls.append([stage] if kind == KEEP_INPUT else stage)
        for place in reversed(range(len(calls))):
            stages = calls[place]
            if isinstance(stages, list):
                first = stages[0]
                assert isinstance(first, int)  # what is nested has not been filled in yet
                _expect(todo, Action(RESTORE, first))
                calls[place] = forward_and_backward()  # what is inside shows when it runs again
            else:
                _expect(todo, Action(BACKWARD, stages))
        return calls

    return forward_and_backward()


def _expect(todo: deque[Action], action: Action) -> None:
    if not todo or todo.popleft() != action:
        raise CkptError(f"no nesting of checkpoints does what this schedule does, from {action} on: use ck.execute")


def brackets(calls: Calls) -> str:
    """In text. Three or more in a row that are all alone, or all alone under a checkpoint, are shortened.

    >>> brackets([0, 1, 2, [3], [4], [5], [[6, 7, 8], 9]])
    '0 … 2, [3] … [5], [[6 … 8], 9]'
    """

    def kind(call: int | Calls) -> str:
        alone = isinstance(call, int) or (len(call) == 1 and isinstance(call[0], int))
        return type(call).__name__ if alone else str(call)  # the others are like nothing else

    words: list[str] = []
    for _, alike in groupby(calls, kind):
        row = [str(call) if isinstance(call, int) else f"[{brackets(call)}]" for call in alike]
        words += row if len(row) < 3 else [f"{row[0]} … {row[-1]}"]
    return ", ".join(words)
