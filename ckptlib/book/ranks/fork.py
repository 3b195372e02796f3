"""How does a check start ranks? As copies of the process that it runs in, or as threads where there are no copies."""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from .rank_errors import RankError
from .shutdown import LOOPBACK, die_with_parent


def forked(fn: Callable[[int], Any], ranks: int = 2, seconds: float = 6) -> list[Any]:
    """What `fn(rank)` returns on each of `ranks` copies of this process, in one gloo group. Answers are JSON.

    A copy has everything that is defined here, so `fn` may be any function; but no GPU, and autograd's engine only if
    this process has no GPU either. Elsewhere than on Linux, threads of this process stand in for the copies.

    Copies that failed while others had the processor are asked again with more time: a busy machine is not a mistake.
    """
    if sys.platform == "linux":
        said, starved = _copies(fn, ranks, seconds)
        if starved > seconds / 5 and not all(text and "found" in json.loads(text) for text in said):
            seconds *= 2
            said, _ = _copies(fn, ranks, seconds)
    else:
        said = _threads(fn, ranks, seconds)
    silent = [rank for rank, text in enumerate(said) if not text]
    if silent:
        raise RankError(
            f"rank {silent[0]} of {ranks} gave no answer in {seconds:g} s: did it die, or wait for another?"
        )
    found = [json.loads(text) for text in said]
    raised = sorted((each["raised"], rank) for rank, each in enumerate(found) if "raised" in each)
    if raised:
        raise RankError(found[raised[0][1]]["error"])
    return [each["found"] for each in found]


def _failed(rank: int, error: BaseException) -> str:
    """The message of a rank that raised an error, as JSON. A rank that succeeded sends {"found": answer}."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    text = f"rank {rank}: {type(error).__name__}: {error} (line {where.lineno}: {where.line})"
    return json.dumps({"raised": time.monotonic(), "error": text})


def _copies(fn: Callable[[int], Any], ranks: int, seconds: float) -> tuple[list[str], float]:
    """The message of each copy as JSON ("" if none came in time), and how long one of them waited for a processor."""
    import torch.distributed  # noqa: F401 - collectives import both; better once than in every rank
    import torch.fx.experimental.symbolic_shapes  # noqa: F401

    children, deadline = [], time.monotonic() + seconds
    with _meeting_point() as store:
        try:
            for rank in range(ranks):
                children.append(_fork(fn, rank, ranks, store, 0.6 * seconds))
            said = [_read(fd, deadline) for _, fd in children]
            return said, max(_starved(pid) for pid, _ in children)
        finally:
            for pid, fd in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                os.close(fd)


def _starved(pid: int) -> float:
    """For how many seconds a process could have run and had no processor; 0 where the kernel does not count it."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[1]) / 1e9
    return 0.0


@contextlib.contextmanager
def _meeting_point() -> Iterator[str]:
    """A file that ranks can open. It has no name any more, so that nothing is left even if we are killed."""
    with tempfile.TemporaryFile() as file:
        yield f"/proc/self/fd/{file.fileno()}"


def _fork(fn: Callable, rank: int, ranks: int, store: str, seconds: float) -> tuple[int, int]:
    parent, (reading, writing) = os.getpid(), os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    try:
        die_with_parent(parent)
        said = json.dumps(_member(fn, rank, ranks, store, seconds))
    except BaseException as error:
        said = _failed(rank, error)
    finally:  # not through Python's exit: that is the parent's
        with open(writing, "w", encoding="utf-8") as file:
            file.write(said)
        os._exit(0)


def _member(fn: Callable, rank: int, ranks: int, store: str, seconds: float) -> dict:
    import torch
    import torch.distributed as dist

    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    sys.stdout = sys.stderr = os.fdopen(null, "w", encoding="utf-8")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to handle
    os.environ.update(LOOPBACK)
    torch.set_num_threads(1)  # the parent's threads are not here
    limit = timedelta(seconds=seconds)
    dist.init_process_group("gloo", store=dist.FileStore(store, ranks), rank=rank, world_size=ranks, timeout=limit)
    found = fn(rank)
    dist.barrier()
    return {"found": found}


def _read(fd: int, deadline: float) -> str:
    """All that comes until the other end is closed, or nothing if that takes too long."""
    pieces: list[bytes] = []
    while select.select([fd], [], [], max(0, deadline - time.monotonic()))[0]:
        piece = os.read(fd, 65536)
        if not piece:
            return b"".join(pieces).decode()
        pieces.append(piece)
    return ""


def _threads(fn: Callable[[int], Any], ranks: int, seconds: float) -> list[str]:
    """The message of each rank where a process cannot be copied. The ranks are threads, and one runs at a time.

    Windows has no fork; on macOS, a copy cannot use everything that torch has started. Every rank begins with the
    caller's random numbers, as a copy of the process would. A rank that hangs in a loop of its own cannot be ended: it
    stays until the process does.
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
                said[rank] = _failed(rank, error)
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
