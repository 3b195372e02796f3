"""Does every chapter run in a real JupyterLab, does its explorer move, and does an exercise answer its reader?"""

import json
import re
import shutil
import time
from pathlib import Path

import nbformat
import pytest
from lab import BOOKS_OWN, Notebook, jupyter_lab
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Locator, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted(path.name for path in (ROOT / "book").glob("[0-9][0-9]_*.ipynb") if not path.name.startswith("00_"))
ASSIGNMENT = "01_activation_memory"
EXERCISE = f"exercises/{ASSIGNMENT}/{ASSIGNMENT}.ipynb"
WRONG = "def predict_saved(op, n, d):\n    return 4 * n * d"
RIGHT = """def predict_saved(op, n, d):
    x = 4 * n * d
    return {"times_3": 0, "plus": 0, "layer_norm": x + 8 * n, "max_pool": 2 * x}.get(op, x)"""
# What hangs over its box: code, an output, text or a formula that a reader would have to scroll sideways
BOXES = ".jp-OutputArea-output, .jp-RenderedMarkdown, mjx-container, .cm-scroller"
TOO_WIDE = f"""panel => [...panel.querySelectorAll("{BOXES}")]
    .filter(box => box.clientWidth > 0 && box.scrollWidth > box.clientWidth + 2)
    .map(box => box.innerText.slice(0, 80))"""
CONTENTS = "parts => parts.map(part => part.innerHTML)"
# Are all cells there, each with so many outputs, and with a formula drawn if it has one?
# JupyterLab draws what is out of sight when a processor is idle, and none may be; so we go there, as a reader does.
DRAWN = """parts => {
    const cells = [...document.querySelectorAll(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell")]
    const drawn = (cell, [outputs, formula]) => cell.querySelectorAll(".jp-OutputArea-output").length === outputs
        && (!formula || cell.querySelector("mjx-container"))
    const late = cells.find((cell, i) => cells.length === parts.length && !drawn(cell, parts[i]))
    late?.scrollIntoView()
    return cells.length === parts.length && !late
}"""
EXPLORER = ".jp-OutputArea-output:has(.widget-html)"


def explorers(chapter: str) -> list[tuple[str, str]]:
    """The name of a chapter's explorer and what it is given there, if the chapter has one."""
    cells = [c for c in json.loads((ROOT / "book" / chapter).read_text())["cells"] if c["id"] == "explorer"]
    return [re.fullmatch(r"(\w+_explorer)\((.*)\)", cell["source"][-1]).groups() for cell in cells]


CALLS = {chapter: call for chapter in CHAPTERS for call in explorers(chapter)}
WITHOUT = {"12_fused.ipynb"}  # chapters that have no explorer
OTHERS = [name for name, given in CALLS.values() if not given]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """JupyterLab on copies: it saves what is open in it."""
    folder = tmp_path_factory.mktemp("course")
    for name in ("book", "exercises"):
        shutil.copytree(ROOT / name, folder / name)
    cells = [new_code_cell(f"from ckptlib.figures.explorers import {name}\n{name}()") for name in OTHERS]
    nbformat.write(new_notebook(cells=cells), folder / "explorers.ipynb")
    with jupyter_lab(folder, tmp_path_factory.mktemp("home"), BOOKS_OWN) as address:
        yield address


@pytest.fixture
def opened(browser, server):
    tabs = []

    def open_notebook(path: str) -> Notebook:
        tabs.append(Notebook(browser, server, path))
        return tabs[-1]

    yield open_notebook
    for tab in tabs:
        tab.close()


@pytest.mark.parametrize("path", ["book/start.ipynb", f"book/{CHAPTERS[6]}", EXERCISE])
def test_a_notebook_counts_as_changed_only_when_somebody_types(opened, path):
    notebook = opened(path)
    notebook.kernel_has_answered()
    assert notebook.page.evaluate("jupyterapp.shell.currentWidget.model.dirty") is False
    expect(notebook.changed).to_have_count(0)
    notebook.code_cells.first.locator(".cm-content").click()
    notebook.page.keyboard.press("ControlOrMeta+End")
    notebook.page.keyboard.insert_text("  # a remark")
    expect(notebook.changed).to_have_count(1)


def test_no_reader_is_asked_about_news(opened):
    page = opened("book/start.ipynb").page
    # JupyterLab either asks, or goes on to look for updates, of which our server knows none
    with page.expect_response(lambda response: "/lab/api/update" in response.url, timeout=60_000):
        page.reload()
    expect(page.locator(".Toastify__toast, .jp-Dialog")).to_have_count(0)


def test_a_chapters_figures_are_there_before_anything_is_run(opened):
    chapter = ROOT / "book" / CHAPTERS[6]
    outputs = [output for cell in json.loads(chapter.read_text())["cells"] for output in cell.get("outputs", [])]
    count = sum("image/svg+xml" in output.get("data", {}) for output in outputs)
    figures = opened(f"book/{chapter.name}").panel.locator(".jp-RenderedSVG img")
    expect(figures).to_have_count(count, timeout=20_000)
    assert all(width > 0 for width in figures.evaluate_all("all => all.map(one => one.naturalWidth)"))


def test_nothing_on_a_chapters_page_is_too_wide(opened):
    """As it is committed, with outputs; test_chapters.py proves that it prints the same today."""
    notebook = opened("book/start.ipynb")
    for chapter in CHAPTERS:
        notebook.go_to(f"book/{chapter}")
        cells = json.loads((ROOT / "book" / chapter).read_text())["cells"]
        parts = [[len(cell.get("outputs", [])), "\n$$" in "\n" + "".join(cell["source"])] for cell in cells]
        notebook.page.wait_for_function(DRAWN, arg=parts, timeout=180_000)
        assert notebook.panel.evaluate(TOO_WIDE) == [], chapter


def test_chapters_have_their_explorers():
    assert {*CHAPTERS} - {*CALLS} == WITHOUT


# An explorer that is given what its chapter has measured is seen here alone.
@pytest.mark.parametrize(
    "chapter",
    [pytest.param(chapter, marks=() if given else pytest.mark.second_proof) for chapter, (_, given) in CALLS.items()],
)
def test_a_chapter_runs_and_its_explorer_moves(opened, chapter):
    notebook = opened(f"book/{chapter}")
    notebook.run_all()
    assert notebook.unfinished() == []
    assert notebook.errors() == []
    assert notebook.panel.evaluate(TOO_WIDE) == []
    explorer = notebook.panel.locator(EXPLORER)
    expect(explorer).to_have_count(1)
    moves(notebook, explorer)


def test_every_other_explorer_moves(opened):
    notebook = opened("explorers.ipynb")
    notebook.run_all()
    assert notebook.unfinished() == []
    assert notebook.panel.evaluate(TOO_WIDE) == []
    explorers = notebook.panel.locator(EXPLORER)
    expect(explorers).to_have_count(len(OTHERS))
    for number in range(len(OTHERS)):
        moves(notebook, explorers.nth(number))


def moves(notebook: Notebook, explorer: Locator) -> None:
    """Assert that it shows a figure, and another when somebody moves it."""
    shown = explorer.locator(".widget-html-content")
    before = shown.evaluate_all(CONTENTS)
    assert any("<svg" in part for part in before)
    move(explorer)
    deadline = time.monotonic() + 20
    while shown.evaluate_all(CONTENTS) == before:
        assert time.monotonic() < deadline, "the explorer was moved and shows what it did before"
        notebook.page.wait_for_timeout(50)
    assert any("<svg" in part for part in shown.evaluate_all(CONTENTS))
    assert notebook.errors() == []
    notebook.idle()


def move(explorer: Locator) -> None:
    """A slider by its arrow key. JupyterLab keeps the arrows of a list for itself, so a list is chosen from."""
    slider, choices = explorer.locator(".noUi-handle"), explorer.locator("select")
    if slider.count():
        slider.first.focus()
        at_its_end = slider.first.get_attribute("aria-valuenow") == slider.first.get_attribute("aria-valuemax")
        slider.first.press("ArrowLeft" if at_its_end else "ArrowRight")
    else:
        chosen = choices.first.evaluate("list => list.selectedIndex")
        choices.first.select_option(index=0 if chosen else 1)


def test_a_reader_is_told_what_is_wrong_and_then_what_is_right(opened):
    notebook = opened(EXERCISE)
    assert notebook.run(notebook.cell("from tasks import check")) == ""
    answer, check = notebook.cell("def predict_saved"), notebook.cell("check.predict_saved(predict_saved)")
    notebook.write(answer, WRONG)
    assert notebook.run(answer) == ""
    told = notebook.run(check)
    assert "times_3" in told and told.startswith("predict_saved: partly right on the inputs that you can see.")
    notebook.write(answer, RIGHT)
    assert notebook.run(answer) == ""
    assert notebook.run(check).startswith("predict_saved: right on the inputs that you can see.")


def test_the_start_page_checks_an_assignment_and_leads_to_chapters_and_pages(opened):
    notebook = opened("book/start.ipynb")
    page = notebook.page
    expect(notebook.panel.get_by_role("link", name="4 Hooks")).to_be_visible()
    notebook.run(notebook.cell("start_page.check_an_assignment()"))
    notebook.panel.get_by_role("button", name="Check", exact=True).click()
    expect(notebook.panel.get_by_text("0 / 10", exact=True)).to_be_visible(timeout=90_000)
    notebook.panel.get_by_role("link", name="4 Hooks").click()
    notebook.panel.get_by_role("link", name="Assignment 4", exact=True).click(timeout=60_000)
    expect(notebook.panel.get_by_role("heading", name="Assignment 4: hooks")).to_be_visible(timeout=60_000)
    page.locator(".lm-TabBar-tab", has_text="start.ipynb").click()
    notebook.panel.get_by_role("link", name="pitfalls").click()
    expect(page.locator(".jp-MarkdownViewer").get_by_role("heading", name="Pitfalls")).to_be_visible(timeout=60_000)


def test_a_quiz_can_be_done_by_keyboard_alone(opened):
    notebook = opened("book/start.ipynb")
    notebook.run(notebook.cell("start_page.practise_a_quiz()"))
    answers = notebook.panel.locator(".widget-radio + .widget-label")
    notebook.panel.locator("select").last.focus()
    told = []
    for choice in range(5):  # four of the first question, one of the second
        notebook.page.keyboard.press("Tab")
        notebook.page.keyboard.press("Space")
        answer = answers.nth(choice // 4)
        expect(answer).not_to_have_text(told[-1] if choice % 4 else "")
        told.append(answer.inner_text())
    assert all(told) and len(set(told)) == 5


def test_a_kernel_that_was_restarted_half_way_costs_nothing_but_time(opened):
    notebook = opened(f"book/{CHAPTERS[0]}")
    notebook.menu("Edit", "Clear Outputs of All Cells")
    notebook.run(notebook.code_cells.first)
    notebook.menu("Kernel", r"Restart Kernel….*")
    notebook.page.locator(".jp-Dialog .jp-mod-accept, .jp-Dialog .jp-mod-warn").last.click()
    notebook.idle()
    half_way = notebook.run(notebook.code_cells.nth(3))
    assert "NameError" in half_way  # says which name is missing: nothing was run before
    notebook.run_all()
    assert notebook.errors() == [] and notebook.unfinished() == []
