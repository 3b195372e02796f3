"""Without the source: does a notebook get what it would get with it, whatever became of its file and of its cells?"""

import json
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_course import BLANK, HALF, NAME, RIGHT, SQUARE, make, notebook, result

from ckptlib.cli import main
from ckptlib.grading.assignment.assignment import Assignment
from ckptlib.grading.assignment.visible_answers import visible
from ckptlib.grading.one_submission.grade_one import examine
from ckptlib.grading.one_submission.scoring import score
from ckptlib.grading.one_submission.tasks_without_source import released
from ckptlib.grading.sandbox.limits import Limits
from ckptlib.grading.sandbox.sandbox import use

ALONE = "Only the visible checks were run"


@pytest.fixture
def alone(tmp_path):
    """A reader's folder, far from any source; the notebook is still to be written."""
    source = make(tmp_path / "course", {}) / "source" / NAME
    folder = tmp_path / "elsewhere" / NAME
    folder.mkdir(parents=True)
    (folder / "visible.json").write_text(json.dumps(visible(Assignment.load(source))))
    shutil.copy(source / "tasks.py", folder)
    return folder


@pytest.fixture
def check(sandbox, capsys, alone):
    """`check(data)` checks a notebook file without its source; `check(data, folder)` somewhere else."""

    def run_command(data: bytes | dict, folder=alone) -> tuple[int, str]:
        folder.mkdir(parents=True, exist_ok=True)
        raw = data if isinstance(data, bytes) else json.dumps(data, ensure_ascii=False).encode()
        (folder / f"{NAME}.ipynb").write_bytes(raw)
        use(sandbox.address)
        code = main(["check", str(folder)])
        out = capsys.readouterr().out
        assert out.startswith(ALONE) == (folder == alone)
        return code, out

    return run_command


def plain(answers: dict[str, str]) -> dict:
    return json.loads(notebook(answers))


def bare(answers: dict[str, str]) -> dict:
    """As an editor leaves it that knows nothing of nbgrader: no metadata, no ids."""
    found = plain(answers)
    found["cells"] = [{key: cell[key] for key in ("cell_type", "source")} | {"metadata": {}} for cell in found["cells"]]
    return found


def of_version_2(answers: dict[str, str]) -> dict:
    cells = [{"cell_type": "code", "input": cell["source"]} for cell in bare(answers)["cells"][1:]]
    return {"nbformat": 2, "metadata": {}, "worksheets": [{"cells": cells}]}


def in_latin_1(answers: dict[str, str]) -> bytes:
    found = plain(answers)
    found["cells"][0]["source"] = "# Übung"
    return json.dumps(found, ensure_ascii=False).encode("latin-1")


def of_version_5(answers: dict[str, str]) -> dict:
    return plain(answers) | {"nbformat": 5, "nbformat_minor": 1, "metadata": {"kernelspec": {"name": "ir"}}}


def without(key: str):
    return lambda answers: {name: value for name, value in plain(answers).items() if name != key}


def without_points(answers: dict[str, str]) -> dict:
    found = plain(answers)
    for cell in found["cells"]:
        cell["metadata"].get("nbgrader", {}).pop("points", None)
    return found


MANGLED = {
    "no metadata of any cell": bare,
    "nbformat 2": of_version_2,
    "Latin-1": in_latin_1,
    "UTF-16": lambda answers: notebook(answers).encode("utf-16"),
    "nbformat 5.1, R": of_version_5,
    "no metadata": without("metadata"),
    "no nbformat": without("nbformat"),
    "the rest of an older file": lambda answers: notebook(answers).encode() + b'"older"]}',
    "no points": without_points,
}


# ---- any file that `ckptlib grade` can read -------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("mangled", MANGLED.values(), ids=MANGLED.keys())
def test_the_same_points_as_with_the_source(check, mangled, tmp_path):
    code, out = check(mangled(HALF))
    with_source = check(mangled(HALF), tmp_path / "course/submitted/you" / NAME)
    for said in ((code, out), with_source):
        assert said[0] == 1 and said[1].rstrip().endswith("4 / 5")
    assert "1 / 2    both" in out and "product" in out


@pytest.mark.parametrize("mangled", [bare, of_version_2])
def test_full_marks_are_for_answers(check, mangled):
    code, out = check(mangled(BLANK))
    assert code == 1 and "0 / 3    double" in out and out.rstrip().endswith("0 / 5")
    code, out = check(mangled(RIGHT))
    assert code == 0 and out.rstrip().endswith("5 / 5")


@pytest.mark.parametrize("change", ["gone", "edited"])
def test_a_check_cell_that_is_missing_or_edited_is_no_task_less(check, change):
    found = plain({**RIGHT, "both": BLANK["both"]})
    last = found["cells"].pop()
    if change == "edited":
        found["cells"].append(last | {"source": "pass"})
    code, out = check(found)
    assert code == 1 and "0 / 2    both" in out and out.rstrip().endswith("3 / 5")


# ---- cells that were moved, repeated or deleted ---------------------------------------------------------------------
def moved(answers: dict[str, str]) -> dict:
    """The answer to `double` stands last, and needs a name that the cell before it defines."""
    found = plain({**answers, "double": "two = factor\ndef double(x):\n    return two * x"})
    helper = {"cell_type": "code", "source": "factor = 2", "metadata": {}, "outputs": [], "execution_count": None}
    found["cells"] += [helper, found["cells"].pop(2)]
    return found


def with_the_stub_again(answers: dict[str, str]) -> dict:
    found = plain(answers)
    found["cells"].append(found["cells"][2] | {"source": BLANK["double"], "id": "again"})
    return found


def without_the_first_cells(answers: dict[str, str]) -> dict:
    found = plain({**answers, "double": "check\n" + answers["double"]})
    del found["cells"][:2]  # the cell that imports `check` is locked, and comes back
    return found


def as_text(answers: dict[str, str]) -> dict:
    found = plain(answers)
    found["cells"][4] = {"cell_type": "markdown", "metadata": {}, "source": answers["both"]}
    return found


def without_an_answer_cell(answers: dict[str, str]) -> dict:
    found = plain(answers)
    del found["cells"][4]
    return found


@pytest.mark.parametrize(
    ("changed", "points", "note"),
    [
        (moved, 5, "cells had been moved; they were run in the order of the assignment"),
        (with_the_stub_again, 5, "the answer cell 'double' existed 2 times; the copies were dropped"),
        (without_the_first_cells, 5, "locked cells were missing and have been restored: 'setup'"),
        (as_text, 5, "the answer cell 'both' had been turned into markdown and was read as code"),
        (without_an_answer_cell, 3, "the answer cell 'both' was missing and was replaced with the empty one"),
    ],
)
def test_a_check_says_what_grading_says(check, grade, tmp_path, changed, points, note):
    code, out = check(changed(RIGHT))
    assert code == (points < 5) and out.rstrip().endswith(f"{points} / 5") and note in out
    submitted = tmp_path / "course/submitted/you" / NAME
    submitted.mkdir(parents=True)
    (submitted / f"{NAME}.ipynb").write_text(json.dumps(changed(RIGHT)))
    graded = result(grade(tmp_path / "course", "--json", "--workers", "1")[1])["you"]
    assert graded["score"] == points and note in graded["notes"]
    for task in graded["tasks"]:
        assert f"{task['points']:g} / {task['max_points']:g}" in out and task["message"] in out


CELLS = [
    *plain(RIGHT)["cells"],
    *(plain(answers)["cells"][at] for answers in (BLANK, HALF, SQUARE) for at in (2, 4)),
    {"cell_type": "code", "source": "def double(x):\n    return helper * x\nhelper = 2", "metadata": {}},
    {"cell_type": "code", "source": "helper = 3\nboth", "metadata": {}},
    {"cell_type": "code", "source": "del double", "metadata": {}},
]


@pytest.mark.slow
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(CELLS), max_size=10), st.booleans())
def test_the_verdicts_are_those_of_grading(sandbox, alone, tmp_path, cells, bare):
    """Whatever became of the cells: on the same inputs, the release alone says what the source says."""
    cells = [{**cell, "metadata": {}} if bare else dict(cell) for cell in cells]
    for cell in cells:
        cell.pop("id", None)
    files = {path.name: path.read_bytes() for path in alone.iterdir()}
    files[f"{NAME}.ipynb"] = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}).encode()
    use(sandbox.address)
    seen = []
    for assignment in (released(files), Assignment.load(tmp_path / "course/source" / NAME)):
        seeds = {name: task.visible_seeds() for name, task in assignment.tasks.items()}
        found = score(assignment, "", examine(assignment, files, seeds, Limits(), sandbox.address))
        seen.append((found.tasks, found.notes, found.flags, found.problem))
    assert seen[0] == seen[1] and len(seen[0][0]) == 2


# ---- what is said about a task without an answer --------------------------------------------------------------------


def test_an_answer_cell_that_stopped(check):
    code, out = check(bare({**RIGHT, "double": f"import nothing_of_this_name\n{RIGHT['double']}"}))
    assert code == 1 and "double is not defined: its cell stopped with ModuleNotFoundError" in " ".join(out.split())


def test_a_blank_that_defines_nothing(check):
    code, out = check(bare({**RIGHT, "double": "# YOUR CODE HERE\nraise NotImplementedError()\ndouble = None"}))
    assert code == 1 and "not answered yet" in out and "NotImplementedError" not in out


def test_lines_for_colab_do_not_stop_a_cell(check):
    mount = "from google.colab import drive\ndrive.mount('/content/drive')\n"
    code, out = check(bare({**RIGHT, "double": mount + RIGHT["double"]}))
    assert code == 0 and "Note: lines that only Google Colab can run" in out


def test_several_notebooks(check, alone):
    """The one with the expected name is read if there are answers in it, as when it is graded."""
    (alone / f"{NAME}-Copy1.ipynb").write_text(notebook(RIGHT))
    code, out = check(plain(HALF))
    assert code == 1 and f"'{NAME}.ipynb' was read, not '{NAME}-Copy1.ipynb'" in out
    code, out = check(plain(BLANK))
    assert code == 0 and f"'{NAME}-Copy1.ipynb' was read, not '{NAME}.ipynb'" in out


# ---- nothing to check -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        (None, "there is no tasks.py beside"),
        ("import nothing_of_this_name", "cannot be used: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("from ckptlib.grading import Checks\ncheck = Checks(__file__)", "does not define a task"),
        ("import os\nos._exit(0)", "cannot be used: its kernel ended"),
    ],
)
def test_tasks_that_are_not_known(check, alone, tasks, said):
    (alone / "tasks.py").unlink() if tasks is None else (alone / "tasks.py").write_text(tasks)
    code, out = check(plain(RIGHT))
    assert code == 1 and said in out and "Put the notebook into the folder that its assignment came in" in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "visible.json is missing, damaged or too old: it does not have 'double'"),
        ("[1]", "visible.json is missing, damaged or too old: it does not have 'double'"),
        ("notebook", "visible.json is damaged or too old: it does not hold the released notebook"),
        ("cells", "visible.json is damaged or too old: it does not hold the released notebook"),
    ],
)
def test_what_to_expect_is_not_known(check, alone, text, said):
    file = alone / "visible.json"
    shown = json.loads(file.read_text())
    if text == "notebook":
        del shown[f"{NAME}.ipynb"]
    if text == "cells":
        shown[f"{NAME}.ipynb"]["cells"] = [7]
    file.unlink() if text is None else file.write_text(text if text == "[1]" else json.dumps(shown))
    code, out = check(plain(RIGHT))
    assert code == 1 and said in " ".join(out.split()) and "fetch the assignment again" in out


def test_no_notebook_at_all(check):
    code, out = check(b"%PDF-1.4")
    assert code == 1 and "is not a notebook: it seems to be a PDF" in out
