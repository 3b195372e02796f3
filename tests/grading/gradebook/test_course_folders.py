"""Does a course find its things where nbgrader's configuration says they are?"""

import stat

import pytest
from small_course import NAME, RIGHT, make

from ckptlib.errors import CkptError
from ckptlib.grading.gradebook.course_folders import Course
from ckptlib.grading.sandbox.limits import Limits
from ckptlib.grading.tasks.inputs import secret_seed


def test_the_configuration_of_the_course_counts_and_not_that_of_where_we_are(tmp_path, monkeypatch):
    course = make(tmp_path / "course", {"ada": RIGHT}, 'c.CourseDirectory.autograded_directory = "marked"')
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "nbgrader_config.py").write_text('get_config().CourseDirectory.source_directory = "nowhere"')
    monkeypatch.chdir(elsewhere)
    found = Course(course)
    assert found.path("autograded", "ada", NAME) == course / "marked/ada" / NAME
    assert found.path("source", ".", NAME) == course / "source" / NAME
    assert found.directory.course_id == "toys"
    assert found.directory.db_url == f"sqlite:///{course}/gradebook.db"
    assert found.students(NAME) == ["ada"]


def test_another_directory_structure(tmp_path):
    structure = 'c.CourseDirectory.directory_structure = "{nbgrader_step}/{assignment_id}/{student_id}"'
    course = make(tmp_path, {}, structure)
    (course / "submitted" / NAME / "bob").mkdir(parents=True)
    (course / "submitted" / "other" / "eve").mkdir(parents=True)
    assert Course(course).students(NAME) == ["bob"]


def test_without_configuration_solutions_count_where_there_is_no_source(tmp_path):
    course = make(tmp_path, {})
    (course / "nbgrader_config.py").unlink()
    assert Course(course).directory.source_directory == "source"
    (course / "source").rename(course / "solutions")
    found = Course(course)
    assert (found.directory.source_directory, found.directory.release_directory) == ("solutions", "exercises")
    assert found.assignment(NAME)[0].name == NAME


@pytest.mark.parametrize("name", ["", "..", "a/b", "../source", "02_missing"])
def test_an_assignment_that_is_not_there(tmp_path, name):
    with pytest.raises(CkptError, match="no assignment|not the name of an assignment"):
        Course(make(tmp_path, {})).assignment(name)


def test_the_secret_is_made_once_and_nobody_else_reads_it(tmp_path):
    course = Course(make(tmp_path, {}))
    assert course.secret == Course(tmp_path).secret and len(course.secret) == 64
    assert stat.S_IMODE((tmp_path / ".ckptlib/secret").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / ".ckptlib").stat().st_mode) == 0o700


def test_every_case_of_every_student_has_its_own_seed(tmp_path):
    secret, other = (Course(make(tmp_path / name, {})).secret for name in "ab")
    asked = [(NAME, s, t, c) for s in ("ada", "bob") for t in ("double", "both") for c in (0, 1)]
    seeds = [secret_seed(secret, *each) for each in asked]
    assert len(set(seeds)) == len(seeds)
    assert seeds == [secret_seed(secret, *each) for each in asked]
    assert secret_seed(other, *asked[0]) != seeds[0]


def test_limits_are_said_in_the_configuration(tmp_path):
    config = tmp_path / "nbgrader_config.py"
    config.write_text("c = get_config()\nc.Limits.cell_seconds = 3\n")
    assert Course(tmp_path).limits == Limits(cell_seconds=3)
    for said, says in {"seconds = 3": "no such limit", "cell_seconds = 'x'": "expected a number"}.items():
        config.write_text(f"c = get_config()\nc.Limits.{said}\n")
        with pytest.raises(CkptError, match=says):
            _ = Course(tmp_path).limits
