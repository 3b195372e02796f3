"""What is an assignment made of? A source notebook, its probes, its key; from them the release and what to expect."""

from __future__ import annotations

import hashlib
import json
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat
import numpy as np

from ..errors import CkptError
from .data import decode, encode
from .probes import NOT_ASKED, Quiz, Task

PRIVATE = ("key.py", "hidden.py")  # never released; what hidden.py asks, a kernel sees when it is asked


class Assignment:
    """An assignment from its files' bytes, so that it can be sent to another machine."""

    def __init__(self, name: str, files: dict[str, bytes]):
        self.name, self.files = name, files
        for needed in (f"{name}.ipynb", "tasks.py"):
            if needed not in files:
                raise CkptError(f"the assignment {name} has no {needed}: its source folder holds {sorted(files)}")

    @classmethod
    def load(cls, folder: str | Path) -> Assignment:
        folder = Path(folder).resolve()
        if not folder.is_dir():
            raise CkptError(f"{folder} is no folder: expected the source of an assignment")
        paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and not _ignored(path, folder))
        return cls(folder.name, {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths})

    @classmethod
    def beside(cls, folder: Path) -> Assignment:
        """The source of a released, submitted or autograded copy: in solutions/ or source/ of the same course."""
        for course in (folder, *folder.parents):
            for source in (course / "solutions" / folder.name, course / "source" / folder.name):
                if (source / "tasks.py").is_file():
                    return cls.load(source)
        raise CkptError(
            f"the source of {folder.name} is not at hand: hidden checks run where solutions/{folder.name} is, "
            "with the instructor or in the book's repository"
        )

    # ---- notebooks --------------------------------------------------------------------------------------------------
    @cached_property
    def source(self) -> nbformat.NotebookNode:
        return nbformat.reads(self.files[f"{self.name}.ipynb"].decode("utf-8-sig"), as_version=4)

    @cached_property
    def release(self) -> nbformat.NotebookNode:
        """What students get, made by nbgrader's own preprocessors: once per assignment, not per submission."""
        from nbgrader import preprocessors as pp

        steps = [pp.ClearSolutions, pp.LockCells, pp.ClearOutput, pp.ClearHiddenTests, pp.ClearMarkScheme]
        notebook, resources = nbformat.from_dict(self.source), {}
        for step in [*steps, pp.ComputeChecksums]:
            notebook, resources = step().preprocess(notebook, resources)
        return notebook

    @property
    def released_files(self) -> dict[str, bytes]:
        """What lies beside the notebook: every file but the notebook itself and what is private."""
        return {name: raw for name, raw in self.files.items() if name not in (*PRIVATE, f"{self.name}.ipynb")}

    @cached_property
    def graded(self) -> dict[str, str]:
        """grade_id of each grade cell -> the name of its task; a grade cell is called check-<task>."""
        found = {}
        for cell in self.source.cells:
            about = cell.metadata.get("nbgrader", {})
            if about.get("grade"):
                task = about["grade_id"].removeprefix("check-")
                if task not in self.tasks:
                    raise CkptError(f"grade cell {about['grade_id']!r}: tasks.py has {', '.join(self.tasks)}")
                found[about["grade_id"]] = task
        return found

    @cached_property
    def digest(self) -> str:
        """Changes when the questions do; a changed tolerance or message (key.py) asks nobody again."""
        files = {name: raw for name, raw in self.released_files.items() if name != "visible.json"}  # made with the key
        asked = [nbformat.writes(self.release), *(f"{name}:{raw!r}" for name, raw in sorted(files.items()))]
        asked += [self._text("hidden.py")] if "hidden.py" in self.files else []
        return hashlib.sha256("\0".join(asked).encode()).hexdigest()

    # ---- tasks and what to expect -----------------------------------------------------------------------------------
    @property
    def tasks_py(self) -> str:
        """The probes that grading asks: those of tasks.py, as far as hidden.py does not replace them."""
        return "\n".join([self._text("tasks.py"), self._text("hidden.py")])

    def _text(self, name: str) -> str:
        return self.files.get(name, b"").decode("utf-8-sig")

    @cached_property
    def _module(self) -> types.ModuleType:
        return self._loaded(self.tasks_py)

    @cached_property
    def _shown_tasks(self) -> dict[str, Task]:
        """As students have them: without hidden.py."""
        return self._loaded(self._text("tasks.py")).check.tasks if "hidden.py" in self.files else self.tasks

    def _loaded(self, tasks_py: str) -> types.ModuleType:
        module = types.ModuleType("tasks")
        module.__file__ = str(Path.cwd() / "tasks.py")
        exec(compile(tasks_py, f"{self.name}/tasks.py", "exec", dont_inherit=True), module.__dict__)
        with _known_as_tasks(module):
            exec(compile(self._text("key.py"), f"{self.name}/key.py", "exec", dont_inherit=True), {"__name__": "key"})
        _add_quiz_sentences(module.check.tasks, self.files.get("quiz.json"))
        return module

    @property
    def tasks(self) -> dict[str, Task]:
        return self._module.check.tasks

    @cached_property
    def reference(self) -> dict[str, Any]:
        """The names that the source notebook's own solutions define."""
        namespace: dict[str, Any] = {"__name__": "reference"}
        with _known_as_tasks(self._module):
            for cell in self.source.cells:
                about = cell.metadata.get("nbgrader", {})
                if cell.cell_type == "code" and not about.get("grade"):
                    code = compile(cell.source, f"{self.name}: {cell.get('id', 'cell')}", "exec", dont_inherit=True)
                    exec(code, namespace)
        return namespace

    def expected(self, name: str, seeds: list[int]) -> tuple[list, list[dict]]:
        """Encoded, for these seeds: the reference's data, and every known mistake's with its message."""
        return self.right(name, seeds), self.known(name, seeds)

    def right(self, name: str, seeds: list[int]) -> list:
        return self._right(self.tasks[name], seeds)

    def known(self, name: str, seeds: list[int]) -> list[dict]:
        return _known(self.tasks[name], seeds)

    def _right(self, task: Task, seeds: list[int]) -> list:
        right = task.ask(tuple(self.reference[n] for n in task.names), seeds)
        if raised := [data for data in right if isinstance(data, dict) and "raised" in data]:
            raise CkptError(f"{self.name}: the reference of {task.name} {raised[0]}")
        return right

    def visible(self) -> dict:
        """The content of visible.json: for the visible seeds, what to expect and the known mistakes' data."""
        shown = {}
        for name, task in self._shown_tasks.items():
            if task.shown:
                seeds = task.visible_seeds()
                right, known = self._right(task, seeds), _known(task, seeds)
                tolerance = {"rtol": task.tolerance.rtol, "atol": task.tolerance.atol}
                shown[name] = {"tolerance": tolerance, "expected": right, "mistakes": known}
        return _rounded(shown)


def _known(task: Task, seeds: list[int]) -> list[dict]:
    return [{"message": message, "data": task.ask(answers, seeds)} for message, answers in task.mistakes]


def _rounded(data: Any) -> Any:
    """Six digits: another machine's last bits must not change a released file."""
    if isinstance(data, float):
        return float(f"{data:.6g}")
    if isinstance(data, list):
        return [_rounded(item) for item in data]
    if not isinstance(data, dict):
        return data
    if "array" in data and data["stored"].startswith("float"):
        values = decode(data).values
        rounded = np.array([float(f"{v:.6g}") for v in values.ravel().tolist()], values.dtype).reshape(values.shape)
        return encode(rounded) | {"dtype": data["dtype"]}
    return {key: _rounded(value) for key, value in data.items()}


def _ignored(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    return any(part in ("__pycache__", ".ipynb_checkpoints") for part in parts) or path.suffix == ".pyc"


@contextmanager
def _known_as_tasks(module: types.ModuleType) -> Iterator[None]:
    """Notebooks and keys say `from tasks import check`: for so long, that is this assignment's."""
    before = sys.modules.get("tasks")
    sys.modules["tasks"] = module
    try:
        yield
    finally:
        if before is None:
            del sys.modules["tasks"]
        else:
            sys.modules["tasks"] = before


def _add_quiz_sentences(tasks: dict[str, Task], raw: bytes | None) -> None:
    quiz = tasks.get("quiz")
    if not isinstance(quiz, Quiz) or raw is None:
        return
    for name, item in json.loads(raw).items():
        for letter, (_, sentence) in item["choices"].items():
            answers = tuple(letter if name == other else NOT_ASKED for other in quiz.names)
            quiz.mistake(sentence, *answers)
