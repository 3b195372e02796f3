"""Where does torch ask "is this a CUDA tensor?" before it picks its ops? Those functions, with CUDA's answer.

`F.dropout`, `F.linear` and the like are not kernels. They are C++ functions that choose kernels, some by device.
We put ourselves before them at a dispatch key that a thread visits only if asked to, AutocastPrivateUse1. It is above
autograd, so every spelling in Python and every call from C++ passes through it. Other threads never do.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...torch_internals import (
    DispatchKey,
    DispatchKeySet,
    FakeTensor,
    excluding_keys,
    has_kernel,
    kernel_at,
    keys_after,
    op_names,
    sparse_indices,
    sparse_values,
    suggest_memory_format,
    without_dispatch_modes,
)
from ...tracing.allocation_recorder import note_unknown
from ..gpus import Gpu
from ..hidden_memory import cub
from ..hidden_memory.allocations import HALVES
from .attention_choice import AttentionCall, attention
from .autocast import FLOAT_APPENDED, LISTED, Casts, recast
from .recurrent_networks import CELLS, Network, Weights

aten = torch.ops.aten
KEY = "AutocastPrivateUse1"
OURS = DispatchKey.AutocastPrivateUse1
BELOW_AUTOCAST = keys_after(DispatchKey.AutocastCPU)
_CPUS = DispatchKeySet(DispatchKey.AutocastCPU)
_BOTH = _CPUS.add(OURS)
Path = Callable[..., Any]  # (gpu, the op as torch has it, *its arguments) -> its result
Current = Callable[[], tuple[Gpu, Casts]]


class UnknownOnCuda(UserWarning):
    """CUDA would run something whose memory only the vendor of the library knows."""


def register(current: Current) -> list[torch.library.Library]:
    """Put every path in its place; `current()` returns the calling thread's GPU and casts. `take_away` removes them."""
    fallback, library = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    fallback.fallback(torch.library.fallthrough_kernel, KEY)
    for name in LISTED.union(_cast_on_cpu(), PATHS):
        library.impl(name, _entry(name, current), KEY, with_keyset=True)
    return [library, fallback]


@functools.cache
def _cast_on_cpu() -> frozenset[str]:
    """Ops in the lists of torch.autocast("cpu"): they pass through here so that those lists do not apply."""
    names = (n for n in op_names() if n.startswith("aten::"))
    return frozenset(n[6:] for n in names if has_kernel(n, "AutocastCPU"))


def _entry(name: str, current: Current) -> Path:
    op, path = _op(name), PATHS.get(name)
    typed = _op(FLOAT_APPENDED.get(name, name))  # the overload with a dtype, where autocast has to name one

    def enter(keyset: DispatchKeySet, *args: Any, **kw: Any) -> Any:
        gpu, casts = current()

        def plain(*args: Any, **kw: Any) -> Any:
            return op.redispatch(keyset & BELOW_AUTOCAST, *args, **kw)

        low = casts.dtype() if name in LISTED else None
        if low is None or (name == "rms_norm" and gpu.torch_release < (2, 12)):  # pytorch#174824
            return path(gpu, plain, *args, **kw) if path else plain(*args, **kw)
        args, kw = recast(name, casts, low, args, kw, typed)
        with casts.done(), excluding_keys(_CPUS):
            if typed is not op:
                return typed(*args, **kw)
            return path(gpu, plain, *args, **kw) if path else plain(*args, **kw)

    return enter


def _op(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload or "default")


def below_autocast() -> Any:
    """A context for the inside of a kernel: nothing is cast there, and nothing passes through here."""
    return excluding_keys(_BOTH)


# --- the paths ------------------------------------------------------------------------------------------------------


def _dropout(gpu: Gpu, plain: Path, x: Tensor, p: float, train: bool) -> Tensor:
    """Dropout.cpp `is_fused_kernel_acceptable`: CUDA saves a mask of 1 byte per element, the CPU one of x's dtype."""
    if train and 0 < p < 1 and x.numel() > 0:
        return aten.native_dropout(x, p, True)[0]
    return plain(x, p, train)


def _linear(gpu: Gpu, plain: Path, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Linear.cpp adds the bias of a non-contiguous input in place, unless a dispatch mode is active, and ours is."""
    if bias is None or x.dim() < 3 or x.is_contiguous() or x.layout is not torch.strided:
        return plain(x, weight, bias)
    return torch.matmul(x, weight.t()).add_(bias)


def _softmax(fused: Any) -> Path:
    """SoftMax.cpp: CUDA reads float16 and writes float32 in one kernel; other dtypes are copied to float32 first."""

    def path(gpu: Gpu, plain: Path, x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
        if x.dtype is torch.float16 and dtype is torch.float32:
            return fused(x, dim, True)
        return plain(x, dim, dtype)

    return path


def _attention(
    gpu: Gpu, plain: Path, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    if any(t.is_nested for t in (q, k, v)):
        return plain(q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    return attention(AttentionCall(q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa), gpu)


def _batch_norm(
    gpu: Gpu, plain: Path, x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None,
    var: Tensor | None, training: bool, momentum: float, eps: float, cudnn: bool,
) -> Tensor:  # fmt: skip
    """Normalization.cpp `_select_batch_norm_backend`: cuDNN's, but not for bfloat16, rows of features, or no weight."""
    if not cudnn:
        return plain(x, weight, bias, mean, var, training, momentum, eps, cudnn)
    passed = [t for t in (weight, bias, mean, var) if t is not None]
    fits = weight is not None and bias is not None and len(passed) in (2, 4) and (len(passed) == 4 or training)
    dtypes = {t.dtype for t in passed}
    fits = fits and (dtypes == {x.dtype} or (x.dtype is torch.float16 and dtypes == {torch.float32}))
    fits = fits and x.dim() >= 3 and x.dtype is not torch.bfloat16 and not (x.dtype in HALVES and dtypes == {x.dtype})
    if not (fits and 0 < x.numel() < 2**31 - 1 and x.shape[0] <= (880801 if training else 65535)):
        return plain(x, weight, bias, mean, var, training, momentum, eps, cudnn)
    x = x.contiguous(memory_format=suggest_memory_format(x))
    return aten.cudnn_batch_norm(x, weight, bias, mean, var, training, momentum, eps)[0]


def _group_norm(gpu: Gpu, plain: Path, x: Tensor, *args: Any, **kw: Any) -> Tensor:
    """native/group_norm.cpp `group_norm`: the CPU also takes an input whose channels are last."""
    return plain(x.contiguous(), *args, **kw)


def _rms_norm(
    gpu: Gpu, plain: Path, x: Tensor, shape: list[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """layer_norm.cpp `rms_norm_symint`: one kernel since 2.9, if input and weight agree in dtype."""
    agree = weight is None or weight.dtype is x.dtype
    if gpu.torch_release < (2, 9) or not agree or suggest_memory_format(x) is torch.channels_last:
        return plain(x, shape, weight, eps)
    # The CPU build has no kernel for it, so its dispatcher would take it apart before autograd: name autograd's kernel.
    return kernel_at(aten._fused_rms_norm.default)(DispatchKey.Autograd, x, shape, weight, eps)[0]


def _packed(gpu: Gpu, plain: Path, x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """PackedSequence.cpp: copies each run of steps that has the same sequences, and joins the copies.

    Without the values of the lengths, those copies cannot be known.
    """
    if isinstance(lengths, FakeTensor):
        note_unknown("_pack_padded_sequence", "copies slices of its input, by their lengths: at most the input's size")
        return plain(x, lengths, batch_first)
    steps, ends = (x.transpose(0, 1) if batch_first else x), sorted(set(lengths.tolist()))
    with torch.no_grad():
        runs = zip([0, *ends], ends, strict=False)
        copied = [steps[a:b, : int((lengths >= b).sum())].contiguous() for a, b in runs]  # noqa: F841  alive until done
    return plain(x, lengths, batch_first)


def _recurrent(name: str) -> dict[str, Path]:
    """RNN.cpp: cuDNN, if it is enabled, which keeps what it needs for backward in a reserve. Else a cell a step."""
    cell = CELLS[name]

    def padded(
        gpu: Gpu, plain: Path, x: Tensor, hx: Any, params: list[Tensor], biases: bool, layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool,
    ) -> tuple:  # fmt: skip
        if torch.backends.cudnn.enabled:
            _warn_of_cudnn(name)
            return plain(x, hx, params, biases, layers, dropout, train, bidirectional, batch_first)
        network = Network(cell, params, biases, layers, dropout if train else 0.0, bidirectional)
        start = hx if name == "lstm" else [hx]
        out, *ends = network.run(x.transpose(0, 1) if batch_first else x, start, None)
        return (out.transpose(0, 1) if batch_first else out, *ends)

    def packed(
        gpu: Gpu, plain: Path, x: Tensor, batch_sizes: Tensor, hx: Any, params: list[Tensor], biases: bool, layers: int,
        dropout: float, train: bool, bidirectional: bool,
    ) -> tuple:  # fmt: skip
        if torch.backends.cudnn.enabled:
            _warn_of_cudnn(name)
            return plain(x, batch_sizes, hx, params, biases, layers, dropout, train, bidirectional)
        network = Network(cell, params, biases, layers, dropout if train else 0.0, bidirectional)
        return tuple(network.run(x, hx if name == "lstm" else [hx], batch_sizes.tolist()))

    return {"input": padded, "data": packed}


def _warn_of_cudnn(name: str) -> None:
    why = "on CUDA this runs in cuDNN, which keeps a reserve of undocumented size: its memory is not predicted"
    note_unknown(name, why)
    warnings.warn(f"{name}: {why}", UnknownOnCuda, stacklevel=3)


def _cell(name: str) -> Path:
    """RNN.cpp `lstm_cell`, `gru_cell`: the fused cell, with or without cuDNN."""

    def path(
        gpu: Gpu, plain: Path, x: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Any:  # fmt: skip
        state = CELLS[name](x, tuple(hx) if name == "lstm" else (hx,), Weights(w_ih, w_hh, b_ih, b_hh))
        return state if name == "lstm" else state[0]

    return path


class _Product(torch.autograd.Function):
    """FunctionsManual.cpp `prod_backward`. While it is traced, torch takes a longer formula, which looks at no values.

    Fake tensors have no values, and are assumed to have no zeros.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, plain: Path, dim: int | None, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
        result = plain(x, dtype=dtype) if dim is None else plain(x, dim, keepdim, dtype=dtype)
        ctx.save_for_backward(x, result)
        ctx.dim, ctx.keepdim = dim, keepdim
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple:
        (dy,), (x, result) = grads, ctx.saved_tensors
        real = not isinstance(x, FakeTensor)
        zero = x == 0
        dim = ctx.dim
        if dim is None:
            zeros = len(zero.nonzero()) if real else 0
            del zero
        else:
            if not ctx.keepdim:
                dy, result = dy.unsqueeze(dim), result.unsqueeze(dim)
            count = zero.sum(dim, keepdim=True)
            zeros = int(count.sum()) if real else 0
        if not zeros:
            dx = dy * (result / x).conj()
        elif dim is None and zeros > 1:
            dx = torch.zeros_like(x)
        elif dim is None:
            dx = (dy * _others(x.reshape(-1), 0)).view_as(x)
        else:
            dx = dy * _others(x, dim)
        return dx, None, None, None, None


def _others(x: Tensor, dim: int) -> Tensor:
    """For each element the product of all others along `dim` (`prod_safe_zeros_backward`)."""
    if x.shape[dim] == 1:
        return torch.ones_like(x)
    ones = torch.ones_like(x.narrow(dim, 0, 1))
    before = torch.cat([ones, x.narrow(dim, 0, x.shape[dim] - 1)], dim).cumprod(dim)
    after = torch.cat([ones, x.narrow(dim, 1, x.shape[dim] - 1).flip(dim)], dim).cumprod(dim).flip(dim)
    return (before * after).conj()


def _prod(
    gpu: Gpu, plain: Path, x: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    if torch.is_grad_enabled() and x.requires_grad and x.dim() and x.numel() and dtype in (None, x.dtype):
        return _Product.apply(x, plain, dim, keepdim, dtype)
    return plain(x, dtype=dtype) if dim is None else plain(x, dim, keepdim, dtype=dtype)


class _Renorm(torch.autograd.Function):
    """FunctionsManual.cpp `renorm_backward`: CUDA accumulates float32 in float32, a CPU in float64.

    One name for each temporary of the C++, which lives until its expression is over.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, plain: Path, p: float, dim: int, maxnorm: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.dim, ctx.maxnorm = dim, maxnorm
        return plain(x, p, dim, maxnorm)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple:
        (dy,), (x,) = grads, ctx.saved_tensors
        dims = [d for d in range(x.dim()) if d != ctx.dim % x.dim()]
        norm = torch.linalg.vector_norm(x, 2, dims, True)
        product = x * dy
        along = product.sum(dims, True)
        del product
        unit, zero = x / norm, norm == 0
        of_norm = along * unit.masked_fill_(zero, 0)
        del zero, unit, along
        inverse = (norm + 1e-7).reciprocal()
        moved = inverse * of_norm
        across = dy - moved
        factor = ctx.maxnorm * inverse
        scaled = factor * across
        del factor, across, moved
        return torch.where(norm > ctx.maxnorm, scaled, dy), None, None, None, None


def _renorm(gpu: Gpu, plain: Path, x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    if not (torch.is_grad_enabled() and x.requires_grad) or x.dtype is not torch.float32:
        return plain(x, p, dim, maxnorm)
    if p != 2:
        note_unknown("renorm", "its backward is counted in float64, as on a CPU; CUDA needs half of that")
        return plain(x, p, dim, maxnorm)
    return _Renorm.apply(x, plain, p, dim, maxnorm)


class _FilledWithTensor(torch.autograd.Function):
    """FunctionsManual.cpp `masked_fill_backward`. While it is traced, torch takes a formula that looks at no values."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, plain: Path, mask: Tensor, value: Tensor) -> Tensor:
        ctx.save_for_backward(mask)
        return plain(x, mask, value)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple:
        (dy,), (mask,) = grads, ctx.saved_tensors
        dx = dy.masked_fill(mask, 0) if ctx.needs_input_grad[0] else None
        return dx, None, None, dy.masked_select(mask).sum()


def _masked_fill(gpu: Gpu, plain: Path, x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    if not (torch.is_grad_enabled() and value.requires_grad):
        return plain(x, mask, value)
    if isinstance(mask, FakeTensor):
        note_unknown(
            "masked_fill", "its backward selects gradients by the mask, whose values a fake tensor does not have"
        )
        return plain(x, mask, value)
    return _FilledWithTensor.apply(x, plain, mask, value)


def _masked_scatter_backward(gpu: Gpu, plain: Path, dy: Tensor, mask: Tensor, sizes: list[int]) -> Tensor:
    """native/TensorAdvancedIndexing.cpp: what the mask selects, and zeros for the elements that were not used."""
    if torch.is_grad_enabled():
        return plain(dy, mask, sizes)
    if isinstance(dy, FakeTensor):
        note_unknown("masked_scatter_backward", "selects gradients by a mask, whose values a fake tensor does not have")
        return plain(dy, mask, sizes)
    selected = dy.masked_select(mask)
    missing = math.prod(sizes) - selected.numel()
    if missing > 0:
        selected = torch.cat([selected, dy.new_zeros(missing)])
    return selected.view(sizes)


def _cumprod_backward(gpu: Gpu, plain: Path, dy: Tensor, x: Tensor, dim: int, result: Tensor) -> Tensor:
    """native/ReduceOps.cpp `cumprod_backward`. While it is traced, torch takes a longer formula.

    Names live as long as the temporaries of the C++. Fake tensors are taken to be without zeros.
    """
    if x.numel() <= 1 or x.shape[dim] == 1:
        return dy
    weighted = result.conj() * dy
    zero = x == 0
    if isinstance(x, FakeTensor) or not zero.any():
        return _reversed_cumsum(weighted, dim).div(x.conj())
    if torch.is_grad_enabled():
        return plain(dy, x, dim, result)
    dx = dy.new_zeros(x.shape)
    zeros = zero.cumsum(dim)
    mask = zeros == 0  # before the first zero
    others = ~mask
    kept = weighted.masked_fill(others, 0.0)
    back = _reversed_cumsum(kept, dim).div_(x.conj())
    del others, kept
    dx = torch.where(mask, back, dx)
    mask = zeros == 1  # from the first zero to the second
    first_index = mask.max(dim, keepdim=True).indices
    first = torch.zeros_like(mask).scatter_(dim, first_index, 1).logical_and_(mask)
    others = ~first
    mask &= others
    del others
    others = ~mask
    filled = x.conj().masked_fill(others, 1.0)
    products = filled.cumprod(dim)
    del others, filled
    not_one = zeros != 1
    of_mask = dy.masked_fill(not_one, 0.0)
    del not_one
    place = (first_index - 1).relu_()
    at_first = result.conj().gather(dim, place)
    at_first.masked_fill_(first_index == 0, 1.0)
    del place
    sums = products.mul_(of_mask).sum(dim, keepdim=True).mul_(at_first)
    del of_mask
    return torch.where(first, sums, dx)


def _reversed_cumsum(x: Tensor, dim: int) -> Tensor:
    flipped = x.flip(dim)
    added = flipped.cumsum(dim)
    return added.flip(dim)


def _coalesce(gpu: Gpu, plain: Path, x: Tensor) -> Tensor:
    """sparse/cuda/SparseCUDATensor.cu `_coalesce_sparse_cuda`: sorts indices and their places, and adds equal ones."""
    indices, values = sparse_indices(x), sparse_values(x)
    n, dims = values.shape[0], indices.shape[0]
    if n < 2 or isinstance(values, FakeTensor) or (torch.is_grad_enabled() and x.requires_grad):
        return plain(x)
    with without_dispatch_modes():
        done = plain(x)
        kept, sums = done.indices(), done.values()
    count = sums.shape[0]
    flat = indices.clone() if dims == 1 else indices.new_empty(1, n)
    places, firsts = indices.new_empty(n), indices.new_empty(n)  # noqa: F841  alive until done
    for nbytes in (cub.merge_sort(n, 8, 8), cub.scan_by_key(n)):
        storage = torch.empty(nbytes, dtype=torch.uint8)
        del storage
    added = values.new_empty(count, *values.shape[1:])
    found = flat[:, :count] if dims == 1 else indices.new_empty(dims, count)
    with without_dispatch_modes():
        added.copy_(sums)
        found.copy_(kept)
    return torch.sparse_coo_tensor(found, added, x.shape, is_coalesced=True, check_invariants=False)


PATHS: dict[str, Path] = {
    "_coalesce": _coalesce,
    "masked_scatter_backward": _masked_scatter_backward,
    "cumprod_backward": _cumprod_backward,
    "renorm": _renorm,
    "masked_fill.Tensor": _masked_fill,
    "prod": _prod,
    "prod.dim_int": _prod,
    "dropout": _dropout,
    "linear": _linear,
    "softmax.int": _softmax(aten._softmax),
    "log_softmax.int": _softmax(aten._log_softmax),
    "scaled_dot_product_attention": _attention,
    "batch_norm": _batch_norm,
    "group_norm": _group_norm,
    "rms_norm": _rms_norm,
    **{f"{name}.{kind}": path for name in CELLS for kind, path in _recurrent(name).items()},
    "_pack_padded_sequence": _packed,
    "lstm_cell": _cell("lstm"),
    "gru_cell": _cell("gru"),
}
