"""How is the book opened? In JupyterLab, at its start page, with nothing on the screen that the reader did not ask for.

python -m ckptlib.book.lab     is what `make lab` runs; options are passed on to JupyterLab
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..grading.assignment.book_folder import BOOK
from . import start_page  # first, because it says in one line which extra is missing

# isort: split
from jupyter_client.kernelspec import NATIVE_KERNEL_NAME
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from jupyterlab.labapp import LabApp

# Defaults of JupyterLab that we change. What readers have chosen in their own settings still wins.
_SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false"},  # do not ask
    "@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"markdown": "Markdown Preview"}},  # not its source
}
_FIGURE = "image/svg+xml"


class Contents(AsyncLargeFileManager):
    """Reads notebooks so that opening one neither changes it nor hides its figures. Files are left as they are.

    When a kernel starts, JupyterLab writes the kernel's display name and Python's version into the notebook, and marks
    it as changed if they are new. They differ from reader to reader, so no committed file can hold the right ones.
    """

    async def get(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The model of a file or folder; a notebook for our kernel already has what JupyterLab would write into it."""
        model = await super().get(*args, **kwargs)
        if model["type"] == "notebook" and model["content"]:
            metadata = model["content"]["metadata"]
            if metadata.get("kernelspec", {}).get("name") == NATIVE_KERNEL_NAME:
                metadata.update(self._about_the_kernel())
        return model

    def _about_the_kernel(self) -> dict[str, dict]:
        from ipykernel.ipkernel import IPythonKernel  # the server starts without it

        assert self.parent is not None  # the server, which made this
        spec = self.parent.kernel_spec_manager.get_kernel_spec(NATIVE_KERNEL_NAME)
        kernel = {"name": NATIVE_KERNEL_NAME, "display_name": spec.display_name, "language": spec.language}
        return {"kernelspec": kernel, "language_info": dict(IPythonKernel.language_info)}

    def mark_trusted_cells(self, nb: Any, path: str = "") -> None:
        """Also trust cells whose outputs are SVG and plain text: JupyterLab hides an SVG that is not trusted.

        It shows an SVG by an <img> element, in which no script runs, so this is safe for any notebook. Where
        all code cells are trusted, JupyterLab trusts the Markdown as well: one cell must be left to the signature.
        """
        super().mark_trusted_cells(nb, path)
        code = [cell for cell in nb.cells if cell.cell_type == "code"]
        figures = [cell for cell in code if _FIGURE in _kinds(cell) <= {_FIGURE, "text/plain"}]
        if len(figures) < len(code):
            for cell in figures:
                cell.metadata.trusted = True


def _kinds(cell: Any) -> set[str]:
    """The MIME types of all outputs of a cell."""
    return {kind for output in cell.outputs for kind in output.get("data", {})}


def open_book(root: Path, options: list[str]) -> None:
    """Run JupyterLab in `root`, a checkout of the book, until it is told to end."""
    os.chdir(root)  # where nbgrader looks for its configuration
    settings_of_ours = [
        f"--ServerApp.root_dir={root}",
        f"--ServerApp.contents_manager_class={__name__}.Contents",
        f"--LabApp.default_url=/lab/tree/{start_page.write(root)}",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        settings_of_ours.append("--allow-root")
    with TemporaryDirectory() as folder:
        settings = Path(folder, "labconfig", "default_setting_overrides.json")
        settings.parent.mkdir()
        settings.write_text(json.dumps(_SETTINGS), encoding="utf-8")
        _put_first("PATH", str(Path(sys.executable).parent))  # `!python` in a cell, and what nbgrader starts
        _put_first("JUPYTER_CONFIG_PATH", folder)
        LabApp.launch_instance([*settings_of_ours, *options])


def _put_first(variable: str, folder: str) -> None:
    os.environ[variable] = os.pathsep.join(filter(None, [folder, os.environ.get(variable)]))


if __name__ == "__main__":
    if not (BOOK / "book").is_dir():
        sys.exit(f"ckptlib.book.lab opens the book, which comes with a checkout, but there is no folder book in {BOOK}")
    open_book(BOOK, sys.argv[1:])
