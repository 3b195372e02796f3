"""What does a cell's text say? The names it defines, and whether two texts are the same. Nothing is ever executed."""

from __future__ import annotations

import ast
import re
import warnings

MAX_PARSED = 50_000  # characters: a syntax tree takes some hundred bytes for each
MAX_SEARCHED = 500_000
MIN_LINE = 8  # letters: shorter lines ("else:") say nothing about where a text comes from
PYTHON_MAGICS = ("time", "timeit", "capture", "prun", "python", "python3", "memit", "mprun", "lprun")

_WORD = re.compile(r"[^\W\d]\w*")
_DEFINITION = re.compile(r"^(?:async +)?(?:def|class) +(\w+)", re.MULTILINE)
_ASSIGNMENT = re.compile(r"^([A-Za-z_]\w*(?: *, *[A-Za-z_]\w*)*) *(?::[^=\n]*)?=(?!=)", re.MULTILINE)
_LINE_MAGIC = re.compile(r"^[ \t]*[%!?].*$", re.MULTILINE)
# A student's line of 20,000 spaces is matched with no clock. `++` and `*+` never give back what they took: where two
# neighbours may both take a space, every way to share the spaces out would be tried.
_COLAB_IMPORT = r"(?:from ++google\.colab[\w.]*+ ++import [\w., *]++|import ++google\.colab[\w., ]*+)"
_COLAB_CALL = r"(?:(?:\w+ *= *)?(?:drive\.(?:mount|flush_and_unmount)|files\.(?:upload|download))\([^()\n]*\))"
_COLAB_PART = re.compile(rf"(?:{_COLAB_IMPORT}|{_COLAB_CALL})\s*+")


def squash(text: str) -> str:
    """The text without what editors change by themselves: blanks at line ends, empty lines at both ends."""
    return "\n".join(line.rstrip() for line in text.strip().split("\n"))


def printable(text: str, instead: str = "?") -> str:
    """A student's text made fit for one line of a message or a terminal, whose cursor it must not move."""
    return "".join(letter if letter.isprintable() else instead for letter in text)


def lines(text: str) -> set[str]:
    """The lines that are long enough to recognise a text by."""
    return {line.strip() for line in text.split("\n") if len(line.strip()) >= MIN_LINE}


def words(text: str) -> set[str]:
    """Everything in it that could be a name."""
    return set(_WORD.findall(text))


def parse(text: str) -> ast.Module | None:
    """The syntax tree of a cell, magics left out; None if it is not Python, or too long to be worth it."""
    if len(text) > MAX_PARSED or _foreign(text):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" in a student's string is not our warning
            return ast.parse(_LINE_MAGIC.sub("", text).strip("\n"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def defined(text: str, imports: bool = True) -> frozenset[str]:
    """The global names that a cell gives a value.

    >>> sorted(defined("%%time\\nq1, q2 = 1, 2\\nif q1:\\n    def f(x):\\n        y = x"))
    ['f', 'q1', 'q2']
    """
    tree = parse(text)
    if tree is not None:
        return frozenset(_bound(tree, imports))
    if _foreign(text):
        return frozenset()
    text = text[:MAX_SEARCHED]
    assigned = {name.strip() for match in _ASSIGNMENT.finditer(text) for name in match[1].split(",")}
    return frozenset(assigned.union(_DEFINITION.findall(text)))


def read(text: str) -> frozenset[str]:
    """The names that a cell reads while it runs; what is inside of a function it reads only when that is called.

    >>> sorted(read("area = helper\\ndef f(x):\\n    return other(x)"))
    ['helper']
    """
    names: set[str] = set()
    todo: list[ast.AST] = [parse(text) or ast.Module([], [])]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            todo.extend(ast.iter_child_nodes(node))
    return frozenset(names)


def without_colab(text: str) -> str:
    """Comment out the lines that only Colab can run.

    Indented ones stay: they stand under `try:` or `if in_colab:`, and the student has thought of other places.
    """
    if "google.colab" not in text and "drive." not in text and "files." not in text:
        return text
    return "\n".join(f"# only in Colab: {line}" if _only_colab(line) else line for line in text.split("\n"))


def _only_colab(line: str) -> bool:
    parts = [part for part in re.split(r";\s*", line.split("#")[0].rstrip()) if part]
    return bool(parts) and all(_COLAB_PART.fullmatch(part) for part in parts)


def _foreign(text: str) -> bool:
    """Is it a cell of another language, or one that is written to a file?"""
    magic = re.match(r"\s*%%(\w+)", text)
    return magic is not None and magic[1] not in PYTHON_MAGICS


def _bound(tree: ast.Module, imports: bool) -> set[str]:
    names: set[str] = set()
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            continue  # what is bound inside is not global
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom) and imports:
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        if not isinstance(node, ast.AugAssign):  # `total += 1` needs a total from elsewhere
            todo.extend(ast.iter_child_nodes(node))
    return names
