"""Is an answer that is to be the student's own asked while nothing else of the notebook can work for it?"""

import pytest
from answers import ROOT, submission, titled
from printed import text

from ckptlib.grading.assignment.assignment import Assignment
from ckptlib.grading.one_submission.grade_one import examine
from ckptlib.grading.one_submission.scoring import score
from ckptlib.grading.run.kernel_copy import ask_alone
from ckptlib.grading.run.run_submission import Cell, run
from ckptlib.grading.sandbox.limits import Limits

NAME, TASK = "06_tradeoff", "revolve"
BESIDE = dict(titled(ROOT / "tests" / "attacks" / "borrowing" / "beside" / f"{NAME}-{TASK}.py"))
IMPORT = "import os, threading, time; from ckptlib.grading.run.kernel_copy import ask_alone\n"


@pytest.fixture(scope="module")
def known() -> Assignment:
    return Assignment.load(ROOT / "solutions" / NAME)


def graded(known: Assignment, code: str | None, sandbox) -> tuple[float, list[str]]:
    """Points of the task, and what happened."""
    replaced = {} if code is None else {TASK: code}
    limits = Limits(cell_seconds=4, wall_seconds=40)
    record = examine(known, {f"{NAME}.ipynb": submission(known, replaced)}, {TASK: [5, 6]}, limits, sandbox.address)
    (points,) = [task.points for task in score(known, "", record).tasks if task.name == TASK]
    return points, record["tampering"]


@pytest.mark.slow
@pytest.mark.parametrize("title", BESIDE)
def test_what_runs_beside_it_answers_nothing(title, known, sandbox):
    assert graded(known, BESIDE[title], sandbox)[0] == 0


@pytest.mark.slow
def test_an_answer_of_ones_own_has_its_points_whatever_runs_beside_it(known, sandbox):
    (cell,) = [cell for cell in known.source.cells if cell.id == TASK]
    beside = "import os, threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n"
    beside += "if os.fork() == 0:\n    time.sleep(99)\n\n"
    assert graded(known, beside + cell.source, sandbox) == (known.tasks[TASK].points, [])


def test_outside_a_sandbox_it_is_asked_where_it_stands():
    kept = []
    assert ask_alone(lambda: kept.append(1) or (1, 2)) == (1, 2) and kept == [1]


ALONE = """
import warnings
warnings.simplefilter("ignore")  # Python 3.12 and later warn of a fork beside threads
threading.Thread(target=time.sleep, args=(99,), daemon=True).start()
if os.fork() == 0:
    time.sleep(99)

def running():
    stats = [open(f"/proc/{pid}/stat").read() for pid in os.listdir("/proc") if pid.isdigit()]
    return sum(stat.rpartition(")")[2].split()[0] != "Z" for stat in stats)

def seen():
    for _ in range(100):  # a process that was killed takes a moment to end
        if running() > 2:
            time.sleep(0.05)
    return os.getpid() != 1, len(os.listdir("/proc/self/task")), running()

print(ask_alone(seen))
"""


def test_the_copy_is_alone(said):
    assert said(IMPORT + ALONE) == "[True, 2, 2]\n"  # a thread that answers and one that waits; it, and the kernel


@pytest.mark.parametrize(
    "does, status", [("os._exit(0)", "died"), ("os.abort()", "died"), ("time.sleep(99)", "timeout")]
)
def test_an_answer_that_ends_or_never_ends_is_told_as_without_a_copy(does, status, sandbox):
    cells = [Cell("asked", IMPORT + f"ask_alone(lambda: {does})"), Cell("next", "print(1)")]
    seen = run(cells, [], {}, Limits(cell_seconds=2), sandbox)["cells"]
    assert seen["asked"]["status"] == status and text(seen["next"]["outputs"]) == "1\n"
