"""What can be said without the assignment's source? What its own visible checks say, in a kernel of its own."""

from __future__ import annotations

import nbformat
from nbgrader.utils import determine_grade

from .course.scoring import Result, TaskScore
from .kernels.limits import Limits
from .pages import sanitise
from .rebuilding.reassemble import read_submission
from .running.run import Cell, run


def check(name: str, files: dict[str, bytes]) -> Result:
    """Run the notebook with its checks as they are; nothing is secret here and nobody is graded by it."""
    submitted = read_submission(files, f"{name}.ipynb")
    if submitted.problem is not None:
        return Result("", [], problem=submitted.problem)
    notebook = nbformat.reads(files[submitted.candidates[0].path].decode("utf-8-sig"), as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for at, cell in enumerate(code):
        cell.id = f"cell-{at}"
    seen = run([Cell(cell.id, cell.source) for cell in code], [], files, Limits())
    result = Result("", [], list(seen["events"]))
    for cell in code:
        about = cell.metadata.get("nbgrader", {})
        if about.get("grade") and not about.get("solution"):  # both: a person grades it
            cell.outputs = sanitise.outputs(seen["cells"][cell.id]["outputs"])
            result.tasks.append(_score(cell, about, seen["cells"][cell.id]["status"]))
    return result


def _score(cell: nbformat.NotebookNode, about: dict, status: str) -> TaskScore:
    """Full marks, part of them, or an error: nbgrader's own rule, except that a warning costs nothing."""
    cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    points, most = determine_grade(cell) if status in ("ok", "error") else (0.0, float(about["points"]))
    said = "".join(output.get("text", "") + output.get("evalue", "") for output in cell.outputs)
    name = about["grade_id"].removeprefix("check-")
    message = said.strip().removeprefix(f"{name}: ") or f"the check did not end: {status}"
    return TaskScore(name, about["grade_id"], points, most, "" if points >= most else message)
