"""Why does a GPU hold more memory than its tensors need? CUDA's caching allocator, replayed block by block.

PyTorch asks CUDA for *segments*, cuts them into *blocks*, and keeps freed blocks for the next tensor. Names in
backquotes are the functions of `DeviceCachingAllocator` (c10/cuda/CUDACachingAllocator.cpp) that do the same.
The model has one stream of one device. It leaves out further streams, CUDA graphs and MemPools,
garbage_collection_threshold, roundup_power2_divisions, and memory that PyTorch does not allocate itself (CUDA's
context, NCCL). It does without torch.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, NamedTuple

from ..errors import CkptError
from ..units import torch_size
from .allocator_rules import CUDA_RULES, AllocatorRules, round_up

__all__ = [
    "CUDA_RULES",
    "AllocatorAction",
    "AllocatorRules",
    "CachingAllocator",
    "MemoryBlock",
    "OutOfMemory",
    "Segment",
]


class AllocatorAction(NamedTuple):
    """One line of the allocator's history. `nbytes` is what the caller asked for, or the size of a segment."""

    kind: str  # alloc, free, segment_alloc, segment_free; of expandable segments segment_map, segment_unmap
    address: int
    nbytes: int
    tag: Any = None


@dataclass(slots=True, eq=False)
class MemoryBlock:
    """A stretch of one segment. `malloc` returns a new one each time; after `free`, it is not handed out again."""

    address: int
    size: int  # what it takes up
    pool: str  # "small" or "large"
    state: str = "free"  # or "allocated", or "unmapped": address space of an expandable segment without memory
    nbytes: int = 0  # what was asked for
    tag: Any = None  # whatever the caller wants to remember with it
    prev: MemoryBlock | None = field(default=None, repr=False)  # neighbours in the segment
    next: MemoryBlock | None = field(default=None, repr=False)

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
    blocks: tuple[MemoryBlock, ...]


def _splice(first: MemoryBlock, last: MemoryBlock, *blocks: MemoryBlock) -> None:
    """Put `blocks` in the place of the neighbours `first` ... `last`."""
    left, right = first.prev, last.next
    for block in (*blocks, right):
        if left is not None:
            left.next = block
        if block is not None:
            block.prev = left
        left = block


Shelf = list[tuple[int, int, MemoryBlock]]  # (size, address, block), sorted


class OutOfMemory(RuntimeError):
    """The request does not fit, even with the cache released. Live blocks are untouched."""


class CachingAllocator:
    """`malloc` and `free` as PyTorch does them on CUDA; `capacity` is the GPU's memory in bytes, None for no limit.

    `rules` are the constants of the allocator, such as the size of a segment; by default they are CUDA's own.

    >>> gpu = CachingAllocator()
    >>> x, y = gpu.malloc(4 * 2**20), gpu.malloc(2**30)  # randn(1024, 1024), randn(256, 1024, 1024)
    >>> gpu.allocated // 2**20, gpu.reserved // 2**20  # x sits alone in 20 MiB
    (1028, 1044)

    Addresses only rise, so of free blocks of equal size the lowest address comes first, and with it the oldest segment.
    PyTorch has the same order, whether it compares only addresses or, since pytorch#183591, the segments' ages first.
    """

    def __init__(self, rules: AllocatorRules = CUDA_RULES, capacity: int | None = None) -> None:
        if capacity is not None and capacity <= 0:
            raise CkptError(f"capacity is {capacity} bytes: pass the GPU's memory, or None for no limit")
        self.rules, self.capacity = rules, capacity
        self.allocated = self.peak_allocated = 0  # bytes in allocated blocks: torch.cuda.memory_allocated()
        self.reserved = self.peak_reserved = 0  # bytes in segments: torch.cuda.memory_reserved()
        self.requested = 0  # bytes that callers asked for
        self.history: list[AllocatorAction] | None = None  # set it to [] to have every action written down
        self._live: dict[int, MemoryBlock] = {}  # address -> what malloc returned (`allocated_blocks`)
        self._free: dict[str, Shelf] = {"small": [], "large": []}
        self._unmapped: dict[str, Shelf] = {"small": [], "large": []}
        self._next_address = rules.large_segment  # not 0, which is the null pointer

    def malloc(self, nbytes: int, tag: Any = None) -> MemoryBlock:
        """The block for `nbytes`. For 0 bytes, its address is 0, PyTorch's null pointer."""
        if not (isinstance(nbytes, (int, Integral)) and 0 <= nbytes < 2**60):
            expected = "a whole number, 0 or more, and less than an exabyte"
            raise CkptError(f"nbytes is {nbytes!r}: expected {expected}")
        if nbytes == 0:
            return MemoryBlock(0, 0, "small", tag=tag)
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

    def free(self, block: MemoryBlock) -> None:
        """Keep the block for the next tensor, merged with its free neighbours. `reserved` does not change."""
        if block.address == 0:
            return  # a null pointer
        if self._live.get(block.address) is not block:
            if not block.allocated:
                raise CkptError(f"double free: {block} has been freed before")
            origin = "it belongs to another allocator, or is a copy from `segments`"
            raise CkptError(f"{block} was not returned by this allocator's malloc: {origin}")
        self._note("free", block.address, block.nbytes, block.tag)
        del self._live[block.address]
        self.allocated -= block.size
        self.requested -= block.nbytes
        self._merge(block, "free")
        block.state = "free"

    def empty_cache(self) -> None:
        """Return free segments to CUDA, or the free pages of expandable segments (`release_cached_blocks`)."""
        for blocks in self._free.values():
            for _, _, block in blocks.copy():
                self._release(block)

    @property
    def fragmentation(self) -> float:
        """Share of `reserved` that is free, but that `empty_cache` cannot return, because a live block is in the way.

        Without expandable segments this is torch.cuda.memory_stats()'s inactive_split_bytes / reserved_bytes.
        """
        stuck = sum(size - len(self._returnable(b)) for blocks in self._free.values() for size, _, b in blocks)
        return stuck / self.reserved if self.reserved else 0.0

    def reset_peak(self) -> None:
        self.peak_allocated, self.peak_reserved = self.allocated, self.reserved

    def forget_freed(self) -> None:
        """Remove from the history each allocation that has been freed, together with its release."""
        last = {action.address: action for action in self.history or () if action.kind == "alloc"}
        kept = {id(action) for address, action in last.items() if address in self._live}
        self.history = [a for a in self.history or () if a.kind.startswith("segment") or id(a) in kept]

    @property
    def segments(self) -> list[Segment]:
        """The memory as it is now, by address (`snapshot`). An expandable segment has one entry per mapped stretch."""
        blocks = [*self._live.values(), *(b for free in self._free.values() for _, _, b in free)]
        segments: list[list[MemoryBlock]] = []
        for block in sorted(blocks, key=lambda block: block.address):
            if block.prev is None or block.prev.state == "unmapped":
                segments.append([])
            segments[-1].append(replace(block, prev=None, next=None))
        return [Segment(s[0].address, s[-1].end - s[0].address, s[0].pool, tuple(s)) for s in segments]

    def map(self, width: int = 64) -> str:
        """One line per segment, always `width` characters wide: | starts a block, # is allocated, . is free."""
        lines = [f"{torch_size(self.allocated)} allocated, {torch_size(self.reserved)} reserved"]
        for segment in self.segments:
            row = ""
            for block in segment.blocks:
                cells = round((block.end - segment.address) / segment.size * width) - len(row)
                row += ("|" + ("#" if block.allocated else ".") * cells)[:cells]
            lines.append(f"{segment.pool:5} {torch_size(segment.size):>12}  {row}")
        return "\n".join(lines)

    __str__ = map

    # -- finding a block ----------------------------------------------------------------------------------------------

    def _get_free_block(self, pool: str, size: int) -> MemoryBlock | None:
        """Best fit: the smallest cached block that is large enough."""
        blocks = self._free[pool]
        i = bisect_left(blocks, (size,))  # (size,) sorts before every (size, address, block)
        if self.rules.expandable_segments:  # a block that could still grow counts as large as it could become
            while i + 1 < len(blocks) and self._reach(blocks[i + 1][2]) < self._reach(blocks[i][2]):
                i += 1
        if i == len(blocks) or not self.rules.may_reuse(blocks[i][0], size):
            return None
        return blocks.pop(i)[2]

    def _alloc_block(self, pool: str, size: int) -> MemoryBlock | None:
        """A new segment from CUDA, if there is room for it."""
        if self.rules.expandable_segments:
            return self._grow(pool, size)
        size = self.rules.segment_size(size)
        if not self._reserve(size):
            return None
        block = MemoryBlock(self._new_addresses(size), size, pool)
        self._note("segment_alloc", block.address, size)
        return block

    def _hand_out(self, found: MemoryBlock, size: int, nbytes: int, tag: Any) -> MemoryBlock:
        """Cut the request off the front of the block found for it (`alloc_found_block`)."""
        splits = self.rules.should_split(found.size, size, found.pool)
        size = size if splits else found.size
        block = MemoryBlock(found.address, size, found.pool, "allocated", nbytes, tag)
        if splits:
            rest = MemoryBlock(block.end, found.size - size, found.pool)
            _splice(found, found, block, rest)
            self._file(rest)
        else:
            _splice(found, found, block)
        self._live[block.address] = block
        self._note("alloc", block.address, nbytes, tag)
        self.requested += nbytes
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return block

    def _explain(self, size: int, nbytes: int) -> str:
        assert self.capacity is not None  # without a limit, nothing runs out
        return (  # PyTorch also names the segment it wanted, so the smallest tensor fails with "2.00 MiB"
            f"CUDA out of memory (simulated). Tried to allocate {torch_size(self.rules.segment_size(size))}"
            f" for a request of {nbytes} bytes. The GPU has a total capacity of {torch_size(self.capacity)}"
            f" of which {torch_size(self.capacity - self.reserved)} is free."
            f" Of the allocated memory {torch_size(self.allocated)} is allocated by PyTorch,"
            f" and {torch_size(self.reserved - self.allocated)} is reserved by PyTorch but unallocated."
        )

    # -- growing an expandable segment --------------------------------------------------------------------------------

    def _page(self, pool: str) -> int:
        return self.rules.small_segment if pool == "small" else self.rules.large_segment

    @staticmethod
    def _reach(block: MemoryBlock) -> int:
        return block.size + (block.next.size if block.next is not None and block.next.state == "unmapped" else 0)

    def _grow(self, pool: str, size: int) -> MemoryBlock | None:
        """Map pages after a free block until it is large enough (`try_allocate_expandable_block`)."""
        block = self._find_room(pool, size)
        while block.state == "unmapped" or block.size < size:
            hole = block if block.state == "unmapped" else block.next
            assert hole is not None  # `_find_room` has made sure that there is room
            missing = size if hole is block else size - block.size
            nbytes = min(round_up(missing, self._page(pool)), hole.size)
            if not self._reserve(nbytes):
                return None
            self._note("segment_map", hole.address, nbytes)
            self._unfile(hole)
            pages = MemoryBlock(hole.address, nbytes, pool)
            rest = MemoryBlock(pages.end, hole.size - nbytes, pool, "unmapped")
            _splice(hole, hole, *((pages, rest) if rest.size else (pages,)))
            if rest.size:
                self._file(rest)
            block = self._merge(pages, "free")
        self._unfile(block)
        return block

    def _find_room(self, pool: str, size: int) -> MemoryBlock:
        """The lowest address that is followed by `size` bytes that are free or unmapped (`find_expandable_block`)."""
        for _, _, hole in sorted(self._unmapped[pool], key=lambda entry: entry[1]):
            start = hole.prev if hole.prev is not None and hole.prev.state == "free" else hole
            room = 0
            block: MemoryBlock | None = start
            while block is not None and block.state != "allocated":
                room, block = room + block.size, block.next
            if room >= size:
                return start
        space = 2**60 if self.capacity is None else self.capacity + self.capacity // 8  # addresses cost nothing
        page = self._page(pool)
        segment = MemoryBlock(self._new_addresses(round_up(space, page), page), round_up(space, page), pool, "unmapped")
        self._file(segment)
        return segment

    # -- giving memory back -------------------------------------------------------------------------------------------

    def _returnable(self, block: MemoryBlock) -> range:
        """The addresses of a free block that CUDA can take back: a whole segment, or whole pages."""
        if self.rules.expandable_segments:
            page = self._page(block.pool)
            return range(round_up(block.address, page), block.end // page * page)
        return range(block.address, block.end if block.prev is block.next is None else block.address)

    def _release(self, block: MemoryBlock) -> None:
        """Give the returnable part of a free block back (`release_block`, `unmap_block`)."""
        span = self._returnable(block)
        if not span:
            return
        self._note("segment_unmap" if self.rules.expandable_segments else "segment_free", span.start, len(span))
        self._unfile(block)
        before = MemoryBlock(block.address, span.start - block.address, block.pool)
        hole = MemoryBlock(span.start, len(span), block.pool)
        after = MemoryBlock(span.stop, block.end - span.stop, block.pool)
        _splice(block, block, *(part for part in (before, hole, after) if part.size))
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

    # -- keeping account of blocks ------------------------------------------------------------------------------------

    def _merge(self, block: MemoryBlock, state: str) -> MemoryBlock:
        """One block of that state for `block` and its neighbours in that state (`try_merge_blocks`)."""
        first = last = block
        if block.prev is not None and block.prev.state == state:
            first = block.prev
            self._unfile(first)
        if block.next is not None and block.next.state == state:
            last = block.next
            self._unfile(last)
        merged = MemoryBlock(first.address, last.end - first.address, block.pool, state)
        _splice(first, last, merged)
        block.prev = block.next = None  # the caller may keep a freed block, but not its neighbours
        self._file(merged)
        return merged

    def _shelf(self, block: MemoryBlock) -> Shelf:
        return (self._free if block.state == "free" else self._unmapped)[block.pool]

    def _file(self, block: MemoryBlock) -> None:
        insort(self._shelf(block), (block.size, block.address, block))

    def _unfile(self, block: MemoryBlock) -> None:
        shelf = self._shelf(block)
        del shelf[bisect_left(shelf, (block.size, block.address))]

    def _note(self, kind: str, address: int, nbytes: int, tag: Any = None) -> None:
        if self.history is not None:
            self.history.append(AllocatorAction(kind, address, nbytes, tag))

    def _reserve(self, nbytes: int) -> bool:
        if self.capacity is not None and self.reserved + nbytes > self.capacity:
            return False
        self.reserved += nbytes
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return True

    def _new_addresses(self, size: int, align: int = 1) -> int:
        address = round_up(self._next_address, align)
        self._next_address = address + size
        return address
