"""Who lives how long? The warm process, its kernels and its files, when workers come, go and are killed."""

import itertools
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from printed import text

from ckptlib.grading.run.run_submission import Cell, run
from ckptlib.grading.sandbox import file_system, sockets, usage_watchdog
from ckptlib.grading.sandbox import sandbox as sandbox_module
from ckptlib.grading.sandbox.limits import Limits
from ckptlib.grading.sandbox.sandbox import Sandbox, SandboxUnavailable
from ckptlib.grading.sandbox.without_isolation import Unconfined

WORKER = """
import sys, time
from ckptlib.grading.sandbox.limits import Limits
from ckptlib.grading.sandbox.kernel_process import KernelProcess
from ckptlib.grading.sandbox.sandbox import Sandbox
from ckptlib.grading.sandbox.sockets import own_folder
sandbox = Sandbox(sys.argv[1]) if len(sys.argv) > 1 else Sandbox.start(preload=())
kernels = [sandbox.kernel(Limits()) for _ in range(2)]
[kernel.settle() for kernel in kernels]
print(own_folder(), sandbox.pid or 0, *(kernel.pid for kernel in kernels), flush=True)
time.sleep(1000)
"""

LEFT_TO_IMPORT = """
import contextlib, io, json, sys
from ckptlib.grading.assignment.assignment import Assignment
from ckptlib.grading.sandbox.preloaded_modules import LATER, PRELOAD, preload
assert preload([*PRELOAD, *LATER]) == []
left = {}
for folder in sys.argv[1:]:
    before, assignment = set(sys.modules), Assignment.load(folder)
    with contextlib.redirect_stdout(io.StringIO()):
        for name, task in assignment.tasks.items():
            assignment.right(name, task.visible_seeds())
    left[folder] = sorted(set(sys.modules) - before)
print(json.dumps(left))
"""


def worker(*arguments: str) -> tuple[subprocess.Popen, Path, list[int]]:
    process = subprocess.Popen([sys.executable, "-c", WORKER, *arguments], stdout=subprocess.PIPE, text=True)
    place, *pids = process.stdout.readline().split()
    return process, Path(place), [int(pid) for pid in pids if pid != "0"]


def running(pids: list[int]) -> list[int]:
    """Those that still run after half a minute's patience."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        pids = [pid for pid in pids if _state(pid) not in ("", "Z")]
        if not pids:
            break
        time.sleep(0.02)
    return pids


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return ""


@pytest.mark.slow
def test_a_killed_worker_takes_everything_with_it(need):
    need("bubblewrap")
    process, place, (warm, *kernels) = worker()
    everybody = usage_watchdog.tree(warm)
    assert set(kernels) < set(everybody) and len(everybody) == 6  # bubblewrap, warm, two keepers, two kernels
    process.kill()
    process.wait()
    assert running(everybody) == []
    assert place.exists()
    sockets.remove_abandoned()  # as the next worker does when it starts
    assert not place.exists()


def test_workers_share_a_warm_process(sandbox):
    process, place, kernels = worker(sandbox.address)
    assert set(kernels) <= set(usage_watchdog.tree(sandbox.pid))
    process.kill()
    process.wait()
    assert running(kernels) == []
    assert sandbox.alive()
    assert text(run([Cell("a", "print(1)")], [], {}, Limits(), sandbox)["cells"]["a"]["outputs"]) == "1\n"


@pytest.mark.slow
def test_hardly_anything_is_left_for_a_kernel_to_import(root):
    folders = sorted(str(path.parent) for path in (root / "solutions").glob("*/tasks.py"))
    done = subprocess.run([sys.executable, "-c", LEFT_TO_IMPORT, *folders], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    left = json.loads(done.stdout)
    assert len(left) == len(folders) >= 10
    assert {folder: names for folder, names in left.items() if len(names) > 10} == {}


@pytest.mark.slow
def test_what_half_of_the_assignments_need_is_imported_when_a_worker_has_needed_it(need, monkeypatch):
    need("bubblewrap")
    cell = Cell("a", "import sys; print('torch._dynamo' in sys.modules, 'torch' in sys.modules)")

    def seen(sandbox: Sandbox, needed: bool) -> str:
        monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)
        if needed:
            monkeypatch.setitem(sys.modules, "torch._dynamo", sys)
        return text(run([cell], [], {}, Limits(), sandbox)["cells"]["a"]["outputs"])

    with Sandbox.start(preload=["torch"]) as sandbox:
        assert [seen(sandbox, False) for _ in range(2)] == ["False True\n"] * 2
        seen(sandbox, True)  # forked before it was imported, or after
        assert [seen(sandbox, needed) for needed in (True, False)] == ["True True\n"] * 2
    with Sandbox.start(preload=()) as sandbox:
        assert [seen(sandbox, True) for _ in range(2)] == ["False False\n"] * 2


def test_a_folder_in_use_is_not_swept():
    place = sockets.own_folder()
    sockets.remove_abandoned()
    assert place.exists() and place.stat().st_mode & 0o777 == 0o700
    assert len(str(place)) < 80


def _start_at_once(everybody, kept):
    everybody.wait(120)
    place = sockets.own_folder()
    everybody.wait(120)
    kept.put(place.is_dir())
    shutil.rmtree(place)


@pytest.mark.slow
def test_processes_that_start_together_do_not_remove_each_others_folders():
    context = multiprocessing.get_context("fork")
    for _ in range(10):
        everybody, kept = context.Barrier(8), context.Queue()
        starting = [context.Process(target=_start_at_once, args=(everybody, kept)) for _ in range(8)]
        for process in starting:
            process.start()
        assert [kept.get(timeout=240) for _ in starting] == [True] * 8
        for process in starting:
            process.join(10)


@pytest.mark.slow
def test_started_by_a_thread_that_ends(need):
    need("bubblewrap")
    started = []
    thread = threading.Thread(target=lambda: started.append(Sandbox.start(preload=())))
    thread.start()
    thread.join()
    with started[0] as sandbox:
        time.sleep(0.3)  # bubblewrap's --die-with-parent means the thread
        assert sandbox.alive()
        outputs = run([Cell("a", "print(1)")], [], {}, Limits(), sandbox)["cells"]["a"]["outputs"]
        assert text(outputs) == "1\n"
    assert running([sandbox.pid]) == []


@pytest.mark.slow
def test_a_dead_warm_process_is_replaced(need, monkeypatch):
    need("bubblewrap")
    monkeypatch.setattr(sandbox_module, "_default", {})
    start = Sandbox.start
    monkeypatch.setattr(Sandbox, "start", lambda: start(preload=()))
    first = sandbox_module.default()
    everybody = usage_watchdog.tree(first.pid)
    os.kill(first.pid, signal.SIGKILL)
    assert running([first.pid]) == []
    second = sandbox_module.default()
    assert second is not first and second.alive()
    assert running(everybody) == []
    second.close()


@pytest.mark.slow
def test_without_bubblewrap_it_says_so_and_still_limits(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(sandbox_module, "_default", {})
    with pytest.raises(SandboxUnavailable, match="apt-get install bubblewrap"):
        Sandbox.start()
    monkeypatch.setenv(sandbox_module.AS_ROOT, "1")
    with pytest.warns(RuntimeWarning, match="NOT ISOLATED"):
        plain = sandbox_module.default()
    assert isinstance(plain, Unconfined)
    cells = [
        Cell("work", "import os; print(os.listdir('.'), 'CANVAS_TOKEN' in os.environ)"),
        Cell("loop", "while True: pass"),
        Cell("dies", "import os; os._exit(1)"),
        Cell("big", "x = bytearray(3 << 30)"),
        Cell("last", "print('last')"),
    ]
    monkeypatch.setenv("CANVAS_TOKEN", "secret")
    transcript = run(cells, [], {"a.txt": b""}, Limits(cell_seconds=1), plain)
    assert not transcript["sandboxed"] and "bubblewrap is missing" in transcript["warning"]
    assert [c["status"] for c in transcript["cells"].values()] == ["ok", "timeout", "died", "error", "ok"]
    assert text(transcript["cells"]["work"]["outputs"]) == "['a.txt'] False\n"


def _no_bubblewrap(now):
    now.setattr(shutil, "which", lambda name: None)


def _no_namespaces(now):
    now.setattr(file_system, "command", lambda *a: ["/bin/sh", "-c", "echo bwrap: No permissions; exit 1"])


def _another_system(now):
    now.setattr(sys, "platform", "darwin")


@pytest.mark.parametrize("lack", [_no_bubblewrap, _no_namespaces, _another_system])
def test_root_without_a_sandbox_runs_nothing_unless_asked_to(lack, monkeypatch):
    lack(monkeypatch)
    monkeypatch.setattr(sandbox_module, "_default", {})
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.delenv(sandbox_module.AS_ROOT, raising=False)
    for asked in (None, "0", "yes"):
        if asked is not None:
            monkeypatch.setenv(sandbox_module.AS_ROOT, asked)
        with pytest.raises(SandboxUnavailable, match="would run as root"):
            sandbox_module.default()
    assert sandbox_module._default == {}
    with pytest.warns(RuntimeWarning, match="NOT ISOLATED"):  # a reader in a container checks their own work
        assert not sandbox_module.default(own_work=True).sandboxed
    monkeypatch.setattr(sandbox_module, "_default", {})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.warns(RuntimeWarning, match="NOT ISOLATED"):
        assert not sandbox_module.default().sandboxed


ONLY_BY_PYTHONPATH = """
import os, warnings
os.geteuid = lambda: {user}
from ckptlib.grading.sandbox import sandbox
try:
    sandbox.default()
except sandbox.SandboxNotInstalled as why:
    print(why)
with warnings.catch_warnings(record=True):
    print(sandbox.default(own_work=True).warning)
"""


@pytest.mark.parametrize("user", [0, 1000])
def test_a_ckptlib_that_only_pythonpath_finds_grades_nothing(user, need, tmp_path):
    """The sandbox ignores PYTHONPATH. Nobody's submission is to run outside of it for such a reason."""
    need("bubblewrap")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    environment = {"PYTHONPATH": f"{Path(sandbox_module.__file__).parents[3]}:{packages}", "PATH": os.environ["PATH"]}
    command = [tmp_path / "bin" / "python", "-c", ONLY_BY_PYTHONPATH.format(user=user)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    refused, warned = done.stdout.splitlines()
    assert refused.startswith("the sandbox's Python does not find ckptlib. It ignores PYTHONPATH")
    assert warned == f"NOT ISOLATED, limits only: {refused}"  # one's own notebook is one's own affair


@pytest.mark.parametrize(
    "trouble",
    [
        "echo 'bwrap: Creating new namespace failed: Resource temporarily unavailable'; exit 1",
        "echo 'OSError: [Errno 12] Cannot allocate memory'; exit 1",
        "kill -9 $$",
        "kill -11 $$",
        "exit 137",
        "sleep 60",
    ],
)
def test_a_machine_in_trouble_is_not_taken_for_one_without_a_sandbox(trouble, monkeypatch):
    """Else a hostile submission that fills the memory would have the next one run unconfined."""
    monkeypatch.setattr(file_system, "command", lambda *a: ["/bin/sh", "-c", trouble])
    monkeypatch.setattr(sandbox_module, "_default", {})
    monkeypatch.setattr(sandbox_module, "_START_SECONDS", 2.0)
    monkeypatch.setenv(sandbox_module.AS_ROOT, "1")
    with pytest.raises(sandbox_module.SandboxTrouble):
        sandbox_module.default()
    assert sandbox_module._default == {}


def test_without_a_sandbox_the_sockets_of_the_machine_are_not_the_kernels_fault(monkeypatch):
    monkeypatch.setattr(usage_watchdog, "_MOST_SOCKETS", -1)  # as if the machine had more than are allowed
    transcript = run([Cell("a", "print(1)")], [], {}, Limits(), Unconfined("not needed here"))
    assert text(transcript["cells"]["a"]["outputs"]) == "1\n"


@pytest.mark.slow
def test_a_machine_without_namespaces_is_found_out_at_the_start(need, monkeypatch):
    need("bubblewrap")
    monkeypatch.setattr(file_system, "privileged", lambda: False)
    real = file_system.command

    def no_more_namespaces(*arguments):
        program, *options = real(*arguments)
        return [program, "--disable-userns", *options]

    monkeypatch.setattr(file_system, "command", no_more_namespaces)
    with pytest.raises(SandboxUnavailable, match="cannot have namespaces"):
        Sandbox.start(preload=())
    monkeypatch.setattr(file_system, "command", lambda *a: ["/bin/sh", "-c", "echo bwrap: No permissions; exit 1"])
    with pytest.raises(SandboxUnavailable, match="No permissions"):
        Sandbox.start(preload=())


@pytest.mark.slow
def test_root_without_its_powers_as_in_a_container(need, monkeypatch):
    need("bubblewrap")
    monkeypatch.setattr(file_system, "privileged", lambda: False)
    code = "import os; print(os.getpid(), os.getuid(), os.access('/proc/sys/kernel/core_pattern', os.W_OK))\n"
    with Sandbox.start(preload=()) as started:
        outputs = run([Cell("a", code + "bytearray(3 << 30)")], [], {}, Limits(), started)["cells"]["a"]["outputs"]
    assert text(outputs) == "1 1000 False\nMemoryError"


def readable_by_all(*paths: Path) -> list[str]:
    """bubblewrap's options that show `paths` to every user, wherever they lie."""
    hidden, shown = {}, []
    for path in paths:
        shut = [p for p in reversed(path.parents) if not p.stat().st_mode & 0o001]
        if shut:
            hidden[shut[0]] = ["--perms", "0755", "--tmpfs", str(shut[0])]
            for parent in [p for p in reversed(path.parents) if p.is_relative_to(shut[0]) and p != shut[0]]:
                shown += ["--perms", "0755", "--dir", str(parent)]
            shown += ["--ro-bind", str(path), str(path)]
    return [*itertools.chain(*hidden.values()), *shown]


@pytest.mark.slow
def test_the_walls_stand_for_an_ordinary_user_too(need, root):
    need("bubblewrap")
    if os.geteuid() != 0:
        pytest.skip("this whole suite already runs as an ordinary user")
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is needed to become another user")
    home = tempfile.mkdtemp()
    shutil.chown(home, 54321, 54321)
    command = ["bwrap", "--dev-bind", "/", "/", *readable_by_all(Path(sys.base_prefix), root), "--"]
    command += ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"]
    command += [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={home}/t"]
    files = "sandbox/test_sandbox.py", "sandbox/test_visible_files.py", "run/test_run_submission.py"
    command += [str(root / "tests/grading" / name) for name in files]
    chosen = "signalled or siblings or network or rights or everything_visible or of_the_course or next_does or peak "
    command += ["-k", chosen + "or exits or bytes or disk or (secret and walking) or its_own_kernel or watches"]
    environment = {**os.environ, "HOME": home, "TMPDIR": home, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=root)
    shutil.rmtree(home)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "17 passed" in done.stdout, done.stdout[-500:]
