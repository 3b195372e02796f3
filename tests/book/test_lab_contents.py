"""What does `make lab` serve of a notebook, and what does it not trust? tests/browser looks at the page itself."""

import asyncio
import json
from pathlib import Path

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_server.serverapp import ServerApp
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from ckptlib.book import lab

FIGURE = new_output("display_data", {"image/svg+xml": "<svg/>", "text/plain": "a figure"})
SCRIPT = new_output("display_data", {"text/html": "<script>alert(1)</script>", "text/plain": "a page"})
LINE = new_output("stream", text="a line\n")


@pytest.fixture
def read(tmp_path, monkeypatch):
    """`read(notebook, manager)`: the notebook as it is served after it was written to disk."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))  # signatures
    server = ServerApp()
    server.init_event_logger()
    server.kernel_spec_manager = KernelSpecManager()

    def served(notebook, manager=lab.Contents) -> dict:
        path = tmp_path / "a.ipynb"
        nbformat.write(notebook, path)
        before = path.read_bytes()
        model = asyncio.run(manager(parent=server, root_dir=str(tmp_path)).get("a.ipynb", content=True))
        assert path.read_bytes() == before
        return json.loads(json.dumps(model["content"]))

    return served


def trusted(notebook: dict) -> list[bool]:
    return [cell["metadata"]["trusted"] for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_a_notebook_of_another_kernel_is_served_as_it_is(read):
    for metadata in ({}, {"kernelspec": {"name": "ir", "display_name": "R"}, "language_info": {"name": "R"}}):
        notebook = new_notebook(metadata=metadata, cells=[new_code_cell("1", outputs=[SCRIPT])])
        assert read(notebook) == read(notebook, AsyncLargeFileManager)


def test_only_what_is_said_about_the_kernel_is_new(read):
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = new_notebook(metadata={"kernelspec": kernel, "kept": 1}, cells=[new_markdown_cell("# Title")])
    ours, stock = read(notebook), read(notebook, AsyncLargeFileManager)
    assert ours.pop("metadata").keys() == {"kernelspec", "language_info", "kept"}
    stock.pop("metadata")
    assert ours == stock


def test_figures_are_trusted_and_pages_are_not(read):
    outputs = [[], [FIGURE], [FIGURE, LINE], [SCRIPT], [FIGURE, SCRIPT], [LINE]]
    notebook = new_notebook(cells=[new_code_cell("", outputs=some) for some in outputs])
    assert trusted(read(notebook)) == [False, True, True, False, False, False]
    assert not any(trusted(read(notebook, AsyncLargeFileManager)))


def test_a_notebook_of_figures_alone_is_not_trusted(read):
    """JupyterLab would trust its Markdown, too, in which a link can be a command."""
    cells = [new_markdown_cell("text"), new_code_cell("", outputs=[FIGURE]), new_code_cell("", outputs=[FIGURE])]
    assert trusted(read(new_notebook(cells=cells))) == [False, False]


def test_every_figure_of_the_book_is_shown(read):
    figures = 0
    for path in sorted((Path(lab.BOOK) / "book").glob("*.ipynb")):
        for cell in read(nbformat.read(path, as_version=4))["cells"]:
            if any("image/svg+xml" in output.get("data", {}) for output in cell.get("outputs", [])):
                figures += 1
                assert cell["metadata"]["trusted"], f"{path.name}, {cell['id']}"
    assert figures > 30
