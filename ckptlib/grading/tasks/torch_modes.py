"""Which hooks and modes of torch were entered and not left? They change what every op of torch does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...torch_internals import (
    allow_saved_tensor_hooks,
    dispatch_modes,
    forbid_saved_tensor_hooks,
    function_modes,
    newest_saved_tensor_hooks,
    pop_dispatch_mode,
    pop_function_mode,
    pop_saved_tensor_hooks,
    push_dispatch_mode,
    push_function_mode,
    push_saved_tensor_hooks,
    why_saved_tensor_hooks_are_forbidden,
)


@contextmanager
def left_modes() -> Iterator[None]:
    """Leave all modes and saved-tensor hooks for the block. After it, the same ones are active as before it."""
    before = [_empty(stack) for stack in _STACKS]
    try:
        yield
    finally:
        for (_, push, _), found, stack in zip(_STACKS, before, _STACKS, strict=True):
            _empty(stack)
            for entered in reversed(found):
                push(entered)


Stack = tuple[Callable[[], Any], Callable[[Any], None], Callable[[], bool]]


def _empty(stack: Stack) -> list[Any]:
    """What was on it, the latest first."""
    pop, _, any_left = stack
    found = []
    while any_left():
        found.append(pop())
    return found


def _pop_hooks() -> Any:
    pair = newest_saved_tensor_hooks(False)
    pop_saved_tensor_hooks()
    return pair


def _allow_hooks() -> str | None:
    why = why_saved_tensor_hooks_are_forbidden()
    allow_saved_tensor_hooks()
    return why


# Of each stack: how to pop, to push, and to see whether anything is left.
_STACKS: list[Stack] = [
    (pop_function_mode, push_function_mode, lambda: bool(function_modes())),
    (pop_dispatch_mode, push_dispatch_mode, lambda: bool(dispatch_modes())),
    # before the hooks themselves, because none can be pushed while they are forbidden
    (_allow_hooks, forbid_saved_tensor_hooks, lambda: why_saved_tensor_hooks_are_forbidden() is not None),
    (_pop_hooks, lambda pair: push_saved_tensor_hooks(*pair), lambda: newest_saved_tensor_hooks(False) is not None),
]
