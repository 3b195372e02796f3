"""How does a check start ranks? As copies of the process that it runs in, which have everything defined already."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from .ending import LOOPBACK, RankError, die_with_parent
from .threads import in_threads


def forked(fn: Callable[[int], Any], ranks: int = 2, seconds: float = 6) -> list[Any]:
    """What `fn(rank)` returns on each of `ranks` copies of this process, in one gloo group. Answers are JSON.

    A copy has everything that is defined here, so `fn` may be any function; but no GPU, and autograd's engine only if
    this process has no GPU either. Elsewhere than on Linux, threads of this process stand in for the copies.
    """
    said = (_copies if sys.platform == "linux" else in_threads)(fn, ranks, seconds, _failed)
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
    where = traceback.extract_tb(error.__traceback__)[-1]
    text = f"rank {rank}: {type(error).__name__}: {error} (line {where.lineno}: {where.line})"
    return json.dumps({"raised": time.monotonic(), "error": text})


def _copies(fn: Callable[[int], Any], ranks: int, seconds: float, failed: Callable) -> list[str]:
    """What each copy says, as JSON; "" if it says nothing in time."""
    import torch.distributed  # noqa: F401 - collectives import both; better once than in every rank
    import torch.fx.experimental.symbolic_shapes  # noqa: F401

    children, deadline = [], time.monotonic() + seconds
    with _meeting_point() as store:
        try:
            for rank in range(ranks):
                children.append(_fork(fn, rank, ranks, store, 0.6 * seconds, failed))
            return [_read(fd, deadline) for _, fd in children]
        finally:
            for pid, fd in children:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                os.close(fd)


@contextmanager
def _meeting_point() -> Iterator[str]:
    """A file that ranks can open. It has no name any more, so that nothing is left even if we are killed."""
    with tempfile.TemporaryFile() as file:
        yield f"/proc/self/fd/{file.fileno()}"


def _fork(fn: Callable, rank: int, ranks: int, store: str, seconds: float, failed: Callable) -> tuple[int, int]:
    parent, (reading, writing) = os.getpid(), os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    try:
        die_with_parent(parent)
        said = json.dumps(_member(fn, rank, ranks, store, seconds))
    except BaseException as error:
        said = failed(rank, error)
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
