"""Who does the work? Processes of this machine, or the workers of a dask cluster."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor

from ...errors import CkptError, require
from ..run.machine_trouble import PAUSES
from ..sandbox.sandbox import Sandbox, SandboxTrouble, default
from ..sandbox.without_isolation import Unconfined

_NO_WORKER_SECONDS = 600.0


class Pool:
    """Worker processes forked from this one, which has imported torch, and one warm process for all of them."""

    def __init__(self, size: int):
        self.size = size
        self._executor: Executor | None = None
        self._sandbox = _start_warm_process()  # in the meantime this process imports other modules

    def submit(self, payload: dict) -> Future[dict]:
        if self._executor is None:
            # fork, whatever this Python's default: a worker would need seconds to import torch again
            context = multiprocessing.get_context("fork" if sys.platform.startswith("linux") else "spawn")
            self._executor = ProcessPoolExecutor(self.size, context, _begin, (os.getpid(),))
        return self._executor.submit(_grade_one, payload | {"sandbox": self._address()})

    def _address(self) -> str | None:
        """Where the workers find the warm process; None where there can be none."""
        for pause in PAUSES:
            try:
                if not self._sandbox.result().alive():
                    self._sandbox = _start_warm_process()
                self._sandbox.result()
                break
            except SandboxTrouble:  # a problem of the machine, which may be temporary
                time.sleep(pause)
                self._sandbox = _start_warm_process()
        return getattr(self._sandbox.result(), "address", None)

    def renew(self) -> None:
        """Called after a worker died, because the executor cannot be used any more."""
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
    """In a daemon thread, because a command that ends at once with an error must not wait for it."""
    started: Future[Sandbox | Unconfined] = Future()

    def start() -> None:
        try:
            started.set_result(default())
        except BaseException as error:
            started.set_exception(error)

    threading.Thread(target=start, name="starts the warm process", daemon=True).start()
    return started


def _grade_one(payload: dict) -> dict:
    """Imported where it is used: this module must not wait for torch."""
    from ..one_submission.grade_one import grade_one

    return grade_one(payload)


def _begin(parent: int) -> None:
    """Runs in each worker. A coordinator that was killed cannot stop its workers, so they check whether it exists."""
    import psutil
    import torch

    torch.set_num_threads(1)  # there is a worker for every core

    def watch() -> None:
        while os.getppid() == parent and psutil.pid_exists(parent):  # on Windows, getppid() never changes
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Cluster:
    """The workers of a dask cluster. They need ckptlib, dask and bubblewrap, and see one submission at a time."""

    def __init__(self, address: str):
        require("cluster", "--cluster, here and on each worker,")
        from distributed import Client

        self._client = Client.__new__(Client)  # made in two steps, because one that fails half-way has to be closed
        try:
            Client.__init__(self._client, address, timeout=20, set_as_default=False)
        except (OSError, ValueError) as error:
            self._client.close()  # closed only when Python ends, it would wait for 40 s and print a traceback
            raise CkptError(
                f"no dask scheduler at {address} ({error}): expected an address such as tcp://10.0.0.1:8786"
            ) from None
        self._executor = self._client.get_executor(pure=False)
        self._without_worker_since: float | None = None

    @property
    def size(self) -> int:
        return max(1, sum(self._client.nthreads().values()))

    def submit(self, payload: dict) -> Future[dict]:
        return self._executor.submit(_grade_one, payload)

    def renew(self) -> None:
        """There is nothing to do, because the scheduler replaces workers."""

    def trouble(self) -> str:
        """The reason why the cluster does not work; an error if that lasts too long."""
        if self._client.status != "running":
            raise CkptError("the dask scheduler is gone. Nothing is lost: --resume grades the rest")
        if self._client.nthreads():
            self._without_worker_since = None
            return ""
        self._without_worker_since = self._without_worker_since or time.monotonic()
        if time.monotonic() - self._without_worker_since > _NO_WORKER_SECONDS:
            raise CkptError("the dask cluster has had no worker for ten minutes. Nothing is lost: use --resume later")
        return "the dask cluster has no worker; waiting for one"

    def close(self) -> None:
        self._client.close()
