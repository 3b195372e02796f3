"""Does a record become the points that it deserves, whatever a student has put into it?"""

import copy

import pytest
from small_course import NAME, RIGHT, make

from ckptlib.grading.assignment.assignment import Assignment
from ckptlib.grading.one_submission.scoring import may_be_a_mistake, score, without_record

SEEDS = [11, 12]


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Assignment:
    return Assignment.load(make(tmp_path_factory.mktemp("scoring"), {"ada": RIGHT}) / "source" / NAME)


@pytest.fixture
def record(toy) -> dict:
    """Of an honest submission: every answer is the reference's."""
    names = ("double", "both")
    expected = {name: {"right": toy.right(name, SEEDS), "mistakes": toy.known(name, SEEDS)} for name in names}
    answers = {name: {"cases": copy.deepcopy(expected[name]["right"]), "grown": 0} for name in names}
    return {"problem": None, "notes": [], "tampering": [], "answers": answers, "expected": expected}


def points(toy, record) -> dict[str, float]:
    return {task.name: task.points for task in score(toy, "ada", record).tasks}


def test_the_reference_has_full_marks(toy, record):
    found = score(toy, "ada", record)
    assert (found.score, found.max_score, found.reason) == (5, 5, "every task is right")


def test_a_known_mistake_is_named(toy, record):
    record["answers"]["double"]["cases"] = record["expected"]["double"]["mistakes"][0]["data"]
    assert score(toy, "ada", record).reason == "double: that is the square"


@pytest.mark.parametrize(
    "answer",
    [
        {"reason": "took too long and was stopped"},
        {"missing": ["double"]},
        {"missing": [{}, None, 10**30]},
        {"cases": []},
        {"cases": [1]},
        {"cases": [{"array": "AAAA", "dtype": "x", "stored": "object", "shape": [1]}] * 2},
        {"cases": [{"what": "is this"}] * 2},
        {"cases": [10**400] * 2},
        {"cases": [[[]] * 3] * 2},
        {"cases": [float("nan")] * 2},
        {"cases": [True, None]},
        {"cases": [{"dict": [["a", 1]]}] * 2},
        {"cases": [{"raised": "NotImplementedError: "}] * 2},
    ],
)
def test_whatever_else_is_answered_earns_nothing_and_says_why(toy, record, answer):
    for name in ("double", "both"):
        record["answers"][name] = answer
    found = score(toy, "ada", record)
    assert found.score == 0
    assert all(task.message for task in found.tasks)


def test_a_tampered_kernel_is_flagged_and_only_what_can_be_trusted_counts(toy, record):
    record["tampering"] = ["an assertion that must fail did not"]
    toy.tasks["both"].peak_limit = 1000
    try:
        found = score(toy, "ada", record)
        assert {task.name: task.points for task in found.tasks} == {"double": 3, "both": 0}
        assert found.flags == ["tampered kernel: an assertion that must fail did not"]
        assert found.reason.startswith("tampered kernel")
        record["tampering"] = []
        assert points(toy, record) == {"double": 3, "both": 2}
        record["answers"]["both"]["grown"] = 2000
        assert points(toy, record) == {"double": 3, "both": 0}
    finally:
        toy.tasks["both"].peak_limit = None


def test_what_was_not_isolated_says_so(toy, record):
    record["sandboxed"] = False
    assert score(toy, "ada", record).reason.startswith("not isolated")


def test_without_a_record_there_is_a_reason(toy):
    found = without_record(toy, "ada", "3 workers died while they ran this submission")
    assert (found.score, found.reason) == (0, "3 workers died while they ran this submission")


def stopped(ename: str, evalue: str, status: str = "error") -> dict:
    """The answer's cell as the record holds it, with its last error."""
    outputs = [{"output_type": "stream", "name": "stdout", "text": "hello"}]
    outputs.append({"output_type": "error", "ename": ename, "evalue": evalue, "traceback": []})
    return {"status": status, "outputs": outputs, "seconds": 0.1}


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (
            stopped("SyntaxError", "expected ':' (1842.py, line 1)"),
            ": its cell stopped with SyntaxError: expected ':' (line 1)",
        ),
        (
            stopped("NameError", "name 'torch' is not defined"),
            ": its cell stopped with NameError: name 'torch' is not defined",
        ),
        (stopped("E\x1b[2J", "a\n\nb\u202e"), ": its cell stopped with E [2J: a b"),
        (stopped("KeyboardInterrupt", "", "timeout"), ". Was the cell run without an error?"),  # a note tells it
        ({"status": "ok", "outputs": []}, ". Was the cell run without an error?"),  # another name was defined
    ],
)
def test_a_name_that_is_missing_is_told_with_what_its_cell_raised(toy, record, cell, message):
    record["answers"]["double"] = {"missing": ["double"]}
    record["cells"] = {"double": cell}
    task = score(toy, "ada", record).tasks[0]
    assert (task.points, task.message) == (0, f"double is not defined{message}")


def test_a_blank_that_defines_nothing_is_not_answered(toy, record):
    record["answers"]["double"] = {"missing": ["double"]}
    record["cells"] = {"double": stopped("NotImplementedError", "")}
    task = score(toy, "ada", record).tasks[0]
    assert (task.points, task.message) == (0, "not answered yet")


def test_what_a_cell_raised_is_cut(toy, record):
    record["answers"]["double"] = {"missing": ["double"]}
    record["cells"] = {"double": stopped("ValueError", "x y " * 500)}
    message = score(toy, "ada", record).tasks[0].message
    assert "stopped with ValueError: x y" in message and len(message) < 300


def test_nobody_is_told_to_read_again_who_read_nothing_wrongly(toy, record):
    """`double` is wrong. `both` was right, then it is not defined, and then it takes too long."""
    record["answers"]["double"] = {"cases": [1, 2]}
    assert [task.section for task in score(toy, "ada", record).tasks] == ["1.1", ""]
    for answer in ({"missing": ["both"]}, {"reason": "took too long and was stopped"}):
        record["answers"]["both"] = answer
        assert [task.section for task in score(toy, "ada", record).tasks] == ["1.1", ""]
    found = without_record(toy, "ada", "'01_toy.ipynb' is not a notebook: it is empty")
    assert [task.section for task in found.tasks] == ["", ""]


@pytest.mark.parametrize(
    "answer, compared",
    [
        ({"cases": [4, 9]}, True),
        ({"cases": [{"raised": "TypeError: no"}] * 2}, True),
        ({"cases": [{"raised": "NotImplementedError: "}, 4]}, True),
        ({"cases": [{"raised": "NotImplementedError: "}] * 2}, False),
        ({"missing": ["double"]}, False),
        ({"reason": "took too long and was stopped"}, False),
        ({}, False),
    ],
)
def test_only_an_answer_that_is_wrong_is_compared_with_the_known_mistakes(answer, compared, toy):
    right = toy.right("double", SEEDS)
    assert may_be_a_mistake(toy.tasks["double"], answer, right) is compared
    assert not may_be_a_mistake(toy.tasks["double"], {"cases": right}, right)
