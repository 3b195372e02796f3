"""Where does a course keep its files? Where nbgrader's configuration says; secrets are in a private folder."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import sys
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import CkptError
from ..assignment.assignment import Assignment
from ..assignment.book_folder import BOOK
from ..sandbox.limits import Limits

if TYPE_CHECKING:
    from nbgrader.apps.baseapp import NbGrader
    from nbgrader.coursedir import CourseDirectory


class Course:
    """A folder that nbgrader calls a course: source, submitted, autograded, feedback, a gradebook."""

    def __init__(self, folder: str | Path = "."):
        self.folder = Path(folder).resolve()
        if not self.folder.is_dir():
            raise CkptError(f"{folder} is not a folder: expected a course, with submitted/STUDENT/ASSIGNMENT in it")

    # ---- what nbgrader knows ----------------------------------------------------------------------------------------
    @cached_property
    def app(self) -> NbGrader:
        """nbgrader's application, configured as if it had been started in the course's folder."""
        from nbgrader.apps.baseapp import NbGrader

        app, path = NbGrader(log_level=logging.ERROR), list(sys.path)
        with contextlib.chdir(self.folder):
            app.initialize([], root=str(self.folder))
        sys.path[:] = path  # nbgrader puts the course's folder first: a file there must not replace a module here
        app.coursedir.student_id = "*"
        return app

    @cached_property
    def directory(self) -> CourseDirectory:
        """Folders as configured. Without a configured source folder and without source/, solutions/ is used."""
        found = self.app.coursedir
        said = self.app.config.CourseDirectory
        root = Path(found.root)
        if "source_directory" not in said and not (root / "source").is_dir() and (root / "solutions").is_dir():
            found.source_directory = "solutions"
            if "release_directory" not in said:
                found.release_directory = "exercises"
        return found

    def path(self, step: str, student: str, assignment: str) -> Path:
        """step: source, submitted, autograded, feedback."""
        folder = getattr(self.directory, f"{step}_directory")
        return Path(os.path.normpath(self.directory.format_path(folder, student, assignment)))

    def link_to(self, student: str, assignment: str) -> Path | None:
        """The symbolic link, if any, in the path to a submission. It may lead to the work of another student."""
        folder = self.path("submitted", student, assignment)
        top = Path(os.path.normpath(os.path.join(self.directory.root, self.directory.submitted_directory)))
        ways = [path for path in (folder, *folder.parents) if path != top and path.is_relative_to(top)]
        return next((path for path in ways if path.is_symlink() or _is_junction(path)), None)

    def source(self, name: str) -> Path:
        """The folder of an assignment's source; it need not exist."""
        if name in ("", ".", "..") or "/" in name or "\\" in name:
            raise CkptError(f"{name!r} is not the name of an assignment: expected a name such as 01_activation_memory")
        return self.path("source", ".", name)

    # ---- assignments and students -----------------------------------------------------------------------------------
    def assignment(self, name: str) -> tuple[Assignment, str]:
        """The assignment's source, and a sentence if it is not the course's own but the book's."""
        own = self.source(name)
        if own.is_dir():
            return Assignment.load(own), ""
        book = BOOK / "solutions" / name
        if book.is_dir():
            return Assignment.load(book), f"{own.parent.name}/{name} is not in this course, so the book's own is used."
        found = {path.parent.name for folder in (own.parent, BOOK / "solutions") for path in folder.glob("*/tasks.py")}
        known = f"Available assignments: {', '.join(sorted(found))}." if found else "This course has no assignments."
        raise CkptError(f"no assignment {name!r}: expected its source in {own}. {known}")

    def students(self, assignment: str) -> list[str]:
        """Names of the students who submitted. Every entry counts, because an empty folder gets a reason as well."""
        mark = "\0"
        before, after = str(self.path("submitted", mark, assignment)).split(mark)
        folder = Path(before)  # of the students; `after` leads from there to the assignment
        if not folder.is_dir():
            return []
        excluded = self.directory.student_id_exclude.split(",")
        names = (entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
        return sorted(name for name in names if name not in excluded and os.path.lexists(before + name + after))

    @cached_property
    def limits(self) -> Limits:
        """The limits of one submission. `c.Limits.cell_seconds = 40` in nbgrader_config.py changes one."""
        said, known = dict(self.app.config.get("Limits", {})), [field.name for field in fields(Limits)]
        for name, value in said.items():
            if name not in known:
                raise CkptError(
                    f"c.Limits.{name} in nbgrader_config.py: there is no such limit, only {', '.join(known)}"
                )
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
                raise CkptError(f"c.Limits.{name} is {value!r}: expected a number above 0")
        return Limits(**said)

    # ---- what nobody else may read ----------------------------------------------------------------------------------
    @cached_property
    def private(self) -> Path:
        folder = Path(self.directory.root) / ".ckptlib"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    @cached_property
    def secret(self) -> bytes:
        """The course's secret, which is made once. Anyone who knows it can compute the inputs of every student."""
        path = self.private / "secret"
        if not path.exists():
            new = path.with_name(f"secret.{os.getpid()}")
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                file.write(secrets.token_hex(32))
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(new, path)  # unlike a rename, this never replaces a secret that somebody else has just made
            new.unlink()
        return path.read_bytes()


def _is_junction(path: Path) -> bool:
    """Windows' other kind of link to a folder. Python knows it from 3.12 on."""
    return getattr(os.path, "isjunction", lambda path: False)(path)
