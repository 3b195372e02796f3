"""A small assignment, and a student who has solved it: what the reassembly tests mangle."""

import copy
import json

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

NAME = "01_small.ipynb"

STUBS = {
    "double": 'def double(x):\n    """Twice x."""\n    # YOUR CODE HERE (about 1 line)\n    raise NotImplementedError',
    "area": 'def area(a, b):\n    """Of a rectangle."""\n    # YOUR CODE HERE\n    raise NotImplementedError()',
    "total": "total = ...  # the sum of 1 … 10",
    "quiz": "q1 = ...\nq2 = ...",
}
SOLVED = {
    "double": 'def double(x):\n    """Twice x."""\n    return x + x',
    "area": "import operator\n\ndef area(a, b):\n    return operator.mul(a, b)",
    "total": "total = sum(range(11))",
    "quiz": 'q1 = "b"\nq2 = "a"',
}


def _marks(grade_id, solution):
    kind = {"grade": not solution, "solution": solution, "locked": not solution, "task": False}
    return {"nbgrader": {"schema_version": 3, "grade_id": grade_id, **kind} | ({} if solution else {"points": 2})}


def release() -> nbformat.NotebookNode:
    cells = [
        new_markdown_cell("# Small numbers", id="title"),
        new_code_cell("import math\nfrom tasks import check", id="setup"),
    ]
    for name, stub in STUBS.items():
        cells.append(new_markdown_cell(f"## Task: {name}", id=f"head-{name}"))
        cells.append(new_code_cell(stub, id=f"cell-{name}", metadata=_marks(name, True)))
        cells.append(
            new_code_cell(f"check({name!r}, globals())", id=f"check-{name}", metadata=_marks(f"{name}_check", False))
        )
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return new_notebook(cells=cells, metadata=kernel)


def solved() -> dict:
    """The release with every answer in it, as plain JSON."""
    notebook = json.loads(nbformat.writes(release()))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
        grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
        cell["source"] = SOLVED.get(grade_id, cell["source"])
    return notebook


def at(notebook: dict, grade_id: str) -> int:
    return next(
        i for i, c in enumerate(notebook["cells"]) if c["metadata"].get("nbgrader", {}).get("grade_id") == grade_id
    )


def cell(notebook: dict, grade_id: str) -> dict:
    return notebook["cells"][at(notebook, grade_id)]


def code(text: str, **more) -> dict:
    return {"cell_type": "code", "source": text, "metadata": {}, "outputs": [], "execution_count": None, **more}


def bare(notebook: dict) -> dict:
    """Without any metadata or ids, as some editors leave it."""
    notebook = copy.deepcopy(notebook)
    for each in notebook["cells"]:
        each["metadata"] = {}
        each.pop("id", None)
    return notebook


def as_bytes(notebook) -> bytes:
    return json.dumps(notebook).encode()
