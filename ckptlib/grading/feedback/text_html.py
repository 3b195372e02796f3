"""How is an assignment's text shown without a network? As HTML, its formulas drawn once as images.

Only for released text, which may hold HTML and is trusted; never for text that students wrote.
"""

from __future__ import annotations

import base64
import html
import io
import re
from functools import lru_cache
from typing import Any

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

_POINTS = 72  # per inch: one unit of the drawing is one CSS point


def to_html(markdown: str, attachments: dict[str, Any] | None = None, deeper: int = 0) -> str:
    """A markdown cell as HTML. `deeper`: by how many levels its headings are lowered."""
    renderer = _Renderer(deeper, escape=False, exclude_anchor_links=True, attachments=attachments or {})
    return MarkdownWithMath(renderer=renderer).render(markdown)


class _Renderer(IPythonRenderer):
    def __init__(self, deeper: int, **options: Any):
        super().__init__(**options)
        self.deeper = deeper

    def heading(self, text: str, level: int, **attrs: Any) -> str:
        return super().heading(text, min(6, level + self.deeper), **attrs)

    def link(self, text: str, url: str, title: str | None = None) -> str:
        """A relative link starts from the notebook, not from the page, so only its text is kept."""
        return super().link(text, url, title) if re.match(r"https?:|mailto:|#", url) else text

    def inline_math(self, body: str) -> str:
        return formula(body)

    def block_math(self, body: str) -> str:
        large = body.replace(r"\frac", r"\dfrac")  # as TeX does where there is room
        return f'<span class="display">{formula(large)}</span>'

    def latex_environment(self, name: str, body: str) -> str:
        return f'<span class="display">{_as_tex(body)}</span>'


@lru_cache(maxsize=1000)
def formula(tex: str) -> str:
    """A formula as an image with its TeX as alternative text; as readable TeX where matplotlib cannot set it."""
    from matplotlib.figure import Figure
    from matplotlib.mathtext import MathTextParser

    one_line = " ".join(tex.replace(r"\tfrac", r"\frac").replace(r"\lvert", "|").replace(r"\rvert", "|").split())
    try:
        width, height, depth, *_ = MathTextParser("path").parse(f"${one_line}$", dpi=_POINTS)
    except (ValueError, RuntimeError):
        return _as_tex(tex)
    width, height = width + 2, height + 2  # glyphs reach a little out of their boxes
    figure = Figure(figsize=(width / _POINTS, height / _POINTS))
    figure.text(1 / width, (depth + 1) / height, f"${one_line}$", fontsize=10)
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    encoded = base64.b64encode(drawn.getvalue().encode()).decode()
    size = f"width:{width / 10:.3f}em;height:{height / 10:.3f}em;vertical-align:{-(depth + 1) / 10:.3f}em"
    return f'<img class="formula" alt="{html.escape(tex)}" style="{size}" src="data:image/svg+xml;base64,{encoded}">'


def _as_tex(tex: str) -> str:
    return f'<code class="tex">{html.escape(tex.strip())}</code>'


def first_heading(cells: list[Any]) -> str:
    """The title of a notebook: the text of its first heading, "" if it has none."""
    for cell in cells:
        found = re.search(r"^#+\s*(.+?)\s*#*$", cell.source, re.MULTILINE) if cell.cell_type == "markdown" else None
        if found:
            return re.sub(r"[*`$]", "", found[1])
    return ""
