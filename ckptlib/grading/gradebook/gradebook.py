"""How do scores get into nbgrader's gradebook? By one writer: all of a student's grades or none."""

from __future__ import annotations

import contextlib
import copy
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from nbgrader import api
from nbgrader import preprocessors as pp
from nbgrader.api import Gradebook
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, OperationalError

from ...errors import CkptError
from ..assignment.assignment import Assignment

T = TypeVar("T")
PATIENCE = 300.0  # seconds that somebody else may hold the gradebook
_ASK_AGAIN = 5  # seconds that the database itself waits for a lock; SQLite's default in Python
_LASTING: tuple[str, ...] = ("no such", "readonly", "read-only", "unable to open", "does not exist", "has no column")
_FULL = ("is full", "no space left")  # as SQLite and as PostgreSQL say it
_LASTING += ("authentication", "not a database", "disk i/o error", *_FULL)
_NOTHING_LOST = (
    "Nothing is lost, because the answers are kept: the same command with --resume (and without --fresh) finishes "
    "the work without running them again"
)


class OneGradebook(Gradebook):
    """nbgrader's gradebook, opened once, and waiting while somebody else has locked it."""

    def __init__(self, url: str, course_id: str, tell: Callable[[str], None]):
        logging.getLogger("tornado.application").setLevel(logging.CRITICAL)  # nbgrader logs an error, then raises it
        self.url, self._tell = with_lock_timeout(url), tell
        with _version_known():
            self._wait(lambda: super(OneGradebook, self).__init__(self.url, course_id), lambda: None)

    def when_unlocked(self, work: Callable[[], T]) -> T:
        """Do `work` in one transaction; while the gradebook is locked, undo it, wait, and do it again."""

        def once() -> T:
            done = work()
            self.db.commit()
            return done

        return self._wait(once, self.db.rollback)

    def _wait(self, work: Callable[[], T], undo: Callable[[], None]) -> T:
        start, pause = time.monotonic(), 0.2
        while True:
            try:
                return work()
            except Exception as error:
                undo()
                cause = _database_error(error)
                if cause is None:
                    raise
                if not passing(cause):
                    hint = f". Make room on its disk. {_NOTHING_LOST}" if _says(cause, _FULL) else ""
                    raise CkptError(f"the gradebook cannot be opened or written: {cause.orig}".strip() + hint) from None
                said, waited = str(cause.orig).strip().splitlines()[0], time.monotonic() - start
                if waited > PATIENCE:
                    raise CkptError(
                        f"the gradebook has been locked for {waited:.0f} s ({said}). {_NOTHING_LOST}"
                    ) from None
                self._tell(f"the gradebook is locked by another program ({said}); waiting for {waited:.0f} s so far")
                time.sleep(pause)
                pause = min(2 * pause, 5)

    def enter(self, assignment: Assignment) -> None:
        """Enter the assignment with its cells, as `nbgrader generate_assignment` does, or bring it up to date."""
        self.when_unlocked(lambda: self.update_or_create_assignment(assignment.name))
        notebook = copy.deepcopy(assignment.source)  # the steps change the notebook in place
        for step in (pp.LockCells, pp.ClearSolutions, pp.ClearOutput, pp.CheckCellMetadata, pp.ComputeChecksums):
            notebook, _ = step().preprocess(notebook, {})
        about = {"notebook": assignment.name, "assignment": assignment.name, "db_url": self.url}
        try:
            self._wait(lambda: pp.SaveCells().preprocess(notebook, {"nbgrader": about}), lambda: None)
        except RuntimeError as error:
            raise CkptError(
                f"the cells of {assignment.name} in the gradebook differ from those in its source, and there "
                f"are grades for it: {error}. To start over: nbgrader db assignment remove {assignment.name} --force"
            ) from None


@contextlib.contextmanager
def _version_known() -> Iterator[None]:
    """For a new gradebook nbgrader runs the command `alembic`, which is on nobody's PATH unless .venv is active."""

    def version() -> str | None:
        from alembic.script import ScriptDirectory

        return ScriptDirectory(str(Path(api.__file__).with_name("alembic"))).get_current_head()

    before, api.get_alembic_version = api.get_alembic_version, version
    try:
        yield
    finally:
        api.get_alembic_version = before


def with_lock_timeout(url: str) -> str:
    """PostgreSQL waits for a lock forever, in silence, unless it is told not to."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "postgresql":
        return url
    options = f"{parsed.query.get('options', '')} -c lock_timeout={1000 * _ASK_AGAIN}".strip()
    return parsed.update_query_dict({"options": options}).render_as_string(hide_password=False)


def _database_error(error: BaseException | None) -> DBAPIError | None:
    """The error of the database. nbgrader wraps it in errors of its own, so it is the first of several."""
    while error is not None:
        if isinstance(error, DBAPIError):
            return error
        error = error.__cause__ or error.__context__
    return None


def passing(error: DBAPIError) -> bool:
    """Is it worth waiting? A lock or a lost connection is temporary; a missing table or a full disk is not."""
    return isinstance(error, OperationalError) and not _says(error, _LASTING)


def _says(error: DBAPIError, words: tuple[str, ...]) -> bool:
    text = str(error.orig).lower()
    return any(word in text for word in words)
