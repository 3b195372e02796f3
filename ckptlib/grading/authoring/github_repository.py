"""What does a class on GitHub need? A template repository: the release, and a workflow that checks every push.

Whoever can push can change the workflow. So it runs the visible checks, and is for the students' own eyes; what counts
is `ckptlib grade` on the cloned repositories, where no student's code decides anything.
"""

from __future__ import annotations

from pathlib import Path

from ...errors import CkptError
from .ckptlib_wheel import constraints, own_wheel

# GitHub Classroom reads the points only if the workflow and its one job have these names.
_WORKFLOW = """name: Autograding Tests
on: [push, workflow_dispatch]

permissions:
  contents: read

jobs:
  run-autograding-tests:
    runs-on: ubuntu-latest
    timeout-minutes: 20
    if: github.actor != 'github-classroom[bot]'
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "PYTHON"
          cache: pip
          cache-dependency-path: .github/ckptlib/constraints.txt
      - name: Install
        env:
          PIP_EXTRA_INDEX_URL: https://download.pytorch.org/whl/cpu  # without the packages for GPUs
        run: python -m pip install -q -c .github/ckptlib/constraints.txt ".github/ckptlib/WHEEL[grading]"
      - name: Check
        run: |
          code=0
          python -m ckptlib.cli check NAME --json > verdicts.json || code=$?
          python -m ckptlib.grading.reports.github_points verdicts.json
          exit $code
"""


def student_repository(release: Path, folder: Path, python: str) -> None:
    """Write the repository. release: the assignment as students get it   python: its version, such as 3.12"""
    if folder.exists():
        raise CkptError(f"{folder} already exists: remove it, or choose a different --output")
    wheel, raw = own_wheel()
    workflow = _WORKFLOW
    for word, value in {"PYTHON": python, "WHEEL": wheel, "NAME": release.name}.items():
        workflow = workflow.replace(word, value)
    files = {".github/workflows/autograding.yml": workflow.encode(), f".github/ckptlib/{wheel}": raw}
    files[".github/ckptlib/constraints.txt"] = constraints().encode()
    for path in release.rglob("*"):
        if path.is_file():
            files[f"{release.name}/{path.relative_to(release).as_posix()}"] = path.read_bytes()
    for name, content in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
