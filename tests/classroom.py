"""A course day in a temporary folder: `make classroom`. Release, twenty submissions, grading, feedback, export.

Eight students are right, each in their own way; six are mistaken; three files were mangled on the way; three attack.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "grading"))

from answers import Answer, answers, submission  # noqa: E402
from hostile import NAME, family, hand_in  # noqa: E402

from ckptlib.grading.assignment.assignment import Assignment  # noqa: E402

RIGHT = "ada alan barbara donald edsger frances grace john".split()
MISTAKEN = "ken leslie margaret niklaus radia".split()
FORGETFUL = "tony"  # has an answer without a return: tests/browser/test_formgrader.py reads what he is told
MANGLED = {"alonzo": "from_colab", "dennis": "without_metadata", "kathleen": "truncated"}
HOSTILE = {
    "mallory": "silencing-an-ast-transformer-drops-every-assert",
    "eve": "reading-the-solutions-on-the-disk",
    "trudy": "exhausting-time-and-no-interrupt-wanted",
}
CONFIG = """c = get_config()
c.CourseDirectory.course_id = "classroom"
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", "key.py", "hidden.py"]
"""


def main(folder: str = "") -> None:
    course = Path(folder or tempfile.mkdtemp(prefix="classroom-")).resolve()
    course.mkdir(parents=True, exist_ok=True)
    say(f"A course in {course}")
    (course / "nbgrader_config.py").write_text(CONFIG)
    shutil.copytree(ROOT / "solutions" / NAME, course / "source" / NAME)
    say("1. Release: nbgrader generate_assignment")
    run(course, "nbgrader", "generate_assignment", NAME, "--log-level=WARN")
    say("2. Twenty students hand in")
    for student, files in everybody().items():
        hand_in(course, student, files)
    say("3. Grade: ckptlib grade, and write the feedback pages")
    run(course, "ckptlib", "grade", NAME)
    say("4. Export: scores per question, what was missed, who handed in alike")
    run(course, "ckptlib", "report", NAME, "--format", "csv", "--output", "scores.csv")
    run(course, "ckptlib", "report", NAME, "--format", "canvas", "--output", "canvas.csv")
    run(course, "ckptlib", "report", NAME)
    run(course, "nbgrader", "export", "--to=nbgrader.csv", "--log-level=WARN")
    say(f"A student's page:  {course / 'feedback' / MISTAKEN[0] / NAME / (NAME + '.html')}")
    say(f"Formgrader:        cd {course} && {Path(sys.executable).parent / 'jupyter'} lab, then the Nbgrader menu")


def everybody() -> dict[str, dict[str, bytes]]:
    known = Assignment.load(ROOT / "solutions" / NAME)
    right = [answer for answer in answers(NAME) if answer.right]
    wrong = [answer for answer in answers(NAME) if not answer.right]
    files = {}
    for i, student in enumerate(RIGHT):
        files[student] = filled(known, [right[(i + k) % len(right)] for k in range(i % 3)])
    for i, student in enumerate(MISTAKEN):
        files[student] = filled(known, wrong[i * 5 : i * 5 + 2 + i % 2])
    files[FORGETFUL] = filled(known, [answer for answer in wrong if "`return` missing" in answer.title])
    mangled = {each.student: each.files for each in family("mangling")}
    files |= {student: mangled[f"mangling-{what}"] for student, what in MANGLED.items()}
    for student, what in HOSTILE.items():
        files[student] = next(each.files for each in family(what.split("-")[0]) if each.student == what)
    return files


def filled(known: Assignment, chosen: list[Answer]) -> dict[str, bytes]:
    return {f"{NAME}.ipynb": submission(known, {answer.task: answer.code for answer in chosen})}


def run(course: Path, command: str, *arguments: str) -> None:
    module = {"nbgrader": "nbgrader", "ckptlib": "ckptlib.cli"}[command]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # nbgrader calls alembic by name
    subprocess.run([sys.executable, "-m", module, *arguments], cwd=course, check=True, env={**os.environ, "PATH": path})


def say(text: str) -> None:
    print(f"\n{text}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
