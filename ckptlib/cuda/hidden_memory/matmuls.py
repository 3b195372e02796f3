"""Which ops make CUDA's matrix libraries allocate, and when do they copy a factor first?

Paths are inside pytorch/pytorch, aten/src/ATen/native/cuda by default. Inside one op the order is: output, copies of
factors, cuBLASLt's workspace, cuBLAS's if the handle is new (from torch 2.9 on cuBLAS's before cuBLASLt's).
"""

from __future__ import annotations

import torch

from ...tracing.events import Op, TensorMeta
from ..gpus import Gpu
from .allocations import HALVES, NOTHING, HiddenMemory, is_contiguous, is_dense

MATRIX_PRODUCTS = {  # op -> where its two factors begin; all of them ask for the thread's cuBLAS handle
    "aten.mm.default": 0,
    "aten.addmm.default": 1,
    "aten.addmm_.default": 1,
    "aten._addmm_activation.default": 1,
    "aten.bmm.default": 0,
    "aten.baddbmm.default": 1,
    "aten.baddbmm_.default": 1,
    "aten.addbmm.default": 1,
    "aten.mv.default": 0,
    "aten.addmv.default": 1,
    "aten.addmv_.default": 1,
    "aten.dot.default": 0,
    "aten.vdot.default": 0,
    "aten._int_mm.default": 0,
    "aten._scaled_mm.default": 0,
}
ALWAYS_LT = ("aten._int_mm.default", "aten._scaled_mm.default")  # cuda/CUDABlas.cpp: int8_gemm, scaled_gemm
LT_DTYPES = (torch.float64, torch.float32, *HALVES)
CUSPARSE = "a sparse factor is multiplied by cuSPARSE, in a buffer of a size that only cuSPARSE knows"


def uses_cublas(op: Op, gpu: Gpu) -> bool:
    """Whether `op` allocates the workspace of its thread's cuBLAS handle, if the handle has none yet.

    cuda/CublasHandlePool.cpp: handing out a handle sets its workspace, and cuBLASLt's handle is cuBLAS's. An empty
    matrix product returns before it asks; `dot` asks always.
    """
    factors = _factors(op)
    if not factors or _is_outer_product(op, factors, gpu):
        return False
    return op.name in ("aten.dot.default", "aten.vdot.default") or all(f.numel for f in factors)


def _is_outer_product(op: Op, factors: tuple[TensorMeta, ...], gpu: Gpu) -> bool:
    """torch/_native/ops/bmm_outer_product: a batch of outer products is a kernel of Triton's, since 2.13."""
    if op.name != "aten.bmm.default" or gpu.torch_release < (2, 13):
        return False
    a, b = factors
    return a.shape[2] == b.shape[1] == 1 and not a.dtype.is_complex


def uses_cublaslt(op: Op, gpu: Gpu) -> bool:
    """Whether `op` allocates a workspace for cuBLASLt: at every call, or once per handle if `gpu.cublaslt_kept`.

    Blas.cpp `addmm_out_cuda_impl`: a product plus a 1-D bias, which cuBLASLt adds in the same kernel. Without a bias
    (`mm`), and for a bias of two dimensions, plain cuBLAS is called.
    """
    if not gpu.cublaslt_workspace or not uses_cublas(op, gpu):
        return False
    if op.name in ALWAYS_LT:
        return True
    if op.name not in ("aten.addmm.default", "aten._addmm_activation.default"):
        return False
    bias, a, b = op.args[:3]
    if len(bias.shape) != 1 or bias.shape[0] != b.shape[1] or not is_contiguous(bias):
        return False
    narrow = min(b.shape) == 1 or (min(a.shape) == 1 and gpu.torch_release >= (2, 10))
    return not narrow and op.kwargs.get("beta", 1) == 1 and a.dtype in LT_DTYPES


def _factors(op: Op) -> tuple[TensorMeta, ...]:
    """What is multiplied by cuBLAS: nothing if a factor is sparse or nested, and so has no strides."""
    first = MATRIX_PRODUCTS.get(op.name)
    factors = () if first is None else tuple(t for t in op.args[first : first + 2] if isinstance(t, TensorMeta))
    return factors if all(t.stride for t in factors) else ()


def matrix_product(op: Op, gpu: Gpu) -> HiddenMemory:
    """cuBlasCommonArgs.h: a factor neither row- nor column-major is copied, as the expanded gradient of a sum is."""
    if any(t.shape and not t.stride for t in op.args if isinstance(t, TensorMeta)):  # sparse
        return HiddenMemory(unknown=CUSPARSE)
    if not uses_cublas(op, gpu):
        return NOTHING
    a, b = _factors(op)
    return HiddenMemory(
        after=tuple(t.nbytes for t in (b, a) if not _is_major(t))
    )  # a row-major result is (b'a')', so b first


def _is_major(t: TensorMeta) -> bool:
    (rows, columns), (down, across) = t.shape, t.stride
    return is_dense(t) or (down == 1 and across >= max(1, rows)) or (across == 1 and down >= max(1, columns))


def batched_product(op: Op, gpu: Gpu) -> HiddenMemory:
    """Blas.cpp `prepare_batch_matrix_for_cublas`: copies a batch of matrices that are neither row- nor column-major."""
    if not uses_cublas(op, gpu):
        return NOTHING
    a, b = _factors(op)
    pair = (a, b) if b.shape[2] == 1 else (b, a)
    return HiddenMemory(after=tuple(t.nbytes for t in pair if not _are_major(t)))


def _are_major(t: TensorMeta) -> bool:
    (_, rows, columns), (_, down, across) = t.shape, t.stride
    by_rows, by_columns = across == 1 and down >= max(1, columns), down == 1 and across >= max(1, rows)
    return by_rows or by_columns or (is_contiguous(t) and down != 0 and across != 0)
