"""Does every chapter still run, come out the same to the byte, and keep to the book's form?"""

from __future__ import annotations

import json
import os
import re
from html import unescape
from pathlib import Path

import nbformat
import pytest
import torch
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font
from nbformat.v4 import new_code_cell, new_notebook

from ckptlib import book
from ckptlib.book import runner
from ckptlib.figures.styles import contrast

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "book").glob("[0-9][0-9]_*.ipynb"))
NUMBERED = [path for path in CHAPTERS if not path.name.startswith("00")]
RUN = [*NUMBERED, ROOT / "book" / "claims.ipynb"]  # the set-up check, which reports on this machine, has no outputs
READ = [CHAPTERS[0], *RUN, *sorted((ROOT / "exercises").glob("*/*.ipynb"))]
UNUSED = "simply just obviously trivially powerful magic leverage".split() + ["note that", "under the hood", "let's"]

PARTS = "You will be able to, What can go wrong, On a GPU, Recap, Check yourself, Exercises, Further".split(", ")


def cells(path: Path, kind: str) -> list[dict]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


def text(cell: dict) -> str:
    return "".join(cell["source"])


def prose(path: Path) -> str:
    """What a reader reads: no code, no tags, no tables' bars."""
    found = "\n\n".join(text(cell) for cell in cells(path, "markdown"))
    found = re.sub(r"```.*?```", " ", found, flags=re.DOTALL)
    found = re.sub(r"<[^>]+>|`[^`\n]*`|\$[^$\n]*\$|\]\([^)]*\)", " ", found)
    return re.sub(r"[|#*_\[\]-]", " ", found)


@pytest.fixture(params=NUMBERED, ids=lambda path: path.stem)
def numbered(request):
    return request.param


@pytest.mark.slow
@pytest.mark.parametrize("chapter", RUN, ids=lambda path: path.stem)
def test_its_committed_outputs_are_what_it_prints_today(chapter, tmp_path):
    """On any processor. BOOK_SEED=1 starts from other random numbers, as dropout draws them on other processors."""
    committed = chapter.read_text(encoding="utf-8")
    first, seed = "book.setup()", os.environ.get("BOOK_SEED", "")
    assert committed.count(first) == 1
    copy = tmp_path / chapter.name
    copy.write_text(committed.replace(first, f"book.setup({seed})"), encoding="utf-8")
    printed = runner.execute(copy).replace(f"book.setup({seed})", first)
    assert printed == committed, "run `make book` and look at the difference"


@pytest.mark.slow
def test_a_readers_own_settings_change_no_output(tmp_path, monkeypatch):
    """A style sheet, a start-up file and a list of fonts that has lost some, as a deleted environment may leave it."""
    chapter = tmp_path / "chapter.ipynb"
    figure = "from ckptlib.book import setup; setup(); import matplotlib.pyplot as plt; plt.loglog([1, 10], [1, 2]);"
    nbformat.write(new_notebook(cells=[new_code_cell(figure), new_code_cell("'seen' in globals()")]), chapter)
    clean = json.loads(runner.execute(chapter))["cells"]

    mine = tmp_path / "mine"
    (mine / "profile_default" / "startup").mkdir(parents=True)
    (mine / "profile_default" / "startup" / "00.py").write_text("seen = True")
    (mine / "matplotlibrc").write_text("lines.linewidth: 9")
    fonts = vars(font_manager.FontManager()) | {"ttflist": [], "__class__": "FontManager"}
    name = f"fontlist-v{font_manager.FontManager.__version__}.json"
    (mine / name).write_text(json.dumps(fonts | {"afmlist": []}))
    monkeypatch.setenv("IPYTHONDIR", str(mine))
    monkeypatch.setenv("MPLCONFIGDIR", str(mine))
    again = json.loads(runner.execute(chapter))["cells"]
    assert [cell["outputs"] for cell in again] == [cell["outputs"] for cell in clean]


@pytest.mark.slow
def test_what_a_clock_says_is_for_the_reader_and_not_for_the_repository(tmp_path, capsys, monkeypatch):
    chapter = tmp_path / "chapter.ipynb"
    code = "from ckptlib import book\nbook.on_this_machine('3 ms')\nprint('less than a second')"
    nbformat.write(new_notebook(cells=[new_code_cell(code)]), chapter)
    (cell,) = json.loads(runner.execute(chapter))["cells"]
    assert [output["text"] for output in cell["outputs"]] == [["less than a second\n"]]
    monkeypatch.delenv(book.ALIKE, raising=False)
    book.on_this_machine("3 ms")
    assert capsys.readouterr().out == "3 ms\n"


@pytest.mark.slow
def test_a_chapter_is_run_on_the_readers_processor_and_without_a_gpu(tmp_path, monkeypatch):
    chapter = tmp_path / "chapter.ipynb"
    asked = "torch.backends.cpu.get_cpu_capability(), torch.get_num_threads(), torch.cuda.device_count()"
    nbformat.write(new_notebook(cells=[new_code_cell(f"import torch\n{asked}")]), chapter)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    (cell,) = json.loads(runner.execute(chapter))["cells"]
    assert "".join(cell["outputs"][0]["data"]["text/plain"]) == "('DEFAULT', 2, 0)"


def test_a_chapter_measures_on_an_accelerator_that_counts_and_simulates_elsewhere(monkeypatch):
    def refuse():
        raise NotImplementedError("Allocator for mps is not a DeviceAllocator")

    cuda = torch.device("cuda")
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: cuda)
    for available, reset, expected in (
        (False, lambda: None, None),
        (True, lambda: None, cuda),
        (True, refuse, None),
    ):
        monkeypatch.setattr(torch.accelerator, "is_available", lambda available=available: available)
        monkeypatch.setattr(torch.accelerator, "reset_peak_memory_stats", reset)
        assert book.gpu() == expected


def test_its_code_cells_are_short(numbered):
    lengths = {cell["id"]: len(text(cell).splitlines()) for cell in cells(numbered, "code")}
    long = {name: lines for name, lines in lengths.items() if lines > 22}
    assert not long


@pytest.mark.parametrize("path", READ, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_its_code_fits_jupyterlabs_window(path):
    lines = [line for cell in cells(path, "code") for line in text(cell).splitlines()]
    assert [line for line in lines if len(line) > 107] == []  # wider ones are cut off
    blocks = [block for cell in cells(path, "markdown") for block in re.findall(r"```.*?```", text(cell), re.DOTALL)]
    assert [line for block in blocks for line in block.splitlines() if len(line) > 89] == []  # goes on at the margin


def test_its_code_fits_the_site_in_a_normal_size(numbered):
    lines = [line for cell in cells(numbered, "code") for line in text(cell).splitlines()]
    assert [line for line in lines if len(line) > 88] == []  # see site.css


def test_the_sources_it_shows_fit_the_window(numbered):
    showing = [cell for cell in cells(numbered, "code") if "book.show" in text(cell)]
    shown = ["".join(o.get("data", {}).get("text/markdown", "")) for cell in showing for o in cell["outputs"]]
    lines = [line for source in shown for line in source.splitlines()]
    assert lines, "every chapter shows the library's own code"
    assert [line for line in lines if len(line) > 91] == []  # JupyterLab breaks longer ones, in mid-word


def test_its_parts_are_all_there(numbered):
    everything = "\n".join(text(cell) for cell in cells(numbered, "markdown"))
    number = int(numbered.name[:2])
    for part in PARTS:
        assert part.lower() in everything.lower(), part
    sections = re.findall(rf"^## {number}\.(\d+) ", everything, flags=re.MULTILINE)
    assert list(map(int, sections)) == list(range(1, len(sections) + 1)) and 4 <= len(sections) <= 7
    assert everything.count("<details>") >= 8, "predictions and self-check have folded answers"
    assert f"../exercises/{numbered.stem}/{numbered.stem}.ipynb" in everything
    assert sum("assert" in text(cell) for cell in cells(numbered, "code")) >= 8


def test_its_figures_have_words_for_those_who_cannot_see_them(numbered):
    drawn = [c for c in cells(numbered, "code") if any("image/svg+xml" in o.get("data", {}) for o in c["outputs"])]
    assert 3 <= len(drawn) <= 6
    for cell in drawn:
        assert len(cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")) > 40, cell["id"]


def test_coloured_labels_of_its_figures_can_be_read_on_white(numbered):
    outputs = [o.get("data", {}) for cell in cells(numbered, "code") for o in cell["outputs"]]
    labels = [
        (words.strip(), colour)
        for data in outputs
        for colour, words in re.findall(r"<text[^>]*fill: (#\w+)[^>]*>([^<]*)", "".join(data.get("image/svg+xml", "")))
    ]
    # White is written on dark bars; signs of one letter are marks of a key, not text.
    assert [label for label in labels if contrast(label[1]) < 4.5 and label[1] != "#ffffff" and len(label[0]) > 1] == []


def test_labels_of_its_figures_need_no_font_but_matplotlibs_own(numbered):
    """Another font's letters have other widths, and a label's width decides where the axes are."""
    own = FT2Font(font_manager.findfont("DejaVu Sans", fallback_to_default=False)).get_charmap()
    outputs = [o.get("data", {}) for cell in cells(numbered, "code") for o in cell["outputs"]]
    drawn = "".join("".join(data.get("image/svg+xml", "")) for data in outputs)
    labels = [found for found in re.findall(r"<(?:text|tspan)([^>]*)>([^<]*)", drawn) if found[1].strip()]
    assert labels and all("DejaVu Sans" in style for style, _ in labels)
    assert {letter for _, words in labels for letter in unescape(words) if ord(letter) not in own} == set()


def test_it_avoids_words_that_say_nothing(numbered):
    found = [word for word in UNUSED if re.search(rf"\b{word}\b", prose(numbered), flags=re.IGNORECASE)]
    assert not found


def test_its_cells_have_readable_ids(numbered):
    ids = [cell["id"] for kind in ("markdown", "code") for cell in cells(numbered, kind)]
    assert len(set(ids)) == len(ids)
    assert not [name for name in ids if re.fullmatch(r"[0-9a-f]{8}(-.*)?", name)], "random ids change with every edit"
