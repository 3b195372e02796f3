"""Do these shapes fit, and if not, what is the likeliest mistake?"""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import CkptError

Shape = tuple[int, ...]


def shape_of(value: Tensor | float) -> Shape:
    """A Python number broadcasts like a tensor of shape ()."""
    return tuple(value.shape) if isinstance(value, Tensor) else ()


def check(what: str, found: Shape, expected: Shape, hint: str) -> None:
    if tuple(found) != tuple(expected):
        raise CkptError(f"{what} has shape {tuple(found)}, expected {tuple(expected)}. {hint}")


def check_dy(op: str, dy: Tensor, expected: Shape) -> None:
    """PyTorch would broadcast a dy that is too small, and give wrong gradients without a word."""
    hint = "dy has the shape of y: it says how the loss changes with each number in y."
    check(f"{op}_vjp: dy", dy.shape, expected, hint)


def check_broadcast(op: str, a: Shape, b: Shape) -> None:
    try:
        torch.broadcast_shapes(a, b)
    except RuntimeError:
        raise CkptError(
            f"{op}: a is {a} and b is {b}, which do not broadcast. Aligned from the right, sizes must be equal, or one "
            "of them 1. Was a sum or mean taken without keepdim=True?"
        ) from None


def check_linear(x: Shape, w: Shape, b: Shape | None) -> None:
    """(..., D) and (K, D): a bias of shape (1,) or (N, K) would be broadcast, which a layer does not mean."""
    if len(w) != 2 or tuple(x[-1:]) != tuple(w[1:]):
        raise CkptError(
            f"linear: x is {tuple(x)} and w is {tuple(w)}, expected (..., D) and (K, D) with the same D. "
            "One row of w makes one output feature: did you pass w transposed?"
        )
    if b is not None:
        check("linear: b", b, w[:1], "There is one bias per output feature, as there is one row of w.")


def check_matmul(a: Shape, b: Shape) -> None:
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise CkptError(
            f"matmul: a is {a} and b is {b}, expected (..., N, D) and (..., D, K) with the same D. "
            "Is a transpose (`.mT`) missing, or `[None]` to make a vector a matrix?"
        )
    check_broadcast("matmul", a[:-2], b[:-2])
