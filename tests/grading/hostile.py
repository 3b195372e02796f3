"""Reads tests/attacks: hostile answers and mangled files, and what each deserves."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import nbformat
from answers import ROOT, submission

from ckptlib.grading.assignment.assignment import Assignment

NAME = "01_activation_memory"
ATTACKS = ROOT / "tests" / "attacks"
# These try to be paid for nothing: every other answer is left blank. Nothing is what they deserve.
FOR_NOTHING = ("silencing", "faking", "reading", "writing", "forging")
# These stand in the answer to `ledger` (2 points) of somebody whose other answers are right.
INSTEAD_OF_ONE = ("exhausting", "killing", "stalling", "crowding")
# These stand in a cell of their own, after the imports, of somebody whose answers are right.
BESIDE_ALL = ("odd_but_honest",)
_DESERVES = dict.fromkeys(FOR_NOTHING, 0) | dict.fromkeys(INSTEAD_OF_ONE, 8) | dict.fromkeys(BESIDE_ALL, 10)


class Hostile(NamedTuple):
    student: str
    files: dict[str, bytes]
    deserves: float


def family(name: str) -> Iterator[Hostile]:
    known = Assignment.load(ROOT / "solutions" / NAME)
    if name == "mangling":
        yield from _mangled(submission(known, {}))
        return
    stubs = {cell.id: cell.source for cell in known.release.cells if cell.metadata.get("nbgrader", {}).get("solution")}
    for chunk in ("\n" + (ATTACKS / f"{name}.py").read_text(encoding="utf-8")).split("\n# %% ")[1:]:
        title, _, code = chunk.partition("\n")
        notebook = nbformat.reads(submission(known, {}).decode(), as_version=4)
        if name in FOR_NOTHING:
            _replace(notebook, {**stubs, "predict_saved": code})
        elif name in INSTEAD_OF_ONE:
            _replace(notebook, {"ledger": code})
        else:
            after = [cell.id for cell in notebook.cells].index("setup") + 1
            notebook.cells.insert(after, nbformat.v4.new_code_cell(code.strip("\n"), id="own"))
        student = f"{name}-{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')}"
        yield Hostile(student, {f"{NAME}.ipynb": nbformat.writes(notebook).encode()}, _DESERVES[name])


def _replace(notebook: nbformat.NotebookNode, sources: dict[str, str]) -> None:
    for cell in notebook.cells:
        cell.source = sources.get(cell.id, cell.source)


def _mangled(honest: bytes) -> Iterator[Hostile]:
    spec = importlib.util.spec_from_file_location("mangling", ATTACKS / "mangling.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, mangle in vars(module).items():
        if (
            getattr(mangle, "__module__", "") == "mangling"
            and mangle.__code__.co_varnames[:1] == ("raw",)
            and name != "cells"
        ):
            left = re.match(r"Left: (\d+)", mangle.__doc__ or "Left: 10")
            yield Hostile(f"mangling-{name}", mangle(honest), float(left[1]))


def hand_in(course: Path, student: str, files: dict[str, bytes]) -> None:
    folder = course / "submitted" / student / NAME
    folder.mkdir(parents=True)
    for name, raw in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(raw)
