"""Shared by the tests of the grading engine: one warm process for all of them."""

import pytest
from printed import text

from ckptlib.grading.limits import Limits
from ckptlib.grading.run import Cell, run
from ckptlib.grading.sandbox import Sandbox


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

