"""Does Chromium show a snapshot's page with no network, and does the page tell what was measured?"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import ckptlib as ck
from ckptlib.cuda.snapshot import load
from ckptlib.figures.snapshot_page import page_data, snapshot_page
from ckptlib.models.mlp import mlp_step

pytestmark = [pytest.mark.browser, pytest.mark.slow]
RECORDED = Path(__file__).parents[1] / "cuda" / "recorded_snapshot.pickle"  # by PyTorch: see test_snapshot.py there


@pytest.fixture(scope="module")
def mlp() -> ck.measure:
    return ck.measure(partial(mlp_step, "none"), "sim:cuda", builds=True)


@pytest.fixture
def opened(browser, tmp_path):
    """Open a page; at the end, nothing may have gone wrong in it, and nothing may have been asked from anywhere."""
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    errors, asked = [], []

    def show(html: str) -> Page:
        (tmp_path / "page.html").write_text(html, encoding="utf-8")
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.on("request", lambda request: asked.append(request.url))
        page.goto((tmp_path / "page.html").as_uri())
        return page

    yield show
    context.close()
    assert errors == [] and asked == [(tmp_path / "page.html").as_uri()]


def rows(page: Page) -> dict[str, str]:
    """The table: what is held, by category, and the bytes."""
    texts = [row.split("\t") for row in page.locator("#groups").inner_text().splitlines()[1:]]
    return {row[0].strip(): row[2] for row in texts}


def colour(page: Page, x: float, y: float) -> str:
    """Of the pixel in the plot at these fractions of its width and height."""
    script = """([x, y]) => {
        const canvas = document.getElementById("base")
        const at = [Math.round(x * canvas.width), Math.round(y * canvas.height), 1, 1]
        const [r, g, b] = canvas.getContext("2d").getImageData(...at).data
        return "#" + [r, g, b].map(n => n.toString(16).padStart(2, "0")).join("").toUpperCase()
    }"""
    return page.evaluate(script, [x, y])


def test_the_peak_is_the_measurements(opened, mlp):
    page = opened(snapshot_page(ck.explain(mlp.snapshot())))
    expect(page.locator("h1")).to_have_text("Device 0: 130.92 MiB at the peak, 204.00 MiB reserved")
    expect(page.locator("#when")).to_have_text("At the peak")
    expected = {name: f"{nbytes:,}" for name, nbytes in mlp.by_category.items()}
    assert rows(page) == expected | {"allocated": f"{mlp.peak:,}", "reserved": f"{mlp.reserved:,}"}


def test_pointing_at_a_block_tells_what_it_is(opened, mlp):
    found = ck.explain(mlp.snapshot())
    page = opened(snapshot_page(found))
    box = page.locator("#over").bounding_box()
    assert box is not None
    # The input is the first block above the parameters, and the largest one of all.
    parameters, reserved = mlp.by_category["parameter"], found.totals[-1][1]
    height = (parameters + mlp.by_category["input"] / 2) / (reserved * 1.04)
    level = box["height"] - 44 - height * (box["height"] - 12 - 44)
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + level)
    expect(page.locator("#block")).to_contain_text("36.00 MiB (37,748,736 B, of which 36,864,000 B were asked for)")
    expect(page.locator("#block")).to_contain_text("category: input")
    expect(page.locator("#block")).to_contain_text("op: aten.randn.default")
    assert colour(page, 0.5, level / box["height"]) == "#56B4E9"  # the colour of inputs in all our figures
    page.mouse.down()
    page.mouse.up()  # keeps it
    page.mouse.move(box["x"] + 90, box["y"] + box["height"] - 46)
    expect(page.locator("#block")).to_contain_text("category: input")


def test_dragging_looks_closer_and_a_double_click_goes_back(opened, mlp):
    page = opened(snapshot_page(ck.explain(mlp.snapshot())))
    box = page.locator("#over").bounding_box()
    assert box is not None
    whole = page.evaluate("columns.length && [from, to]")
    page.mouse.move(box["x"] + 300, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 200, steps=4)
    page.mouse.up()
    begin, end = page.evaluate("[from, to]")
    assert whole[0] < begin < end < whole[1]
    page.locator("#over").dblclick(position={"x": 700, "y": 200})
    assert page.evaluate("[from, to]") == whole
    page.locator("#over").press("ArrowRight")
    expect(page.locator("#when")).to_have_text(re.compile(r"At moment \d+ of \d+"))


def test_anybodys_record_is_coloured_by_the_lines_of_the_program(opened):
    page = opened(snapshot_page(ck.explain(RECORDED)))
    expect(page.locator("#groups")).to_contain_text("test_snapshot.py:")
    assert rows(page)["(there before the record began)"] == "2,944,000"
    assert rows(page)["allocated"] == "41,681,920"


def test_what_a_file_says_is_text_and_never_runs(opened):
    snapshot = load(RECORDED)
    script = "</script><script>document.title = 'hit'</script><img src=x onerror=\"document.title = 'hit'\">"
    for entry in snapshot["device_traces"][0]:
        entry["frames"] = [{"filename": "model.py", "line": 1, "name": script}]
    page = opened(snapshot_page(ck.explain(snapshot)))
    expect(page.locator("#groups")).to_contain_text(script)
    assert page.title() == "Memory snapshot"


def test_a_record_without_history_is_shown(opened):
    snapshot = load(RECORDED) | {"device_traces": []}
    found = ck.explain(snapshot)
    assert page_data(found)["allocated"] == [found.allocated]
    page = opened(snapshot_page(found))
    expect(page.locator("body")).to_contain_text("No history was recorded: this is the moment of the snapshot")
    assert rows(page)["allocated"] == f"{found.allocated:,}"
