"""Does every command in README.md and INSTRUCTORS.md do what the page says? They are run, all of them, in a copy."""

import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ckptlib.book import doctor, runner

ROOT = Path(__file__).resolve().parents[1]
NAME = "01_activation_memory"
# Tested elsewhere, each for what it does; here: that make knows the target.
MAKE = re.compile(r"make (\w+)")
# Belongs to the machine, or needs several: what can be known here is that the program is there.
LEFT_OUT = ("sudo apt-get", "source .venv", "dask ")
NOT_YET = 1  # what `ckptlib check` returns for a blank exercise


def blocks(page: str, language: str = "") -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"^( *)```(\w*)\n(.*?)\n *```", text, flags=re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", body, flags=re.MULTILINE) for indent, kind, body in found if kind == language]


@pytest.fixture
def shell(tmp_path):
    """Run a script as a reader does, in a folder that has the book's exercises."""
    shutil.copytree(ROOT / "exercises", tmp_path / "exercises")
    here = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "BOOK": str(ROOT)}
    # nbgrader's own exchange belongs to the machine: what one run of this test released would stop the next.
    settings = tmp_path / "settings"
    settings.mkdir()
    (settings / "nbgrader_config.py").write_text(
        f"c = get_config()\n"
        f"c.Exchange.root = {str(tmp_path / 'exchange')!r}\n"
        f"c.Exchange.cache = {str(tmp_path / 'cache')!r}\n"
    )
    (tmp_path / "exchange").mkdir(mode=0o777)
    environment["JUPYTER_CONFIG_PATH"] = str(settings)

    def run(script: str, folder: Path = tmp_path, right: tuple = (0,)) -> str:
        script = script.replace(".venv/bin/", "")
        done = subprocess.run(
            ["bash", "-ec", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode in right, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.mark.slow
def test_the_readmes_commands_run(shell, tmp_path, need):
    need("bubblewrap")
    mine = next(code for code in blocks("README.md", "python") if "def build" in code)
    (tmp_path / "mine.py").write_text(mine)
    for line in "\n".join(blocks("README.md")).splitlines():
        if target := MAKE.match(line):
            shell(f"make -n {target[1]}", ROOT)
        else:
            said = shell(line, right=(NOT_YET,) if "ckptlib check" in line else (0,))
            assert said.strip(), line


@pytest.mark.slow
def test_the_readmes_figures_are_what_its_commands_print(shell):
    rows = re.findall(r"^\|.*\| `\.venv/bin/(ckptlib [^`]*)` \|$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    assert len(rows) == 2
    measured, fitted = (shell(row) for row in rows)
    assert "83,214,848" in measured
    assert re.findall(r"largest batch (\d+)", fitted) == ["6", "21", "135", "200"]


def test_the_readmes_python_runs():
    for code in blocks("README.md", "python"):
        exec(code, {"__name__": "readme"})


def test_the_readmes_picture_is_the_books():
    chapter = (ROOT / "book" / runner.COVER[0]).read_text(encoding="utf-8")
    assert (ROOT / "book/cover.svg").read_text(encoding="utf-8") == runner.cover(chapter)


@pytest.mark.slow
def test_an_instructor_gets_from_nothing_to_graded(shell, tmp_path, need):
    need("bubblewrap")
    install, release, grade, *others = blocks("INSTRUCTORS.md")
    for line in install.splitlines():
        if target := MAKE.match(line):
            shell(f"make -n {target[1]}", ROOT)
        elif not line.startswith(LEFT_OUT):
            shell(line)
    shell(release)
    course = tmp_path / "course"
    assert not (course / "release" / NAME / "key.py").exists()
    shutil.copytree(course / "release" / NAME, course / "submitted" / "ada" / NAME)
    assert "ada" in shell(grade, course)
    assert (course / "feedback/ada" / NAME / f"{NAME}.html").is_file() and (course / "scores.csv").is_file()
    for line in "\n".join(others).splitlines():
        if not line.startswith(LEFT_OUT) and "--cluster" not in line:
            shell(line, course)


def test_the_instructors_hidden_probe_is_asked(tmp_path):
    from ckptlib.grading.assignment.assignment import Assignment

    code = next(code for code in blocks("INSTRUCTORS.md", "python") if ".hidden" in code)
    shutil.copytree(ROOT / "solutions" / NAME, tmp_path / NAME)
    (tmp_path / NAME / "hidden.py").write_text(code)
    assert Assignment.load(tmp_path / NAME).right("saved_nbytes", [7]) == [{"dict": [["nothing", 0]]}]


def test_all_that_the_authors_table_says_can_be_written_and_nothing_is_left_out():
    from ckptlib.grading.tasks.inputs import Given
    from ckptlib.grading.tasks.probes import Checks, Task

    said = (ROOT / "INSTRUCTORS.md").read_text(encoding="utf-8").split("What else an author can say:\n\n")[1]
    table, defaults = said.split("\n\n")[:2]
    check = Checks(str(ROOT / "tasks.py"))

    @check.task(points=1)
    def NAME(given, NAME): ...

    names = {"check": check, "given": Given(7), "options": [1, 2], "nbytes": 1}
    for written, where in (row.split(" | ")[:2] for row in table.splitlines()[2:]):
        for code in re.findall("`(.*?)`", written):
            eval(f"check.task(**{{'points': 1}} | dict({code}))" if "check.task" in where else code, names)
    known = {name for name in vars(Given) if not name.startswith("_")} | {"tolerate", "limit_peak", "add_quiz"}
    task, tolerate = (inspect.signature(each).parameters for each in (Checks.task, Task.tolerate))
    assert [name for name in known | set(task) - {"self"} if name not in table] == []
    assert f"(default {task['cases'].default})" in table
    assert (tolerate["rtol"].default, tolerate["atol"].default) == (1e-4, 1e-6)
    assert "rtol is 1e-4 and atol is 1e-6" in defaults


def test_the_doctor_and_the_page_give_a_container_the_same_options():
    page = (ROOT / "INSTRUCTORS.md").read_text(encoding="utf-8")
    options = re.findall(r"--security-opt [\w=]+", doctor.CONTAINER_OPTIONS)
    assert len(options) == 6 and re.findall(r"--security-opt [\w=]+", page) == options


@pytest.mark.parametrize("page", ["README.md", "INSTRUCTORS.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\((?!http)([^)#]+)", (ROOT / page).read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []
