"""Is what the machine did to a kernel ever blamed on the submission in it? Kernels are killed from outside."""

import json
import os
import signal

import pytest
from printed import text
from small_course import HALF, NAME, RIGHT, make, result

from ckptlib.cli import main
from ckptlib.grading.run import machine_trouble
from ckptlib.grading.run import run_submission as run_module
from ckptlib.grading.run.cell_timeout import Driver
from ckptlib.grading.run.machine_trouble import MachineTrouble
from ckptlib.grading.run.run_submission import Cell, Question, run
from ckptlib.grading.sandbox.limits import Limits
from ckptlib.grading.sandbox.sandbox import use

ANSWER = "display({'application/vnd.ckptlib.answer+json': {'nonce': 'n', 'data': mine}}, raw=True)"
CELLS = [
    Cell("setup", "from IPython.display import display", released=True),
    Cell("own", "mine = 1"),
    Cell("later", "mine += 1; print(mine)"),
]
QUESTION = [Question("q", ANSWER, "n")]


@pytest.fixture
def killed(monkeypatch):
    """`killed(when, times)`: the kernel is killed, from outside, when code with `when` in it is sent."""
    monkeypatch.setattr(machine_trouble, "PAUSES", (0.0,))
    real = Driver.run

    def set_up(when: str, times: int) -> list[int]:
        done: list[int] = []

        def run_and_kill(self, code, deadline):
            if when in code and len(done) < times:
                done.append(self._process.pid)
                os.kill(self._process.pid, signal.SIGKILL)
            return real(self, code, deadline)

        monkeypatch.setattr(Driver, "run", run_and_kill)
        return done

    return set_up


@pytest.mark.parametrize(
    "when", ["mine = 1", "mine += 1", "display({"], ids=["an own cell", "a later one", "a question"]
)
def test_one_death_costs_nothing(when, killed, sandbox):
    done = killed(when, 1)
    seen = run(CELLS, QUESTION, {}, Limits(), sandbox)
    assert len(done) == 1 and seen["resources"]["kernels"] >= 2
    assert {cell["status"] for cell in seen["cells"].values()} == {"ok"}
    assert text(seen["cells"]["later"]["outputs"]) == "2\n" and seen["questions"]["q"]["answer"]["data"] == 2


def test_a_death_in_a_released_cell_before_all_others_is_the_machines(killed, sandbox):
    killed("from IPython", 99)
    with pytest.raises(MachineTrouble, match="only released cells had run"):
        run(CELLS, QUESTION, {}, Limits(), sandbox)


def test_an_end_for_want_of_memory_is_the_machines(killed, sandbox, monkeypatch):
    counts = iter(range(99))
    monkeypatch.setattr(run_module, "processes_killed", lambda: next(counts))  # as Linux counts them
    killed("mine += 1", 99)
    with pytest.raises(MachineTrouble, match="no memory left"):
        run(CELLS, QUESTION, {}, Limits(), sandbox)


def test_a_cell_that_ends_every_kernel_is_still_to_blame(killed, sandbox):
    killed("mine += 1", 99)
    seen = run(CELLS, QUESTION, {}, Limits(), sandbox)
    assert [cell["status"] for cell in seen["cells"].values()] == ["ok", "ok", "died"]
    assert seen["questions"]["q"]["answer"]["data"] == 1


def _refuse(*_, **__):
    raise ConnectionRefusedError(111, "Connection refused")


def _cannot_fork(*_, **__):
    raise RuntimeError("the sandbox could not be set up:\nOSError: [Errno 12] Cannot allocate memory")


@pytest.mark.parametrize("trouble", [_refuse, _cannot_fork, "kill fresh kernels"])
def test_a_check_says_so_in_one_sentence_and_without_a_traceback(trouble, sandbox, tmp_path, monkeypatch, capsys):
    course = make(tmp_path, {"ada": RIGHT})
    monkeypatch.setattr(machine_trouble, "PAUSES", (0.0,))
    monkeypatch.setattr(machine_trouble.patiently, "__defaults__", ((0.0,),))
    use(sandbox.address)
    if callable(trouble):
        monkeypatch.setattr(type(sandbox), "kernel", trouble)
    else:
        real = Driver.get_ready

        def killed_first(self, deadline):
            os.kill(self._process.pid, signal.SIGKILL)
            return real(self, deadline)

        monkeypatch.setattr(Driver, "get_ready", killed_first)
    code = main(["check", str(course / "submitted/ada" / NAME)])
    out, err = capsys.readouterr()
    assert code == 2 and "Traceback" not in out + err and "not checked yet, because" in err
    assert "says nothing about your answers" in err and "NameError" not in out + err


@pytest.mark.slow
def test_what_could_not_be_run_is_not_graded_yet_and_is_graded_when_resumed(sandbox, grade, tmp_path, monkeypatch):
    """ada's kernels are killed every time, while Linux counts processes that it ends; bob comes later."""
    course = make(tmp_path, {"ada": RIGHT, "bob": HALF})
    monkeypatch.setattr(machine_trouble.patiently, "__defaults__", ((0.0,),))
    real = Driver.run

    def killed_if_right(self, code, deadline):
        if "return 2 * x" in code and "def double" in code:
            os.kill(self._process.pid, signal.SIGKILL)
        return real(self, code, deadline)

    with monkeypatch.context() as now:
        now.setattr(Driver, "run", killed_if_right)
        now.setattr(run_module, "processes_killed", iter(range(10**6)).__next__)
        code, out, _ = grade(course, "--student", "ada", "--json")
    ada = result(out)["ada"]
    assert code == 1 and ada["reason"].startswith("not graded yet, because") and "no memory left" in ada["reason"]
    assert "NameError" not in json.dumps(ada)
    code, out, _ = grade(course, "--resume", "--json")
    assert code == 0 and {name: each["score"] for name, each in result(out).items()} == {"ada": 5, "bob": 4}
