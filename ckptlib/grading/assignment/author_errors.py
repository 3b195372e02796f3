"""Where is the author's mistake? An author's files are run here; an error is reported with its file and line."""

from __future__ import annotations

import sys
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...errors import CkptError
from ..tasks.probes import NOT_ASKED, Quiz, Task
from ..tasks.quiz import read as read_quiz


def run_file(where: str, code: str, namespace: dict[str, Any]) -> None:
    """Run an author's code, never a student's. `where` names it in errors: 01_toy/key.py."""
    try:
        exec(compile(code, where, "exec", dont_inherit=True), namespace)
    except (Exception, SystemExit) as error:
        said = error.msg if isinstance(error, SyntaxError) else error
        raise CkptError(f"{where}{_line(error, where)}: {type(error).__name__}: {said}") from error


def _line(error: BaseException, where: str) -> str:
    """The line of this file that led to the error, however deep in a library it was raised."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == where]
    if isinstance(error, SyntaxError) and error.filename == where:
        lines.append(error.lineno)
    return f", line {lines[-1]}" if lines else ""


def load_tasks(name: str, tasks_py: str, hidden_py: str | None, key_py: str, quiz: bytes | None) -> types.ModuleType:
    """The module `tasks` as grading sees it: with the hidden probes, the known mistakes and the quiz's sentences."""
    module = types.ModuleType("tasks")
    module.__file__ = str(Path.cwd() / "tasks.py")
    run_file(f"{name}/tasks.py", tasks_py, module.__dict__)
    if not hasattr(module, "check"):
        raise CkptError(f"{name}/tasks.py: expected `check = Checks(__file__)`, and a probe for each task")
    if hidden_py is not None:
        seen = _probes(module)
        run_file(f"{name}/hidden.py", hidden_py, module.__dict__)
        _see_that_they_are_one_file(name, tasks_py, hidden_py)
        if all(_probes(module).get(task) is probe for task, probe in seen.items()):
            example = next(iter(seen), "NAME")
            raise CkptError(
                f"{name}/hidden.py does not replace a probe, so grading would use the probes that students can read: "
                f"expected `@check.{example}.hidden` above a probe. Was the decorator forgotten?"
            )
    with known_as_tasks(module):
        run_file(f"{name}/key.py", key_py, {"__name__": "key"})
    if quiz is not None:
        _add_quiz_sentences(module.check.tasks.get("quiz"), f"{name}/quiz.json", quiz)
    return module


def _probes(module: types.ModuleType) -> dict[str, Callable]:
    return {name: task.probe for name, task in module.check.tasks.items()}


def _see_that_they_are_one_file(name: str, tasks_py: str, hidden_py: str) -> None:
    """A kernel gets both as one file, in which, for example, an import from __future__ must be at the beginning."""
    try:
        compile(f"{tasks_py}\n{hidden_py}", "tasks.py", "exec", dont_inherit=True)
    except SyntaxError as error:
        raise CkptError(f"{name}/hidden.py cannot be appended to tasks.py, as grading does: {error.msg}") from None


@contextmanager
def slips_in(where: str) -> Iterator[list[str]]:
    """Which undefined names does this file use? Reported by line, even if a probe catches the exception.

    Mistakes may raise on purpose. But a NameError is never the idea that was missed. It is the author's typing error,
    and every student with a NameError of their own would get the mistake's message.
    """
    slips: list[str] = []

    def trace(frame: types.FrameType, event: str, _: Any) -> Callable | None:
        if frame.f_code.co_filename != where:
            return None
        frame.f_trace_lines = False
        return see

    def see(frame: types.FrameType, event: str, about: Any) -> Callable:
        if event == "exception" and _is_slip(*about[1:]):
            slips.append(f"{where}, line {frame.f_lineno}: {type(about[1]).__name__}: {about[1]}")
        return see

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield slips
    finally:
        sys.settrace(before)


def _is_slip(error: BaseException, raised: types.TracebackType) -> bool:
    if isinstance(error, AttributeError):
        return isinstance(error.obj, types.ModuleType)  # torch.zeroes
    if not isinstance(error, NameError) or raised.tb_next is not None:  # raised further down, in another's code
        return False
    # `raise NameError(…)` is written on purpose: it names nothing. Nor do Python's own UnboundLocalErrors.
    return error.name is not None or isinstance(error, UnboundLocalError)


@contextmanager
def known_as_tasks(module: types.ModuleType) -> Iterator[None]:
    """While this is active, `from tasks import check` in notebooks and keys imports this assignment's module."""
    before = sys.modules.get("tasks")
    sys.modules["tasks"] = module
    try:
        yield
    finally:
        if before is None:
            del sys.modules["tasks"]
        else:
            sys.modules["tasks"] = before


def _add_quiz_sentences(quiz: Task | None, where: str, raw: bytes) -> None:
    if isinstance(quiz, Quiz):
        for name, item in read_quiz(raw, where).items():
            for letter, choice in item["choices"].items():
                if len(choice) == 1:
                    raise CkptError(
                        f"{where}: choice {letter} of {name} has no sentence that says why it is right or wrong"
                    )
                quiz.mistake(choice[1], *(letter if name == other else NOT_ASKED for other in quiz.names))
