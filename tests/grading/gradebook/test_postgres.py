"""Does a gradebook in PostgreSQL do, and is a lock on it waited for? (And SQLite's, in the same words.)"""

import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from small_course import HALF, RIGHT, make, result

from ckptlib.errors import CkptError
from ckptlib.grading.gradebook import gradebook
from ckptlib.grading.gradebook.gradebook import OneGradebook

STUDENTS = {"ada": RIGHT, "bob": HALF}


@pytest.fixture
def when_told(monkeypatch):
    """`when_told(work)` does work when a gradebook says that it waits, however late that is."""

    def arrange(work: Callable[[], None]) -> None:
        start = OneGradebook.__init__

        def opened(self, url: str, course_id: str, tell: Callable[[str], None]) -> None:
            start(self, url, course_id, lambda text: (tell(text), work()))

        monkeypatch.setattr(OneGradebook, "__init__", opened)

    return arrange


def _programs() -> Path | None:
    found = [shutil.which("initdb"), *sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)]
    return next((Path(each).resolve().parent for each in found if each), None)


def _as_somebody(folder: Path) -> list[str]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return []
    shutil.chown(folder, 65534, 65534)
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@pytest.fixture(scope="module")
def server():
    """A private PostgreSQL that listens on a socket in a temporary folder; the url of its one database."""
    programs = _programs()
    if programs is None:
        if os.environ.get("CI") == "true":
            pytest.fail("PostgreSQL is missing: .ci/run should have installed it")
        pytest.skip("PostgreSQL is missing")
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # a socket's path must be short
    try:
        somebody, data = _as_somebody(folder), folder / "data"
        settings = ["-A", "trust", "-U", "grader", "--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run([*somebody, programs / "initdb", "-D", data, *settings], check=True, capture_output=True)
        options = ["-c", "listen_addresses=", "-c", "fsync=off", "-k", folder, "-p", "5433"]
        running = subprocess.Popen([*somebody, programs / "postgres", "-D", data, *options], stderr=subprocess.DEVNULL)
        while not (folder / ".s.PGSQL.5433").exists():
            assert running.poll() is None
            time.sleep(0.05)
        yield f"postgresql://grader@/postgres?host={folder}&port=5433"
        running.terminate()
        running.wait(20)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
def test_a_postgresql_gradebook_that_somebody_has_locked(server, grade, tmp_path, when_told):
    course = make(tmp_path, STUDENTS, f"c.CourseDirectory.db_url = {server!r}")
    code, out, err = grade(course, "--json")
    assert code == 0, err
    assert {name: each["score"] for name, each in result(out).items()} == {"ada": 5, "bob": 4}
    with psycopg.connect(server) as other:
        other.execute("UPDATE grade SET manual_score = 1 WHERE auto_score = 1")
        other.commit()
        other.execute("LOCK TABLE grade IN ACCESS EXCLUSIVE MODE")
        when_told(other.rollback)
        code, out, err = grade(course, "--json")
    assert code == 0
    assert "locked by another program" in err and "lock timeout" in err
    assert result(out)["bob"]["tasks"][1]["by_hand"] and result(out)["bob"]["score"] == 4


@pytest.mark.slow
def test_an_sqlite_gradebook_that_somebody_has_locked(grade, tmp_path, when_told):
    course = make(tmp_path, STUDENTS)
    assert grade(course)[0] == 0
    other = sqlite3.connect(course / "gradebook.db")
    other.execute("BEGIN EXCLUSIVE")
    when_told(other.rollback)
    code, out, err = grade(course)
    other.close()
    assert code == 0 and "the gradebook is locked by another program (database is locked); waiting" in err


@pytest.mark.slow
def test_patience_ends_and_nothing_is_lost(grade, tmp_path, monkeypatch):
    course = make(tmp_path, STUDENTS)
    with OneGradebook(f"sqlite:///{course}/gradebook.db", "toys", print):
        pass
    other = sqlite3.connect(course / "gradebook.db")
    other.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(gradebook, "PATIENCE", 1)
    code, out, err = grade(course)
    assert code == 2 and out == "" and "Nothing is lost" in err
    other.close()
    assert grade(course, "--resume")[0] == 0


def test_what_does_not_pass_is_not_waited_for(tmp_path):
    (tmp_path / "gradebook.db").write_text("this is no database, and never will be one")
    with pytest.raises(CkptError, match="not a database"):
        OneGradebook(f"sqlite:///{tmp_path}/gradebook.db", "toys", print)
    with pytest.raises(CkptError, match="cannot be opened"):
        OneGradebook(f"sqlite:///{tmp_path}/no/folder/gradebook.db", "toys", print)
