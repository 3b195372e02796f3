"""How does a workflow on GitHub report the points of each task? A table in the job's summary, and notices.

`python -m ckptlib.grading.reports.github_points verdicts.json`: the file is what `ckptlib check --json` printed. The
two notices are those that GitHub Classroom's own reporter writes.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from ..notebooks.cell_text import printable

_SPECIAL = {ord(mark): f"\\{mark}" for mark in "\\`*_{}[]<>()#+!|~$"}  # what Markdown would take for its own


def summary(found: dict[str, Any]) -> str:
    """The table, as Markdown. Messages may hold what a notebook printed, so nothing in them is Markdown or HTML."""
    lines = [f"## {found['assignment']}: {found['score']:g} / {found['max_score']:g}", ""]
    if found["visible_only"]:
        lines += ["These are the visible checks. Grading asks with other inputs.", ""]
    lines += ["| task | points | |", "|---|---|---|"]
    for task in found["tasks"]:
        message = "<br>".join(printable(line, " ").translate(_SPECIAL) for line in task["message"].splitlines())
        lines.append(f"| {task['name']} | {_points(task)} | {message} |")
    return "\n".join([*lines, ""])


def _points(task: dict[str, Any]) -> str:
    return "–" if task["recorded"] else f"{task['points']:g} / {task['max_points']:g}"


def notices(found: dict[str, Any]) -> str:
    """Commands that a workflow prints: a score for people, and one for GitHub Classroom."""
    points = {"totalPoints": found["score"], "maxPoints": found["max_score"]}
    shown = f"Points {found['score']:g}/{found['max_score']:g}"
    return f"::notice title=Autograding complete::{shown}\n::notice title=Autograding report::{json.dumps(points)}"


def main(file: str) -> None:
    found = json.loads(Path(file).read_text(encoding="utf-8"))
    with open(os.environ["GITHUB_STEP_SUMMARY"], "a", encoding="utf-8") as target:
        target.write(summary(found))
    for task in found["tasks"]:
        print(f"{_points(task):<12} {task['name']}")
    print(notices(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
