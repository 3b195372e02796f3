"""How does a run on fake tensors differ from a real one? Those that a trace can correct, and those that it must report.

Torch's fake kernels give every result the shape of the real one, but not always its storage: the real kernel may have
used that for something larger first. Memory is counted in storages.
"""

from __future__ import annotations

import warnings
import weakref
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]  # torch's stubs do not list it

from ..errors import CkptError
from ..torch_internals import FakeTensor, FakeTensorMode, is_traceable_wrapper_subclass, schema, storage_address
from .storages import tensors_in

aten = torch.ops.aten

# Op -> how many of its arguments, broadcast, have the size that its result had first. Resized, it keeps that storage:
# the mean of a loss stands on as many bytes as the prediction. CUDA's build does the same. Its mse_loss, smooth_l1_loss
# and soft_margin_loss are the CPU's (native/Loss.cpp: `build_borrowing_binary_op`, `neg_out`, then `resize_({})`), and
# the kernels that it has for itself also begin with `empty_like(input)` (cuda/Loss.cu, cuda/Im2Col.cu, cuda/Col2Im.cu).
_LARGER_FIRST = {
    aten.mse_loss.default: 2,
    aten.smooth_l1_loss.default: 2,
    aten.soft_margin_loss.default: 2,
    aten.binary_cross_entropy.default: 2,
    aten.im2col.default: 1,  # nn.Unfold's forward and backward
    aten.col2im.default: 1,
}

_UNKNOWN = {
    aten.mkldnn_rnn_layer.default: "oneDNN, which runs an LSTM on the CPU, keeps a workspace for backward whose size "
    "it does not report: a fake run counts none, a real one counts it",
}


MOST_VALUES = 2**20  # elements; larger tensors are not worth their memory in a fake run


class UnknownWhenFake(UserWarning):
    """A real run would hold memory whose size only the kernel knows."""


def keep_storage(func: Any, args: tuple, out: Any) -> None:
    """Give the fake result of `func` the storage that the real one has."""
    count = _LARGER_FIRST.get(func)
    if count is not None:
        numel = torch.Size(torch.broadcast_shapes(*(t.shape for t in args[:count]))).numel()
        storage = out.untyped_storage()
        storage.resize_(max(storage.nbytes(), numel * out.dtype.itemsize))


def warn_if_unknown(func: Any, listed: dict[str, str]) -> None:
    """Say once, and add to `listed`, what a fake run of `func` cannot know."""
    why = _UNKNOWN.get(func) if torch.is_grad_enabled() else None  # it is kept for backward
    if why and str(func) not in listed:
        listed[str(func)] = why
        warnings.warn(f"{func}: {why}", UnknownWhenFake, stacklevel=3)


def keeps_values(func: Any, args: tuple, kwargs: dict) -> bool:
    """Whether all that `func` is given are whole numbers and booleans with values: then its result may have them too.

    Programs branch on such tensors, for example whether a mask is all ones, or how long a sequence is.
    """
    device = kwargs.get("device")
    if device is not None and torch.device(device).type != "cpu":
        return False
    return all(
        is_plain_real(t) and t.device.type == "cpu" and _is_whole(t.dtype) and t.numel() <= MOST_VALUES
        for t in tensors_in((args, kwargs))
    )


def is_worth_values(out: Any) -> bool:
    """Whether a fake result consists of few whole numbers or booleans, or is a number or a size itself."""
    return all(_is_whole(t.dtype) and t.numel() <= MOST_VALUES for t in tensors_in(out))


def _is_whole(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex


def refuse_trainable_reals(func: Any, args: tuple) -> None:
    for t in tensors_in(args):
        if t.requires_grad and t.is_leaf and not isinstance(t, FakeTensor):
            raise CkptError(
                f"{func} got a real tensor of shape {tuple(t.shape)} that requires a gradient, inside a fake run. "
                "Its gradient would be fake, and stay. Build the model and its inputs inside what is traced: in "
                "your function, not above it"
            )


class Reals:
    """The real tensors of a fake run. Their views have a fake storage, so this makes both storages one record."""

    def __init__(self, mode: FakeTensorMode, index: dict[int, int]):
        self._mode, self._index = mode, index  # the trace's own: address of a live storage -> its number
        self._refs: dict[int, weakref.ref] = {}  # address of a fake storage that stands for a real one

    def join(self, t: Tensor) -> None:
        """After an op upon `t`, a real tensor that the trace knows: what the op returned may be a view of it."""
        real, fake = t.untyped_storage(), self._mode.from_tensor(t).untyped_storage()  # the one that views have
        address = storage_address(fake)
        if address in self._index:
            return
        if fake.nbytes() != real.nbytes():  # torch loses the bytes beyond the tensor's own elements
            fake.resize_(real.nbytes())
        self._index[address] = self._index[storage_address(real)]
        # A view keeps its storage alive, and so the fake one keeps the real one: in its own callback.
        self._refs[address] = weakref.ref(fake, partial(self._forget, address, real))

    def close(self) -> None:
        self._refs.clear()

    def _forget(self, address: int, real: torch.UntypedStorage, _: weakref.ref) -> None:
        if self._refs.pop(address, None) is not None:  # not after close()
            del self._index[address]


def returned(func: Any, args: tuple, out: Any) -> Any:
    """The result of `func`. In place, that is its first argument, even if torch returns another fake for a scalar."""
    taken = schema(func)
    first = taken.arguments[0].alias_info if taken.is_mutable else None
    return args[0] if first and first.is_write and args and isinstance(out, FakeTensor) else out


def is_plain_real(t: Tensor) -> bool:
    """Whether `t` has real memory in one piece, so it is not fake, lazy, sparse, nested or a wrapper."""
    if isinstance(t, FakeTensor | UninitializedTensorMixin) or is_traceable_wrapper_subclass(t):
        return False
    return t.layout is torch.strided and not t.is_nested
