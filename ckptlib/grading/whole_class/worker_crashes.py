"""What happens when a worker dies? Others repeat its work, and the submission at fault is found."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass
from typing import Any

from ...errors import CkptError
from ..one_submission.scoring import NOT_YET
from ..run.machine_trouble import MachineTrouble
from ..sandbox.sandbox import SandboxTrouble, SandboxUnavailable
from .executors import Cluster, Pool

MOST_DEATHS = 3  # workers that one submission may take with it
_MOST_FAILURES = 2


@dataclass
class Job:
    """One submission on its way. `payload` is the argument of `grade_one`."""

    student: str
    payload: dict
    about: Any = None  # the coordinator's own data, which is not sent
    deaths: int = 0
    failures: int = 0
    with_bundle: bool = False
    alone: bool = False  # to be run once more at the end, with nothing beside it, because the machine was in trouble


def work(
    workers: Pool | Cluster, jobs: Iterable[Job], bundle: dict, tell: Callable[[str], None]
) -> Iterator[tuple[Job, dict]]:
    """Do all jobs, in any order; yields each with its record, or with {"problem": why} if nobody could do it.

    At most two jobs per worker are in memory. When a worker dies, every job under way is a suspect. Those jobs are
    done again one at a time, so that the submission at fault is known and no other is lost with it. Jobs that failed
    because the machine was in trouble are done again at the end, with nothing beside them.
    """
    rest, again, alone, running = iter(jobs), deque[Job](), deque[Job](), dict[Future, Job]()
    while True:
        careful = any(job.deaths or job.alone for job in (*again, *running.values()))
        while len(running) < (1 if careful else 2 * workers.size):
            job = again.popleft() if again else next(rest, None)
            if job is None and alone and not running:
                job, careful = alone.popleft(), True
            if job is None:
                break
            if not _submit(workers, job, bundle, running):
                again.append(job)
                break
        if not running and not again and not alone:
            return
        for future in wait(running, timeout=5, return_when=FIRST_COMPLETED).done:
            job = running.pop(future)
            done = _outcome(future, job, workers)
            if done is not None:
                yield job, done
            else:
                (alone if job.alone else again).append(job)
        if trouble := workers.trouble():
            tell(trouble)


def _submit(workers: Pool | Cluster, job: Job, bundle: dict, running: dict[Future, Job]) -> bool:
    try:
        more = {"bundle": bundle if job.with_bundle else None, "alone": job.alone}
        running[workers.submit(job.payload | more)] = job
    except BrokenExecutor:
        workers.renew()
        return False
    except SandboxUnavailable as error:
        raise CkptError(f"submissions cannot be isolated here: {error}") from None
    return True


def _outcome(future: Future, job: Job, workers: Pool | Cluster) -> dict | None:
    """The job's record; None if the job must be tried again."""
    try:
        record = future.result()
    except CkptError:  # the assignment itself is wrong, which affects every submission
        raise
    except Exception as error:
        return _failed(error, job, workers)
    if record.get("need") == "bundle":
        job.with_bundle = True
        return None
    return record


def _failed(error: Exception, job: Job, workers: Pool | Cluster) -> dict | None:
    if isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker":
        workers.renew()
        job.deaths += 1
        job.with_bundle = True
        if job.deaths >= MOST_DEATHS:
            return {"problem": f"{job.deaths} workers died while they ran this submission", "failed": True}
        return None
    job.failures += 1
    if isinstance(error, MachineTrouble | SandboxTrouble):
        job.alone = True
        if job.failures > _MOST_FAILURES:
            return {"problem": f"{NOT_YET}, because {_one_line(error)}. Grade again with --resume", "failed": True}
        return None
    if job.failures > _MOST_FAILURES:
        text = _one_line(f"{type(error).__name__}: {error}")
        return {"problem": f"the grader failed: {text}"[:300], "failed": True}
    return None


def _one_line(error: object) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1][:200]
