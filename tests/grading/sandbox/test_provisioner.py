"""Does a stock Jupyter program run in the sandbox when its kernelspec says so?"""

import json
import os
import sys
import time

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient
from printed import text

from ckptlib.grading.sandbox.sandbox import use


@pytest.fixture
def kernelspec(tmp_path, monkeypatch, sandbox):
    """`kernelspec(**config)` installs a kernelspec that names the provisioner, and returns its name."""
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    use(sandbox.address)

    def install(**config) -> str:
        folder = tmp_path / "kernels" / "sandboxed"
        folder.mkdir(parents=True)
        provisioner = {"provisioner_name": "ckptlib-sandbox", "config": config}
        spec = {"argv": [sys.executable], "display_name": "x", "language": "python", "interrupt_mode": "message"}
        (folder / "kernel.json").write_text(json.dumps({**spec, "metadata": {"kernel_provisioner": provisioner}}))
        return "sandboxed"

    return install


@pytest.mark.slow
@pytest.mark.parametrize("cold", [False, True])
def test_nbclient_runs_a_notebook_in_the_sandbox(cold, kernelspec, root):
    code = f"import os, sys; print(os.getpid(), os.path.exists({str(root / 'tests')!r}), 'torch' in sys.modules)"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, kernel_name=kernelspec(cold=cold), timeout=60).execute()
    assert text(notebook.cells[0].outputs).split() == ["1", "False", str(not cold)]


def test_interrupt_restart_limits_and_shutdown(kernelspec):
    manager, client = start_new_kernel(kernel_name=kernelspec(limits={"memory": 200 << 20}))
    try:
        provisioner = manager.provisioner
        assert provisioner.sandboxed and provisioner.warning == ""
        client.execute("print('on', flush=True)\nwhile True: pass")
        while client.get_iopub_msg(timeout=20)["msg_type"] != "stream":
            pass
        manager.interrupt_kernel()
        assert client.get_shell_msg(timeout=20)["content"]["ename"] == "KeyboardInterrupt"
        first = provisioner.process.pid
        manager.restart_kernel(now=True)
        assert provisioner.process.pid != first and not os.path.exists(f"/proc/{first}")
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=20)
        client.execute(
            "import mmap\nx = [mmap.mmap(-1, 1 << 26) for _ in range(9)]\nfor m in x: m.write(bytes(1 << 26))"
        )
        deadline = time.monotonic() + 20
        while manager.is_alive() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert provisioner.watchdog.reason == "memory"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert not manager.has_kernel
