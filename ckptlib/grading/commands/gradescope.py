"""What does `ckptlib gradescope ASSIGNMENT` do? It makes an autograder; run as a module there, it grades.

`python -m ckptlib.grading.commands.gradescope /autograder` is what the autograder runs for each submission.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import CkptError
from ..sandbox.limits import Limits
from .grade import skip_grammars

if TYPE_CHECKING:
    from ..assignment.assignment import Assignment

# A container of Gradescope may have half a processor, on which `import torch` alone takes long; nobody waits beside it.
LIMITS = Limits(cell_seconds=60.0, wall_seconds=360.0, cpu_seconds=300)


def gradescope(args: argparse.Namespace) -> str:
    """args: assignment, course, visibility, output. Returns what to print."""
    from ..authoring.gradescope_autograder import autograder
    from ..gradebook.course_folders import Course

    name = args.assignment.rstrip("/")
    assignment, _ = Course(args.course).assignment(name)
    target = Path(args.output or f"{name}-gradescope.zip")
    target.write_bytes(autograder(assignment, args.visibility))
    target.chmod(0o600)  # it holds the solutions
    lines = [f"{target}: upload it as the autograder of a programming assignment of {_points(assignment)} points."]
    lines += [f"{name} in Gradescope grades {points:g} points by hand." for name, points in assignment.by_hand.items()]
    return "\n".join(lines)


def _points(assignment: Assignment) -> str:
    return f"{sum(assignment.tasks[task].points for task in assignment.graded.values()):g}"


# ---- in Gradescope's container --------------------------------------------------------------------------------------
def run(root: Path) -> str:
    """Grade what is in root/submission into root/results/results.json. Returns what to print for the instructor.

    A problem of the machine raises, and leaves no results.json: then Gradescope says that the autograder failed, which
    is not a grade, and an instructor can run it again.
    """
    from ..assignment.assignment import Assignment
    from ..authoring.gradescope_autograder import FILES, SETTINGS
    from ..notebooks import submitted_files
    from ..one_submission.grade_one import examine
    from ..one_submission.scoring import NOT_ISOLATED, score
    from ..reports.gradescope_results import as_results
    from ..sandbox import sandbox
    from ..tasks.inputs import secret_seed

    source, target = root / "source", root / "results" / "results.json"
    target.unlink(missing_ok=True)
    for folder in (source, root / "submission", target.parent):
        os.chmod(folder, 0o700)  # a kernel without a file system of its own runs as a different user
    place = sandbox.best_in_container()
    settings = json.loads((source / SETTINGS).read_text(encoding="utf-8"))
    name, secret = settings["assignment"], bytes.fromhex(settings["secret"])
    assignment, student = Assignment(name, dict(_all_files(source / FILES))), _student(root)
    seeds = {
        task: [secret_seed(secret, name, student, task, case) for case in range(assignment.tasks[task].cases)]
        for task in assignment.graded.values()
    }
    submission = submitted_files.read(root / "submission", student)
    result = score(assignment, student, examine(assignment, submission.files, seeds, LIMITS))
    result.notes[:0] = submission.notes
    result.flags = [flag for flag in result.flags if flag != NOT_ISOLATED]  # the warning says it more exactly
    target.write_text(json.dumps(as_results(result, settings["visibility"], place.warning), indent=2), encoding="utf-8")
    return "\n".join(filter(None, [f"{result.score:g} / {result.max_score:g}: {result.reason}", place.warning]))


def _all_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    return ((path.relative_to(folder).as_posix(), path.read_bytes()) for path in folder.rglob("*") if path.is_file())


def _student(root: Path) -> str:
    """The student's id, so that every attempt of a student is tested with the same numbers."""
    try:
        users = json.loads((root / "submission_metadata.json").read_text(encoding="utf-8"))["users"]
        return ",".join(sorted(str(user["id"]) for user in users))
    except FileNotFoundError:
        return ""
    except (ValueError, TypeError, KeyError) as error:
        raise CkptError(f"submission_metadata.json is not as Gradescope documents it: {error!r}") from None


if __name__ == "__main__":
    skip_grammars()
    print(run(Path(sys.argv[1])))
