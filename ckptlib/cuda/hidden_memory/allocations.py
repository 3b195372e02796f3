"""What can a kernel allocate besides its outputs, and when does it copy an input first? Used by all rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ...tracing.events import TensorMeta

HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Output:
    """Stands where an output is allocated between temporaries, or before an output that the op returns earlier."""

    index: int


@dataclass(frozen=True)
class Free:
    """Stands where a temporary is freed: that of this number, counted in the order in which they were allocated."""

    index: int


CUBLAS = "cuBLAS"  # stands where a product inside the op asks for its thread's cuBLAS handle
# Bytes of a temporary; minus the bytes of the newest temporary of that size, which is freed; or one of the above.
MemoryStep = int | Output | Free | str


class HiddenMemory(NamedTuple):
    """What a CUDA kernel allocates and no tensor shows. All sizes are in bytes, in the order of allocation."""

    before: tuple[MemoryStep, ...] = ()  # before its outputs, or before the rest of them
    after: tuple[MemoryStep, ...] = ()  # after its outputs; what no step has freed is freed when the op returns
    unknown: str = ""  # what cannot be predicted, and why


NOTHING = HiddenMemory()


def passing(*sizes: int) -> tuple[int, ...]:
    """Temporaries that are freed before the next step."""
    return (*sizes, *(-nbytes for nbytes in reversed(sizes)))


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def last_pow2(n: int) -> int:
    """The largest power of 2 that is at most n; 1 for 0."""
    return 1 << (max(1, n).bit_length() - 1)


def accumulated(dtype: torch.dtype) -> int:
    """Bytes of the type CUDA adds `dtype` up in: float for half and bfloat16."""
    return 4 if dtype in HALVES else dtype.itemsize


def is_contiguous(t: TensorMeta) -> bool:
    expected = 1
    for size, stride in zip(reversed(t.shape), reversed(t.stride), strict=True):
        if size != 1 and t.numel and stride != expected:
            return False
        expected *= size
    return True


def is_dense(t: TensorMeta) -> bool:
    """Non-overlapping and dense: contiguous after some permutation of its dimensions."""
    expected = 1
    for stride, size in sorted((st, sz) for sz, st in zip(t.shape, t.stride, strict=True) if sz > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def is_permuted(t: TensorMeta) -> bool:
    """Whether an elementwise result takes its order of dimensions from `t`, and it is not the contiguous one."""
    strides = [st for sz, st in zip(t.shape, t.stride, strict=True) if sz > 1 and st]  # 0 decides nothing
    return strides != sorted(strides, reverse=True)


def copies(*tensors: Any) -> tuple[int, ...]:
    """What `.contiguous()` allocates, one copy for each tensor that needs it; None stands for a missing tensor."""
    return tuple(t.nbytes for t in tensors if isinstance(t, TensorMeta) and t.numel and not is_contiguous(t))


def is_channels_last(t: TensorMeta | torch.Tensor) -> bool:
    """Whether an image or a volume has the channels of each pixel next to each other (`suggest_memory_format`)."""
    stride = t.stride if isinstance(t, TensorMeta) else t.stride()
    return len(t.shape) in (4, 5) and stride[1] == 1 and stride[-1] == t.shape[1] > 1


def copies_in_format(channels_last: bool, *tensors: TensorMeta) -> tuple[int, ...]:
    """What `.contiguous(memory_format)` allocates, one copy for each tensor that needs it."""
    return copies(*(_channels_at_end(t) if channels_last else t for t in tensors))


def _channels_at_end(t: TensorMeta) -> TensorMeta:
    order = [0, *range(2, len(t.shape)), 1]
    return t._replace(shape=tuple(t.shape[d] for d in order), stride=tuple(t.stride[d] for d in order))
