"""Do the project's own files agree with one another, and does the Makefile keep its promises?"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_environment_yml_installs_what_pyproject_asks_for():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, pip, *by_conda, from_pypi = environment["dependencies"]
    assert python == "python" + PROJECT["requires-python"]
    assert pip == "pip"
    # The same versions as pip is told to want: else pip would install a second torch over conda's.
    base = [Requirement(requirement).name for requirement in PROJECT["dependencies"]]
    named = [*base, "jupyterlab", "ipywidgets", "nbgrader"]
    assert by_conda == [f"{'pytorch' if name == 'torch' else name}={pins()[name]}" for name in named]
    # the very arguments that the Makefile gives to pip
    install = re.search(r"-m pip install (.*)", (ROOT / "Makefile").read_text())[1]
    words = [word for word in shlex.split(install) if word != "--disable-pip-version-check"]
    assert shlex.split(" ".join(from_pypi["pip"])) == words
    extras = re.fullmatch(r"\.\[(.*)\]", words[-1])[1].split(",")
    assert extras == list(PROJECT["optional-dependencies"])


@pytest.mark.slow
def test_conda_users_are_told_to_serve_the_whole_repository(tmp_path):
    """Links lead from chapters to ../exercises: a server whose root is book/ would refuse them."""
    told = re.search(r"conda env create .*", (ROOT / "environment.yml").read_text())[0]
    assert f"`{told}`" in (ROOT / "README.md").read_text()
    python = shlex.split(told.split(" && ")[-1])
    environment = {**os.environ, "JUPYTER_RUNTIME_DIR": str(tmp_path), "JUPYTER_CONFIG_DIR": str(tmp_path / "config")}
    command = [sys.executable, *python[1:], "--no-browser", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0"]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        page = tmp_path / f"jpserver-{server.pid}-open.html"  # what a browser would be sent to
        deadline = time.monotonic() + 120
        while not (page.exists() and page.read_text()):
            assert server.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.1)
        at = json.loads((tmp_path / f"jpserver-{server.pid}.json").read_text())
        assert f"{at['base_url']}lab/tree/book/start.ipynb" in page.read_text()
        linked = f"{at['url']}api/contents/exercises/01_activation_memory?content=0&token={at['token']}"
        assert json.load(urllib.request.urlopen(linked, timeout=60))["type"] == "directory"
    finally:
        server.terminate()
        server.wait(60)


def test_constraints_pin_every_direct_dependency_to_a_version_that_pyproject_allows():
    extras = PROJECT["optional-dependencies"].values()
    requirements = [Requirement(r) for r in [*PROJECT["dependencies"], *(r for extra in extras for r in extra)]]
    assert {r.name: r.specifier.contains(pins().get(r.name, "0")) for r in requirements} == {
        r.name: True for r in requirements
    }


def test_the_hooks_before_a_commit_are_what_make_lint_runs():
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    entries = [hook["entry"] for hook in repository["hooks"]]
    assert entries == [line.strip().replace("$(RUN)", ".venv/bin/python") for line in recipe.splitlines()]


def test_opening_a_notebook_compiles_no_grammars():
    """jsonschema may, in every process that imports nbformat: that is two seconds of silence, see constraints.txt."""
    code = "import sys, nbformat; sys.exit('lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_the_version_is_the_same_everywhere():
    import ckptlib

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert ckptlib.__version__ == PROJECT["version"] == citation["version"]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "book/index.md"])
def test_every_make_command_in_the_text_is_a_target(page):
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`|\d )make (\w+)", (ROOT / page).read_text(), re.MULTILINE))
    assert named <= targets
    if page == "README.md":
        assert {"lab", "test"} <= named


def test_readme_shows_both_commands_on_the_first_screen():
    screen = (ROOT / "README.md").read_text().splitlines()[:15]
    assert [line.split("#")[0].strip() for line in screen if line.startswith("make ")] == ["make lab", "make test"]


@pytest.mark.parametrize("page", sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("*.md")))
def test_links_between_files_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text())
    missing = [link for link in links if "://" not in link and not (ROOT / page).parent.joinpath(link).exists()]
    assert not missing


def published_files() -> list[Path]:
    """What git tracks or would track; all of the folders' files where this is no clone."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True) if shutil.which("git") else None
    if listing and listing.returncode == 0:
        paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        folders = [ROOT / name for name in (".ci", ".github", "book", "ckptlib", "tests")]
        paths = [*ROOT.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]
        paths = [path for path in paths if path.suffix != ".pyc"]
    return [path for path in paths if path.is_file()]


def test_no_file_tells_where_it_was_made():
    """No path of this machine, no private package index: neither would work elsewhere."""
    config = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    indexes = re.findall(r"(?:index-url|find-links)='([^']*)'", config)
    places = [place for value in indexes for place in value.split() if not re.search(r"py(pi|torch)\.org/", place)]
    places += [str(ROOT), sys.base_prefix]
    needles = [re.escape(place.rstrip("/")).encode() + rb"\b" for place in places if place.count("/") > 1]
    needles += [rb"/(?:root|home/\w+|Users/\w+)/\."]
    found = {}
    for path in published_files():
        if hits := re.findall(b"|".join(needles), path.read_bytes()):
            found[path.relative_to(ROOT).as_posix()] = hits
    assert not found


def test_the_setup_notebook_is_committed_clean():
    text = (ROOT / "book/00_setup_check.ipynb").read_text()
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    for cell in notebook.cells:
        assert not re.fullmatch(r"[0-9a-f]{8}", cell.id), "a random id: it would change with every rewrite"
        assert cell.metadata == {}
        assert cell.cell_type == "markdown" or (cell.outputs == [] and cell.execution_count is None)


# ---- the Makefile, on a toy project that installs in seconds and needs no network ----

BACKEND = """
import os, time, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    if os.path.exists("slow"):
        os.rename("slow", "building")
        time.sleep(600)
    wheel, info = "toy-1-py3-none-any.whl", "toy-1.dist-info"
    with zipfile.ZipFile(os.path.join(folder, wheel), "w") as z:
        z.writestr("toy.pth", os.getcwd())
        z.writestr(info + "/METADATA", "Name: toy\\nVersion: 1\\nMetadata-Version: 2.1\\nProvides-Extra: test\\n")
        z.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        z.writestr(info + "/RECORD", "")
    return wheel
"""


@pytest.fixture
def toy(tmp_path, need) -> Path:
    need("make")
    folder = tmp_path / "ein ördner" / "toy"
    folder.mkdir(parents=True)
    (folder / "Makefile").write_bytes((ROOT / "Makefile").read_bytes())
    build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (folder / "pyproject.toml").write_text(build)
    (folder / "constraints.txt").touch()
    (folder / "backend.py").write_text(BACKEND)
    return folder


def start_make(folder: Path, python: str = sys.executable, *options: str) -> subprocess.Popen:
    # what the make that runs these tests has put into the environment is not for this one
    env = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    return subprocess.Popen(
        ["make", *options, ".venv/.installed", f"PYTHON={python}"],
        cwd=folder,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def make(folder: Path, python: str = sys.executable, *options: str) -> tuple[int, str]:
    process = start_make(folder, python, *options)
    output = process.communicate()[0]
    return process.returncode, output


def wrapped_python(path: Path, lie: str) -> str:
    """An interpreter that tells a lie about itself when asked with -c, and is the real one otherwise."""
    python = shlex.quote(sys.executable)
    lie = shlex.quote(f"import sys; {lie}; exec(sys.argv[2])")
    path.write_text(f'#!/bin/sh\n[ "$1" = -c ] || exec {python} "$@"\nexec {python} -c {lie} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.slow
def test_installs_once_and_again_only_when_the_dependencies_change(toy):
    code, output = make(toy)
    assert code == 0, output
    imports = [toy / ".venv/bin/python", "-c", "import backend; print(backend.__file__)"]
    assert str(toy) in subprocess.run(imports, capture_output=True, text=True).stdout
    assert "Installing" not in make(toy)[1]

    os.utime(toy / ".venv/.installed", (0, 0))  # older than constraints.txt
    code, output = make(toy)
    assert code == 0 and "Installing" in output and "Making .venv again" not in output

    # reasons to start from nothing; --dry-run, because that takes long and the next test does it
    other = wrapped_python(toy / "other", "sys.version = 'another build'")
    assert "other is another Python" in make(toy, other, "--dry-run")[1]
    moved = toy.rename(toy.with_name("moved"))
    assert "again: the folder has moved" in make(moved, sys.executable, "--dry-run")[1]
    (moved / ".venv/bin/python").unlink()
    assert "again: its interpreter is gone" in make(moved, sys.executable, "--dry-run")[1]


@pytest.mark.slow
def test_an_install_that_was_killed_does_not_count(toy):
    (toy / "slow").touch()
    process = start_make(toy)
    while not (toy / "building").exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    (toy / ".venv/half-installed").touch()

    code, output = make(toy)
    assert code == 0 and "again: the last install was cut short" in output
    assert not (toy / ".venv/half-installed").exists()
    assert "Installing" not in make(toy)[1]


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ("sys.version_info = (3, 9, 1)", "is Python 3.9, and 3.11 or newer is needed"),
        ("sys.modules['ensurepip'] = None", f"apt-get install python3.{sys.version_info.minor}-venv"),
    ],
)
def test_an_unfit_interpreter_is_refused_with_advice(toy, lie, message):
    code, output = make(toy, wrapped_python(toy / "unfit", lie))
    assert code != 0 and message in output
    assert not (toy / ".venv").exists()


def test_a_missing_interpreter_is_named(toy):
    code, output = make(toy, "python-of-the-future")
    assert code != 0 and "python-of-the-future was not found" in output
