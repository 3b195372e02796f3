"""Which submissions are alike beyond chance? Fingerprints of their answers, compared through an inverted index.

Names that the answer itself chose, comments, docstrings, annotations, the order of statements and of terms are taken
out first: they are what a copyist changes. Anything that the stub, the reference or much of the class has says nothing
about two students, and is taken out too. A pair is a reason to look at two notebooks, not a verdict.
"""

from __future__ import annotations

import ast
import contextlib
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from ..notebooks.cell_text import parse

GRAM = 8  # tokens that one fingerprint covers: about two short statements
WINDOW = 4  # of each so many neighbouring fingerprints the smallest is kept (winnowing; Schleimer et al., 2003)
SHORT = 12  # fewer fingerprints, in an answer or in common, show nothing
ALIKE = 0.6  # the share of the shorter answer's fingerprints that a pair must have in common
MOST_SHOWN = 20  # pairs in a printed report
LONGEST = 20_000  # characters of one answer that are read


@dataclass(frozen=True)
class TaskMatch:
    """How alike two answers to one task are: `share` of the shorter one's `shared` of its fingerprints."""

    task: str
    share: float
    shared: int
    verbatim: bool  # equal except for spaces


@dataclass(frozen=True)
class Pair:
    """Two students and the tasks that are alike. `score`: the share over these tasks, 0 to 1."""

    students: tuple[str, str]
    score: float
    tasks: list[TaskMatch]

    @property
    def evidence(self) -> float:
        """For ranking: a long answer that is mostly alike weighs more than a short one that is entirely so."""
        return self.score * sum(match.shared for match in self.tasks)

    @property
    def where(self) -> str:
        return ", ".join(match.task + (" (word for word)" if match.verbatim else "") for match in self.tasks)


@dataclass(frozen=True)
class Similarity:
    """Pairs, the strongest first; tasks whose answers are too short to tell anything, with how many of them."""

    pairs: list[Pair] = field(default_factory=list)
    too_short: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        listed = self.pairs[:MOST_SHOWN]
        lines = [f"{' and '.join(pair.students)}: {pair.score:.0%} alike in {pair.where}" for pair in listed]
        if len(self.pairs) > MOST_SHOWN:
            lines.append(f"and {len(self.pairs) - MOST_SHOWN:,} other pairs")
        lines = lines or ["No two submissions are more alike than chance explains."]
        if self.too_short:
            told = ", ".join(f"{task} ({count} answers)" for task, count in self.too_short.items())
            lines.append(f"Too short to compare: {told}.")
        return "\n".join(lines)


def compare(answers: Mapping[str, Mapping[str, str]], common: Mapping[str, Sequence[str]] | None = None) -> Similarity:
    """answers: student -> task -> source text. common: task -> texts that everybody has: the stub, the reference."""
    found: dict[tuple[str, str], list[tuple[TaskMatch, int]]] = defaultdict(list)
    too_short = {}
    for task in dict.fromkeys(task for mine in answers.values() for task in mine):
        shared = (common or {}).get(task, ())
        texts = {student: mine[task] for student, mine in answers.items() if _answered(mine.get(task, ""), shared)}
        marks = {text: fingerprints(text) for text in {*texts.values()}}
        for pair, match, size in _matches(task, texts, _own(texts, marks, shared)):
            found[pair].append((match, size))
        if short := sum(len(marks[text]) < SHORT for text in texts.values()):
            too_short[task] = short
    pairs = []
    for students, matches in found.items():
        share = sum(match.shared for match, _ in matches) / sum(size for _, size in matches)
        pairs.append(Pair(students, share, [match for match, _ in matches]))
    return Similarity(sorted(pairs, key=lambda pair: (-pair.evidence, pair.students)), too_short)


def _answered(text: str, common: Sequence[str]) -> bool:
    return bool(text.strip()) and all(text.split() != usual.split() for usual in common)


def _own(texts: Mapping[str, str], marks: Mapping[str, set[int]], common: Sequence[str]) -> dict[str, frozenset[int]]:
    """Each student's fingerprints, without those that the common texts or an eighth of the class have."""
    usual = {mark for text in common for mark in fingerprints(text, window=1)}
    counts = Counter(mark for text in texts.values() for mark in marks[text])
    most = max(10, len(texts) // 8)
    own = {text: frozenset(m for m in all_ if m not in usual and counts[m] <= most) for text, all_ in marks.items()}
    return {student: own[text] for student, text in texts.items()}


def _matches(
    task: str, texts: Mapping[str, str], prints: Mapping[str, frozenset[int]]
) -> Iterable[tuple[tuple[str, str], TaskMatch, int]]:
    """Pairs that meet in the index often enough; pairs without a common fingerprint are never looked at."""
    index: dict[int, list[str]] = defaultdict(list)
    for student in sorted(prints):
        if len(prints[student]) >= SHORT:
            for mark in prints[student]:
                index[mark].append(student)
    shared = Counter(pair for students in index.values() for pair in combinations(students, 2))
    for (one, other), count in shared.items():
        size = min(len(prints[one]), len(prints[other]))
        if count >= max(SHORT, ALIKE * size):
            verbatim = texts[one].split() == texts[other].split()
            yield (one, other), TaskMatch(task, count / size, count, verbatim), size


# ---- one text -------------------------------------------------------------------------------------------------------
def fingerprints(source: str, window: int = WINDOW) -> set[int]:
    """Hashes of runs of GRAM tokens, thinned out: equal runs of GRAM + window - 1 tokens share at least one."""
    tokens = normalised(source)
    grams = [zlib.crc32("\0".join(tokens[i : i + GRAM]).encode()) for i in range(len(tokens) - GRAM + 1)]
    if len(grams) <= window:
        return {*grams}
    return {min(grams[i : i + window]) for i in range(len(grams) - window + 1)}


def normalised(source: str) -> list[str]:
    """The tokens of a text without what a copyist changes. Where it does not parse: its words, every name alike."""
    source = source[:LONGEST].encode(errors="replace").decode()
    with contextlib.suppress(RecursionError):
        if (tree := parse(source)) is not None:
            return _Normaliser(tree).tokens(tree)
    words = re.findall(r"#.*|[^\W\d]\w*|\d[\w.]*|[^\w\s]", source)
    return ["name" if word.isidentifier() else word for word in words if word[0] != "#"]


class _Normaliser:
    """Turns a tree into tokens: one per node, names of the answer's own as "own", all else by its name."""

    def __init__(self, tree: ast.AST):
        self.own = {name for node in ast.walk(tree) for name in _bound(node)}

    def tokens(self, node: ast.AST) -> list[str]:
        return [self._token(node), *(token for part in self._parts(node) for token in part)]

    def _token(self, node: ast.AST) -> str:
        match node:
            case ast.Name(id=name) | ast.arg(arg=name):
                return "own" if name in self.own else name
            case ast.Attribute(attr=name) | ast.keyword(arg=name):
                return f".{name}"
            case ast.Constant(value=value):
                return "text" if isinstance(value, (str, bytes)) else repr(value)
        return type(node).__name__

    def _parts(self, node: ast.AST) -> list[list[str]]:
        parts: list[list[str]] = []
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "ctx", "type_ignores"):
                continue
            nodes = [child for child in (value if isinstance(value, list) else [value]) if isinstance(child, ast.AST)]
            made = [self.tokens(child) for child in nodes if not _says_nothing(child)]
            # The order of statements, keywords and terms is what changes first in a copy.
            parts += sorted(made) if name in ("body", "orelse", "keywords") or isinstance(node, ast.BoolOp) else made
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
            parts.sort()
        return parts


def _bound(node: ast.AST) -> list[str]:
    """The names that a node gives to something: free to be any other."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            return [name]
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.alias(name=name, asname=other):
            return [other] if other and other != name else []
    return []


def _says_nothing(node: ast.AST) -> bool:
    """Docstrings, other lone constants, and `pass`."""
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
