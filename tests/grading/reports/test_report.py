"""Do the gradebook's scores and the journal's reasons come out as they went in, in every format?"""

import csv
import io
import json
import subprocess
import sys
from datetime import datetime

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from ckptlib.cli import main
from ckptlib.errors import CkptError
from ckptlib.grading.gradebook.course_folders import Course
from ckptlib.grading.gradebook.gradebook import OneGradebook
from ckptlib.grading.gradebook.journal import Journal
from ckptlib.grading.reports.class_report import Answer, Line, Report, collect
from ckptlib.grading.reports.report_formats import as_text, written

NAME = "01_small"
STUB = "def ledger(model):\n    # YOUR CODE HERE\n    raise NotImplementedError()"
LONG = """
def ledger(model, optimizer):
    total = 0
    for parameter in model.parameters():
        total += parameter.numel() * parameter.element_size()
        if parameter.grad is not None:
            total += parameter.grad.numel() * parameter.grad.element_size()
    for state in optimizer.state.values():
        total += sum(value.nbytes for value in state.values() if torch.is_tensor(value))
    return max(total, 0) + len([total]) - 1
"""


def cell(grade_id: str, source: str, **about) -> nbformat.NotebookNode:
    about = {"grade_id": grade_id, "schema_version": 3, "grade": False, "locked": False, "solution": False, **about}
    return new_code_cell(source, id=grade_id, metadata={"nbgrader": about})


def notebook(answer: str) -> nbformat.NotebookNode:
    cells = [cell("ledger", answer, solution=True), cell("quiz", "q1 = 'b'", solution=True)]
    check = {"grade": True, "locked": True}
    cells += [cell("check-ledger", "", points=2, **check), cell("check-quiz", "", points=1, **check)]
    return new_notebook(cells=cells)


# student -> (points of ledger, of quiz, what was said about ledger, the answer)
CLASS = {
    "ada": (2, 1, "", LONG),
    "bob": (
        1,
        1,
        "state: AdamW keeps two.",
        LONG.replace("parameter ", "p ").replace("parameter.", "p.").replace("total", "n"),
    ),
    "cy": (0, 0, "4,096 is not right", "def ledger(model):\n    return 4096"),
    "di": (0, 1, "17 is not right", STUB),
    '=HYPERLINK("http://x")': (0, 0, "=cmd|' /C calc'!A0\x1b[2J", "def ledger(model):\n    return 17"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A course that was graded: a gradebook as `ckptlib grade` fills it, and its journal."""
    folder = tmp_path_factory.mktemp("course")
    (folder / "nbgrader_config.py").write_text('c = get_config()\nc.CourseDirectory.course_id = "small"\n')
    source = folder / "source" / NAME
    source.mkdir(parents=True)
    nbformat.write(
        notebook("def ledger(model):\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION"),
        source / f"{NAME}.ipynb",
    )
    (source / "tasks.py").write_text("from ckptlib.grading import Checks\ncheck = Checks(__file__)\n")
    with OneGradebook(f"sqlite:///{folder}/gradebook.db", "small", print) as book:
        book.add_assignment(NAME)
        book.add_notebook(NAME, NAME)
        for task, most in (("quiz", 1), ("ledger", 2)):  # not in the notebook's order
            book.add_grade_cell(f"check-{task}", NAME, NAME, max_score=most, cell_type="code")
        book.add_student("eve", first_name="Eve", last_name="Late", lms_user_id="77")
        for student, (ledger, quiz, _, _) in CLASS.items():
            book.add_student(student, first_name=student.title(), last_name="Student", email=f"{student}@x.org")
            book.add_submission(NAME, student, timestamp=datetime(2026, 11, 1))
            for task, points in (("ledger", ledger), ("quiz", quiz)):
                book.find_grade(f"check-{task}", NAME, NAME, student).auto_score = points
        book.find_grade("check-quiz", NAME, NAME, "cy").manual_score = 0.5
        book.find_submission_notebook(NAME, NAME, "bob").late_submission_penalty = 0.5
        book.db.commit()
    journal = Journal(folder / ".ckptlib" / NAME)
    for student, (ledger, quiz, message, answer) in CLASS.items():
        tasks = [{"name": "ledger", "points": ledger, "message": message, "missed": [message] if message else []}]
        tasks.append({"name": "quiz", "points": quiz, "message": "", "missed": []})
        flags = ["tampered kernel"] if student == "cy" else []
        journal.keep_graded(student, [], {"tasks": tasks, "flags": flags, "notes": [], "problem": ""})
        answered = {"ledger": answer != STUB, "quiz": True}
        journal.keep_answers(student, {"notebook": notebook(answer), "answered": answered})
    return folder


def run(capsys, *args: str) -> str:
    assert main(["report", NAME, *args]) == 0
    return capsys.readouterr().out


def test_scores_are_the_gradebooks_and_reasons_the_journals(folder):
    report = collect(Course(folder), NAME)
    assert report.tasks == {"ledger": 2, "quiz": 1} and [*report.tasks] == ["ledger", "quiz"]
    lines = {line.student: line for line in report.lines}
    assert lines["ada"].score == 3 and lines["bob"].score == 1.5 and lines["cy"].score == 0.5
    assert lines["eve"].score is None and not lines["eve"].submitted
    assert lines["cy"].answers["quiz"].by_hand and not lines["ada"].answers["quiz"].by_hand
    assert lines["bob"].answers["ledger"].message == "state: AdamW keeps two."
    assert lines["cy"].flags == ["tampered kernel"]
    assert report.max_score == 3 and report.mean_score == pytest.approx((3 + 1.5 + 0.5 + 1 + 0) / 5)


def test_item_statistics_count_answers_and_messages(folder):
    ledger, quiz = collect(Course(folder), NAME).items()
    assert (ledger.submissions, ledger.answered) == (5, 4)
    assert (ledger.right, ledger.partly, ledger.missed) == (1, 1, 3)
    assert ledger.mean_share == pytest.approx(0.3)
    assert ledger.told[0] == ("4,096 is not right", 2)  # and 17: the same idea
    assert (quiz.right, quiz.partly, quiz.missed) == (3, 1, 1)


def test_the_text_tells_it_all_and_no_escape_reaches_the_terminal(folder, capsys):
    text = run(capsys, "--course", str(folder))
    assert "5 submissions of 6 students, 1.20 of 3 points" in text
    assert "2 of 5 were told: 4,096 is not right" in text
    assert "cy: tampered kernel" in text
    assert "ada and bob: 100% alike in ledger" in text
    assert "Too short to compare: ledger (2 answers)." in text
    assert "\x1b" not in text


EMPTY = "'01_small.ipynb' is not a notebook: it is empty"


@pytest.fixture
def mixed() -> Report:
    """Seven files that cannot be read, two answers that can, and two students who handed in nothing."""
    lines = [
        Line(f"bad{i}", submitted=True, problem=EMPTY, answers={"ledger": Answer(0, 2, False, False, EMPTY, [EMPTY])})
        for i in range(7)
    ]
    lines.append(Line("ada", submitted=True, answers={"ledger": Answer(2, 2)}))
    lines.append(
        Line(
            "bob", submitted=True, late_penalty=0.5, answers={"ledger": Answer(1, 2, message="state: AdamW keeps two.")}
        )
    )
    return Report(NAME, {"ledger": 2}, [*lines, Line("eve"), Line("mal\x1b[2J")])


def test_a_file_that_cannot_be_read_is_told_once_and_hides_no_mistake(mixed):
    assert mixed.items()[0].told == [("state: AdamW keeps two.", 1)]
    assert mixed.items()[0].missed == 7  # its points are none all the same
    text = as_text(mixed, None)
    assert text.count("it is empty") == 7 and "Could not be read\n  bad0: '01_small.ipynb' is not a notebook" in text


def test_the_text_names_who_is_missing_and_everybodys_score(mixed):
    text = as_text(mixed, None)
    assert text.startswith(
        f"{NAME}: 9 submissions of 11 students, 0.28 of 2 points on average\nNot handed in: eve, mal�[2J\n"
    )
    assert "\n  ada       2 / 2\n  bob     0.5 / 2, late: 0.5 points less\n" in text and "eve  " not in text
    assert "\x1b" not in text


def test_nothing_is_said_of_what_did_not_happen(folder):
    report = collect(Course(folder), NAME)
    report.lines = report.submitted
    text = as_text(report, None)
    assert "Not handed in" not in text and "Could not be read" not in text


def test_the_journals_problem_is_the_lines(folder, monkeypatch):
    graded = Journal.graded

    def with_a_problem(self, student):
        found = graded(self, student)
        return found | {"problem": EMPTY} if student == "cy" else found

    monkeypatch.setattr(Journal, "graded", with_a_problem)
    assert {line.student: line.problem for line in collect(Course(folder), NAME).lines if line.problem} == {"cy": EMPTY}


def test_csv_has_points_and_message_per_task(folder, capsys):
    rows = [*csv.DictReader(io.StringIO(run(capsys, "--course", str(folder), "--format", "csv")))]
    found = {row["student_id"]: row for row in rows}
    assert len(rows) == 6
    assert found["bob"]["ledger (of 2)"] == "1" and found["bob"]["ledger: message"] == "state: AdamW keeps two."
    assert found["bob"]["score"] == "1.5" and found["bob"]["late_penalty"] == "0.5"
    assert found["eve"]["submitted"] == "no" and found["eve"]["score"] == found["eve"]["quiz (of 1)"] == ""
    odd = found['\'=HYPERLINK("http://x")']
    assert odd["ledger: message"].startswith("'=cmd|") and "\x1b" not in odd["ledger: message"]


def test_canvas_gets_its_columns_and_its_second_row(folder, capsys):
    rows = [*csv.reader(io.StringIO(run(capsys, "--course", str(folder), "--format", "canvas", "--canvas-id", "123")))]
    assert rows[0] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", f"{NAME} (123)"]
    assert rows[1] == ["    Points Possible", "", "", "", "", "3"]
    assert ["Student, Ada", "", "", "ada", "", "3"] in rows
    assert not [row for row in rows if row[3] == "eve"]  # she submitted nothing: an empty cell would delete a grade


def test_json_holds_everything(folder, tmp_path, capsys):
    file = tmp_path / "report.json"
    assert str(file) in run(capsys, "--course", str(folder), "--format", "json", "--output", str(file))
    found = json.loads(file.read_text())
    assert found["similarity"]["pairs"][0]["students"] == ["ada", "bob"]
    assert found["items"][0]["told"][0] == {"message": "4,096 is not right", "students": 2}
    assert {line["student"]: line["score"] for line in found["students"]}["bob"] == 1.5


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", " =1", "\r\n@x", "\0=1", "＝1"])
def test_no_cell_is_a_formula(text):
    ((cell,),) = csv.reader(io.StringIO(written([[text]])))
    assert cell.startswith("'")


def test_numbers_and_honest_text_stay_as_they_are():
    assert written([[-1.5, 2.0, 0.1 + 0.2, None, "a, b", "x=1"]]) == '-1.5,2,0.3,,"a, b",x=1\n'


def test_what_is_missing_is_said(folder, tmp_path, capsys):
    with pytest.raises(CkptError, match="no assignment '02_none', only: 01_small"):
        collect(Course(folder), "02_none")
    with pytest.raises(CkptError, match="there is no gradebook"):
        collect(Course(tmp_path), NAME)
    assert not (tmp_path / "gradebook.db").exists() and not (tmp_path / ".ckptlib").exists()
    assert main(["report", NAME, "--course", str(folder), "--output", str(tmp_path / "no" / "x")]) == 2
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.slow
def test_nbgraders_own_export_writes_a_row_per_student_and_task(folder, tmp_path):
    file = tmp_path / "grades.csv"
    exporter = "--exporter=ckptlib.grading.reports.report_formats.PerQuestionExporter"
    command = [sys.executable, "-m", "nbgrader", "export", exporter, "--to", str(file)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    rows = [*csv.DictReader(file.open())]
    assert len(rows) == 2 * len(CLASS)
    (row,) = [row for row in rows if (row["student_id"], row["task"]) == ("cy", "quiz")]
    assert (row["assignment"], row["points"], row["max_points"], row["by_hand"]) == (NAME, "0.5", "1", "yes")
