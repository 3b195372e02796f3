"""What would `torch.autocast("cuda")` cast? CUDA's lists of ops (aten/src/ATen/autocast_mode.h), for CPU tensors.

torch.autocast("cpu") has other lists: under it layer_norm and softmax stay in half precision, under CUDA's they do not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from ...torch_internals import is_view, schema

LOWER = """_convolution _convolution.deprecated conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input
conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm
chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
_scaled_dot_product_flash_attention scaled_dot_product_attention cudnn_convolution
cudnn_convolution_transpose""".split()
FLOAT = """acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar
pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim nuclear_norm
nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss
kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss
triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp
upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d
_upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d
upsample_bicubic2d _upsample_bicubic2d_aa""".split()
FLOAT_OUT = """prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
linalg_matrix_norm.str_ord sum sum.dim_IntList""".split()
FLOAT_APPENDED = {"norm.Scalar": "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim": "norm.ScalarOpt_dim_dtype"}
# optional in one overload only
_NORM_DEFAULTS: dict[str, dict[str, Any]] = {"norm.Scalar": {"p": 2}, "norm.ScalarOpt_dim": {"keepdim": False}}
WIDEST = "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add".split()
BANNED = ["binary_cross_entropy"]
LISTED = frozenset([*LOWER, *FLOAT, *FLOAT_OUT, *FLOAT_APPENDED, *WIDEST, *BANNED])


class Casts:
    """One thread's casts. Those of weights are cached until the outermost region ends, as on CUDA."""

    def __init__(self) -> None:
        self._cache: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        self._done = 0  # ops under way whose arguments have been cast: what they call is not cast again

    def clear(self) -> None:
        self._cache.clear()

    def dtype(self) -> torch.dtype | None:
        """Of the autocast region we are in; None outside. Both devices count: our CPU stands for CUDA."""
        for device in () if self._done else ("cuda", "cpu"):
            if torch.is_autocast_enabled(device):
                return torch.get_autocast_dtype(device)
        return None

    @contextlib.contextmanager
    def done(self) -> Iterator[None]:
        self._done += 1
        try:
            yield
        finally:
            self._done -= 1

    def cast(self, x: Any, dtype: torch.dtype) -> Any:
        """`x` with every float tensor in it in `dtype`; float64 stays. autocast_mode.cpp `cached_cast`."""
        if isinstance(x, (list, tuple)):
            return type(x)(self.cast(y, dtype) for y in x)
        if not is_eligible(x) or x.dtype is dtype:
            return x
        is_weight = x.dtype is torch.float32 and x.requires_grad and x.is_leaf and not is_view(x)
        if not (is_weight and dtype is self.dtype() and torch.is_autocast_cache_enabled()):
            return x.to(dtype)
        if x not in self._cache:
            with torch.enable_grad():  # so that a cast first made under no_grad can still be trained through
                self._cache[x] = x.to(dtype)
        return self._cache[x]


def is_eligible(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point() and x.dtype is not torch.float64


def recast(name: str, casts: Casts, low: torch.dtype, args: tuple, kw: dict, op: Any) -> tuple[tuple, dict]:
    """The arguments of `op`, which autocast knows as `name`, as autocast to `low` would pass them on."""
    if name in BANNED:
        raise RuntimeError(
            "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast, on CUDA as here. "
            "Use binary_cross_entropy_with_logits, or leave autocast for the loss."
        )
    if name in FLOAT_OUT or name in FLOAT_APPENDED:
        if name in FLOAT_OUT and not is_eligible(args[0]):
            return args, kw
        defaults = _NORM_DEFAULTS.get(name, {})
        named_arguments = defaults | dict(zip((a.name for a in schema(op).arguments[1:]), args[1:], strict=False)) | kw
        if named_arguments.get("dtype") is None:
            named_arguments["dtype"] = torch.float32 if is_eligible(args[0]) else args[0].dtype
        return args[:1], named_arguments
    to = low if name in LOWER else torch.float32 if name in FLOAT else _widest((args, kw), low)
    # Last argument first: the order in which GCC evaluates them, and so in which CUDA's copies are allocated.
    keywords = {key: casts.cast(value, to) for key, value in reversed(kw.items())}
    return tuple(casts.cast(x, to) for x in reversed(args))[::-1], keywords


def _widest(x: Any, low: torch.dtype) -> torch.dtype:
    if isinstance(x, dict):
        x = tuple(x.values())
    if isinstance(x, (list, tuple)):
        return torch.float32 if any(_widest(y, low) is torch.float32 for y in x) else low
    return torch.float32 if is_eligible(x) and x.dtype is torch.float32 else low
