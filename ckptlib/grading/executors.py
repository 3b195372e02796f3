"""Who does the work? Processes of this machine, or a dask cluster; a worker that dies has its submissions done elsewhere."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from ..errors import CkptError
from .plain import Unconfined
from .sandbox import Sandbox, SandboxUnavailable, default

MOST_DEATHS = 3  # workers that one submission may take with it
_MOST_FAILURES = 2
_NO_WORKER_SECONDS = 600.0


@dataclass
class Job:
    """One submission on its way. `payload` is what `grade_one` gets, once it is bytes."""

    student: str
    payload: dict
    about: Any = None  # the coordinator's own; not sent
    deaths: int = 0
    failures: int = 0
    with_bundle: bool = False


class Pool:
    """Worker processes forked from this one, which has imported torch, and one warm process for all of them."""

    def __init__(self, size: int):
        self.size = size
        self._executor: Executor | None = None
        self._sandbox = _start_warm_process()  # meanwhile, this process can import what it needs

    def submit(self, payload: dict) -> Future[bytes]:
        if self._executor is None:
            # fork, whatever this Python's default: a worker that imports torch again is slower than its first submissions
            context = multiprocessing.get_context("fork" if sys.platform.startswith("linux") else "spawn")
            self._executor = ProcessPoolExecutor(self.size, context, _follow_parent, (os.getpid(),))
        return self._executor.submit(_grade_one, json.dumps(payload | {"sandbox": self._address()}).encode())

    def _address(self) -> str | None:
        """Where the workers find the warm process; None where there can be none."""
        if not self._sandbox.result().alive():
            self._sandbox = _start_warm_process()
        return getattr(self._sandbox.result(), "address", None)

    def renew(self) -> None:
        """After a worker died: the executor is of no use any more."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        self._executor = None

    def trouble(self) -> str:
        return ""

    def close(self) -> None:
        self.renew()
        if self._sandbox.done():
            self._sandbox.result().close()


def _start_warm_process() -> Future[Sandbox | Unconfined]:
    """In a daemon thread: a command that ends at once, with an error, must not wait for it."""
    started: Future[Sandbox | Unconfined] = Future()

    def start() -> None:
        try:
            started.set_result(default())
        except BaseException as error:
            started.set_exception(error)

    threading.Thread(target=start, name="starts the warm process", daemon=True).start()
    return started


def _grade_one(payload: bytes) -> bytes:
    """Imported where it is used: this module must not wait for torch."""
    from .grade_one import grade_one

    return grade_one(payload)


def _follow_parent(parent: int) -> None:
    """A killed coordinator cannot tell its workers to stop, so they look whether it is still there."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Cluster:
    """The workers of a dask cluster. They need ckptlib and bubblewrap, and see nothing of the course but one submission."""

    def __init__(self, address: str):
        try:
            from distributed import Client
        except ImportError:
            raise CkptError("--cluster needs dask: pip install 'ckptlib[cluster]'") from None
        try:
            self._client = Client(address, timeout=20, set_as_default=False)
        except (OSError, ValueError) as error:
            raise CkptError(f"no dask scheduler answers at {address} ({error}): expected such as tcp://10.0.0.1:8786") from None
        self._executor = self._client.get_executor(pure=False)
        self._alone_since: float | None = None

    @property
    def size(self) -> int:
        return max(1, sum(self._client.nthreads().values()))

    def submit(self, payload: dict) -> Future[bytes]:
        return self._executor.submit(_grade_one, json.dumps(payload).encode())

    def renew(self) -> None:
        """Nothing to do: the scheduler replaces workers."""

    def trouble(self) -> str:
        """What keeps the cluster from working; for too long, and it is an error."""
        if self._client.status != "running":
            raise CkptError("the dask scheduler is gone. Nothing is lost: with --resume the rest is graded")
        if self._client.nthreads():
            self._alone_since = None
            return ""
        self._alone_since = self._alone_since or time.monotonic()
        if time.monotonic() - self._alone_since > _NO_WORKER_SECONDS:
            raise CkptError("the dask cluster has had no worker for ten minutes. Nothing is lost: use --resume later")
        return "the dask cluster has no worker: waiting for one"

    def close(self) -> None:
        self._client.close()


def work(crew: Pool | Cluster, jobs: Iterable[Job], bundle: dict, tell: Callable[[str], None]) -> Iterator[tuple[Job, dict]]:
    """Do all jobs, in any order; yields each with its record, or with {"problem": why} if nobody could do it.

    At most two jobs per worker are in memory. When a worker dies, whatever was under way is suspect: those jobs are done
    again one at a time, so that the culprit is known and takes no other with it.
    """
    rest, again, running = iter(jobs), deque[Job](), dict[Future, Job]()
    while True:
        careful = any(job.deaths for job in (*again, *running.values()))
        while len(running) < (1 if careful else 2 * crew.size):
            job = again.popleft() if again else next(rest, None)
            if job is None:
                break
            if not _submit(crew, job, bundle, running):
                again.append(job)
                break
        if not running and not again:
            return
        for future in wait(running, timeout=5, return_when=FIRST_COMPLETED).done:
            job = running.pop(future)
            done = _outcome(future, job, crew)
            if done is not None:
                yield job, done
            else:
                again.append(job)
        if trouble := crew.trouble():
            tell(trouble)


def _submit(crew: Pool | Cluster, job: Job, bundle: dict, running: dict[Future, Job]) -> bool:
    try:
        running[crew.submit(job.payload | {"bundle": bundle if job.with_bundle else None})] = job
    except BrokenExecutor:
        crew.renew()
        return False
    except SandboxUnavailable as error:
        raise CkptError(f"submissions cannot be isolated here: {error}") from None
    return True


def _outcome(future: Future, job: Job, crew: Pool | Cluster) -> dict | None:
    """The job's record; None: it is to be tried again."""
    try:
        raw = future.result()
    except CkptError:  # the assignment itself is wrong, for everybody
        raise
    except Exception as error:
        return _failed(error, job, crew)
    record = json.loads(raw)
    if record.get("need") == "bundle":
        job.with_bundle = True
        return None
    return record


def _failed(error: Exception, job: Job, crew: Pool | Cluster) -> dict | None:
    if isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker":
        crew.renew()
        job.deaths += 1
        job.with_bundle = True
        if job.deaths >= MOST_DEATHS:
            return {"problem": f"{job.deaths} workers died while they ran this submission"}
        return None
    job.failures += 1
    if job.failures > _MOST_FAILURES:
        text = str(error).strip().splitlines()
        return {"problem": f"the grader failed: {type(error).__name__}: {text[-1] if text else ''}"[:300], "failed": True}
    return None
