"""What does `ckptlib check PATH` do? Grade one exercise here and now, as an instructor would."""

from __future__ import annotations

import argparse
import json
import secrets
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import CkptError
from ..assignment.book_folder import BOOK, source_of
from ..notebooks import submitted_files
from ..reports import reader_progress
from ..run.machine_trouble import MachineTrouble, patiently
from ..sandbox import sandbox
from ..sandbox.limits import Limits
from .grade import skip_grammars

if TYPE_CHECKING:
    from ..assignment.assignment import Assignment, Released
    from ..one_submission.scoring import Result
    from ..tasks.probes import Task

WIDTH = 100
_SOURCES = ("source", "solutions")  # the folders of an author
_ALONE = "Only the visible checks were run: {}."


def check_path(args: argparse.Namespace) -> tuple[str, int]:
    """args: path, json. Returns what to print, and the exit code."""
    skip_grammars()
    folder, files = _exercise(Path(args.path))
    result, remark = _untouched(folder, files) or _run(folder, files)
    if folder.parent.name == "exercises" and not remark:  # a reader's own work, not an instructor's look at a student's
        reader_progress.keep(folder.name, result.score, result.max_score)
    full = not result.problem and result.score >= result.max_score
    if args.json:
        found = {"assignment": folder.name, "visible_only": bool(remark)} | result.as_json()
        return json.dumps(found, indent=2), 0 if full else 1
    return _shown(result, remark), 0 if full else 1


def _run(folder: Path, files: dict[str, bytes]) -> tuple[Result, str]:
    """The result, and a remark if it is not the one that an instructor would get."""
    source: Assignment | None = None
    remark = ""
    with ThreadPoolExecutor(1) as starting:
        warm = starting.submit(sandbox.default, own_work=True)  # it imports torch, and so do we: at the same time
        import torch

        from ..assignment.assignment import Assignment
        from ..authoring.make_release import examined

        torch.set_num_threads(1)  # on a busy machine, two threads would mostly wait for one another
        try:
            source = Assignment.load(_source_folder(folder))
            _ = source.release  # nbgrader takes a while to make it, and the warm process is not ready yet
        except CkptError as error:
            source, remark = None, _ALONE.format(error)
        try:
            warm.result()
        except sandbox.SandboxUnavailable as why:
            raise CkptError(f"nothing was run, because {why}") from None
    if source is None:
        return _visible(files), remark
    if folder.parent.name in _SOURCES:
        examined(source)  # its author's own check reports what `ckptlib release` would refuse
    return _result(source, files, lambda task: [secrets.randbits(48) for _ in range(task.cases)]), ""


def _untouched(folder: Path, files: dict[str, bytes]) -> tuple[Result, str] | None:
    """The same for a notebook that nobody has changed since its release: at once, without a kernel or torch.

    None: it has been changed, or it cannot be known, or its author asks.
    """
    import nbformat

    from ..notebooks.rebuild import read_submission, reassemble
    from ..one_submission.scoring import Result, TaskScore
    from ..tasks.comparison import NOT_ANSWERED

    try:
        visible = json.loads(files["visible.json"])
        name = next(name for name in visible if name.endswith(".ipynb"))
        release = nbformat.from_dict(visible[name])
        rebuilt = reassemble(read_submission(files, name), release)
        marks = [cell.metadata.get("nbgrader", {}) for cell in release.cells]
        graded = [(mark.grade_id, mark.points) for mark in marks if mark.get("grade") and not mark.solution]
    except Exception:  # whatever is wrong with these files, the full check says so
        return None
    by_hand = any(mark.get("task") or (mark.get("grade") and mark.get("solution")) for mark in marks)
    changed = [cell.source for cell in rebuilt.notebook.cells] != [cell.source for cell in release.cells]
    if rebuilt.problem or changed or by_hand or folder.parent.name in _SOURCES:
        return None
    try:
        _source_folder(folder)
        remark = ""
    except CkptError as error:
        remark = _ALONE.format(error)
    tasks = [
        TaskScore(id.removeprefix("check-"), id, 0, points, NOT_ANSWERED, missed=[NOT_ANSWERED])
        for id, points in graded
    ]
    return Result("", tasks, rebuilt.notes), remark


def _exercise(path: Path) -> tuple[Path, dict[str, bytes]]:
    """The exercise's folder and its files; a notebook's own name comes first among them."""
    path = path.resolve()
    if path.is_dir():
        if not any(path.glob("*.ipynb")):
            raise CkptError(f"no notebook in {path}: expected an exercise, such as exercises/01_activation_memory")
        return path, submitted_files.read(path, "", f"{path.name}.ipynb").files
    if not path.is_file():
        raise CkptError(f"{path} does not exist: expected an exercise's folder or notebook")
    files = submitted_files.read(path.parent, "", path.name).files
    if path.name not in files:
        raise CkptError(f"{path} cannot be read")
    others = {name: raw for name, raw in files.items() if not name.endswith(".ipynb")}
    named = path.parent if (path.parent / "tasks.py").is_file() else path.with_suffix("")
    return named, others | {path.name: files[path.name]}


def _source_folder(folder: Path) -> Path:
    """The assignment's source: in the course that the folder belongs to, or else in the book."""
    try:
        return source_of(folder)
    except CkptError:
        if (BOOK / "solutions" / folder.name / "tasks.py").is_file():
            return BOOK / "solutions" / folder.name
        raise


def _visible(files: dict[str, bytes]) -> Result:
    """The result on the inputs that everybody sees, for which the release is enough."""
    from ..one_submission.scoring import Result
    from ..one_submission.tasks_without_source import released

    try:
        assignment = released(files)
    except CkptError as problem:
        return Result("", [], problem=str(problem))
    return _result(assignment, files, lambda task: task.visible_seeds())


def _result(assignment: Released, files: dict[str, bytes], draw: Callable[[Task], list[int]]) -> Result:
    """The result that `ckptlib grade` gives these files. draw: returns the seeds for a task."""
    from ..one_submission.grade_one import examine
    from ..one_submission.scoring import score

    seeds = {name: draw(assignment.tasks[name]) for name in assignment.graded.values()}
    try:
        record = patiently(lambda: examine(assignment, files, seeds, Limits()))
    except (MachineTrouble, sandbox.SandboxUnavailable) as why:
        raise CkptError(f"not checked yet, because {why}. This says nothing about your answers: try again") from None
    result = score(assignment, "", record)
    for name, points in assignment.by_hand.items():
        result.notes.append(f"{name!r} is graded by hand, so its {points:g} points are not counted here")
    return result


def _shown(result: Result, remark: str) -> str:
    lines = [remark, ""] if remark else []
    if result.problem:
        return "\n".join([*lines, result.problem])
    for task in result.tasks:
        points = f"{'–':>5}{'':8}" if task.recorded else f"{task.points:>5g} / {task.max_points:<4g} "
        lines.append(points + task.name)
        for paragraph in task.message.splitlines():
            lines += textwrap.wrap(paragraph, WIDTH, initial_indent=" " * 13, subsequent_indent=" " * 13)
        if task.section:
            lines.append(" " * 13 + f"Read again: {task.section}.")
    lines += [f"{'Note: ' + note}" for note in [*result.notes, *result.flags]]
    return "\n".join([*lines, f"{result.score:>5g} / {result.max_score:g}"])
