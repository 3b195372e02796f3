"""What does a reader see first? All chapters, their assignments, what has been passed, and a button that checks."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import CkptError, require
from ..grading.assignment.book_folder import BOOK
from ..grading.reports import reader_progress

require("book", "ckptlib.book.start_page")

PAGE = "start.ipynb"  # in book/, so that its links are those of the book; written again each time, and not in git
_ELSEWHERE = "index.md?factory=Markdown%20Preview"  # where nothing can be written: the same list, without the progress

_INTRODUCTION = """# Remember or Recompute

Read a chapter, run its cells, then do its assignment. A click on a name opens it. A first time here? The
[set-up check](00_setup_check.ipynb) takes ten seconds; [how to use the book](index.md) takes two minutes.

| chapter | assignment | your best score |
|---|---|---|
{rows}

The back of the book: [published claims, measured](claims.ipynb), [pitfalls](pitfalls.md), [glossary](glossary.md),
[your own model](your_own_model.md)."""

_CHECK = """## Check an assignment

Run the cell below (Shift+Enter), choose an assignment, and press the button. Save the assignment's notebook first: what
is on disk is checked, as an instructor would grade it. `make lab` makes this page again, so keep notes elsewhere."""


_PRACTISE = """## Practise a quiz

The questions at an assignment's end, as buttons: every choice says why it is right or wrong. With a keyboard, Tab moves
from choice to choice, and Space chooses. Nothing is recorded."""


class Chapter(NamedTuple):
    """A chapter and, if there is one, its assignment."""

    name: str
    title: str
    has_assignment: bool


def chapters(root: Path = BOOK) -> list[Chapter]:
    """In the book's order; the title is the notebook's own first line."""
    if not (root / "book").exists():
        raise CkptError(f"the start page works only in a checkout of the book, and there is no folder book in {root}")
    found = []
    for path in sorted((root / "book").glob("[0-9][0-9]_*.ipynb")):
        if not path.name.startswith("00"):
            title = re.findall(r'"# (.*?)(?:\\n)?"', path.read_text(encoding="utf-8"))[0]
            has_assignment = (root / "exercises" / path.stem / path.name).is_file()
            found.append(Chapter(path.stem, title, has_assignment))
    return found


def score(name: str, known: dict[str, dict]) -> str:
    """One cell of the table.

    >>> score("01_x", {"01_x": {"score": 7.0, "max_score": 10.0, "passed": False}}), score("02_x", {})
    ('7 / 10', 'no points yet')
    """
    if name not in known:
        return "no points yet"
    best = known[name]
    return f"{best['score']:g} / {best['max_score']:g}{' ✓ passed' if best['passed'] else ''}"


def page(root: Path = BOOK) -> str:
    """The page as a notebook's text. Its table is Markdown, so that it is visible before any cell has been run."""
    known = reader_progress.seen()
    rows = []
    for name, title, has_assignment in chapters(root):
        link = f"[assignment {name[:2]}](../exercises/{name}/{name}.ipynb)" if has_assignment else ""
        rows.append(f"| [{title}]({name}.ipynb) | {link} | {score(name, known) if has_assignment else ''} |")
    code: dict[str, Any] = {"cell_type": "code", "execution_count": None, "outputs": []}
    cells = [
        {"cell_type": "markdown", "id": "chapters", "source": _INTRODUCTION.format(rows="\n".join(rows))},
        {"cell_type": "markdown", "id": "how-to-check", "source": _CHECK},
        code | {"id": "check", "source": "from ckptlib.book import start_page\n\nstart_page.check_an_assignment()"},
        {"cell_type": "markdown", "id": "how-to-practise", "source": _PRACTISE},
        code | {"id": "practise", "source": "from ckptlib.book import start_page\n\nstart_page.practise_a_quiz()"},
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": [{"metadata": {}} | cell for cell in cells], "metadata": {"kernelspec": kernel}}
    return json.dumps(whole | {"nbformat": 4, "nbformat_minor": 5}, indent=1, ensure_ascii=False) + "\n"


def write(root: Path = BOOK) -> str:
    """Write the page. Returns the path that JupyterLab is to open, relative to the checkout."""
    path = root / "book" / PAGE
    try:
        new = path.with_name(f".{PAGE}.{os.getpid()}")
        new.write_text(page(root), encoding="utf-8")
        os.replace(new, path)
    except OSError:  # a checkout that may only be read
        return f"book/{_ELSEWHERE}"
    return f"book/{PAGE}"


def check_an_assignment(root: Path = BOOK) -> Any:
    """A list, a button and a verdict: `ckptlib check` without a terminal."""
    import ipywidgets as widgets

    choice = _choice(root)
    button = widgets.Button(description="Check", button_style="primary")
    verdict = widgets.HTML()

    def check(_: Any) -> None:
        button.disabled = True
        verdict.value = "Checking: your notebook is run from its first cell to its last …"
        try:
            verdict.value = checked(root / "exercises" / choice.value)
        finally:
            button.disabled = False

    button.on_click(check)
    return widgets.VBox([widgets.HBox([choice, button]), verdict])


def practise_a_quiz(root: Path = BOOK) -> Any:
    """A list, and the questions of the assignment that was chosen from it."""
    import ipywidgets as widgets

    from ..grading.tasks.quiz import practise

    choice, questions = _choice(root), widgets.VBox()

    def show(name: str) -> None:
        questions.children = [practise(root / "solutions" / name)]  # a release has no sentences

    choice.observe(lambda change: show(change["new"]), names="value")
    show(choice.value)
    return widgets.VBox([choice, questions])


def _choice(root: Path) -> Any:
    import ipywidgets as widgets

    names = [(chapter.title, chapter.name) for chapter in chapters(root) if chapter.has_assignment]
    return widgets.Dropdown(options=names, description="assignment", layout={"width": "420px"})


def checked(folder: Path) -> str:
    """The verdict on one exercise, as HTML: what its tasks got, and which idea a wrong one has missed."""
    command = [sys.executable, "-m", "ckptlib.cli", "check", str(folder), "--json"]
    utf8 = {**os.environ, "PYTHONIOENCODING": "utf-8"}  # not what Windows would take
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, encoding="utf-8", env=utf8)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return f"<pre>{html.escape(done.stderr.strip() or 'the check printed nothing')}</pre>"
    rows = "".join(_row(task) for task in found["tasks"])
    total = f"<b>{found['score']:g} / {found['max_score']:g}</b> {html.escape(found['reason'] if not rows else '')}"
    remarks = ["Only the checks that you can see: no source to grade by is at hand."] if found["visible_only"] else []
    said = "".join(f"<li>{html.escape(remark)}</li>" for remark in [*remarks, *found["notes"], *found["flags"]])
    return f"<table>{rows}</table><ul>{said}</ul><p>{total}</p>"


def _row(task: dict) -> str:
    """A task's name, its points and what is said of it. A message may quote what a student's code raised: escaped."""
    again = f"\nRead again: {task['section']}." if task["message"] and task["section"] else ""
    cells = (task["name"], f"{task['points']:g} / {task['max_points']:g}", (task["message"] or "right") + again)
    cell = '<td style="text-align: left; vertical-align: top; white-space: pre-line">{}</td>'
    return f"<tr>{''.join(cell.format(html.escape(text)) for text in cells)}</tr>"
