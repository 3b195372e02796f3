"""Does the doctor find what is broken, say how to fix it, and never break itself?"""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from ckptlib.book import doctor
from ckptlib.book.doctor import Check, Diagnosis

ROOT = Path(__file__).resolve().parents[2]
NO_MODULE = "ModuleNotFoundError: No module named"


def environment_without(hidden: str, folder: Path) -> Path:
    """A real environment that lacks one package: a venv whose packages are links to ours, all but that one."""
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.name.split("-")[0] != hidden and not (packages / path.name).exists():
            (packages / path.name).symlink_to(path)
    for shared in ("etc", "share"):
        if (Path(sys.prefix) / shared).exists():
            (folder / shared).symlink_to(Path(sys.prefix) / shared)
    return folder / "bin" / "python"


def run_doctor(python: Path | str, **env: str) -> tuple[int, dict]:
    command = [python, "-m", "ckptlib.cli", "doctor", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | env, capture_output=True, text=True)
    assert not done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


def failures(report: dict) -> dict[str, str]:
    """What keeps the book from being read."""
    failed = [check for check in report["checks"] if check["needed_for"] in ("library", "book") and not check["ok"]]
    return {check["name"]: check["says"] for check in failed}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hidden", "failing"),
    [
        ("matplotlib", {"matplotlib": "is not installed"}),
        ("torch", {"torch": "is not installed", "GPU": f"torch does not start: {NO_MODULE} 'torch'"}),
        ("jupyter_client", {"extra book": "chapters and explorers need it, and it lacks jupyter-client"}),
        ("tornado", {"Jupyter's kernel": f"does not start: {NO_MODULE} 'tornado'"}),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_mends_it(hidden, failing, tmp_path):
    python = environment_without(hidden, tmp_path / "venv")
    code, report = run_doctor(python)
    assert failures(report) == failing
    assert code & 1 and not report["book"]
    assert report["library"] == (hidden not in failing)  # the base lacks nothing but what was hidden
    for check in report["checks"]:
        assert check["ok"] or check["fix"]
        if check["name"] == hidden:
            assert check["fix"] == f"{python} -m pip install {hidden}=={doctor._tested_versions()[hidden]}"


@pytest.mark.slow
def test_a_package_of_an_extra_is_missed_with_the_extra_and_the_library_still_works(tmp_path):
    python = environment_without("nbconvert", tmp_path / "venv")
    code, report = run_doctor(python)
    assert (report["library"], report["book"], report["grading"], code) == (True, True, False, 2)
    (lacking,) = [check for check in report["checks"] if check["name"] == "extra grading"]
    assert not lacking["ok"] and lacking["says"].endswith("lacks nbconvert")
    assert lacking["fix"] == f"cd {ROOT} && {python} -m pip install -c constraints.txt -e '.[grading]'"


@pytest.mark.slow
def test_a_kernel_that_starts_another_interpreter_is_found_out(tmp_path):
    other = environment_without("nothing", tmp_path / "other")
    spec = tmp_path / "jupyter" / "kernels" / "python3"
    spec.mkdir(parents=True)
    argv = [str(other), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "other", "language": "python"}))
    code, report = run_doctor(sys.executable, JUPYTER_PATH=str(tmp_path / "jupyter"))
    assert failures(report) == {"Jupyter's kernel": f"python3 starts another interpreter, in {tmp_path / 'other'}"}
    assert code & 1


def test_a_disabled_extension_is_only_a_warning_and_its_mending_names_it(tmp_path, monkeypatch):
    config = tmp_path / "jupyter_server_config.d" / "off.json"
    config.parent.mkdir()
    part = "nbgrader.server_extensions.formgrader"
    config.write_text(json.dumps({"ServerApp": {"jpserver_extensions": {part: False}}}))
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path))
    check = doctor.nbgrader_extension()
    assert not check.ok and not check.needed_for
    assert check.fix.endswith(f"-m jupyter server extension enable --sys-prefix {part}")


def fake_program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.slow
def test_without_bubblewrap_and_chromium_the_book_can_still_be_read(tmp_path):
    fake_program(tmp_path, "apt-get", "exit 1")
    code, report = run_doctor(sys.executable, PATH=str(tmp_path))
    assert (report["book"], report["grading"], code) == (True, False, 2)
    fixes = {check["name"]: check["fix"] for check in report["checks"] if not check["ok"]}
    assert fixes == {"bubblewrap": "sudo apt-get install bubblewrap", "Chromium": "sudo apt-get install chromium"}


NO_USERS = "bwrap: setting up uid map: Permission denied"
NO_PROC = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"


def test_bubblewrap_that_is_installed_but_forbidden_does_not_count(tmp_path, monkeypatch):
    fake_program(tmp_path, "bwrap", f"echo '{NO_USERS}' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "CONTAINER_MARKS", ())  # the tests themselves may run in one
    check = doctor.bubblewrap()
    assert not check.ok and check.needed_for == "grading"
    assert check.says == "is installed but cannot make a sandbox: bwrap: setting up uid map: Permission denied"
    assert check.fix.startswith("sudo sysctl -w ")


@pytest.mark.parametrize(("said", "marked"), [(NO_PROC, False), (NO_USERS, True)])
def test_in_a_container_its_options_are_told_and_no_sysctl(said, marked, tmp_path, monkeypatch):
    fake_program(tmp_path, "bwrap", f'echo "{said}" >&2; exit 1')
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "CONTAINER_MARKS", (tmp_path / "no", tmp_path / ("bwrap" if marked else "neither")))
    check = doctor.bubblewrap()
    assert not check.ok and said in check.says and "sysctl" not in check.fix
    for option in (
        "seccomp=unconfined",
        "apparmor=unconfined",
        "systempaths=unconfined",
        "unmask=ALL",
        "label=disable",
    ):
        assert option in check.fix


def test_bubblewrap_elsewhere_than_on_linux(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "only on Linux" in doctor.bubblewrap().says


def test_another_version_is_a_warning_and_another_build_of_the_same_version_is_not(tmp_path, monkeypatch):
    (tmp_path / "constraints.txt").write_text("# tested\ntorch==2.0.0\n")
    monkeypatch.setattr(doctor, "ROOT", tmp_path)
    monkeypatch.setattr(doctor.metadata, "version", lambda name: {"torch": "2.13.0+cpu"}.get(name, "1.0"))
    checks = {check.name: check for check in doctor.packages()}
    assert checks["extra book"].ok and "jupyterlab" not in checks
    assert not checks["torch"].ok and not checks["torch"].needed_for
    assert checks["torch"].says == "2.13.0+cpu; the book was tested with 2.0.0"
    (tmp_path / "constraints.txt").write_text("torch==2.13.0\n")
    assert all(check.ok for check in doctor.packages())
    (tmp_path / "constraints.txt").write_text("torch==2.13.0\njupyterlab==4.6\n")  # a package of an extra
    assert [check.says for check in doctor.packages() if not check.ok] == ["1.0; the book was tested with 4.6"]


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_the_exit_code_answers_both_questions(code):
    book, grading = code in (0, 2), code in (0, 1)
    good_to_have = Check("Chromium", False, "is not installed", "apt-get install chromium")
    checks = (Check("torch", book, "", "", "book"), Check("bubblewrap", grading, "", "", "grading"), good_to_have)
    assert Diagnosis(checks).exit_code == code


def test_the_text_shows_the_command_under_what_is_wrong():
    report = Diagnosis((Check("tqdm", False, "is not installed", "pip install tqdm", "book"),))
    assert str(report).splitlines() == [
        "FAIL  tqdm               is not installed",
        "                         fix it with: pip install tqdm",
        "",
        "The library works: yes. The book can be read: no. Grading can be sandboxed: yes.",
    ]


@pytest.mark.slow
def test_the_setup_notebook_runs_and_finds_this_machine_fit():
    notebook = nbformat.read(ROOT / "book/00_setup_check.ipynb", as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": ROOT / "book"}}).execute()
    printed = notebook.cells[2].outputs[0].text
    assert "The book can be read: yes." in printed


@pytest.mark.slow
def test_everything_ci_needs_is_here(need):
    need("bubblewrap")
    need("chromium")
    code, report = run_doctor(sys.executable)
    assert code == 0 and report["book"] and report["grading"]
