"""Can a text of one letter, repeated, keep the grader busy? It is read outside the sandbox, where no clock runs."""

import time

import pytest
from small_release import NAME, as_bytes, cell, code, release, solved

from ckptlib.grading.feedback.feedback_page import Pages
from ckptlib.grading.notebooks.cell_text import without_colab
from ckptlib.grading.notebooks.rebuild import read_submission, reassemble
from ckptlib.grading.one_submission.scoring import Result
from ckptlib.grading.reports.similarity import fingerprints

RELEASE = release()
LONG, PARSED, SHOWN = 100_000, 49_000, 19_000  # letters: beyond some lengths less is done with a text
SECONDS = 10  # of processor time; below 1 on an idle core, minutes where it grows with the square
BEFORE = ("", "from google.colab import ", "import google.colab ", "x = drive.mount(", "'%", "def f(")
REPEATED = [
    " ",
    "\n",
    " \n",
    "\t",
    "'",
    '"',
    "\\",
    "\\\n",
    "(",
    "[",
    "{",
    "a",
    "0",
    "a, ",
    "a = ",
    "f'{",
    "{a[",
    "#",
    ";",
    "'''\\",
]
REPEATED += ["%", "!", "%%", "\x0b", "\x1b[", "\x1b[1;", "`", "-", ".a", "lambda:", "*a,", "async ", "import ", "é"]


def hostile(piece, letters):
    """Texts that nearly match what the grader looks for."""
    return [f"{before}{piece * (letters // len(piece))}{after}" for before in BEFORE for after in ("!", "\n")]


def took(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def test_many_spaces_after_an_import_of_colab():
    assert took(lambda: without_colab("from google.colab import " + " " * 1500 + "!")) < 1  # it was cubic: 7 s


@pytest.mark.slow
@pytest.mark.parametrize("piece", REPEATED, ids=ascii)
def test_a_long_run_of_anything_is_rebuilt_shown_and_compared_in_no_time(piece):
    texts = hostile(piece, SHOWN)

    def rebuilt():
        notebook = solved()
        notebook["cells"] += [code(text) for text in hostile(piece, LONG) + hostile(piece, PARSED)[::2]]
        cell(notebook, "area")["source"] = "import google.colab\n" + texts[1]
        assert reassemble(read_submission({NAME: as_bytes(notebook)}, NAME), RELEASE).problem is None

    def on_a_page():
        printed = [{"output_type": "stream", "name": "stdout", "text": texts[0]}]
        cells = [{"id": f"extra-{i}", "source": text, "cell_type": "code"} for i, text in enumerate(texts)]
        record = {"notebook": {"cells": cells}, "cells": {cell["id"]: {"outputs": printed} for cell in cells}}
        Pages(RELEASE).page(Result("ada", []), record)

    assert took(rebuilt) < SECONDS
    assert took(on_a_page) < SECONDS
    assert took(lambda: [fingerprints(text) for text in texts]) < SECONDS


def test_what_only_colab_can_run_is_found_as_before():
    only = [
        "from google.colab import drive",
        "from   google.colab.files   import   upload ,  download",
        "from google.colab import *;  drive.mount('/content/drive') ;",
        "import google.colab, google.colab.drive  ",
        "got = files.upload()\t",
        "import google.colab; files.download('x')  # why",
    ]
    other = ["from google.colab import x!", "import google.colabx!", "drive.mount(f())", "import google.colab; y = 1"]
    for line in only:
        assert without_colab(f"# google.colab\n{line}").endswith(f"\n# only in Colab: {line}")
    for line in other:
        assert without_colab(f"# google.colab\n{line}").endswith(f"\n{line}")
