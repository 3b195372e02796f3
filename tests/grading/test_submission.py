"""Can a folder that a student handed in hurt whoever reads it?"""

import os

import pytest

from ckptlib.grading.course import submission


def test_files_are_read_with_their_paths(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/points.csv").write_bytes(b"1,2")
    (tmp_path / "a.ipynb").write_bytes(b"{}")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/x.pyc").write_bytes(b"")
    found = submission.read(tmp_path, "ada")
    assert found.files == {"a.ipynb": b"{}", "data/points.csv": b"1,2"} and found.notes == []


def test_links_pipes_and_odd_names_are_left_out(tmp_path):
    folder = tmp_path / "submitted"
    folder.mkdir()
    (tmp_path / "secret").write_text("of somebody else")
    (folder / "link.ipynb").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.ipynb")
    (folder / "new\nline").write_text("x")
    open(os.fsencode(folder) + b"/\xff\xfe.py", "w").close()
    (folder / "good.py").write_text("x = 1")
    found = submission.read(folder, "ada")
    assert list(found.files) == ["good.py"]
    assert len(found.notes) == 6


def test_a_folder_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a.ipynb").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    found = submission.read(tmp_path / "link", "ada")
    assert found.files == {} and "cannot be read" in found.notes[0]


def test_too_large_too_many_too_deep(tmp_path, monkeypatch):
    monkeypatch.setattr(submission, "LARGEST_FILE", 100)
    monkeypatch.setattr(submission, "MOST_FILES", 5)
    with open(tmp_path / "a_sparse.bin", "wb") as file:
        file.truncate(10**12)
    deep = tmp_path.joinpath(*"abcdefghijkl")
    deep.mkdir(parents=True)
    (deep / "x").write_text("x")
    for i in range(9):
        (tmp_path / f"file{i}").write_text("x")
    found = submission.read(tmp_path, "ada")
    assert len(found.files) == 5
    for text in ("a_sparse.bin is too large", "nested more than", "more than 5 files"):
        assert sum(text in note for note in found.notes) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_a_note(tmp_path):
    (tmp_path / "closed.ipynb").write_text("{}")
    (tmp_path / "closed.ipynb").chmod(0)
    assert "cannot be read" in submission.read(tmp_path, "ada").notes[0]


def test_the_digest_is_of_what_counts(tmp_path):
    (tmp_path / "a.ipynb").write_text("{}")
    first = submission.read(tmp_path, "ada").digest
    (tmp_path / "timestamp.txt").write_text("2026-01-01 00:00:00 UTC")
    assert submission.read(tmp_path, "ada").digest == first
    (tmp_path / "a.ipynb").write_text("{ }")
    assert submission.read(tmp_path, "ada").digest != first
