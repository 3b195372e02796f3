"""Does an instructor find our scores in nbgrader's Formgrader, and does what they add by hand survive the next run?"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import classroom  # noqa: E402
from lab import jupyter_lab  # noqa: E402
from nbgrader.api import Gradebook  # noqa: E402
from playwright.sync_api import Page, expect  # noqa: E402

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NAME = classroom.NAME
STUDENTS = ("ada", "ken", "tony", "mallory", "eve", "pixel")
COMMENT = "A good idea, and no return."
PIXEL = """from IPython.display import HTML, Javascript, Markdown, display
evil = "<script>window.ran = 1</script><img src=x onerror='window.ran = 2'><svg onload='window.ran = 3'></svg>"
display(HTML(evil), Markdown(evil), Javascript("window.ran = 4"))
print(evil)
def ledger(model, optimizer):
    raise ValueError(evil)
"""


def ckptlib(course: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "ckptlib.cli", *arguments]
    done = subprocess.run(command, cwd=course, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def course(tmp_path_factory, need) -> Path:
    """A graded class of five: one is right, one mistaken, and three attack, one of them this very page."""
    need("bubblewrap")
    course = tmp_path_factory.mktemp("classroom")
    (course / "nbgrader_config.py").write_text(classroom.CONFIG)
    shutil.copytree(ROOT / "solutions" / NAME, course / "source" / NAME)
    classroom.run(course, "nbgrader", "generate_assignment", NAME, "--log-level=WARN")
    known = classroom.Assignment.load(ROOT / "solutions" / NAME)
    files = classroom.everybody() | {"pixel": {f"{NAME}.ipynb": classroom.submission(known, {"ledger": PIXEL})}}
    for student in STUDENTS:
        classroom.hand_in(course, student, files[student])
    ckptlib(course, "grade", NAME)
    return course


@pytest.fixture(scope="module")
def formgrader(course, browser, tmp_path_factory):
    """`formgrader(path)` opens a page of the Formgrader, in a tab that is logged in."""
    with jupyter_lab(course, tmp_path_factory.mktemp("home")) as address:
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.goto(address.format(path="formgrader"))

        def open_page(path: str) -> Page:
            tab.goto(address.format(path=f"formgrader/{path}").split("?")[0])
            return tab

        yield open_page


def submission(course: Path, student: str):
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "classroom") as gradebook:
        found = gradebook.find_submission_notebook(NAME, NAME, student)
        grade = gradebook.find_grade("check-predict_saved", NAME, NAME, student)
        comment = gradebook.find_comment("predict_saved", NAME, NAME, student)
        return found.id, found.score, grade.manual_score, comment.manual_comment, found.flagged


def score_in_list(page: Page, student: str) -> str:
    """The overall score in the list of an assignment's submissions."""
    row = page.locator("tr", has=page.locator("a", has_text=re.compile(f"^{student}$")))
    return row.locator("td").nth(2).inner_text()


def test_the_assignment_its_submissions_and_their_scores_are_there(formgrader, course):
    page = formgrader("manage_assignments")
    row = page.locator("tr", has_text=NAME)
    expect(row.locator(".num-submissions")).to_have_text(str(len(STUDENTS)), timeout=20_000)
    page = formgrader(f"gradebook/{NAME}/{NAME}")
    expect(page.locator("tbody tr")).to_have_count(len(STUDENTS), timeout=20_000)
    page.get_by_text("Show All Names").click()
    for student in STUDENTS:
        _, score, *_ = submission(course, student)
        assert score_in_list(page, student) == f"{round(score, 2):g} / 10"
    assert submission(course, "ada")[1] == 10
    assert [student for student in STUDENTS if submission(course, student)[-1]] == ["mallory"]  # flagged


@pytest.mark.parametrize("student", STUDENTS)
def test_a_page_says_the_verdicts_and_runs_nothing(formgrader, course, student):
    dialogs = []
    page = formgrader(f"submissions/{submission(course, student)[0]}")
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.reload()
    expect(page.locator(".nbgrader_cell input.score").first).to_be_visible(timeout=20_000)
    text = page.locator("body").inner_text()
    said = {
        "ada": "predict_saved: right.",
        "tony": "Is a `return` missing?",
        "mallory": "flagged: tampered kernel",
        "eve": "q1, q2, q3, q4: not answered",
        "ken": "Read again: 1.",
        "pixel": "ledger: ",
    }
    assert said[student] in text
    assert page.evaluate("window.ran") is None and dialogs == []
    assert page.locator("#notebook-container script, svg[onload], img[onerror]").count() == 0


def test_what_is_graded_by_hand_survives_the_next_runs(formgrader, course):
    identity, before, *_ = submission(course, "tony")
    page = formgrader(f"submissions/{identity}")
    # The page shows its fields before it has asked the server what they hold. What is typed earlier is overwritten.
    page.wait_for_function("formgrader.grades.loaded && formgrader.comments.loaded", timeout=60_000)
    for field, kind, text in (("input.score", "grade", "1.5"), ("textarea.comment", "comment", COMMENT)):

        def saved(response, kind=kind):
            return f"/api/{kind}/" in response.url and response.request.method == "PUT"

        # Leaving a field saves it, and the page may move the focus by itself, so the wait begins before the typing.
        with page.expect_response(saved, timeout=60_000):
            page.locator(field).first.fill(text)
            page.locator(field).first.press("Tab")
    for options in ([], ["--fresh"]):
        ckptlib(course, "grade", NAME, *options)
        kept = submission(course, "tony")
        assert kept[:4] == (identity, pytest.approx(before + 1.5), 1.5, COMMENT)
        page = formgrader(f"submissions/{identity}")
        expect(page.locator("input.score").first).to_have_value("1.5", timeout=20_000)
        expect(page.locator("textarea.comment").first).to_have_value(COMMENT, timeout=20_000)
    feedback = (course / "feedback" / "tony" / NAME / f"{NAME}.html").read_text()
    assert "graded by hand" in feedback and COMMENT in feedback
