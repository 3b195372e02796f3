"""Does the workflow in a student's repository show the points of each task, when its own steps are run?"""

import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest
import yaml
from small_course import BLANK, NAME, RIGHT, SQUARE, make, notebook

from ckptlib.cli import main
from ckptlib.grading.reports.github_points import notices, summary


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    course = make(tmp_path_factory.mktemp("course"), {}, 'c.CourseDirectory.ignore = ["key.py"]')
    target = course / "template"
    assert main(["github", NAME, "--course", str(course), "--output", str(target)]) == 2  # there is no release yet
    assert main(["release", NAME, "--course", str(course)]) == 0
    assert main(["github", NAME, "--course", str(course), "--output", str(target)]) == 0
    return target


def test_the_template_holds_the_release_and_no_solution(template):
    names = {path.relative_to(template).as_posix() for path in template.rglob("*") if path.is_file()}
    (wheel,) = [name for name in names if name.endswith(".whl")]
    own = {f"{NAME}/{name}" for name in (f"{NAME}.ipynb", "tasks.py", "visible.json")}
    assert names == {".github/workflows/autograding.yml", ".github/ckptlib/constraints.txt", wheel} | own
    assert zipfile.is_zipfile(template / wheel)
    assert "return 2 * x" not in (template / NAME / f"{NAME}.ipynb").read_text()


@pytest.fixture(scope="module")
def workflow(template) -> dict:
    return yaml.safe_load((template / ".github" / "workflows" / "autograding.yml").read_text())


def test_the_workflow_has_the_names_that_github_classroom_asks_for(workflow, template):
    assert workflow["name"] == "Autograding Tests" and list(workflow["jobs"]) == ["run-autograding-tests"]
    assert workflow[True] == ["push", "workflow_dispatch"]  # YAML takes `on` for a truth value, and GitHub does not
    assert workflow["permissions"] == {"contents": "read"}
    install = next(s["run"] for s in workflow["jobs"]["run-autograding-tests"]["steps"] if s.get("name") == "Install")
    for word in install.replace('"', " ").replace("[", " ").split():
        assert not word.startswith(".github") or (template / word).is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "points", "code", "told"),
    [(RIGHT, "5/5", 0, ""), (SQUARE, "2/5", 1, "that is the square"), (BLANK, "0/5", 1, "not answered yet")],
    ids=["right", "wrong", "blank"],
)
def test_the_steps_show_the_points_of_each_task(template, workflow, sandbox, tmp_path, answers, points, code, told):
    repository = tmp_path / "repository"
    shutil.copytree(template, repository)
    (repository / NAME / f"{NAME}.ipynb").write_text(notebook(answers))
    step = next(s["run"] for s in workflow["jobs"]["run-autograding-tests"]["steps"] if s.get("name") == "Check")
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (binaries / "python").chmod(0o755)
    settings = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "PATH": f"{binaries}:{os.environ['PATH']}"}
    # as GitHub runs a step whose shell is not named
    done = subprocess.run(
        ["bash", "-e", "-c", step], cwd=repository, env=os.environ | settings, capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert f"::notice title=Autograding complete::Points {points}" in done.stdout
    assert told in (tmp_path / "summary.md").read_text()
    assert f"## {NAME}: {points.replace('/', ' / ')}" in (tmp_path / "summary.md").read_text()


def test_nothing_that_a_notebook_printed_is_markdown_or_a_command():
    said = "ValueError: <img src=x> | [a](http://x) `::notice::`\n::error::x"
    tasks = [{"name": "double", "points": 0, "max_points": 3, "message": said, "recorded": False}]
    found = {"assignment": NAME, "score": 0.5, "max_score": 3, "visible_only": True, "tasks": tasks}
    row = summary(found).splitlines()[-1]
    assert row.replace("\\|", "").count("|") == 4 and "\\<img" in row and "\\[a\\]\\(http" in row
    assert "::error" not in notices(found) and json.loads(notices(found).split("::")[-1])["totalPoints"] == 0.5
