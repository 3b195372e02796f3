"""Why does a GPU hold more memory than its tensors need? CUDA's caching allocator, replayed block by block.

PyTorch asks CUDA for *segments*, cuts them into *blocks*, and keeps freed blocks for the next tensor. Names in
backquotes are the functions of `DeviceCachingAllocator` (c10/cuda/CUDACachingAllocator.cpp) that do the same.
Modelled: one stream of one device. Left out: further streams, CUDA graphs and MemPools, garbage_collection_threshold,
roundup_power2_divisions, and what PyTorch does not allocate itself (CUDA's context, NCCL).
"""

from __future__ import annotations

from bisect import bisect_left
from numbers import Integral
from typing import Any

from ..errors import CkptError
from .allocator_blocks import CUDA_RULES, AllocatorRules, Block, Segment, format_size, round_up, splice
from .allocator_books import Heap

__all__ = ["CUDA_RULES", "AllocatorRules", "Block", "CachingAllocator", "OutOfMemory", "Segment"]


class OutOfMemory(RuntimeError):
    """The request does not fit, even with the cache released. Live blocks are untouched."""


class CachingAllocator(Heap):
    """`malloc` and `free` as PyTorch does them on CUDA; `capacity` is the GPU's memory in bytes, None for no limit.

    >>> gpu = CachingAllocator()
    >>> x, y = gpu.malloc(4 * 2**20), gpu.malloc(2**30)  # randn(1024, 1024), randn(256, 1024, 1024)
    >>> gpu.allocated // 2**20, gpu.reserved // 2**20  # x sits alone in 20 MiB
    (1028, 1044)
    """

    def __init__(self, rules: AllocatorRules = CUDA_RULES, capacity: int | None = None) -> None:
        super().__init__(capacity, first_address=rules.large_segment)  # not 0, which is the null pointer
        self.rules = rules

    def malloc(self, nbytes: int, tag: Any = None) -> Block:
        """The block for `nbytes`; for none, of size 0 at address 0, PyTorch's null pointer."""
        if not (isinstance(nbytes, (int, Integral)) and 0 <= nbytes < 2**60):
            expected = "a whole number, 0 or more, and less than an exabyte"
            raise CkptError(f"nbytes is {nbytes!r}: expected {expected}")
        if nbytes == 0:
            return Block(0, 0, "small", tag=tag)
        size = self.rules.round_size(nbytes)
        pool = self.rules.pool(size)
        found = self._get_free_block(pool, size) or self._alloc_block(pool, size)
        if found is None and self._release_oversize(pool, size):
            found = self._alloc_block(pool, size)
        if found is None:
            self.empty_cache()  # slow on a real GPU: it waits for all kernels
            found = self._alloc_block(pool, size)
        if found is None:
            raise OutOfMemory(self._explain(size, nbytes))
        return self._hand_out(found, size, nbytes, tag)

    def free(self, block: Block) -> None:
        """Keep the block for the next tensor, merged with its free neighbours. `reserved` does not change."""
        if block.address == 0:
            return  # a null pointer
        if self._live.get(block.address) is not block:
            raise CkptError(
                f"{block} was not returned by this allocator's malloc: another allocator's, or a copy from `segments`"
                if block.allocated
                else f"double free: {block} has been freed before"
            )
        del self._live[block.address]
        self.allocated -= block.size
        self.requested -= block.nbytes
        self._merge(block, "free")
        block.state = "free"

    def empty_cache(self) -> None:
        """Return to CUDA all that is wholly free: segments, or expandable segments' pages (`release_cached_blocks`)."""
        for blocks in self._free.values():
            for _, _, block in blocks.copy():
                self._release(block)

    @property
    def fragmentation(self) -> float:
        """Share of `reserved` that is free, but that `empty_cache` cannot return: a live block is in the way.

        Without expandable segments this is torch.cuda.memory_stats()'s inactive_split_bytes / reserved_bytes.
        """
        stuck = sum(size - len(self._returnable(b)) for blocks in self._free.values() for size, _, b in blocks)
        return stuck / self.reserved if self.reserved else 0.0

    # -- finding a block ----------------------------------------------------------------------------------------------

    def _get_free_block(self, pool: str, size: int) -> Block | None:
        """Best fit: the smallest cached block that is large enough."""
        blocks = self._free[pool]
        i = bisect_left(blocks, (size,))  # (size,) sorts before every (size, address, block)
        if self.rules.expandable_segments:  # a block that could still grow counts as large as it could become
            while i + 1 < len(blocks) and self._reach(blocks[i + 1][2]) < self._reach(blocks[i][2]):
                i += 1
        if i == len(blocks) or not self.rules.may_reuse(blocks[i][0], size):
            return None
        return blocks.pop(i)[2]

    def _alloc_block(self, pool: str, size: int) -> Block | None:
        """A new segment from CUDA, if there is room for it."""
        if self.rules.expandable_segments:
            return self._grow(pool, size)
        size = self.rules.segment_size(size)
        return Block(self._new_addresses(size), size, pool) if self._reserve(size) else None

    def _hand_out(self, found: Block, size: int, nbytes: int, tag: Any) -> Block:
        """Cut the request off the front of the block found for it (`alloc_found_block`)."""
        if self.rules.should_split(found.size, size, found.pool):
            block = Block(found.address, size, found.pool, "allocated", nbytes, tag)
            rest = Block(block.end, found.size - size, found.pool)
            splice(found, found, block, rest)
            self._file(rest)
        else:
            block = Block(found.address, found.size, found.pool, "allocated", nbytes, tag)
            splice(found, found, block)
        self._live[block.address] = block
        self.requested += nbytes
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return block

    def _explain(self, size: int, nbytes: int) -> str:
        assert self.capacity is not None  # without a limit, nothing runs out
        return (  # PyTorch, too, names the segment it wanted, so the smallest tensor fails with "2.00 MiB"
            f"CUDA out of memory (simulated). Tried to allocate {format_size(self.rules.segment_size(size))}"
            f" for a request of {nbytes} bytes. The GPU has a total capacity of {format_size(self.capacity)}"
            f" of which {format_size(self.capacity - self.reserved)} is free."
            f" Of the allocated memory {format_size(self.allocated)} is allocated by PyTorch,"
            f" and {format_size(self.reserved - self.allocated)} is reserved by PyTorch but unallocated."
        )

    # -- growing an expandable segment --------------------------------------------------------------------------------

    def _page(self, pool: str) -> int:
        return self.rules.small_segment if pool == "small" else self.rules.large_segment

    @staticmethod
    def _reach(block: Block) -> int:
        return block.size + (block.next.size if block.next is not None and block.next.state == "unmapped" else 0)

    def _grow(self, pool: str, size: int) -> Block | None:
        """Map pages behind a free block until it is large enough (`try_allocate_expandable_block`)."""
        block = self._find_room(pool, size)
        while block.state == "unmapped" or block.size < size:
            hole = block if block.state == "unmapped" else block.next
            assert hole is not None  # `_find_room` saw that there is room
            missing = size if hole is block else size - block.size
            nbytes = min(round_up(missing, self._page(pool)), hole.size)
            if not self._reserve(nbytes):
                return None
            self._unfile(hole)
            pages = Block(hole.address, nbytes, pool)
            rest = Block(pages.end, hole.size - nbytes, pool, "unmapped")
            splice(hole, hole, *((pages, rest) if rest.size else (pages,)))
            if rest.size:
                self._file(rest)
            block = self._merge(pages, "free")
        self._unfile(block)
        return block

    def _find_room(self, pool: str, size: int) -> Block:
        """The lowest address with `size` bytes free or unmapped behind it (`find_expandable_block`)."""
        for _, _, hole in sorted(self._unmapped[pool], key=lambda entry: entry[1]):
            start = hole.prev if hole.prev is not None and hole.prev.state == "free" else hole
            room = 0
            block: Block | None = start
            while block is not None and block.state != "allocated":
                room, block = room + block.size, block.next
            if room >= size:
                return start
        space = 2**60 if self.capacity is None else self.capacity + self.capacity // 8  # addresses cost nothing
        page = self._page(pool)
        segment = Block(self._new_addresses(round_up(space, page), page), round_up(space, page), pool, "unmapped")
        self._file(segment)
        return segment

    # -- giving memory back -------------------------------------------------------------------------------------------

    def _returnable(self, block: Block) -> range:
        """The addresses of a free block that CUDA can take back: a whole segment, or whole pages."""
        if self.rules.expandable_segments:
            page = self._page(block.pool)
            return range(round_up(block.address, page), block.end // page * page)
        return range(block.address, block.end if block.prev is block.next is None else block.address)

    def _release(self, block: Block) -> None:
        """Give the returnable part of a free block back (`release_block`, `unmap_block`)."""
        span = self._returnable(block)
        if not span:
            return
        self._unfile(block)
        before = Block(block.address, span.start - block.address, block.pool)
        hole = Block(span.start, len(span), block.pool)
        after = Block(span.stop, block.end - span.stop, block.pool)
        splice(block, block, *(part for part in (before, hole, after) if part.size))
        for part in (before, after):
            if part.size:
                self._file(part)
        self.reserved -= hole.size
        hole = self._merge(hole, "unmapped")
        if hole.prev is hole.next is None:
            self._unfile(hole)  # nothing is left of the segment

    def _release_oversize(self, pool: str, size: int) -> bool:
        """With max_split_size: release one large block, or the largest ones (`release_available_cached_blocks`)."""
        limit = self.rules.max_split_size
        if limit is None or self.rules.expandable_segments:
            return False
        blocks, wanted, released = self._free[pool], max(size, limit), 0
        i = bisect_left(blocks, (wanted,))
        if i < len(blocks):
            self._release(blocks[i][2])
            return True
        while released < wanted and blocks and blocks[-1][0] >= limit:
            released += blocks[-1][0]
            self._release(blocks[-1][2])  # never part of a split segment: blocks this large are not cut
        return released >= wanted
