"""Still more single ops: calls that none of the other tables has, of odd shapes, and several ops in one row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ops
import torch
import torch.nn.functional as F
from ops import Native, X, bf16, const, f16, f64, i32, ints, mask, u8, x
from torch import Tensor, nn


def op(name: str, call: Callable[..., Any], *specs: X) -> None:
    ops.op(f"third: {name}", call, *specs)


def table(rows: dict[str, tuple[Callable[..., Any], *tuple[X, ...]]]) -> None:
    ops.table({f"third: {name}": row for name, row in rows.items()})


# ---- indexing, sorting, counting ------------------------------------------------------------------------------------
table(
    {
        "diagonal_scatter": (lambda a, b: a.diagonal_scatter(b, 1), x(65, 67), x(65)),
        "slice_scatter": (lambda a, b: a.slice_scatter(b, 1, 3, 60, 3), x(33, 70), x(33, 19)),
        "select_scatter": (lambda a, b: a.select_scatter(b, 2, 5), x(9, 17, 33), x(9, 17)),
        "take": (lambda a, i: a.take(i), x(77, 91), ints(7000, 3, 1111)),
        "put_ in place": (lambda a, i, b: a.clone().put_(i, b), x(77, 91), ints(7000, 501), x(501)),
        "put accumulate": (lambda a, i, b: a.put(i, b, True), x(5003), ints(5003, 997), x(997)),
        "index_reduce amax": (lambda a, i, b: a.index_reduce(0, i, b, "amax"), x(61, 45), ints(61, 200), x(200, 45)),
        "index_reduce mean": (lambda a, i, b: a.index_reduce(0, i, b, "mean"), x(61, 45), ints(61, 200), x(200, 45)),
        "index_copy columns": (lambda a, i, b: a.index_copy(1, i, b), x(33, 400), ints(400, 57), x(33, 57)),
        "index by a slice and two lists": (
            lambda a, i, j: a[:, i, 3:9, j],
            x(6, 30, 12, 40),
            ints(30, 25),
            ints(40, 25),
        ),
        "index by a mask in the middle": (lambda a, i: a[i, ..., None, ::2], x(40, 3, 50), ints(40, 4, 9)),
        "index with accumulation of half": (lambda a, i: a[i].float(), x(1000, 65, dtype=f16), ints(1000, 5001)),
        "masked_fill with a tensor": (lambda a, m, v: a.masked_fill(m, v), x(63, 257), mask(63, 1), x()),
        "masked_scatter": (lambda a, m, b: a.masked_scatter(m, b), x(63, 257), mask(63, 257), x(63, 257)),
        "where with a broadcast bool": (lambda m, a, b: torch.where(m, a, b), mask(64, 1, 65), x(64, 33, 1), x(33, 65)),
        "gather broadcast index": (lambda a, i: a.gather(1, i.expand(-1, -1, 65)), x(7, 90, 65), ints(90, 7, 301, 1)),
        "scatter with a number": (lambda a, i: a.scatter(1, i, 0.5), x(33, 777), ints(777, 33, 90)),
        "scatter multiply": (lambda a, i, b: a.scatter_reduce(0, i, b, "prod"), x(333), ints(333, 2049), x(2049)),
        "scatter_reduce without self": (
            lambda a, i, b: a.scatter_reduce(0, i, b, "amin", include_self=False),
            x(100, 33),
            ints(100, 400, 33),
            x(400, 33),
        ),
        "sort of many short rows, stable": (lambda a: a.sort(dim=-1, stable=True)[0], x(5001, 17)),
        "sort over dimension 0 of half": (lambda a: a.sort(0, descending=True)[0], x(1025, 33, dtype=f16)),
        "sort of a strided tensor": (lambda a: a[:, ::2].sort(-1)[0], x(65, 4100)),
        "argsort of a long row": (lambda a: a.argsort(), const(70001)),
        "argsort of int32 rows": (lambda a: a.argsort(-1), ints(90, 12, 3001, dtype=i32)),
        "topk smallest of half": (lambda a: a.topk(7, largest=False)[0], x(300, 2049, dtype=f16)),
        "topk of one long row": (lambda a: a.topk(100)[0], x(200003)),
        "kthvalue in the middle": (lambda a: a.kthvalue(4, 1, True)[0], x(21, 33, 19)),
        "median of an even number": (lambda a: a.median(), x(44, 1000)),
        "nanmedian over a dimension": (lambda a: a.nanmedian(0)[0], x(411, 57)),
        "mode over the last dimension": (lambda a: a.mode(-1)[0], x(31, 57)),
        "quantile of several": (lambda a, q: a.quantile(q, 1), x(33, 501), const(3, positive=True)),
        "nanquantile": (lambda a: a.nanquantile(0.3, 0), x(333, 51)),
        "searchsorted by rows": (lambda a, b: torch.searchsorted(a, b), const(33, 512), const(33, 700)),
        "bucketize to int32": (lambda a, b: torch.bucketize(b, a, out_int32=True), const(129), const(77, 513)),
        "unravel_index": (lambda i: torch.unravel_index(i, (30, 7, 11)), ints(2310, 5003)),
        "tril_indices": (lambda a: a[tuple(torch.tril_indices(65, 65, device=a.device))], x(65, 65)),
        "cummax in the middle": (lambda a: a.cummax(1)[0], x(13, 301, 7)),
        "logcumsumexp over rows": (lambda a: a.logcumsumexp(0), x(301, 77)),
        "cumsum of half over 0": (lambda a: a.cumsum(0), x(3001, 7, dtype=f16)),
        "cumprod of int": (lambda a: a.cumprod(1), ints(3, 57, 91)),
        "diff twice, with an end": (lambda a, b: a.diff(2, 1, append=b), x(57, 301), x(57, 3)),
        "gradient of a grid": (lambda a: torch.gradient(a, dim=1)[0], x(57, 301)),
        "trapezoid over x": (lambda y, t: torch.trapezoid(y, t), x(57, 301), x(57, 301)),
        "cumulative_trapezoid": (lambda y: torch.cumulative_trapezoid(y, dim=0), x(301, 57)),
        "repeat_interleave by a number": (lambda a: a.repeat_interleave(3, 1), x(33, 65)),
        "roll over two": (lambda a: a.roll((3, -5), (0, 2)), x(17, 33, 65)),
        "rot90 of images": (lambda a: a.rot90(1, (2, 3)), x(3, 5, 33, 65)),
        "flip and cat": (lambda a: torch.cat((a, a.flip(1)), 1), x(33, 5, 65)),
        "stack of views": (lambda a: torch.stack(a.unbind(1), -1), x(33, 7, 65)),
        "hstack of three": (lambda a, b, c: torch.hstack((a, b, c)), x(65, 3), x(65, 200), x(65, 1)),
        "block_diag": (lambda a, b, c: torch.block_diag(a, b, c), x(65, 33), x(7), x(100, 129)),
        "cartesian_prod": (lambda a, b: torch.cartesian_prod(a, b), x(129), x(77)),
        "combinations of three": (lambda a: a[:, None, None] * a[None, :, None] * a, x(41)),
        "as_strided windows": (lambda a: a.as_strided((900, 128), (1, 1)) * 2, x(1027)),
        "unfold windows": (lambda a: a.unfold(1, 16, 5).square(), x(21, 1003)),
        "meshgrid": (lambda a, b: [t * 1 for t in torch.meshgrid(a, b, indexing="xy")], x(129), x(77)),
        "histc of a tensor": (lambda a: a.histc(77, -1, 1), const(70001)),
        "bincount with weights and a length": (lambda i, w: i.bincount(w, 999), ints(900, 5003), const(5003)),
        "one_hot, wide": (lambda i: F.one_hot(i, 301), ints(301, 33, 21)),
        "triu of a batch with an offset": (lambda a: a.triu(-3), x(7, 65, 129)),
        "diag_embed with an offset": (lambda a: a.diag_embed(2), x(33, 65)),
        "vander": (lambda a: torch.vander(a, 9), const(501)),
        "renorm": (lambda a: a.renorm(2, 1, 0.5), x(65, 33, 17)),
        "clamp by tensors": (lambda a, lo, hi: a.clamp(lo, hi), x(65, 7, 33), x(33), x(7, 1)),
    }
)

# ---- arithmetic with types, shapes and formats that differ ----------------------------------------------------------
table(
    {
        "half plus float": (lambda a, b: a + b, x(65, 1, 129, dtype=f16), x(33, 129)),
        "bfloat16 times float64 number": (lambda a, b: a * b.sum(), x(655, 129, dtype=bf16), x(9, dtype=f64)),
        "int divided by float": (lambda i, a: i / a, ints(9, 333, 5), x(5, positive=True)),
        "uint8 image to float": (
            lambda i, w: (i.float() / 255 - 0.5) * w,
            ints(255, 5, 3, 65, 33, dtype=u8),
            x(3, 1, 1),
        ),
        "addcdiv broadcast": (lambda a, b, c: a.addcdiv(b, c, value=0.3), x(65, 129), x(129), x(65, 1, positive=True)),
        "lerp by a tensor": (lambda a, b, w: a.lerp(b, w), x(65, 129), x(1, 129), x(65, 1)),
        "hypot and atan2": (lambda a, b: torch.hypot(a, b) * torch.atan2(a, b), x(65, 129), x(129)),
        "xlogy": (lambda a, b: torch.special.xlogy(a, b), x(65, 129, positive=True), x(65, 129, positive=True)),
        "polygamma and lgamma": (lambda a: a.lgamma() + a.polygamma(1), x(65, 129, positive=True)),
        "erfinv": (lambda a: (a * 0.9).erfinv(), x(65, 129, positive=True)),
        "i0e and bessel": (lambda a: torch.special.i0e(a) + torch.special.i1(a), x(65, 129)),
        "logaddexp2": (lambda a, b: torch.logaddexp2(a, b), x(65, 129), x(65, 1)),
        "fmod by a number": (lambda a: a.fmod(0.3), x(65, 129)),
        "remainder of tensors": (lambda a, b: a.remainder(b), x(65, 129), x(129, positive=True)),
        "frexp": (lambda a: a.frexp()[0], x(65, 129)),
        "copysign": (lambda a, b: a.copysign(b), x(65, 129), x(65, 1)),
        "nan_to_num of a view": (lambda a: a.t().nan_to_num(0.0), x(65, 129)),
        "heaviside": (lambda a, b: torch.heaviside(a, b), const(65, 129), const(129)),
        "sinc and cos of a view": (lambda a: a[:, ::3].sinc().cos(), x(65, 400)),
        "logit with eps": (lambda a: a.logit(1e-3), x(65, 129, positive=True)),
        "float_power": (lambda a: a.float_power(1.5), x(65, 129, positive=True)),
        "pow of two tensors": (lambda a, b: a**b, x(65, 129, positive=True), x(129)),
        "number to a tensor's power": (lambda a: 2.5**a, x(655, 129)),
        "dist": (lambda a, b: torch.dist(a, b, 3), x(65, 129), x(65, 129)),
        "cosine_similarity broadcast": (
            lambda a, b: F.cosine_similarity(a[:, None], b[None], -1),
            x(33, 65),
            x(21, 65),
        ),
        "normalize over 0, norm 1": (lambda a: F.normalize(a, 1.0, 0), x(301, 65)),
        "vector_norm inf": (lambda a: torch.linalg.vector_norm(a, float("inf"), (0, 2)), x(33, 65, 17)),
        "vector_norm 0.5": (lambda a: torch.linalg.vector_norm(a, 0.5, 1), x(33, 65, 17, positive=True)),
        "frobenius norm": (lambda a: torch.linalg.matrix_norm(a), x(33, 65, 17)),
        "matrix_norm 1": (lambda a: torch.linalg.matrix_norm(a, 1), x(33, 65, 17)),
        "var_mean with a correction of 0": (lambda a: torch.var_mean(a, (0, 2), correction=0), x(33, 65, 170)),
        "std of all of half": (lambda a: a.std(), x(330, 650, dtype=f16)),
        "logsumexp over two": (lambda a: a.logsumexp((0, 2)), x(33, 65, 17)),
        "amax with ties over all": (lambda a: a.amax(), x(330, 650)),
        "aminmax": (lambda a: torch.aminmax(a, dim=1), x(330, 65)),
        "nansum over a dimension": (lambda a: a.nansum(1), x(330, 65)),
        "nanmean": (lambda a: a.nanmean(0), x(3300, 65)),
        "prod over a dimension": (lambda a: a.prod(1), x(33, 9, 65)),
        "sum of a long thin tensor over 0": (lambda a: a.sum(0), x(300007, 3)),
        "sum of one of three": (lambda a: a.sum(1), x(5, 30001, 7)),
        "sum to float64": (lambda a: a.sum(0, dtype=f64), x(3001, 65)),
        "mean over a strided dimension": (lambda a: a.transpose(0, 2).mean(1), x(33, 650, 17)),
        "any over rows": (lambda m: m.any(1), mask(333, 655)),
        "count_nonzero over rows": (lambda a: a.count_nonzero(1), const(333, 655)),
        "argmax over a middle dimension": (lambda a: a.argmax(1), const(33, 655, 21)),
        "cov": (lambda a: torch.cov(a), x(33, 655)),
        "corrcoef": (lambda a: torch.corrcoef(a), x(33, 655)),
        "complex product": (
            lambda a, b: torch.view_as_real(torch.complex(a, b) * torch.complex(b, a)),
            x(65, 129),
            x(65, 129),
        ),
        "polar": (lambda a, b: torch.polar(a, b).abs(), x(65, 129, positive=True), x(65, 129)),
        "rotary by complex numbers": (
            lambda a, b: torch.view_as_real(torch.view_as_complex(a) * torch.view_as_complex(b)),
            x(3, 7, 65, 16, 2),
            const(65, 16, 2),
        ),
    }
)

# ---- products -------------------------------------------------------------------------------------------------------
table(
    {
        "einsum, attention of groups": (
            lambda q, k: torch.einsum("bqghd,bkgd->bghqk", q, k),
            x(3, 33, 2, 4, 16),
            x(3, 65, 2, 16),
        ),
        "einsum of three": (lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c), x(33, 65), x(65, 17), x(17, 129)),
        "einsum with a diagonal": (lambda a: torch.einsum("bii->bi", a), x(17, 65, 65)),
        "einsum, outer": (lambda a, b: torch.einsum("bi,bj->bij", a, b), x(17, 65), x(17, 33)),
        "bilinear, wide": (lambda a, b, w: F.bilinear(a, b, w), x(65, 17), x(65, 21), x(9, 17, 21)),
        "tensordot over two": (lambda a, b: torch.tensordot(a, b, ([1, 2], [0, 2])), x(33, 5, 17), x(5, 65, 17)),
        "chain_matmul": (lambda a, b, c: torch.linalg.multi_dot((a, b, c)), x(9, 300), x(300, 17), x(17, 129)),
        "kron": (lambda a, b: torch.kron(a, b), x(33, 5), x(9, 17)),
        "matmul vector by batch": (lambda a, b: a @ b, x(65), x(17, 65, 33)),
        "matmul batch by vector": (lambda a, b: a @ b, x(17, 33, 65), x(65)),
        "matmul of transposed halves": (
            lambda a, b: a.transpose(1, 2) @ b,
            x(7, 64, 32, dtype=f16),
            x(7, 64, 48, dtype=f16),
        ),
        "matmul broadcast batches": (lambda a, b: a @ b, x(7, 1, 33, 65), x(5, 65, 17)),
        "addmv": (lambda a, b, c: a.addmv(b, c), x(655), x(655, 129), x(129)),
        "addr": (lambda a, b, c: a.addr(b, c), x(65, 129), x(65), x(129)),
        "baddbmm broadcast": (lambda a, b, c: a.baddbmm(b, c, beta=0.5), x(1, 33, 17), x(7, 33, 65), x(7, 65, 17)),
        "addbmm": (lambda a, b, c: a.addbmm(b, c), x(33, 17), x(7, 33, 65), x(7, 65, 17)),
        "dot of halves": (lambda a, b: a.dot(b), x(5001, dtype=f16), x(5001, dtype=f16)),
        "linear of one row": (lambda a, w, b: F.linear(a, w, b), x(129), x(65, 129), x(65)),
        "linear of a strided input": (lambda a, w, b: F.linear(a[:, ::2], w, b), x(33, 18, 129), x(65, 129), x(65)),
        "linear to one feature, half": (
            lambda a, w, b: F.linear(a, w, b),
            x(3001, 64, dtype=f16),
            x(1, 64, dtype=f16),
            x(1, dtype=f16),
        ),
        "matrix_power": (lambda a: torch.linalg.matrix_power(a, 5), x(7, 33, 33)),
        "cross over dimension 1": (lambda a, b: torch.linalg.cross(a, b, dim=1), x(65, 3, 33), x(65, 3, 33)),
        "cdist p=1": (lambda a, b: torch.cdist(a, b, 1.0), x(3, 33, 17), x(3, 65, 17)),
        "cdist of many": (lambda a, b: torch.cdist(a, b), x(3, 133, 17), x(3, 65, 17)),
        "pairwise_distance": (lambda a, b: F.pairwise_distance(a, b), x(133, 17), x(133, 17)),
    }
)

# ---- layers ---------------------------------------------------------------------------------------------------------
table(
    {
        "conv1d, dilated and grouped": (
            lambda a, w, b: F.conv1d(a, w, b, 2, 3, 2, 4),
            x(3, 16, 301),
            x(24, 4, 5),
            x(24),
        ),
        "conv1d, dilated and grouped, native": (
            Native(lambda a, w, b: F.conv1d(a, w, b, 2, 3, 2, 4)),
            x(3, 16, 301),
            x(24, 4, 5),
            x(24),
        ),
        "conv2d of one channel": (lambda a, w: F.conv2d(a, w, padding="same"), x(3, 1, 65, 33), x(8, 1, 5, 3)),
        "conv2d of one channel, native": (
            Native(lambda a, w: F.conv2d(a, w, padding=2)),
            x(3, 1, 65, 33),
            x(8, 1, 5, 3),
        ),
        "conv2d without a batch": (lambda a, w, b: F.conv2d(a, w, b), x(5, 65, 33), x(8, 5, 3, 3), x(8)),
        "conv3d with a stride, half": (
            lambda a, w: F.conv3d(a, w, stride=2),
            x(2, 4, 9, 17, 17, dtype=f16),
            x(8, 4, 3, 3, 3, dtype=f16),
        ),
        "conv_transpose1d": (lambda a, w, b: F.conv_transpose1d(a, w, b, 3, 1, 1), x(3, 16, 101), x(16, 8, 5), x(8)),
        "conv_transpose2d in groups, native": (
            Native(lambda a, w: F.conv_transpose2d(a, w, None, 2, 1, 1, 2)),
            x(3, 16, 17, 21),
            x(16, 4, 3, 3),
        ),
        "depthwise conv2d, native": (
            Native(lambda a, w, b: F.conv2d(a, w, b, 1, 1, 1, 16)),
            x(3, 16, 33, 21),
            x(16, 1, 3, 3),
            x(16),
        ),
        "depthwise conv2d of multiplied channels": (
            lambda a, w: F.conv2d(a, w, None, 1, 1, 1, 16),
            x(3, 16, 33, 21),
            x(32, 1, 3, 3),
        ),
        "depthwise conv3d": (lambda a, w: F.conv3d(a, w, None, 1, 1, 1, 8), x(2, 8, 9, 11, 13), x(8, 1, 3, 3, 3)),
        "lp_pool2d": (lambda a: F.lp_pool2d(a, 3.0, 3, 2), x(3, 5, 33, 21, positive=True)),
        "fractional_max_pool2d": (lambda a: F.fractional_max_pool2d(a, 3, output_ratio=(0.4, 0.6)), x(3, 5, 33, 21)),
        "max_pool1d, dilated": (lambda a: F.max_pool1d(a, 3, 2, 1, 2), x(3, 5, 301)),
        "max_unpool2d": (lambda a: F.max_unpool2d(*F.max_pool2d(a, 2, return_indices=True), 2), x(3, 5, 32, 20)),
        "avg_pool3d with a divisor": (lambda a: F.avg_pool3d(a, 3, 2, 1, divisor_override=5), x(2, 5, 9, 17, 13)),
        "adaptive_avg_pool1d": (lambda a: F.adaptive_avg_pool1d(a, 17), x(3, 5, 301)),
        "adaptive_max_pool3d": (lambda a: F.adaptive_max_pool3d(a, (3, 5, 2)), x(2, 5, 9, 17, 13)),
        "interpolate nearest-exact": (
            lambda a: F.interpolate(a, scale_factor=1.7, mode="nearest-exact"),
            x(3, 5, 33, 21),
        ),
        "interpolate bicubic smaller, antialiased": (
            lambda a: F.interpolate(a, (13, 9), mode="bicubic", antialias=True),
            x(3, 5, 33, 21),
        ),
        "interpolate trilinear": (lambda a: F.interpolate(a, scale_factor=2, mode="trilinear"), x(2, 5, 9, 7, 11)),
        "interpolate linear half": (lambda a: F.interpolate(a, 451, mode="linear"), x(2, 5, 101, dtype=f16)),
        "grid_sample nearest, border": (
            lambda a, g: F.grid_sample(a, g, "nearest", "border", False),
            x(3, 5, 33, 21),
            x(3, 17, 19, 2),
        ),
        "grid_sample of volumes": (
            lambda a, g: F.grid_sample(a, g, align_corners=True),
            x(2, 5, 9, 7, 11),
            x(2, 5, 4, 3, 3),
        ),
        "affine_grid and grid_sample": (
            lambda t, a: F.grid_sample(a, F.affine_grid(t, (3, 5, 17, 19), align_corners=False), align_corners=False),
            x(3, 2, 3),
            x(3, 5, 33, 21),
        ),
        "pad, reflect 1d": (lambda a: F.pad(a, (5, 7), "reflect"), x(3, 5, 301)),
        "pad, replicate 3d": (lambda a: F.pad(a, (1, 2, 3, 0, 1, 1), "replicate"), x(2, 5, 9, 7, 11)),
        "pad, circular 2d": (lambda a: F.pad(a, (3, 3, 2, 2), "circular"), x(3, 5, 33, 21)),
        "pad, negative": (lambda a: F.pad(a, (-2, 3, 1, -4)), x(3, 5, 33, 21)),
        "channel_shuffle": (lambda a: F.channel_shuffle(a, 4), x(3, 16, 33, 21)),
        "pixel_unshuffle half": (lambda a: F.pixel_unshuffle(a, 3), x(3, 5, 33, 21, dtype=f16)),
        "fold of windows": (lambda a: F.fold(a, (20, 17), 3, 1, 1, 2), x(3, 45, 90)),
        "unfold dilated": (lambda a: F.unfold(a, (3, 2), 2, 1, 2), x(3, 5, 33, 21)),
        "local_response_norm": (lambda a: F.local_response_norm(a, 5), x(3, 16, 33, 21)),
        "instance_norm with weights": (
            lambda a, w, b: F.instance_norm(a, weight=w, bias=b),
            x(3, 16, 33, 21),
            x(16),
            x(16),
        ),
        "instance_norm 1d": (lambda a: F.instance_norm(a), x(3, 16, 301)),
        "group_norm of rows": (lambda a, w, b: F.group_norm(a, 4, w, b), x(333, 16), x(16), x(16)),
        "group_norm, channels last": (
            lambda a, w, b: F.group_norm(a, 4, w, b),
            x(3, 16, 33, 21, last=True),
            x(16),
            x(16),
        ),
        "batch_norm of one channel": (
            lambda a, w, b: F.batch_norm(a, None, None, w, b, True),
            x(33, 1, 21, 17),
            x(1),
            x(1),
        ),
        "batch_norm 1d of rows, native": (
            Native(lambda a, w, b: F.batch_norm(a, None, None, w, b, True)),
            x(3001, 33),
            x(33),
            x(33),
        ),
        "layer_norm of two dimensions, half": (
            lambda a, w, b: F.layer_norm(a, (17, 21), w, b),
            x(33, 17, 21, dtype=f16),
            x(17, 21, dtype=f16),
            x(17, 21, dtype=f16),
        ),
        "layer_norm of many tiny rows": (lambda a, w, b: F.layer_norm(a, (3,), w, b), x(100003, 3), x(3), x(3)),
        "layer_norm without a bias": (lambda a, w: F.layer_norm(a, (129,), w), x(33, 21, 129), x(129)),
        "rms_norm without weights": (lambda a: F.rms_norm(a, (129,)), x(33, 21, 129)),
        "rms_norm of halves with float weights": (
            lambda a, w: F.rms_norm(a, (128,), w),
            x(33, 21, 128, dtype=bf16),
            x(128),
        ),
        "prelu per channel": (lambda a, w: F.prelu(a, w), x(3, 16, 33, 21), x(16)),
        "rrelu in training": (lambda a: F.rrelu(a, training=True), x(333, 65)),
        "glu over 1": (lambda a: F.glu(a, 1), x(3, 16, 33)),
        "hardswish in place": (lambda a: F.hardswish(a.clone(), inplace=True), x(333, 65)),
        "softmin, softsign, tanhshrink": (lambda a: F.softmin(a, 0) + F.softsign(a) + F.tanhshrink(a), x(333, 65)),
        "gumbel_softmax hard": (lambda a: F.gumbel_softmax(a, hard=True), x(333, 65)),
        "softmax over the middle, float64": (lambda a: a.softmax(1), x(7, 301, 33, dtype=f64)),
        "log_softmax of half to float": (lambda a: a.log_softmax(-1, dtype=torch.float32), x(65, 1301, dtype=f16)),
        "softmax of a very long row": (lambda a: a.softmax(-1), x(3, 70001)),
        "dropout1d": (lambda a: F.dropout1d(a, 0.3), x(33, 16, 65)),
        "dropout3d, feature alpha": (lambda a: F.feature_alpha_dropout(a, 0.3, True), x(3, 16, 9, 7, 5)),
        "dropout of half in place": (lambda a: F.dropout(a * 1, 0.2, True, True), x(333, 65, dtype=f16)),
        "embedding with max_norm": (lambda i, w: F.embedding(i, w * 1.0, padding_idx=3), ints(500, 33, 17), x(500, 65)),
        "embedding scaled by frequency": (
            lambda i, w: F.embedding(i, w, scale_grad_by_freq=True),
            ints(500, 33, 17),
            x(500, 65),
        ),
        "embedding of few words, often": (lambda i, w: F.embedding(i, w), ints(5, 4001), x(5, 65)),
        "embedding of few words, often, half": (
            lambda i, w: F.embedding(i, w),
            ints(5, 41, 101),
            x(100, 65, dtype=bf16),
        ),
        "embedding_bag of few words, often": (
            lambda i, w: F.embedding_bag(i, w, mode="sum"),
            ints(5, 1401, 3),
            x(5, 65),
        ),
        "embedding of half, long": (lambda i, w: F.embedding(i, w), ints(500, 133, 101), x(500, 64, dtype=f16)),
        "embedding_bag sum 2d": (lambda i, w: F.embedding_bag(i, w, mode="sum"), ints(500, 33, 17), x(500, 65)),
        "embedding_bag max": (
            lambda i, w, o: F.embedding_bag(i, w, o, mode="max"),
            ints(500, 301),
            x(500, 65),
            const(1)._replace(dtype=torch.int64, high=1),
        ),
        "multi_head_attention with weights": (
            lambda a, wi, bi, wo, bo: F.multi_head_attention_forward(
                a, a, a, 33, 3, wi, bi, None, None, False, 0.0, wo, bo, need_weights=True
            ),
            x(17, 5, 33),
            x(99, 33),
            x(99),
            x(33, 33),
            x(33),
        ),
        "attention with a bool mask": (
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
            x(3, 4, 33, 16),
            x(3, 4, 65, 16),
            x(3, 4, 65, 16),
            mask(33, 65),
        ),
        "attention, causal, of odd heads in bfloat16": (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            x(3, 5, 77, 40, dtype=bf16),
            x(3, 5, 77, 40, dtype=bf16),
            x(3, 5, 77, 40, dtype=bf16),
        ),
        "attention, causal, float64": (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            x(2, 3, 33, 16, dtype=f64),
            x(2, 3, 33, 16, dtype=f64),
            x(2, 3, 33, 16, dtype=f64),
        ),
        "attention with a mask that learns": (
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, 0.1),
            x(3, 4, 33, 16, dtype=f16),
            x(3, 4, 33, 16, dtype=f16),
            x(3, 4, 33, 16, dtype=f16),
            x(3, 1, 33, 33, dtype=f16),
        ),
    }
)

# ---- losses ---------------------------------------------------------------------------------------------------------
table(
    {
        "cross_entropy with weights and smoothing": (
            lambda a, y, w: F.cross_entropy(a, y, w, label_smoothing=0.1),
            x(333, 65),
            ints(65, 333),
            const(65, positive=True),
        ),
        "cross_entropy of probabilities": (lambda a, p: F.cross_entropy(a, p.softmax(-1)), x(333, 65), x(333, 65)),
        "cross_entropy of images": (lambda a, y: F.cross_entropy(a, y), x(3, 7, 33, 21), ints(7, 3, 33, 21)),
        "cross_entropy of half, unreduced": (
            lambda a, y: F.cross_entropy(a, y, reduction="none"),
            x(333, 65, dtype=f16),
            ints(65, 333),
        ),
        "nll_loss of images with weights": (
            lambda a, y, w: F.nll_loss(a.log_softmax(1), y, w, reduction="sum"),
            x(3, 7, 33, 21),
            ints(7, 3, 33, 21),
            const(7),
        ),
        "kl_div of logs": (
            lambda a, b: F.kl_div(a.log_softmax(-1), b.log_softmax(-1), log_target=True, reduction="batchmean"),
            x(333, 65),
            x(333, 65),
        ),
        "poisson_nll with stirling": (
            lambda a, b: F.poisson_nll_loss(a, b, full=True),
            x(333, 65),
            const(333, 65, positive=True),
        ),
        "bce with logits, pos_weight": (
            lambda a, b, w: F.binary_cross_entropy_with_logits(a, b, pos_weight=w),
            x(333, 65),
            const(333, 65, positive=True),
            const(65),
        ),
        "multilabel_soft_margin": (
            lambda a, b: F.multilabel_soft_margin_loss(a, b),
            x(333, 65),
            const(333, 65, positive=True),
        ),
        "multi_margin": (lambda a, y: F.multi_margin_loss(a, y), x(333, 65), ints(65, 333)),
        "margin_ranking": (lambda a, b, y: F.margin_ranking_loss(a, b, y, 0.3), x(3333), x(3333), const(3333)),
        "hinge_embedding": (lambda a, y: F.hinge_embedding_loss(a, y), x(333, 65), const(333, 65)),
        "cosine_embedding": (lambda a, b, y: F.cosine_embedding_loss(a, b, y, 0.2), x(333, 65), x(333, 65), const(333)),
        "triplet with distance, swapped": (
            lambda a, p, n: F.triplet_margin_loss(a, p, n, swap=True),
            x(333, 65),
            x(333, 65),
            x(333, 65),
        ),
        "huber, weighted by hand": (
            lambda a, b, w: (F.huber_loss(a, b, reduction="none") * w).mean(),
            x(333, 65),
            x(333, 65),
            x(65),
        ),
        "smooth_l1 broadcast": (lambda a, b: F.smooth_l1_loss(a, b.expand_as(a), beta=0.1), x(333, 65), x(65)),
        "mse of half": (lambda a, b: F.mse_loss(a, b, reduction="sum"), x(333, 65, dtype=f16), x(333, 65, dtype=f16)),
        "l1 unreduced": (lambda a, b: F.l1_loss(a, b, reduction="none"), x(333, 65), x(333, 65)),
        "focal loss": (
            lambda a, y: ((1 - (p := a.log_softmax(1).gather(1, y[:, None])).exp()) ** 2 * -p).mean(),
            x(333, 65),
            ints(65, 333),
        ),
        "dice loss": (
            lambda a, b: 1 - 2 * (a.sigmoid() * b).sum((1, 2)) / (a.sigmoid() + b).sum((1, 2)),
            x(5, 33, 65),
            const(5, 33, 65),
        ),
        "InfoNCE": (
            lambda a, b: F.cross_entropy(
                F.normalize(a, dim=1) @ F.normalize(b, dim=1).T / 0.07, torch.arange(133, device=a.device)
            ),
            x(133, 65),
            x(133, 65),
        ),
        "adaptive log softmax": (
            lambda a, w, v: -(torch.cat((a @ w, a @ v), 1).log_softmax(-1)[:, 3]).mean(),
            x(333, 65),
            x(65, 20),
            x(65, 101),
        ),
    }
)


# ---- derivatives of derivatives -------------------------------------------------------------------------------------
def twice(call: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The gradient of the squared norm of the gradient."""

    def run(*tensors: Tensor) -> Tensor:
        wanted = [t for t in tensors if t.requires_grad]
        y = call(*tensors)
        grads = torch.autograd.grad(y.square().sum() if y.dim() else y, wanted, create_graph=True)
        return sum(g.square().sum() for g in grads)

    return run


for name, call, *specs in (
    ("layer_norm", lambda a, w, b: F.layer_norm(a, (65,), w, b), x(33, 65), x(65), x(65)),
    ("softmax and product", lambda a, b: a.softmax(-1) @ b, x(33, 65), x(65, 17)),
    ("gelu of linear", lambda a, w, b: F.gelu(F.linear(a, w, b)), x(33, 65), x(17, 65), x(17)),
    ("cross_entropy", lambda a, y: F.cross_entropy(a, y), x(333, 65), ints(65, 333)),
    ("group_norm", lambda a, w: F.group_norm(a, 4, w), x(3, 16, 9, 7), x(16)),
    ("max_pool2d", lambda a: F.max_pool2d(a, 3, 2), x(3, 5, 33, 21)),
    ("interpolate", lambda a: F.interpolate(a, scale_factor=2, mode="bilinear"), x(3, 5, 17, 11)),
    ("embedding", lambda i, w: F.embedding(i, w).tanh(), ints(50, 33), x(50, 17)),
    ("silu, swish gate", lambda a, b: F.silu(a) * b, x(333, 65), x(333, 65)),
    ("norm", lambda a: a.norm(dim=1), x(333, 65)),
    ("logsumexp", lambda a: a.logsumexp(1), x(333, 65)),
    ("sort", lambda a: a.sort(1)[0] ** 3, x(33, 65)),
    ("index_add", lambda a, i: torch.zeros(9, 65, device=a.device).index_add(0, i, a.exp()), x(133, 65), ints(9, 133)),
    ("cumsum", lambda a: a.cumsum(1).sin(), x(133, 65)),
    ("prelu", lambda a, w: F.prelu(a, w) * a, x(3, 16, 33), x(16)),
):
    op(f"twice: {name}", twice(call), *specs)


# ---- modules whose CUDA path is another one -------------------------------------------------------------------------
def fresh(make: Callable[[], nn.Module], *specs: X) -> tuple[Callable[..., Any], *tuple[X, ...]]:
    """A module made where the first tensor is."""
    return (lambda *t: make().to(t[0].device)(*t), *specs)


table(
    {
        "module: Bilinear": fresh(lambda: nn.Bilinear(17, 21, 9), x(65, 17), x(65, 21)),
        "module: LSTMCell": (lambda a: nn.LSTMCell(33, 21).to(a.device)(a)[0], x(65, 33)),
        "module: MultiheadAttention, kdim": (
            lambda a, b: nn.MultiheadAttention(32, 4, kdim=21, vdim=21, batch_first=True).to(a.device)(a, b, b)[0],
            x(5, 17, 32),
            x(5, 33, 21),
        ),
        "module: TransformerDecoderLayer": (
            lambda a, b: nn.TransformerDecoderLayer(32, 4, 65, 0.0, "gelu", batch_first=True, norm_first=True).to(
                a.device
            )(a, b),
            x(5, 17, 32),
            x(5, 33, 32),
        ),
        "module: EmbeddingBag of weights": (
            lambda i, w: nn.EmbeddingBag(90, 33, mode="sum").to(w.device)(i, per_sample_weights=w),
            ints(90, 17, 5),
            const(17, 5),
        ),
        "module: weight_norm linear": (
            lambda a: nn.utils.parametrizations.weight_norm(nn.Linear(65, 33)).to(a.device)(a),
            x(129, 65),
        ),
        "module: spectral_norm linear": (
            lambda a: nn.utils.parametrizations.spectral_norm(nn.Linear(65, 33)).to(a.device)(a),
            x(129, 65),
        ),
    }
)
