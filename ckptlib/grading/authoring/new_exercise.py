"""What does a new exercise begin with? Two tasks that already work, to be replaced by yours."""

from __future__ import annotations

import fnmatch
import json
import re
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from ...errors import CkptError
from ..gradebook.course_folders import Course
from .make_release import WOULD_RELEASE

CONFIG = """c = get_config()
c.CourseDirectory.course_id = "course"
# key.py says how answers are judged, hidden.py asks what nobody has seen: neither is released.
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", "key.py", "hidden.py"]
"""

TASKS = '''"""How the answers are asked. Students get this file: grading asks the same questions, with other numbers."""

from ckptlib.grading import Checks

check = Checks(__file__)


@check.task(points=1, section="1.2", cases=3)
def saved_nbytes(given, saved_nbytes):
    rows, columns = given.integer(2, 300), given.integer(2, 300)
    return saved_nbytes(rows, columns)


check.add_quiz(points=1, names="q1")
'''

KEY = '''"""Which wrong answers are known, and what to say to each. Students never get this file."""

from tasks import check


@check.saved_nbytes.mistake("exp's derivative is its output: only the output is saved, not the input.")
def both(rows, columns):
    return 2 * 4 * rows * columns


@check.saved_nbytes.mistake("Elements were counted, not bytes: a float32 has 4.")
def elements(rows, columns):
    return rows * columns
'''

QUIZ = {
    "q1": {
        "question": "What does `x + 1` save for its backward pass?",
        "choices": {
            "a": ["x", "The derivative of x + 1 is 1, so no value of x is needed."],
            "b": ["nothing", "Its derivative is a number, whatever x is."],
        },
    }
}

TITLE = """# {title}

This assignment is worth two points and takes about ten minutes. Write your answers in the cells that say
`YOUR CODE HERE`. Below each of these cells is a check that you can run. A check tries a few inputs that you can see,
and grading tries others."""

SAVED = """## Task 1: what exp saves (1 point)

```
saved_nbytes(rows, columns)   x is a float32 tensor of that shape that needs a gradient
  -> nbytes                   what autograd saves for the backward pass of x.exp(), in bytes
```

You need about one line.

<details><summary>Hint</summary>Write down the derivative of exp. Which value does it need?</details>"""

ABOUT_QUIZ = """## Quiz (1 point)

**q1.** What does `x + 1` save for its backward pass?

- **a** x
- **b** nothing"""


def new_exercise(course: Course, name: str) -> tuple[Path, list[str]]:
    """Write the source of a new assignment into a course. Returns its folder, and notes on other changes."""
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise CkptError(
            f"{name!r} cannot be the name of an assignment: expected letters, digits and _, such as 11_my_topic"
        )
    done = []
    if not any((course.folder / config).exists() for config in ("nbgrader_config.py", "nbgrader_config.json")):
        (course.folder / "nbgrader_config.py").write_text(CONFIG, encoding="utf-8")
        done.append("nbgrader_config.py was written; it keeps key.py and hidden.py out of releases")
    elif not any(fnmatch.fnmatch("key.py", pattern) for pattern in course.directory.ignore):
        raise CkptError(WOULD_RELEASE.format(name="key.py"))
    folder = course.path("source", ".", name)
    if folder.exists():
        raise CkptError(f"{folder} already exists: choose a different name, or remove it")
    folder.mkdir(parents=True)
    nbformat.write(_notebook(name), folder / f"{name}.ipynb")
    (folder / "tasks.py").write_text(TASKS, encoding="utf-8")
    (folder / "key.py").write_text(KEY, encoding="utf-8")
    (folder / "quiz.json").write_text(json.dumps(QUIZ, indent=1) + "\n", encoding="utf-8")
    return folder, done


def _notebook(name: str) -> nbformat.NotebookNode:
    solution = "    ### BEGIN SOLUTION\n    return 4 * rows * columns\n    ### END SOLUTION"
    answer = f"def saved_nbytes(rows, columns):\n{solution}"
    letter = 'q1 = None\n### BEGIN SOLUTION\nq1 = "b"\n### END SOLUTION'
    cells = [
        new_markdown_cell(TITLE.format(title=name.replace("_", " ")), id="title"),
        new_code_cell("from tasks import check", id="setup"),
        new_markdown_cell(SAVED, id="about-saved_nbytes"),
        *_answer("saved_nbytes", answer, "saved_nbytes"),
        new_markdown_cell(ABOUT_QUIZ, id="about-quiz"),
        *_answer("quiz", letter, "q1"),
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def _answer(task: str, source: str, names: str) -> list[nbformat.NotebookNode]:
    """An answer cell, named like its task, and the cell that checks it."""
    common = {"schema_version": 3, "task": False}
    answer = {**common, "grade_id": task, "grade": False, "locked": False, "solution": True}
    graded = {**common, "grade_id": f"check-{task}", "grade": True, "locked": True, "solution": False, "points": 1}
    check = f"check.{task}({names})"
    hidden = f"### BEGIN HIDDEN TESTS\ncheck.{task}({names}, hidden=True)\n### END HIDDEN TESTS"
    return [
        new_code_cell(source, id=task, metadata={"nbgrader": answer}),
        new_code_cell(f"{check}\n{hidden}", id=f"check-{task}", metadata={"nbgrader": graded}),
    ]
