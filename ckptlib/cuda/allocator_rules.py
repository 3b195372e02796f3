"""How large is a block, how large is a segment, and when is a block cut? The allocator's constants and rules.

The rules, and the names in backquotes, are those of c10/cuda/CUDACachingAllocator.cpp. This module does without torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import CkptError
from ..units import MiB


def round_up(n: int, step: int) -> int:
    return -(-n // step) * step


@dataclass(frozen=True, slots=True)
class AllocatorRules:
    """PyTorch's constants. The last four can be set in PYTORCH_CUDA_ALLOC_CONF, there in MB, here in bytes."""

    min_block: int = 512  # kMinBlockSize: every block is a multiple of it
    small_size: int = 1 * MiB  # kSmallSize: the largest request of the small pool
    small_segment: int = 2 * MiB  # kSmallBuffer
    min_large_alloc: int = 10 * MiB  # kMinLargeAlloc: a request of this size or more gets a segment of its own size
    round_large: int = 2 * MiB  # kRoundLarge
    large_segment: int = 20 * MiB  # kLargeBuffer; large_segment_size_mb
    max_split_size: int | None = None  # max_split_size_mb: blocks of this size and more are never cut
    max_non_split_rounding: int = 20 * MiB  # max_non_split_rounding_mb: nor used for requests this much smaller
    expandable_segments: bool = False  # one segment per pool that grows, instead of many of fixed size

    def __post_init__(self) -> None:
        if self.max_split_size is not None and self.max_split_size < self.large_segment:
            raise CkptError(
                f"max_split_size is {self.max_split_size} bytes, but must be at least one large segment, "
                f"{self.large_segment} bytes, as in PyTorch. Was it passed in MB?"
            )

    def round_size(self, nbytes: int) -> int:
        return round_up(nbytes, self.min_block)

    def pool(self, size: int) -> str:
        return "small" if size <= self.small_size else "large"  # `get_pool`: 1 MiB itself is small

    def segment_size(self, size: int) -> int:
        """How much to ask CUDA for when no cached block fits (`get_allocation_size`)."""
        if size <= self.small_size:
            return self.small_segment
        if size < self.min_large_alloc:
            return self.large_segment
        return round_up(size, self.round_large)

    def may_reuse(self, found: int, size: int) -> bool:
        """Whether a request of `size` may have a cached block of `found` bytes (end of `get_free_block`)."""
        if self.max_split_size is None:
            return True
        if size < self.max_split_size:
            return found < self.max_split_size  # it would pin a block that must not be cut
        return found < size + self.max_non_split_rounding

    def should_split(self, found: int, size: int, pool: str) -> bool:
        """Whether the rest is cut off. If not, the tensor gets the rest as well, and it counts as allocated."""
        if pool == "small" or self.expandable_segments:
            return found - size >= self.min_block
        return found - size > self.small_size and (self.max_split_size is None or size < self.max_split_size)


CUDA_RULES = AllocatorRules()
