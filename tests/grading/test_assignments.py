"""Do the whole engine and stock nbgrader come to the same scores, for right answers, wrong answers and none?

The k-th submission holds the k-th sample answer to every task, right or wrong. The first of each are graded here;
test_answers.py judges them all.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import os
import subprocess
import sys
from itertools import islice, zip_longest
from pathlib import Path

import nbformat
import pytest
from answers import ASSIGNMENTS, ROOT, Answer, answers, submission
from nbgrader.api import Gradebook

from ckptlib.grading.assignment.assignment import Assignment
from ckptlib.grading.tasks.probes import Task

BY_NBGRADER = ("reference", "wrong-0")  # the others are graded by the engine alone, at some seconds each


def notebooks(name: str, most: int = 1) -> dict[str, tuple[bytes, list[Answer]]]:
    """student -> notebook, and the answers that are not the reference's."""
    known = Assignment.load(ROOT / "solutions" / name)
    made = {"blank": (nbformat.writes(known.release).encode(), []), "reference": (submission(known, {}), [])}
    for right, kind in ((True, "right"), (False, "wrong")):
        by_task = [[a for a in answers(name) if a.task == task and a.right is right] for task in known.tasks]
        for number, row in enumerate(islice(zip_longest(*by_task), most)):
            chosen = [answer for answer in row if answer is not None]
            made[f"{kind}-{number}"] = (submission(known, {a.task: a.code for a in chosen}), chosen)
    return made


def course(folder: Path, name: str, students: dict[str, tuple[bytes, list[Answer]]]) -> Path:
    (folder / "source").mkdir()
    (folder / "source" / name).symlink_to(ROOT / "solutions" / name)
    (folder / ".ckptlib").mkdir(mode=0o700)
    (folder / ".ckptlib" / "secret").write_text("0" * 64)  # no luck in here: many_secrets.py tries others
    ignored = '[".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", "key.py"]'
    (folder / "nbgrader_config.py").write_text(f"c = get_config()\nc.CourseDirectory.ignore = {ignored}\n")
    for student, (raw, _) in students.items():
        (folder / "submitted" / student / name).mkdir(parents=True)
        (folder / "submitted" / student / name / f"{name}.ipynb").write_bytes(raw)
    return folder


def graded(folder: Path, name: str) -> dict[str, dict[str, tuple[float, float, str]]]:
    """student -> task -> points, most points, message; by `ckptlib grade`."""
    command = [sys.executable, "-m", "ckptlib.cli", "grade", name, "--course", str(folder), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:] + "\n".join(
        f"{each['student']}: {each['reason']}" for each in json.loads(done.stdout or "{}").get("submissions", ())
    )
    return {
        each["student"]: {t["name"]: (t["points"], t["max_points"], t["message"]) for t in each["tasks"]}
        for each in json.loads(done.stdout)["submissions"]
    }


def stock(folder: Path, name: str) -> dict[str, dict[str, float]]:
    """student -> task -> points; by `nbgrader autograde`, in a course of its own."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for step in ("generate_assignment", "autograde"):
        command = [sys.executable, "-m", "nbgrader", step, name, "--log-level=ERROR"]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=600, env={**os.environ, "PATH": path}
        )
        assert done.returncode == 0, done.stderr[-2000:]
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as gradebook:
        return {
            each.student.id: {g.name.removeprefix("check-"): g.score for n in each.notebooks for g in n.grades}
            for each in gradebook.assignment_submissions(name)
        }


def deserved(known: Assignment, found: dict[str, dict[str, float]], students: dict) -> None:
    """Assert what every answer is worth. found: student -> task -> points."""
    most = {task.name: task.points for task in known.tasks.values()}
    for student, tasks in found.items():
        assert tasks.keys() == most.keys(), student
        wrong = {answer.task: answer.title for answer in students[student][1] if not answer.right}
        for task, points in tasks.items():
            if student == "blank":
                assert points == 0, task
            elif task in wrong:
                assert points < most[task], (student, task, wrong[task])
            else:
                assert points == most[task], (student, task)


@pytest.mark.slow
@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_everybody_is_graded_as_they_deserve_and_told_why(name, tmp_path, need):
    need("bubblewrap")
    students = notebooks(name)
    ours = graded(course(tmp_path, name, students), name)
    assert ours.keys() == students.keys()
    points = {student: {task: given for task, (given, _, _) in tasks.items()} for student, tasks in ours.items()}
    deserved(Assignment.load(ROOT / "solutions" / name), points, students)
    for tasks in ours.values():
        for task, (given, most, message) in tasks.items():
            assert message or given == most, task  # which idea it names is in test_answers.py


@pytest.mark.slow
@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_its_check_cells_give_what_an_answer_deserves(name, monkeypatch):
    """The cells that stock nbgrader runs, hidden tests included."""
    known, students = Assignment.load(ROOT / "solutions" / name), notebooks(name)
    checks = {known.graded[cell.id]: cell.source for cell in known.source.cells if cell.id in known.graded}
    monkeypatch.syspath_prepend(ROOT / "solutions" / name)
    monkeypatch.delitem(sys.modules, "tasks", raising=False)
    check = importlib.import_module("tasks").check
    for student in BY_NBGRADER:
        names = {**known.reference, "check": check}
        for answer in students[student][1]:
            exec(answer.code, names)
        earned = {task: points(source, names, check.tasks[task]) for task, source in checks.items()}
        deserved(known, {student: earned}, students)


def points(source: str, names: dict, task: Task) -> float:
    """What nbgrader makes of a check cell: nothing of words on stderr, or that many points of a last value."""
    *first, last = ast.parse(source).body
    with contextlib.redirect_stderr(io.StringIO()) as said:
        exec(compile(ast.Module(first, []), "check", "exec"), names)
        found = eval(compile(ast.Expression(last.value), "check", "eval"), names)
    if said.getvalue():
        return 0
    return task.points if found is None else found


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [ASSIGNMENTS[0], *(pytest.param(name, marks=pytest.mark.second_proof) for name in ASSIGNMENTS[1:])]
)
def test_stock_nbgrader_comes_to_the_same(name, tmp_path):
    students = {student: made for student, made in notebooks(name).items() if student in BY_NBGRADER}
    theirs = stock(course(tmp_path, name, students), name)
    assert theirs.keys() == students.keys()
    deserved(Assignment.load(ROOT / "solutions" / name), theirs, students)


def remade(folder: Path, environment: dict[str, str] | None = None) -> list[Path]:
    """The files that `make exercises` on a copy of the repository would change, add or remove."""
    for name in ("solutions", "nbgrader_config.py"):
        subprocess.run(["cp", "-r", ROOT / name, folder], check=True)
    command = [sys.executable, "-m", "ckptlib.grading.authoring.make_release"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **(environment or {})}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    changed = []
    for kind in ("exercises", "solutions"):
        made = {p.relative_to(folder): p.read_bytes() for p in (folder / kind).rglob("*") if p.is_file()}
        kept = {p.relative_to(ROOT): p.read_bytes() for p in (ROOT / kind).rglob("*") if p.is_file()}
        differ = {path for path in made.keys() | kept.keys() if made.get(path) != kept.get(path)}
        changed += sorted(path for path in differ if "pyc" not in path.name)
    return changed


@pytest.mark.slow
def test_the_release_is_made_from_the_source_to_the_byte(tmp_path):
    assert remade(tmp_path) == []
