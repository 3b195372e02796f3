"""Is a replay linear in its events? 10^5 and 10^6 mallocs and frees, CPU time per event, and the ratio of the two.

    python tests/bench/allocator_speed.py

A ratio near 1 means that nothing is quadratic. `training` repeats a step: allocate layer by layer, free in reverse.
`random` frees in random order, which keeps the free lists long: the hard case.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from rows import between, row

from ckptlib.cuda.allocator import AllocatorRules, CachingAllocator

Plan = Iterator[tuple[int, int]]  # (slot, nbytes): malloc into the slot, or free it where nbytes is -1


def training(events: int, layers: int = 500) -> Plan:
    for step in range(events // (4 * layers)):
        for layer in range(layers):
            yield 2 * layer, 4096 * (1 + layer * 37 % 601)
            yield 2 * layer + 1, 1 + (step * 7919 + layer * 104729) % (1 << 18)
        for slot in reversed(range(2 * layers)):
            yield slot, -1


def random_order(events: int, slots: int = 5_000) -> Plan:
    draw = random.Random(0)
    full: set[int] = set()
    for _ in range(events):
        slot = draw.randrange(slots)
        if slot in full:
            full.remove(slot)
            yield slot, -1
        else:
            full.add(slot)
            yield slot, int(2 ** draw.uniform(2, 25))


def seconds(plan: list[tuple[int, int]], rules: AllocatorRules) -> tuple[float, int]:
    """CPU time of a replay, and the free blocks it ends with."""
    allocator = CachingAllocator(rules)
    blocks = {}
    start = time.process_time()
    for slot, nbytes in plan:
        if nbytes < 0:
            allocator.free(blocks.pop(slot))
        else:
            blocks[slot] = allocator.malloc(nbytes)
    elapsed = time.process_time() - start
    return elapsed, sum(not block.allocated for segment in allocator.segments for block in segment.blocks)


def main() -> None:
    ratios = []
    print(f"{'plan':10} {'segments':11} {'events':>9} {'seconds':>8} {'us/event':>9} {'free blocks':>12} {'ratio':>6}")
    for name, plan in (("training", training), ("random", random_order)):
        for rules in (AllocatorRules(), AllocatorRules(expandable_segments=True)):
            base = None
            for events in (10**5, 10**6):
                steps = list(plan(events))
                elapsed, free = seconds(steps, rules)
                per_event = elapsed / len(steps)
                base = base or per_event
                kind = "expandable" if rules.expandable_segments else "fixed"
                line = f"{name:10} {kind:11} {len(steps):9,} {elapsed:8.2f} {per_event * 1e6:9.2f} {free:12,}"
                print(f"{line} {per_event / base:6.2f}")
                ratios.append(per_event / base)
    row("a replay is linear: 10⁶ events take no longer each than 10⁵", "itself, a tenth as long", between(ratios))


if __name__ == "__main__":
    main()
