"""What does Gradescope read of a result? results.json, with a test for each task.

The format: https://gradescope-autograders.readthedocs.io/en/latest/specs/
"""

from __future__ import annotations

from typing import Any

from ..one_submission.scoring import Result, TaskScore


def as_results(result: Result, visibility: str, missing: str) -> dict[str, Any]:
    """The content of results.json. missing: the protections that the container did not allow, "" if none.

    Everything that a student's code could have written is shown as plain text. Flags and what is missing go where only
    instructors look: into what run_autograder prints, which stays hidden, and into extra_data.
    """
    return {
        "tests": [_test(number, task) for number, task in enumerate(result.tasks, 1)],
        "output": "\n".join(result.all_notes),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": visibility,
        "stdout_visibility": "hidden",
        "extra_data": {"flags": result.flags, "not_isolated": missing},
    }


def _test(number: int, task: TaskScore) -> dict[str, Any]:
    lost = task.points < task.max_points
    told = [task.message, f"Read again: {task.section}." if task.section else ""]
    return {
        "number": str(number),
        "name": task.name,
        "score": task.points,
        "max_score": task.max_points,
        "status": "failed" if lost else "passed",
        "output": "\n".join(filter(None, told)),
    }
