"""Does every command of the how-to page print what the page says?"""

import re

import pytest

from ckptlib.cli import main


def test_every_command_prints_what_the_page_says(root, tmp_path, monkeypatch, capsys):
    page = (root / "book/your_own_model.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    commands = re.findall(r"```console\n\$ ckptlib (.*?)\n(.*?)\n```", page, re.DOTALL)
    (tmp_path / "my_model.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    assert {line.split()[0] for line, _ in commands} == {"measure", "plan", "fit"}
    for line, expected in commands:
        code = main(line.split())
        out, err = capsys.readouterr()
        said = out.rstrip("\n") if code == 0 else err.rstrip("\n")
        assert said == expected, line
        for name in re.findall(r"--plot (\S+)", line):
            assert (tmp_path / name).read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize("command", ["measure", "plan", "fit"])
def test_the_page_shows_every_command(root, command):
    assert f"$ ckptlib {command} my_model:" in (root / "book/your_own_model.md").read_text(encoding="utf-8")
