"""A course with a small assignment whose kernels are cheap: what the coordinator's tests grade."""

import json
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

NAME = "01_toy"
TASKS = """
from ckptlib.grading import Checks

check = Checks(__file__)


@check.task(points=3, section="1.1")
def double(given, double):
    return double(given.integer(1, 10**6))


@check.task(points=2, section="1.2", parts=True)
def both(given, both):
    a, b = given.integer(1, 10**6), given.integer(1, 10**6)
    return both(a, b)
"""
KEY = """
from tasks import check


@check.double.mistake("that is the square")
def squared(x):
    return x * x
"""
SOLUTIONS = {"double": "return 2 * x", "both": 'return {"sum": a + b, "product": a * b}'}
HEADS = {"double": "def double(x):", "both": "def both(a, b):"}
RIGHT = {name: f"{HEADS[name]}\n    {line}" for name, line in SOLUTIONS.items()}
HALF = {**RIGHT, "both": 'def both(a, b):\n    return {"sum": a + b, "product": 0}'}
SQUARE = {**RIGHT, "double": "def double(x):\n    return x * x"}
BLANK = {name: f"{head}\n    # YOUR CODE HERE\n    raise NotImplementedError()" for name, head in HEADS.items()}


def _about(grade_id: str, **about) -> dict:
    fixed = {"schema_version": 3, "grade_id": grade_id, "grade": False, "solution": False, "locked": False}
    return {"nbgrader": fixed | {"task": False} | about}


def notebook(answers: dict[str, str], hidden: bool = False) -> str:
    """answers: source of each answer cell. hidden: with the hidden tests, as the source has them."""
    cells = [
        new_markdown_cell("# A toy", id="title"),
        new_code_cell("from tasks import check", id="setup", metadata=_about("setup", locked=True)),
    ]
    for name, points in (("double", 3), ("both", 2)):
        cells.append(new_code_cell(answers[name], id=name, metadata=_about(name, solution=True)))
        checked = f"check.{name}({name})"
        if hidden:
            checked += f"\n### BEGIN HIDDEN TESTS\ncheck.{name}({name}, hidden=True)\n### END HIDDEN TESTS"
        about = _about(f"check-{name}", grade=True, locked=True, points=points)
        cells.append(new_code_cell(checked, id=f"check-{name}", metadata=about))
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return nbformat.writes(new_notebook(cells=cells, metadata=kernel)) + "\n"


def make(folder: Path, students: dict[str, dict[str, str]], config: str = "") -> Path:
    """A course in `folder`; students: name -> answers."""
    source = folder / "source" / NAME
    source.mkdir(parents=True)
    marked = {n: f"{HEADS[n]}\n    ### BEGIN SOLUTION\n    {SOLUTIONS[n]}\n    ### END SOLUTION" for n in SOLUTIONS}
    (source / f"{NAME}.ipynb").write_text(notebook(marked, hidden=True))
    (source / "tasks.py").write_text(TASKS)
    (source / "key.py").write_text(KEY)
    (folder / "nbgrader_config.py").write_text(f'c = get_config()\nc.CourseDirectory.course_id = "toys"\n{config}\n')
    for student, answers in students.items():
        submit(folder, student, answers)
    return folder


def submit(folder: Path, student: str, answers: dict[str, str]) -> Path:
    target = folder / "submitted" / student / NAME
    target.mkdir(parents=True, exist_ok=True)
    (target / f"{NAME}.ipynb").write_text(notebook(answers))
    return target


def result(out: str) -> dict[str, dict]:
    """What `ckptlib grade --json` printed, by student."""
    return {each["student"]: each for each in json.loads(out)["submissions"]}
