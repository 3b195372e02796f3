"""Does a record come back as it was written, or not at all?"""

import pytest

from ckptlib.errors import CkptError
from ckptlib.grading.gradebook.journal import Journal, locked


def test_a_record_comes_back(tmp_path):
    journal = Journal(tmp_path)
    for student in ("ada", "Émile Borel", "a/b", "x" * 300, "../up", "odd\udce9"):
        assert journal.answers(student) is None
        journal.keep_answers(student, {"student": repr(student)})
        assert journal.answers(student) == {"student": repr(student)}
    assert {path.parent for path in tmp_path.rglob("*.gz")} == {tmp_path / "answers"}


@pytest.mark.parametrize("cut", [0, 1, 10, -1])
def test_a_truncated_record_is_no_record(tmp_path, cut):
    journal = Journal(tmp_path)
    journal.keep_answers("ada", {"answers": list(range(100))})
    (path,) = (tmp_path / "answers").iterdir()
    path.write_bytes(path.read_bytes()[:cut])
    assert journal.answers("ada") is None


def test_only_its_owner_reads_the_journal(tmp_path):
    Journal(tmp_path / "private")
    assert (tmp_path / "private/answers").stat().st_mode & 0o077 == 0


def test_a_lock_of_a_dead_process_is_taken_over(tmp_path):
    (tmp_path / "lock").write_text("process 1 on elsewhere")
    with locked(tmp_path):
        pass
    with locked(tmp_path):
        assert "process 1 " not in (tmp_path / "lock").read_text()


def test_a_lock_that_is_held_names_its_holder(tmp_path):
    import multiprocessing

    def hold(ready, end):
        with locked(tmp_path):
            ready.set()
            end.wait()

    context = multiprocessing.get_context("fork")
    ready, end = context.Event(), context.Event()
    holder = context.Process(target=hold, args=(ready, end))
    holder.start()
    ready.wait()
    with pytest.raises(CkptError, match=f"graded by process {holder.pid} on"), locked(tmp_path):
        pass
    end.set()
    holder.join()


def test_a_full_disk_is_said_and_the_record_before_it_stays(tmp_path):
    journal = Journal(tmp_path)
    journal.keep_answers("ada", {"first": 1})
    (tmp_path / "answers" / "ada.json.gz.new").symlink_to("/dev/full")
    with pytest.raises(CkptError, match=r"ada.json.gz cannot be written: No space left on device.*--resume"):
        journal.keep_answers("ada", {"second": 2})
    assert journal.answers("ada") == {"first": 1}
    assert [path.name for path in (tmp_path / "answers").iterdir()] == ["ada.json.gz"]


def test_what_is_forgotten_is_gone_and_nobody_elses_with_it(tmp_path):
    journal = Journal(tmp_path)
    for student in ("ada", "bob"):
        journal.keep_answers(student, {"about": student})
        journal.keep_graded(student, [], {"student": student})
    journal.forget_graded("bob")
    journal.forget("ada")
    journal.forget("nobody")
    assert (journal.answers("ada"), journal.graded("ada")) == (None, None)
    assert (journal.answers("bob"), journal.graded("bob")) == ({"about": "bob"}, None)


def test_a_lock_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "lock").mkdir()
    says = "lock cannot be written: Is a directory.*same command again"
    with pytest.raises(CkptError, match=says), locked(tmp_path):
        pass
    (tmp_path / "lock").rmdir()
    with pytest.raises(OSError, match="of the work itself"), locked(tmp_path):
        raise OSError("of the work itself")
