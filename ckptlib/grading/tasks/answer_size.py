"""Is an answer far larger than what was asked for? Then it is not compared in full, because that could take hours.

A student's data decides how long a comparison takes, and a comparison runs outside the kernel, once for every known
mistake. So its size is bounded first, by the size of the right answer, and counting stops at that bound.
"""

from __future__ import annotations

from typing import Any

FACTOR = 4  # times as large as the right answer, an answer is still compared in full
SLACK = 1000  # entries that any answer may have


def fitted(answer: Any, right: Any) -> Any:
    """The encoded answer. Each part that is far larger than in the right answer becomes a note of its kind and size."""
    if _size(answer, most := FACTOR * _size(right) + SLACK) <= most:
        return answer
    match answer, right:
        case {"dict": list(pairs)}, {"dict": list(wanted)}:
            return {"dict": _parts(pairs, dict(map(tuple, wanted)))}
    return {"other": _kind(answer)}


def _parts(pairs: list, wanted: dict[str, Any]) -> list:
    """The wanted entries only, each bounded for itself: a part of an answer that is too large costs that part."""
    found = {}
    for pair in pairs:
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and pair[0] in wanted:
            found[pair[0]] = pair[1]
    return [[key, fitted(value, wanted[key])] for key, value in found.items()]


def _size(data: Any, most: float = float("inf")) -> float:
    """How many entries encoded data has, counted until there are more than `most`. Text and tensors count by length."""
    count, todo = 0, [data]
    while todo and count <= most:
        part = todo.pop()
        count += 1
        if isinstance(part, str):
            count += len(part) // 8
        elif isinstance(part, (list, dict)):
            if len(part) > most - count:
                return count + len(part)
            todo.extend(part.values() if isinstance(part, dict) else part)
    return count


def _kind(answer: Any) -> str:
    match answer:
        case list():
            return f"list of {len(answer):,} entries"
        case str():
            return f"text of {len(answer):,} letters"
        case {"dict": list(pairs)}:
            return f"dict of {len(pairs):,} entries"
        case {"array": _, "shape": list(shape)}:
            return f"tensor of shape ({', '.join(map(str, shape))})"[:100]
    return type(answer).__name__
