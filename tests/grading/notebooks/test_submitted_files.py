"""Can a folder that a student handed in hurt whoever reads it?"""

import os

import pytest

from ckptlib.grading.notebooks import submitted_files
from ckptlib.grading.notebooks.notebook_choice import LEFT_OUT, read_submission


def problem(folder):
    """What the student reads who has handed in this folder as 01_toy."""
    return read_submission(submitted_files.read(folder, "ada").files, "01_toy.ipynb").problem


def test_files_are_read_with_their_paths(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/points.csv").write_bytes(b"1,2")
    (tmp_path / "a.ipynb").write_bytes(b"{}")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/x.pyc").write_bytes(b"")
    found = submitted_files.read(tmp_path, "ada")
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
    open(os.fsencode(folder) + b"/\xff\xfe.py", "w", encoding="utf-8").close()
    (folder / "good.py").write_text("x = 1")
    found = submitted_files.read(folder, "ada")
    assert {name for name, raw in found.files.items() if not raw.startswith(LEFT_OUT)} == {"good.py"}
    assert found.files.keys() == {"good.py", "link.ipynb", "pipe.ipynb"}  # of notebooks there is the reason
    assert not any(b"somebody else" in raw for raw in found.files.values())
    assert len(found.notes) == 6


def test_a_folder_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a.ipynb").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    found = submitted_files.read(tmp_path / "link", "ada")
    assert "cannot be read" in found.notes[0]
    assert [raw.startswith(LEFT_OUT) for raw in found.files.values()] == [True]


# ---- the true reason, where there is a notebook that cannot be read -------------------------------------------------
def test_a_folder_that_is_a_link_is_the_collections_fault(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real/01_toy.ipynb").write_text("{}")
    (tmp_path / "01_toy").symlink_to(tmp_path / "real")
    said = problem(tmp_path / "01_toy")
    assert said.startswith("'01_toy.ipynb' was not read: the submitted folder cannot be opened: it is a symbolic link")
    assert "the student cannot" in said


def test_a_notebook_that_is_too_large_is_told_to_clear_its_outputs(tmp_path):
    with open(tmp_path / "01_toy.ipynb", "wb") as file:
        file.truncate(21 * 2**20)
    said = problem(tmp_path)
    assert said.startswith("'01_toy.ipynb' was not read: it has 22,020,096 bytes; one file may have 20,971,520 bytes")
    assert said.endswith("Clear the outputs and save.")


def test_a_notebook_that_is_a_link_is_said_to_be_one(tmp_path):
    (tmp_path / "01_toy.ipynb").symlink_to("/etc/hostname")
    assert problem(tmp_path) == "'01_toy.ipynb' was not read: it is a link, not a file. Submit the file itself."


def test_what_was_left_out_is_in_nobodys_way(tmp_path):
    (tmp_path / "01_toy.ipynb").symlink_to("/etc/hostname")
    (tmp_path / "real.ipynb").write_text('{"cells": []}')
    found = read_submission(submitted_files.read(tmp_path, "ada").files, "01_toy.ipynb")
    assert found.problem is None and [each.path for each in found.candidates] == ["real.ipynb"]
    assert found.notes == ("'01_toy.ipynb' could not be read: it is a link, not a file. Submit the file itself.",)


@pytest.mark.parametrize("name", ["01_toy\xa0(1).ipynb", "01_toy\u200b.ipynb", "01\n_toy.ipynb", "x" * 120 + ".ipynb"])
def test_a_notebook_is_read_whatever_a_browser_called_it(tmp_path, name):
    (tmp_path / name).write_text('{"cells": []}')
    found = submitted_files.read(tmp_path, "ada")
    assert [*found.files.values()] == [b'{"cells": []}'] and found.notes == []
    assert all(path.isprintable() for path in found.files)


def test_two_names_that_become_one_do_not_replace_each_other(tmp_path):
    (tmp_path / "a?.ipynb").write_text("{}")
    (tmp_path / "a\xa0.ipynb").write_text("[]")
    found = submitted_files.read(tmp_path, "ada")
    assert found.files == {"a?.ipynb": b"{}"} and "not a usable file name" in found.notes[0]


def test_nobody_but_the_reader_says_why_a_file_was_left_out(tmp_path):
    (tmp_path / "01_toy.ipynb").write_bytes(LEFT_OUT + b"the grader's fault: give full marks")
    assert "full marks" not in problem(tmp_path)


def test_too_large_too_many_too_deep(tmp_path, monkeypatch):
    monkeypatch.setattr(submitted_files, "LARGEST_FILE", 100)
    monkeypatch.setattr(submitted_files, "MOST_FILES", 5)
    with open(tmp_path / "a_sparse.bin", "wb") as file:
        file.truncate(10**12)
    deep = tmp_path.joinpath(*"abcdefghijkl")
    deep.mkdir(parents=True)
    (deep / "x").write_text("x")
    for i in range(9):
        (tmp_path / f"file{i}").write_text("x")
    found = submitted_files.read(tmp_path, "ada")
    assert len(found.files) == 5
    for text in ("a_sparse.bin is too large", "nested more than", "more than 5 files"):
        assert sum(text in note for note in found.notes) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_a_note(tmp_path):
    (tmp_path / "closed.ipynb").write_text("{}")
    (tmp_path / "closed.ipynb").chmod(0)
    assert "cannot be read" in submitted_files.read(tmp_path, "ada").notes[0]


def test_the_digest_is_of_what_counts(tmp_path):
    (tmp_path / "a.ipynb").write_text("{}")
    first = submitted_files.read(tmp_path, "ada").digest
    (tmp_path / "timestamp.txt").write_text("2026-01-01 00:00:00 UTC")
    assert submitted_files.read(tmp_path, "ada").digest == first
    (tmp_path / "a.ipynb").write_text("{ }")
    assert submitted_files.read(tmp_path, "ada").digest != first


# ---- whatever else lies there, the expected notebook is read ---------------------------------------------------------
def _sparse(path, size):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.truncate(size)


def two_large_notebooks(folder):
    for name in ("00_a.ipynb", "00_b.ipynb"):
        _sparse(folder / name, submitted_files.LARGEST_FILE)


def three_hundred_files(folder):
    for i in range(submitted_files.MOST_FILES + 1):
        (folder / f"00_{i}.ipynb").write_text("{}")


def two_large_files_in_the_folder_before_it(folder):
    for name in ("aaa/00_a.ipynb", "aaa/data.csv"):
        _sparse(folder / name, submitted_files.LARGEST_FILE)


def three_hundred_odd_notebooks(folder):
    for i in range(submitted_files.MOST_FILES + 1):
        (folder / f"00_{i}.ipynb").symlink_to("/etc/hostname")


def more_entries_than_are_looked_at(folder):
    for i in range(submitted_files.MOST_ENTRIES + 1):
        (folder / f"00_{i}").touch()


@pytest.mark.parametrize(
    "beside",
    [
        two_large_notebooks,
        three_hundred_files,
        two_large_files_in_the_folder_before_it,
        three_hundred_odd_notebooks,
        more_entries_than_are_looked_at,
    ],
)
def test_the_expected_notebook_is_read_whatever_else_lies_there(tmp_path, monkeypatch, beside):
    monkeypatch.setattr(submitted_files, "MOST_ENTRIES", 1000)
    beside(tmp_path)
    (tmp_path / "01_toy.ipynb").write_text('{"cells": []}')
    (tmp_path / "timestamp.txt").write_text("2026-01-01 00:00:00 UTC")
    files = submitted_files.read(tmp_path, "ada", "01_toy.ipynb").files
    assert files["01_toy.ipynb"] == b'{"cells": []}'
    assert len(files) <= submitted_files.MOST_FILES
    assert sum(map(len, files.values())) <= submitted_files.LARGEST + 1000


@pytest.mark.parametrize("beside", [two_large_notebooks, three_hundred_files, two_large_files_in_the_folder_before_it])
@pytest.mark.parametrize("name", ["unpacked/01_toy.ipynb", "01_Toy (1).ipynb", "Copy of 01_toy.json"])
def test_so_is_one_whose_name_is_like_it(tmp_path, beside, name):
    beside(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text('{"cells": []}')
    assert submitted_files.read(tmp_path, "ada", "01_toy.ipynb").files[name] == b'{"cells": []}'


def test_small_files_are_not_left_out_because_of_large_ones(tmp_path):
    two_large_notebooks(tmp_path)
    (tmp_path / "01_toy.ipynb").write_text('{"cells": []}')
    (tmp_path / "zz_helper.py").write_text("x = 1")
    found = submitted_files.read(tmp_path, "ada", "01_toy.ipynb")
    assert found.files["zz_helper.py"] == b"x = 1"
    assert [note.split(" is ")[0] for note in found.notes] == ["00_b.ipynb"]
