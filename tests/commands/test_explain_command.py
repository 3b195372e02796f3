"""Do `ckptlib measure --snapshot --html` and `ckptlib explain` agree, and say in one line what they cannot read?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckptlib.cli import main

RECORDED = Path(__file__).parents[1] / "cuda" / "recorded_snapshot.pickle"  # by PyTorch: see test_snapshot.py there


def test_explain_tells_what_measure_measured(tmp_path, capsys):
    file, page = tmp_path / "mlp.pickle", tmp_path / "mlp.html"
    assert main(["measure", "mlp", "--json", "--snapshot", str(file), "--html", str(page)]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert main(["explain", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["allocated"], told["reserved"]) == (measured["step_peak"], measured["reserved_peak"])
    assert told["by_category"] == measured["at_peak"] and told["by_module"] == measured["at_peak_by_module"]
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_tables(tmp_path, capsys):
    file = tmp_path / "mlp.pickle"
    main(["measure", "mlp", "--snapshot", str(file)])
    capsys.readouterr()
    assert main(["explain", str(file)]) == 0
    text = capsys.readouterr().out
    assert "allocated at the peak        137,274,880  130.92" in text
    for row in ("gradient        13  51,454,464  49.07", "block_1.*", "aten.mm.default                       8"):
        assert row in text


def test_a_record_of_pytorch_is_told_by_lines_of_the_program(tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["explain", str(RECORDED), "--html", str(page)]) == 0
    text = capsys.readouterr().out
    assert "at the peak, by frame" in text and "test_snapshot.py:" in text
    assert "by category" not in text and page.exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["explain", "nowhere.pickle"], "cannot read the snapshot"),
        (["explain", __file__], "is not a pickle"),
        (["explain", str(RECORDED), "--device", "3"], "device 3 is not in the snapshot, which has [0]"),
        (["explain", str(RECORDED), "--html", "/nowhere/page.html"], "cannot write the page"),
        (["measure", "mlp", "--device", "cpu", "--snapshot", "out.pickle"], "the CPU has none"),
        (["measure", "mlp", "--snapshot", "/nowhere/out.pickle"], "cannot write the snapshot"),
    ],
)
def test_mistakes_are_told_in_one_line(command, message, capsys):
    assert main(command) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1
