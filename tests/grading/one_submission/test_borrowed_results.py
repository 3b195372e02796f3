"""Where a task asks for the student's own code, does what the library gave in an earlier cell earn nothing?"""

import pytest
from answers import ROOT, submission, titled

from ckptlib.grading.assignment.assignment import Assignment
from ckptlib.grading.one_submission.grade_one import examine
from ckptlib.grading.one_submission.scoring import score
from ckptlib.grading.sandbox.limits import Limits

NAME = "06_tradeoff"
BEFORE = ROOT / "tests" / "attacks" / "borrowing" / "before"
REVOLVE = dict(titled(BEFORE / f"{NAME}-revolve.py"))
OTHERS = dict(titled(BEFORE / f"{NAME}-others.py"))


@pytest.fixture(scope="module")
def known() -> Assignment:
    return Assignment.load(ROOT / "solutions" / NAME)


def graded(known: Assignment, replaced: dict[str, str], tasks: list[str], sandbox):
    seeds = {task: [5, 6] for task in tasks}
    limits = Limits(cell_seconds=10, wall_seconds=60)
    record = examine(known, {f"{NAME}.ipynb": submission(known, replaced)}, seeds, limits, sandbox.address)
    assert record["tampering"] == []
    return record, {task.name: task for task in score(known, "", record).tasks if task.name in tasks}


@pytest.mark.slow
@pytest.mark.parametrize("title", REVOLVE)
def test_a_schedule_of_the_librarys_is_not_ones_own(title, known, sandbox):
    record, found = graded(known, {"revolve": REVOLVE[title]}, ["revolve"], sandbox)
    assert found["revolve"].points == 0, found["revolve"].message


@pytest.mark.slow
def test_nor_is_another_result_and_what_is_ones_own_counts(known, sandbox):
    record, found = graded(known, OTHERS, [*OTHERS, "revolve"], sandbox)
    earned = {name: task.points for name, task in found.items()}
    measured = 1.5 / 3  # in task 2, the schedule is given, and to count its runs is the student's own work
    assert earned == {"periodic_cost": 0, "runs": measured, "bound": 0, "chen": 0, "revolve": 2.0}
    assert "switched off from the start" in found["bound"].message
    assert any(event.startswith("runs: your answer uses") for event in record["events"])


LOOKED = """
wanted = ck.revolve(10, 3)
print(wanted, wanted.cost().peak, len(wanted.actions), f"{wanted.cost().forwards:>5}")
assert wanted.cost().forwards == 25, "look at it first"
runs = [action for action in wanted.actions if action.kind != "restore"]
most = max([schedule.cost().peak for schedule in (ck.sqrt(16), ck.periodic(16, 4), ck.store_all(4))])
while most > wanted.cost().peak + 99:
    most -= 1
"""
COMPARED = """
print(revolve(10, 3) == list(wanted.actions), ck.Schedule(10, revolve(10, 3)).cost() == wanted.cost())
print(ck.revolve(5, 2).draw().splitlines()[0])
"""


@pytest.mark.slow
def test_who_looks_at_the_librarys_schedules_beside_an_answer_keeps_it(known, sandbox):
    (cell,) = [cell for cell in known.source.cells if cell.id == "revolve"]
    record, found = graded(known, {"revolve": f"{LOOKED}\n{cell.source}\n{COMPARED}"}, ["revolve"], sandbox)
    assert found["revolve"].points == 2.0, found["revolve"].message
    assert record["cells"]["revolve"]["status"] == "ok" and record["events"] == []
