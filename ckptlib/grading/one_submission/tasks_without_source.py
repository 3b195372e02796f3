"""Which tasks does an assignment have, where only its release is known? Its tasks.py says it, in a kernel.

tasks.py is beside the notebook and may come from anybody, so it is never run outside a kernel.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from ...errors import CkptError
from ..assignment.assignment import Released
from ..run.run_submission import Cell, run
from ..safe_outputs import sanitise
from ..sandbox.limits import Limits
from ..tasks.probes import Checks, QuizForm, Task

_CODE = """import json, tasks
print("\\n" + json.dumps([
    [name, task.has_visible_answer, task.points, task.section, task.cases, task.parts, " ".join(task.names)]
    for name, task in tasks.check.tasks.items()
]))"""
_REMEDY = "Put the notebook into the folder that its assignment came in, or fetch the assignment again"


def released(files: dict[str, bytes]) -> Released:
    """The assignment that these files of a student were released with."""
    if "tasks.py" not in files:
        raise CkptError(f"there is no tasks.py beside the notebook, so its tasks are unknown. {_REMEDY}")
    try:
        return Released(files, _tasks(files))
    except CkptError as error:
        raise CkptError(f"{error}. {_REMEDY}") from None


def _tasks(files: dict[str, bytes]) -> dict[str, Task]:
    files = {path: raw for path, raw in files.items() if not path.endswith(".ipynb")}
    seen = run([Cell("tasks", _CODE)], [], files, Limits())["cells"]["tasks"]
    outputs = sanitise.outputs(seen["outputs"])
    if seen["status"] != "ok":
        errors = [f"{output.ename}: {output.evalue}" for output in outputs if output.output_type == "error"]
        raised = errors[-1] if errors else f"its kernel ended: {seen['why']}"
        raise CkptError(f"tasks.py, beside the notebook, cannot be used: {raised}")
    printed = "".join(output.text for output in outputs if output.get("name") == "stdout")
    try:
        rows = json.loads(printed.strip().split("\n")[-1])  # what tasks.py itself prints comes before
        tasks = {name: _task(name, *about) for name, *about in rows}
    except (ValueError, TypeError):
        tasks = {}
    if not tasks:
        raise CkptError("tasks.py, beside the notebook, does not define a task, so there is nothing to check")
    return tasks


def _task(name: str, visible: bool, points: float, section: str, cases: int, parts: bool, names: str) -> Task:
    probe: Any = SimpleNamespace(__name__=name)  # it runs in a kernel only
    return (Task if visible else QuizForm)(Checks("tasks.py"), probe, float(points), section, cases, parts, names)
