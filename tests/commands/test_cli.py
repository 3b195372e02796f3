"""Does the command line answer fast, and tell a user's mistake from a bug?"""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ckptlib import cli
from ckptlib.errors import CkptError


def failing(error: Exception):
    def command(parser):
        """Fail."""

        def run(args):
            raise error

        return run

    return command


def test_help_lists_every_command_with_its_first_line(capsys):
    with pytest.raises(SystemExit) as exit:
        cli.main(["--help"])
    assert exit.value.code == 0
    out = " ".join(capsys.readouterr().out.split())
    for command in cli.COMMANDS:
        assert f"{command.__name__.replace('_', '-')} {command.__doc__.splitlines()[0]}" in out


def test_help_and_doctor_do_not_wait_for_torch():
    code = "import sys, ckptlib.cli, ckptlib.book.doctor; ckptlib.cli.build_parser(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_a_users_mistake_is_one_line_on_stderr(monkeypatch, capsys):
    monkeypatch.setattr(cli, "COMMANDS", (failing(CkptError("no such model: 'mpl'")),))
    assert cli.main(["command"]) == 2
    assert capsys.readouterr() == ("", "ckptlib: no such model: 'mpl'\n")


def test_a_bug_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(cli, "COMMANDS", (failing(ZeroDivisionError()),))
    with pytest.raises(ZeroDivisionError):
        cli.main(["command"])


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_a_folder_that_cannot_be_written_is_one_line_with_its_name(monkeypatch, capsys, number):
    monkeypatch.setattr(cli, "COMMANDS", (failing(OSError(number, os.strerror(number), "source/visible.json")),))
    assert cli.main(["command"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"ckptlib: source/visible.json cannot be written or read: {os.strerror(number)}. Expected")
    assert out == "" and err.count("\n") == 1


def test_any_other_error_of_the_system_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(cli, "COMMANDS", (failing(OSError(errno.ENOENT, "No such file", "x")),))
    with pytest.raises(FileNotFoundError):
        cli.main(["command"])


@pytest.mark.parametrize("argv", [[], ["docter"], ["doctor", "--jason"]])
def test_a_mistyped_command_exits_with_2(argv, capsys):
    with pytest.raises(SystemExit) as exit:
        cli.main(argv)
    assert exit.value.code == 2
    assert capsys.readouterr().err.startswith("usage: ckptlib")


@pytest.mark.slow
def test_doctor_prints_its_findings_as_json(capsys):
    code = cli.main(["doctor", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert code == (not report["book"]) + 2 * (not report["grading"])
    names = {check["name"] for check in report["checks"]}
    assert {"Python", "torch", "GPU", "Jupyter's kernel", "nbgrader extension", "bubblewrap", "Chromium"} <= names


def test_every_command_in_the_readme_exists(root):
    named = set(re.findall(r"bin/ckptlib ([a-z]+)", (root / "README.md").read_text()))
    assert {"doctor", "measure"} <= named <= {command.__name__ for command in cli.COMMANDS}


def test_the_console_script_is_installed():
    script = Path(sys.executable).with_name("ckptlib")
    out = subprocess.run([script, "--help"], capture_output=True, text=True).stdout
    assert out.startswith("usage: ckptlib")
