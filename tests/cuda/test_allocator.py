"""The replay against published measurements, and against models written as naively as possible."""

from __future__ import annotations

import inspect
import re
from dataclasses import FrozenInstanceError
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptlib.cuda import allocator, allocator_rules
from ckptlib.cuda.allocator import AllocatorRules, CachingAllocator, MemoryBlock, OutOfMemory
from ckptlib.errors import CkptError

KiB, MiB, GiB = 2**10, 2**20, 2**30
EXPANDABLE = AllocatorRules(expandable_segments=True)


# -- published measurements (FACTS.md section 2) -----------------------------------------------------------------------


def test_published_randn():
    """randn(1024,1024), then randn(256,1024,1024,1): reserved 1044 MiB, allocated 1028 MiB."""
    gpu = CachingAllocator()
    gpu.malloc(1024 * 1024 * 4)
    gpu.malloc(256 * 1024 * 1024 * 4)
    assert (gpu.reserved, gpu.allocated) == (1044 * MiB, 1028 * MiB)


def test_published_linear_with_adam():
    """Linear(256,250), Adam, x (1,256), no cuBLAS workspace: memory_allocated after each line of two steps."""
    gpu, seen = CachingAllocator(), []
    weight, bias, row = 256 * 250 * 4, 250 * 4, 256 * 4

    def malloc(*sizes):
        return [gpu.malloc(size) for size in sizes]

    def free(held):
        for block in held:
            gpu.free(block)

    def now():
        seen.append(gpu.allocated)

    malloc(weight, bias), now()
    malloc(row), now()
    y = malloc(250 * 4)
    now()
    loss = malloc(4)
    grads = malloc(weight, bias)
    free(loss), now()
    malloc(weight, weight, bias, bias), now()  # exp_avg and exp_avg_sq; the step counters live on the CPU
    free(grads), free(y), now()  # zero_grad; the published program no longer holds y here
    malloc(250 * 4), now()
    malloc(weight, bias), now()
    now()  # the second step allocates nothing that stays
    assert seen == [257_024, 258_048, 259_072, 516_096, 1_030_144, 772_096, 773_120, 1_030_144, 1_030_144]


def test_published_cublas_workspace_stays():
    """Linear(1,1) run once, everything released (pytorch#95668, A10G): memory_allocated 8,519,680."""
    gpu = CachingAllocator()
    tensors = [gpu.malloc(4) for _ in range(4)]  # weight, bias, x, y
    lt = gpu.malloc(1 * MiB)
    gpu.malloc(8_519_680)
    for block in (lt, *tensors):
        gpu.free(block)
    assert gpu.allocated == 8_519_680


def test_published_two_linears():
    """Linear(1024,1024) and Linear(1024,1), no bias, x (1024,1024): KiB after each; after y the workspace is in it."""
    gpu, seen = CachingAllocator(), []
    for sizes in ([4 * MiB], [4 * KiB], [4 * MiB], [4 * MiB, 8_519_680], [4 * KiB], [4], [8_519_680, 4 * MiB, 4 * KiB]):
        for size in sizes:
            gpu.malloc(size)
        seen.append(gpu.allocated / KiB)
    assert seen == [4096, 4100, 8196, 20_612, 20_616, 20_616.5, 33_036.5]


def test_published_message_names_the_segment():
    """rand(10000), 40 kB each, until memory is full (pytorch#67971): "Tried to allocate 2.00 MiB", not 39.06 KiB."""
    gpu = CachingAllocator(capacity=6 * MiB)
    with pytest.raises(
        OutOfMemory, match=r"Tried to allocate 2\.00 MiB .*total capacity of 6\.00 MiB of which 0 bytes"
    ):
        for _ in range(1000):
            gpu.malloc(10_000 * 4)
    assert gpu.allocated == 3 * (2 * MiB // 40_448) * 40_448


# -- the rules, one by one ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nbytes", "size", "pool", "reserved"),
    [
        (1, 512, "small", 2 * MiB),
        (512, 512, "small", 2 * MiB),
        (513, 1024, "small", 2 * MiB),
        (1 * MiB, 1 * MiB, "small", 2 * MiB),  # the last small request
        (1 * MiB + 1, 1 * MiB + 512, "large", 20 * MiB),
        (10 * MiB - 512, 10 * MiB - 512, "large", 20 * MiB),
        (10 * MiB - 511, 10 * MiB, "large", 10 * MiB),  # made to measure, once rounded to 10 MiB
        (10 * MiB + 1, 10 * MiB + 512, "large", 12 * MiB),
        (11 * MiB - 512, 11 * MiB - 512, "large", 12 * MiB),  # 1 MiB + 512 B over: split off
        (11 * MiB, 12 * MiB, "large", 12 * MiB),  # 1 MiB over is not more than 1 MiB: it stays, and is counted
    ],
)
def test_one_request(nbytes, size, pool, reserved):
    gpu = CachingAllocator()
    block = gpu.malloc(nbytes, tag="t")
    assert (block.size, block.pool, block.nbytes, block.tag, block.allocated) == (size, pool, nbytes, "t", True)
    assert (gpu.allocated, gpu.requested, gpu.reserved) == (size, nbytes, reserved)


def test_small_rest_of_512_is_split_off():
    gpu = CachingAllocator()
    gpu.malloc(1 * MiB)
    block = gpu.malloc(1 * MiB - 512)
    assert block.size == 1 * MiB - 512
    assert gpu.malloc(512).address == block.end
    assert gpu.reserved == 2 * MiB


def test_no_bytes_no_block():
    gpu = CachingAllocator()
    block = gpu.malloc(0, tag="empty")
    assert (block.address, block.size, block.nbytes, block.tag, block.allocated) == (0, 0, 0, "empty", False)
    gpu.free(block)
    gpu.free(block)  # like free(nullptr): never an error
    assert (gpu.allocated, gpu.reserved, gpu.segments, gpu.fragmentation) == (0, 0, [], 0.0)


def test_smallest_fit_then_lowest_address():
    gpu = CachingAllocator()
    held = [gpu.malloc(size) for size in (4096, 512, 2048, 512, 1024, 512, 1024, 512, 2 * MiB - 10_240)]
    for i in (0, 2, 4, 6):
        gpu.free(held[i])
    assert gpu.malloc(1).address == held[4].address  # 1024 is the smallest that fits, at two addresses
    assert gpu.malloc(1024).address == held[6].address
    assert gpu.malloc(1025).address == held[2].address


def test_expandable_segments_take_the_lowest_address_too():
    gpu = CachingAllocator(EXPANDABLE)
    held = [gpu.malloc(3 * MiB) for _ in range(5)]
    gpu.free(held[3])
    gpu.free(held[1])
    assert gpu.malloc(3 * MiB).address == held[1].address


def test_max_split_size_keeps_large_blocks_for_large_requests():
    gpu = CachingAllocator(AllocatorRules(max_split_size=100 * MiB))
    large = gpu.malloc(200 * MiB)
    gpu.free(large)
    small = gpu.malloc(50 * MiB)
    assert gpu.reserved == 250 * MiB  # by default the 50 MiB would have been cut from the 200
    near = gpu.malloc(190 * MiB)
    assert (near.address, near.size) == (large.address, 200 * MiB)  # within 20 MiB, whole
    gpu.free(near)
    gpu.malloc(180 * MiB)
    assert gpu.reserved == 430 * MiB  # 200 >= 180 + 20: too large to waste
    assert small.size == 50 * MiB


def test_max_split_size_releases_only_what_is_needed():
    gpu = CachingAllocator(AllocatorRules(max_split_size=40 * MiB), capacity=240 * MiB)
    for block in [gpu.malloc(size * MiB) for size in (60, 50, 80, 12)]:
        gpu.free(block)
    gpu.malloc(110 * MiB)  # no block is as large: 80 and then 60 go back, 50 and 12 stay
    assert sorted(segment.size // MiB for segment in gpu.segments) == [12, 50, 110]


def test_max_split_size_below_a_segment_is_refused():
    with pytest.raises(CkptError, match="Was it passed in MB"):
        AllocatorRules(max_split_size=128)
    with pytest.raises(FrozenInstanceError):
        AllocatorRules().min_block = 1


def test_expandable_segments_grow_and_leave_no_gap():
    """Note [Expandable Segments]: the batch grows from 8 rows to 9, and the memory of the 8 is of use again."""
    fixed, expandable = CachingAllocator(), CachingAllocator(EXPANDABLE)
    for gpu in (fixed, expandable):
        for rows in (8, 9):
            for block in [gpu.malloc(rows * 3 * MiB), gpu.malloc(rows * 3 * MiB)]:
                gpu.free(block)
    assert fixed.reserved == (24 + 24 + 28 + 28) * MiB
    assert expandable.reserved == 3 * 20 * MiB


def test_expandable_pages_come_back_one_by_one():
    gpu = CachingAllocator(EXPANDABLE)
    a, b, c = gpu.malloc(30 * MiB), gpu.malloc(30 * MiB), gpu.malloc(30 * MiB)
    assert (gpu.reserved, gpu.allocated) == (100 * MiB, 90 * MiB)
    gpu.free(b)  # 30 to 60 MiB: one whole page, from 40 to 60
    assert gpu.fragmentation == (10 + 10) / 100  # the page stands alone; 10 MiB before it and 10 behind c do not
    gpu.empty_cache()
    assert gpu.reserved == 80 * MiB
    assert [(s.address - a.address, s.size) for s in gpu.segments] == [(0, 40 * MiB), (60 * MiB, 40 * MiB)]
    assert gpu.malloc(30 * MiB).address == b.address  # the gap is filled before the end grows
    assert gpu.reserved == 100 * MiB
    assert c.size == 30 * MiB


def test_expandable_segment_out_of_addresses():
    """A segment has addresses for 9/8 of the GPU, in whole pages. What fits in none of its gaps opens a second one."""
    gpu = CachingAllocator(EXPANDABLE, capacity=100 * MiB)
    a = gpu.malloc(40 * MiB)
    gpu.malloc(20 * MiB)
    gpu.free(a)
    c = gpu.malloc(80 * MiB)  # 40 MiB before the live block, 60 behind it
    assert c.address == a.address + 120 * MiB
    assert (gpu.reserved, gpu.allocated) == (100 * MiB, 100 * MiB)


def test_expandable_splits_what_fixed_segments_waste():
    assert CachingAllocator().malloc(11 * MiB).size == 12 * MiB
    assert CachingAllocator(EXPANDABLE).malloc(11 * MiB).size == 11 * MiB


# -- naive models: no code shared with the library, only lists and loops -----------------------------------------------


class NaiveFixed:
    """Segments are lists of [size, owner]; owner None is free. Everything is found by looking at everything."""

    def __init__(self):
        self.segments = []  # [pool, cells]
        self.count = 0

    def malloc(self, nbytes):
        size = max(512, (nbytes + 511) // 512 * 512)
        pool = "small" if size <= MiB else "large"
        best = None
        for s, (kind, cells) in enumerate(self.segments):
            for c, (room, owner) in enumerate(cells):
                if kind == pool and owner is None and room >= size and (best is None or room < best[2]):
                    best = (s, c, room)
        if best is None:
            if pool == "small":
                room = 2 * MiB
            elif size < 10 * MiB:
                room = 20 * MiB
            else:
                room = (size + 2 * MiB - 1) // (2 * MiB) * (2 * MiB)
            self.segments.append((pool, [[room, None]]))
            best = (len(self.segments) - 1, 0, room)
        s, c, room = best
        if (room - size >= 512) if pool == "small" else (room - size > MiB):
            self.segments[s][1][c : c + 1] = [[size, self.count], [room - size, None]]
        else:
            self.segments[s][1][c] = [room, self.count]
        self.count += 1
        return self.count - 1

    def free(self, owner):
        for _, cells in self.segments:
            for cell in cells:
                if cell[1] == owner:
                    cell[1] = None
            merged = []
            for size, who in cells:
                if merged and who is None and merged[-1][1] is None:
                    merged[-1][0] += size
                else:
                    merged.append([size, who])
            cells[:] = merged

    def empty_cache(self):
        self.segments = [(pool, cells) for pool, cells in self.segments if any(who is not None for _, who in cells)]

    def picture(self):
        return [(pool, [tuple(cell) for cell in cells]) for pool, cells in self.segments]


class NaiveExpandable:
    """Per pool: who owns which interval, and which pages have memory. Free space is whatever is left of the pages."""

    def __init__(self):
        self.page = {"small": 2 * MiB, "large": 20 * MiB}
        self.owned = {"small": {}, "large": {}}  # owner -> (start, end)
        self.pages = {"small": set(), "large": set()}
        self.count = 0

    def cells(self, pool):
        """(start, end, owner) over all mapped pages, and (start, end, "hole") between and behind them."""
        page, cells, at = self.page[pool], [], 0
        end = (max(self.pages[pool], default=-1) + 1) * page
        edges = sorted({p * page for p in range(end // page + 1)} | {e for iv in self.owned[pool].values() for e in iv})
        for left, right in pairwise(edges):
            who = next((o for o, (s, e) in self.owned[pool].items() if s <= left < e), None)
            if who is None and left // page not in self.pages[pool]:
                who = "hole"
            if cells and cells[-1][2] == who:
                cells[-1] = (cells[-1][0], right, who)
            else:
                cells.append((left, right, who))
            at = right
        if cells and cells[-1][2] == "hole":
            at = cells.pop()[0]
        return [*cells, (at, float("inf"), "hole")]

    def malloc(self, nbytes):
        size = max(512, (nbytes + 511) // 512 * 512)
        pool = "small" if size <= MiB else "large"
        cells = self.cells(pool)
        fits = []
        for (start, end, who), after in zip(cells, [*cells[1:], None], strict=True):
            if who is None and end - start >= size:
                reach = after[1] - start if after and after[2] == "hole" else end - start
                fits.append((end - start, start, reach))
        fits.sort()
        while len(fits) > 1 and fits[1][2] < fits[0][2]:
            fits.pop(0)
        at = fits[0][1] if fits else self.room(cells, size)
        self.owned[pool][self.count] = (at, at + size)
        page = self.page[pool]
        self.pages[pool] |= set(range(at // page, (at + size - 1) // page + 1))
        self.count += 1
        return self.count - 1

    def room(self, cells, size):
        for i, (start, _, who) in enumerate(cells):
            if who == "hole":
                if i and cells[i - 1][2] is None:
                    start, i = cells[i - 1][0], i - 1
                stop = next((s for s, _, w in cells[i:] if w not in (None, "hole")), float("inf"))
                if stop - start >= size:
                    return start
        raise AssertionError("the last hole has no end")

    def free(self, owner):
        for owned in self.owned.values():
            owned.pop(owner, None)

    def empty_cache(self):
        for pool, page in self.page.items():
            spans = self.owned[pool].values()
            self.pages[pool] = {p for s, e in spans for p in range(s // page, (e - 1) // page + 1)}

    def picture(self):
        """The mapped stretches, pool by pool."""
        stretches = []
        for pool in ("small", "large"):
            new = True
            for start, end, who in self.cells(pool):
                if who == "hole":
                    new = True
                    continue
                if new:
                    stretches.append((pool, []))
                    new = False
                stretches[-1][1].append((end - start, who))
        return stretches


SIZES = st.one_of(
    st.integers(1, 4 * KiB),
    st.integers(1, 2 * MiB),
    st.integers(1 * MiB, 12 * MiB),
    st.integers(1, 60).map(lambda n: n * MiB),
    st.sampled_from([512, 2 * KiB, 700 * KiB, 3 * MiB, 7 * MiB, 20 * MiB]),  # equal sizes: ties
    st.builds(
        lambda edge, off: max(1, edge + off),
        st.sampled_from([512, 1 * MiB, 2 * MiB, 9 * MiB, 10 * MiB, 12 * MiB, 20 * MiB, 40 * MiB]),
        st.sampled_from([-MiB, -MiB - 512, -513, -512, -511, -1, 0, 1, 511, 512, 513, MiB, MiB + 512]),
    ),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("malloc"), SIZES),
        st.tuples(st.just("malloc"), SIZES),
        st.tuples(st.just("free"), st.integers(0, 10**6)),
        st.tuples(st.just("empty_cache"), st.just(0)),
    ),
    max_size=60,
)


def check_books(gpu, live):
    """What must hold at any moment, computed from the blocks themselves."""
    assert gpu.allocated == sum(block.size for block in live)
    assert gpu.requested == sum(block.nbytes for block in live)
    assert gpu.reserved == sum(segment.size for segment in gpu.segments)
    assert gpu.requested <= gpu.allocated <= gpu.reserved
    assert gpu.peak_allocated >= gpu.allocated and gpu.peak_reserved >= gpu.reserved
    if not gpu.rules.expandable_segments and gpu.reserved:
        split = [segment for segment in gpu.segments if any(block.allocated for block in segment.blocks)]
        stuck = sum(block.size for segment in split for block in segment.blocks if not block.allocated)
        assert gpu.fragmentation == stuck / gpu.reserved
    ends = 0
    for segment in gpu.segments:
        assert segment.address >= ends and segment.size > 0
        at = segment.address
        for block in segment.blocks:
            assert block.address == at and block.size > 0 and block.pool == segment.pool
            at = block.end
        assert at == segment.address + segment.size
        ends = at
        states = [block.allocated for block in segment.blocks]
        assert all(a or b for a, b in pairwise(states)), "two free neighbours"
    seen = [(b.address, b.size, b.nbytes, b.tag) for s in gpu.segments for b in s.blocks if b.allocated]
    assert seen == sorted((b.address, b.size, b.nbytes, b.tag) for b in live)


def picture(gpu):
    return [(s.pool, [(b.size, b.tag if b.allocated else None) for b in s.blocks]) for s in gpu.segments]


def play(gpu, steps, model=None):
    """The steps on the replay and on the model; after each, both must show the same picture."""
    live, peaks = {}, (0, 0)
    for what, n in steps:
        before = [(s.address, s.size, any(b.allocated for b in s.blocks)) for s in gpu.segments]
        if what == "malloc":
            tag = model.malloc(n) if model else len(live)
            live[tag] = gpu.malloc(n, tag)
            assert live[tag].nbytes == n <= live[tag].size
        elif what == "free" and live:
            tag = sorted(live)[n % len(live)]
            gpu.free(live.pop(tag))
            if model:
                model.free(tag)
        elif what == "empty_cache":
            gpu.empty_cache()
            if model:
                model.empty_cache()
            if not gpu.rules.expandable_segments:  # exactly the segments without a live block are gone
                assert [(s.address, s.size) for s in gpu.segments] == [(a, n) for a, n, used in before if used]
        check_books(gpu, live.values())
        assert gpu.peak_allocated >= peaks[0] and gpu.peak_reserved >= peaks[1]
        peaks = gpu.peak_allocated, gpu.peak_reserved
        if model and gpu.rules.expandable_segments:
            assert sorted(picture(gpu), key=lambda s: s[0] == "large") == model.picture()
        elif model:
            assert picture(gpu) == model.picture()
    return live


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_fixed_segments_equal_the_naive_model(steps):
    play(CachingAllocator(), steps, NaiveFixed())


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_expandable_segments_equal_the_naive_model(steps):
    play(CachingAllocator(EXPANDABLE), steps, NaiveExpandable())


@settings(max_examples=150, deadline=None)
@given(STEPS, st.randoms(use_true_random=False), st.booleans())
def test_freed_in_any_order_everything_is_free_again(steps, random, expandable):
    gpu = CachingAllocator(AllocatorRules(expandable_segments=expandable))
    live = list(play(gpu, steps, NaiveExpandable() if expandable else NaiveFixed()).values())
    random.shuffle(live)
    for block in live:
        gpu.free(block)
    assert gpu.allocated == gpu.requested == 0 and gpu.fragmentation == 0.0
    assert all(len(segment.blocks) == 1 and not segment.blocks[0].allocated for segment in gpu.segments)
    reserved = gpu.reserved
    gpu.reset_peak()
    assert (gpu.peak_allocated, gpu.peak_reserved) == (0, reserved)
    gpu.empty_cache()
    assert (gpu.reserved, gpu.segments, gpu.peak_reserved) == (0, [], reserved)
    assert not any(gpu._unmapped.values())  # nor is an address kept


@settings(max_examples=200, deadline=None)
@given(STEPS, st.sampled_from([2, 20, 24, 60, 100]), st.booleans(), st.sampled_from([None, 20 * MiB, 32 * MiB]))
def test_out_of_memory_leaves_the_live_blocks_alone(steps, capacity, expandable, max_split_size):
    rules = AllocatorRules(expandable_segments=expandable, max_split_size=max_split_size)
    gpu = CachingAllocator(rules, capacity=capacity * MiB)
    live = {}
    for i, (what, n) in enumerate(steps):
        if what == "malloc":
            try:
                live[i] = gpu.malloc(n, i)
            except OutOfMemory:  # then the cache was released, and nothing else has changed
                assert rules.segment_size(rules.round_size(n)) + gpu.reserved > gpu.capacity or expandable
                reserved = gpu.reserved
                if not expandable:
                    assert all(any(b.allocated for b in s.blocks) for s in gpu.segments)
                    gpu.empty_cache()
                    assert gpu.reserved == reserved
        elif what == "free" and live:
            gpu.free(live.pop(sorted(live)[n % len(live)]))
        assert gpu.reserved <= gpu.peak_reserved <= capacity * MiB
        check_books(gpu, live.values())
    for block in live.values():
        gpu.free(block)
    gpu.malloc(gpu.capacity // (20 * MiB) * 20 * MiB or 1)  # and all of it can be had again


def test_out_of_memory_releases_the_cache_first():
    gpu = CachingAllocator(capacity=100 * MiB)
    kept = gpu.malloc(40 * MiB)
    gpu.free(gpu.malloc(50 * MiB))
    gpu.malloc(60 * MiB)  # fits once the 50 MiB have gone back to CUDA
    assert (gpu.allocated, gpu.reserved) == (100 * MiB, 100 * MiB)
    with pytest.raises(OutOfMemory) as error:
        gpu.malloc(3 * MiB)
    assert str(error.value) == (
        "CUDA out of memory (simulated). Tried to allocate 20.00 MiB for a request of 3145728 bytes. "
        "The GPU has a total capacity of 100.00 MiB of which 0 bytes is free. Of the allocated memory "
        "100.00 MiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."
    )
    assert (gpu.allocated, gpu.reserved, kept.allocated) == (100 * MiB, 100 * MiB, True)


def test_fragmentation_is_what_cannot_be_returned():
    gpu = CachingAllocator()
    a, b = gpu.malloc(4 * MiB), gpu.malloc(4 * MiB)
    c = gpu.malloc(30 * MiB)
    assert gpu.fragmentation == 12 / 50
    gpu.free(a)
    gpu.free(c)  # free as a whole: no obstacle
    assert gpu.fragmentation == 16 / 50
    gpu.free(b)
    assert gpu.fragmentation == 0.0


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_double_free_is_found_even_when_the_address_is_in_use_again():
    gpu = CachingAllocator()
    old = gpu.malloc(600)
    gpu.free(old)
    new = gpu.malloc(600)
    assert new.address == old.address and new is not old
    with pytest.raises(CkptError, match="double free"):
        gpu.free(old)
    assert gpu.allocated == 1024 and (old.size, old.nbytes) == (1024, 600)
    assert old.prev is None and old.next is None  # a kept handle keeps nothing else alive
    gpu.free(new)


def test_foreign_blocks_are_refused():
    gpu, other = CachingAllocator(), CachingAllocator()
    mine, theirs = gpu.malloc(1), other.malloc(1)
    copy = gpu.segments[0].blocks[0]
    for block in (theirs, copy, MemoryBlock(mine.address + 512, 512, "small", "allocated")):
        with pytest.raises(CkptError, match="not returned by this allocator"):
            gpu.free(block)
    assert gpu.allocated == 512


def test_bad_numbers_are_refused():
    with pytest.raises(CkptError, match="nbytes is -1"):
        CachingAllocator().malloc(-1)
    with pytest.raises(CkptError, match="exabyte"):
        CachingAllocator(EXPANDABLE).malloc(2**60)
    for wrong in (1.5, 1e9, float("nan"), "4", None):
        with pytest.raises(CkptError, match=f"nbytes is {re.escape(repr(wrong))}: expected a whole number"):
            CachingAllocator().malloc(wrong)
    assert CachingAllocator().malloc(np.int64(3) * 400).size == 1536  # as np.prod(shape) * itemsize is
    with pytest.raises(CkptError, match="capacity is 0"):
        CachingAllocator(capacity=0)


def test_map():
    gpu = CachingAllocator()
    a = gpu.malloc(5 * MiB)
    gpu.malloc(5 * MiB)
    gpu.malloc(512)
    gpu.free(a)
    assert gpu.map(width=16).splitlines() == [
        "5.00 MiB allocated, 22.00 MiB reserved",
        "large    20.00 MiB  |...|###|.......",
        "small     2.00 MiB  |...............",
    ]
    assert str(gpu) == gpu.map()


def test_segments_are_a_picture_that_stays():
    gpu = CachingAllocator()
    block = gpu.malloc(5 * MiB, tag="x")
    before = gpu.segments
    gpu.free(block)
    assert [(b.size, b.nbytes, b.allocated, b.tag) for b in before[0].blocks] == [
        (5 * MiB, 5 * MiB, True, "x"),
        (15 * MiB, 0, False, None),
    ]


def test_needs_no_torch():
    for module in (allocator, allocator_rules):
        assert not re.search(r"^\s*(import|from) torch", inspect.getsource(module), re.MULTILINE)
