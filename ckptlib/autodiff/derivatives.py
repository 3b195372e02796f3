"""What does each op's derivative need?

An op is two functions. The forward returns its output and what it saves. The vector-Jacobian product (VJP) takes dy,
the gradient of the loss with respect to the output, then what was saved, and returns one gradient per input:

    y, saved = softmax(x)
    dx = softmax_vjp(dy, *saved)

So the signature of a VJP *is* the list of what must be remembered: `softmax_vjp(dy, y)` says that x may be freed. Only
tensors cost memory; shapes and numbers are free. Above it, `@needs` says which gradient needs which of them. Where
nobody wants that gradient, None may stand for the tensor, and the gradient comes back as None.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import CkptError
from .shapes import Shape, check, check_broadcast, check_dy, check_linear, check_matmul, shape_of

Maybe = Tensor | None  # None: not saved, because nobody wants the gradient that needs it
Grads = tuple[Maybe, Maybe, Tensor]  # dx, dw, db
Vjp = TypeVar("Vjp", bound=Callable)
Saved = tuple  # what a forward hands to its VJP, in the order of the VJP's arguments


def needs(**by_input: str) -> Callable[[Vjp], Vjp]:
    """Note on a VJP, input by input and in the order of its results, which of its arguments each gradient reads."""

    def note(vjp: Vjp) -> Vjp:
        noted: Any = vjp  # no type of a function has our attribute
        noted.needs = {name: arguments.split() for name, arguments in by_input.items()}
        return vjp

    return note


def unbroadcast(dy: Tensor, shape: Shape) -> Tensor:
    """Sum dy down to `shape`: what was broadcast was used many times, and the gradients of all uses add up.

    >>> unbroadcast(torch.ones(4, 3), (3,))
    tensor([4., 4., 4.])
    """
    new = dy.ndim - len(shape)  # dimensions that broadcasting put in front
    dims = [d for d, size in enumerate(dy.shape) if d < new or shape[d - new] != size]
    return dy.sum(dims, keepdim=True).reshape(shape) if dims else dy


def linear(x: Tensor, w: Tensor, b: Tensor | None = None) -> tuple[Tensor, Saved]:
    """y = x wᵀ + b.   x: (..., D)   w: (K, D)   b: (K,)   ->   y: (..., K)"""
    check_linear(x.shape, w.shape, None if b is None else b.shape)
    return F.linear(x, w, b), (x, w)


@needs(x="w", w="x", b="")
def linear_vjp(dy: Tensor, x: Maybe, w: Maybe) -> Grads:
    """dy: (..., K)   ->   dx: (..., D), dw: (K, D), db: (K,)

    A frozen layer (dw not wanted) need not remember x, its large activation: only w, which is there anyway.
    """
    rows = dy.shape[:-1] if x is None else x.shape[:-1]
    features = dy.shape[-1:] if w is None else w.shape[:1]
    check_dy("linear", dy, (*rows, *features))
    dx = None if w is None else dy @ w  # (..., K) @ (K, D)
    dw = None if x is None else torch.einsum("...k,...d->kd", dy, x)  # w met every row: sum over rows
    return dx, dw, unbroadcast(dy, dy.shape[-1:])


def relu(x: Tensor) -> tuple[Tensor, Saved]:
    """y = max(x, 0), any shape."""
    y = x.relu()
    return y, (y,)


@needs(x="y")
def relu_vjp(dy: Tensor, y: Tensor) -> Tensor:
    """dx = dy where y > 0, else 0.

    y > 0 exactly where x > 0, and the next layer saves y anyway. At x = 0 we take slope 0.
    """
    check_dy("relu", dy, y.shape)
    return dy.masked_fill(y <= 0, 0)  # not dy * (y > 0): that is nan where dy is infinite


def sigmoid(x: Tensor) -> tuple[Tensor, Saved]:
    """y = 1 / (1 + e⁻ˣ), any shape."""
    y = x.sigmoid()
    return y, (y,)


@needs(x="y")
def sigmoid_vjp(dy: Tensor, y: Tensor) -> Tensor:
    """dx = dy y (1 - y): at most dy / 4, so a stack of sigmoids shrinks its gradients."""
    check_dy("sigmoid", dy, y.shape)
    return dy * y * (1 - y)


def tanh(x: Tensor) -> tuple[Tensor, Saved]:
    """y = tanh x, any shape."""
    y = x.tanh()
    return y, (y,)


@needs(x="y")
def tanh_vjp(dy: Tensor, y: Tensor) -> Tensor:
    """dx = dy (1 - y²): tanh always rises, so y determines x, and y is enough."""
    check_dy("tanh", dy, y.shape)
    return dy * (1 - y * y)


def softmax(x: Tensor) -> tuple[Tensor, Saved]:
    """y = eˣ / Σ eˣ over the last dimension.   x: (..., K)   ->   y: (..., K)"""
    y = x.softmax(-1)
    return y, (y,)


@needs(x="y")
def softmax_vjp(dy: Tensor, y: Tensor) -> Tensor:
    """dx = y (dy - Σ dy y): the Jacobian diag(y) - y yᵀ acts through one number per row.

    A constant added to a row of x changes nothing, which is why every row of dx sums to 0.
    """
    check_dy("softmax", dy, y.shape)
    return y * (dy - (dy * y).sum(-1, keepdim=True))


def cross_entropy(logits: Tensor, target: Tensor, reduction: str = "mean") -> tuple[Tensor, Saved]:
    """loss = -log softmax(logits)[target].   logits: (..., K)   target: (...), class numbers   ->   loss: ()

    K comes last. `F.cross_entropy` wants it second: the two agree for (N, K).
    """
    if reduction not in ("mean", "sum"):
        raise CkptError(f"cross_entropy: reduction is {reduction!r}, expected 'mean' or 'sum'.")
    if target.dtype != torch.int64:
        raise CkptError(f"cross_entropy: target is {target.dtype}, expected class numbers in torch.int64. One-hot?")
    check("cross_entropy: target", target.shape, logits.shape[:-1], "One class number per row; classes come last.")
    log_p = logits.log_softmax(-1)
    losses = -log_p.gather(-1, target[..., None])
    return (losses.mean() if reduction == "mean" else losses.sum()), (log_p.exp(), target, reduction)


@needs(logits="p target")
def cross_entropy_vjp(dy: Tensor, p: Tensor, target: Tensor, reduction: str) -> Tensor:
    """dlogits = dy (p - onehot), divided by the number of rows for 'mean'.

    dy: ()   p: (..., K)   target: (...)   ->   dlogits: (..., K)

    The derivatives of softmax and log cancel: the logits are not needed, and nothing is
    divided by a small p.
    """
    check_dy("cross_entropy", dy, ())
    target = target[..., None]
    minus_one = torch.full_like(target, -1, dtype=p.dtype)
    dlogits = p.scatter_add(-1, target, minus_one)  # p - onehot
    return dlogits * (dy / target.numel() if reduction == "mean" else dy)


def max_pool2d(x: Tensor, kernel_size: int, stride: int | None = None, padding: int = 0) -> tuple[Tensor, Saved]:
    """y = the largest number of each window.   x: (C, H, W) or (N, C, H, W)   ->   y: (..., H', W')"""
    y, indices = F.max_pool2d(x, kernel_size, stride, padding, return_indices=True)
    return y, (indices, tuple(x.shape))


@needs(x="indices")
def max_pool2d_vjp(dy: Tensor, indices: Tensor, shape: Shape) -> Tensor:
    """dy, indices: (..., H', W')   ->   dx: (..., H, W), each dy sent to the cell that won its window.

    Autograd saves x as well, only for its shape. An index takes 8 bytes; a 2 x 2 window could do with 2 bits.
    """
    check_dy("max_pool2d", dy, indices.shape)
    cells = dy.new_zeros(shape).flatten(-2)
    # add: where windows overlap, one cell may win several
    return cells.scatter_add(-1, indices.flatten(-2), dy.flatten(-2)).reshape(shape)


def layer_norm(x: Tensor, w: Tensor | None = None, b: Tensor | None = None, eps: float = 1e-5) -> tuple[Tensor, Saved]:
    """y = x̂ w + b, x̂ being x with mean 0 and variance 1 in each row.   x: (..., D)   w, b: (D,)   ->   y: (..., D)"""
    for name, t in (("w", w), ("b", b)):
        if t is not None:
            check(f"layer_norm: {name}", t.shape, x.shape[-1:], "It has one number per feature, not one per row.")
    mean = x.mean(-1, keepdim=True)
    rstd = ((x - mean).square().mean(-1, keepdim=True) + eps).rsqrt()  # eps keeps a constant row finite
    y = (x - mean) * rstd
    y = y if w is None else y * w
    return (y if b is None else y + b), (x, mean, rstd, w)


@needs(x="x mean rstd w", w="x mean rstd", b="")
def layer_norm_vjp(dy: Tensor, x: Maybe, mean: Maybe, rstd: Maybe, w: Maybe) -> Grads:
    """dy, x: (..., D)   mean, rstd: (..., 1)   w: (D,)   ->   dx: (..., D), dw, db: (D,)

    x̂ is made again: a subtraction and a product, against one more tensor of x's size.
    """
    db = unbroadcast(dy, dy.shape[-1:])
    if x is None or mean is None or rstd is None:  # only db is wanted
        return None, None, db
    check_dy("layer_norm", dy, x.shape)
    x_hat = (x - mean) * rstd
    g = dy if w is None else dy * w
    # y does not notice a shift or stretch of a row of x: dx has no part along 1 nor x̂
    dx = rstd * (g - g.mean(-1, keepdim=True) - x_hat * (g * x_hat).mean(-1, keepdim=True))
    return dx, unbroadcast(dy * x_hat, dy.shape[-1:]), db


def gelu(x: Tensor) -> tuple[Tensor, Saved]:
    """y = x Φ(x), Φ being the normal distribution function, any shape."""
    return F.gelu(x), (x,)


@needs(x="x")
def gelu_vjp(dy: Tensor, x: Tensor) -> Tensor:
    """dx = dy (Φ(x) + x φ(x)).

    GELU falls, then rises: two values of x share one y, so y is not enough. And the next layer saves y on top.
    """
    check_dy("gelu", dy, x.shape)
    cdf = (1 + torch.erf(x / math.sqrt(2))) / 2
    pdf = torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return dy * (cdf + x * pdf)


def matmul(a: Tensor, b: Tensor) -> tuple[Tensor, Saved]:
    """y = a @ b.   a: (..., N, D)   b: (..., D, K)   ->   y: (..., N, K), leading dimensions broadcast."""
    check_matmul(shape_of(a), shape_of(b))
    return a @ b, (a, b, shape_of(a), shape_of(b))


@needs(a="b", b="a")
def matmul_vjp(dy: Tensor, a: Maybe, b: Maybe, a_shape: Shape, b_shape: Shape) -> tuple[Maybe, Maybe]:
    """da = dy bᵀ, db = aᵀ dy, each summed where it was broadcast.   dy: (..., N, K)

    Autograd saves a broadcast factor as full copies, one per batch entry. The formula needs it once.
    """
    check_dy("matmul", dy, (*torch.broadcast_shapes(a_shape[:-2], b_shape[:-2]), a_shape[-2], b_shape[-1]))
    da = None if b is None else unbroadcast(dy @ b.mT, a_shape)
    db = None if a is None else unbroadcast(a.mT @ dy, b_shape)
    return da, db


def add(a: Tensor | float, b: Tensor | float) -> tuple[Tensor | float, Saved]:
    """y = a + b, broadcast."""
    check_broadcast("add", shape_of(a), shape_of(b))
    return a + b, (shape_of(a), shape_of(b))


@needs(a="", b="")
def add_vjp(dy: Tensor, a_shape: Shape, b_shape: Shape) -> tuple[Tensor, Tensor]:
    """da = dy, db = dy, each summed where it was broadcast: no tensor is needed.

    Where nothing was broadcast both *are* dy, not copies of it: change one in place and the other changes.
    """
    check_dy("add", dy, torch.broadcast_shapes(a_shape, b_shape))
    return unbroadcast(dy, a_shape), unbroadcast(dy, b_shape)


def mul(a: Tensor | float, b: Tensor | float) -> tuple[Tensor | float, Saved]:
    """y = a b, element by element, broadcast."""
    check_broadcast("mul", shape_of(a), shape_of(b))
    return a * b, (a, b, shape_of(a), shape_of(b))


@needs(a="b", b="a")
def mul_vjp(dy: Tensor, a: Maybe | float, b: Maybe | float, a_shape: Shape, b_shape: Shape) -> tuple[Maybe, Maybe]:
    """da = dy b, db = dy a, each summed where it was broadcast: each gradient needs the *other* factor.

    So x * 3 remembers no tensor: dx needs the 3, and nobody wants the gradient of 3.
    """
    check_dy("mul", dy, torch.broadcast_shapes(a_shape, b_shape))
    da = None if b is None else unbroadcast(dy * b, a_shape)
    db = None if a is None else unbroadcast(dy * a, b_shape)
    return da, db
