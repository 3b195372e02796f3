"""Is the back matter true? Claims have verdicts, terms are used, links lead to sections, what is listed is cited."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ckptlib.recompute.pitfalls import PITFALLS

BOOK = Path(__file__).resolve().parents[2] / "book"
CHAPTERS = sorted(BOOK.glob("[0-9][0-9]_*.ipynb"))
VERDICTS = re.compile(r"right|right only if .+|wrong")


def text(page: str) -> str:
    return (BOOK / page).read_text(encoding="utf-8")


def notebook(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def written(path: Path) -> str:
    """What stands in a notebook's cells; outputs do not count."""
    return "\n\n".join("".join(cell["source"]) for cell in notebook(path))


def headings(path: Path) -> set[str]:
    """As JupyterLab and the site name them: blanks become hyphens, marks of code are gone."""
    found = re.findall(
        r"^#+ (.+)$", written(path) if path.suffix == ".ipynb" else path.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {heading.replace("`", "").strip().replace(" ", "-") for heading in found}


def links(page: str) -> list[tuple[str, str]]:
    return re.findall(r"\]\((\w+\.(?:ipynb|md))(?:#([^)\s]+))?\)", text(page))


# ---- the ledger of claims -------------------------------------------------------------------------------------------
def claims() -> list[tuple[str, str, str, str]]:
    rows = []
    for cell in notebook(BOOK / "claims.ipynb"):
        for output in cell.get("outputs", []):
            page = "".join(output.get("data", {}).get("text/html", []))
            rows += [tuple(re.findall(r"<td[^>]*>(.*?)</td>", row)) for row in re.findall(r"<tr>(.*?)</tr>", page)]
    return [row for row in rows if row]


def test_every_claim_has_a_verdict_and_a_section():
    sections = {heading.partition("-")[0] for path in CHAPTERS for heading in headings(path)}
    assert len(claims()) >= 45
    for claim, measured, verdict, section in claims():
        assert claim and measured and VERDICTS.fullmatch(verdict), claim
        assert section in sections, f"{claim}: there is no section {section}"


@pytest.mark.parametrize(
    "figure", ["31.70", "2.27", "batch of 21", "63 GB", "101.04", "83.21", "N²/C", "sbh", "659,173,376", "8,519,680"]
)
def test_a_figure_that_everybody_quotes_is_in_the_ledger(figure):
    assert any(figure in claim for claim, *_ in claims())


# ---- pitfalls, glossary, notation -----------------------------------------------------------------------------------
@pytest.mark.parametrize("page", sorted(path.name for path in BOOK.glob("*.md")))
def test_links_lead_to_sections_that_exist(page):
    missing = [
        f"{target}#{section}"
        for target, section in links(page)
        if not (BOOK / target).is_file() or (section and section not in headings(BOOK / target))
    ]
    assert not missing


def test_all_twelve_pitfalls_are_indexed_and_every_one_has_a_section():
    numbered = re.findall(r"^\| (\d+) \|(.*)\|$", text("pitfalls.md"), re.MULTILINE)
    assert [int(number) for number, _ in numbered] == sorted(PITFALLS)
    rows = [row for row in re.findall(r"^\|.*\|$", text("pitfalls.md"), re.MULTILINE) if "---" not in row]
    for row in rows:
        assert "you see" in row or re.search(r"\]\(\w+\.ipynb#", row), row
    assert len(rows) >= 35


TERM = re.compile(r"^- \*\*(.+?)\*\*: (.*)$", re.MULTILINE)


def test_every_term_of_the_glossary_is_used_in_the_book():
    said = "\n".join(written(path) for path in CHAPTERS).lower()
    terms = [term for term, _ in TERM.findall(text("glossary.md"))]
    assert len(terms) >= 40
    assert not [term for term in terms if term.lower() not in said]


def test_the_glossary_is_sorted_and_every_term_has_a_section():
    found = TERM.findall(text("glossary.md"))
    terms = [re.sub(r"[^a-z]", "", term.lower()) for term, _ in found]
    assert terms == sorted(terms)
    assert not [term for term, meaning in found if not re.search(r"\]\(\w+\.ipynb#", meaning)]


# ---- bibliography ---------------------------------------------------------------------------------------------------
def traces(entry: str) -> list[str]:
    """What a page that cites an entry may hold of it: number, name, address, title up to a colon, author, course."""
    return [
        *re.findall(r"\[([^]]+)\]\(", entry),
        *re.findall(r"\b\d{4}\.\d{5}\b", entry),
        *re.findall(r"\]\(https?://([^)#]+)", entry),
        *(re.split("[:?]", title)[0] for title in re.findall(r"\*(.+?)\*", entry)),
        *re.findall(r"^(?:[A-Z]\. )+([\w-]+)", entry),
        *re.findall(r"course (\w+)", entry),
    ]


def test_every_entry_is_cited_where_it_says():
    entries = re.findall(r"^- (.*) Cited in (.*)\.$", text("bibliography.md"), re.MULTILINE)
    assert len(entries) == len(re.findall(r"^- ", text("bibliography.md"), re.MULTILINE)) >= 25
    for entry, places in entries:
        for place in re.findall(r"\]\((\w+\.ipynb)\)", places):
            assert any(trace in written(BOOK / place) for trace in traces(entry)), f"{place} does not cite {entry}"


def test_every_paper_that_a_chapter_cites_is_listed():
    listed = text("bibliography.md")
    cited = {number for path in CHAPTERS for number in re.findall(r"arXiv:(\d{4}\.\d{5})", written(path))}
    assert not [number for number in cited if number not in listed]
