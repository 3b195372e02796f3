"""Does feedback reach students through nbgrader's exchange, whatever somebody else has handed in?"""

import os
from pathlib import Path

import nbformat
import pytest
from nbgrader.auth import Authenticator
from nbgrader.exchange import default as exchange
from small_course import NAME, RIGHT, SQUARE, make, submit

from ckptlib.grading.authoring.make_release import release
from ckptlib.grading.gradebook.course_folders import Course
from ckptlib.grading.gradebook.gradebook import OneGradebook

CONFIG = """
c.CourseDirectory.ignore = ["key.py"]
c.Exchange.root = {root!r}
c.Exchange.cache = {cache!r}
c.Exchange.assignment_dir = {home!r}
"""


@pytest.fixture
def places(tmp_path):
    """Of the exchange, and of a student."""
    found = {name: str(tmp_path / name) for name in ("root", "cache", "home")}
    for folder in found.values():
        Path(folder).mkdir()
    os.chmod(found["root"], 0o777)  # so nbgrader wants it
    return found


def step(course: Path, what: str) -> None:
    """One of nbgrader's commands, as `nbgrader release_assignment` and so on do it."""
    app = Course(course).app
    app.coursedir.assignment_id = NAME
    kind = getattr(exchange, f"Exchange{what}")
    kind(coursedir=app.coursedir, authenticator=Authenticator(parent=app), parent=app).start()


@pytest.mark.slow
def test_there_and_back(tmp_path, places, grade):
    course = make(tmp_path / "course", {}, CONFIG.format(**places))
    release(Course(course), NAME)
    for what in ("ReleaseAssignment", "FetchAssignment"):
        step(course, what)
    mine = Path(places["home"]) / NAME / f"{NAME}.ipynb"
    notebook = nbformat.read(mine, 4)
    for cell in notebook.cells:
        cell.source = SQUARE.get(cell.id, cell.source)
    nbformat.write(notebook, mine)
    with OneGradebook(f"sqlite:///{course}/gradebook.db", "toys", print):
        pass  # nbgrader makes a gradebook with a command that need not be on the PATH
    for what in ("Submit", "Collect"):
        step(course, what)
    # none of these may keep the others from their pages
    submit(course, "by-mail", RIGHT)
    for student, secret in {"empty": b"", "binary": b"\xff\xfe\x00" * 9, "short": b"1", "huge": b"x" * 10**6}.items():
        folder = submit(course, student, RIGHT)
        (folder / "submission_secret.txt").write_bytes(secret)
        (folder / "timestamp.txt").write_bytes(b"\xff\x1b[2J")
    assert grade(course)[0] == 0
    for what in ("ReleaseFeedback", "FetchFeedback"):
        step(course, what)
    (page,) = mine.parent.glob(f"feedback/*/{NAME}.html")
    assert "that is the square" in page.read_text()
    assert len(list(Path(places["root"]).glob("toys/feedback/*.html"))) == 6


def test_a_page_without_a_secret_is_put_where_nobody_can_guess_and_always_there(tmp_path, grade):
    course = make(tmp_path, {"ada": RIGHT, "bob": RIGHT})
    assert grade(course)[0] == 0
    files = {name: course / "feedback" / name / NAME / "submission_secret.txt" for name in ("ada", "bob")}
    before = {name: path.read_text() for name, path in files.items()}
    assert before["ada"] != before["bob"] and all(len(secret) == 64 for secret in before.values())
    files["ada"].unlink()  # as if graded by an older version
    assert grade(course, "--resume")[0] == 0
    assert {name: path.read_text() for name, path in files.items()} == before
