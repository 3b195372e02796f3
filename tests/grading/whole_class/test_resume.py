"""Is anything lost, doubled or asked twice when the coordinator is killed, at any moment?"""

import errno
import json
import os
import random
import signal
import threading
import time

import pytest
from small_course import HALF, NAME, RIGHT, SQUARE, make, result, submit
from tqdm import tqdm

from ckptlib.cli import main
from ckptlib.grading.gradebook.gradebook import OneGradebook
from ckptlib.grading.one_submission import grade_one
from ckptlib.grading.sandbox.sandbox import use
from ckptlib.grading.whole_class import nbgrader_autograde
from ckptlib.grading.whole_class.grade_class import Coordinator

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


def scores(course) -> dict[str, float]:
    """What the gradebook holds; everybody once."""
    with OneGradebook(f"sqlite:///{course}/gradebook.db", "toys", print) as gradebook:
        assert len(gradebook.assignments) == 1
        found = [(each.student.id, each.score) for each in gradebook.assignment_submissions(NAME)]
    assert len(found) == len(dict(found))
    return dict(found)


def grade_until_done(course, sandbox, moments: random.Random) -> int:
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
    assert scores(course) == SCORES
    for student in STUDENTS:
        assert (course / "autograded" / student / NAME / f"{NAME}.ipynb").is_file()
        assert (course / "feedback" / student / NAME / f"{NAME}.html").is_file()
    return kills


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_any_moment_and_resumed(tmp_path, sandbox, seed):
    moments, kills, runs = random.Random(seed), 0, 0
    while kills < KILLS // 2:
        kills, runs = kills + grade_until_done(tmp_path / f"run{runs}", sandbox, moments), runs + 1


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


@pytest.mark.slow
def test_a_damaged_record_is_asked_for_again(grade, tmp_path):
    course = make(tmp_path, {"s0": RIGHT})
    assert grade(course)[0] == 0
    record = course / ".ckptlib" / NAME / "answers" / "s0.json.gz"
    record.write_bytes(record.read_bytes()[:-20])
    code, out, _ = grade(course, "--json")
    assert code == 0 and '"kernels": 1' in out


@pytest.mark.slow
def test_two_coordinators_do_not_meet(grade, tmp_path, sandbox):
    course = make(tmp_path, STUDENTS)
    first = start(course, sandbox)
    while not (course / ".ckptlib" / "lock").exists() or not (course / ".ckptlib" / "lock").read_text():
        time.sleep(0.01)
    code, _, err = grade(course)
    assert code == 2 and f"is being graded by process {first} on " in err
    assert ended(first, 60)
    assert grade(course)[0] == 0


# ---- when it is the grader that fails -------------------------------------------------------------------------------
def full(*_) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def broken(*_) -> None:
    raise RuntimeError("a fresh kernel ended: is the machine out of memory?")


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False], ids=["graded before", "new"])
def test_a_full_disk_takes_no_grade_away(grade, tmp_path, monkeypatch, known):
    course = make(tmp_path, {"ada": RIGHT, "bob": HALF})
    if known:
        assert grade(course)[0] == 0
    with monkeypatch.context() as now:
        now.setattr(nbgrader_autograde, "write_page", full)
        code, out, _ = grade(course, "--json")
    assert code == 1 and scores(course) == {"ada": 5, "bob": 4}
    printed = result(out)
    assert {name: each["score"] for name, each in printed.items()} == {"ada": 5, "bob": 4}
    assert "gradebook was kept" in printed["ada"]["reason"] and "No space left" in printed["ada"]["reason"]
    page = course / "feedback/ada" / NAME / f"{NAME}.html"
    before = page.stat().st_mtime_ns if known else None
    code, out, _ = grade(course, "--resume", "--json")
    assert code == 0 and result(out)["bob"]["score"] == 4 and scores(course) == {"ada": 5, "bob": 4}
    assert json.loads(out)["kernels"] == 0 and page.stat().st_mtime_ns != before, "its page has not been written"


@pytest.mark.slow
def test_a_fault_of_the_grader_takes_no_grade_away_and_is_tried_again(grade, tmp_path, monkeypatch):
    course = make(tmp_path, {"ada": RIGHT, "bob": HALF})
    assert grade(course)[0] == 0
    with monkeypatch.context() as now:
        now.setattr(grade_one, "_run", broken)
        code, out, _ = grade(course, "--student", "ada", "--fresh", "--json")
    assert code == 1 and scores(course) == {"ada": 5, "bob": 4}
    ada = result(out)["ada"]
    assert ada["score"] == 5 and "gradebook was kept, because the grader failed" in ada["reason"]
    code, out, _ = grade(course, "--resume", "--json")
    assert code == 0 and json.loads(out)["kernels"] == 1
    assert result(out)["ada"]["reason"] == "every task is right"


def test_what_was_given_by_hand_is_told_when_the_grader_fails(grade, tmp_path, monkeypatch):
    course = make(tmp_path, {"cyd": SQUARE})
    assert grade(course)[0] == 0
    with OneGradebook(f"sqlite:///{course}/gradebook.db", "toys", print) as gradebook:
        found = gradebook.find_grade("check-double", NAME, NAME, "cyd")
        found.manual_score, found.extra_credit, found.needs_manual_grade = 2.5, 0.25, False
        gradebook.db.commit()
    submit(course, "cyd", RIGHT)
    monkeypatch.setattr(grade_one, "_run", broken)
    code, out, _ = grade(course, "--json")
    assert code == 1 and result(out)["cyd"]["score"] == 4.75
    with OneGradebook(f"sqlite:///{course}/gradebook.db", "toys", print) as gradebook:
        found = gradebook.find_grade("check-double", NAME, NAME, "cyd")
        assert (found.manual_score, found.auto_score, found.needs_manual_grade) == (2.5, 0, False)


def test_without_a_grade_a_fault_of_the_grader_is_zero_with_a_reason_until_it_is_resumed(grade, tmp_path, monkeypatch):
    course = make(tmp_path, {"ada": RIGHT})
    with monkeypatch.context() as now:
        now.setattr(grade_one, "_run", broken)
        code, out, _ = grade(course, "--json")
    assert code == 1 and scores(course) == {"ada": 0}
    assert result(out)["ada"]["reason"].startswith("the grader failed: RuntimeError: a fresh kernel ended")
    assert "out of memory" in (course / "feedback/ada" / NAME / f"{NAME}.html").read_text()
    assert grade(course, "--resume")[0] == 0 and scores(course) == {"ada": 5}


@pytest.mark.slow
def test_a_fresh_run_that_was_interrupted_is_finished_by_resume(grade, tmp_path, monkeypatch):
    course = make(tmp_path, STUDENTS)
    assert grade(course)[0] == 0
    before, arrived, count = records(course), Coordinator._arrived, []

    def one_then_ctrl_c(self, *about):
        count.append(about)
        if len(count) > 1:
            raise KeyboardInterrupt
        return arrived(self, *about)

    with monkeypatch.context() as now:
        now.setattr(Coordinator, "_arrived", one_then_ctrl_c)
        code, _, err = grade(course, "--fresh")
    assert code == 2 and "with --resume in place of --fresh grades the rest" in err
    assert scores(course) == SCORES
    code, out, _ = grade(course, "--resume", "--json")
    assert code == 0 and json.loads(out)["kernels"] == len(STUDENTS) - 1
    after = records(course)
    assert before.keys() == after.keys() and all(before[name] != after[name] for name in before)


def test_a_full_journal_says_what_to_do_and_is_resumed(grade, tmp_path):
    course = make(tmp_path, {"ada": RIGHT})
    folder = course / ".ckptlib" / NAME / "answers"
    folder.mkdir(parents=True)
    (folder / "ada.json.gz.new").symlink_to("/dev/full")  # where every write finds the disk full
    code, _, err = grade(course)
    assert code == 2 and "ada.json.gz cannot be written: No space left on device" in err
    assert "--resume (and without --fresh) grades the rest" in err
    assert grade(course, "--resume")[0] == 0 and scores(course) == {"ada": 5}
