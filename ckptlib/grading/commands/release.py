"""What do `ckptlib new-exercise`, `release` and `github` do? Begin an assignment; make what students get of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ...errors import CkptError


def new_exercise(args: argparse.Namespace) -> str:
    """args: name, course. Returns what to print."""
    from ..authoring.new_exercise import new_exercise
    from ..gradebook.course_folders import Course

    course = Course(args.course)
    folder, done = new_exercise(course, args.name)
    here = _from(folder, course.folder)
    lines = [
        *done,
        f"{here} has two tasks that work. Make them yours:",
        f"  {args.name}.ipynb   what students read, with the solutions between BEGIN SOLUTION and END SOLUTION",
        "  tasks.py   one probe for each task: a function from seeded inputs and an answer to plain data",
        "  key.py     the wrong answers that you know, and what to say to each",
        "  quiz.json  the questions with a sentence for each choice",
        "Then:",
        f"  ckptlib check {here}          # your own solutions must get all points",
        f"  ckptlib release {args.name}   # what students get",
    ]
    return "\n".join(lines)


def release(args: argparse.Namespace) -> str:
    """args: assignment, course. Returns what to print."""
    import torch

    from ..authoring.make_release import release
    from ..gradebook.course_folders import Course

    course, name = Course(args.course), args.assignment.rstrip("/")  # Tab adds a slash
    source = course.source(name)
    if not (source / "tasks.py").is_file():
        raise CkptError(f"no assignment in {source}: expected {name}.ipynb and tasks.py there")
    torch.set_num_threads(1)  # because sums in a different order differ in their last digits
    folder = release(course, name)
    return f"{_from(folder, course.folder)}: {', '.join(sorted(path.name for path in folder.iterdir()))}"


def github(args: argparse.Namespace) -> str:
    """args: assignment, course, output. Returns what to print."""
    from ..authoring.github_repository import student_repository
    from ..gradebook.course_folders import Course

    course, name = Course(args.course), args.assignment.rstrip("/")
    released = course.path("release", ".", name)
    if not (released / "visible.json").is_file():
        raise CkptError(f"there is no release in {released}: first run `ckptlib release {name}`")
    target = Path(args.output or f"{name}-github")
    student_repository(released, target, f"{sys.version_info.major}.{sys.version_info.minor}")
    return f"{target}: push it as the template from which every student's repository is made."


def _from(path: Path, folder: Path) -> Path:
    return path.relative_to(folder) if path.is_relative_to(folder) else path
