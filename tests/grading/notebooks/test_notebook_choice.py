"""Is the student's notebook found and read, and is there a reason where there is none?"""

import io
import json
import zipfile

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_release import NAME, SOLVED, STUBS, as_bytes, bare, code, release, solved

from ckptlib.grading.notebooks.rebuild import read_submission, reassemble

RELEASE = release()
GOOD = as_bytes(solved())
BLANK = as_bytes(RELEASE)


def grade(files):
    return reassemble(read_submission(files, NAME), RELEASE)


# ---- which file -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "path",
    [
        "01_SMALL.ipynb",
        "01_small.IPYNB",
        "01_small (1).ipynb",
        "Copy of 01_small.ipynb",
        "01_small-Copy1.ipynb",
        "Untitled.ipynb",
        "hand in/01_small.ipynb",
        "a/b/c/final FINAL (3).ipynb",
        "folder\\01_small.ipynb",
        "01_small.ipynb.json",
        "01_small.ipynb.txt",
        "01_small.ipynb.download",
        "01_small.json",
        "01_small",
        "notes.txt",
    ],
)
def test_a_renamed_file_is_found_and_said(path):
    rebuilt = grade({path: GOOD, "tasks.py": b"import x", "visible.json": b'{"double": [1, 2]}'})
    assert rebuilt.answers == SOLVED
    assert rebuilt.path == path
    assert rebuilt.notes == [f"the file '{path}' was read as '{NAME}'"]


def test_the_expected_name_wins_if_there_are_answers_in_it():
    one = solved()
    one["cells"] = one["cells"][:5]
    rebuilt = grade({NAME: as_bytes(one), "other.ipynb": GOOD})
    assert rebuilt.path == NAME
    assert f"several notebooks were submitted; '{NAME}' was read, not 'other.ipynb'" in rebuilt.notes


@pytest.mark.parametrize("exact", [BLANK, b"", b"{", as_bytes({"cells": []}), b"<html>"])
def test_a_blank_or_broken_file_of_the_expected_name_gives_way_to_an_answered_one(exact):
    rebuilt = grade({NAME: exact, "01_small (1).ipynb": GOOD})
    assert rebuilt.answers == SOLVED
    assert "the file '01_small (1).ipynb' was read as '01_small.ipynb'" in rebuilt.notes


def test_blank_files_only_the_expected_name_wins():
    assert grade({NAME: BLANK, "01_small (1).ipynb": BLANK}).path == NAME


def test_among_other_names_content_decides():
    foreign = as_bytes({"cells": [code("print('another course')")] * 50})
    rebuilt = grade({"a.ipynb": foreign, "b.ipynb": BLANK, "c.ipynb": as_bytes(bare(solved())), "d.ipynb": foreign})
    assert rebuilt.path == "c.ipynb"
    assert rebuilt.answers == SOLVED


def test_another_assignments_notebook_is_said_to_be_one():
    rebuilt = grade({"a.ipynb": as_bytes({"cells": [code("x = 1")]})})
    assert not any(rebuilt.answered.values())
    assert "no cell of 'a.ipynb' belongs to this assignment. Is it a different notebook?" in rebuilt.notes


def test_what_jupyter_and_macos_keep_for_themselves_is_not_read():
    hidden = {f".ipynb_checkpoints/{NAME}": GOOD, f"x/.ipynb_checkpoints/{NAME}": GOOD, f"__MACOSX/._{NAME}": GOOD}
    assert grade(hidden).problem == f"no file was submitted: '{NAME}' was expected"


def zipped(name):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, "x")
    return buffer.getvalue()


@pytest.mark.parametrize(
    "path, data, reason",
    [
        (NAME, b"", "empty"),
        (NAME, b" \r\n\t", "empty"),
        (NAME, b"\0" * 1000, "empty"),
        (NAME, b"\xef\xbb\xbf", "empty"),
        (NAME, zipped("a.ipynb"), "a zip archive: unpack it"),
        ("01_small.zip", zipped("a.ipynb"), "a zip archive: unpack it"),
        ("01_small.docx", zipped("word/document.xml"), "a Word document"),
        (NAME, b"%PDF-1.7", "a PDF"),
        ("homework.pdf", b"%PDF-1.7", "a PDF"),
        (NAME, b"\n<!DOCTYPE html><html>", "a web page"),
        ("01_small.html", b"<html>", "a web page"),
        ("01_small.py", b"#!/usr/bin/env python\n# In[1]:\nx = 1", "submit the .ipynb"),
        ("01_small.py", b"x=1", "submit the .ipynb"),
        (NAME, b"import torch\n", "submit the .ipynb"),
        (NAME, b"\x1f\x8b\x08", "a compressed archive"),
        (NAME, b"\x89PNG\r\n", "a picture"),
        (NAME, b"hello", "it is not JSON, the format"),
        (NAME, b"[1, 2]", "no list of cells"),
        (NAME, b'"cells"', "no list of cells"),
        (NAME, b"null", "no list of cells"),
        (NAME, b"{}", "no list of cells"),
        (NAME, b'{"cells": null, "nbformat": 4}', "no list of cells"),
        (NAME, b'{"cells": {"0": {}}}', "no list of cells"),
        (NAME, GOOD[: len(GOOD) // 2], "it ends in the middle. Was the upload complete?"),
        (NAME, GOOD[:-1], "it ends in the middle"),
        (NAME, b'{"cells": [}, "nbformat": 4, "nbformat_minor": 5}', "line 1 is not valid JSON"),
        (NAME, b'{\n<<<<<<< HEAD\n"cells": []\n=======\n>>>>>>> x\n}', "git's conflict marks"),
        (NAME, b"[" * 100_000, "nested too deep"),
        (NAME, b'{"cells":' * 100_000, "nested too deep"),
        (NAME, b'{"cells": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}", "nested too deep"),
        (NAME, b"[" + b"[]," * 3_000_000, "more than 2000000 lists"),
        (NAME, b" " * (21 * 2**20), "it has 21 MiB, but at most 20 MiB are read"),
        (NAME, b'{"cells": [' + b"{}," * 10_000 + b"{}]}", "it has 10,001 cells, but at most 10,000 are read"),
        (NAME, as_bytes({"cells": [code("x" * 5_000_000)]}), "its cells hold 5,000,000 letters"),
        ("x.csv", b"1,2", "found 'x.csv'"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value,
)
def test_a_file_that_is_no_notebook_gets_a_reason(path, data, reason):
    rebuilt = grade({path: data})
    assert reason in rebuilt.problem
    assert rebuilt.answered == dict.fromkeys(STUBS, False)
    assert [each.source for each in rebuilt.notebook.cells] == [each.source for each in RELEASE.cells]


def test_no_files_at_all():
    assert grade({}).problem == f"no file was submitted: '{NAME}' was expected"


# ---- encodings and versions -----------------------------------------------------------------------------------------
def with_accents():
    notebook = solved()
    notebook["cells"].insert(0, code("größe = 'Größe'  # µ"))
    return json.dumps(notebook, ensure_ascii=False)


@pytest.mark.parametrize("encoding", "utf-8 utf-8-sig utf-16 utf-16-le utf-16-be utf-32 latin-1 cp1252".split())
def test_every_encoding_that_an_editor_may_save_in(encoding):
    rebuilt = grade({NAME: with_accents().encode(encoding)})
    assert rebuilt.notebook.cells[0].source == "größe = 'Größe'  # µ"
    assert rebuilt.answers == SOLVED


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends(end):
    notebook = solved()
    for each in notebook["cells"]:
        each["source"] = each["source"].replace("\n", end)
    text = json.dumps(notebook, indent=1).replace("\n", end)
    assert grade({NAME: text.encode()}).answers == SOLVED


def change(notebook, **more):
    return as_bytes(notebook | more)


def nbformat_3():
    cells = []
    for each in solved()["cells"]:
        if each["cell_type"] == "code":
            cells.append({"cell_type": "code", "input": each["source"].splitlines(True), "language": "python"})
        else:
            cells.append({"cell_type": "heading", "level": 1, "source": each["source"].lstrip("# ")})
    return as_bytes({"nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": cells}, None, {"cells": 3}]})


def lines(split):
    notebook = solved()
    for each in notebook["cells"]:
        each["source"] = split(each["source"])
    return as_bytes(notebook)


STILL_A_NOTEBOOK = {
    "minor 99": lambda: change(solved(), nbformat_minor=99),
    "major 5": lambda: change(solved(), nbformat=5, nbformat_minor=0, new_section={"cells": []}),
    "no version": lambda: as_bytes({"cells": solved()["cells"]}),
    "version is text": lambda: change(solved(), nbformat="four", nbformat_minor=None),
    "nbformat 3": nbformat_3,
    "metadata null": lambda: change(solved(), metadata=None),
    "kernel of another language": lambda: change(solved(), metadata={"kernelspec": {"name": "ir", "language": "R"}}),
    "lines": lambda: lines(lambda text: text.splitlines(True)),
    "lines without line ends": lambda: lines(str.splitlines),
    "lines with a number between": lambda: lines(lambda text: [None, *text.splitlines(True), 3]),
    "cells that are no cells": lambda: change(solved(), cells=[None, 3, "x", [], {}, *solved()["cells"]]),
    "trailing NULs": lambda: GOOD + b"\0" * 4096,
    "the rest of an older file": lambda: GOOD + b' "metadata": {}}',
    "NUL in a source": lambda: GOOD.replace(b"x + x", b"x + \\u0000x"),
    "NaN": lambda: GOOD.replace(b'"execution_count": null', b'"execution_count": NaN'),
    "long number": lambda: GOOD.replace(b'"execution_count": null', b'"execution_count": ' + b"9" * 5000),
    "duplicate keys": lambda: GOOD.replace(b'{"cells": [', b'{"cells": [], "cells": ['),
    "raw line ends in strings": lambda: GOOD.replace(b"\\n", b"\n"),
    "outputs of 5 MB": lambda: GOOD.replace(b'"outputs": []', b'"outputs": ["' + b"x" * 5_000_000 + b'"]', 1),
    "outputs that are no list": lambda: GOOD.replace(b'"outputs": []', b'"outputs": {"a": 1}'),
}


@pytest.mark.parametrize("how", STILL_A_NOTEBOOK)
def test_whatever_can_be_read_is_read(how):
    data = STILL_A_NOTEBOOK[how]()
    assert data != GOOD
    rebuilt = grade({NAME: data})
    assert rebuilt.problem is None
    assert rebuilt.answers == SOLVED
    assert rebuilt.notebook.metadata == RELEASE.metadata
    nbformat.validate(rebuilt.notebook)


def test_half_a_surrogate_pair_can_still_be_written():
    notebook = solved()
    notebook["cells"].insert(0, code("text = '\ud800'"))
    rebuilt = grade({NAME: as_bytes(notebook)})
    assert nbformat.writes(rebuilt.notebook).encode()
    assert rebuilt.answers == SOLVED


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.text() | st.sampled_from([NAME, "x.ipynb", "x.json"]), st.binary(), max_size=4))
def test_arbitrary_files_never_raise(files):
    rebuilt = grade(files)
    assert not any(rebuilt.answered.values())
    assert rebuilt.problem or rebuilt.path


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(GOOD)), st.integers(0, 40), st.binary(max_size=20))
def test_a_damaged_file_never_raises(place, length, patch):
    rebuilt = grade({NAME: GOOD[:place] + patch + GOOD[place + length :]})
    nbformat.writes(rebuilt.notebook).encode()
    assert rebuilt.problem or rebuilt.path
