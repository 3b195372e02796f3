"""What do chapters need? Their first line, the source of the library on the page, and a GPU if there is one."""

from __future__ import annotations

import inspect
import os
import random
import textwrap
import warnings
from typing import Any

from ..errors import require

ALIKE = "CKPTLIB_BOOK_ALIKE"  # environment variable: outputs are for the repository, the same on every machine


def setup(seed: int = 0) -> None:
    """Seed all random numbers, and draw figures as SVG in the book's style. The first line of every chapter."""
    require("book", "ckptlib.book")
    import matplotlib
    import numpy
    import torch
    from IPython import get_ipython

    # Said on Python 3.13.0 alone, of how fast compiled programs start: it would stand among a chapter's outputs.
    warnings.filterwarnings("ignore", "Guards may run slower", RuntimeWarning)
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)
    matplotlib.rcParams["svg.hashsalt"] = "remember-or-recompute"  # ids inside an SVG are otherwise new in every run
    matplotlib.rcParams["svg.fonttype"] = "none"
    if shell := get_ipython():
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        shell.run_line_magic("matplotlib", "inline")
        set_matplotlib_formats("svg", metadata={"Date": None})


def show(*things: Any) -> Any:
    """Print the real source of functions or classes of the library: the book never keeps a copy."""
    from IPython.display import Markdown

    sources = [textwrap.dedent(inspect.getsource(inspect.unwrap(thing))).rstrip() for thing in things]
    return Markdown("\n".join(f"```python\n{source}\n```" for source in sources))


def on_this_machine(text: str) -> None:
    """Print what a clock said, for the reader who runs the cell. Committed outputs leave it out: it always differs."""
    if ALIKE not in os.environ:
        print(text)


def gpu() -> Any:
    """The accelerator whose peak memory can be asked for, or None. Apple's MPS is one that does not count it."""
    import torch

    if not torch.accelerator.is_available():
        return None
    try:
        torch.accelerator.reset_peak_memory_stats()
    except RuntimeError:  # also NotImplementedError
        return None
    return torch.accelerator.current_accelerator()
