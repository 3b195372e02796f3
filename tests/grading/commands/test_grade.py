"""Does `ckptlib grade` put every score and its reason where nbgrader, instructor and student look for them?"""

import contextlib
import io
import json
import os
from datetime import datetime

import nbformat
import pytest
from nbgrader.converters import Autograde, GenerateAssignment, GenerateFeedback
from nbgrader.plugins import CsvExportPlugin
from small_course import BLANK, HALF, NAME, RIGHT, SQUARE, make, notebook, result, submit

from ckptlib.cli import main
from ckptlib.grading.assignment.assignment import Assignment
from ckptlib.grading.assignment.visible_answers import visible
from ckptlib.grading.authoring.make_release import release
from ckptlib.grading.gradebook.course_folders import Course
from ckptlib.grading.gradebook.gradebook import OneGradebook
from ckptlib.grading.sandbox.sandbox import use

EVERYBODY = {"ada": RIGHT, "bob": HALF, "cyd": SQUARE, "dan": BLANK}
SCORES = {"ada": 5, "bob": 4, "cyd": 2, "dan": 0}


def book(course) -> OneGradebook:
    return OneGradebook(f"sqlite:///{course}/gradebook.db", "toys", print)


@pytest.fixture(scope="module")
def graded(tmp_path_factory, sandbox):
    """A course that has been graded once, with late, missing and mangled work in it; and what was printed."""
    course = make(tmp_path_factory.mktemp("graded"), EVERYBODY)
    (submit(course, "late", RIGHT) / "timestamp.txt").write_text("2026-01-03 00:00:00 UTC")
    (course / "submitted/none" / NAME).mkdir(parents=True)
    (submit(course, "html", RIGHT) / f"{NAME}.ipynb").write_text("<html>sign in</html>")
    links = submit(course, "links", RIGHT)
    (links / "gradebook.db").symlink_to(course / "gradebook.db")
    (links / "all").symlink_to("/")
    os.mkfifo(links / "pipe")
    with book(course) as gradebook:
        gradebook.add_assignment(NAME, duedate="2026-01-01 00:00:00 UTC")
    # nbgrader's own rule for lateness is none; a course writes a plugin
    (course / "nbgrader_config.py").write_text(
        "c = get_config()\n"
        "from nbgrader.plugins import LateSubmissionPlugin\n"
        "class Daily(LateSubmissionPlugin):\n"
        "    def late_submission_penalty(self, student_id, score, total_seconds_late):\n"
        "        return total_seconds_late // 86400 * 0.5\n"
        "c.CourseDirectory.course_id = 'toys'\n"
        "c.AssignLatePenalties.plugin_class = Daily\n"
    )
    use(sandbox.address)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["grade", NAME, "--course", str(course), "--json"]) == 0
    return course, json.loads(out.getvalue())


def test_every_submission_has_a_score_and_a_reason(graded):
    _, printed = graded
    found = {each["student"]: each for each in printed["submissions"]}
    assert {name: found[name]["score"] for name in SCORES} == SCORES
    assert {name: found[name]["score"] for name in ("late", "none", "html", "links")} == {
        **{"late": 4, "none": 0, "html": 0, "links": 5}
    }
    assert found["ada"]["reason"] == "every task is right"
    assert "that is the square" in found["cyd"]["reason"]
    assert "not answered" in found["dan"]["reason"]
    assert "1 points less" in found["late"]["reason"]
    assert "no file was submitted" in found["none"]["reason"]
    assert "is not a notebook: it seems to be a web page" in found["html"]["reason"]
    assert sum("a link, so it was left out" in note for note in found["links"]["notes"]) == 2
    assert any("pipe" in note for note in found["links"]["notes"])
    assert all(each["max_score"] == 5 and each["reason"] for each in found.values())
    assert printed["kernels"] == 8


def test_a_folder_whose_name_is_no_text_gets_a_reason_and_costs_nobody_else_anything(tmp_path, sandbox, capsys):
    course = make(tmp_path, {"ada": RIGHT})
    os.rename(submit(course, "bob", RIGHT).parent, os.fsencode(course / "submitted") + b"/b\xf6b")
    use(sandbox.address)
    assert main(["grade", NAME, "--course", str(course), "--json"]) == 1
    scores = {each["student"]: each for each in json.loads(capsys.readouterr().out)["submissions"]}
    assert scores["ada"]["score"] == 5
    assert "Rename the folder" in scores[os.fsdecode(b"b\xf6b")]["reason"]


def test_the_gradebook_holds_what_was_printed(graded):
    course, printed = graded
    with book(course) as gradebook:
        for each in printed["submissions"]:
            submission = gradebook.find_submission(NAME, each["student"])
            assert (submission.score - (submission.late_submission_penalty or 0)) == each["score"]
            assert not submission.needs_manual_grade
            grades = {grade.name: grade.auto_score for grade in submission.notebooks[0].grades}
            assert grades == {task["grade_id"]: task["points"] for task in each["tasks"]}
        assert gradebook.find_submission(NAME, "late").timestamp == datetime(2026, 1, 3)
        assert gradebook.find_comment("double", NAME, NAME, "dan").auto_comment == "No response."


def test_autograded_is_what_nbgrader_would_have_written(graded):
    course, _ = graded
    folder = course / "autograded/bob" / NAME
    assert {path.name for path in folder.iterdir()} == {f"{NAME}.ipynb", "tasks.py"}
    assert all(path.stat().st_mode & 0o777 == 0o444 for path in folder.iterdir())
    found = nbformat.read(folder / f"{NAME}.ipynb", 4)
    nbformat.validate(found)
    outputs = {cell.id: cell.get("outputs") for cell in found.cells}
    assert outputs["check-both"][-1].data["text/plain"] == "1"
    assert "product" in outputs["check-both"][0].text
    assert "HIDDEN" not in nbformat.writes(found)
    assert {p.name for p in (course / "autograded/links" / NAME).iterdir()} == {f"{NAME}.ipynb", "tasks.py"}
    page = (course / "feedback/cyd" / NAME / f"{NAME}.html").read_text()
    assert "that is the square" in page and "hidden=True" not in page


def test_nbgrader_goes_on_from_there(graded, tmp_path):
    course, _ = graded
    app = Course(course).app
    app.coursedir.assignment_id = NAME
    GenerateFeedback(coursedir=app.coursedir, parent=app, force=True).start()
    assert "that is the square" in (course / "feedback/cyd" / NAME / f"{NAME}.html").read_text()
    with book(course) as gradebook:
        CsvExportPlugin(parent=app, to=str(tmp_path / "grades.csv")).export(gradebook)
    rows = (tmp_path / "grades.csv").read_text().splitlines()
    assert len(rows) == 1 + 8
    assert any(f"{NAME}," in row and ",cyd," in row and ",2.0," in row for row in rows)


def test_what_an_instructor_graded_by_hand_stays(grade, tmp_path):
    course = make(tmp_path, {"ada": RIGHT, "cyd": SQUARE})
    assert grade(course)[0] == 0
    with book(course) as gradebook:
        found = gradebook.find_grade("check-double", NAME, NAME, "cyd")
        found.manual_score, found.extra_credit = 2.5, 0.25
        gradebook.find_comment("double", NAME, NAME, "cyd").manual_comment = "nearly"
        gradebook.db.commit()
    submit(course, "cyd", {**SQUARE, "both": BLANK["both"]})
    code, out, _ = grade(course, "--json")
    cyd = result(out)["cyd"]
    assert code == 0 and json.loads(out)["kernels"] == 1
    assert cyd["score"] == 2.75 and cyd["tasks"][0]["by_hand"]
    with book(course) as gradebook:
        found = gradebook.find_grade("check-double", NAME, NAME, "cyd")
        assert (found.manual_score, found.auto_score, found.extra_credit) == (2.5, 0, 0.25)
        assert found.needs_manual_grade  # as nbgrader does it: somebody should look again
        assert gradebook.find_comment("double", NAME, NAME, "cyd").manual_comment == "nearly"
    assert "nearly" in (course / "feedback/cyd" / NAME / f"{NAME}.html").read_text()


def test_a_changed_key_is_judged_again_without_a_kernel(grade, tmp_path):
    course = make(tmp_path, {"cyd": SQUARE, "bob": HALF})
    assert grade(course)[0] == 0
    key = course / "source" / NAME / "key.py"
    key.write_text(key.read_text().replace("that is the square", "x is multiplied by itself"))
    _, out, _ = grade(course, "--json")
    assert json.loads(out)["kernels"] == 0
    assert "multiplied by itself" in result(out)["cyd"]["reason"]
    _, out, _ = grade(course, "--json", "--fresh", "--student", "bob")
    assert json.loads(out)["kernels"] == 1 and list(result(out)) == ["bob"]


def test_one_student(grade, tmp_path):
    course = make(tmp_path, {"ada": RIGHT, "bob": HALF})
    code, out, _ = grade(course, "--student", "bob")
    assert code == 0 and "bob" in out and "ada" not in out
    code, _, err = grade(course, "--student", "eve")
    assert code == 2 and "'eve' has not submitted" in err and "ada, bob" in err


def test_mistakes_in_use_name_what_is_there(grade, tmp_path, capsys):
    course = make(tmp_path, {})
    assert main(["grade", "02_missing", "--course", str(course)]) == 2
    err = capsys.readouterr().err
    assert "no assignment '02_missing'" in err and NAME in err.split("Available assignments:")[1]
    code, _, err = grade(course)
    assert code == 2 and "nothing was submitted" in err
    assert main(["grade", NAME, "--course", str(course / "nowhere")]) == 2


@pytest.mark.slow
def test_stock_nbgrader_gives_the_same_scores(tmp_path):
    """The fallback for any platform. Its kernels are cold, so two students must do."""
    course = make(tmp_path, {"ada": RIGHT, "bob": HALF})
    source = course / "source" / NAME
    (source / "visible.json").write_text(json.dumps(visible(Assignment.load(source))))
    app = Course(course).app
    app.coursedir.assignment_id = NAME
    with book(course):  # nbgrader makes a gradebook with a command that need not be on the PATH
        GenerateAssignment(coursedir=app.coursedir, parent=app).start()
        Autograde(coursedir=app.coursedir, parent=app).start()
    with book(course) as gradebook:
        found = {name: gradebook.find_submission(NAME, name).score for name in ("ada", "bob")}
    assert found == {name: SCORES[name] for name in found}


def test_the_release_is_the_same_bytes_every_time_and_holds_no_key(tmp_path):
    course = Course(make(tmp_path, {}, 'c.CourseDirectory.ignore = ["key.py", "__pycache__"]'))
    first = {path.name: path.read_bytes() for path in release(course, NAME).iterdir()}
    assert first == {path.name: path.read_bytes() for path in release(course, NAME).iterdir()}
    assert set(first) == {f"{NAME}.ipynb", "tasks.py", "visible.json"}
    assert b"2 * x" not in first[f"{NAME}.ipynb"] and b"hidden" not in first[f"{NAME}.ipynb"]
    assert notebook(BLANK)  # what a student starts from
