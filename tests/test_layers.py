"""Does every module import only from the layers beneath it?"""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "ckptlib"

# From the ground up: a part may import what stands before it here, and nothing that stands after it.
ORDER = (
    *("errors", "torch_internals", "shapes", "doctor", "configs", "formulas", "ranks"),
    *("vjp", "tape", "models"),
    *("measure",),
    *("recompute",),
    *("cards", "transformer", "fitting"),
    *("grading",),
    *("drawing", "chart", "diagrams", "plots", "widgets", "book", "start", "lab"),
    *("command_parts", "target"),
    *("measure_command", "plan_model", "plan_command", "fit_command"),
    *("check_command", "grade_command", "report_command", "release_command", "cli"),
)


def imports(source: str, module: str) -> set[str]:
    """The parts of ckptlib that a module imports, also inside functions; "" is the package itself.

    `module` is a dotted name such as "ckptlib.measure.trace".
    """
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")[: -node.level] if node.level else []
            origin = ".".join([*base, *filter(None, [node.module])])
            names = [f"{origin}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {(name.split(".") + [""])[1] for name in names if name.split(".")[0] == "ckptlib"}
    return found


def dotted(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts)  # "ckptlib.measure.__init__": its relative imports start where any other file's do


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_module_imports_only_from_beneath(path):
    module = dotted(path)
    part = module.split(".")[1]
    assert part in ORDER, f"{part} has no place in ORDER yet: decide what it may know of"
    for other in imports(path.read_text(), module) - {part}:
        assert other, f"{module} imports the whole package, through whose lazy names anything can be reached"
        assert ORDER.index(other) < ORDER.index(part), f"{module} must know nothing of ckptlib.{other}"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import ckptlib", {""}),
        ("import ckptlib.recompute.schedule as s", {"recompute"}),
        ("from ckptlib import plots", {"plots"}),
        ("from ckptlib.grading.check import x", {"grading"}),
        ("from .saved import x", {"measure"}),
        ("from ..recompute import schedule", {"recompute"}),
        ("from .. import vjp", {"vjp"}),
        ("def f():\n    from ..grading import check", {"grading"}),
        ("import torch, ckptlibrary\nfrom torch import nn", set()),
    ],
)
def test_every_way_of_importing_is_seen(line, found):
    assert imports(line, "ckptlib.measure.trace") == found
