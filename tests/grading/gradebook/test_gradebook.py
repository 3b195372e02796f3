"""Does the gradebook wait for a lock, and for nothing that does not pass?"""

import time

import pytest
from nbgrader.api import Student
from sqlalchemy import text

from ckptlib.errors import CkptError
from ckptlib.grading.gradebook.gradebook import OneGradebook


def test_a_full_disk_is_no_lock(tmp_path):
    """SQLite's own error, from a database that may not grow."""
    told, begin = [], time.monotonic()
    with OneGradebook(f"sqlite:///{tmp_path}/gradebook.db", "toys", told.append) as gradebook:

        def fill() -> None:
            gradebook.db.execute(text("PRAGMA max_page_count = 1"))  # no smaller than it is: not one page more
            gradebook.db.add_all(Student(id=f"{number}" * 100) for number in range(1000, 2000))
            gradebook.db.flush()

        with pytest.raises(CkptError, match=r"written: database or disk is full\. Make room .* --resume"):
            gradebook.when_unlocked(fill)
        assert gradebook.students == []
    assert not told and time.monotonic() - begin < 60
