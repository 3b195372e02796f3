"""Does every command of the how-to page print what the page says, and does its advice save what is promised?"""

import json
import re
import sys

import pytest
import torch

from ckptlib.cli import main
from ckptlib.remember.measurement import measure

NEW = torch.__version__ >= "2.12"  # cuBLASLt has no workspace of its own since then


@pytest.mark.slow
def test_every_command_prints_what_the_page_says(root, tmp_path, monkeypatch, capsys):
    page = (root / "book/your_own_model.md").read_text(encoding="utf-8")
    source, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    commands = re.findall(r"```console\n\$ ckptlib (.*?)\n(.*?)\n```", page, re.DOTALL)
    (tmp_path / "my_model.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    assert {line.split()[0] for line, _ in commands} == {"measure", "plan", "fit"}
    for line, expected in commands:
        code = main(line.split())
        out, err = capsys.readouterr()
        said = out.rstrip("\n") if code == 0 else err.rstrip("\n")
        if not NEW:  # other workspaces: other numbers, but the same words
            said, expected = (re.findall(r"[A-Za-z]+", text) for text in (said, expected))
        assert said == expected, line
        for name in re.findall(r"--plot (\S+)", line):
            assert (tmp_path / name).read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["40MB", "44MB", "48MB", "55MB", "62MB"])
def test_calls_made_as_the_page_says_need_what_the_plan_promises(root, tmp_path, monkeypatch, capsys, budget):
    page = (root / "book/your_own_model.md").read_text(encoding="utf-8")
    names = {}
    for source in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        if "def " not in source:  # two lines of a program
            continue
        exec(source, names)
        (tmp_path / "of_the_page.py").open("a").write(source)
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "of_the_page:mlp", "--fake", "--budget", budget, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    monkeypatch.delitem(sys.modules, "of_the_page")

    def setup():
        model, x, loss = names["mlp"]()
        return lambda: loss(names["run"](plan["calls"], model, x)).backward()

    needed = measure(setup, "sim:cuda", fake=True, builds=True).peak
    assert needed <= plan["step_peak"] + plan["calls_may_add"]
    assert plan["calls_may_add"] in (0, 4 * 4096 * 256)  # a block's input


@pytest.mark.slow
def test_a_model_keeps_to_its_plan_by_the_line_of_the_page(root):
    page = (root / "book/your_own_model.md").read_text(encoding="utf-8")
    source, applied, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)

    assert 'ck.apply(model, "plan.json")' in page
    exec(source, plain := {})
    budget = int(re.search(r"budget=([\d_]+)", applied)[1].replace("_", ""))
    assert measure(plain["mlp"], "sim:cuda", builds=True, fake=True).peak > budget
    exec(source + applied, names := {})
    model, (x, loss) = names["model"], names["rest"]
    assert measure(lambda: loss(model(x)).backward(), "sim:cuda").peak <= budget


@pytest.mark.parametrize("command", ["measure", "plan", "fit"])
def test_the_page_shows_every_command(root, command):
    assert f"$ ckptlib {command} my_model:" in (root / "book/your_own_model.md").read_text(encoding="utf-8")
