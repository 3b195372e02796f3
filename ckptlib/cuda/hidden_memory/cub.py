"""How much storage do NVIDIA's CUB algorithms take? Sorts, prefix sums and selections, as torch calls them.

CUB aligns every buffer of a call to 256 bytes and asks for 255 more to align the first. Tiles of sorts whose keys have
4 or 8 bytes follow cub/device/dispatch/tuning of CCCL. Other tiles, and how many blocks are resident, were fitted to
what torch 2.13 asks for on phantom GPUs of compute capability 8.0, 8.9 and 9.0; elsewhere they are a guess.
"""

from __future__ import annotations

import torch

from ..allocator_rules import round_up
from ..gpus import Gpu
from .allocations import HALVES, ceil_div

SPINE = "CUB sorts keys of one or two bytes in a buffer that depends on registers; the largest it can be is counted"


def storage(*buffers: int) -> int:
    """`AliasTemporaries`: all buffers of one call in one allocation."""
    return sum(round_up(nbytes, 256) for nbytes in buffers) + 255


def radix_sort(n: int, key: int, value: int, gpu: Gpu, bits: int | None = None) -> int:
    """dispatch_radix_sort.cuh: n keys of `key` bytes with values of `value` bytes (0 for none), by their low `bits`.

    A tile that fits one block needs nothing. Else onesweep keeps 256 counters of every pass and of every tile, and, if
    there is more than one pass, a second copy of keys and values.
    """
    wide = max(key, value)
    if n <= 256 * (19 * 4 // max(4, wide)):
        return 1
    bits = 8 * key if bits is None else bits
    if not one_sweep(key, gpu):  # digits of 7 bits, or 6; five blocks for each that is resident
        digits = 128 if key > 1 else 64
        spine = 8 * (gpu.sm_count * (gpu.max_threads_per_sm // 256) * 5 * digits + 512 * 11)
        return storage(spine, n * key, n * value)
    passes = ceil_div(bits, 8)
    copies = (n * key, n * value) if passes > 1 else (0, 0)
    return storage(passes * 256 * 8, ceil_div(n, _sort_tile(key, value, gpu)) * 256 * 4, *copies, passes * 4)


def one_sweep(key: int, gpu: Gpu) -> bool:
    return key >= 4 or gpu.capability >= (9, 0)


def _sort_tile(key: int, value: int, gpu: Gpu) -> int:
    """tuning_radix_sort.cuh, offsets of 64 bits: keys that a block of 384 threads, or of 512, takes at a time."""
    if key < 4:
        return {(1, 8): 3456, (2, 8): 5632}.get((key, value), 9728)
    if gpu.capability < (9, 0):
        items = 17 if key == 4 and value else 21
    elif key == 4:
        items = 19 if not value else 17 if value < 8 else 29
    else:
        items = 30 if value < 8 else 24
    return 384 * (items * 4 // max(4, key, value))


def segmented_sort(n: int, key: int, value: int) -> int:
    """dispatch_segmented_sort.cuh: a second copy of keys and values."""
    return storage(n * key, n * value)


def merge_sort(n: int, key: int, value: int) -> int:
    """dispatch_merge_sort.cuh, for comparisons of one's own: a copy of keys and values, and where each tile begins."""
    tile = 256 * (17 * 4 // max(4, key))
    return storage(n * key, n * value, 8 * (ceil_div(n, tile) + 1))


def scan(n: int, dtype: torch.dtype) -> int:
    """dispatch_scan.cuh: the state of every tile, and of 32 more.

    128 threads take up to 15 elements of 4 bytes each, fewer wider ones and more narrow ones (`MemBoundScaling`). A
    built-in type's state is one word of a prefix and a flag, of four bytes at least; torch's own types, halves and
    complex, have a flag of four bytes and two prefixes, in three buffers.
    """
    size = dtype.itemsize
    states = ceil_div(n, 128 * max(1, min(15 * 4 // size, 30))) + 32
    if dtype in HALVES or dtype.is_complex:
        return storage(sum(round_up(nbytes * states, 256) for nbytes in (4, size, size)), 1)
    return storage(max(4, 2 * size) * states, 1)


def reduce(n: int, gpu: Gpu) -> int:
    """dispatch_reduce.cuh: one int for every block, five times those that are resident."""
    return 1 if n <= 4096 else storage(4 * gpu.sm_count * (gpu.max_threads_per_sm // 256) * 5)


def select(n: int, gpu: Gpu) -> int:
    """dispatch_select_if.cuh: indices of flagged elements."""
    tile = {(8, 0): 2304, (9, 0): 4224}.get(gpu.capability, 640)
    return storage(8 * (ceil_div(n, tile) + 32), 1)


def scan_by_key(n: int) -> int:
    return storage(16 * (ceil_div(n, 1920) + 32), 1)
