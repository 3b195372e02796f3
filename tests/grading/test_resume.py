"""Is anything lost, doubled or asked twice when the coordinator is killed, at any moment?"""

import os
import random
import signal
import threading
import time

import pytest
from small_course import HALF, NAME, RIGHT, SQUARE, make
from tqdm import tqdm

from ckptlib.cli import main
from ckptlib.grading.course.gradebook import OneGradebook
from ckptlib.grading.kernels.sandbox import use

STUDENTS = {f"s{i}": (RIGHT, HALF, SQUARE)[i % 3] for i in range(4)}
SCORES = {f"s{i}": (5, 4, 2)[i % 3] for i in range(4)}
KILLS = 20


def start(course, sandbox, *options: str) -> int:
    """`ckptlib grade` in a process that need not import anything: forked from this one."""
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            use(sandbox.address)
            tqdm.set_lock(threading.RLock())  # its own is shared by forks: killed while it holds it, all others wait
            os._exit(main(["grade", NAME, "--course", str(course), "--workers", "2", *options]))
        finally:
            os._exit(70)
    return pid


def ended(pid: int, seconds: float) -> bool:
    """Has it ended by itself, without an error, in that time? If not, it is killed."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            assert os.waitstatus_to_exitcode(status) == 0
            return True
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def records(course) -> dict[str, int]:
    folder = course / ".ckptlib" / NAME / "answers"
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.json.gz")}


def lap(course, sandbox, moments: random.Random) -> int:
    """Grade a class, killed again and again, until a run comes to its end; how often it was killed."""
    make(course, STUDENTS)
    kills, known = 0, {}
    patience = 1.2  # seconds; grows, so that a slow machine gets there too
    while not ended(start(course, sandbox, "--resume"), moments.uniform(0.05, patience)):
        kills, patience = kills + 1, patience * 1.2
        assert kills < 25, "it never comes to its end"  # the last one had more than a minute
        now = records(course)
        assert {name: now[name] for name in known} == known, "an answer that was kept has been asked for again"
        known = now
    with OneGradebook(f"sqlite:///{course}/gradebook.db", "toys", print) as gradebook:
        found = [(each.student.id, each.score) for each in gradebook.assignment_submissions(NAME)]
        assert len(gradebook.assignments) == 1
    assert sorted(found) == sorted(SCORES.items())
    for student in STUDENTS:
        assert (course / "autograded" / student / NAME / f"{NAME}.ipynb").is_file()
        assert (course / "feedback" / student / NAME / f"{NAME}.html").is_file()
    return kills


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_any_moment_and_resumed(tmp_path, sandbox, seed):
    moments, kills, laps = random.Random(seed), 0, 0
    while kills < KILLS // 2:
        kills, laps = kills + lap(tmp_path / f"lap{laps}", sandbox, moments), laps + 1


def test_a_resumed_run_leaves_what_has_arrived_alone(grade, tmp_path):
    course = make(tmp_path, {"s0": RIGHT, "s1": HALF})
    assert grade(course)[0] == 0
    page = course / "feedback/s0" / NAME / f"{NAME}.html"
    before = page.stat().st_mtime_ns
    (course / "autograded/s1" / NAME / f"{NAME}.ipynb").unlink()
    code, out, _ = grade(course, "--resume")
    assert code == 0 and "s0" in out and "s1" in out
    assert page.stat().st_mtime_ns == before
    assert (course / "autograded/s1" / NAME / f"{NAME}.ipynb").is_file()


def test_a_damaged_record_is_asked_for_again(grade, tmp_path):
    course = make(tmp_path, {"s0": RIGHT})
    assert grade(course)[0] == 0
    record = course / ".ckptlib" / NAME / "answers" / "s0.json.gz"
    record.write_bytes(record.read_bytes()[:-20])
    code, out, _ = grade(course, "--json")
    assert code == 0 and '"kernels": 1' in out


def test_two_coordinators_do_not_meet(grade, tmp_path, sandbox):
    course = make(tmp_path, STUDENTS)
    first = start(course, sandbox)
    while not (course / ".ckptlib" / "lock").exists() or not (course / ".ckptlib" / "lock").read_text():
        time.sleep(0.01)
    code, _, err = grade(course)
    assert code == 2 and f"is being graded by process {first} on " in err
    assert ended(first, 60)
    assert grade(course)[0] == 0
