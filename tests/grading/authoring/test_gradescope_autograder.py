"""Does the zip for Gradescope grade there: from setup.sh to results.json, in a container that allows no namespaces?"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import own_machine
import pytest
from small_course import BLANK, NAME, RIGHT, SQUARE, make, notebook
from test_setup import published_files
from test_wheel import asked_for, linked

from ckptlib.cli import main
from ckptlib.grading.cli import build_parser

# What it may not do is written into its feedback. It also leaves a process behind, and ends with the wrong answer.
HOSTILE = {
    **RIGHT,
    "double": """
import ctypes, glob, os, signal, socket, subprocess, sys, time

def attempt(name, f):
    try:
        tried.append(f"{name}: GOT {f()!r}"[:200])
    except BaseException as error:
        tried.append(f"{name}: {type(error).__name__}")

tried, root = [], ROOT
attempt("uid", os.getuid)
attempt("setuid", lambda: os.setuid(0))
attempt("source", lambda: os.listdir(f"{root}/source"))
attempt("key", lambda: open(f"{root}/source/assignment/key.py").read())
attempt("secret", lambda: open(f"{root}/source/settings.json").read())
attempt("results", lambda: open(f"{root}/results/results.json", "w"))
attempt("submission", lambda: os.listdir(f"{root}/submission"))
attempt("environ of root", lambda: [open(f"/proc/{p}/environ").read() for p in (1, os.getppid())])
attempt("memory of root", lambda: open(f"/proc/{os.getppid()}/mem", "rb"))
attempt("kill root", lambda: os.kill(os.getppid(), signal.SIGKILL))
attempt("sudo", lambda: subprocess.run(["su", "-c", "id"], stdin=subprocess.DEVNULL, check=True, capture_output=True))
attempt("ptrace", lambda: 1 / (1 + ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0)))
attempt("unshare", lambda: 1 / (1 + ctypes.CDLL(None).unshare(0x10000000)))
attempt("mount", lambda: 1 / (1 + ctypes.CDLL(None).mount(b"none", b"/tmp", b"tmpfs", 0, None)))
if os.fork() == 0:
    os.setsid()
    while True:
        time.sleep(1)

def double(x):
    raise ValueError("; ".join(tried))
""",
}
HALF = {**RIGHT, "both": 'def both(a, b):\n    return {"sum": a + b, "product": 0}'}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """The zip, made on an instructor's machine."""
    course = make(tmp_path_factory.mktemp("course"), {})
    target = course / "autograder.zip"
    arguments = ["gradescope", NAME, "--course", str(course), "--visibility", "after_published"]
    assert main([*arguments, "--output", str(target)]) == 0
    return target


def test_the_zip_holds_all_that_it_installs_and_asks(made):
    with zipfile.ZipFile(made) as files:
        names = {*files.namelist()}
        (wheel,) = [name for name in names if name.endswith(".whl")]
        modes = {name: files.getinfo(name).external_attr >> 16 & 0o777 for name in names}
        pins = files.read("constraints.txt").decode().split()
        with zipfile.ZipFile(files.open(wheel)) as packed:
            assert packed.testzip() is None
            packages = {name for name in packed.namelist() if ".dist-info/" not in name}
    own = {f"assignment/{name}" for name in (f"{NAME}.ipynb", "tasks.py", "key.py")}
    assert names == {"setup.sh", "run_autograder", "constraints.txt", "settings.json", wheel} | own
    assert modes["setup.sh"] == modes["run_autograder"] == 0o755  # in the root, and executable: Gradescope's condition
    assert made.stat().st_mode & 0o077 == 0  # the solutions are in it
    root = Path(__file__).parents[3]
    tracked = {path.relative_to(root).as_posix() for path in published_files()}
    assert packages == {name for name in tracked if name.startswith("ckptlib/")}
    assert f"nbgrader=={metadata.version('nbgrader')}" in pins
    assert f"torch=={metadata.version('torch').partition('+')[0]}" in pins


def test_the_command_offers_gradescopes_own_words_for_visibility():
    words = ["visible", "after_due_date", "after_published", "hidden"]
    assert [build_parser().parse_args(["gradescope", NAME, "--visibility", word]).visibility for word in words] == words


@pytest.fixture(scope="module")
def here() -> Iterator[Path]:
    own_machine.need()
    with own_machine.folder("autograder-") as folder:
        yield folder


class Service:
    """What Gradescope does: unpack the zip, build an image, and run the autograder for each submission."""

    def __init__(self, here: Path, autograder: Path) -> None:
        self.here, self.root, self.temporary = here, here / "autograder", here / "tmp"
        self.temporary.mkdir()
        self.temporary.chmod(0o1777)
        for name in ("source", "submission", "results"):
            (self.root / name).mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "zipfile", "-e", autograder, self.root / "source"], check=True)
        (wheel,) = self.root.glob("source/*.whl")
        linked(self.root / "venv", [*asked_for(wheel, ("grading",)), metadata.distribution("pip")])
        done = self._run(self.root / "source" / "setup.sh")
        assert done.returncode == 0, done.stdout + done.stderr
        shutil.copy(self.root / "source" / "run_autograder", self.root / "run_autograder")

    def _run(self, script: Path) -> subprocess.CompletedProcess:
        # No network, and no Python of the image's: what pip needs is there, and it fails if the zip asks for more.
        settings = [f"AUTOGRADER_ROOT={self.root}", f"PYTHON={sys.executable}", "PIP_NO_INDEX=1"]
        settings.append(f"TMPDIR={self.temporary}")
        line = own_machine.command(self.here, "env", *settings, "bash", script, container=True)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(line, capture_output=True, text=True, timeout=300, cwd=self.root, env=clean)

    def hand_in(self, **files: str) -> tuple[dict, subprocess.CompletedProcess]:
        """Grade a submission; the content of results.json, and what the instructor sees."""
        shutil.rmtree(self.root / "submission")
        (self.root / "submission").mkdir()
        for name, text in files.items():
            (self.root / "submission" / name).write_text(text.replace("ROOT", repr(str(self.root))))
        users = [{"id": 7, "email": "ada@example.org", "name": "Ada"}]
        (self.root / "submission_metadata.json").write_text(json.dumps({"id": 1, "users": users}))
        done = self._run(self.root / "run_autograder")
        results = self.root / "results" / "results.json"
        return json.loads(results.read_text()) if results.exists() else {}, done


@pytest.fixture(scope="module")
def service(here, made) -> Service:
    return Service(here, made)


def points(results: dict) -> dict[str, float]:
    return {test["name"]: test["score"] for test in results.get("tests", ())}


@pytest.mark.slow
def test_right_wrong_and_blank_submissions_get_their_points_and_messages(service):
    right, done = service.hand_in(**{f"{NAME}.ipynb": notebook(RIGHT)})
    assert points(right) == {"double": 3, "both": 2}, done.stderr
    assert [test["max_score"] for test in right["tests"]] == [3, 2]
    assert {test["output"] for test in right["tests"]} == {""} and right["output"] == ""
    assert (right["visibility"], right["stdout_visibility"]) == ("after_published", "hidden")
    assert right["test_output_format"] == right["output_format"] == right["test_name_format"] == "text"
    assert "score" not in right  # it would replace the sum of the tests
    assert done.stdout.startswith("5 / 5: every task is right\nNO NAMESPACES: ")
    assert right["extra_data"]["flags"] == [] and "use the network" in right["extra_data"]["not_isolated"]

    wrong, _ = service.hand_in(**{f"{NAME}.ipynb": notebook({**SQUARE, "both": HALF["both"]})})
    assert points(wrong) == {"double": 0, "both": 1}
    assert wrong["tests"][0]["output"] == "that is the square\nRead again: 1.1."
    assert [test["status"] for test in wrong["tests"]] == ["failed", "failed"]

    blank, _ = service.hand_in(**{f"{NAME}.ipynb": notebook(BLANK)})
    assert points(blank) == {"double": 0, "both": 0}
    assert {test["output"].split("\n")[0] for test in blank["tests"]} == {"not answered yet"}

    nothing, done = service.hand_in(**{"essay.txt": "I have no notebook."})
    assert points(nothing) == {"double": 0, "both": 0}
    assert "notebook" in nothing["tests"][0]["output"] and done.returncode == 0


@pytest.mark.slow
def test_a_hostile_submission_reads_nothing_stays_nowhere_and_earns_what_is_right(service):
    results, done = service.hand_in(**{f"{NAME}.ipynb": notebook(HOSTILE)})
    assert points(results) == {"double": 0, "both": 2}, done.stderr
    told = results["tests"][0]["output"]
    assert "ValueError" in told and "uid: GOT" in told and told.count("GOT") == 1, told
    assert "uid: GOT 0" not in told
    assert list(service.temporary.iterdir()) == []


@pytest.mark.slow
def test_a_problem_of_the_autograder_is_not_a_grade(service):
    settings = service.root / "source" / "settings.json"
    before = settings.read_text()
    try:
        settings.write_text("{")
        results, done = service.hand_in(**{f"{NAME}.ipynb": notebook(RIGHT)})
    finally:
        settings.write_text(before)
    assert results == {} and done.returncode != 0
