"""When a worker dies, are its submissions done elsewhere, and is only the culprit given up?"""

import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

import pytest

from ckptlib.errors import CkptError
from ckptlib.grading.run.machine_trouble import MachineTrouble
from ckptlib.grading.whole_class.executors import Cluster
from ckptlib.grading.whole_class.worker_crashes import MOST_DEATHS, Job, work


def stand_in(asked: dict) -> dict:
    """For grade_one: what a submission does is its name."""
    if asked["bundle"] is None and asked["name"].startswith("new"):
        return {"need": "bundle"}
    if asked["name"].startswith("kill"):
        os._exit(9)
    if asked["name"].startswith("raise"):
        raise OSError("the disk is full")
    if asked["name"].startswith("trouble"):
        _in_trouble(asked["name"])
    if asked["name"].startswith("wrong"):
        raise CkptError("the reference raises")
    time.sleep(0.02)
    return {"answer": asked["name"]}


def _in_trouble(name: str) -> None:
    """As often as the name ends in: "trouble2" works at the third try. Alone, from the second on."""
    tries = Path(os.environ["TRIES"])
    with open(tries / name, "a", encoding="utf-8") as file:
        file.write("x")
    if (tries / name).stat().st_size <= int(name[-1]):
        raise MachineTrouble("a fresh kernel ended the kernel (signal 11)")


class Crew:
    """A pool of two real processes that do what `stand_in` does."""

    size = 2

    def __init__(self):
        self.pools, self.most = [], 0
        self.renew()

    def submit(self, payload: dict) -> Future:
        return self.pools[-1].submit(stand_in, payload)

    def renew(self) -> None:
        self.pools.append(ProcessPoolExecutor(2, multiprocessing.get_context("fork")))

    def trouble(self) -> str:
        return ""

    def close(self) -> None:
        for pool in self.pools:
            pool.shutdown(cancel_futures=True)


@pytest.fixture
def crew():
    made = Crew()
    yield made
    made.close()


def done(crew: Crew, names: list[str]) -> dict[str, dict]:
    jobs = (Job(name, {"name": name}) for name in names)
    return {job.student: record for job, record in work(crew, jobs, {"name": "toy"}, print)}


def test_every_job_is_done_once_and_a_bundle_is_sent_where_it_is_needed(crew):
    names = [f"new{i}" for i in range(5)] + [f"s{i}" for i in range(20)]
    assert done(crew, names) == {name: {"answer": name} for name in names}


def test_only_the_culprit_is_given_up(crew):
    names = [f"s{i}" for i in range(6)] + ["kill1"] + [f"t{i}" for i in range(6)] + ["kill2"]
    found = done(crew, names)
    assert set(found) == set(names)
    assert {name for name, record in found.items() if "problem" in record} == {"kill1", "kill2"}
    told = f"{MOST_DEATHS} workers died while they ran this submission"
    assert found["kill1"] == {"problem": told, "failed": True}  # a kernel cannot end a worker: it was the machine


def test_a_grader_that_fails_says_so_and_goes_on(crew):
    found = done(crew, ["s1", "raise1", "s2"])
    assert found["raise1"]["failed"] and "the disk is full" in found["raise1"]["problem"]
    assert found["s2"] == {"answer": "s2"}


def test_trouble_of_the_machine_is_tried_again_alone_and_is_never_a_grade(crew, tmp_path, monkeypatch):
    monkeypatch.setenv("TRIES", str(tmp_path))
    crew.renew()
    names = ["trouble1", "s1", "trouble9", "s2", "trouble2", "s3"]
    order = [job for job, _ in work(crew, (Job(name, {"name": name}) for name in names), {"name": "toy"}, print)]
    assert {job.student for job in order[:3]} == {"s1", "s2", "s3"}, "they wait until the others are done"
    monkeypatch.setenv("TRIES", str(tmp_path / "again"))
    (tmp_path / "again").mkdir()
    crew.renew()
    found = done(crew, names)
    assert {name: found[name].get("answer") for name in names} == {n: None if n == "trouble9" else n for n in names}
    assert found["trouble9"]["failed"]
    told = "not graded yet, because a fresh kernel ended the kernel (signal 11). Grade again with --resume"
    assert found["trouble9"]["problem"] == told


def test_an_assignment_that_is_wrong_stops_everything(crew):
    with pytest.raises(CkptError, match="the reference raises"):
        done(crew, ["s1", "wrong"])


def test_few_submissions_are_in_memory_at_a_time(crew):
    read = []

    def jobs():
        for i in range(50):
            read.append(i)
            yield Job(f"s{i}", {"name": f"s{i}"})

    for at, _ in enumerate(work(crew, jobs(), {}, print)):
        assert len(read) <= at + 1 + 2 * crew.size


def test_no_scheduler_at_the_address():
    with pytest.raises(CkptError, match="no dask scheduler at"):
        Cluster("somewhere:1:2")


@pytest.mark.slow
def test_a_client_that_could_not_be_made_leaves_nothing_behind():
    """Left half-made, it waits for 40 seconds when Python ends, and prints a traceback."""
    code = """
from ckptlib.errors import CkptError
from ckptlib.grading.whole_class.executors import Cluster
try:
    Cluster("somewhere:1:2")
except CkptError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "no dask scheduler at somewhere:1:2" in done.stdout and done.stderr == ""


def test_without_dask_it_says_which_extra_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(CkptError, match=r"pip install 'ckptlib\[cluster\]'"):
        Cluster("tcp://10.0.0.1:8786")
