"""Where is the slip? An author's files are run here; what goes wrong is told in one sentence, with file and line."""

from __future__ import annotations

import json
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...errors import CkptError
from ..tasks.probes import NOT_ASKED, Quiz, Task


def run_file(where: str, code: str, namespace: dict[str, Any]) -> None:
    """Run an author's code, never a student's. `where` names it in errors: 01_toy/key.py."""
    try:
        exec(compile(code, where, "exec", dont_inherit=True), namespace)
    except (Exception, SystemExit) as error:
        raise CkptError(f"{where}{_line(error, where)}: {type(error).__name__}: {_said(error)}") from error


def _line(error: BaseException, where: str) -> str:
    """The line of this file that led to it, however deep in a library it was raised."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == where]
    if isinstance(error, SyntaxError) and error.filename == where:
        lines.append(error.lineno)
    return f", line {lines[-1]}" if lines else ""


def _said(error: BaseException) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)


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
                f"{name}/hidden.py replaces no probe, so grading would ask what students can read: "
                f"expected `@check.{example}.hidden` above a probe. Was the decorator forgotten?"
            )
    with known_as_tasks(module):
        run_file(f"{name}/key.py", key_py, {"__name__": "key"})
    if quiz is not None:
        _add_quiz_sentences(module.check.tasks, f"{name}/quiz.json", quiz)
    return module


def _probes(module: types.ModuleType) -> dict[str, Callable]:
    return {name: task.probe for name, task in module.check.tasks.items()}


def _see_that_they_are_one_file(name: str, tasks_py: str, hidden_py: str) -> None:
    """So they are sent to a kernel; an import from __future__, for one, is possible at a file's beginning only."""
    try:
        compile(f"{tasks_py}\n{hidden_py}", "tasks.py", "exec", dont_inherit=True)
    except SyntaxError as error:
        raise CkptError(f"{name}/hidden.py cannot be appended to tasks.py, as grading does: {error.msg}") from None


@contextmanager
def slips_in(where: str) -> Iterator[list[str]]:
    """Which names does this file use that nothing has? Told by line, also where a probe catches what was raised.

    Mistakes may raise on purpose. But a NameError is never the idea that was missed: it is the author's typing error,
    and every student with one of their own would be told the mistake's sentence.
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


def _add_quiz_sentences(tasks: dict[str, Task], where: str, raw: bytes) -> None:
    quiz = tasks.get("quiz")
    if not isinstance(quiz, Quiz):
        return
    try:
        for name, item in json.loads(raw).items():
            for letter, (_, sentence) in item["choices"].items():
                answers = tuple(letter if name == other else NOT_ASKED for other in quiz.names)
                quiz.mistake(sentence, *answers)
    except json.JSONDecodeError as error:
        raise CkptError(f"{where}, line {error.lineno}: {error.msg}. Is a comma missing, or one too many?") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        expected = '{"q1": {"question": …, "choices": {"a": [text, sentence], …}}, …}'
        raise CkptError(f"{where}: expected {expected}, found something else: {error!r}") from None
