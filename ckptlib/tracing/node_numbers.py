"""When was an autograd node made? Its sequence number tells, unless somebody who imitates CUDA's order changed it."""

from __future__ import annotations

from typing import Any

from ..torch_internals import sequence_number, set_sequence_number

_KEY = "ckptlib: number when it was made"  # in the node's own metadata


def number_of(node: Any) -> int:
    """The sequence number that the node got when it was made. No other node of its thread has the same."""
    number = node.metadata.get(_KEY)
    return sequence_number(node) if number is None else number


def is_renumbered(node: Any) -> bool:
    return _KEY in node.metadata


def renumber(node: Any, number: int) -> None:
    """Have the engine treat `node` as if it had been made at `number`."""
    node.metadata[_KEY] = sequence_number(node)
    set_sequence_number(node)(max(number, 0))
