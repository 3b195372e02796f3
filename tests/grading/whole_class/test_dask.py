"""Does the same work get done on a dask cluster, and by the others when one of its workers is killed?"""

import json
import os
import signal
import threading
import time

import distributed
import pytest
from small_course import HALF, NAME, RIGHT, SQUARE, make, result

STUDENTS = {f"s{i}": (RIGHT, HALF, SQUARE)[i % 3] for i in range(4)}
SCORES = {f"s{i}": (5, 4, 2)[i % 3] for i in range(4)}


@pytest.fixture(scope="module")
def cluster(need):
    need("bubblewrap")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options, silence_logs=50) as started:
        yield started


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(cluster, grade, tmp_path):
    course = make(tmp_path, STUDENTS)
    pids = [worker.pid for worker in cluster.workers.values()]
    records = course / ".ckptlib" / NAME / "answers"

    def kill_one_when_work_is_under_way() -> None:
        while len(list(records.glob("*.gz"))) < 1:
            time.sleep(0.05)
        os.kill(pids[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_one_when_work_is_under_way, daemon=True)
    killer.start()
    code, out, err = grade(course, "--cluster", cluster.scheduler_address, "--json")
    killer.join(1)
    assert code == 0, err
    assert not killer.is_alive(), "nobody was killed"
    assert {name: each["score"] for name, each in result(out).items()} == SCORES
    assert json.loads(out)["kernels"] == len(STUDENTS)
