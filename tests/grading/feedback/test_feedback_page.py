"""Does a student's page say everything that it should, nothing that it must not, and run nothing?"""

import base64
import io
import time
from html.parser import HTMLParser

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from small_course import make

from ckptlib.figures import styles
from ckptlib.grading.assignment.assignment import Assignment
from ckptlib.grading.feedback import feedback_page as page_module
from ckptlib.grading.feedback import text_html
from ckptlib.grading.feedback.feedback_page import Pages
from ckptlib.grading.one_submission.scoring import Result, TaskScore, without_record

TASKS = ("saved_nbytes", "ledger", "audit")
EVIL = (
    "</script><script>window.ran=1</script><img src=x onerror='window.ran=2'><svg onload=window.ran=3></svg>"
    "<a href='javascript:window.ran=4'>x</a><iframe src='http://127.0.0.1:9/'></iframe>"
    "</pre></code></title></style><meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>\"><b x='"
)


def graded_cell(grade_id, source, **about):
    about = {"grade_id": grade_id, "schema_version": 3, "grade": False, "locked": False, "solution": False, **about}
    return new_code_cell(source, id=grade_id, metadata={"nbgrader": about})


def release() -> nbformat.NotebookNode:
    cells = [new_markdown_cell("# Activation `memory`\n\n$y = x W^T$, [chapter](../book/01.ipynb)", id="title")]
    cells.append(new_code_cell("import torch", id="setup"))
    for task in TASKS:
        cells += [
            new_markdown_cell(
                f"## Task: {task}\n\n<details><summary>Hint</summary>Once per storage.</details>", id=f"about-{task}"
            ),
            graded_cell(task, f"def {task}():\n    raise NotImplementedError", solution=True),
            graded_cell(f"check-{task}", f"check.{task}({task})", grade=True, locked=True, points=2),
        ]
    return new_notebook(cells=cells)


def png() -> str:
    from PIL import Image

    raw = io.BytesIO()
    Image.new("RGB", (30, 20)).save(raw, "PNG")
    return base64.b64encode(raw.getvalue()).decode()


def task(name, points, max_points, *more, **named) -> TaskScore:
    return TaskScore(name, f"check-{name}", points, max_points, *more, **named)


def record(*cells) -> dict:
    """cells: (id, source, outputs, status, cell_type); those at the end may be left out."""
    defaults = ("", "", [], "ok", "code")
    rows = [(*cell, *defaults[len(cell) :]) for cell in cells]
    return {
        "notebook": {"cells": [{"id": id, "source": source, "cell_type": kind} for id, source, _, _, kind in rows]},
        "cells": {id: {"outputs": outputs, "status": status} for id, _, outputs, status, _ in rows},
    }


def feedback(student="ada", text="seen", **more) -> tuple[Result, dict]:
    tasks = [
        task("saved_nbytes", 2, 2),
        task("ledger", 0.5, 2, "optimizer: AdamW keeps `two`.\ngradients: all zeros", "1.4", comment="Nearly."),
        task("audit", 0, 2, f"raised ValueError: {text}", "1.5"),
    ]
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": text},
        {"output_type": "display_data", "data": {"image/png": png(), "text/plain": f"<Figure> {text}"}},
        {"output_type": "display_data", "data": {"text/html": text, "text/markdown": text, "text/plain": text}},
        {"output_type": "display_data", "data": {"application/javascript": "window.ran=5", "image/png": text}},
        {"output_type": "display_data", "data": {"image/svg+xml": DRAWING}},
        {"output_type": "error", "ename": text, "evalue": text, "traceback": [f"\x1b[31m{text}\x1b[0m"]},
    ]
    cells = [
        ("saved_nbytes", f"# {text}\ndef saved_nbytes():\n    return 4", outputs, "timeout"),
        ("extra-1", text, [], "ok", "markdown"),
        ("extra-2", f"print({text!r})"),
        ("check-audit", f"check.audit(audit, hidden=True)  # HIDDEN {text}"),
    ]
    return Result(student, tasks, notes=[f"cell {text}"], flags=[f"flag {text}"], **more), record(*cells)


DRAWING = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="window.ran=6">'
    '<rect width="9" height="9"/></svg>'
)


class Elements(HTMLParser):
    """Every start tag of a page, and its text."""

    def __init__(self, page: str):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def pages() -> Pages:
    return Pages(release())


def test_the_page_says_score_message_section_comment_notes_and_flags(pages):
    text = " ".join(Elements(pages.page(*feedback(late_penalty=0.5, late_seconds=7300))).text.split())
    for said in (
        *("Activation memory", "Feedback for ada", "2 of 6 points", "0.5 of 2", "partly", "missed", "right"),
        *("optimizer: AdamW keeps two.", "gradients: all zeros", "Read again: 1.4", "Read again: 1.5"),
        *("Your instructor writes: Nearly.", "−0.5", "2 h 1 min after the deadline", "cell seen", "flag seen"),
        *("took too long and was interrupted", "Once per storage."),
    ):
        assert said in text, said


def test_of_a_file_that_cannot_be_read_the_page_says_so_and_sends_nobody_to_the_book(tmp_path):
    toy = Assignment.load(make(tmp_path, {}) / "source" / "01_toy")
    result = without_record(toy, "ada", "'01_toy.ipynb' is not a notebook: it is empty")
    text = Elements(Pages(toy.release).page(result, {})).text
    assert "is not a notebook: it is empty" in text and "Read again" not in text


def test_points_given_by_hand_and_extra_credit_are_said(pages):
    page = pages.page(Result("ada", [task("audit", 1.5, 2, by_hand=True, extra_credit=1)]), {})
    text = " ".join(Elements(page).text.split())
    assert "1.5 of 2 (+1 extra)" in text and "graded by hand" in text and "2.5 of 2 points" in text


def test_code_is_shown_as_text_and_nothing_of_it_is_lost(pages):
    sources = ["a < b & c", "'no end\nreturn", '"""a "b" \n c""" + d  # </code></pre>', "x = f'{y!r:>{3}}' \\\n"]
    cells = [(f"extra-{i}", source) for i, source in enumerate(sources)]
    found = Elements(pages.page(Result("ada", []), record(*cells)))
    assert all(source in found.text for source in sources)
    assert not any(tag == "span" for tag, attrs in found.tags if attrs.get("class") not in ("word", "display"))


def test_locked_cells_are_shown_as_released(pages):
    text = Elements(pages.page(*feedback())).text
    assert "check.audit(audit)" in text
    assert "HIDDEN" not in text and "hidden=True" not in text


def test_every_task_links_to_its_place(pages):
    found = Elements(pages.page(*feedback())).tags
    places = {attrs["id"] for _, attrs in found if "id" in attrs}
    links = [attrs["href"] for tag, attrs in found if tag == "a"]
    assert len(links) == 3 and all(link[1:] in places for link in links)


def test_it_can_be_read_without_seeing_it(pages):
    found = Elements(pages.page(*feedback())).tags
    levels = [int(tag[1]) for tag, _ in found if tag in ("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels.count(1) == 1 and all(b - a <= 1 for a, b in zip(levels, levels[1:], strict=False))
    assert all(attrs.get("alt") for tag, attrs in found if tag == "img")
    assert all(attrs.get("scope") for tag, attrs in found if tag == "th")
    assert ("html", {"lang": "en"}) in found


def test_nothing_of_a_student_becomes_a_tag(pages):
    """The page of a hostile student has the tags of a harmless one's, and no attribute that its text could be in."""
    harmless, hostile = Elements(pages.page(*feedback())), Elements(pages.page(*feedback(EVIL, EVIL)))

    def shape(page):
        return [(tag, sorted(attrs)) for tag, attrs in page.tags]

    assert shape(hostile) == shape(harmless)
    for tag, attrs in hostile.tags:
        assert tag not in ("script", "iframe", "object", "embed", "form", "base", "link")
        assert not any(name.startswith("on") for name in attrs)
        assert attrs.get("src", "data:image/").startswith("data:image/")
        assert "svg" not in attrs.get("src", "") or attrs["class"] == "formula"
        assert attrs.get("href", "#").startswith("#")


def test_a_page_without_cells_or_with_odd_ones_is_a_page(pages):
    assert "0 of 2" in Elements(pages.page(Result("a\ud800b", [task("gone", 0, 2)]), {})).text
    cells = record(("setup", "x" * 200_000), ("setup", "twice"), ("title", "# mine now"))
    page = pages.page(Result("ada", []), cells)
    page.encode()
    assert "twice" in page and "# mine now" in page and len(page) < 200_000


def test_outputs_of_a_page_are_limited_in_all(pages):
    image = base64.b64encode(base64.b64decode(png()) + bytes(2 * 2**20)).decode()
    shown = {"output_type": "display_data", "data": {"image/png": image, "text/plain": "figure"}}
    page = pages.page(Result("ada", []), record(*((f"extra-{i}", "plot()", [shown] * 4) for i in range(10))))
    assert len(page) < 32 * 2**20 and "too large" in page


def test_formulas_are_drawn_and_what_cannot_be_drawn_stays_readable():
    assert 'alt="x^2"' in text_html.to_html("$x^2$") and "data:image/svg+xml" in text_html.to_html("$x^2$")
    assert '<code class="tex">\\nosuch{x} &lt; 1</code>' in text_html.to_html("$\\nosuch{x} < 1$")
    assert "a &amp;= b" in text_html.to_html("\\begin{align}a &= b\\end{align}")
    assert "<h4>" in text_html.to_html("## Task", deeper=2)
    assert text_html.to_html("[a](../b.ipynb) [c](https://example.org)").count("<a ") == 1


def test_a_hundred_pages_take_no_longer_than_they_should(pages):
    pages.page(*feedback())
    given = [feedback(f"s{i}", f"text {i}") for i in range(100)]
    start = time.process_time()
    for each in given:
        pages.page(*each)
    assert (time.process_time() - start) / 100 < 0.030


# ---- in a browser ---------------------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.browser
def test_no_script_runs_and_no_request_leaves(pages, browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(pages.page(*feedback(EVIL, EVIL)), encoding="utf-8")
    tab, requests, dialogs = browser.new_page(), [], []
    tab.on("request", lambda request: requests.append(request.url))
    tab.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    tab.goto(path.as_uri())
    for place in tab.locator("summary, a, pre").all():
        place.click()
    assert tab.evaluate("window.ran") is None
    assert [url for url in requests if not url.startswith("data:image/")] == [path.as_uri()]
    assert dialogs == [] and tab.url.startswith(path.as_uri())
    assert tab.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    tab.close()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read(pages, browser, tmp_path, width, scheme):
    path = tmp_path / "page.html"
    path.write_text(pages.page(*feedback()), encoding="utf-8")
    tab = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab.goto(path.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    for kind in ("body", ".word", ".label", ".tasks a", "pre.code", ".verdict strong"):
        assert contrast(*tab.locator(kind).first.evaluate(COLOURS)) >= 4.5, kind
    tab.close()


# An element's own colour, and the first ground behind it that is not transparent
COLOURS = """element => {
    const ground = node => getComputedStyle(node).backgroundColor;
    let behind = element;
    while (ground(behind).startsWith("rgba(0, 0, 0, 0")) behind = behind.parentElement;
    return [getComputedStyle(element).color, ground(behind)];
}"""


def contrast(*colours: str) -> float:
    """Of two CSS colours such as "rgb(28, 29, 32)"."""
    parts = (colour[colour.index("(") + 1 : -1].split(",")[:3] for colour in colours)
    return styles.contrast(*([int(part) / 255 for part in rgb] for rgb in parts))


@pytest.mark.parametrize("escape", ["\x1b[31m", "\x1b[38;5;1m", "\x1b[1;4;7m", "\x1b[0m"])
def test_text_with_very_many_colours_is_shown_without_them(escape):
    few = page_module._coloured(f"{escape}a" * page_module.MOST_COLOURS)
    many = page_module._coloured(f"{escape}a" * (page_module.MOST_COLOURS + 1))
    assert "".join(many) == "a" * (page_module.MOST_COLOURS + 1)
    nested = page_module._coloured("\x1b\x1b[1m[31ma" * page_module.MOST_COLOURS)
    assert "\x1b" not in nested and "<span" not in nested
    assert few.count("a") >= page_module.MOST_COLOURS and "\x1b" not in few
