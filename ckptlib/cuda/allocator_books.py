"""Where is every block, and which are free? The books that CUDA's caching allocator keeps."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import replace

from ..errors import CkptError
from .allocator_blocks import Block, Segment, format_size, round_up, splice

Shelf = list[tuple[int, int, Block]]  # (size, address, block), sorted


class Heap:
    """The blocks of all segments. It knows how to file, merge and draw them, and leaves every choice to the allocator.

    Addresses only rise, so of free blocks of equal size the lowest address comes first, and with it the oldest segment:
    PyTorch's order, whether it compares addresses alone or, since pytorch#183591, the segments' ages before them.
    """

    def __init__(self, capacity: int | None, first_address: int) -> None:
        if capacity is not None and capacity <= 0:
            raise CkptError(f"capacity is {capacity} bytes: give the GPU's memory, or None for no limit")
        self.capacity = capacity
        self.allocated = self.peak_allocated = 0  # bytes in allocated blocks: torch.cuda.memory_allocated()
        self.reserved = self.peak_reserved = 0  # bytes in segments: torch.cuda.memory_reserved()
        self.requested = 0  # bytes that callers asked for
        self._live: dict[int, Block] = {}  # address -> what malloc returned (`allocated_blocks`)
        self._free: dict[str, Shelf] = {"small": [], "large": []}
        self._unmapped: dict[str, Shelf] = {"small": [], "large": []}
        self._next_address = first_address

    def reset_peak(self) -> None:
        self.peak_allocated, self.peak_reserved = self.allocated, self.reserved

    @property
    def segments(self) -> list[Segment]:
        """The memory as it is now, by address (`snapshot`): of an expandable segment, each stretch that has memory."""
        blocks = [*self._live.values(), *(b for free in self._free.values() for _, _, b in free)]
        segments: list[list[Block]] = []
        for block in sorted(blocks, key=lambda block: block.address):
            if block.prev is None or block.prev.state == "unmapped":
                segments.append([])
            segments[-1].append(replace(block, prev=None, next=None))
        return [Segment(s[0].address, s[-1].end - s[0].address, s[0].pool, tuple(s)) for s in segments]

    def map(self, width: int = 64) -> str:
        """One line per segment, `width` characters wide whatever its size: | starts a block, # allocated, . free."""
        lines = [f"{format_size(self.allocated)} allocated, {format_size(self.reserved)} reserved"]
        for segment in self.segments:
            row = ""
            for block in segment.blocks:
                cells = round((block.end - segment.address) / segment.size * width) - len(row)
                row += ("|" + ("#" if block.allocated else ".") * cells)[:cells]
            lines.append(f"{segment.pool:5} {format_size(segment.size):>12}  {row}")
        return "\n".join(lines)

    __str__ = map

    def _merge(self, block: Block, state: str) -> Block:
        """One block of that state for `block` and its neighbours in that state (`try_merge_blocks`)."""
        first = last = block
        if block.prev is not None and block.prev.state == state:
            first = block.prev
            self._unfile(first)
        if block.next is not None and block.next.state == state:
            last = block.next
            self._unfile(last)
        merged = Block(first.address, last.end - first.address, block.pool, state)
        splice(first, last, merged)
        block.prev = block.next = None  # the caller may keep a freed block, but not its neighbours
        self._file(merged)
        return merged

    def _shelf(self, block: Block) -> Shelf:
        return (self._free if block.state == "free" else self._unmapped)[block.pool]

    def _file(self, block: Block) -> None:
        insort(self._shelf(block), (block.size, block.address, block))

    def _unfile(self, block: Block) -> None:
        shelf = self._shelf(block)
        del shelf[bisect_left(shelf, (block.size, block.address))]

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
