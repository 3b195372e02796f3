"""How does a chapter get its outputs? It is run in a new kernel, and gives the same bytes on every machine.

python -m ckptlib.book.runner book/01_activation_memory.ipynb ...    runs chapters and writes their outputs: `make book`
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import require
from . import ALIKE

require("book", "ckptlib.book.runner")

WIDGET = "application/vnd.jupyter.widget-view+json"
IN_ITS_PLACE = "A widget, which needs a running notebook: run this cell, and move the knobs."
COVER = ("07_planning.ipynb", "pareto-figure")  # the picture that says what the book is about: README shows it


def execute(path: str | Path) -> str:
    """Run a chapter from its first cell to its last, in a new kernel; the notebook with its outputs, as text.

    The same bytes every time and everywhere: fixed cell ids, no times, no progress bars, and a sentence in place of
    each explorer, because widgets live in a browser.
    """
    import nbformat
    from nbclient import NotebookClient

    path = Path(path)
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    client = NotebookClient(
        notebook,
        timeout=120,
        startup_timeout=300,  # nothing is wrong with a notebook whose kernel starts late, on a busy machine
        iopub_timeout=60,  # a busy machine is late with what a cell prints: nbclient would go on without it
        raise_on_iopub_timeout=True,
        record_timing=False,
        coalesce_streams=True,  # else lines printed together or apart, by chance
        resources={"metadata": {"path": path.parent}},
    )
    with _nobodys_settings() as env:
        client.execute(env=env)
    notebook.metadata.pop("widgets", None)
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [_at_rest(output) for output in cell.outputs if not _is_progress_bar(output)]
            _complain_of_warnings(path, cell)
    return nbformat.writes(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


@contextmanager
def _nobodys_settings() -> Iterator[dict[str, str]]:
    """The environment of a kernel that sees no start-up file, style sheet, font or GPU of the one who runs it.

    What makes up the processor stays visible: the number of threads, say, must not change an output.
    """
    with TemporaryDirectory() as folder:
        own = {
            ALIKE: "1",
            "IPYTHONDIR": folder,
            "MPLCONFIGDIR": folder,
            "MPL_IGNORE_SYSTEM_FONTS": "1",
            "CUDA_VISIBLE_DEVICES": "",
        }
        yield {**os.environ, **own}


def _is_progress_bar(output: Any) -> bool:
    """A widget that a cell shows on its way; an explorer is the result of its cell."""
    return WIDGET in output.get("data", {}) and output.output_type == "display_data"


def _at_rest(output: Any) -> Any:
    if WIDGET in output.get("data", {}):
        output.data = {"text/plain": IN_ITS_PLACE}
    return output


def _complain_of_warnings(path: Path, cell: Any) -> None:
    for output in cell.outputs:
        if output.get("name") == "stderr":
            raise RuntimeError(f"{path.name}, cell {cell.id} writes to stderr: {output.text.strip()[:300]}")


def cover(notebook: str) -> str:
    """The cover's picture from the text of its chapter. It is shown on pages whose colour is not ours: hence white."""
    cells = {cell["id"]: cell for cell in json.loads(notebook)["cells"]}
    (picture,) = [output["data"]["image/svg+xml"] for output in cells[COVER[1]]["outputs"] if "data" in output]
    return "".join(picture).replace("<svg ", '<svg style="background: white" ', 1)


def main(paths: list[str]) -> None:
    from tqdm.auto import tqdm

    for path in tqdm([Path(path) for path in paths], unit="chapter"):
        text = execute(path)
        if text != path.read_text(encoding="utf-8"):
            path.write_text(text, encoding="utf-8", newline="\n")
            tqdm.write(f"{path}: refreshed")
        if path.name == COVER[0]:
            path.with_name("cover.svg").write_text(cover(text), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
