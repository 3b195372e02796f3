"""Where is the book, and where is the source of an assignment? Asked before torch is imported."""

from pathlib import Path

from ...errors import CkptError

BOOK = Path(__file__).resolve().parents[3]  # holds book/, exercises/ and solutions/, if it is a checkout


def source_of(folder: Path) -> Path:
    """The source of a released, submitted or autograded copy: in solutions/ or source/ of the same course."""
    for course in (folder, *folder.parents):
        for source in (course / "solutions" / folder.name, course / "source" / folder.name):
            if (source / "tasks.py").is_file():
                return source
    raise CkptError(
        f"the source of {folder.name} is not available: hidden checks run where solutions/{folder.name} is, "
        "with the instructor or in the book's repository"
    )
