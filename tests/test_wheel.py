"""Does ckptlib work when it is installed like any other package: as a wheel, away from the checkout?

The environments hold only what the wheel asks for, so an import that nobody declared fails here. They need no network:
their packages are links to the ones that run this test.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterable, Iterator
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from test_setup import ROOT, published_files

from ckptlib.grading import cli

pytestmark = pytest.mark.slow

PUBLISHED = {path.relative_to(ROOT).as_posix() for path in published_files()}
ARGUMENTS = {"new-exercise": "11_mine", "check": "."}  # any other command of grading takes an assignment's name
INSTALL = "Install it with: {python} -m pip install 'ckptlib[{extra}]'"
MINE = """
import torch
from torch import nn


def build():
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(4)))
    return model, torch.randn(8, 64), lambda y: y.square().mean()
"""


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(command, cwd=cwd, env=clean | (env or {}), capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> Path:
    """Built by the hook that pip and `python -m build` call, in a copy: a build leaves files behind."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in PUBLISHED:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    hook = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    done = run(sys.executable, "-c", hook, str(target), cwd=source)
    assert done.returncode == 0, done.stderr
    (found,) = target.iterdir()
    return found


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory) -> Path:
    """Built from the sdist, so that one holds what the other needs; with the setuptools that is here: no network."""
    target = tmp_path_factory.mktemp("wheel")
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", target]
    done = run(sys.executable, "-m", "pip", "wheel", *options, sdist, cwd=target)
    assert done.returncode == 0, done.stderr
    (found,) = target.iterdir()
    return found


class Environment:
    """A new virtual environment with the wheel, and with exactly the distributions that it asks for."""

    def __init__(self, folder: Path, wheel: Path, *extras: str):
        self.folder, self.elsewhere = folder / "venv", folder / "elsewhere"
        self.elsewhere.mkdir(parents=True)
        self.python = linked(self.folder, asked_for(wheel, extras))
        what = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
        # Without an index, pip fails if anything that the wheel asks for is missing here.
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install", "--no-index", "--no-compile", "-q"]
        done = run(*pip, what, cwd=self.elsewhere)
        assert done.returncode == 0, done.stdout + done.stderr

    def ckptlib(self, *arguments: str, **env: str) -> subprocess.CompletedProcess:
        return run(self.folder / "bin" / "ckptlib", *arguments, cwd=self.elsewhere, env=env)

    def code(self, code: str) -> subprocess.CompletedProcess:
        return run(self.python, "-c", code, cwd=self.elsewhere)


def linked(folder: Path, distributions: Iterable[metadata.Distribution]) -> Path:
    """A new virtual environment in which these distributions are links to those that run this test. Its Python."""
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    for distribution in distributions:
        tops = {path.parts[0] for path in distribution.files} - {"..", "__pycache__"}
        for name in tops:
            if not (packages / name).exists():
                (packages / name).symlink_to(distribution.locate_file(name))
    for shared in ("etc", "share"):  # the files of Jupyter's extensions
        if (Path(sys.prefix) / shared).exists():
            (folder / shared).symlink_to(Path(sys.prefix) / shared)
    return folder / "bin" / "python"


def asked_for(wheel: Path, extras: tuple[str, ...]) -> Iterator[metadata.Distribution]:
    """What pip would install with the wheel: its requirements, theirs, and so on."""
    with zipfile.ZipFile(wheel) as files:
        (name,) = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
        about = Parser().parsestr(files.read(name).decode())
    waiting = [(requirement, extras) for requirement in about.get_all("Requires-Dist")]
    seen = set()
    while waiting:
        requirement, extras = waiting.pop()
        requirement = Requirement(requirement)
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            continue
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key not in seen:
            seen.add(key)
            distribution = metadata.distribution(requirement.name)
            waiting += [(each, tuple(requirement.extras)) for each in distribution.requires or []]
            yield distribution


@pytest.fixture(scope="module")
def base(wheel, tmp_path_factory) -> Environment:
    return Environment(tmp_path_factory.mktemp("base"), wheel)


def succeeded(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---- what is in the files ----


def test_the_sdist_has_all_that_it_takes_to_build_and_to_test(sdist):
    with tarfile.open(sdist) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    assert sorted(PUBLISHED - names) == []


def test_the_wheel_has_the_whole_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as files:
        names = {name for name in files.namelist() if ".dist-info/" not in name}
    assert names == {name for name in PUBLISHED if name.startswith("ckptlib/")}


# ---- the base install ----


def test_the_base_is_small_and_lacks_what_extras_bring(base):
    found = base.code("from importlib.util import find_spec; print(*map(find_spec, 'IPython nbformat dask'.split()))")
    assert succeeded(found).split() == ["None"] * 3


def test_every_public_name_but_the_explorers_and_the_probes_of_an_exercise_need_only_the_base(base):
    code = """
import ckptlib as ck
for name in set(ck.__all__) - {"widgets"}:
    getattr(ck, name)
from ckptlib.grading import Checks
print(ck.__file__)
"""
    assert Path(succeeded(base.code(code)).strip()).is_relative_to(base.folder)


def test_measure_and_plan_and_fit_work_in_another_folder(base):
    assert "101,040,640" in succeeded(base.ckptlib("measure", "mlp", "--plot", "timeline.svg"))
    assert (base.elsewhere / "timeline.svg").is_file()
    (base.elsewhere / "mine.py").write_text(MINE)
    assert "peak" in succeeded(base.ckptlib("plan", "mine:build"))
    fitted = succeeded(base.ckptlib("fit", "gpt2-xl", "--gpu", "80GiB", "--seq", "1024", "--strategy", "full"))
    assert re.findall(r"largest batch (\d+)", fitted) == ["135"]


def test_doctor_finds_the_library_fit_and_says_how_to_get_the_extras(base):
    done = base.ckptlib("doctor", "--json")
    found = json.loads(done.stdout)
    assert (found["library"], found["book"], found["grading"], done.returncode) == (True, False, False, 3)
    assert done.stderr == ""
    fixes = {check["name"]: check["fix"] for check in found["checks"] if check["name"].startswith("extra ")}
    extras = ("book", "grading", "cluster")
    assert fixes == {f"extra {extra}": f"{base.python} -m pip install 'ckptlib[{extra}]'" for extra in extras}


@pytest.mark.parametrize("command", [command.__name__.replace("_", "-") for command in cli.COMMANDS])
def test_a_command_of_an_extra_that_is_missing_says_so_in_one_line(base, command):
    done = base.ckptlib(command, ARGUMENTS.get(command, "01_activation_memory"))
    says = f"ckptlib: `ckptlib {command}` needs nbgrader, which comes with an extra. "
    assert done.stderr == says + INSTALL.format(python=base.python, extra="grading") + "\n"
    assert (done.stdout, done.returncode) == ("", 2)


@pytest.mark.parametrize(
    "code",
    [
        "import ckptlib as ck; ck.widgets.fit_explorer",
        "from ckptlib.figures.explorers.fit import fit_explorer",
        "from ckptlib import book; book.setup()",
        "import ckptlib.book.start_page",
        "import ckptlib.book.lab",
        "from ckptlib.grading.tasks import quiz; quiz.practise()",
    ],
)
def test_python_code_that_needs_a_missing_extra_is_told_the_same(base, code):
    done = base.code(f"try:\n    {code}\nexcept ImportError as error:\n    print(error)")
    line = r".* needs ipywidgets, which comes with an extra\. "
    assert re.fullmatch(line + re.escape(INSTALL.format(python=base.python, extra="book")) + "\n", succeeded(done))


# ---- with an extra ----


def test_with_the_extra_book_kernels_start_and_explorers_load(wheel, tmp_path):
    """Jupyter lists the grader's kernel provisioner, an entry point, also where the grader is not installed."""
    book = Environment(tmp_path, wheel, "book")
    found = json.loads(book.ckptlib("doctor", "--json").stdout)
    assert (found["library"], found["book"], found["grading"]) == (True, True, False)
    assert "Jupyter's kernel" in {check["name"] for check in found["checks"] if check["ok"]}
    code = "from ckptlib import book, widgets as w; [getattr(w, n) for n in dir(w) if 'explorer' in n]"
    succeeded(book.code(code))
    assert "needs nbgrader" in book.ckptlib("check", ".").stderr
    done = run(book.python, "-m", "ckptlib.book.lab", cwd=book.elsewhere)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "opens the book, which comes with a checkout" in done.stderr


def test_with_the_extra_grading_an_exercise_is_made_and_checked(wheel, tmp_path):
    grading = Environment(tmp_path, wheel, "grading")
    succeeded(grading.ckptlib("new-exercise", "11_mine"))
    # No bubblewrap: the packages here are links, and they lead out of what a sandbox sees.
    verdict = succeeded(grading.ckptlib("check", "source/11_mine", "--json", PATH=str(grading.folder / "bin")))
    assert json.loads(verdict)["score"] == 2
    done = grading.ckptlib("grade", "11_mine", "--cluster", "tcp://127.0.0.1:1")
    assert done.stderr.startswith("ckptlib: --cluster, here and on each worker, needs distributed")
    assert done.stderr.endswith(INSTALL.format(python=grading.python, extra="cluster") + "\n")
    assert done.stderr.count("\n") == 1 and done.returncode == 2
