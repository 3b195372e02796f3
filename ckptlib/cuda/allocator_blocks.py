"""What is a GPU's memory cut into, and by which rules? Segments, their blocks, and PyTorch's constants.

The rules, and the names in backquotes, are those of c10/cuda/CUDACachingAllocator.cpp. No torch is needed here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..errors import CkptError

MiB = 2**20


def round_up(n: int, step: int) -> int:
    return -(-n // step) * step


def format_size(nbytes: int) -> str:
    """Bytes as PyTorch's messages print them (`format_size`): 2 decimals, and 1024 KiB rather than 1 MiB."""
    for unit, name in ((2**30, "GiB"), (MiB, "MiB"), (2**10, "KiB")):
        if nbytes > unit:
            return f"{nbytes / unit:.2f} {name}"
    return f"{nbytes} bytes"


@dataclass(frozen=True, slots=True)
class AllocatorRules:
    """PyTorch's constants; the last four can be set in PYTORCH_CUDA_ALLOC_CONF (there in MB, here in bytes)."""

    min_block: int = 512  # kMinBlockSize: every block is a multiple of it
    small_size: int = 1 * MiB  # kSmallSize: the largest request of the small pool
    small_segment: int = 2 * MiB  # kSmallBuffer
    min_large_alloc: int = 10 * MiB  # kMinLargeAlloc: from here on a segment is made to measure
    round_large: int = 2 * MiB  # kRoundLarge
    large_segment: int = 20 * MiB  # kLargeBuffer; large_segment_size_mb
    max_split_size: int | None = None  # max_split_size_mb: blocks of this size and more are never cut
    max_non_split_rounding: int = 20 * MiB  # max_non_split_rounding_mb: ... nor used for requests this much smaller
    expandable_segments: bool = False  # one segment per pool that grows, instead of many of fixed size

    def __post_init__(self) -> None:
        if self.max_split_size is not None and self.max_split_size < self.large_segment:
            raise CkptError(
                f"max_split_size is {self.max_split_size} bytes, but must be at least one large segment, "
                f"{self.large_segment} bytes, as in PyTorch. Was it given in MB?"
            )

    def round_size(self, nbytes: int) -> int:
        return round_up(nbytes, self.min_block)

    def pool(self, size: int) -> str:
        return "small" if size <= self.small_size else "large"  # `get_pool`: 1 MiB itself is small

    def segment_size(self, size: int) -> int:
        """What to ask CUDA for when no cached block fits (`get_allocation_size`)."""
        if size <= self.small_size:
            return self.small_segment
        if size < self.min_large_alloc:
            return self.large_segment
        return round_up(size, self.round_large)

    def may_reuse(self, found: int, size: int) -> bool:
        """May a request of `size` have a cached block of `found` bytes (end of `get_free_block`)?"""
        if self.max_split_size is None:
            return True
        if size < self.max_split_size:
            return found < self.max_split_size  # it would pin a block that must not be cut
        return found < size + self.max_non_split_rounding

    def should_split(self, found: int, size: int, pool: str) -> bool:
        """Cut the rest off? If not, the tensor gets it too, and it counts as allocated."""
        if pool == "small" or self.expandable_segments:
            return found - size >= self.min_block
        return found - size > self.small_size and (self.max_split_size is None or size < self.max_split_size)


CUDA_RULES = AllocatorRules()


@dataclass(slots=True, eq=False)
class Block:
    """A stretch of one segment. What `malloc` returns is one allocation: after `free` it is never handed out again."""

    address: int
    size: int  # what it takes
    pool: str  # "small" or "large"
    state: str = "free"  # or "allocated", or "unmapped": address space of an expandable segment without memory
    nbytes: int = 0  # what was asked for
    tag: Any = None  # the caller's own
    prev: Block | None = field(default=None, repr=False)  # neighbours in the segment
    next: Block | None = field(default=None, repr=False)

    @property
    def allocated(self) -> bool:
        return self.state == "allocated"

    @property
    def end(self) -> int:
        return self.address + self.size


@dataclass(frozen=True, slots=True)
class Segment:
    """One piece of memory from CUDA, with copies of its blocks in address order: it does not change later."""

    address: int
    size: int
    pool: str
    blocks: tuple[Block, ...]


def splice(first: Block, last: Block, *blocks: Block) -> None:
    """Put `blocks` in the place of the neighbours `first` ... `last`."""
    left, right = first.prev, last.next
    for block in (*blocks, right):
        if left is not None:
            left.next = block
        if block is not None:
            block.prev = left
        left = block
