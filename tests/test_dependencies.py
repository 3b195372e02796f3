"""Is everything that is imported directly declared in pyproject.toml, in the right extra, and is nothing else?"""

import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Which rooms of ckptlib may import what an extra brings; the longest name counts. All others import the base alone.
ROOMS = {
    "ckptlib.book": {"book"},
    "ckptlib.book.lab": {"book"},
    "ckptlib.book.ranks": {"book"},
    "ckptlib.book.start_page": {"book"},
    "ckptlib.figures.explorers": {"book"},
    "ckptlib.grading": {"grading"},
    "ckptlib.grading.tasks.quiz": {"book"},
    "ckptlib.grading.whole_class.executors": {"grading", "cluster"},
}
# Declared because they are run, and imported nowhere: the page that tells a reader to run them, and how.
PROGRAMS = {"dask": ("INSTRUCTORS.md", "\ndask worker ")}
DISTRIBUTIONS = metadata.packages_distributions()  # import name -> the distributions that bring it
OURS = {"ckptlib", "tasks", *(path.stem for path in (ROOT / "tests").rglob("*.py"))}
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "ckptlib").rglob("*.py"))
}


def declared(extra: str = "") -> set[str]:
    listed = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    return {canonicalize_name(Requirement(line).name) for line in listed}


def imported(source: str) -> set[str]:
    """The distributions that this code imports itself, also inside functions."""
    tops = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            tops |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            tops.add(node.module.partition(".")[0])
    others = tops - OURS - sys.stdlib_module_names
    return {canonicalize_name(DISTRIBUTIONS.get(top, [top])[0]) for top in others}


def imported_by(paths: Iterable[Path]) -> set[str]:
    return set().union(*(imported(code(path)) for path in paths))


def code(path: Path) -> str:
    """The Python in a module or a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        text = "\n".join("".join(cell["source"]) for cell in cells)
        text = re.sub(r"^(\s*)[%!].*", r"\1pass", text, flags=re.MULTILINE)
    return text


def extras_of(module: str) -> set[str]:
    fitting = [room for room in ROOMS if f"{module}.".startswith(f"{room}.")]
    return ROOMS[max(fitting, key=len)] if fitting else set()


def test_a_module_imports_only_what_its_extra_declares():
    undeclared = {}
    for module, path in MODULES.items():
        undeclared[module] = imported(code(path)).difference(declared(), *map(declared, extras_of(module)))
    assert {module: names for module, names in undeclared.items() if names} == {}


@pytest.mark.parametrize("extra", ["", "book", "grading", "cluster"])
def test_everything_declared_is_used_where_it_is_declared(extra):
    using = [path for module, path in MODULES.items() if not extra or extra in extras_of(module)]
    run = {name for name, (page, words) in PROGRAMS.items() if words in (ROOT / page).read_text(encoding="utf-8")}
    assert sorted(declared(extra) - imported_by(using) - run) == []
    assert run == set(PROGRAMS)


def test_chapters_and_exercises_need_no_more_than_the_book():
    notebooks = [*ROOT.glob("book/*.ipynb"), *ROOT.glob("exercises/*/*.ipynb"), *ROOT.glob("exercises/*/*.py")]
    assert imported_by(notebooks) <= declared() | declared("book")


def test_the_tests_and_the_site_import_nothing_undeclared():
    samples = {"attacks", "submissions"}  # what students hand in
    tests = [path for path in (ROOT / "tests").rglob("*.py") if not samples & set(path.parts)]
    everything = declared().union(*map(declared, PROJECT["optional-dependencies"]))
    assert imported_by([*tests, *ROOT.glob("book/*.py")]) <= everything


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import numpy.linalg as la", {"numpy"}),
        ("def f():\n    from zmq import Socket", {"pyzmq"}),
        ("import os, ckptlib\nfrom .zmq import x", set()),
        ("from nowhere.at_all import x", {"nowhere"}),
    ],
)
def test_every_way_of_importing_is_seen(line, found):
    assert imported(line) == found
