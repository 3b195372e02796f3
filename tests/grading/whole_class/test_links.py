"""Is a submission that is somebody else's by a link left alone? Four ways to point at ada's folder."""

import os

import pytest
from small_course import NAME, RIGHT, make, result


def the_student(submitted):
    (submitted / "bob").symlink_to(submitted / "ada")


def the_assignment(submitted):
    (submitted / "bob").mkdir()
    (submitted / "bob" / NAME).symlink_to(submitted / "ada" / NAME)


def the_student_relatively(submitted):
    (submitted / "bob").symlink_to("ada")


def a_chain(submitted):
    (submitted.parent / "elsewhere").symlink_to(submitted / "ada")
    (submitted / "bob").symlink_to(submitted.parent / "elsewhere")


def the_notebook(submitted):
    (submitted / "bob" / NAME).mkdir(parents=True)
    (submitted / "bob" / NAME / f"{NAME}.ipynb").symlink_to(submitted / "ada" / NAME / f"{NAME}.ipynb")


@pytest.mark.parametrize("link", [the_student, the_assignment, the_student_relatively, a_chain, the_notebook])
def test_a_link_to_another_students_work_earns_nothing(link, grade, tmp_path):
    course = make(tmp_path, {"ada": RIGHT})
    link(course / "submitted")
    code, out, _ = grade(course, "--json")
    found = result(out)
    assert code == 0 and found["ada"]["score"] == 5 and found["bob"]["score"] == 0
    assert "link" in found["bob"]["reason"]
    assert "2 * x" not in (course / "feedback/bob" / NAME / f"{NAME}.html").read_text()


def test_the_whole_of_submitted_may_lie_on_another_disk(grade, tmp_path):
    course = make(tmp_path / "course", {"ada": RIGHT})
    os.rename(course / "submitted", tmp_path / "disk")
    (course / "submitted").symlink_to(tmp_path / "disk")
    code, out, _ = grade(course, "--json")
    assert code == 0 and result(out)["ada"]["score"] == 5
