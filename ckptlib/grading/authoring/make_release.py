"""What do students get? `make exercises` answers: visible.json for each assignment, then nbgrader's release of it."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
from pathlib import Path, PurePosixPath

from ...errors import CkptError
from ..assignment.assignment import Assignment
from ..assignment.released_files import KINDS, PRIVATE, may_be_released, released_by_nbgrader, texts_of
from ..assignment.visible_answers import visible
from ..gradebook.course_folders import Course

WOULD_RELEASE = "nbgrader would release {name} to students: first add '{name}' to c.CourseDirectory.ignore"


def release(course: Course, name: str) -> Path:
    """Make the assignment's visible.json and its release. The same source gives the same bytes."""
    from nbgrader.converters import GenerateAssignment
    from nbgrader.preprocessors import SaveCells

    folder = course.path("source", ".", name)
    mentioned_in = texts_of(folder)
    _refuse(_not_allowed(released_by_nbgrader(folder, course.directory.ignore), mentioned_in))
    assignment = Assignment.load(folder)
    visible = examined(assignment)
    (folder / "visible.json").write_text(json.dumps(visible, sort_keys=True) + "\n", encoding="utf-8", newline="\n")
    target = course.path("release", ".", name)
    shutil.rmtree(target, ignore_errors=True)
    course.directory.assignment_id = name
    generate = GenerateAssignment(coursedir=course.directory, parent=course.app, no_database=True)
    generate.preprocessors = [step for step in generate.preprocessors if step is not SaveCells]  # no gradebook is made
    generate.start()
    if not (target / f"{name}.ipynb").is_file():
        raise CkptError(f"nbgrader made no {target / name}.ipynb")
    if "quiz.json" in assignment.released_files:  # nbgrader has copied the source's
        (target / "quiz.json").write_bytes(assignment.released_files["quiz.json"])
    files = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    if leaked := _not_allowed(files - {path.name for path in target.glob("*.ipynb")}, mentioned_in):
        shutil.rmtree(target)  # whatever the configuration said
        raise CkptError(f"nbgrader released {', '.join(leaked)}: the release was deleted; see c.CourseDirectory.ignore")
    return target


def examined(assignment: Assignment) -> dict:
    """The content of visible.json. An assignment that could not be graded is refused here, before students have it."""
    with contextlib.redirect_stdout(io.StringIO()):  # what solutions print
        _ = assignment.graded
        return visible(assignment)


def _not_allowed(files: set[str], mentioned_in: str) -> list[str]:
    return sorted(name for name in files if not may_be_released(name, mentioned_in))


def _refuse(names: list[str]) -> None:
    """names: files that nbgrader would release. An editor's backup of key.py reveals as much as key.py itself."""
    if not names:
        return
    if (name := names[0]) in PRIVATE:
        raise CkptError(WOULD_RELEASE.format(name=name))
    raise CkptError(
        f"nbgrader would release {name} to students, but by its name it is not for students. Remove it, or "
        f"add '{PurePosixPath(name).name}' to c.CourseDirectory.ignore. If students need it, mention its name in "
        f"tasks.py or in the notebook, or rename it: modules that can be imported and data ({', '.join(KINDS)}) "
        "are released, but nothing that has key, hidden or ipynb as a word in its name"
    )


def main(folder: str = ".") -> None:
    course = Course(folder)
    names = sorted(path.parent.name for path in course.path("source", ".", "x").parent.glob("*/tasks.py"))
    if not names:
        raise CkptError(f"no assignment in {course.path('source', '.', 'x').parent}")
    for name in names:
        print(release(course, name).relative_to(course.folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
