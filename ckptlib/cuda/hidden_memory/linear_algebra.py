"""How much do the libraries behind torch.linalg and torch.fft allocate? Only cuSOLVER, MAGMA, cuFFT and cuBLAS know.

Paths are inside pytorch/pytorch, aten/src/ATen/native/cuda. PyTorch asks the first three how large their work areas
are, so only they know; the rules declare it, with a bound where the library's manual has one.
"""

from __future__ import annotations

from ...tracing.events import Op
from ..gpus import Gpu
from .allocations import CUBLAS, NOTHING, HiddenMemory

SOLVER = (
    "cuSOLVER or MAGMA factorises in a work area of a size that only the library knows; LU factorisations of a batch "
    "also take arrays of pointers and the cuBLAS workspace of their thread"
)
FFT = "cuFFT transforms in a work area whose size only cuFFT knows: by its manual at most 8 complex numbers an element"
SOLVERS = [
    f"aten.{name}.default"
    for name in """linalg_cholesky_ex cholesky cholesky_inverse _cholesky_solve_helper linalg_lu_factor_ex linalg_lu
    linalg_lu_solve _linalg_slogdet _linalg_det _linalg_solve_ex linalg_inv_ex linalg_qr geqrf ormqr cholesky_solve
    linalg_householder_product _linalg_svd _linalg_eigh _linalg_eigvals linalg_eigvals linalg_eig linalg_ldl_factor_ex
    linalg_ldl_solve linalg_lstsq triangular_solve""".split()
]
SOLVERS.append("aten.linalg_pinv.atol_rtol_tensor")


def unknown_solver(op: Op, gpu: Gpu) -> HiddenMemory:
    return HiddenMemory(unknown=SOLVER)


def matrix_exp(op: Op, gpu: Gpu) -> HiddenMemory:
    """native/LinearAlgebra.cpp `mexp`: sorts the matrices of a batch by their norms."""
    return HiddenMemory((), (CUBLAS,), unknown="the degree of the polynomial depends on the values")


def triangular(op: Op, gpu: Gpu) -> HiddenMemory:
    """linalg/BatchLinearAlgebra.cpp `triangular_solve_kernel`: a loop over few large matrices, else one batched call.

    `get_device_pointers`: a batched call takes the addresses of all matrices. Beyond 512 columns it is MAGMA's.
    """
    a = op.args[0]
    n = a.shape[-1] if a.shape else 0
    batch = op.outputs[0].numel // (op.outputs[0].shape[-1] * op.outputs[0].shape[-2]) if op.outputs[0].numel else 0
    if not batch:
        return NOTHING
    if batch <= 8 and n >= 64:
        return HiddenMemory(after=(CUBLAS,))
    if n > 512:
        return HiddenMemory(unknown=SOLVER)
    return HiddenMemory(after=(8 * batch, 8 * batch, CUBLAS))


def fft(op: Op, gpu: Gpu) -> HiddenMemory:
    """SpectralOps.cpp `_fft_c2r_cufft`: the transform may overwrite its input, which is therefore a copy."""
    x = op.args[0]
    return HiddenMemory((x.nbytes,) if "c2r" in op.name and x.nbytes else (), unknown=FFT)
