"""Does the static site build without a warning, and can it be read without a network?"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup
from filelock import FileLock

import ckptlib as ck

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted([*(ROOT / "book").glob("*.ipynb"), *(ROOT / "exercises").glob("*/*.ipynb")])
NOTEBOOKS = [path for path in NOTEBOOKS if path.name != "start.ipynb"]  # made by `make lab`, for one reader
PAGES = sorted([*NOTEBOOKS, *(ROOT / "book").glob("*.md"), ROOT / "INSTRUCTORS.md"])
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "embed": "src", "object": "data"}
ELSEWHERE = re.compile(r"(https?:)?//")


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The site, built once: test processes that run side by side share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "site"
    with FileLock(f"{folder}.lock"):
        if not (folder / "index.html").exists():
            command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "book", ".", str(folder)]
            built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            assert built.returncode == 0, built.stderr
    return folder


def name(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").as_posix()


@cache
def soup(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_bytes(), "html.parser")


def html(site: Path) -> list[Path]:
    return sorted(path for path in site.rglob("*.html") if "_static" not in path.relative_to(site).parts)


def cells(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def test_every_page_is_there_and_in_the_side_bar(site):
    side_bar = soup(site / "book/index.html").find("nav", class_="bd-links")
    listed = {Path(link["href"]).stem for link in side_bar.find_all("a", href=True)}
    for page in PAGES:
        assert (site / f"{name(page)}.html").is_file(), page
        if not name(page).startswith("exercises/") and page.stem != "index":
            assert page.stem in listed, f"{page.name} is in no list of index.md"
    assert "book/index.html" in (site / "index.html").read_text()


def test_no_docstring_is_folded_to_one_word_a_line(site):
    for page in html(site):
        for block in soup(page).select("div.highlight pre"):
            far = [row for row in block.get_text().split("\n") if row.startswith(" " * 60)]
            assert sum(len(row.split()) == 1 for row in far) < 3, (page.name, far[:3])


def test_nothing_is_loaded_from_elsewhere(site):
    found = []
    for page in html(site):
        for tag in soup(page).find_all([*LOADED, "link"]):
            address = tag.get(LOADED.get(tag.name, "href"), "")
            if ELSEWHERE.match(address) and tag.get("rel") not in (["canonical"], ["license"]):
                found.append((page.name, str(tag)[:120]))
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        found += [(sheet.name, url) for url in re.findall(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")]+)", text)]
    assert not found


def test_every_link_leads_somewhere(site):
    broken = []
    for page in html(site):
        for link in soup(page).find_all("a", href=True):
            parts = urlsplit(link["href"])
            if parts.scheme or parts.netloc or link["href"] == "#":
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not target.is_file():
                broken.append((page.name, link["href"]))
            elif parts.fragment and target.suffix == ".html":
                there = soup(target).find(id=unquote(parts.fragment)) or soup(target).find(id=parts.fragment)
                if there is None:
                    broken.append((page.name, link["href"]))
    assert not broken


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name)
def test_figures_have_words_and_widgets_a_note(site, notebook):
    page = soup(site / f"{name(notebook)}.html").find("article")
    drawn = [c for c in cells(notebook) for o in c.get("outputs", []) if "image/svg+xml" in o.get("data", {})]
    images = page.select(".cell_output img")
    assert len(images) == len(drawn)
    assert [image["alt"] for image in images] == [cell["metadata"]["mystnb"]["image"]["alt"] for cell in drawn]
    code = ["".join(cell["source"]) for cell in cells(notebook) if cell["cell_type"] == "code"]
    explorers = [source for source in code if re.search(r"^\w+_explorer\(", source, re.MULTILINE)]
    assert page.get_text().count("This cell makes a widget") == len(explorers)
    assert not page.select(".cell_output .stderr, .cell_output .traceback")


def test_equations_are_drawn_by_a_program_that_is_here(site):
    page = soup(site / "book/02_chain_rule_by_hand.html")
    assert len(page.select("div.math")) >= 5
    (mathjax,) = (tag["src"] for tag in page.find_all("script", src=True) if "mathjax" in tag["src"])
    assert (site / "book" / mathjax.split("?")[0]).resolve().is_file()


def test_the_search_index_knows_the_chapters(site):
    index = json.loads(re.search(r"Search\.setIndex\((.*)\)", (site / "searchindex.js").read_text(), re.S)[1])
    assert {name(page) for page in PAGES} <= set(index["docnames"])
    assert {"checkpoint", "storag", "alloc"} <= set(index["terms"])


@pytest.mark.parametrize("public", ck.__all__)
def test_every_public_name_is_documented_with_its_source(site, public):
    page = soup(site / "book/api.html")
    thing = getattr(ck, public)
    module = isinstance(thing, ModuleType)
    places = [f"module-{thing.__name__}"] if module else [f"ckptlib.{public}", f"{thing.__module__}.{public}"]
    found = next((page.find(id=place) for place in places if page.find(id=place)), None)
    assert found is not None, f"add ck.{public} to book/api.md"
    if found.name == "dt":
        source = found.find("a", class_="reference internal", href=re.compile("_modules/"))
        assert source, f"no link to the source of ck.{public}"
        assert found.find_next("dd").get_text(strip=True), f"ck.{public} has no docstring"


# ---- in a browser ---------------------------------------------------------------------------------------------------
@pytest.fixture(params=["light", "dark", "phone"])
def window(request, browser):
    """A window without a network, and what it asked for in vain."""
    size = {"width": 390, "height": 844} if request.param == "phone" else {"width": 1200, "height": 900}
    scheme = "dark" if request.param == "dark" else "light"
    context = browser.new_context(viewport=size, color_scheme=scheme, offline=True)
    page, asked = context.new_page(), []
    page.on("request", lambda r: asked.append(r.url) if not r.url.startswith(("file:", "data:", "blob:")) else None)
    page.on("requestfailed", lambda r: asked.append(r.url))
    yield page, asked
    context.close()


# Nothing can be scrolled to that begins left of the window; what ends right of it must be in a box that scrolls.
TOO_WIDE = """() => [...document.querySelectorAll('article *')].filter(e => {
    const box = e.getBoundingClientRect();
    if (e.closest('mjx-assistive-mml')) return false;
    if (box.left < -1 && box.width > 1) return true;
    if (box.right <= innerWidth + 1) return false;
    for (let p = e; p && p.tagName != 'ARTICLE'; p = p.parentElement)
        if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(p).overflowX)) return false;
    return box.width > 0;
}).map(e => e.tagName + ' ' + e.textContent.slice(0, 60)).slice(0, 5)"""

# A table whose last column is out of sight, or code or a contract whose ends of lines are, beside two side bars.
CUT = """() => [...document.querySelectorAll('.pst-scrollable-table-container, article pre, .text_html')]
    .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent.slice(0, 60))"""


@pytest.mark.browser
def test_pages_fit_their_window_and_need_no_network(site, window):
    page, asked = window
    for path in PAGES:
        page.goto((site / f"{name(path)}.html").as_uri())
        if page.locator("article .math").count():
            page.wait_for_selector("article mjx-container", state="attached")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1"), path.name
        assert page.evaluate(TOO_WIDE) == [], path.name
        assert page.viewport_size["width"] < 600 or page.evaluate(CUT) == [], path.name
    assert not asked


@pytest.mark.browser
def test_search_finds_a_chapter(site, window):
    page, asked = window
    page.goto((site / "search.html").as_uri() + "?q=caching+allocator")
    page.wait_for_selector("#search-results li a")
    found = [link.get_attribute("href") for link in page.locator("#search-results li a").all()]
    assert any("03_measuring_memory" in address for address in found)
    assert not asked
