"""Where does torch ask "is this a CUDA tensor?" before it picks its ops? Those functions, with CUDA's answer.

`F.dropout`, `F.linear` and the like are not kernels. They are C++ functions that choose kernels, some by device.
We put ourselves before them at a dispatch key that a thread visits only if asked to, AutocastPrivateUse1. It is above
autograd, so every spelling in Python and every call from C++ passes through it. Other threads never do.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...torch_internals import (
    DispatchKey,
    DispatchKeySet,
    excluding_keys,
    has_kernel,
    kernel_at,
    keys_after,
    op_names,
    suggest_memory_format,
)
from ..gpus import Gpu
from ..hidden_memory.allocations import HALVES
from .attention_choice import Attention, attention
from .autocast import FLOAT_APPENDED, LISTED, Casts, recast

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
    """Dropout.cpp `is_fused_kernel_acceptable`: CUDA keeps a mask of 1 byte per element, the CPU one of x's dtype."""
    if train and 0 < p < 1 and x.numel() > 0:
        return aten.native_dropout(x, p, True)[0]
    return plain(x, p, train)


def _linear(gpu: Gpu, plain: Path, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Linear.cpp: the bias of a non-contiguous input is added in place, unless a dispatch mode is active: ours is."""
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
    return attention(Attention(q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa), gpu)


def _batch_norm(
    gpu: Gpu, plain: Path, x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None,
    var: Tensor | None, training: bool, momentum: float, eps: float, cudnn: bool,
) -> Tensor:  # fmt: skip
    """Normalization.cpp `_select_batch_norm_backend`: cuDNN's, but not for bfloat16, rows of features, or no weight."""
    passed = [t for t in (weight, bias, mean, var) if t is not None]
    fits = weight is not None and bias is not None and len(passed) in (2, 4) and (len(passed) == 4 or training)
    dtypes = {t.dtype for t in passed}
    fits = fits and (dtypes == {x.dtype} or (x.dtype is torch.float16 and dtypes == {torch.float32}))
    fits = fits and x.dim() >= 3 and x.dtype is not torch.bfloat16 and not (x.dtype in HALVES and dtypes == {x.dtype})
    if not (fits and 0 < x.numel() < 2**31 - 1 and x.shape[0] <= (880801 if training else 65535)):
        return plain(x, weight, bias, mean, var, training, momentum, eps, cudnn)
    x = x.contiguous(memory_format=suggest_memory_format(x))
    return aten.cudnn_batch_norm(x, weight, bias, mean, var, training, momentum, eps)[0]


def _rms_norm(
    gpu: Gpu, plain: Path, x: Tensor, shape: list[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """layer_norm.cpp `rms_norm_symint`: one kernel since 2.9, if input and weight agree in dtype."""
    agree = weight is None or weight.dtype is x.dtype
    if gpu.torch_release < (2, 9) or not agree or suggest_memory_format(x) is torch.channels_last:
        return plain(x, shape, weight, eps)
    # The CPU build has no kernel for it, so its dispatcher would take it apart before autograd: name autograd's kernel.
    return kernel_at(aten._fused_rms_norm.default)(DispatchKey.Autograd, x, shape, weight, eps)[0]


def _rnn(gpu: Gpu, plain: Path, *args: Any, **kw: Any) -> Any:
    message = "on CUDA this runs in cuDNN, which keeps a reserve of undocumented size: its memory is not predicted"
    warnings.warn(message, UnknownOnCuda, stacklevel=2)
    return plain(*args, **kw)


PATHS: dict[str, Path] = {
    "dropout": _dropout,
    "linear": _linear,
    "softmax.int": _softmax(aten._softmax),
    "log_softmax.int": _softmax(aten._log_softmax),
    "scaled_dot_product_attention": _attention,
    "batch_norm": _batch_norm,
    "rms_norm": _rms_norm,
    **dict.fromkeys(("lstm.input", "lstm.data", "gru.input", "gru.data", "lstm_cell", "gru_cell"), _rnn),
    **dict.fromkeys(("rnn_tanh.input", "rnn_tanh.data", "rnn_relu.input", "rnn_relu.data"), _rnn),
}
