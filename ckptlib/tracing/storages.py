"""Which pieces of memory does a tensor stand on? Views share one, sparse tensors and wrappers have several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..errors import CkptError
from ..torch_internals import (
    get_unwrapped,
    is_functorch_wrapped_tensor,
    is_traceable_wrapper_subclass,
    sparse_indices,
    sparse_values,
    version_counter,
    without_python_dispatch,
)

_SPARSE_PARTS = {
    torch.sparse_coo: (sparse_indices, sparse_values),
    torch.sparse_csr: (Tensor.crow_indices, Tensor.col_indices, Tensor.values),
    torch.sparse_csc: (Tensor.ccol_indices, Tensor.row_indices, Tensor.values),
    torch.sparse_bsr: (Tensor.crow_indices, Tensor.col_indices, Tensor.values),
    torch.sparse_bsc: (Tensor.ccol_indices, Tensor.row_indices, Tensor.values),
}


def version(x: Tensor) -> int:
    """How often x was written to, as torch counts it. Torch does not count for tensors made in inference mode."""
    return 0 if x.is_inference() else version_counter(x)


def check_unchanged(tensor: Tensor, then: int, what: str = "a tensor") -> None:
    """Autograd's own check, which it leaves to saved-tensor hooks if there are any. `then`: the version when saved."""
    if (now := version(tensor)) != then:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"{what} of shape {tuple(tensor.shape)} was saved at version {then} and is at {now}. Write to it after "
            "backward, or to a copy. Did optimizer.step() come before backward?"
        )


def plain_parts(t: Tensor) -> list[Tensor]:
    """The dense tensors that hold `t`: itself, or a sparse tensor's indices and values, or a wrapper's insides."""
    while is_functorch_wrapped_tensor(t):  # inside torch.func.grad, vmap, ...: what a module is called with there
        t = get_unwrapped(t)
    if is_traceable_wrapper_subclass(t):  # DTensor, quantized weights, ...
        names, _ = t.__tensor_flatten__()
        inside = [getattr(t, name) for name in names]  # DTensor also names its mesh
        return [part for x in inside if isinstance(x, Tensor) for part in plain_parts(x)]
    if t.layout is torch.strided:
        return [t]
    if t.layout in _SPARSE_PARTS:
        with without_python_dispatch():  # looking must not be recorded as an op
            return [part(t.detach()) for part in _SPARSE_PARTS[t.layout]]
    raise CkptError(f"cannot count the bytes of a tensor with layout {t.layout}: its memory is the backend's own")


def storages_of(t: Tensor) -> list[torch.UntypedStorage]:
    """One storage for a dense tensor or any view of it; several for sparse tensors and wrappers."""
    return [part.untyped_storage() for part in plain_parts(t)]


def tensors_in(x: Any, kind: type = Tensor) -> Iterator[Any]:
    """Every tensor in nested tuples, lists and dicts, in order."""
    if isinstance(x, kind):
        yield x
    elif isinstance(x, (tuple, list)):
        for y in x:
            yield from tensors_in(y, kind)
    elif isinstance(x, dict):
        for y in x.values():
            yield from tensors_in(y, kind)
