"""What is an assignment made of? A source notebook, its probes and its key; the release is made from them."""

from __future__ import annotations

import hashlib
import json
import os
import types
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat

from ...errors import CkptError
from ..tasks.comparison import Tolerance
from ..tasks.forbidden_calls import OwnCode
from ..tasks.probes import Quiz, Task
from ..tasks.quiz import read as read_quiz
from ..tasks.quiz import released as released_quiz
from .author_errors import known_as_tasks, load_tasks, run_file
from .book_folder import source_of
from .released_files import PRIVATE, ignore_patterns, may_be_released, released_by_nbgrader, texts_of


class Released:
    """An assignment as students have it: the released notebook, the probes, and what the visible inputs should give.

    files: the bytes of all files beside a student's notebook   tasks: as tasks.py declares them
    """

    def __init__(self, files: dict[str, bytes], tasks: dict[str, Task]):
        self.files, self._tasks = files, tasks
        self.name = next((name.removesuffix(".ipynb") for name in self.visible if name.endswith(".ipynb")), "")
        for task in tasks.values():
            if not isinstance(task, Quiz):
                task.tolerance = Tolerance(**self._shown(task.name, "tolerance"))
        _ = self.release, self.graded  # damaged files are found here, before anything is run

    @property
    def tasks(self) -> dict[str, Task]:
        return self._tasks

    @property
    def tasks_py(self) -> str:
        """The source of the probes."""
        return self._text("tasks.py")

    @property
    def released_files(self) -> dict[str, bytes]:
        """The files that replace a student's. Without the source, it is unknown which ones were changed."""
        return {}

    @cached_property
    def release(self) -> nbformat.NotebookNode:
        """The notebook as it was released. A student has changed it since, but visible.json has a copy."""
        notebook = nbformat.from_dict(self.visible.get(f"{self.name}.ipynb"))
        try:
            nbformat.validate(notebook)
        except Exception:  # nbformat repairs before it validates, and a file that is damaged can break that
            raise CkptError("visible.json is damaged or too old: it does not hold the released notebook") from None
        return notebook

    @property
    def source(self) -> nbformat.NotebookNode:
        """The notebook that says which cells are graded."""
        return self.release

    @property
    def replaced(self) -> list[str]:
        """Modules that are switched off when an answer is asked again: none, because nobody cheats at a self-check."""
        return []

    def made(self, name: str, seeds: list[int]) -> list[list]:
        """What the modules in `replaced` make for the probe."""
        return [[] for _ in seeds]

    def right(self, name: str, seeds: list[int]) -> list:
        """The data of the right answer, encoded. Students do not have the right letters of a quiz, only its choices."""
        if isinstance(self.tasks[name], Quiz):
            return [read_quiz(self.files.get("quiz.json", b""))]
        return self._shown(name, "expected")

    def known(self, name: str, seeds: list[int]) -> list[dict]:
        """The data that each known mistake returns, encoded, and its message."""
        return [] if isinstance(self.tasks[name], Quiz) else self._shown(name, "mistakes")

    def _shown(self, *keys: str) -> Any:
        found: Any = self.visible
        try:
            for key in keys:
                found = found[key]
        except (KeyError, TypeError):
            raise CkptError(f"visible.json is missing, damaged or too old: it does not have {keys[0]!r}") from None
        return found

    @cached_property
    def visible(self) -> dict:
        """The content of visible.json; empty if there is no such file, or if it is damaged."""
        try:
            found = json.loads(self._text("visible.json"))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _text(self, name: str) -> str:
        return self.files.get(name, b"").decode("utf-8-sig")

    @cached_property
    def graded(self) -> dict[str, str]:
        """grade_id of each grade cell -> the name of its task; a grade cell is called check-<task>."""
        found = {}
        for cell in self.source.cells:
            about = cell.metadata.get("nbgrader", {})
            if about.get("grade") and about["grade_id"] not in self.by_hand:
                task = about["grade_id"].removeprefix("check-")
                if task not in self.tasks:
                    raise CkptError(f"grade cell {about['grade_id']!r}: tasks.py has {', '.join(self.tasks)}")
                here, there = about.get("points", 0), self.tasks[task].points
                if here != there:
                    raise CkptError(f"{about['grade_id']}: {here:g} points in the notebook, {there:g} in tasks.py")
                found[about["grade_id"]] = task
        return found

    @cached_property
    def by_hand(self) -> dict[str, float]:
        """grade_id -> points of cells that a person grades in Formgrader: answers in words, nbgrader's task cells."""
        found = {}
        for cell in self.source.cells:
            about = cell.metadata.get("nbgrader", {})
            if (about.get("grade") and about.get("solution")) or about.get("task"):
                if cell.cell_type == "code":  # grade cells are never run, so the others would lack what it defines
                    raise CkptError(
                        f"the cell {about['grade_id']!r} is code that is graded by hand, which `ckptlib grade` does "
                        "not run: make it a Markdown cell, or an answer cell with a task of its own"
                    )
                found[about["grade_id"]] = float(about.get("points", 0))
        return found


class Assignment(Released):
    """An assignment with its solutions and its key, from its files' bytes, so that another machine can be sent it."""

    def __init__(self, name: str, files: dict[str, bytes]):
        self.name, self.files = name, files
        for needed in (f"{name}.ipynb", "tasks.py"):
            if needed not in files:
                raise CkptError(f"the assignment {name} has no {needed}: its source folder holds {sorted(files)}")

    @classmethod
    def load(cls, folder: str | Path) -> Assignment:
        here, folder = Path(os.path.abspath(folder)), Path(folder).resolve()  # a link leads out of its course
        if not folder.is_dir():
            raise CkptError(f"{folder} is not a folder: expected the source of an assignment")
        read_here = {f"{folder.name}.ipynb", "tasks.py", "quiz.json", "visible.json", *PRIVATE}
        found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        text = texts_of(folder)
        names = {name for name in found if name in read_here or may_be_released(name, text)}
        if names - read_here:  # otherwise nbgrader, which takes a second to import, is not needed
            names &= read_here | released_by_nbgrader(folder, ignore_patterns(here))
        return cls(folder.name, {name: (folder / name).read_bytes() for name in sorted(names)})

    @classmethod
    def beside(cls, folder: Path) -> Assignment:
        """The source of a released, submitted or autograded copy."""
        return cls.load(source_of(folder))

    # ---- notebooks --------------------------------------------------------------------------------------------------
    @cached_property
    def source(self) -> nbformat.NotebookNode:
        try:
            return nbformat.reads(self.files[f"{self.name}.ipynb"].decode("utf-8-sig"), as_version=4)
        except (ValueError, nbformat.ValidationError, nbformat.reader.NotJSONError) as error:
            raise CkptError(f"{self.name}.ipynb is not a notebook: {str(error)[:200]}") from None

    @cached_property
    def release(self) -> nbformat.NotebookNode:
        """The notebook that students get, made by nbgrader's own preprocessors, once per assignment."""
        from nbgrader import preprocessors as pp

        steps = [pp.ClearSolutions, pp.LockCells, pp.ClearOutput, pp.ClearHiddenTests, pp.ClearMarkScheme]
        notebook = nbformat.from_dict(self.source)
        resources: dict[str, Any] = {}
        for step in [*steps, pp.ComputeChecksums]:
            notebook, resources = step().preprocess(notebook, resources)
        return notebook

    @property
    def released_files(self) -> dict[str, bytes]:
        """The files beside the notebook, which a student's kernel sees as well."""
        not_released = {f"{self.name}.ipynb", *PRIVATE}
        found = {name: raw for name, raw in self.files.items() if name not in not_released}
        return found | {"quiz.json": released_quiz(found["quiz.json"])} if "quiz.json" in found else found

    @cached_property
    def digest(self) -> str:
        """Changes when the questions do. After a changed tolerance or message (key.py), nothing is run again."""
        files = {name: raw for name, raw in self.released_files.items() if name != "visible.json"}  # made with the key
        asked = [nbformat.writes(self.release), *(f"{name}:{raw!r}" for name, raw in sorted(files.items()))]
        asked += [self._text("hidden.py")] if "hidden.py" in self.files else []
        return hashlib.sha256("\0".join(asked).encode()).hexdigest()

    # ---- tasks and what to expect -----------------------------------------------------------------------------------
    @property
    def tasks_py(self) -> str:
        """The source of the probes that grading runs: tasks.py, followed by hidden.py, which may replace probes."""
        return "\n".join([self._text("tasks.py"), self._text("hidden.py")])

    @cached_property
    def _module(self) -> types.ModuleType:
        return self._loaded(self._text("hidden.py") if "hidden.py" in self.files else None)

    @cached_property
    def released_tasks(self) -> dict[str, Task]:
        """The tasks as students have them, without hidden.py."""
        return self._loaded(None).check.tasks if "hidden.py" in self.files else self.tasks

    def _loaded(self, hidden: str | None) -> types.ModuleType:
        return load_tasks(self.name, self._text("tasks.py"), hidden, self._text("key.py"), self.files.get("quiz.json"))

    @property
    def tasks(self) -> dict[str, Task]:
        return self._module.check.tasks

    @cached_property
    def reference(self) -> dict[str, Any]:
        """The names that the source notebook's own solutions define."""
        namespace: dict[str, Any] = {"__name__": "reference"}
        with known_as_tasks(self._module):
            for at, cell in enumerate(self.source.cells):
                about = cell.metadata.get("nbgrader", {})
                if cell.cell_type == "code" and not about.get("grade"):
                    label = about.get("grade_id") or cell.get("id") or f"number {at + 1}"
                    run_file(f"{self.name}.ipynb, cell {label}", cell.source, namespace)
        return namespace

    def right(self, name: str, seeds: list[int]) -> list:
        """The data of the reference for these seeds, encoded."""
        return self.right_of(self.tasks[name], seeds)

    def known(self, name: str, seeds: list[int]) -> list[dict]:
        return self.tasks[name].known(seeds)

    @property
    def replaced(self) -> list[str]:
        """Names of modules of the library whose results would do for an answer."""
        own = [thing for thing in vars(self._module).values() if isinstance(thing, OwnCode) and thing.has_results]
        return [module.__name__ for each in own for module in each.modules]

    def made(self, name: str, seeds: list[int]) -> list[list]:
        """For each seed, what the library makes for the probe: see `Given.library`."""
        task = self.tasks[name]
        return task.made_for(tuple(self.reference[each] for each in task.names), seeds)

    def right_of(self, task: Task, seeds: list[int]) -> list:
        if missing := [name for name in task.names if name not in self.reference]:
            names = ", ".join(missing)
            raise CkptError(f"tasks.py has a task {task.name}, but no cell of {self.name}.ipynb defines {names}")
        right = task.ask(tuple(self.reference[name] for name in task.names), seeds)
        for data in filter(lambda data: isinstance(data, dict), right):
            for found in (data, *(part for _, part in data.get("dict", ()) if isinstance(part, dict))):
                if "raised" in found or "refused" in found:
                    text = f"raised {found['raised']}" if "raised" in found else f"is refused: {found['refused']}"
                    raise CkptError(f"{self.name}: the reference of {task.name} {text}")
        if task.parts and not all(isinstance(data, dict) and "dict" in data for data in right):
            raise CkptError(f"{self.name}/tasks.py: {task.name} has parts=True, so its probe must return a dict")
        return right
