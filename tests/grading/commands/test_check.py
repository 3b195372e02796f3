"""Does a reader get the same verdicts at once, without a course, and what they can without the source?"""

import json
import shutil
import subprocess
import sys

import pytest
from answers import ROOT
from small_course import BLANK, HALF, NAME, RIGHT, SQUARE, make, notebook

from ckptlib.cli import main
from ckptlib.grading.assignment.assignment import Assignment
from ckptlib.grading.assignment.visible_answers import visible
from ckptlib.grading.reports import reader_progress
from ckptlib.grading.sandbox.sandbox import use


@pytest.fixture
def check(sandbox, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(reader_progress, "_file", lambda: tmp_path / "progress.json")

    def run_command(path, *options: str) -> tuple[int, str]:
        use(sandbox.address)
        code = main(["check", str(path), *options])
        return code, capsys.readouterr().out

    return run_command


def test_a_folder_and_a_notebook(check, tmp_path):
    course = make(tmp_path / "course", {"you": RIGHT})
    mine = course / "exercises" / NAME
    mine.mkdir(parents=True)
    (mine / f"{NAME}.ipynb").write_text(notebook(SQUARE))
    shutil.copy(course / "source" / NAME / "tasks.py", mine)
    code, out = check(mine)
    assert code == 1
    assert "0 / 3    double" in out and "that is the square" in out and "Read again: 1.1." in out
    assert out.rstrip().endswith("2 / 5")
    assert not reader_progress.seen()[NAME]["passed"]
    code, out = check(course / "submitted/you" / NAME)
    assert code == 0 and out.rstrip().endswith("5 / 5")
    assert not reader_progress.seen()[NAME]["passed"], "somebody else's work"
    (mine / f"{NAME}.ipynb").write_text(notebook(RIGHT))
    assert check(mine / f"{NAME}.ipynb")[0] == 0
    assert reader_progress.seen() == {NAME: {"score": 5, "max_score": 5, "passed": True}}
    (mine / f"{NAME}.ipynb").write_text(notebook(SQUARE))
    assert check(mine)[0] == 1
    assert reader_progress.seen()[NAME]["passed"], "what was solved once stays solved"


def test_without_the_source_the_visible_checks_speak(check, tmp_path):
    course = make(tmp_path / "course", {})
    source = course / "source" / NAME
    alone = tmp_path / "elsewhere" / NAME
    alone.mkdir(parents=True)
    (alone / "visible.json").write_text(json.dumps(visible(Assignment.load(source))))
    shutil.copy(source / "tasks.py", alone)
    (alone / f"{NAME}.ipynb").write_text(notebook({**HALF, "double": SQUARE["double"]}))
    code, out = check(alone)
    assert code == 1 and out.startswith("Only the visible checks were run: the source of")
    assert "0 / 3    double" in out and "that is the square" in out and "1 / 2    both" in out
    assert reader_progress.seen() == {}


@pytest.mark.slow
def test_a_quiz_has_no_points_where_nobody_knows_the_right_letters(check, tmp_path):
    name = "01_activation_memory"
    mine = tmp_path / "week_1"  # a name that the book does not know
    shutil.copytree(ROOT / "exercises" / name, mine)
    released = (mine / f"{name}.ipynb").read_text()
    seen = ("abca", "– quiz recorded. Which letters are right", 9), ("abcz", "0 / 1 quiz q4:", 10)
    for letters, said, total in seen:
        answers = ", ".join(f'\\"{letter}\\"' for letter in letters)
        changed = released.replace("q1 = q2 = q3 = q4 = None", f"q1, q2, q3, q4 = {answers}")
        (mine / f"{name}.ipynb").write_text(changed.replace("raise NotImplementedError()", "pass", 1))
        code, out = check(mine)
        assert code == 1 and said in " ".join(out.split()) and out.rstrip().endswith(f"0 / {total}")
        assert "not answered yet" in out and "Read again" not in out
        _, shown = check(mine, "--json")
        assert json.loads(shown)["tasks"][-1]["recorded"] == (total == 9)


def test_a_notebook_that_nobody_has_changed_gets_at_once_what_it_would_get(check, tmp_path):
    course = make(tmp_path / "course", {"you": BLANK})
    mine = course / "submitted/you" / NAME
    slowly = check(mine, "--json")
    (mine / "visible.json").write_text(json.dumps(visible(Assignment.load(course / "source" / NAME))))
    at_once = """
import sys
from ckptlib.cli import main

code = main(["check", sys.argv[1], "--json"])
assert not {"torch", "nbgrader"} & sys.modules.keys()
sys.exit(code)
"""
    done = subprocess.run([sys.executable, "-c", at_once, mine], capture_output=True, text=True)
    assert (done.returncode, json.loads(done.stdout)) == (slowly[0], json.loads(slowly[1])), done.stderr
    assert [task["message"] for task in json.loads(done.stdout)["tasks"]] == ["not answered yet"] * 2
    elsewhere = json.loads(notebook(BLANK))
    elsewhere["cells"].append({"cell_type": "code", "source": RIGHT["double"], "metadata": {}, "outputs": []})
    (mine / f"{NAME}.ipynb").write_text(json.dumps(elsewhere))
    assert "3 / 3    double" in check(mine)[1]


def test_nothing_to_check(tmp_path, capsys):
    assert main(["check", str(tmp_path)]) == 2
    assert "no notebook in" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "nowhere")]) == 2


def test_progress_is_kept_beside_the_book_if_that_is_where_the_exercises_are(tmp_path, monkeypatch):
    monkeypatch.setattr(reader_progress, "BOOK", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert reader_progress._file() == tmp_path / "home/.ckptlib/progress.json"
    (tmp_path / "exercises").mkdir()
    reader_progress.keep("01", 3, 5)
    reader_progress.keep("01", 2, 5)
    assert reader_progress.seen() == {"01": {"score": 3, "max_score": 5, "passed": False}}
