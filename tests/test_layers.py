"""Does every room of the library know only the rooms above it, and does every name of a module name one?

`python tests/test_layers.py` prints the map of the rooms; with `--write`, it writes the map into CONTRIBUTING.md.
"""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "ckptlib"

# From the top down: a room may import what stands before it here, and nothing that stands after it.
ROOMS = (
    *("errors", "torch_internals", "units", "tables"),
    *("autodiff", "tracing", "cuda", "remember", "recompute", "planning", "models", "fitting", "figures"),
    *("grading", "book", "commands", "cli", "__main__"),
)
# The same within grading, in the order in which a submission passes through.
GRADING = (
    *("tasks", "assignment", "notebooks", "sandbox", "run", "safe_outputs", "one_submission", "feedback", "gradebook"),
    *("whole_class", "reports", "authoring", "commands", "cli"),
)


def dotted(path: Path) -> str:
    """ckptlib/cuda/gpus.py is ckptlib.cuda.gpus; a package is called by its folder."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


FILES = {dotted(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(source: str, module: str, modules: set[str], is_package: bool = False) -> set[str]:
    """The modules of ckptlib that a module imports, also inside functions.

    `module` is a dotted name such as "ckptlib.tracing.events". A name that is not a module is imported from one.
    """
    found = set()
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *filter(None, [node.module])])
            names = [f"{origin}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "ckptlib":
                found.add(name if name in modules else name.rpartition(".")[0] or name)
    return found


IMPORTS = {
    name: imports(path.read_text(encoding="utf-8"), name, set(FILES), path.name == "__init__.py")
    for name, path in FILES.items()
}


def room(module: str, depth: int = 1) -> str:
    return (module.split(".") + [""] * depth)[depth]


@pytest.mark.parametrize("module", [name for name in FILES if name != "ckptlib"])
def test_a_module_imports_only_from_rooms_above(module):
    mine = room(module)
    assert mine in ROOMS, f"{mine} has no place in ROOMS yet: decide what it may know of"
    for other in IMPORTS[module]:
        assert room(other), f"{module} imports the whole package, through whose lazy names anything can be reached"
        assert ROOMS.index(room(other)) <= ROOMS.index(mine), f"{module} must not know {other}"


@pytest.mark.parametrize("module", [name for name in FILES if room(name) == "grading" and room(name, 2)])
def test_grading_is_a_house_of_its_own(module):
    mine = room(module, 2)
    assert mine in GRADING, f"{mine} has no place in GRADING yet: decide what it may know of"
    for other in IMPORTS[module] - {"ckptlib.errors", "ckptlib.torch_internals"}:
        known = "errors and torch_internals, where every private part of torch has its name"
        assert room(other) == "grading", f"{module} must know nothing of the library but {known}: it imports {other}"
        assert room(other, 2), f"{module} imports all of grading"
        assert GRADING.index(room(other, 2)) <= GRADING.index(mine), f"{module} must not know {other}"


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import one another, by whatever way round."""
    reach: dict[str, set[str]] = {}
    for start in graph:
        seen, todo = set(), [start]
        while todo:
            for other in graph.get(todo.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        reach[start] = seen
    circular = {name for name in graph if name in reach[name]}
    return sorted({tuple(sorted({n for n in circular if n in reach[m] and m in reach[n]})) for m in circular})


def test_no_modules_import_one_another():
    assert cycles(IMPORTS) == []


def test_cycles_are_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [("b", "c")]
    assert cycles({"a": {"b"}, "b": set()}) == []


def test_no_folder_has_the_name_of_a_public_function():
    import ckptlib as ck

    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert not [name for name in folders & set(ck.__all__) if callable(getattr(ck, name))]


# ---- names of modules in texts, which no import would find ----------------------------------------------------------
TEXTS = (
    *("Makefile", "pyproject.toml", "README.md", "CONTRIBUTING.md", "INSTRUCTORS.md", "environment.yml"),
    *("book/*.md", "book/*.py", "book/*.ipynb", "solutions/*/*.ipynb", "solutions/*/*.py", ".github/workflows/*.yml"),
    *("ckptlib/**/*.py", "tests/**/*.py"),
)
NAME = re.compile(r"\bckptlib((?:\.[A-Za-z_]\w*)+)")
OTHER_FILES = {"html", "ipynb", "svg", "answer", "egg"}  # ckptlib.html is not a module


def named(text: str) -> Iterator[str]:
    for match in NAME.finditer(text):
        if match[1].split(".")[1] not in OTHER_FILES:
            yield f"ckptlib{match[1]}"


def is_there(name: str) -> bool:
    """Whether this is a module, or something in one."""
    import ckptlib as ck

    if name in FILES:
        return True
    module, _, attribute = name.rpartition(".")
    if module == "ckptlib":
        return attribute in {*ck.__all__, "__all__", "__file__", "__version__", "__path__"}
    if module in FILES:
        return attribute in defined_in(module)
    return is_there(module)  # an attribute of something in a module


@cache
def defined_in(module: str) -> set[str]:
    """Names that a module assigns, defines, imports, or answers to in its __getattr__."""
    found = set()
    for node in ast.walk(ast.parse(FILES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name)
        elif isinstance(node, ast.Compare):
            found |= {other.value for other in node.comparators if isinstance(other, ast.Constant)}
    return found


@pytest.mark.parametrize("pattern", TEXTS)
def test_a_text_that_names_a_module_names_one_that_exists(pattern):
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in ROOT.glob(pattern)
        if path != Path(__file__).resolve()
        for name in named(path.read_text(encoding="utf-8"))
        if not is_there(name)
    }
    assert not missing


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import ckptlib", {"ckptlib"}),
        ("import ckptlib.planning.schedule as s", {"ckptlib.planning.schedule"}),
        ("from ckptlib import figures", {"ckptlib.figures"}),
        ("from ckptlib.grading.tasks.answer_encoding import x", {"ckptlib.grading.tasks.answer_encoding"}),
        ("from .events import x", {"ckptlib.tracing.events"}),
        ("from ..planning import schedule", {"ckptlib.planning.schedule"}),
        ("from .. import autodiff", {"ckptlib.autodiff"}),
        ("def f():\n    from ..grading import cli", {"ckptlib.grading.cli"}),
        ("import torch, ckptlibrary\nfrom torch import nn", set()),
    ],
)
def test_every_way_of_importing_is_seen(line, found):
    assert imports(line, "ckptlib.tracing.allocation_recorder", set(FILES)) == found


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("ckptlib.tracing.allocation_recorder", True),
        ("ckptlib.measure", True),
        ("ckptlib.measure.trace", True),  # as far as a text can tell: an attribute of a public function
        ("ckptlib.tracing.nonsense", False),
        ("ckptlib.nonsense", False),
        ("ckptlib.grading.kernels.plain", False),
    ],
)
def test_names_are_told_apart(name, there):
    assert is_there(name) is there


# ---- the map --------------------------------------------------------------------------------------------------------
def question(name: str) -> str:
    """The first sentence of a module: what it answers."""
    doc = ast.get_docstring(ast.parse(FILES[name].read_text(encoding="utf-8"))) or ""
    return re.match(r"[^?.]*[?.]", doc.replace("\n", " "))[0]


def house() -> str:
    """A table of the rooms: how many modules and lines, and the question that each answers."""
    rows = ["| room | modules | lines | its question |", "|---|---:|---:|---|"]

    def row(prefix: str, label: str, within: list[str]) -> None:
        lines = sum(len(FILES[name].read_text(encoding="utf-8").splitlines()) for name in within)
        rows.append(f"| {label} | {len(within)} | {lines:,} | {question(prefix)} |")

    for name in ROOMS:
        prefix = f"ckptlib.{name}"
        row(prefix, f"`{name}`", [module for module in FILES if module == prefix or module.startswith(f"{prefix}.")])
        if name == "grading":
            for inner in GRADING:
                prefix = f"ckptlib.grading.{inner}"
                within = [module for module in FILES if module == prefix or module.startswith(f"{prefix}.")]
                row(prefix, f"&emsp;`{inner}`", within)
    return "\n".join(rows)


BEGIN, END = "<!-- map -->\n", "<!-- end of map -->"


def in_contributing(text: str) -> tuple[str, str, str]:
    before, begin, rest = text.partition(BEGIN)
    shown, end, after = rest.partition(END)
    return before + begin, shown, end + after


def test_contributing_shows_the_map():
    """Rooms and questions as they are. Numbers of lines may be out of date by a fifth."""
    _, shown, _ = in_contributing((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    rows = [[row.split(" | ") for row in text.strip().splitlines()] for text in (shown, house())]
    assert [(row[0], row[-1]) for row in rows[0]] == [(row[0], row[-1]) for row in rows[1]]
    for mine, theirs in list(zip(*rows, strict=True))[2:]:
        lines, shown_lines = (int(row[2].replace(",", "")) for row in (theirs, mine))
        assert abs(lines - shown_lines) <= lines / 5, f"run `python tests/test_layers.py --write`: {theirs}"


if __name__ == "__main__":
    if "--write" in sys.argv:
        path = ROOT / "CONTRIBUTING.md"
        before, _, after = in_contributing(path.read_text(encoding="utf-8"))
        path.write_text(f"{before}{house()}\n{after}", encoding="utf-8", newline="\n")
    else:
        print(house())
