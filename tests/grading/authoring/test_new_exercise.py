"""Is a new exercise valid from the first moment: released, solved, failed and graded?"""

import json

import nbformat
import pytest

from ckptlib.cli import main
from ckptlib.grading.sandbox.sandbox import use

NAME = "11_my_topic"


@pytest.fixture
def course(tmp_path):
    assert main(["new-exercise", NAME, "--course", str(tmp_path)]) == 0
    return tmp_path


def test_its_own_solutions_get_all_points(course, sandbox, capsys):
    use(sandbox.address)
    assert main(["check", str(course / "source" / NAME)]) == 0
    out = capsys.readouterr().out
    assert "2 / 2" in out and "edited" not in out, "its hidden tests are nobody's edit"


def test_students_get_neither_solutions_nor_key(course, capsys):
    assert main(["release", NAME, "--course", str(course)]) == 0
    released = {path.name: path.read_text() for path in (course / "release" / NAME).iterdir()}
    assert sorted(released) == [f"{NAME}.ipynb", "quiz.json", "tasks.py", "visible.json"]
    assert "4 * rows" not in released[f"{NAME}.ipynb"] and "hidden" not in released[f"{NAME}.ipynb"].lower()
    nbformat.validate(nbformat.reads(released[f"{NAME}.ipynb"], as_version=4))
    assert f"release/{NAME}: " in capsys.readouterr().out


def test_a_class_is_graded_with_it(course, sandbox, capsys):
    use(sandbox.address)
    assert main(["release", NAME, "--course", str(course)]) == 0
    answers = {"right": "4 * r * c", "both": "8 * r * c", "blank": None}
    for student, answer in answers.items():
        notebook = nbformat.read(course / "release" / NAME / f"{NAME}.ipynb", as_version=4)
        for cell in notebook.cells:
            if answer and cell.id == "saved_nbytes":
                cell.source = f"def saved_nbytes(r, c):\n    return {answer}"
            if answer and cell.id == "quiz":
                cell.source = "q1 = 'b'"
        folder = course / "submitted" / student / NAME
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / f"{NAME}.ipynb")
    capsys.readouterr()
    assert main(["grade", NAME, "--course", str(course), "--json"]) == 0
    graded = {each["student"]: each for each in json.loads(capsys.readouterr().out)["submissions"]}
    assert {student: each["score"] for student, each in graded.items()} == {"right": 2, "both": 1, "blank": 0}
    assert "only the output is saved" in graded["both"]["reason"]


def test_nothing_is_overwritten_and_no_key_is_given_away(course, capsys):
    assert main(["new-exercise", NAME, "--course", str(course)]) == 2
    assert "exists" in capsys.readouterr().err
    assert main(["new-exercise", "../x", "--course", str(course)]) == 2
    (course / "nbgrader_config.py").write_text("c = get_config()\n")
    for command in (["new-exercise", "12_x"], ["release", NAME]):
        assert main([*command, "--course", str(course)]) == 2
        assert "would release key.py" in capsys.readouterr().err
    assert not (course / "source/12_x").exists()
