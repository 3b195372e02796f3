"""Single ops, forward and backward, as tables: a name, a call, and the tensors that it is called with."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

MARKS = ("start", "forward", "gradients", "backward")
f32, f64, f16, bf16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
i64, i32, u8 = torch.int64, torch.int32, torch.uint8
SHORT = {f32: "float32", f64: "float64", f16: "float16", bf16: "bfloat16", i64: "int64", i32: "int32", u8: "uint8"}


class X(NamedTuple):
    """A tensor to make. Those of a floating dtype ask for a gradient, unless `grad` is false."""

    shape: tuple[int, ...]
    dtype: torch.dtype = f32
    high: int = 0  # integers below this
    grad: bool = True
    positive: bool = False
    last: bool = False  # channels last

    def make(self, device: str) -> Tensor:
        if self.dtype is torch.bool:
            return torch.ones(self.shape, dtype=torch.bool, device=device)
        if not self.dtype.is_floating_point and not self.dtype.is_complex:
            return torch.randint(self.high or 100, self.shape, dtype=self.dtype, device=device)
        make = torch.rand if self.positive else torch.randn
        t = make(self.shape, dtype=self.dtype, device=device)
        if self.last:
            t = torch.empty(self.shape, dtype=self.dtype, device=device, memory_format=torch.channels_last)
        return t.requires_grad_(self.grad)


def x(*shape: int, dtype: torch.dtype = f32, **more: Any) -> X:
    return X(shape, dtype, **more)


def ints(high: int, *shape: int, dtype: torch.dtype = i64) -> X:
    return X(shape, dtype, high)


def mask(*shape: int) -> X:
    return X(shape, torch.bool)


def const(*shape: int, dtype: torch.dtype = f32, **more: Any) -> X:
    return X(shape, dtype, grad=False, **more)


OPS: dict[str, Callable[[str], Callable[[Callable[[str], None]], object]]] = {}


class Native(NamedTuple):
    """A call that runs without cuDNN, and so does its backward: PyTorch's own kernels are used."""

    call: Callable[..., Any]

    def __call__(self, *tensors: Tensor) -> Any:
        return self.call(*tensors)


def op(name: str, call: Callable[..., Any], *specs: X) -> None:
    """Add an op. Its step calls it, and then calls backward with gradients of ones, if any output asks for one."""

    def entry(device: str) -> Callable[[Callable[[str], None]], object]:
        inputs = [spec.make(device) for spec in specs]

        def step(mark: Callable[[str], None]) -> object:
            with torch.backends.cudnn.flags(enabled=not isinstance(call, Native)):
                return run(mark)

        def run(mark: Callable[[str], None]) -> object:
            mark("start")
            result = call(*inputs)
            mark("forward")
            outputs = [t for t in _tensors(result) if t.requires_grad]
            if outputs:
                gradients = [torch.ones_like(t) for t in outputs]
                mark("gradients")
                torch.autograd.backward(outputs, gradients)
                mark("backward")
            return result

        return step

    if name in OPS:
        raise ValueError(f"two ops have the name {name!r}")
    OPS[name] = entry


def _tensors(result: Any) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    return [t for part in result for t in _tensors(part)] if isinstance(result, (tuple, list)) else []


def table(rows: dict[str, tuple[Callable[..., Any], *tuple[X, ...]]]) -> None:
    for name, (call, *specs) in rows.items():
        op(name, call, *specs)


def each(dtypes: tuple[torch.dtype, ...], rows: dict[str, tuple[Callable[..., Any], *tuple[X, ...]]]) -> None:
    """Each row once for every dtype, which takes the place of float32 in its tensors."""
    for dtype in dtypes:
        for name, (call, *specs) in rows.items():
            op(f"{name} {SHORT[dtype]}", call, *(s._replace(dtype=dtype) if s.dtype is f32 else s for s in specs))


HALVES = (f16, bf16)
FLOATS = (f32, bf16)

# ---- one tensor, element by element ---------------------------------------------------------------------------------
UNARY = (
    "abs acos acosh asin asinh atan ceil cos cosh digamma erf erfc exp exp2 expm1 floor frac lgamma neg relu "
    "round rsqrt sgn sigmoid sign sin sinc sinh sqrt square tan tanh trunc reciprocal log log10 log1p log2 erfinv "
    "deg2rad nan_to_num positive logit i0"
).split()
for name in UNARY:
    op(name, getattr(torch, name), x(300, 511, positive=True))
each(FLOATS, {"exp": (torch.exp, x(300, 511)), "sqrt": (torch.sqrt, x(300, 511, positive=True))})
ACTIVATIONS = (
    "relu relu6 elu selu celu gelu silu mish softplus softsign tanhshrink hardtanh hardswish hardsigmoid hardshrink "
    "softshrink leaky_relu logsigmoid glu"
).split()
for name in ACTIVATIONS:
    each(FLOATS, {f"F.{name}": (getattr(F, name), x(257, 514))})
table(
    {
        "F.threshold": (lambda t: F.threshold(t, 0.1, 20.0), x(257, 514)),
        "F.gelu tanh": (lambda t: F.gelu(t, approximate="tanh"), x(257, 514)),
        "F.prelu": (F.prelu, x(8, 16, 500), x(16)),
        "F.prelu one weight": (F.prelu, x(300, 500), x(1)),
        "F.rrelu": (lambda t: F.rrelu(t, training=True), x(300, 500)),
        "F.gumbel_softmax": (F.gumbel_softmax, x(300, 100)),
        "F.normalize": (F.normalize, x(300, 200)),
        "F.glu rows": (lambda t: F.glu(t, 0), x(300, 514)),
        "pow 2": (lambda t: t**2, x(300, 500)),
        "pow 3": (lambda t: t**3, x(300, 500)),
        "pow 0.5": (lambda t: t**0.5, x(300, 500, positive=True)),
        "2 to the power": (lambda t: 2**t, x(300, 500)),
        "clamp": (lambda t: t.clamp(-1, 1), x(300, 500)),
        "clamp by tensors": (torch.clamp, x(300, 500), const(300, 500), const(300, 500)),
        "clip minimum": (lambda t: t.clip(min=0), x(300, 500)),
        "polynomial": (lambda t: 3 * t**3 + 2 * t**2 - t + 1, x(300, 500)),
        "silu times": (lambda t, u: F.silu(t) * u, x(300, 500), x(300, 500)),
        "lerp": (torch.lerp, x(300, 500), x(300, 500), x(300, 500)),
        "lerp by a number": (lambda t, u: torch.lerp(t, u, 0.3), x(300, 500), x(300, 500)),
        "addcmul": (torch.addcmul, x(300, 500), x(300, 500), x(300, 500)),
        "addcdiv": (torch.addcdiv, x(300, 500), x(300, 500), x(300, 500, positive=True)),
        "where": (torch.where, mask(300, 500), x(300, 500), x(300, 500)),
        "where with a number": (lambda m, t: torch.where(m, t, 0.0), mask(300, 500), x(300, 500)),
        "where with broadcast": (torch.where, mask(300, 1), x(300, 500), x(500)),
        "masked_fill": (lambda t, m: t.masked_fill(m, 0.0), x(300, 500), mask(300, 500)),
        "masked_fill with broadcast": (lambda t, m: t.masked_fill(m, 0.0), x(8, 4, 64, 64), mask(64, 64)),
        "angle": (torch.angle, x(300, 500)),
        "heaviside": (torch.heaviside, const(300, 500), const(300, 500)),
        "ldexp": (torch.ldexp, x(300, 500), ints(4, 300, 500)),
        "float_power": (lambda t: torch.float_power(t, 2), x(300, 500)),
        "special.xlog1py": (torch.special.xlog1py, x(300, 500), x(300, 500, positive=True)),
        "special.log_ndtr": (torch.special.log_ndtr, x(300, 500)),
        "special.ndtri": (torch.special.ndtri, x(300, 500, positive=True)),
        "special.i1": (torch.special.i1, x(300, 500)),
        "polygamma": (lambda t: torch.polygamma(1, t), x(300, 500, positive=True)),
        "mvlgamma": (lambda t: torch.mvlgamma(t + 3, 2), x(300, 500, positive=True)),
    }
)

# ---- dtypes and places ----------------------------------------------------------------------------------------------
table(
    {
        f"to {SHORT[b]} from {SHORT[a]}": (lambda t, b=b: t.to(b), x(300, 511, dtype=a))
        for a, b in ((f32, bf16), (f32, f16), (bf16, f32), (f16, f32), (f32, f64), (f64, bf16), (f32, i64), (f32, u8))
    }
)
table(
    {
        "clone": (torch.clone, x(300, 511)),
        "contiguous of a transposed": (lambda t: t.t().contiguous(), x(300, 511)),
        "permute, contiguous": (lambda t: t.permute(0, 2, 1, 3).contiguous(), x(4, 32, 8, 16)),
        "reshape of a transposed": (lambda t: t.transpose(1, 2).reshape(4, -1), x(4, 32, 64)),
        "channels last": (lambda t: t.contiguous(memory_format=torch.channels_last), x(4, 16, 32, 32)),
        "clone of channels last": (torch.clone, x(4, 16, 32, 32, last=True)),
        "detach, times": (lambda t: t * t.detach(), x(300, 511)),
        "add in place": (lambda t: t.clone().add_(1), x(300, 511)),
        "mul in place": (lambda t, u: t.clone().mul_(u), x(300, 511), x(300, 511)),
        "relu in place": (lambda t: t.clone().relu_(), x(300, 511)),
        "sigmoid in place": (lambda t: t.clone().sigmoid_(), x(300, 511)),
        "clamp in place": (lambda t: t.clone().clamp_(0), x(300, 511)),
        "masked_fill in place": (lambda t, m: t.clone().masked_fill_(m, 0), x(300, 511), mask(300, 511)),
        "copy in place": (lambda t, u: torch.empty_like(t).copy_(u), const(300, 511), x(300, 511)),
        "slice assigned": (lambda t, u: _assign(t, u), x(300, 511), x(100, 511)),
        "zero in place": (lambda t: t.zero_(), const(300, 511)),
        "scatter of a slice": (lambda t, u: t.slice_scatter(u, 0, 10, 110), x(300, 511), x(100, 511)),
        "select_scatter": (lambda t, u: t.select_scatter(u, 0, 3), x(300, 511), x(511)),
        "diagonal_scatter": (lambda t, u: t.diagonal_scatter(u), x(300, 300), x(300)),
        "as_strided": (lambda t: t.as_strided((100, 200), (2, 1)), x(1000)),
        "view_as_complex": (lambda t: torch.view_as_complex(t).abs(), x(300, 200, 2)),
        "complex product": (lambda t, u: torch.view_as_real(torch.view_as_complex(t) * torch.view_as_complex(u)),
                            x(300, 200, 2), x(300, 200, 2)),
        "polar": (torch.polar, x(300, 200), x(300, 200)),
    }
)  # fmt: skip


def _twice(n: int, t: Tensor) -> Tensor:
    return torch.full((n,), 2, device=t.device)


def _assign(t: Tensor, u: Tensor) -> Tensor:
    t = t.clone()
    t[10:110] = u
    return t


# ---- two tensors ----------------------------------------------------------------------------------------------------
BINARY = "add sub mul div maximum minimum fmax fmin atan2 hypot copysign pow fmod remainder xlogy logaddexp".split()
for name in BINARY:
    op(name, getattr(torch, name), x(257, 300, positive=True), x(257, 300, positive=True))
for name in ("add", "mul", "div"):
    op(f"{name} broadcast rows", getattr(torch, name), x(513, 300, positive=True), x(300, positive=True))
    op(f"{name} broadcast columns", getattr(torch, name), x(513, 300, positive=True), x(513, 1, positive=True))
    op(f"{name} broadcast both", getattr(torch, name), x(513, 1, positive=True), x(1, 300, positive=True))
    op(f"{name} bfloat16 and float32", getattr(torch, name), x(64, 300, dtype=bf16), x(64, 300, positive=True))

# ---- reductions -----------------------------------------------------------------------------------------------------
REDUCE = {
    "sum": (lambda t: t.sum(), x(1000, 1500)),
    "sum rows": (lambda t: t.sum(0), x(3000, 512)),
    "sum columns": (lambda t: t.sum(1), x(512, 3000)),
    "sum middle": (lambda t: t.sum(1), x(16, 700, 64)),
    "sum outer": (lambda t: t.sum((0, 2)), x(16, 70, 640)),
    "mean": (lambda t: t.mean(), x(1000, 1500)),
    "mean rows": (lambda t: t.mean(0), x(5000, 64)),
    "mean of images": (lambda t: t.mean((2, 3)), x(8, 32, 32, 32)),
    "var": (lambda t: t.var(), x(700, 700)),
    "var rows": (lambda t: t.var(0), x(3000, 100)),
    "std columns": (lambda t: t.std(1), x(100, 3000)),
    "norm": (lambda t: t.norm(), x(700, 700)),
    "norm columns": (lambda t: t.norm(dim=1), x(700, 300)),
    "norm 1": (lambda t: t.norm(1), x(700, 300)),
    "norm infinity": (lambda t: t.norm(math.inf), x(700, 300)),
    "amax": (lambda t: t.amax(1), x(300, 700)),
    "amin rows": (lambda t: t.amin(0), x(3000, 70)),
    "max": (lambda t: t.max(), x(300, 700)),
    "max columns": (lambda t: t.max(1).values, x(300, 700)),
    "min rows": (lambda t: t.min(0).values, x(3000, 70)),
    "logsumexp": (lambda t: t.logsumexp(1), x(300, 700)),
    "softmax": (lambda t: t.softmax(-1), x(300, 700)),
    "log_softmax": (lambda t: t.log_softmax(-1), x(300, 700)),
    "softmax rows": (lambda t: t.softmax(0), x(300, 700)),
    "log_softmax of images": (lambda t: t.log_softmax(1), x(4, 21, 64, 64)),
    "softmin": (lambda t: F.softmin(t, -1), x(300, 700)),
    "cumsum": (lambda t: t.cumsum(0), x(300, 700)),
    "cumsum flat": (lambda t: t.cumsum(0), x(50000)),
    "nansum": (lambda t: t.nansum(1), x(300, 700)),
    "std_mean": (lambda t: torch.std_mean(t, 1), x(300, 700)),
    "var_mean": (lambda t: torch.var_mean(t, (0, 2, 3)), x(8, 16, 24, 24)),
}
each(FLOATS, REDUCE)
each((f64, f16), {name: REDUCE[name] for name in ("sum", "sum rows", "mean", "softmax", "log_softmax")})
table(
    {
        "sum of many": (lambda t: t.sum(), x(5_000_000)),
        "sum of few rows": (lambda t: t.sum(0), x(8, 200_000)),
        "sum of one column": (lambda t: t.sum(0), x(200_000, 1)),
        "sum of many rows": (lambda t: t.sum(0), x(100_000, 16)),
        "sum of a transposed": (lambda t: t.t().sum(0), x(700, 1300)),
        "sum in float64": (lambda t: t.sum(1, dtype=f64), x(700, 1300)),
        "sum of bfloat16 in float32": (lambda t: t.sum(dtype=f32), x(700, 1300, dtype=bf16)),
        "sum of integers": (lambda t: t.sum(), ints(9, 700, 1300)),
        "sum of booleans": (lambda t: t.sum(1), mask(700, 1300)),
        "mean of no dimension, kept": (lambda t: t.mean(1, keepdim=True), x(700, 1300)),
        "prod": (lambda t: t.prod(), x(100, 64, positive=True)),
        "prod columns": (lambda t: t.prod(1), x(100, 64, positive=True)),
        "cumprod": (lambda t: t.cumprod(1), x(100, 64, positive=True)),
        "cummax": (lambda t: t.cummax(1).values, x(100, 640)),
        "cummin": (lambda t: t.cummin(0).values, x(1000, 64)),
        "logcumsumexp": (lambda t: t.logcumsumexp(1), x(100, 640)),
        "median": (lambda t: t.median(), x(100, 640)),
        "median columns": (lambda t: t.median(1).values, x(100, 640)),
        "nanmedian": (lambda t: t.nanmedian(), x(100, 640)),
        "mode": (lambda t: t.mode(1).values, x(100, 640)),
        "quantile": (lambda t: t.quantile(0.5, dim=1), x(100, 640)),
        "kthvalue": (lambda t: t.kthvalue(5, 1).values, x(100, 640)),
        "aminmax": (lambda t: torch.aminmax(t, dim=1), x(300, 640)),
        "argmax": (lambda t: t.argmax(), const(300, 640)),
        "argmax columns": (lambda t: t.argmax(1), const(300, 640)),
        "argmin rows": (lambda t: t.argmin(0), const(3000, 64)),
        "any": (lambda t: (t > 0).any(), const(300, 640)),
        "all columns": (lambda t: (t > 0).all(1), const(300, 640)),
        "count_nonzero": (torch.count_nonzero, const(300, 640)),
        "trace": (torch.trace, x(300, 300)),
        "diff": (torch.diff, x(300, 640)),
        "renorm": (lambda t: t.renorm(2, 0, 1.0), x(300, 64)),
        "dist": (torch.dist, x(300, 64), x(300, 64)),
        "linalg.vector_norm": (lambda t: torch.linalg.vector_norm(t, dim=(1, 2)), x(300, 64, 16)),
        "linalg.matrix_norm": (lambda t: torch.linalg.matrix_norm(t), x(30, 64, 64)),
        "cov": (torch.cov, x(30, 640)),
        "corrcoef": (torch.corrcoef, x(30, 640)),
        "trapezoid": (torch.trapezoid, x(300, 640)),
        "histc": (lambda t: torch.histc(t, 50, -3, 3), const(50_000)),
    }
)

# ---- products -------------------------------------------------------------------------------------------------------
each(
    (f32, f16, bf16, f64),
    {
        "mm": (torch.mm, x(128, 256), x(256, 64)),
        "bmm": (torch.bmm, x(8, 64, 32), x(8, 32, 96)),
        "linear": (F.linear, x(96, 200), x(120, 200), x(120)),
        "linear without bias": (F.linear, x(96, 200), x(120, 200)),
        "linear of three dimensions": (F.linear, x(4, 24, 200), x(120, 200), x(120)),
        "matmul with broadcast": (torch.matmul, x(4, 8, 16, 32), x(32, 24)),
        "addmm": (torch.addmm, x(64), x(128, 256), x(256, 64)),
    },
)
table(
    {
        "mv": (torch.mv, x(128, 256), x(256)),
        "dot": (torch.dot, x(5000), x(5000)),
        "outer": (torch.outer, x(300), x(500)),
        "addmv": (torch.addmv, x(128), x(128, 256), x(256)),
        "addr": (torch.addr, x(300, 500), x(300), x(500)),
        "baddbmm": (torch.baddbmm, x(8, 64, 96), x(8, 64, 32), x(8, 32, 96)),
        "baddbmm with broadcast": (torch.baddbmm, x(1, 64, 96), x(8, 64, 32), x(8, 32, 96)),
        "addbmm": (torch.addbmm, x(64, 96), x(8, 64, 32), x(8, 32, 96)),
        "linear of a transposed": (
            lambda t, w, b: F.linear(t.transpose(0, 1), w, b), x(24, 4, 200), x(120, 200), x(120)),
        "linear of one row": (F.linear, x(200), x(120, 200), x(120)),
        "linear of four dimensions": (F.linear, x(2, 4, 24, 200), x(120, 200), x(120)),
        "linear to one": (F.linear, x(300, 200), x(1, 200), x(1)),
        "matmul of a vector": (torch.matmul, x(4, 24, 200), x(200)),
        "matmul of batches with broadcast": (torch.matmul, x(4, 1, 24, 20), x(8, 20, 30)),
        "einsum heads": (lambda q, k: torch.einsum("bhid,bhjd->bhij", q, k), x(4, 4, 32, 16), x(4, 4, 48, 16)),
        "einsum bilinear": (
            lambda a, w, b: torch.einsum("bi,kij,bj->bk", a, w, b), x(32, 20), x(10, 20, 30), x(32, 30)),
        "einsum trace": (lambda a: torch.einsum("ii", a), x(300, 300)),
        "tensordot": (lambda a, b: torch.tensordot(a, b, 2), x(16, 20, 30), x(20, 30, 40)),
        "kron": (torch.kron, x(20, 30), x(15, 25)),
        "cross": (lambda a, b: torch.linalg.cross(a, b), x(1000, 3), x(1000, 3)),
        "chain of products": (lambda *t: torch.linalg.multi_dot(t), x(30, 60), x(60, 20), x(20, 80)),
        "matrix_power": (lambda a: torch.matrix_power(a, 3), x(64, 64)),
        "bilinear": (F.bilinear, x(32, 20), x(32, 30), x(10, 20, 30), x(10)),
        "cosine_similarity": (F.cosine_similarity, x(300, 64), x(300, 64)),
        "pairwise_distance": (F.pairwise_distance, x(300, 64), x(300, 64)),
        "cdist": (torch.cdist, x(40, 16), x(50, 16)),
        "cdist by product": (torch.cdist, x(4, 100, 16), x(4, 120, 16)),
        "cdist 1": (lambda a, b: torch.cdist(a, b, p=1.0), x(40, 16), x(50, 16)),
        "pdist": (F.pdist, x(100, 16)),
        "tril": (torch.tril, x(300, 300)),
        "triu of batches": (lambda t: t.triu(1), x(8, 100, 100)),
        "diag": (torch.diag, x(300)),
        "diagonal": (torch.diagonal, x(300, 300)),
        "diag_embed": (torch.diag_embed, x(16, 50)),
        "block_diag": (torch.block_diag, x(20, 30), x(40, 10)),
        "vander": (lambda t: torch.linalg.vander(t, N=10), x(300)),
        "cartesian_prod": (torch.cartesian_prod, x(100), x(120)),
        "meshgrid": (lambda a, b: [t.contiguous() for t in torch.meshgrid(a, b, indexing="ij")], x(100), x(120)),
        "linalg.inv": (torch.linalg.inv, x(30, 30)),
        "fft": (lambda t: torch.fft.rfft(t).abs(), x(30, 256)),
    }
)  # fmt: skip

# ---- losses ---------------------------------------------------------------------------------------------------------
P, T = x(300, 500), const(300, 500)
LOSSES = {
    "cross_entropy": (F.cross_entropy, x(200, 1000), ints(1000, 200)),
    "mse_loss": (F.mse_loss, P, T),
    "l1_loss": (F.l1_loss, P, T),
    "smooth_l1_loss": (F.smooth_l1_loss, P, T),
    "huber_loss": (F.huber_loss, P, T),
    "nll_loss": (F.nll_loss, x(200, 1000), ints(1000, 200)),
    "kl_div": (F.kl_div, P, const(300, 500, positive=True)),
    "soft_margin_loss": (F.soft_margin_loss, P, T),
    "binary_cross_entropy_with_logits": (F.binary_cross_entropy_with_logits, P, const(300, 500, positive=True)),
}
each(FLOATS, LOSSES)
for name in LOSSES:
    call, *specs = LOSSES[name]
    for reduction in ("sum", "none"):
        op(f"{name} {reduction}", lambda *t, call=call, how=reduction: call(*t, reduction=how), *specs)
table(
    {
        "binary_cross_entropy": (F.binary_cross_entropy, x(300, 500, positive=True), const(300, 500, positive=True)),
        "binary_cross_entropy_with_logits weights": (
            lambda t, y, w, p: F.binary_cross_entropy_with_logits(t, y, w, pos_weight=p), P, T, const(500), const(500)),
        "cross_entropy of images": (F.cross_entropy, x(2, 21, 64, 64), ints(21, 2, 64, 64)),
        "cross_entropy label smoothing": (
            lambda t, y: F.cross_entropy(t, y, label_smoothing=0.1), x(200, 1000), ints(1000, 200)),
        "cross_entropy weights": (F.cross_entropy, x(200, 1000), ints(1000, 200), const(1000)),
        "cross_entropy of probabilities": (F.cross_entropy, x(200, 1000), const(200, 1000, positive=True)),
        "cross_entropy large": (F.cross_entropy, x(64, 32000), ints(32000, 64)),
        "nll_loss of images": (F.nll_loss, x(2, 21, 64, 64), ints(21, 2, 64, 64)),
        "mse_loss of two that train": (F.mse_loss, P, P),
        "mse_loss small": (F.mse_loss, x(10), const(10)),
        "huber_loss delta": (lambda t, y: F.huber_loss(t, y, delta=0.5), P, T),
        "gaussian_nll_loss": (F.gaussian_nll_loss, P, T, x(300, 500, positive=True)),
        "poisson_nll_loss": (F.poisson_nll_loss, P, T),
        "poisson_nll_loss full": (lambda t, y: F.poisson_nll_loss(t, y, full=True), P, const(300, 500, positive=True)),
        "hinge_embedding_loss": (F.hinge_embedding_loss, P, T),
        "cosine_embedding_loss": (F.cosine_embedding_loss, P, P, const(300)),
        "margin_ranking_loss": (F.margin_ranking_loss, x(3000), x(3000), const(3000)),
        "triplet_margin_loss": (F.triplet_margin_loss, P, P, P),
        "multi_margin_loss": (F.multi_margin_loss, x(200, 100), ints(100, 200)),
        "multilabel_margin_loss": (F.multilabel_margin_loss, x(200, 100), ints(100, 200, 100)),
        "multilabel_soft_margin_loss": (F.multilabel_soft_margin_loss, P, T),
        "triplet_margin_with_distance_loss": (F.triplet_margin_with_distance_loss, P, P, P),
        "ctc_loss": (
            lambda t, y: F.ctc_loss(t.log_softmax(-1), y, (50,) * 4, (10,) * 4), x(50, 4, 20), ints(20, 4, 10)),
        "kl_div of two that train": (lambda a, b: F.kl_div(a, b, log_target=True, reduction="batchmean"), P, P),
    }
)  # fmt: skip

# ---- norms and dropout ----------------------------------------------------------------------------------------------
each(
    (f32, bf16, f16),
    {
        "layer_norm": (lambda t, w, b: F.layer_norm(t, (512,), w, b), x(300, 512), x(512), x(512)),
        "rms_norm": (lambda t, w: F.rms_norm(t, (512,), w), x(300, 512), x(512)),
        "group_norm": (lambda t, w, b: F.group_norm(t, 4, w, b), x(4, 32, 16, 16), x(32), x(32)),
        "dropout": (lambda t: F.dropout(t, 0.1), x(300, 515)),
    },
)
BN = (x(32), x(32), const(32), const(32, positive=True))


def _norm(t: Tensor, *rest: Tensor, training: bool = True) -> Tensor:
    weight, bias, mean, var = rest
    return F.batch_norm(t, mean, var, weight, bias, training)


table(
    {
        "layer_norm without weight": (lambda t: F.layer_norm(t, (512,)), x(300, 512)),
        "layer_norm of two dimensions": (lambda t: F.layer_norm(t, (16, 32)), x(300, 16, 32)),
        "layer_norm narrow": (lambda t, w, b: F.layer_norm(t, (64,), w, b), x(5000, 64), x(64), x(64)),
        "layer_norm many rows": (lambda t, w, b: F.layer_norm(t, (32,), w, b), x(80_000, 32), x(32), x(32)),
        "layer_norm wide": (lambda t, w, b: F.layer_norm(t, (9000,), w, b), x(40, 9000), x(9000), x(9000)),
        "layer_norm without bias": (lambda t, w: F.layer_norm(t, (512,), w), x(300, 512), x(512)),
        "rms_norm without weight": (lambda t: F.rms_norm(t, (512,)), x(300, 512)),
        "rms_norm many rows": (lambda t, w: F.rms_norm(t, (32,), w), x(80_000, 32), x(32)),
        "group_norm of one group": (lambda t, w, b: F.group_norm(t, 1, w, b), x(4, 32, 40), x(32), x(32)),
        "group_norm without weight": (lambda t: F.group_norm(t, 8), x(4, 32, 40)),
        "group_norm channels last": (
            lambda t, w, b: F.group_norm(t, 4, w, b), x(4, 32, 16, 16, last=True), x(32), x(32)),
        "instance_norm": (F.instance_norm, x(4, 32, 16, 16)),
        "local_response_norm": (lambda t: F.local_response_norm(t, 5), x(4, 32, 16, 16)),
        "batch_norm 1d": (_norm, x(200, 32), *BN),
        "batch_norm 1d long": (_norm, x(8, 32, 200), *BN),
        "batch_norm 2d": (_norm, x(8, 32, 24, 24), *BN),
        "batch_norm 2d channels last": (_norm, x(8, 32, 24, 24, last=True), *BN),
        "batch_norm 3d": (_norm, x(4, 32, 6, 12, 12), *BN),
        "batch_norm 2d bfloat16": (_norm, x(8, 32, 24, 24, dtype=bf16), *BN),
        "batch_norm 2d float16": (_norm, x(8, 32, 24, 24, dtype=f16), *BN),
        "batch_norm 2d evaluated": (lambda *t: _norm(*t, training=False), x(8, 32, 24, 24), *BN),
        "batch_norm 2d native": (Native(_norm), x(8, 32, 24, 24), *BN),
        "batch_norm 1d native": (Native(_norm), x(200, 32), *BN),
        "batch_norm channels last native": (Native(_norm), x(8, 32, 24, 24, last=True), *BN),
        "batch_norm 2d evaluated native": (Native(lambda *t: _norm(*t, training=False)), x(8, 32, 24, 24), *BN),
        "batch_norm without weight": (lambda t: F.batch_norm(t, None, None, training=True), x(8, 32, 24, 24)),
        "dropout p=0.5 of three dimensions": (lambda t: F.dropout(t, 0.5), x(16, 33, 65)),
        "dropout in place": (lambda t: F.dropout(t.clone(), 0.5, inplace=True), x(300, 515)),
        "dropout1d": (lambda t: F.dropout1d(t, 0.5), x(8, 32, 200)),
        "dropout2d": (lambda t: F.dropout2d(t, 0.5), x(8, 32, 24, 24)),
        "alpha_dropout": (lambda t: F.alpha_dropout(t, 0.5, training=True), x(300, 515)),
        "feature_alpha_dropout": (lambda t: F.feature_alpha_dropout(t, 0.5, training=True), x(8, 32, 200)),
        "bernoulli": (lambda t: torch.bernoulli(t), const(300, 500, positive=True)),
        "rand_like": (lambda t: torch.rand_like(t), const(300, 500)),
        "randint_like": (lambda t: torch.randint_like(t, 9), const(300, 500)),
        "normal in place": (lambda t: torch.empty_like(t).normal_(), const(300, 500)),
        "normal of two": (lambda t: torch.normal(t, t.abs()), const(300, 500, positive=True)),
        "exponential in place": (lambda t: torch.empty_like(t).exponential_(), const(300, 500)),
        "randperm": (lambda t: torch.randperm(5000, device=t.device), const(1)),
        "randperm large": (lambda t: torch.randperm(50_000, device=t.device), const(1)),
        "multinomial": (lambda t: torch.multinomial(t, 5), const(30, 500, positive=True)),
        "multinomial with replacement": (lambda t: torch.multinomial(t, 5, True), const(30, 500, positive=True)),
        "arange": (lambda t: torch.arange(5000, device=t.device), const(1)),
        "linspace": (lambda t: torch.linspace(0, 1, 5000, device=t.device), const(1)),
        "eye": (lambda t: torch.eye(500, device=t.device), const(1)),
    }
)  # fmt: skip

# ---- indexing, sorting, joining -------------------------------------------------------------------------------------
each(
    FLOATS,
    {
        "embedding": (lambda i, w: F.embedding(i, w), ints(1000, 8, 64), x(1000, 96)),
        "embedding of many": (lambda i, w: F.embedding(i, w), ints(1000, 16, 512), x(1000, 32)),
        "index_select": (lambda t, i: t.index_select(0, i), x(500, 96), ints(500, 700)),
        "gather": (lambda t, i: t.gather(1, i), x(100, 300), ints(300, 100, 200)),
        "scatter_add": (lambda t, i, u: t.scatter_add(0, i, u), x(300, 96), ints(300, 500, 96), x(500, 96)),
        "index_add": (lambda t, i, u: t.index_add(0, i, u), x(300, 96), ints(300, 500), x(500, 96)),
        "x[i]": (lambda t, i: t[i], x(500, 96), ints(500, 700)),
        "x[i, j]": (lambda t, i, j: t[i, j], x(500, 96), ints(500, 700), ints(96, 700)),
        "cat": (lambda *t: torch.cat(t), x(300, 96), x(200, 96), x(100, 96)),
        "topk": (lambda t: t.topk(10).values, x(300, 500)),
        "sort": (lambda t: t.sort().values, x(300, 500)),
    },
)
table(
    {
        "embedding padding": (lambda i, w: F.embedding(i, w, padding_idx=0), ints(1000, 8, 64), x(1000, 96)),
        "embedding by frequency": (
            lambda i, w: F.embedding(i, w, scale_grad_by_freq=True), ints(1000, 8, 64), x(1000, 96)),
        "embedding int32": (F.embedding, ints(1000, 8, 64, dtype=i32), x(1000, 96)),
        "embedding sparse": (lambda i, w: F.embedding(i, w, sparse=True), ints(1000, 8, 64), x(1000, 96)),
        "embedding_bag": (F.embedding_bag, ints(1000, 50, 8), x(1000, 96)),
        "embedding_bag sum": (lambda i, w: F.embedding_bag(i, w, mode="sum"), ints(1000, 50, 8), x(1000, 96)),
        "embedding_bag max": (lambda i, w: F.embedding_bag(i, w, mode="max"), ints(1000, 50, 8), x(1000, 96)),
        "embedding_bag offsets": (F.embedding_bag, ints(1000, 400), x(1000, 96), ints(1, 50)),
        "one_hot": (lambda i: F.one_hot(i, 100), ints(100, 300)),
        "x[i] of columns": (lambda t, i: t[:, i], x(100, 300), ints(300, 200)),
        "x[i, :, j]": (lambda t, i, j: t[i, :, j], x(50, 20, 30), ints(50, 70), ints(30, 70)),
        "x[i] of a matrix": (lambda t, i: t[i], x(500, 32), ints(500, 40, 20)),
        "x[mask]": (lambda t, m: t[m], x(500, 32), mask(500)),
        "x[i] = y": (lambda t, i, u: t.clone().index_put_((i,), u), x(500, 32), ints(500, 100), x(100, 32)),
        "x[i] += y": (
            lambda t, i, u: t.clone().index_put_((i,), u, accumulate=True), x(500, 32), ints(500, 100), x(100, 32)),
        "masked_select": (torch.masked_select, x(500, 32), mask(500, 32)),
        "masked_scatter": (lambda t, m, u: t.masked_scatter(m, u), x(500, 32), mask(500, 32), x(500, 32)),
        "nonzero": (torch.nonzero, ints(2, 500, 32)),
        "unique": (torch.unique, ints(50, 5000)),
        "take": (torch.take, x(500, 32), ints(16_000, 3000)),
        "take_along_dim": (lambda t, i: torch.take_along_dim(t, i, 1), x(500, 32), ints(32, 500, 10)),
        "index_copy": (lambda t, i, u: t.index_copy(0, i, u), x(500, 32), ints(500, 100), x(100, 32)),
        "index_fill": (lambda t, i: t.index_fill(0, i, 1.0), x(500, 32), ints(500, 100)),
        "index_reduce": (
            lambda t, i, u: t.index_reduce(0, i, u, "amax"), const(500, 32), ints(500, 100), const(100, 32)),
        "scatter": (lambda t, i, u: t.scatter(1, i, u), x(300, 96), ints(96, 300, 10), x(300, 10)),
        "scatter a number": (lambda t, i: t.scatter(1, i, 1.0), x(300, 96), ints(96, 300, 10)),
        "scatter_reduce sum": (
            lambda t, i, u: t.scatter_reduce(0, i, u, "sum"), x(300, 96), ints(300, 500, 96), x(500, 96)),
        "scatter_reduce mean": (
            lambda t, i, u: t.scatter_reduce(0, i, u, "mean"), x(300, 96), ints(300, 500, 96), x(500, 96)),
        "scatter_reduce amax": (
            lambda t, i, u: t.scatter_reduce(0, i, u, "amax"), x(300, 96), ints(300, 500, 96), x(500, 96)),
        "bincount": (lambda i: torch.bincount(i, minlength=100), ints(100, 5000)),
        "bucketize": (torch.bucketize, const(300, 50), const(100)),
        "searchsorted": (torch.searchsorted, const(30, 100), const(30, 50)),
        "isin": (torch.isin, ints(100, 3000), ints(100, 20)),
        "repeat_interleave": (lambda t: t.repeat_interleave(3, 0), x(300, 96)),
        "repeat_interleave by a tensor": (
            lambda t: t.repeat_interleave(_twice(300, t), 0, output_size=600), x(300, 96)),
        "topk rows": (lambda t: t.topk(10, 0).values, x(3000, 50)),
        "topk long": (lambda t: t.topk(100).values, x(4, 50_000)),
        "topk large k": (lambda t: t.topk(2000).values, x(8, 5000)),
        "sort flat": (lambda t: t.flatten().sort().values, x(300, 500)),
        "sort long rows": (lambda t: t.sort().values, x(8, 10_000)),
        "sort rows": (lambda t: t.sort(0).values, x(3000, 50)),
        "sort stable": (lambda t: t.sort(stable=True).values, x(30, 500)),
        "argsort": (torch.argsort, const(300, 500)),
        "argsort integers": (torch.argsort, ints(100, 3000)),
        "msort": (torch.msort, x(300, 50)),
        "cat columns": (lambda *t: torch.cat(t, 1), x(300, 96), x(300, 9)),
        "cat of many": (lambda *t: torch.cat(t), *[x(30, 96)] * 40),
        "stack": (lambda *t: torch.stack(t), *[x(30, 96)] * 5),
        "stack last": (lambda *t: torch.stack(t, -1), *[x(30, 96)] * 3),
        "split": (lambda t: [part.exp() for part in t.split(100)], x(300, 96)),
        "chunk": (lambda t: [part.exp() for part in t.chunk(3, -1)], x(300, 96)),
        "unbind": (lambda t: [part.exp() for part in t.unbind()], x(3, 300, 96)),
        "slice": (lambda t: t[10:200, ::2].exp(), x(300, 96)),
        "select": (lambda t: t[:, 0].exp(), x(300, 96)),
        "expand": (lambda t: t.expand(50, 300, 96).exp(), x(300, 96)),
        "repeat": (lambda t: t.repeat(4, 2), x(300, 96)),
        "tile": (lambda t: t.tile(4), x(300, 96)),
        "roll": (lambda t: t.roll(3, 0), x(300, 96)),
        "roll of two dimensions": (lambda t: t.roll((3, 4), (1, 2)), x(8, 30, 96)),
        "flip": (lambda t: t.flip(0), x(300, 96)),
        "rot90": (lambda t: t.rot90(), x(300, 96)),
        "unfold of a tensor": (lambda t: t.unfold(1, 16, 8).contiguous(), x(30, 960)),
        "movedim": (lambda t: t.movedim(0, -1).exp(), x(8, 30, 96)),
        "pad": (lambda t: F.pad(t, (1, 2, 3, 4)), x(8, 30, 96)),
        "pad reflect": (lambda t: F.pad(t, (1, 2, 3, 4), mode="reflect"), x(8, 4, 30, 96)),
        "pad replicate": (lambda t: F.pad(t, (1, 2, 3, 4), mode="replicate"), x(8, 4, 30, 96)),
        "pad circular": (lambda t: F.pad(t, (1, 2, 3, 4), mode="circular"), x(8, 4, 30, 96)),
        "pad reflect 1d": (lambda t: F.pad(t, (5, 6), mode="reflect"), x(8, 4, 300)),
    }
)  # fmt: skip

# ---- integers and comparisons ---------------------------------------------------------------------------------------
for dtype in (i64, i32, u8):
    name = SHORT[dtype]
    table(
        {
            f"add of {name}": (torch.add, ints(50, 300, 500, dtype=dtype), ints(50, 300, 500, dtype=dtype)),
            f"cumsum of {name}": (lambda t: t.cumsum(1), ints(50, 300, 500, dtype=dtype)),
            f"max of {name}": (lambda t: t.max(), ints(50, 300, 500, dtype=dtype)),
            f"sort of {name}": (lambda t: t.sort().values, ints(50, 30, 500, dtype=dtype)),
            f"float of {name}": (lambda t: t.float(), ints(50, 300, 500, dtype=dtype)),
        }
    )
table(
    {
        "eq": (torch.eq, const(300, 500), const(300, 500)),
        "gt a number": (lambda t: t > 0, const(300, 500)),
        "logical_and": (torch.logical_and, mask(300, 500), mask(300, 500)),
        "bitwise_xor": (torch.bitwise_xor, ints(50, 300, 500), ints(50, 300, 500)),
        "floor_divide": (lambda t: t // 3, ints(50, 300, 500)),
        "divide integers": (lambda t: t / 3, ints(50, 300, 500)),
        "isnan": (torch.isnan, const(300, 500)),
        "isfinite": (torch.isfinite, const(300, 500)),
        "causal mask": (lambda t: torch.ones(200, 200, dtype=torch.bool, device=t.device).tril(), const(1)),
        "equal up to": (torch.isclose, const(300, 500), const(300, 500)),
    }
)

# ---- images ---------------------------------------------------------------------------------------------------------
CONVOLUTIONS = {
    "conv1d": (lambda t, w, b: F.conv1d(t, w, b, padding=2), x(4, 16, 200), x(32, 16, 5), x(32)),
    "conv2d": (lambda t, w, b: F.conv2d(t, w, b, padding=1), x(4, 16, 32, 32), x(32, 16, 3, 3), x(32)),
    "conv2d 1x1": (F.conv2d, x(4, 16, 32, 32), x(32, 16, 1, 1), x(32)),
    "conv2d strided": (lambda t, w: F.conv2d(t, w, stride=2), x(4, 16, 33, 33), x(32, 16, 3, 3)),
    "conv2d dilated": (lambda t, w: F.conv2d(t, w, dilation=2), x(4, 16, 33, 33), x(32, 16, 3, 3)),
    "conv2d grouped": (lambda t, w: F.conv2d(t, w, groups=4), x(4, 16, 33, 33), x(32, 4, 3, 3)),
    "conv2d depthwise": (lambda t, w, b: F.conv2d(t, w, b, groups=16), x(4, 16, 33, 33), x(16, 1, 3, 3), x(16)),
    "conv2d channels last": (
        lambda t, w: F.conv2d(t, w, padding=1), x(4, 16, 32, 32, last=True), x(32, 16, 3, 3, last=True)),
    "conv3d": (lambda t, w, b: F.conv3d(t, w, b), x(2, 4, 8, 16, 16), x(8, 4, 3, 3, 3), x(8)),
    "conv_transpose1d": (lambda t, w, b: F.conv_transpose1d(t, w, b, stride=2), x(4, 16, 50), x(16, 8, 4), x(8)),
    "conv_transpose2d": (lambda t, w, b: F.conv_transpose2d(t, w, b, 2), x(4, 16, 16, 16), x(16, 8, 4, 4), x(8)),
    "conv_transpose3d": (lambda t, w: F.conv_transpose3d(t, w), x(2, 8, 4, 8, 8), x(8, 4, 3, 3, 3)),
}  # fmt: skip
table(CONVOLUTIONS)
table({f"{name} native": (Native(call), *specs) for name, (call, *specs) in CONVOLUTIONS.items()})
# In bfloat16, a phantom's cuDNN has no convolutions: it stands in for the older of PyTorch's two interfaces.
each((f16,), {name: CONVOLUTIONS[name] for name in ("conv1d", "conv2d", "conv2d depthwise")})
each(HALVES, {f"{n} native": (Native(CONVOLUTIONS[n][0]), *CONVOLUTIONS[n][1:]) for n in ("conv1d", "conv2d")})
IMAGE = x(4, 16, 32, 32)
table(
    {
        "max_pool1d": (lambda t: F.max_pool1d(t, 2), x(4, 16, 300)),
        "max_pool2d": (lambda t: F.max_pool2d(t, 2), IMAGE),
        "max_pool2d overlapping": (lambda t: F.max_pool2d(t, 3, 2, 1), IMAGE),
        "max_pool2d channels last": (lambda t: F.max_pool2d(t, 2), IMAGE._replace(last=True)),
        "max_pool3d": (lambda t: F.max_pool3d(t, 2), x(2, 4, 8, 16, 16)),
        "avg_pool1d": (lambda t: F.avg_pool1d(t, 2), x(4, 16, 300)),
        "avg_pool2d": (lambda t: F.avg_pool2d(t, 2), IMAGE),
        "avg_pool3d": (lambda t: F.avg_pool3d(t, 2), x(2, 4, 8, 16, 16)),
        "lp_pool2d": (lambda t: F.lp_pool2d(t, 2.0, 2), IMAGE),
        "adaptive_avg_pool1d": (lambda t: F.adaptive_avg_pool1d(t, 7), x(4, 16, 300)),
        "adaptive_avg_pool2d": (lambda t: F.adaptive_avg_pool2d(t, 7), IMAGE),
        "adaptive_avg_pool2d to one": (lambda t: F.adaptive_avg_pool2d(t, 1), IMAGE),
        "adaptive_avg_pool3d": (lambda t: F.adaptive_avg_pool3d(t, 3), x(2, 4, 8, 16, 16)),
        "adaptive_max_pool2d": (lambda t: F.adaptive_max_pool2d(t, 7), IMAGE),
        "fractional_max_pool2d": (lambda t: F.fractional_max_pool2d(t, 2, output_size=14), IMAGE),
        "max_unpool2d": (lambda t: F.max_unpool2d(*F.max_pool2d(t, 2, return_indices=True), 2), IMAGE),
        "unfold": (lambda t: F.unfold(t, 3, padding=1), IMAGE),
        "fold": (lambda t: F.fold(t, (32, 32), 2, stride=2), x(4, 64, 256)),
        "pixel_shuffle": (lambda t: F.pixel_shuffle(t, 2), IMAGE),
        "pixel_unshuffle": (lambda t: F.pixel_unshuffle(t, 2), IMAGE),
        "channel_shuffle": (lambda t: F.channel_shuffle(t, 4), IMAGE),
        "interpolate nearest": (lambda t: F.interpolate(t, scale_factor=2), IMAGE),
        "interpolate nearest 1d": (lambda t: F.interpolate(t, scale_factor=2), x(4, 16, 300)),
        "interpolate linear": (lambda t: F.interpolate(t, scale_factor=2, mode="linear"), x(4, 16, 300)),
        "interpolate bilinear": (lambda t: F.interpolate(t, scale_factor=2, mode="bilinear"), IMAGE),
        "interpolate bilinear down": (
            lambda t: F.interpolate(t, (14, 14), mode="bilinear", antialias=True), IMAGE),
        "interpolate bicubic": (lambda t: F.interpolate(t, scale_factor=2, mode="bicubic"), IMAGE),
        "interpolate trilinear": (lambda t: F.interpolate(t, scale_factor=2, mode="trilinear"), x(2, 4, 4, 8, 8)),
        "interpolate area": (lambda t: F.interpolate(t, (14, 14), mode="area"), IMAGE),
        "grid_sample": (lambda t, g: F.grid_sample(t, g, align_corners=False), IMAGE, x(4, 20, 20, 2)),
        "grid_sample 3d": (lambda t, g: F.grid_sample(t, g, align_corners=False), x(2, 4, 4, 8, 8), x(2, 5, 6, 6, 3)),
        "affine_grid": (lambda t: F.affine_grid(t, [4, 16, 24, 24], align_corners=False), x(4, 2, 3)),
        "affine_grid 3d": (lambda t: F.affine_grid(t, [4, 4, 6, 8, 8], align_corners=False), x(4, 3, 4)),
    }
)  # fmt: skip


# ---- attention ------------------------------------------------------------------------------------------------------
def attention(backend: SDPBackend | None, **options: Any) -> Callable[..., Tensor]:
    def run(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        if backend is None:
            return F.scaled_dot_product_attention(q, k, v, mask, **options)
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, mask, **options)

    return run


def qkv(n: int, h: int, t: int, d: int, dtype: torch.dtype = f32, kv: int = 0, kv_heads: int = 0) -> list[X]:
    other = x(n, kv_heads or h, kv or t, d, dtype=dtype)
    return [x(n, h, t, d, dtype=dtype), other, other]


FLASH, EFFICIENT, MATH = SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH
for dtype in (f32, f16, bf16):
    for causal in (False, True):
        tail = f"{'causal ' if causal else ''}{SHORT[dtype]}"
        op(f"attention {tail}", attention(None, is_causal=causal), *qkv(2, 4, 128, 64, dtype))
        op(f"attention math {tail}", attention(MATH, is_causal=causal), *qkv(2, 4, 128, 64, dtype))
        op(f"attention efficient {tail}", attention(EFFICIENT, is_causal=causal), *qkv(2, 4, 128, 64, dtype))
        if dtype is not f32:
            op(f"attention flash {tail}", attention(FLASH, is_causal=causal), *qkv(2, 4, 128, 64, dtype))
    op(f"attention masked {SHORT[dtype]}", attention(None), *qkv(2, 4, 128, 64, dtype), const(128, 128, dtype=dtype))
    op(f"attention boolean mask {SHORT[dtype]}", attention(None), *qkv(2, 4, 128, 64, dtype), mask(2, 1, 128, 128))
    op(f"attention dropout {SHORT[dtype]}", attention(None, dropout_p=0.1), *qkv(2, 4, 128, 64, dtype))
    op(f"attention to another length {SHORT[dtype]}", attention(None), *qkv(2, 4, 100, 32, dtype, kv=77))
    op(f"attention long {SHORT[dtype]}", attention(None), *qkv(1, 2, 1000, 32, dtype))
    op(f"attention grouped {SHORT[dtype]}", attention(None, enable_gqa=True), *qkv(2, 8, 64, 32, dtype, kv_heads=2))
for size in (40, 80, 96, 128, 192, 256, 320):
    op(f"attention of head size {size} bfloat16", attention(None), *qkv(2, 4, 64, size, bf16))
op("attention of head size 320 float32", attention(None), *qkv(2, 4, 64, 320))
op("attention math dropout float32", attention(MATH, dropout_p=0.1), *qkv(2, 4, 128, 64))
op("attention efficient dropout float32", attention(EFFICIENT, dropout_p=0.1), *qkv(2, 4, 128, 64))
op("attention efficient masked float32", attention(EFFICIENT), *qkv(2, 4, 128, 64), const(128, 128))
op("attention math boolean mask bfloat16", attention(MATH), *qkv(2, 4, 128, 64, bf16), mask(128, 128))
op("attention of few queries bfloat16", attention(None), *qkv(1, 2, 1, 64, bf16, kv=2000))
op("attention of a transposed bfloat16",
   lambda a: F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in a.unflatten(-1, (3, 4, 64)).unbind(2))),
   x(2, 100, 768, dtype=bf16))  # fmt: skip


# ---- recurrent layers, without cuDNN --------------------------------------------------------------------------------
def weights(gates: int, layers: int = 1, directions: int = 1, inside: int = 24, hidden: int = 32) -> list[X]:
    found = []
    for layer in range(layers):
        width = inside if layer == 0 else hidden * directions
        found += [
            x(gates * hidden, width),
            x(gates * hidden, hidden),
            x(gates * hidden),
            x(gates * hidden),
        ] * directions
    return found


def recurrent(function: Callable[..., Any], states: int, layers: int = 1, directions: int = 1) -> Callable[..., Any]:
    def run(t: Tensor, *rest: Tensor) -> Any:
        state = rest[:states] if states > 1 else rest[0]
        return function(t, state, list(rest[states:]), True, layers, 0.0, True, directions == 2, False)[0]

    return run


for name, function, gates, states in (
    ("lstm", torch.lstm, 4, 2),
    ("gru", torch.gru, 3, 1),
    ("rnn tanh", torch.rnn_tanh, 1, 1),
):
    for layers, directions in ((1, 1), (2, 1), (1, 2)):
        title = f"{name}, layers {layers}, directions {directions}, native"
        start = [const(layers * directions, 8, 32)] * states
        call = Native(recurrent(function, states, layers, directions))
        op(title, call, x(12, 8, 24), *start, *weights(gates, layers, directions))
CELL = {
    "lstm_cell": (4, 2, torch.lstm_cell),
    "gru_cell": (3, 1, torch.gru_cell),
    "rnn_tanh_cell": (1, 1, torch.rnn_tanh_cell),
}
for name, (gates, states, function) in CELL.items():
    call = lambda t, *r, n=states, f=function: f(t, list(r[:n]) if n > 1 else r[0], *r[n:])  # noqa: E731
    op(name, call, x(50, 24), *[const(50, 32)] * states, *weights(gates))


# ---- autocast -------------------------------------------------------------------------------------------------------
def cast(dtype: torch.dtype, call: Callable[..., Any]) -> Callable[..., Any]:
    def run(*tensors: Tensor) -> Any:
        with torch.autocast("cuda", dtype=dtype):
            return call(*tensors)

    return run


AUTOCAST = {
    "linear": (F.linear, x(96, 200), x(120, 200), x(120)),
    "matmul": (torch.matmul, x(96, 200), x(200, 120)),
    "bmm": (torch.bmm, x(8, 64, 32), x(8, 32, 96)),
    "softmax of a product": (lambda t, u: (t @ u).softmax(-1), x(96, 200), x(200, 120)),
    "layer_norm of a product": (lambda t, u: F.layer_norm(t @ u, (120,)), x(96, 200), x(200, 120)),
    "cross_entropy of a product": (lambda t, u, y: F.cross_entropy(t @ u, y), x(96, 200), x(200, 120), ints(120, 96)),
    "conv2d": (lambda t, w, b: F.conv2d(t, w, b, padding=1), x(4, 16, 32, 32), x(32, 16, 3, 3), x(32)),
    "attention": (attention(None), *qkv(2, 4, 64, 32)),
    "mlp": (lambda t, w, u: F.linear(F.gelu(F.linear(t, w)), u), x(96, 200), x(400, 200), x(100, 400)),
    "sum of exponentials": (lambda t, u: (t @ u).exp().sum(), x(96, 200), x(200, 120)),
}
for dtype in HALVES:
    for name, (call, *specs) in AUTOCAST.items():
        if (name, dtype) == ("conv2d", bf16):
            continue
        op(f"autocast {name} {SHORT[dtype]}", cast(dtype, call), *specs)


# ---- double backward ------------------------------------------------------------------------------------------------
def penalty(call: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The squared gradient of a sum, as a gradient penalty has it."""

    def run(*tensors: Tensor) -> Tensor:
        trained = [t for t in tensors if t.requires_grad]
        gradients = torch.autograd.grad(call(*tensors).sum(), trained, create_graph=True)
        return sum(g.square().sum() for g in gradients)  # type: ignore[return-value]

    return run


DOUBLE = {
    "linear": (F.linear, x(96, 200), x(120, 200), x(120)),
    "linear, tanh": (lambda t, w: torch.tanh(F.linear(t, w)), x(96, 200), x(120, 200)),
    "two layers": (lambda t, w, u: F.linear(F.softplus(F.linear(t, w)), u), x(96, 50), x(70, 50), x(1, 70)),
    "softmax": (lambda t: t.softmax(-1).square(), x(100, 300)),
    "gelu": (F.gelu, x(100, 300)),
    "silu": (F.silu, x(100, 300)),
    "layer_norm": (lambda t, w, b: F.layer_norm(t, (300,), w, b).square(), x(100, 300), x(300), x(300)),
    "exp": (torch.exp, x(100, 300)),
    "mul": (torch.mul, x(100, 300), x(100, 300)),
    "matmul": (lambda a, b: (a @ b).square(), x(100, 60), x(60, 80)),
    "logsumexp": (lambda t: t.logsumexp(1), x(100, 300)),
    "embedding": (lambda i, w: F.embedding(i, w).square(), ints(100, 50), x(100, 32)),
    "mse_loss": (F.mse_loss, x(100, 300), const(100, 300)),
    "index": (lambda t, i: t[i].square(), x(100, 32), ints(100, 50)),
}
for name, (call, *specs) in DOUBLE.items():
    op(f"double backward of {name}", penalty(call), *specs)
convolution = Native(penalty(lambda t, w: F.conv2d(t, w).square()))
op("double backward of conv2d native", convolution, x(2, 8, 16, 16), x(8, 8, 3, 3))
