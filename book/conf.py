"""How is the static site made? Sphinx reads book/, exercises/ and the library's docstrings; nothing is executed.

`make site` writes it to .site/, readable from the disk without a network. Notebooks keep the outputs that are
committed. What Jupyter shows and a page cannot, a widget, is marked by a note.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from pathlib import Path

from docutils import nodes

ROOT = Path(__file__).resolve().parent.parent

project = "Remember or Recompute"
author = "The Remember or Recompute authors"
copyright = f"{author}. Text: CC BY 4.0. Code: MIT"  # no year: the same sources make the same site

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx-mathjax-offline"]
root_doc = "book/index"
include_patterns = ["book/*.md", "book/*.ipynb", "exercises/*/*.ipynb", "INSTRUCTORS.md"]
exclude_patterns = [".*", "*.egg-info", "ckptlib", "solutions", "tests", "submitted", "autograded", "feedback"]
exclude_patterns += ["book/start.ipynb"]  # made by `make lab`: it shows a reader's own progress
highlight_language = "text"  # contracts and commands are not Python; code cells say what they are

nb_execution_mode = "off"
nb_ipywidgets_js: dict = {}  # nothing from the network
nb_mime_priority_overrides = [("html", "image/svg+xml", 0)]  # some figures have an HTML version for Jupyter, too
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
myst_heading_slug_func = "conf.anchor"  # by name: what Sphinx keeps on the disk holds no functions
sys.path.insert(0, str(ROOT / "book"))


def anchor(title: str) -> str:
    """JupyterLab's rule, so that a link to a section works in both."""
    return title.replace(" ", "-")


autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_inherit_docstrings = False  # nn.Module's words about forward are not ours
autodoc_preserve_defaults = True
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "sphinx_book_theme"
html_title = project
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_search_summary = False  # it would fetch pages, which a browser refuses on a disk
html_copy_source = True  # the download button gives the notebook
html_last_updated_fmt = None
html_theme_options = {
    "logo": {"text": project},  # leads home
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "use_download_button": True,
    "use_fullscreen_button": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "github-dark",
    **dict.fromkeys(["navbar_start", "navbar_center", "navbar_end", "navbar_persistent"], []),  # the side bar has all
}


# ---- what a page has and the file has not ---------------------------------------------------------------------------
def toctrees(page: str) -> str:
    """The side bar: index.md's own lists, a caption for each heading above one."""
    found = []
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        caption = section.splitlines()[0]
        links = re.findall(r"^(?:\d+\.|-) \[.*?\]\(([\w/.]+)\.(?:ipynb|md)\)", section, flags=re.MULTILINE)
        if links:
            found.append("\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *links, "```"]))
    return "\n\n".join(found)


def without_links_to_files(page: str) -> str:
    """Links into the repository become the names of the files, because the site does not contain those."""
    return re.sub(r"\[[^]]*\]\((?!https?:|#)([^)]*)\)", r"`\1`", page)


def markdown_cell(name: str, text: str) -> dict:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": text}


def is_widget(cell: dict) -> bool:
    """A cell that ends by making a widget: ckptlib.book keeps only a sentence of it, because it needs a kernel."""
    last = "".join(cell["source"]).rstrip().rpartition("\n")[2]
    return cell["cell_type"] == "code" and re.match(r"\w*_explorer\(|widgets\.\w+\(", last)


WIDGET = """```{note}
This cell makes a widget, which needs a running notebook. In JupyterLab (`make lab`), run the cell and move the knobs.
A figure before it shows the same thing at rest.
```"""
ASSIGNMENT = """```{note}
This is the assignment to read. To do it, run `make lab` and open `%s.ipynb`: checks need a running notebook.
```"""
SETUP_CHECK = """```{note}
This page is the notebook before it was run. To check your machine, run `make lab` and open `%s.ipynb`.
```"""


def complete(app, docname: str, source: list[str]) -> None:
    """Add the side bar to index.md, a note to each widget, and to each chapter its assignment in the side bar."""
    if docname == root_doc:
        source[0] += f"\n\n{toctrees(source[0])}\n"
    if docname == "INSTRUCTORS":
        source[0] = without_links_to_files(source[0])
    if app.env.doc2path(docname).suffix != ".ipynb":
        return
    notebook = json.loads(source[0])
    cells = []
    for cell in notebook["cells"]:
        cells.append(cell)
        if is_widget(cell):
            cell["outputs"] = []  # the note says more
            cells.append(markdown_cell(f"note-{cell['id']}", WIDGET))
    name = docname.rpartition("/")[2]
    if docname.startswith("exercises/"):
        cells.insert(1, markdown_cell("note-assignment", ASSIGNMENT % docname))
    elif name == "00_setup_check":
        cells.insert(1, markdown_cell("note-setup-check", SETUP_CHECK % docname))
    elif (assignment := f"exercises/{name}/{name}") in app.env.found_docs:
        cells.append(markdown_cell("side-bar", f"```{{toctree}}\n:hidden:\n\n/{assignment}\n```"))
    source[0] = json.dumps({**notebook, "cells": cells})


# ---- docstrings are written to be read as they are; Sphinx wants reStructuredText -----------------------------------
def prose(line: str) -> str:
    """`name` becomes code, *word* stands out; all else that means something to reStructuredText is escaped."""
    marks = r"(`[^`]+`)|((?<![\w*])\*\w+\*(?![\w*]))|([\\*|`]|(?<=\w)_(?=\W|$))"
    return re.sub(marks, lambda m: f"`{m[1]}`" if m[1] else m[2] or f"\\{m[3]}", line)


def restructured(lines: list[str]) -> list[str]:
    """Paragraph by paragraph: a doctest stays one, what is laid out by spaces stays so, the rest is prose."""
    result = []
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        rows = paragraph.split("\n")
        if rows[0].lstrip().startswith(">>>"):
            result += [row.strip() for row in rows]
        elif rows[0].startswith("- "):
            result += [prose(row) for row in rows]
        elif re.search(r"^ |\S {3,}\S", paragraph, flags=re.MULTILINE):
            result += ["::", "", *(f"    {row}" for row in rows)]
        else:
            result += map(prose, rows)
        result.append("")
    return result


def docstring(app, what, name, obj, options, lines: list[str]) -> None:
    lines[:] = restructured(lines)


def own_folder(app) -> None:
    """myst-nb writes figures beside .site, into the repository; here they go where Sphinx keeps the rest."""
    figures = Path(app.doctreedir) / "figures"
    app.env.mystnb_config = app.env.mystnb_config.copy(output_folder=str(figures))


# ---- the finished pages ---------------------------------------------------------------------------------------------
WIDTH = 92  # characters of a docstring that fit beside both side bars, in a window of 1,200 pixels


def column(row: str) -> int:
    """Where the last part of a row begins that is laid out by spaces, and has room to go on below."""
    ends = (gap.end() for gap in re.finditer("  +", row))
    return max((end for end in ends if end <= WIDTH * 2 // 3), default=0)


def goes_on(above: str, row: str) -> bool:
    """Is `row` the rest of the sentence above, not a name with a colon and not a sentence of its own?"""
    text = row.strip()
    same = column(row) == column(above) == len(row) - len(text)
    return same and bool(re.match(r"(?!\S+(, \S+)*:)[^\W\dA-Z]", text) or (text and above[-1] in ".,;"))


def folded(text: str) -> str:
    """Rows of a docstring that are too long go on below, in the column where their last part begins."""
    rows = []
    for row in text.split("\n"):
        if rows and len(rows[-1]) > WIDTH and goes_on(rows[-1], row):
            rows[-1] += f" {row.strip()}"
        else:
            rows.append(row)
    return "\n".join(map(wrapped, rows))


def wrapped(row: str) -> str:
    """What an op returns stands below what it is given, if both do not fit."""
    given, arrow, returned = row.partition("   ->   ")
    if arrow and len(row) > WIDTH and max(len(given), len(returned)) < WIDTH:
        return f"{given}\n{arrow}{returned}"
    return textwrap.fill(row, WIDTH, subsequent_indent=" " * column(row), break_on_hyphens=False)


def fold(app, doctree) -> None:
    for block in doctree.findall(nodes.literal_block) if app.env.docname == "book/api" else ():
        if block.get("language", "text") in ("text", "default", "none"):
            block.rawsource = folded(block.astext())
            block.children = [nodes.Text(block.rawsource)]


def keep_percent(app, doctree) -> None:
    """A number and its % sign stay on one line."""
    for text in [node for node in doctree.findall(nodes.Text) if re.search(r"\d %", node)]:
        if not isinstance(text.parent, nodes.literal | nodes.literal_block | nodes.raw):
            text.parent.replace(text, nodes.Text(re.sub(r"(?<=\d) (?=%)", "\N{NO-BREAK SPACE}", text)))


def one_title(app, page: str, template: str, context: dict, doctree) -> None:
    """The first page has the book's name: once is enough."""
    if page == root_doc:
        context["docstitle"] = ""


def front_door(app, exception) -> None:
    """Whoever opens .site/index.html is led to the book's first page."""
    if exception is None:
        page = '<!doctype html><meta charset="utf-8"><title>%s</title><meta http-equiv="refresh" content="0; url=%s">'
        page += '<p><a href="%s">%s</a></p>'
        target = f"{root_doc}.html"
        (Path(app.outdir) / "index.html").write_text(page % (project, target, target, project), encoding="utf-8")


def setup(app) -> None:
    app.connect("builder-inited", own_folder)
    app.connect("source-read", complete)
    app.connect("autodoc-process-docstring", docstring)
    app.connect("doctree-read", fold)
    app.connect("doctree-read", keep_percent)
    app.connect("html-page-context", one_title)
    app.connect("build-finished", front_door)
