"""How do the book's figures look? Colours, hatches, labels that do not collide, and the same SVG bytes every time."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline
from matplotlib.textpath import text_to_path

from ..errors import CkptError

if TYPE_CHECKING:
    from matplotlib.typing import ColorType, RcKeyType


class Look(NamedTuple):
    colour: str
    hatch: str = ""
    edge: str = "white"  # also the colour of the hatch
    ink: str = "black"  # of text on it


# The eight colours of Okabe and Ito, each with a hatch, so that neighbours differ in grey as well.
# In the order in which they are stacked. The category that changes least is at the bottom.
LOOKS = {
    "parameter": Look("#0072B2", "\\\\\\\\", ink="white"),
    "buffer": Look("#000000", ink="white"),
    "optimizer state": Look("#CC79A7", "+++"),
    "workspace": Look("#E69F00", "xxx"),
    "input": Look("#56B4E9", "---"),
    "gradient": Look("#009E73", "////"),
    "activation": Look("#D55E00"),
    "temporary": Look("#F0E442", "\\\\\\", "#B8AB00"),
    "untagged": Look("#8C8C8C", "||||"),
    "free": Look("#F7F7F7", "////", "#C4C4C4"),
}
SIZE, SMALL = 8.5, 7.5  # points
WIDTH = 7.6  # inches: 730 pixels in JupyterLab at 100 %
LINE = 0.17  # inches from one line of text to the next
PITCH = 0.24  # inches from one row of boxes to the next
_RC: dict[RcKeyType, object] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so a label is as wide on every machine
    "font.size": SIZE,
    "axes.labelsize": SIZE,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.7,
    "svg.fonttype": "none",  # text stays text, so that it is small, searchable and can be read aloud
    "svg.hashsalt": "ckptlib",
}


@contextmanager
def style() -> Iterator[None]:
    """Draw with the book's settings inside the block; the reader's own return after it. You may use it as well."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_RC)
        yield


def svg(figure: Figure, alt: str) -> str:
    """The figure as SVG text, the same for the same figure, with `alt` for those who cannot see it."""
    with style(), io.StringIO() as file:
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        text = file.getvalue()
    text = re.sub(r' d="([^"]*)"', lambda d: f' d="{_short(d[1])}"', text[text.index("<svg") :])
    text = re.sub(r' transform="rotate\(-0[^"]*"|(?<=\n) +', "", text)
    text = re.sub(r' (?:x|y|width|height|transform)="[^"]*"', lambda a: re.sub(r"-?\d+\.\d+", _hundredths, a[0]), text)
    text = _renamed(text)
    text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")  # Verdana is as wide
    title = alt.split(". ")[0].rstrip(".")
    return text.replace(">", f' role="img">\n<title>{escape(title)}</title>\n<desc>{escape(alt)}</desc>', 1)


def _short(path: str) -> str:
    """The same path in a third of the characters, with hundredths of a point, and with H and V for straight lines.

    >>> _short("M 1.23456 2 \\nL 7 2 \\nL 7 9.5 \\nz\\n")
    'M1.23 2H7V9.5z'
    """
    words, last = [], ["", ""]
    for command, numbers in re.findall("([MLQCz])([^MLQCz]*)", path):
        point = re.sub(r"\S+", _hundredths, numbers).split()
        if command == "L" and point[0] == last[0]:
            words.append(f"V{point[1]}")
        elif command == "L" and point[1] == last[1]:
            words.append(f"H{point[0]}")
        else:
            words.append(command + " ".join(point))
        last = point[-2:] or ["", ""]
    return "".join(words)


def _hundredths(number: re.Match) -> str:
    return re.sub(r"\.?0+$", "", f"{round(float(number[0]), 2) + 0:.2f}")  # + 0: of -0 and 0, one


def _renamed(text: str) -> str:
    """Ids that depend on the text alone. Matplotlib's are hashes of unrounded numbers, whose last bits may differ."""
    ids = dict.fromkeys(re.findall(r' id="([a-zA-Z][0-9a-f]{10})"', text))
    for number, old in enumerate(ids):
        text = text.replace(old, f"@{number}@")
    salt = sha256(text.encode()).hexdigest()[:8]
    return re.sub(r"@(\d+)@", rf"i{salt}-\1", text)


@dataclass(repr=False)
class Drawing:
    """A matplotlib figure and its description in words. Jupyter shows the SVG, or the words if it is not trusted."""

    figure: Figure
    alt: str

    def svg(self) -> str:
        return svg(self.figure, self.alt)

    def save(self, path: str | Path) -> None:
        """Write the figure as SVG, or in the format that the file's name ends in."""
        if Path(path).suffix == ".svg":
            Path(path).write_text(self.svg(), encoding="utf-8", newline="\n")
        else:
            with style():
                self.figure.savefig(path, dpi=192)

    def __repr__(self) -> str:
        return self.alt

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"image/svg+xml": self.svg(), "text/plain": self.alt}


def look(category: str) -> Look:
    if category not in LOOKS:
        raise CkptError(f"no colour for category {category!r}: expected one of {', '.join(LOOKS)}")
    return LOOKS[category]


def ink(colour: str) -> str:
    """The colour, darkened until small text in it can be read on white: WCAG asks for a contrast of 4.5.

    >>> ink("#0072B2"), ink("#E69F00")
    ('#0072b2', '#9d6d00')
    """
    rgb = np.array(to_rgb(colour))
    while contrast(to_hex(tuple(rgb))) < 4.5:
        rgb *= 0.99
    return to_hex(tuple(rgb))


def contrast(colour: ColorType, ground: ColorType = "white") -> float:
    """Of two colours, by WCAG: 1 for the same, 21 for black on white."""
    dark, bright = sorted((_light(colour), _light(ground)))
    return (bright + 0.05) / (dark + 0.05)


def _light(colour: ColorType) -> float:
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in to_rgb(colour)]
    return float(np.dot((0.2126, 0.7152, 0.0722), linear))


def sheet(height: float) -> tuple[Figure, Axes]:
    """An empty figure, and invisible axes all over it whose unit is the inch: for labels and keys."""
    figure = Figure(figsize=(WIDTH, height), dpi=96)
    ax = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(0, height), zorder=2)
    ax.set_axis_off()
    ax.patch.set_visible(False)
    return figure, ax


def axes_at(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    w, h = figure.get_size_inches()
    return figure.add_axes((left / w, bottom / h, width / w, height / h))


def fill(ax: Axes, what: str | Look, outline: Outline, **options: object) -> None:
    """Fill in the colour and hatch of a look, or of a category, whose name is then the artist's label."""
    paint, label = (look(what), what) if isinstance(what, str) else (what, "")
    options = {"fc": paint.colour, "ec": paint.edge, "hatch": paint.hatch, "linewidth": 0, "label": label, **options}
    ax.add_artist(PathPatch(outline, **options))


def boxes(*corners: tuple[float, float, float, float]) -> Outline:
    """One outline of many rectangles (left, bottom, right, top). Its SVG is a tenth of that of many patches."""
    polygons = [[(x, y), (x1, y), (x1, y1), (x, y1)] for x, y, x1, y1 in corners]
    return Outline.make_compound_path_from_polys(np.array(polygons))


@lru_cache(maxsize=4096)
def text_width(text: str, size: float = SIZE) -> float:
    """In inches. It comes from the font, without a renderer, so it is the same everywhere."""
    return (
        text_to_path.get_text_width_height_descent(text, FontProperties(family="DejaVu Sans", size=size), False)[0] / 72
    )


def spread(wanted: Sequence[float], sizes: Sequence[float], low: float, high: float) -> list[float]:
    """Centres as near to the wanted ones as it takes for labels of these sizes not to overlap.

    >>> spread([5, 5, 9.9], [1, 1, 1], 0, 10)
    [5, 6.0, 9.5]
    """
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    centres = list(wanted)
    edge = low
    for i in order:
        centres[i] = max(centres[i], edge + sizes[i] / 2)
        edge = centres[i] + sizes[i] / 2
    edge = high
    for i in reversed(order):
        centres[i] = min(centres[i], edge - sizes[i] / 2)
        edge = centres[i] - sizes[i] / 2
    return centres


def swatch(ax: Axes, x: float, y: float, category: str, text: str) -> None:
    """A small box in the category's look, and text: ax is a sheet's, (x, y) the middle of the left edge."""
    fill(ax, category, boxes((x, y - 0.05, x + 0.16, y + 0.05)))
    ax.text(x + 0.22, y, text, va="center_baseline")


def key(entries: Sequence[tuple[str, str]]) -> list[list[tuple[float, str, str]]]:
    """Lines of (x, category, text) that fit the sheet's width."""
    lines: list[list[tuple[float, str, str]]] = [[]]
    x = 0.1
    for category, text in entries:
        width = 0.22 + text_width(text)
        if lines[-1] and x + width > WIDTH - 0.1:
            lines.append([])
            x = 0.1
        lines[-1].append((x, category, text))
        x += width + 0.2
    return lines


def draw_key(ax: Axes, top: float, lines: Sequence[Sequence[tuple[float, str, str]]]) -> None:
    for i, line in enumerate(lines):
        for x, category, text in line:
            swatch(ax, x, top - (i + 0.5) * LINE, category, text)


def label_inside(ax: Axes, box: Sequence[float], category: str, texts: Sequence[str], inch: float) -> None:
    """The first of the texts that fits into the box (left, bottom, right, top), if one does; `inch` in units of x."""
    left, bottom, right, top = box
    room = (right - left) / inch - 0.1
    fitting = [text for text in texts if room > 0.2 and text_width(text, SMALL) < room]
    if fitting:
        paint = look(category)
        ground = {"fc": paint.colour, "ec": "none", "pad": 0.8} if paint.hatch else None
        options: dict[str, Any] = {"fontsize": SMALL, "color": paint.ink, "bbox": ground, "zorder": 5}
        ax.text((left + right) / 2, (bottom + top) / 2, fitting[0], ha="center", va="center_baseline", **options)


def label_rows(ax: Axes, labels: Sequence[str]) -> None:
    """Rows from the top down at y = 0, 1, 2 and so on, each with its label on the left."""
    ax.set(ylim=(len(labels) - 0.5, -0.5), yticks=range(len(labels)), yticklabels=labels)
    ax.tick_params(axis="y", length=0, labelsize=SIZE)
