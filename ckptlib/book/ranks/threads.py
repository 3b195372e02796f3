"""How does a check start ranks where a process cannot be copied? As threads, of which one runs at a time.

Windows has no fork; on macOS, a copy cannot use all that torch has started. A rank that hangs in a loop of its own
cannot be ended: it stays until the process does.
"""

from __future__ import annotations

import contextlib
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any


def in_threads(fn: Callable[[int], Any], ranks: int, seconds: float, failed: Callable) -> list[str]:
    """What each rank says, as JSON: {"found": answer}, or what `failed(rank, error)` returns; "" if it says nothing.

    Every rank begins with the caller's random numbers, as a copy of the process would.
    """
    import torch
    import torch.distributed as dist

    from ...torch_internals import isolate_threads, processes_have_groups, threads_have_groups
    from .store_group import Patience, StoreGroup, registered

    class Turns(Patience):
        running = threading.Lock()

        @contextlib.contextmanager
        def others(self) -> Iterator[None]:
            mine = torch.get_rng_state()
            self.running.release()
            try:
                yield
            finally:
                self.running.acquire()
                torch.set_rng_state(mine)

    said, store, ended, turns = [""] * ranks, dist.HashStore(), threading.Semaphore(0), Turns()
    begin, limit = torch.get_rng_state(), timedelta(seconds=0.6 * seconds)

    def member(rank: int) -> None:
        with turns.running:
            torch.set_rng_state(begin)
            try:
                dist.init_process_group(registered(), store=store, rank=rank, world_size=ranks, timeout=limit)
                said[rank] = json.dumps({"found": fn(rank)})
                dist.barrier()
            except BaseException as error:
                said[rank] = failed(rank, error)
                turns.stopped = True  # the others have lost their partner
        ended.release()

    StoreGroup.patience = turns
    isolate_threads(True)  # every thread has groups of its own
    threads_have_groups()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            for rank in range(ranks):
                threading.Thread(target=member, args=(rank,), daemon=True).start()
            deadline = time.monotonic() + seconds
            for _ in range(ranks):
                ended.acquire(timeout=max(0.0, deadline - time.monotonic()))
    finally:
        turns.stopped = True
        StoreGroup.patience = Patience()
        processes_have_groups()
        isolate_threads(False)
        torch.set_rng_state(begin)
    return list(said)
