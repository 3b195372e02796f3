"""What can be said without the assignment's source? What its visible checks say, in a kernel of its own.

tasks.py lies beside the notebook and knows every task: its points, and the names that `check.NAME(names)` takes. So
nothing depends on metadata, which editors lose: a task whose cells are gone is a task that is not solved, never one
less to solve. As when it is graded, each task is asked after all cells have run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ..notebooks.cell_text import defined, squash, without_colab
from ..notebooks.notebook_file import quoted
from ..notebooks.rebuild import read_submission
from ..run.run import Cell, Transcript, run
from ..safe import sanitise
from ..sandbox.limits import Limits
from .scoring import Result, TaskScore

# Nothing in the two is assigned: the notebook's own names stay as they are.
_LIST = """print("\\n" + __import__("json").dumps(
    {name: [float(task.points), task.names] for name, task in __import__("tasks").check.tasks.items()}))"""
_ASK = """(lambda earned: {points!r} if earned is None else float(earned))(__import__("tasks").{call})"""


@dataclass(frozen=True)
class _Asked:
    """A task of tasks.py: what it is worth, and the variables that are its answer."""

    name: str
    points: float
    names: list[str]

    @property
    def id(self) -> str:
        return f"check-{self.name}"

    @property
    def call(self) -> str:
        """Also the whole text of its check cell in the notebook."""
        return f"check.{self.name}({', '.join(self.names)})"


def check(name: str, files: dict[str, bytes]) -> Result:
    """Run the notebook, then its visible checks; nothing is secret here and nobody is graded by it."""
    submitted = read_submission(files, f"{name}.ipynb")
    if submitted.problem is not None:
        return Result("", [], problem=submitted.problem)
    chosen, *others = submitted.candidates
    files = {path: raw for path, raw in files.items() if not path.endswith(".ipynb")}  # as when it is graded
    asked, problem = _tasks(files, chosen.path)
    if problem:
        return Result("", [], problem=problem)
    notes = list(submitted.notes)
    if others:
        not_read = ", ".join(quoted(other.path) for other in others)
        notes.append(f"several notebooks are here: {quoted(chosen.path)} was read, not {not_read}")
    cells, note = _own_cells(chosen.cells, asked)
    checks = [Cell(task.id, _ASK.format(points=task.points, call=task.call)) for task in asked]
    seen = run([*cells, *checks], [], files, Limits())
    scores = [_score(task, cells, seen, chosen.path) for task in asked]
    return Result("", scores, [*notes, *note, *seen["events"]], events=list(seen["events"]))


def _tasks(files: dict[str, bytes], path: str) -> tuple[list[_Asked], str]:
    """The tasks, or why they are not known. A kernel says it: tasks.py may come from anybody."""
    remedy = "Put the notebook into the folder that its assignment came in, or fetch the assignment again"
    if "tasks.py" not in files:
        return [], f"there is no tasks.py beside {quoted(path)}, so its tasks are not known. {remedy}"
    seen = run([Cell("tasks", _LIST)], [], files, Limits())["cells"]["tasks"]
    outputs = sanitise.outputs(seen["outputs"])
    if seen["status"] != "ok":
        raised = _raised(outputs) or f"its kernel ended: {seen['why']}"
        return [], f"tasks.py, beside {quoted(path)}, cannot be used: {raised}. {remedy}"
    said = "".join(output.text for output in outputs if output.get("name") == "stdout")
    try:
        listed = json.loads(said.strip().split("\n")[-1])  # what tasks.py itself prints comes before
    except ValueError:
        listed = {}
    if not listed:
        return [], f"tasks.py, beside {quoted(path)}, names no task: there is nothing to check. {remedy}"
    return [_Asked(name, *about) for name, about in listed.items()], ""


def _own_cells(cells: list, asked: list[_Asked]) -> tuple[list[Cell], list[str]]:
    """The code to run before the checks, and a note if it was changed. The notebook's check cells would only repeat."""
    code = {f"number {at}": cell.text for at, cell in enumerate(cells, 1) if cell.kind == "code"}
    calls = {task.call for task in asked}
    kept = {label: text for label, text in code.items() if squash(text) not in calls}
    if not any("google.colab" in text for text in kept.values()):
        return [Cell(label, text) for label, text in kept.items()], []
    runs = [Cell(label, without_colab(text)) for label, text in kept.items()]
    return runs, ["lines that only Google Colab can run (google.colab, drive.mount) were left out"]


# ---- the verdict ----------------------------------------------------------------------------------------------------
def _score(task: _Asked, cells: list[Cell], seen: Transcript, path: str) -> TaskScore:
    """The points that the check returned. No number, no points: silence is not full marks."""
    status, outputs = seen["cells"][task.id]["status"], sanitise.outputs(seen["cells"][task.id]["outputs"])
    points = min(task.points, _returned(outputs)) if status == "ok" else 0.0
    said = "".join(output.get("text", "") for output in outputs if output.get("name") != "stderr")
    said += "".join(output.get("evalue", "") for output in outputs)
    message = said.strip().removeprefix(f"{task.name}: ") or f"the check did not end: {status}"
    lost = [name for name in task.names if _raised(outputs) == f"NameError: name '{name}' is not defined"]
    if lost:
        message = _undefined(lost[0], cells, seen, path)
    return TaskScore(task.name, task.id, points, task.points, "" if points >= task.points else message)


def _returned(outputs: list) -> float:
    results = [output for output in outputs if output.output_type == "execute_result"]
    try:
        return float(results[-1].data["text/plain"])
    except (IndexError, KeyError, ValueError):  # IPython can be told to show results in another way, or not at all
        return 0.0


def _undefined(name: str, cells: list[Cell], seen: Transcript, path: str) -> str:
    """Why has this name no value? Its cell is gone, or stopped too early."""
    makers = [seen["cells"][cell.id] for cell in cells if name in defined(cell.source)]
    if not makers:
        return (
            f"{name} is not defined in any code cell of {quoted(path)}. Was the answer cell of this task deleted, or "
            "turned into text? Then add a code cell with your answer"
        )
    stopped = _raised(sanitise.outputs(makers[-1]["outputs"])) or makers[-1]["why"]
    if stopped == "NotImplementedError":  # the stub of a task whose answer is not a function
        return "not answered yet"
    return f"{name} is not defined" + (f": its cell stopped with {stopped}" if stopped else " when all cells have run")


def _raised(outputs: list) -> str:
    errors = [output for output in outputs if output.output_type == "error"]
    return f"{errors[-1].ename}: {errors[-1].evalue}".removesuffix(": ") if errors else ""
