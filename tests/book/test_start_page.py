"""Does a reader's first page list every chapter, know what has been passed, and check without a terminal?"""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from ckptlib.book import start_page
from ckptlib.grading.reports import reader_progress
from ckptlib.grading.tasks import quiz

ROOT = Path(__file__).resolve().parents[2]
NAME = "01_activation_memory"


@pytest.fixture
def passed(tmp_path, monkeypatch):
    """Progress of its own: the reader's is left alone."""
    (tmp_path / "exercises").mkdir()
    monkeypatch.setattr(reader_progress, "BOOK", tmp_path)
    reader_progress.keep(NAME, 10, 10)
    reader_progress.keep("04_hooks", 7.5, 10)


def test_every_chapter_is_there_and_every_link_leads_somewhere(passed):
    page = nbformat.reads(start_page.page(), as_version=4)
    nbformat.validate(page)
    links = re.findall(r"\]\(([^)]+)\)", page.cells[0].source)
    assert [link for link in links if not (ROOT / "book" / link).is_file()] == []
    names = [path.name for path in sorted((ROOT / "book").glob("[0-9][0-9]_*.ipynb"))]
    assert [link for link in links if link in names] == names  # the set-up check first, then the chapters in order
    assert f"../exercises/{NAME}/{NAME}.ipynb" in links


def test_it_says_what_has_been_passed(passed):
    rows = {line.split("](")[1][:2]: line for line in start_page.page().split("\\n") if line.startswith("| [")}
    assert "10 / 10 ✓ passed" in rows["01"] and "7.5 / 10 |" in rows["04"] and "no points yet" in rows["02"]


def test_a_checkout_that_can_only_be_read_still_opens(tmp_path):
    (tmp_path / "book").write_text("in the way of the folder")
    assert start_page.write(tmp_path) == "book/index.md?factory=Markdown%20Preview"


def test_the_page_is_written_whole(tmp_path):
    shutil.copytree(ROOT / "book", tmp_path / "book", ignore=shutil.ignore_patterns("*.png"))
    assert start_page.write(tmp_path) == "book/start.ipynb"
    assert nbformat.read(tmp_path / "book/start.ipynb", as_version=4).cells[2].cell_type == "code"
    assert list((tmp_path / "book").glob(".start*")) == []


@pytest.mark.slow
def test_the_button_gives_the_verdict_of_the_command(need):
    need("bubblewrap")
    widget = start_page.check_an_assignment(ROOT)
    (choice, button), verdict = widget.children[0].children, widget.children[1]
    assert choice.value == NAME
    button.click()
    assert "predict_saved" in verdict.value and "not answered yet" in verdict.value and "0 / 10" in verdict.value
    assert "Read again" not in verdict.value  # nobody has read wrongly yet
    assert not button.disabled


EVIL = "<script>alert('x')</script>"
ESCAPED = "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;"


def test_the_button_says_all_that_the_command_says_and_trusts_none_of_it(monkeypatch):
    right = {"name": "ledger", "points": 2, "max_points": 2, "message": "", "section": "1.4"}
    wrong = {
        "name": EVIL,
        "points": 0,
        "max_points": 1,
        "message": f"raised ValueError: {EVIL}\ntwice",
        "section": "1.2",
    }
    found = {"tasks": [right, wrong], "score": 2, "max_score": 3, "reason": EVIL, "visible_only": True}
    found |= {"notes": [f"question {EVIL} ran longer than 20 s"], "flags": [f"tampered kernel: {EVIL}"]}
    done = SimpleNamespace(stdout=json.dumps(found), stderr="")
    monkeypatch.setattr(start_page.subprocess, "run", lambda *_, **__: done)
    page = start_page.checked(ROOT)
    assert "<script" not in page
    assert f"{ESCAPED}\ntwice\nRead again: 1.2.</td>" in page and "Read again: 1.4" not in page
    remarks = re.findall("<li>(.*?)</li>", page)
    assert remarks[0].startswith("Only the checks that you can see")
    assert remarks[1:] == [f"question {ESCAPED} ran longer than 20 s", f"tampered kernel: {ESCAPED}"]
    found["visible_only"] = False
    done.stdout = json.dumps(found)
    assert "Only the checks" not in start_page.checked(ROOT)


def test_a_quiz_answers_every_choice_with_its_sentence():
    widget = start_page.practise_a_quiz(ROOT)
    choice, shown = widget.children
    assert choice.value == NAME
    choice.value = "04_hooks"
    items = quiz.load(ROOT / "solutions/04_hooks")
    questions = shown.children[0].children
    assert len(questions) == len(items)
    for question, item in zip(questions, items.values(), strict=True):
        _, _, buttons, answer = question.children
        for at, (_, sentence) in enumerate(item["choices"].values()):
            buttons.index = at
            assert answer.value == sentence


def test_what_cannot_be_checked_says_why(tmp_path):
    assert "no notebook in" in start_page.checked(tmp_path)
