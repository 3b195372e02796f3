"""Does all that a reader needs work on macOS and Windows, and does what cannot say so? See other_platforms.py."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest
from other_platforms import ABSENT, PLATFORMS, WATCHED, environment, missing

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests/grading"))  # its helpers
from answers import answers, submission  # noqa: E402
from small_course import NAME, RIGHT, SQUARE, make  # noqa: E402

from ckptlib.grading.assignment.assignment import Assignment  # noqa: E402

LIMITS_ONLY = "not isolated: it could read and write everything that you can"


@pytest.fixture(params=PLATFORMS)
def there(request, tmp_path_factory):
    """Runs Python code, or a module with arguments, as if on that platform; `there.platform` is its name."""
    folder = tmp_path_factory.mktemp(request.param)
    settings = environment(request.param, folder)
    settings["CKPTLIB_UNCONFINED_AS_ROOT"] = "1"  # whoever runs these tests, readers of macOS and Windows are not root

    def run(*command: str, **options) -> subprocess.CompletedProcess:
        command = ("-c", *command) if len(command) == 1 else command
        text = {"capture_output": True, "encoding": "utf-8", "timeout": 600, "env": settings}
        done = subprocess.run([sys.executable, *command], **(text | options))
        assert "Traceback" not in (done.stderr or ""), done.stderr
        return done

    run.platform, run.environment = request.param, settings
    return run


# ---- what the code uses ---------------------------------------------------------------------------------------------
# Only Linux runs these: whatever imports them asks first.
LINUX = [
    f"grading/sandbox/{name}.py"
    for name in (
        *("file_system", "isolation", "kernel_process", "linux_calls", "sandbox", "seccomp", "unprivileged_user"),
        *("warm_process", "warm_process_protocol"),
    )
]
# The others use what a platform lacks in one branch of two, and the tests below take the other branch.
BRANCHES = {
    "grading/commands/grade.py": {"os.sched_getaffinity"},
    "book/lab.py": {"os.geteuid"},
    "grading/sandbox/limits.py": {"resource"},
    "grading/sandbox/without_isolation.py": {"os.killpg", "signal.SIGKILL"},
    "grading/sandbox/sockets.py": {"fcntl", "os.getuid", "os.O_DIRECTORY", "os.O_NOFOLLOW", "socket.AF_UNIX"},
    "grading/run/kernel_copy.py": {"os.fork", "signal.SIGKILL"},
    "grading/run/zmtp.py": {"socket.AF_UNIX"},
    "grading/run/message_collector.py": {"select.poll", "select.POLLIN", "select.POLLOUT"},
    "grading/sandbox/cpu_share.py": {"os.setpriority", "os.PRIO_PROCESS"},  # for kernel_process.py; the rest is for all
    "grading/sandbox/usage_watchdog.py": {"os.sysconf"},
    "grading/notebooks/submitted_files.py": {"os.O_DIRECTORY", "os.O_NOFOLLOW", "os.O_NONBLOCK"},
    "grading/gradebook/journal.py": {"fcntl", "msvcrt"},
    "book/ranks/shutdown.py": {"signal.SIGKILL"},
    "book/ranks/fork.py": {"os.fork", "signal.SIGKILL"},
}


def used(source: str) -> set[str]:
    """Modules, and attributes of modules, by the names that the standard library has for them."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.add(f"{node.value.id}.{node.attr}")
    return found


def test_what_a_platform_lacks_is_used_where_a_branch_was_made_for_it():
    lacking = set().union(*ABSENT.values()) | {
        f"{module}.{name}"
        for platform in PLATFORMS
        for module in WATCHED
        if module not in ABSENT[platform]
        for name in missing(module, platform)
    }
    assert {"os.fork", "os.getuid", "signal.SIGKILL", "socket.AF_UNIX", "select.poll", "fcntl"} <= lacking
    found: dict[str, set[str]] = {}
    for path in (ROOT / "ckptlib").rglob("*.py"):
        uses = used(path.read_text(encoding="utf-8")) & lacking
        name = path.relative_to(ROOT / "ckptlib").as_posix()
        if uses and name not in LINUX:
            found[name] = uses
    assert found == BRANCHES


def test_all_text_has_an_encoding():
    """ruff knows `open`, and `read_text` of what it sees to be a Path; this finds the others."""
    for path in [*(ROOT / "ckptlib").rglob("*.py"), *(ROOT / "solutions").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                named = {keyword.arg for keyword in node.keywords}
                bare = node.func.attr in ("read_text", "write_text") or (node.func.attr == "run" and "text" in named)
                assert not bare or "encoding" in named, f"{path}:{node.lineno}: text without an encoding"


# ---- the library and its commands -----------------------------------------------------------------------------------
IMPORTS = """
import importlib, pkgutil, json, sys
import ckptlib
for module in pkgutil.walk_packages(ckptlib.__path__, "ckptlib."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for name in ckptlib.__all__:
    getattr(ckptlib, name)
from ckptlib import cli
cli.main(["measure", "mlp", "--checkpoint", "nonreentrant", "--json"])
"""


@pytest.mark.slow
def test_every_module_is_imported_and_measures_the_same(there):
    here = subprocess.run(
        [sys.executable, "-m", "ckptlib.cli", "measure", "mlp", "--checkpoint", "nonreentrant", "--json"],
        capture_output=True,
        check=True,
    )
    done = there(IMPORTS)
    assert json.loads(done.stdout) == json.loads(here.stdout), done.stderr


PRINTS = """
from ckptlib import cli

def prints(parser):
    "A command."
    return lambda args: print("half of √n is …")

cli.COMMANDS = (prints,)
cli.main(["prints"])
"""


@pytest.mark.slow
def test_a_pipe_that_knows_no_root_sign_gets_all_else(there):
    settings = {**there.environment, "PYTHONIOENCODING": "cp1252"}
    done = there(PRINTS, env=settings, encoding="cp1252")
    assert done.stdout == "half of ?n is …\n"


@pytest.mark.slow
def test_doctor_says_that_the_book_can_be_read_and_what_grading_lacks(there):
    done = there("-m", "ckptlib.cli", "doctor", "--json")
    found = json.loads(done.stdout)
    assert found["book"] and not found["grading"] and done.returncode == 2
    (sandbox,) = [check for check in found["checks"] if check["name"] == "bubblewrap"]
    assert "only on Linux" in sandbox["says"] and "WSL" in sandbox["fix"]


@pytest.mark.slow
def test_the_book_opens(there):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--no-browser", f"--ServerApp.port={port}", "--IdentityProvider.token=", "--allow-root"]
    command = [sys.executable, "-m", "ckptlib.book.lab", *options]
    lab = subprocess.Popen(command, env=there.environment, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    try:
        for _ in range(600):
            assert lab.poll() is None
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/lab/tree/book") as page:
                assert page.status == 200
                break
            time.sleep(0.2)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/contents/book/start.ipynb") as found:
            assert "chapters" in {cell["id"] for cell in json.load(found)["content"]["cells"]}
    finally:
        lab.kill()
        lab.wait()


# ---- checking and grading -------------------------------------------------------------------------------------------
def handed_in(folder: Path, name: str, replaced: dict[str, str] | None = None) -> Path:
    """An exercise's folder with the reference's answers, but for those replaced."""
    place = folder / "mine" / name
    shutil.copytree(ROOT / "exercises" / name, place)
    if replaced is not None:
        (place / f"{name}.ipynb").write_bytes(submission(Assignment.load(ROOT / "solutions" / name), replaced))
    return place


def checked(there, place: Path, kernels: bool = True) -> dict:
    done = there("-m", "ckptlib.cli", "check", str(place), "--json")
    assert ("NOT ISOLATED, limits only: only Linux isolates a kernel" in done.stderr) == kernels
    found = json.loads(done.stdout)
    assert found["flags"] == [LIMITS_ONLY] * kernels and done.returncode == (found["score"] < found["max_score"])
    return found


@pytest.mark.slow
def test_a_check_gives_the_verdicts_that_it_gives_on_linux(there, tmp_path):
    name = "01_activation_memory"
    right = checked(there, handed_in(tmp_path / "right", name, {}))
    assert right["score"] == right["max_score"] == 10 and right["notes"] == []
    blank = checked(there, handed_in(tmp_path / "blank", name), kernels=False)  # nothing of it is run
    assert blank["score"] == 0 and all("not answered" in task["message"] for task in blank["tasks"]), blank


@pytest.mark.slow
def test_a_check_that_needs_ranks_has_them(there, tmp_path):
    """Threads stand in for copies of the process; what is right, and why an answer is wrong, stays the same."""
    name = "10_many_devices"
    right = {each.task: each.code for each in answers(name) if each.right and each.task in ("gather", "parallel_mlp")}
    found = checked(there, handed_in(tmp_path / "right", name, right))
    assert found["score"] == found["max_score"] == 10, found
    for title in ("Here it is one rank's alone", "this rank's piece is asked for"):
        (wrong,) = [each for each in answers(name) if each.task == "gather" and each.title == title]
        found = checked(there, handed_in(tmp_path / title[:4], name, {"gather": wrong.code}))
        (task,) = [task for task in found["tasks"] if task["name"] == "gather"]
        assert title in task["message"] and task["points"] < task["max_points"]


@pytest.mark.slow
def test_the_start_page_is_written_and_checks(there, tmp_path):
    place = handed_in(tmp_path, "01_activation_memory", {})
    (tmp_path / "book").mkdir()
    shutil.copy(ROOT / "book/01_activation_memory.ipynb", tmp_path / "book")
    done = there(
        "from pathlib import Path\nfrom ckptlib.book import start_page as start\n"
        f"print(start.write(Path({str(tmp_path)!r})))\nprint(start.checked(Path({str(place)!r})))"
    )
    page, verdict = done.stdout.split("\n", 1)
    assert page == "book/start.ipynb" and "](01_activation_memory.ipynb)" in (tmp_path / page).read_text(
        encoding="utf-8"
    )
    assert "<b>10 / 10</b>" in verdict and LIMITS_ONLY in verdict


CELLS = """
import json, os
from ckptlib.grading.sandbox.limits import Limits
from ckptlib.grading.sandbox.without_isolation import Unconfined
from ckptlib.grading.run.run_submission import Cell, run

cells = {
    "work": "import os, sys; print(sorted(os.listdir('.')), 'CANVAS_TOKEN' in os.environ)",
    "loop": "while True: pass",
    "dies": "import os; os._exit(1)",
    "big": "x = bytearray(b'x') * (1 << 30)",
    "many": "import subprocess; p = [subprocess.Popen(['sleep', '60']) for _ in range(70)]; import time; time.sleep(9)",
    "last": "print('last')",
}
limits = Limits(cell_seconds=8, memory=2**29)
found = run([Cell(*each) for each in cells.items()], [], {"a.txt": b""}, limits, Unconfined("test"))
found["cells"] = {name: [cell["status"], cell["outputs"]] for name, cell in found["cells"].items()}
print(json.dumps(found))
"""


@pytest.mark.slow
def test_limits_hold_where_there_is_nothing_else(there):
    done = there(CELLS, env={**there.environment, "CANVAS_TOKEN": "secret"})
    found = json.loads(done.stdout)
    statuses = {name: cell[0] for name, cell in found["cells"].items()}
    assert statuses == {"work": "ok", "loop": "timeout", "dies": "died", "big": "died", "many": "died", "last": "ok"}
    assert found["cells"]["work"][1][0]["text"] == "['a.txt'] False\n"
    said = " ".join(found["events"])
    assert "more than 512 MiB of memory" in said and "more than 64 processes" in said, said


@pytest.mark.slow
def test_a_kernel_does_not_outlive_whoever_started_it(there):
    code = "import time\nfrom ckptlib.grading.sandbox.without_isolation import Unconfined\n"
    code += "from ckptlib.grading.sandbox.limits import Limits\n"
    code += "print(Unconfined('test').kernel(Limits()).pid, flush=True)\ntime.sleep(600)"
    worker = subprocess.Popen(
        [sys.executable, "-c", code], env=there.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    kernel = psutil.Process(int(worker.stdout.readline()))
    assert "ckptlib.grading.sandbox.without_isolation" in kernel.cmdline()
    worker.kill()
    worker.communicate()
    psutil.wait_procs([kernel], timeout=60)
    assert not kernel.is_running()


@pytest.mark.slow
def test_a_class_is_graded_with_limits_only_and_one_at_a_time(there, tmp_path):
    course = make(tmp_path / "course", {"ada": RIGHT, "bob": SQUARE})
    (course / "submitted/eve" / NAME).mkdir(parents=True)
    (course / "submitted/eve" / NAME / f"{NAME}.ipynb").symlink_to(course / "submitted/ada" / NAME / f"{NAME}.ipynb")
    locked = "import time\nfrom pathlib import Path\nfrom ckptlib.grading.gradebook.journal import locked\n"
    locked += f"Path({str(course)!r}, '.ckptlib').mkdir(exist_ok=True)\n"
    locked += f"with locked(Path({str(course)!r}, '.ckptlib')):\n    print('locked', flush=True)\n    time.sleep(600)"
    first = subprocess.Popen([sys.executable, "-c", locked], env=there.environment, stdout=subprocess.PIPE)
    assert first.stdout.readline() == b"locked\n"
    command = ("-m", "ckptlib.cli", "grade", NAME, "--course", str(course), "--workers", "1", "--json")
    done = there(*command)
    assert done.returncode == 2 and f"is being graded by process {first.pid} on" in done.stderr
    first.kill()
    first.communicate()
    done = there(*command)
    assert "NOT ISOLATED, limits only: only Linux isolates a kernel" in done.stderr
    found = {each["student"]: each for each in json.loads(done.stdout)["submissions"]}
    assert {name: each["score"] for name, each in found.items()} == {"ada": 5, "bob": 2, "eve": 0}
    assert "it is a link, not a file" in found["eve"]["reason"]
    assert found["ada"]["flags"] == found["bob"]["flags"] == [LIMITS_ONLY]


# ---- ranks ----------------------------------------------------------------------------------------------------------
RANKS = """
import json
import torch.distributed as dist
from ckptlib.book import ranks

def step(width):
    import tempfile
    x = torch.full((width,), 1.0 + dist.get_rank())
    dist.all_reduce(x)
    return [x.tolist(), dist.get_backend(), tempfile.gettempdir()]

def dies():
    import os
    if dist.get_rank() == 1:
        os._exit(7)
    dist.barrier()

try:
    ranks.run(dies, 2)
except ranks.RankError as error:
    print(str(error).splitlines()[0])
print(json.dumps(ranks.run(step, 3, width=2)))
"""


@pytest.mark.slow
def test_ranks_answer_and_one_that_dies_is_named(there, tmp_path):
    (tmp_path / "ranks.py").write_text(RANKS, encoding="utf-8")  # a function travels as source: it must have some
    done = there(str(tmp_path / "ranks.py"), "-", env={**there.environment, "TMPDIR": str(tmp_path)})
    died, found = done.stdout.splitlines()
    assert died == "rank 1 of 2 died: it ended itself with code 7"
    group = "store" if there.platform == "win32" else "gloo"
    assert [each[:2] for each in json.loads(found)] == [[[6.0, 6.0], group]] * 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ranks.py"]


ORPHANS = """
from ckptlib.book import ranks

def waits():
    import os, tempfile, time
    from pathlib import Path
    Path(tempfile.gettempdir(), f"up-{os.getpid()}").touch()
    time.sleep(1000)

ranks.run(waits, 2, seconds=500)
"""


@pytest.mark.slow
def test_ranks_go_when_their_caller_is_killed(there, tmp_path):
    """Linux ends them itself; elsewhere each looks for whoever started it."""
    (tmp_path / "caller.py").write_text(ORPHANS, encoding="utf-8")
    settings = {**there.environment, "TMPDIR": str(tmp_path)}
    caller = subprocess.Popen([sys.executable, tmp_path / "caller.py"], env=settings)
    while len(up := list(tmp_path.glob("*/up-*"))) < 2:
        assert caller.poll() is None
        time.sleep(0.1)
    ranks = [psutil.Process(int(path.name[3:])) for path in up]
    caller.kill()
    caller.wait()
    psutil.wait_procs(ranks, timeout=60)
    assert not any(rank.is_running() for rank in ranks)


@pytest.mark.slow
def test_the_chapter_of_many_devices_is_the_same_to_the_byte(there):
    """All other chapters use nothing of the system. On Windows, FSDP and DDP run on our group."""
    path = ROOT / "book/10_many_devices.ipynb"
    done = there(f"from ckptlib.book import runner\nprint(runner.execute({str(path)!r}), end='')")
    expected = path.read_text(encoding="utf-8")
    if there.platform == "win32":
        expected = expected.replace("killed by SIGKILL", "it ended itself with code 15")
    assert done.stdout == expected, done.stderr[-3000:]


# ---- the page for readers -------------------------------------------------------------------------------------------
def test_the_commands_for_windows_are_those_of_make():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    made, installed, opened = re.search(r"```powershell\n(.*?)\n```", text, re.DOTALL)[1].splitlines()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    options = re.search(r"-m pip install --disable-pip-version-check (.*)", makefile)[1].replace("'", '"')
    assert made.endswith("-m venv .venv") and installed == rf".venv\Scripts\python -m pip install {options}"
    assert "$(RUN) -m ckptlib.book.lab" in makefile and opened == r".venv\Scripts\python -m ckptlib.book.lab"
