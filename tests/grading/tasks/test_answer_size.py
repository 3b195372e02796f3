"""Can an answer's size decide how long its comparison takes? Counted in comparisons, not in seconds."""

import json

import numpy as np
import pytest
from small_course import HALF, NAME, make, notebook

from ckptlib.grading.assignment.assignment import Assignment
from ckptlib.grading.one_submission.grade_one import examine
from ckptlib.grading.one_submission.scoring import score
from ckptlib.grading.sandbox.limits import Limits
from ckptlib.grading.tasks import comparison as comparison_module
from ckptlib.grading.tasks import verdict as verdict_module
from ckptlib.grading.tasks.answer_encoding import encode
from ckptlib.grading.tasks.answer_size import FACTOR, SLACK, fitted
from ckptlib.grading.tasks.comparison import Tolerance
from ckptlib.grading.tasks.probes import Checks, Task

RIGHT = {"one": 1, "row": [1.5, 2.5], "matrix": np.ones((4, 4))}
HUGE = {
    "a list": [0] * 20_000,
    "a list of nothing": [None] * 20_000,
    "floats": [0.5] * 20_000,
    "lists of lists": [[0] * 100] * 200,
    "a text": "x" * 400_000,
    "a dict": {str(i): i for i in range(10_000)},
    "a tensor": np.zeros(20_000),
    "many tensors": [np.zeros(1)] * 5_000,
}
ANSWERS = HUGE | {f"{name} in each part": dict.fromkeys(RIGHT, value) for name, value in HUGE.items()}


def task(parts: bool) -> Task:
    def probe(given, answer):
        return answer()

    return Task(Checks("tasks.py"), probe, 1, "", 2, parts, "answer")


@pytest.mark.parametrize("parts", [True, False])
@pytest.mark.parametrize("name", ANSWERS)
def test_no_answer_is_compared_beyond_the_size_of_the_right_one(name, parts, monkeypatch):
    looked_at = 0
    real = comparison_module.values_in

    def counting(data, ndim=1):
        nonlocal looked_at
        looked_at += data.values.size if hasattr(data, "values") and hasattr(data.values, "size") else 1
        looked_at += len(data) if isinstance(data, (list, str)) else 0
        return real(data, ndim)

    for module in (comparison_module, verdict_module):
        monkeypatch.setattr(module, "values_in", counting)
    asked = task(parts)
    wrong = [{"message": f"idea {i}", "data": [encode({"one": i, "row": [0, i], "matrix": i})] * 2} for i in range(30)]
    verdict = asked.judge([encode(ANSWERS[name])] * 2, [encode(RIGHT)] * 2, wrong, Tolerance())
    assert verdict.share == 0 and verdict.message and len(verdict.message) < 2000
    assert looked_at < 2 * 31 * 3 * 4 * (SLACK + 100)


@pytest.mark.parametrize("name", HUGE)
def test_a_part_that_is_too_large_costs_that_part_only(name):
    answer = RIGHT | {"row": HUGE[name]}
    verdict = task(True).judge([encode(answer)] * 2, [encode(RIGHT)] * 2, [], Tolerance())
    assert verdict.share == pytest.approx(2 / 3)
    assert verdict.message.startswith("row: a ") and "found, expected a list of numbers" in verdict.message


def test_the_kind_and_size_of_a_large_answer_are_named():
    verdict = task(True).judge([encode([0] * 20_000)] * 2, [encode(RIGHT)] * 2, [], Tolerance())
    assert "a list of 20,000 entries found, expected a number" in verdict.message


@pytest.mark.parametrize("right", [RIGHT, [1, 2, 3], "text", 7, np.zeros((100, 100)), [[1.0] * 50] * 20, None])
def test_what_is_as_large_as_the_right_answer_is_kept_unchanged(right):
    encoded = encode(right)
    assert fitted(encoded, encoded) is encoded
    wider = encode([right] * FACTOR)  # a wrong shape is still named by what it is
    assert fitted(wider, encode([right])) is wider


def test_extra_entries_of_a_dict_cost_nothing():
    answer = RIGHT | {f"note {i}": i for i in range(5000)}
    assert task(True).judge([encode(answer)] * 2, [encode(RIGHT)] * 2, [], Tolerance()).right


MANY = """
import json
from IPython.display import display
from ckptlib.grading.run import probes_in_kernel

def respond(request):
    asked = json.loads(request)
    data = {SENT: ["x" * 2**20] * 6}
    display({probes_in_kernel.MIME: {"nonce": asked["nonce"], "data": data}}, raw=True)

probes_in_kernel.respond = respond

def double(x):
    return x
"""


@pytest.mark.parametrize("sent", ["cases", "missing"])
def test_what_nobody_asked_for_is_not_kept(sent, sandbox, tmp_path):
    """A journal that kept it would be slow to read, each time that the class is graded again."""
    source = Assignment.load(make(tmp_path, {}) / "source" / NAME)
    answers = {**HALF, "double": MANY.replace("SENT", repr(sent))}
    files = {f"{NAME}.ipynb": notebook(answers).encode()}
    record = examine(source, files, {"double": [1, 2], "both": [1, 2]}, Limits(), sandbox.address)
    assert set(record["answers"]["double"]) <= {sent, "grown"} and len(json.dumps(record["answers"])) < 1000
    result = score(source, "", record)
    assert result.score == 0 and all(task.message for task in result.tasks)
