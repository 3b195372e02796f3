"""A real JupyterLab in a real Chromium, driven as a reader drives it: menus, keys, and what is on the page."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

# every cell is on the page, not only those that are in sight
SETTINGS = {"notebook-extension/tracker": {"windowingMode": "none", "autoStartDefaultKernel": True}}
START_S = 60
expect.set_options(timeout=20_000)  # a busy machine draws late
STOCK = ["-m", "jupyterlab"]
# What `make lab` runs, but in a folder of ours
BOOKS_OWN = ["-c", "import sys, pathlib, ckptlib.book.lab as lab; lab.open_book(pathlib.Path.cwd(), sys.argv[1:])"]
OPEN = """async path => {
    jupyterapp.shell.currentWidget.dispose()
    await jupyterapp.commands.execute("docmanager:open", {path})
}"""
ERROR = '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.error"]'


def write_settings(folder: Path) -> None:
    """folder: where JupyterLab keeps what a user has set."""
    for name, values in SETTINGS.items():
        plugin = folder / "@jupyterlab" / f"{name}.jupyterlab-settings"
        plugin.parent.mkdir(parents=True, exist_ok=True)
        plugin.write_text(json.dumps(values))


@contextlib.contextmanager
def jupyter_lab(folder: Path, home: Path, program: list[str] = STOCK, seconds: int = 2400) -> Iterator[str]:
    """The address of a server in `folder`, with no settings but ours; it ends with the block, or after `seconds`."""
    settings = home / "settings"
    write_settings(settings)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "HOME": str(home),
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
        "OMP_NUM_THREADS": "1",
    }
    options = ["--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0"]
    options += ["--LabApp.expose_app_in_browser=True"]
    log = home / "server.log"
    command = ["timeout", str(seconds), sys.executable, *program, *options]
    with log.open("wb") as out:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        yield _address(server, home / "runtime", log)
    finally:
        server.send_signal(signal.SIGTERM)  # `timeout` passes it on; the server ends its kernels
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)


def _address(server: subprocess.Popen, runtime: Path, log: Path) -> str:
    end = time.monotonic() + START_S
    while time.monotonic() < end and server.poll() is None:
        for about in runtime.glob("jpserver-*.json"):
            with contextlib.suppress(ValueError):  # being written
                known = json.loads(about.read_text())
                return f"http://127.0.0.1:{known['port']}/{{path}}?token={known['token']}"
        time.sleep(0.1)
    raise AssertionError(f"JupyterLab did not start: {log.read_text(encoding='utf-8')[-2000:]}")


class Notebook:
    """One notebook, open in a tab of its own."""

    def __init__(
        self, browser: Browser | BrowserContext, address: str, path: str, width: int = 1280, height: int = 900
    ) -> None:
        self.page: Page = browser.new_page()
        self.page.set_viewport_size({"width": width, "height": height})
        workspace = re.sub(r"\W+", "-", path)
        self.page.goto(address.format(path=f"lab/workspaces/{workspace}/tree/{path}"))
        self.panel = self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        expect(self.panel.locator(".jp-Cell").first).to_be_visible(timeout=60_000)
        self.idle()

    def go_to(self, path: str) -> None:
        """Open another notebook in its place."""
        self.page.evaluate(OPEN, path)
        shown = "path => jupyterapp.shell.currentWidget.context?.path === path"
        self.page.wait_for_function(shown, arg=path, timeout=180_000)

    def idle(self, seconds: float = 60) -> None:
        """Wait until a kernel is there and has nothing to do."""
        state = self.page.locator("#jp-main-statusbar").get_by_text(re.compile(r"\| Idle$"))
        expect(state).to_have_count(1, timeout=seconds * 1000)
        idle = self.panel.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
        expect(idle).to_have_count(1, timeout=seconds * 1000)

    @property
    def changed(self) -> Locator:
        """The tab, if it has the mark of a notebook with changes that are not saved."""
        return self.page.locator(".lm-TabBar-tab.lm-mod-current.jp-mod-dirty")

    def kernel_has_answered(self) -> None:
        """Wait until JupyterLab knows all that it writes into the notebook about its kernel."""
        self.page.evaluate("""async () => {
            const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel
            await Promise.all([kernel.info, kernel.spec])
        }""")

    def menu(self, name: str, item: str) -> None:
        self.page.locator(".lm-MenuBar-item", has_text=re.compile(f"^{name}$")).click()
        self.page.locator(".lm-Menu-item", has_text=re.compile(f"^{item}$")).click()

    def run_all(self, seconds: float = 300) -> None:
        """Run > Run All Cells, and wait until the last one has its number, which is cleared first."""
        self.menu("Edit", "Clear Outputs of All Cells")
        expect(self.code_cells.last.locator(".jp-InputArea-prompt")).to_have_text("[ ]:")
        self.menu("Run", "Run All Cells")
        last = self.code_cells.last.locator(".jp-InputArea-prompt")
        expect(last).to_have_text(re.compile(r"^\[\d+\]:$"), timeout=seconds * 1000)
        self.idle(seconds)

    @property
    def code_cells(self) -> Locator:
        return self.panel.locator(".jp-CodeCell")

    def unfinished(self) -> list[str]:
        prompts = self.code_cells.locator(".jp-InputArea-prompt").all_inner_texts()
        return [prompt for prompt in prompts if not re.fullmatch(r"\[\d+\]:", prompt.strip())]

    def errors(self) -> list[str]:
        """Every error on the page, but those of cells that are tagged to raise."""
        return self.panel.locator(ERROR).all_inner_texts()

    def cell(self, text: str) -> Locator:
        """The first code cell whose source has this text."""
        return self.panel.locator(".jp-CodeCell", has=self.page.locator(".jp-InputArea", has_text=text)).first

    def write(self, cell: Locator, source: str) -> None:
        """Replace a cell's source, by keyboard."""
        cell.locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+A")
        self.page.keyboard.insert_text(source)

    def run(self, cell: Locator) -> str:
        """Ctrl-Enter in this cell; the text of its outputs."""
        prompt = cell.locator(".jp-InputArea-prompt")
        before = prompt.inner_text()
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        expect(prompt).not_to_have_text(before, timeout=30_000)
        expect(prompt).to_have_text(re.compile(r"^\[\d+\]:$"), timeout=30_000)
        self.idle()
        return "\n".join(cell.locator(".jp-OutputArea-output").all_inner_texts())

    def close(self) -> None:
        self.page.close()
