"""Without the source: does a notebook get what it would get with it, whatever an editor made of its file?"""

import json
import shutil

import pytest
from small_course import BLANK, HALF, NAME, RIGHT, make, notebook

from ckptlib.cli import main
from ckptlib.grading.assignment.assignment import Assignment
from ckptlib.grading.assignment.visible_answers import visible
from ckptlib.grading.sandbox.sandbox import use

ALONE = "Only the checks that you can see"


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


# ---- what is said about a task without an answer --------------------------------------------------------------------
def test_an_answer_cell_that_is_gone_or_is_text(check):
    found = plain(RIGHT)
    found["cells"][4] = {"cell_type": "markdown", "metadata": {}, "source": RIGHT["both"]}
    code, out = check(found)
    assert code == 1 and "0 / 2    both" in out
    said = " ".join(out.split())
    assert f"both is not defined in any code cell of '{NAME}.ipynb'" in said and "or turned into text?" in said


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
    (alone / f"{NAME}-Copy1.ipynb").write_text(notebook(RIGHT))
    code, out = check(plain(BLANK))
    assert code == 1 and f"'{NAME}.ipynb' was read, not '{NAME}-Copy1.ipynb'" in out


# ---- nothing to check -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        (None, "there is no tasks.py beside"),
        ("import nothing_of_this_name", "cannot be used: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("from ckptlib.grading import Checks\ncheck = Checks(__file__)", "names no task"),
        ("import os\nos._exit(0)", "cannot be used: its kernel ended"),
    ],
)
def test_tasks_that_are_not_known(check, alone, tasks, said):
    (alone / "tasks.py").unlink() if tasks is None else (alone / "tasks.py").write_text(tasks)
    code, out = check(plain(RIGHT))
    assert code == 1 and said in out and "Put the notebook into the folder that its assignment came in" in out


def test_no_notebook_at_all(check):
    code, out = check(b"%PDF-1.4")
    assert code == 1 and "is not a notebook: it seems to be a PDF" in out
