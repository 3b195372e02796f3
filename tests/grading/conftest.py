"""Shared by the tests of the grading engine: one warm process for all of them."""

import pytest
from printed import text
from small_course import NAME

from ckptlib.cli import main
from ckptlib.grading.run.run_submission import Cell, run
from ckptlib.grading.sandbox.limits import Limits
from ckptlib.grading.sandbox.sandbox import Sandbox, use


@pytest.fixture(scope="session")
def sandbox(need):
    need("bubblewrap")
    with Sandbox.start() as started:
        yield started


@pytest.fixture(scope="session")
def said(sandbox):
    """`said(code)` runs the code as one cell in a kernel of its own and returns what it printed."""

    def run_one(code: str, **limits) -> str:
        transcript = run([Cell("only", code)], [], {}, Limits(**limits), sandbox)
        return text(transcript["cells"]["only"]["outputs"])

    return run_one


@pytest.fixture
def grade(sandbox, capsys):
    """`grade(course, *options)` runs `ckptlib grade` on the small course, in this process; returns code, out, err."""

    def run_command(course, *options: str) -> tuple[int, str, str]:
        use(sandbox.address)
        code = main(["grade", NAME, "--course", str(course), *options])
        out, err = capsys.readouterr()
        return code, out, err

    return run_command
