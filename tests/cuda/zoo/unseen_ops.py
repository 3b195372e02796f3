"""More single ops. They were written when the rules were done, by somebody who wanted to find one that is wrong."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.distributions as D
import torch.nn.functional as F
from ops import (
    FLOATS,
    HALVES,
    IMAGE,
    Native,
    attention,
    bf16,
    const,
    each,
    f16,
    f32,
    f64,
    i32,
    ints,
    mask,
    op,
    penalty,
    qkv,
    table,
    x,
)
from torch import Tensor

LAST = IMAGE._replace(last=True)
VOLUME = x(2, 4, 8, 16, 16)

# ---- pools ----------------------------------------------------------------------------------------------------------
each(
    HALVES,
    {
        "max_pool2d": (lambda t: F.max_pool2d(t, 2), IMAGE),
        "avg_pool2d": (lambda t: F.avg_pool2d(t, 2), IMAGE),
        "adaptive_avg_pool2d": (lambda t: F.adaptive_avg_pool2d(t, 7), IMAGE),
        "adaptive_max_pool2d": (lambda t: F.adaptive_max_pool2d(t, 7), IMAGE),
        "max_pool3d": (lambda t: F.max_pool3d(t, 2), VOLUME),
    },
)
table(
    {
        "adaptive_max_pool2d channels last": (lambda t: F.adaptive_max_pool2d(t, 7), LAST),
        "adaptive_avg_pool2d channels last": (lambda t: F.adaptive_avg_pool2d(t, 7), LAST),
        "adaptive_avg_pool2d to one, channels last": (lambda t: F.adaptive_avg_pool2d(t, 1), LAST),
        "avg_pool2d channels last": (lambda t: F.avg_pool2d(t, 3, 2, 1), LAST),
        "max_pool2d overlapping, channels last": (lambda t: F.max_pool2d(t, 3, 2, 1), LAST),
        "max_pool2d of a transposed": (lambda t: F.max_pool2d(t.transpose(2, 3), 2), x(4, 16, 30, 40)),
        "avg_pool2d of a transposed": (lambda t: F.avg_pool2d(t.transpose(2, 3), 2), x(4, 16, 30, 40)),
        "adaptive_avg_pool2d of a transposed": (
            lambda t: F.adaptive_avg_pool2d(t.transpose(2, 3), 5), x(4, 16, 30, 40)),
        "adaptive_max_pool2d of a transposed": (
            lambda t: F.adaptive_max_pool2d(t.transpose(2, 3), 5), x(4, 16, 30, 40)),
        "adaptive_max_pool1d": (lambda t: F.adaptive_max_pool1d(t, 7), x(4, 16, 300)),
        "adaptive_max_pool3d": (lambda t: F.adaptive_max_pool3d(t, 3), VOLUME),
        "adaptive_max_pool3d of a transposed": (lambda t: F.adaptive_max_pool3d(t.transpose(2, 4), 3), VOLUME),
        "adaptive_avg_pool3d of a transposed": (lambda t: F.adaptive_avg_pool3d(t.transpose(2, 4), 3), VOLUME),
        "adaptive_avg_pool3d to one": (lambda t: F.adaptive_avg_pool3d(t, 1), VOLUME),
        "max_pool3d of a transposed": (lambda t: F.max_pool3d(t.transpose(2, 4), 2), VOLUME),
        "max_pool3d overlapping": (lambda t: F.max_pool3d(t, 3, 2, 1), VOLUME),
        "avg_pool3d of a transposed": (lambda t: F.avg_pool3d(t.transpose(2, 4), 2), VOLUME),
        "avg_pool3d overlapping": (lambda t: F.avg_pool3d(t, 3, 2, 1), VOLUME),
        "max_pool1d of a transposed": (lambda t: F.max_pool1d(t.transpose(1, 2), 3), x(4, 300, 16)),
        "avg_pool1d of a transposed": (lambda t: F.avg_pool1d(t.transpose(1, 2), 3), x(4, 300, 16)),
        "lp_pool1d": (lambda t: F.lp_pool1d(t, 2.0, 3), x(4, 16, 300)),
        "fractional_max_pool3d": (lambda t: F.fractional_max_pool3d(t, 2, output_size=(4, 7, 7)), VOLUME),
        "max_unpool1d": (lambda t: F.max_unpool1d(*F.max_pool1d(t, 2, return_indices=True), 2), x(4, 16, 300)),
        "max_unpool3d": (lambda t: F.max_unpool3d(*F.max_pool3d(t, 2, return_indices=True), 2), VOLUME),
        "max_pool2d without gradient": (lambda t: F.max_pool2d(t, 2), const(4, 16, 32, 32)),
        "pixel_shuffle channels last": (lambda t: F.pixel_shuffle(t, 2), LAST),
        "pixel_shuffle of a transposed": (lambda t: F.pixel_shuffle(t.transpose(2, 3), 2), x(4, 16, 30, 40)),
        "pixel_unshuffle channels last": (lambda t: F.pixel_unshuffle(t, 2), LAST),
        "pixel_shuffle without gradient": (lambda t: F.pixel_shuffle(t, 2), const(4, 16, 32, 32)),
        "channel_shuffle channels last": (lambda t: F.channel_shuffle(t, 4), LAST),
        "channel_shuffle without gradient": (lambda t: F.channel_shuffle(t, 4), const(4, 16, 32, 32)),
    }
)  # fmt: skip

# ---- convolutions ---------------------------------------------------------------------------------------------------
SQUARED = {
    "conv1d": (lambda t, w: F.conv1d(t, w, padding=1).square(), x(2, 8, 60), x(8, 8, 3)),
    "conv2d": (lambda t, w, b: F.conv2d(t, w, b).square(), x(2, 8, 16, 16), x(8, 8, 3, 3), x(8)),
    "conv2d strided": (lambda t, w: F.conv2d(t, w, stride=2).square(), x(2, 8, 17, 17), x(8, 8, 3, 3)),
    "conv2d grouped": (lambda t, w: F.conv2d(t, w, groups=2).square(), x(2, 8, 16, 16), x(8, 4, 3, 3)),
    "conv2d 1x1": (lambda t, w: F.conv2d(t, w).square(), x(2, 8, 16, 16), x(12, 8, 1, 1)),
    "conv3d": (lambda t, w: F.conv3d(t, w).square(), x(2, 4, 6, 8, 8), x(4, 4, 3, 3, 3)),
    "conv_transpose2d": (lambda t, w: F.conv_transpose2d(t, w, stride=2).square(), x(2, 8, 9, 9), x(8, 4, 4, 4)),
}
for name, (call, *specs) in SQUARED.items():
    op(f"double backward of {name}, cuDNN", penalty(call), *specs)
    if name != "conv2d":
        op(f"double backward of {name}, native", Native(penalty(call)), *specs)
table(
    {
        "conv2d of a transposed": (
            lambda t, w: F.conv2d(t.transpose(2, 3), w, padding=1), x(4, 16, 30, 40), x(32, 16, 3, 3)),
        "conv2d of a transposed, native": (
            Native(lambda t, w: F.conv2d(t.transpose(2, 3), w, padding=1)), x(4, 16, 30, 40), x(32, 16, 3, 3)),
        "conv2d padded as the input": (
            lambda t, w: F.conv2d(t, w, padding="same"), x(4, 16, 32, 32), x(32, 16, 4, 4)),
        "conv2d of one image": (F.conv2d, x(16, 32, 32), x(32, 16, 3, 3), x(32)),
        "conv2d with frozen weights": (F.conv2d, IMAGE, const(32, 16, 3, 3), const(32)),
        "conv2d of data": (F.conv2d, const(4, 16, 32, 32), x(32, 16, 3, 3), x(32)),
        "conv2d of data, native": (Native(F.conv2d), const(4, 16, 32, 32), x(32, 16, 3, 3), x(32)),
        "conv_transpose2d grouped": (
            lambda t, w: F.conv_transpose2d(t, w, stride=2, groups=4), IMAGE, x(16, 2, 4, 4)),
        "conv_transpose1d native bias": (
            Native(lambda t, w, b: F.conv_transpose1d(t, w, b, 2)), x(4, 16, 60), x(16, 8, 4), x(8)),
        "conv1d depthwise": (lambda t, w: F.conv1d(t, w, groups=16), x(4, 16, 200), x(16, 1, 4)),
        "conv3d depthwise": (lambda t, w: F.conv3d(t, w, groups=4), VOLUME, x(4, 1, 3, 3, 3)),
        "conv_tbc": (torch.conv_tbc, x(60, 4, 16), x(3, 16, 32), x(32)),
    }
)  # fmt: skip

# ---- mixed dtypes, numbers, broadcasts ------------------------------------------------------------------------------
table(
    {
        "where float32 and float64": (torch.where, mask(300, 500), x(300, 500), x(300, 500, dtype=f64)),
        "where bfloat16 and float32": (torch.where, mask(300, 500), x(300, 500, dtype=bf16), x(300, 500)),
        "where integers and floats": (torch.where, mask(300, 500), ints(9, 300, 500), x(300, 500)),
        "where bfloat16 and a float32 scalar": (
            lambda m, t: torch.where(m, t, torch.zeros((), device=t.device)), mask(300, 500), x(300, 500, dtype=bf16)),
        "where of a condition": (lambda t: torch.where(t > 0, t, 0.1 * t), x(300, 500)),
        "where of a column": (torch.where, mask(300, 500), x(300, 1), x(1, 500, dtype=bf16)),
        "ldexp of floats": (torch.ldexp, x(300, 500), x(300, 500)),
        "ldexp bfloat16": (torch.ldexp, x(300, 500, dtype=bf16), ints(4, 300, 500)),
        "ldexp broadcast": (torch.ldexp, x(300, 500), ints(4, 500)),
        "ldexp in place": (lambda t, e: t.ldexp_(e), const(300, 500), ints(4, 300, 500)),
        "ldexp without gradient": (torch.ldexp, const(300, 500), ints(4, 300, 500)),
        "pow of tensors broadcast": (torch.pow, x(300, 500, positive=True), x(500)),
        "pow integers": (lambda t: t**3, ints(9, 300, 500)),
        "float_power of tensors": (torch.float_power, x(300, 500, positive=True), x(500)),
        "addcmul broadcast": (torch.addcmul, x(300, 500), x(300, 1), x(1, 500)),
        "add in float64": (torch.add, x(300, 500), x(300, 500, dtype=f64)),
        "mul by a boolean": (torch.mul, x(300, 500), mask(300, 500)),
        "mul of half by integers": (torch.mul, x(300, 500, dtype=f16), ints(9, 300, 500)),
        "div floor": (lambda t, u: torch.div(t, u, rounding_mode="floor"), x(300, 500), x(300, 500)),
        "logaddexp2": (torch.logaddexp2, x(300, 500), x(300, 500)),
        "nextafter": (torch.nextafter, const(300, 500), const(300, 500)),
        "clamp by a tensor that broadcasts": (torch.clamp, x(300, 500), x(500)),
        "xlogy with a number": (lambda t: torch.xlogy(2.0, t), x(300, 500, positive=True)),
        "softmax in float32": (lambda t: t.softmax(-1, dtype=f32), x(300, 500, dtype=bf16)),
        "softmax in float32 of float16": (lambda t: t.softmax(-1, dtype=f32), x(300, 500, dtype=f16)),
        "log_softmax in float32": (lambda t: t.log_softmax(-1, dtype=f32), x(300, 500, dtype=bf16)),
        "softmax of the middle": (lambda t: t.softmax(1), x(16, 70, 40)),
        "softmax of a transposed": (lambda t: t.t().softmax(-1), x(300, 500)),
        "cumsum of bfloat16 in float32": (lambda t: t.cumsum(1, dtype=f32), x(300, 500, dtype=bf16)),
        "cumsum of booleans": (lambda t: t.cumsum(1), mask(300, 500)),
        "sum of half in float32": (lambda t: t.sum(0, dtype=f32), x(3000, 512, dtype=f16)),
        "mean of integers": (lambda t: t.mean(dtype=f32), ints(9, 700, 500)),
        "bitwise_not": (torch.bitwise_not, ints(9, 300, 500)),
        "shift": (lambda t: t << 2, ints(9, 300, 500, dtype=i32)),
        "complex of two": (lambda a, b: torch.complex(a, b).abs(), x(300, 200), x(300, 200)),
        "complex sum": (lambda t: torch.view_as_complex(t).sum().abs(), x(300, 200, 2)),
        "complex exp": (lambda t: torch.view_as_real(torch.exp(1j * t)), x(300, 200)),
        "complex matmul": (
            lambda a, b: torch.view_as_real(torch.view_as_complex(a) @ torch.view_as_complex(b)),
            x(60, 50, 2), x(50, 40, 2)),
    }
)  # fmt: skip


# ---- random numbers -------------------------------------------------------------------------------------------------
def drawn(family: Any, *fixed: Any) -> Any:
    """A sample that gradients flow through, and its log-probability."""

    def run(*tensors: Tensor) -> Any:
        made = family(*tensors, *fixed, validate_args=False)
        return made.rsample() if made.has_rsample else made.log_prob(made.sample())

    return run


POSITIVE = x(300, 20, positive=True)
table(
    {
        "Dirichlet": (drawn(D.Dirichlet), POSITIVE),
        "Gamma": (drawn(D.Gamma), POSITIVE, POSITIVE),
        "Beta": (drawn(D.Beta), POSITIVE, POSITIVE),
        "Chi2": (drawn(D.Chi2), POSITIVE),
        "StudentT": (drawn(D.StudentT), POSITIVE),
        "Normal": (drawn(D.Normal), x(300, 200), x(300, 200, positive=True)),
        "LogNormal": (drawn(D.LogNormal), x(300, 200), x(300, 200, positive=True)),
        "Laplace": (drawn(D.Laplace), x(300, 200), x(300, 200, positive=True)),
        "Cauchy": (drawn(D.Cauchy), x(300, 200), x(300, 200, positive=True)),
        "Gumbel": (drawn(D.Gumbel), x(300, 200), x(300, 200, positive=True)),
        "Exponential": (drawn(D.Exponential), x(300, 200, positive=True)),
        "Weibull": (drawn(D.Weibull), x(300, 200, positive=True), x(300, 200, positive=True)),
        "Kumaraswamy": (drawn(D.Kumaraswamy), x(300, 200, positive=True), x(300, 200, positive=True)),
        "Poisson": (drawn(D.Poisson), x(300, 200, positive=True)),
        "Geometric": (drawn(D.Geometric), x(300, 200, positive=True)),
        "Bernoulli": (drawn(D.Bernoulli), x(300, 200, positive=True)),
        "Categorical": (drawn(D.Categorical), x(300, 50, positive=True)),
        "OneHotCategorical": (drawn(D.OneHotCategoricalStraightThrough), x(300, 50, positive=True)),
        "standard_gamma without gradient": (torch._standard_gamma, const(300, 200, positive=True)),
        "poisson": (torch.poisson, const(300, 200, positive=True)),
        "rrelu in place": (lambda t: F.rrelu(t.clone(), training=True, inplace=True), x(300, 500)),
        "dropout bernoulli in place": (lambda t: torch.empty_like(t).bernoulli_(0.3), const(300, 500)),
        "cauchy in place": (lambda t: torch.empty_like(t).cauchy_(), const(300, 500)),
        "geometric in place": (lambda t: torch.empty_like(t).geometric_(0.3), const(300, 500)),
        "random in place": (lambda t: torch.empty_like(t).random_(), const(300, 500)),
        "randint": (lambda t: torch.randint(9, (300, 500), device=t.device), const(1)),
        "entropy of a Dirichlet": (lambda t: D.Dirichlet(t, validate_args=False).entropy(), POSITIVE),
        "divergence of two normals": (
            lambda a, b: D.kl_divergence(D.Normal(a, b.exp(), validate_args=False), D.Normal(b, 1.0)),
            x(300, 200), x(300, 200)),
    }
)  # fmt: skip

# ---- reductions, sorts, indices -------------------------------------------------------------------------------------
table(
    {
        "var of images": (lambda t: t.var((0, 2, 3)), x(8, 16, 24, 24)),
        "std_mean of everything": (lambda t: torch.std_mean(t), x(700, 700)),
        "nanmean": (lambda t: t.nanmean(0), x(3000, 70)),
        "norm 3": (lambda t: t.norm(3, dim=0), x(3000, 70)),
        "norm 0": (lambda t: torch.linalg.vector_norm(t, 0, dim=1), x(300, 700)),
        "linalg.norm 1 of a matrix": (lambda t: torch.linalg.norm(t, 1), x(300, 700)),
        "logsumexp of two dimensions": (lambda t: t.logsumexp((0, 2)), x(16, 70, 64)),
        "amax of two dimensions": (lambda t: t.amax((1, 2)), x(16, 70, 64)),
        "aminmax of everything": (lambda t: torch.aminmax(t), x(300, 700)),
        "argmax of bfloat16": (lambda t: t.argmax(-1), const(300, 640, dtype=bf16)),
        "nanquantile": (lambda t: t.nanquantile(0.5, dim=1), x(100, 640)),
        "quantiles": (lambda t: t.quantile(torch.tensor([0.1, 0.9], device=t.device), dim=0), x(640, 30)),
        "kthvalue rows": (lambda t: t.kthvalue(5, 0).values, x(640, 100)),
        "median rows": (lambda t: t.median(0).values, x(640, 100)),
        "mode rows": (lambda t: t.mode(0).values, x(640, 100)),
        "cummax of bfloat16": (lambda t: t.cummax(1).values, x(100, 640, dtype=bf16)),
        "cumprod rows": (lambda t: t.cumprod(0).detach(), x(640, 100, positive=True)),
        "logcumsumexp rows": (lambda t: t.logcumsumexp(0), x(640, 100)),
        "cumulative_trapezoid": (torch.cumulative_trapezoid, x(300, 640)),
        "gradient": (lambda t: torch.gradient(t), x(300, 200)),
        "diff twice": (lambda t: torch.diff(t, n=2), x(300, 640)),
        "sort descending": (lambda t: t.sort(descending=True).values, x(30, 5000)),
        "sort of bfloat16 flat": (lambda t: t.flatten().sort().values, x(300, 50, dtype=bf16)),
        "sort of the middle": (lambda t: t.sort(1).values, x(4, 5000, 8)),
        "topk of the smallest, bfloat16": (lambda t: t.topk(10, largest=False).values, x(300, 500, dtype=bf16)),
        "topk of the middle": (lambda t: t.topk(10, 1).values, x(16, 300, 40)),
        "index_select columns": (lambda t, i: t.index_select(1, i), x(500, 96), ints(96, 70)),
        "index_add columns": (lambda t, i, u: t.index_add(1, i, u), x(300, 96), ints(96, 50), x(300, 50)),
        "index_put in place": (lambda t, i, u: t.clone().index_put_((i,), u), x(500, 32), ints(500, 100), x(32)),
        "put": (lambda t, i, u: t.put(i, u, accumulate=True), x(500, 32), ints(16_000, 3000), x(3000)),
        "scatter multiply": (
            lambda t, i, u: t.scatter(0, i, u, reduce="multiply"), const(300, 96), ints(300, 50, 96), const(50, 96)),
        "scatter_reduce prod": (
            lambda t, i, u: t.scatter_reduce(0, i, u, "prod").detach(), x(300, 96), ints(300, 50, 96), x(50, 96)),
        "scatter_reduce amin, without self": (
            lambda t, i, u: t.scatter_reduce(0, i, u, "amin", include_self=False),
            x(300, 96), ints(300, 50, 96), x(50, 96)),
        "index_reduce mean": (
            lambda t, i, u: t.index_reduce(0, i, u, "mean"), x(500, 32), ints(500, 100), x(100, 32)),
        "x[i, j, k]": (
            lambda t, i, j, k: t[i, j, k], x(20, 30, 40), ints(20, 500), ints(30, 500), ints(40, 500)),
        "x[i[:, None], j]": (lambda t, i, j: t[i[:, None], j], x(200, 300), ints(200, 40), ints(300, 50)),
        "x[:, i, j]": (lambda t, i, j: t[:, i, j], x(20, 30, 40), ints(30, 100), ints(40, 100)),
        "x[..., i]": (lambda t, i: t[..., i], x(20, 30, 40), ints(40, 100)),
        "x[i] of bfloat16 in two dimensions": (lambda t, i: t[i], x(500, 32, dtype=bf16), ints(500, 40, 20)),
        "tril_indices": (lambda t: torch.tril_indices(200, 200, device=t.device), const(1)),
        "tensor_split": (lambda t: [p.exp() for p in t.tensor_split(7, 1)], x(300, 96)),
        "swapaxes, flatten": (lambda t: t.swapaxes(0, 1).flatten(1), x(30, 20, 40)),
        "block of views": (lambda t: t.view(4, 8, 8, 4, 8).transpose(2, 3).reshape(32, 256), x(4, 64, 32)),
        "triu in place": (lambda t: t.clone().triu_(), x(300, 300)),
        "fill_diagonal": (lambda t: t.clone().fill_diagonal_(0), x(300, 300)),
        "embedding with a largest norm": (
            lambda i, w: F.embedding(i, w, max_norm=1.0), ints(1000, 8, 64), const(1000, 96)),
        "embedding_bag weighted": (
            lambda i, w, p: F.embedding_bag(i, w, per_sample_weights=p, mode="sum"),
            ints(1000, 50, 8), x(1000, 96), x(50, 8)),
        "weight_norm": (lambda v, g: torch._weight_norm(v, g, 0), x(300, 200), x(300, 1)),
        "weight_norm of columns": (lambda v, g: torch._weight_norm(v, g, 1), x(300, 200), x(1, 200)),
    }
)  # fmt: skip

# ---- products and attention -----------------------------------------------------------------------------------------
each(
    FLOATS,
    {
        "bmm of transposed": (lambda a, b: torch.bmm(a.mT, b.mT), x(8, 32, 64), x(8, 96, 32)),
        "matmul of permuted": (
            lambda a, b: torch.matmul(a.permute(0, 2, 1, 3), b.permute(0, 2, 3, 1)),
            x(4, 30, 8, 16),
            x(4, 30, 8, 16),
        ),
        "linear of a slice": (lambda t, w, b: F.linear(t[:, ::2], w, b), x(96, 80, 64), x(120, 64), x(120)),
        "linear of an expanded": (lambda t, w: F.linear(t.expand(10, 64), w), x(64), x(120, 64)),
    },
)
table(
    {
        "vector times matrix": (torch.matmul, x(200), x(200, 300)),
        "vecdot": (torch.linalg.vecdot, x(300, 200), x(300, 200)),
        "addmm with numbers": (
            lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), x(30, 40), x(30, 20), x(20, 40)),
        "baddbmm beta 0": (
            lambda c, a, b: torch.baddbmm(c, a, b, beta=0), x(8, 30, 40), x(8, 30, 20), x(8, 20, 40)),
        "einsum of three": (
            lambda a, b, c: torch.einsum("bi,bj,ijk->bk", a, b, c), x(16, 20), x(16, 30), x(20, 30, 10)),
        "einsum attention values": (
            lambda a, b: torch.einsum("bhqk,bkhd->bqhd", a, b), x(4, 8, 30, 40), x(4, 40, 8, 16)),
        "einsum outer": (lambda a, b: torch.einsum("i,j->ij", a, b), x(300), x(200)),
        "inner": (torch.inner, x(30, 20), x(40, 20)),
        "matrix_power 5": (lambda a: torch.matrix_power(a, 5), x(64, 64)),
        "pairwise_distance 1": (lambda a, b: F.pairwise_distance(a, b, p=1.0), x(300, 64), x(300, 64)),
        "dist infinity": (lambda a, b: torch.dist(a, b, math.inf), x(300, 64), x(300, 64)),
        "cosine_similarity broadcast": (
            lambda a, b: F.cosine_similarity(a[:, None], b[None], dim=-1), x(40, 64), x(50, 64)),
        "attention of three dimensions": (attention(None), x(8, 64, 32), x(8, 64, 32), x(8, 64, 32)),
        "attention scaled bfloat16": (attention(None, scale=0.5), *qkv(2, 4, 100, 48, bf16)),
        "attention of head size 8 bfloat16": (attention(None), *qkv(2, 4, 100, 8, bf16)),
        "attention of head size 20 float16": (attention(None), *qkv(2, 4, 100, 20, f16)),
        "attention of values of another size": (
            attention(None), x(2, 4, 100, 64), x(2, 4, 100, 64), x(2, 4, 100, 32)),
        "attention with a trained mask": (attention(None), *qkv(2, 4, 64, 32), x(4, 64, 64)),
        "attention with a mask of odd length bfloat16": (
            attention(None), *qkv(2, 4, 77, 32, bf16), const(2, 1, 77, 77, dtype=bf16)),
        "attention of float64": (attention(None), *qkv(2, 4, 64, 32, f64)),
        "attention frozen keys bfloat16": (
            attention(None), x(2, 4, 64, 32, dtype=bf16), const(2, 4, 64, 32, dtype=bf16),
            const(2, 4, 64, 32, dtype=bf16)),
        "attention without gradient bfloat16": (attention(None), *[const(2, 4, 64, 32, dtype=bf16)] * 3),
        "attention grouped and causal bfloat16": (
            attention(None, enable_gqa=True, is_causal=True), *qkv(2, 8, 128, 64, bf16, kv_heads=2)),
    }
)  # fmt: skip

# ---- losses, norms, images ------------------------------------------------------------------------------------------
each(
    (f16,),
    {
        "cross_entropy": (F.cross_entropy, x(200, 1000), ints(1000, 200)),
        "group_norm without weight": (lambda t: F.group_norm(t, 8), x(4, 32, 40)),
        "instance_norm": (F.instance_norm, x(4, 32, 16, 16)),
    },
)
table(
    {
        "cross_entropy weights and smoothing": (
            lambda t, y, w: F.cross_entropy(t, y, w, label_smoothing=0.1), x(200, 100), ints(100, 200), const(100)),
        "cross_entropy of images with weights": (
            F.cross_entropy, x(2, 21, 32, 32), ints(21, 2, 32, 32), const(21)),
        "cross_entropy smoothing of images": (
            lambda t, y: F.cross_entropy(t, y, label_smoothing=0.1), x(2, 21, 32, 32), ints(21, 2, 32, 32)),
        "cross_entropy of probabilities of images": (
            F.cross_entropy, x(2, 21, 32, 32), const(2, 21, 32, 32, positive=True)),
        "nll_loss of one": (F.nll_loss, x(1000), ints(1000)),
        "multi_margin_loss p=2, weights": (
            lambda t, y, w: F.multi_margin_loss(t, y, p=2, weight=w), x(200, 100), ints(100, 200), const(100)),
        "triplet_margin_loss swapped": (
            lambda *t: F.triplet_margin_loss(*t, swap=True), x(300, 50), x(300, 50), x(300, 50)),
        "binary_cross_entropy weights": (
            F.binary_cross_entropy, x(300, 500, positive=True), const(300, 500, positive=True), const(300, 500)),
        "binary_cross_entropy none": (
            lambda t, y: F.binary_cross_entropy(t, y, reduction="none"),
            x(300, 500, positive=True), const(300, 500, positive=True)),
        "mse_loss broadcast": (lambda t, y: (t - y).square().mean(), x(300, 500), const(500)),
        "smooth_l1_loss beta": (lambda t, y: F.smooth_l1_loss(t, y, beta=0.1), x(300, 500), x(300, 500)),
        "l1_loss of two that train": (F.l1_loss, x(300, 500), x(300, 500)),
        "layer_norm of half with float weights": (
            lambda t, w, b: F.layer_norm(t.float(), (512,), w, b).half(), x(300, 512, dtype=f16), x(512), x(512)),
        "layer_norm of a transposed": (lambda t, w: F.layer_norm(t.transpose(1, 2), (64,), w), x(8, 64, 50), x(64)),
        "batch_norm 1d bfloat16": (
            lambda t, w, b: F.batch_norm(t, None, None, w, b, True), x(200, 32, dtype=bf16), x(32), x(32)),
        "batch_norm 2d of a transposed": (
            lambda t, w, b: F.batch_norm(t.transpose(2, 3), None, None, w, b, True), x(8, 32, 20, 24), x(32), x(32)),
        "instance_norm with weights": (
            lambda t, w, b: F.instance_norm(t, weight=w, bias=b), x(4, 32, 16, 16), x(32), x(32)),
        "group_norm of one pixel": (lambda t, w, b: F.group_norm(t, 4, w, b), x(200, 32), x(32), x(32)),
        "interpolate nearest-exact bfloat16": (
            lambda t: F.interpolate(t, scale_factor=2, mode="nearest-exact"), x(4, 16, 32, 32, dtype=bf16)),
        "interpolate bilinear channels last": (
            lambda t: F.interpolate(t, scale_factor=2, mode="bilinear"), LAST),
        "interpolate nearest channels last": (lambda t: F.interpolate(t, scale_factor=2), LAST),
        "interpolate bicubic antialias": (
            lambda t: F.interpolate(t, (14, 14), mode="bicubic", antialias=True), IMAGE),
        "interpolate nearest 3d": (lambda t: F.interpolate(t, scale_factor=2), x(2, 4, 4, 8, 8)),
        "grid_sample nearest": (
            lambda t, g: F.grid_sample(t, g, mode="nearest", align_corners=False), IMAGE, const(4, 20, 20, 2)),
        "grid_sample bicubic, border": (
            lambda t, g: F.grid_sample(t, g, mode="bicubic", padding_mode="border", align_corners=False),
            IMAGE, x(4, 20, 20, 2)),
        "pad of three dimensions": (lambda t: F.pad(t, (1, 1, 2, 2, 3, 3)), VOLUME),
        "pad reflect 3d": (lambda t: F.pad(t, (1, 1, 2, 2, 3, 3), mode="reflect"), VOLUME),
        "pad replicate 3d": (lambda t: F.pad(t, (1, 1, 2, 2, 3, 3), mode="replicate"), VOLUME),
        "pad channels last": (lambda t: F.pad(t, (1, 1, 2, 2)), LAST),
        "unfold strided": (lambda t: F.unfold(t, 4, stride=4), IMAGE),
        "fold overlapping": (lambda t: F.fold(t, (16, 16), 3, padding=1), x(4, 36, 256)),
        "celu in place": (lambda t: F.celu(t.clone(), inplace=True), x(300, 500)),
        "hardswish in place": (lambda t: F.hardswish(t.clone(), inplace=True), x(300, 500)),
        "leaky_relu in place": (lambda t: F.leaky_relu(t.clone(), inplace=True), x(300, 500)),
        "special.erfcx": (torch.special.erfcx, x(300, 500)),
        "special.entr": (torch.special.entr, x(300, 500, positive=True)),
        "special.i1e": (torch.special.i1e, x(300, 500)),
        "special.zeta": (torch.special.zeta, const(300, 500, positive=True), const(300, 500)),
        "special.multigammaln": (lambda t: torch.special.multigammaln(t + 3, 3), x(300, 50, positive=True)),
        "logit with eps": (lambda t: torch.logit(t, 1e-3), x(300, 500, positive=True)),
    }
)  # fmt: skip


# ---- functions of functions -----------------------------------------------------------------------------------------
def each_gradient(t: Tensor, w: Tensor) -> Tensor:
    """The gradient of each sample."""
    loss = torch.func.grad(lambda weight, row: torch.tanh(row @ weight).square().sum())
    return torch.func.vmap(loss, (None, 0))(w, t)


table(
    {
        "gradient of each sample": (each_gradient, const(50, 20), const(20, 10)),
        "jacobian": (lambda t, w: torch.func.jacrev(lambda row: torch.tanh(row @ w))(t), const(30), const(30, 20)),
        "jacobian forwards": (lambda t, w: torch.func.jacfwd(lambda r: torch.tanh(r @ w))(t), const(30), const(30, 20)),
        "hessian": (lambda t: torch.func.hessian(lambda row: row.tanh().square().sum())(t), const(40)),
        "directional derivative": (lambda t, v: torch.func.jvp(torch.tanh, (t,), (v,)), const(300, 50), const(300, 50)),
        "vmap of a product": (torch.vmap(torch.mv), x(50, 20, 30), x(50, 30)),
        "gradient of a gradient": (
            lambda t: torch.func.grad(lambda a: torch.func.grad(lambda b: b.exp().sum())(a).sum())(t), const(300, 50)),
    }
)  # fmt: skip
TWICE = {
    "max_pool2d": (lambda t: F.max_pool2d(t, 2).square(), x(2, 8, 16, 16)),
    "avg_pool2d": (lambda t: F.avg_pool2d(t, 2).square(), x(2, 8, 16, 16)),
    "adaptive_avg_pool2d": (lambda t: F.adaptive_avg_pool2d(t, 3).square(), x(2, 8, 16, 16)),
    "batch_norm": (lambda t, w, b: F.batch_norm(t, None, None, w, b, True).square(), x(50, 32), x(32), x(32)),
    "group_norm": (lambda t, w, b: F.group_norm(t, 4, w, b).square(), x(8, 32, 10), x(32), x(32)),
    "cross_entropy": (F.cross_entropy, x(50, 30), ints(30, 50)),
    "log_softmax": (lambda t: t.log_softmax(-1).square(), x(100, 300)),
    "leaky_relu": (lambda t: F.leaky_relu(t).square(), x(100, 300)),
    "elu": (F.elu, x(100, 300)),
    "sigmoid": (torch.sigmoid, x(100, 300)),
    "norm": (lambda t: t.norm(dim=1), x(100, 300)),
    "interpolate": (lambda t: F.interpolate(t, scale_factor=2, mode="bilinear").square(), x(2, 4, 8, 8)),
    "prelu": (lambda t, w: F.prelu(t, w).square(), x(8, 16, 50), x(16)),
    "bmm": (lambda a, b: torch.bmm(a, b).square(), x(4, 20, 30), x(4, 30, 25)),
    "attention math": (lambda q, k, v: (q @ k.mT).softmax(-1) @ v, x(4, 20, 16), x(4, 20, 16), x(4, 20, 16)),
}
for name, (call, *specs) in TWICE.items():
    op(f"double backward of {name}", penalty(call), *specs)
