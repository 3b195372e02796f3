"""How is a report read in a terminal? Who and what could not be graded first, then the tasks, then the students."""

from __future__ import annotations

from collections.abc import Iterable

from .class_report import Item, Line, Report
from .similarity import Similarity

MOST_TOLD = 5  # messages per task; all of them are in the JSON


def as_text(found: Report, similarity: Similarity | None) -> str:
    """`similarity`: None where no answers are kept."""
    blocks = [
        _head(found),
        _section("Could not be read", (f"{line.student}: {_first(line.problem)}" for line in found.unreadable)),
        _tasks(found),
        _section("Flagged", (f"{line.student}: {'; '.join(line.flags)}" for line in found.submitted if line.flags)),
        _section("Scores", _scores(found)),
        _section("Alike beyond chance: a reason to look, not a verdict", _alike(similarity)),
    ]
    return "\n\n".join("\n".join(map(_printable, block)) for block in blocks if block) + "\n"


def _head(found: Report) -> list[str]:
    head = f"{found.assignment}: {len(found.submitted)} submissions of {len(found.lines)} students"
    if found.submitted:
        head += f", {found.mean_score:.2f} of {found.max_score:g} points on average"
    missing = ", ".join(line.student for line in found.not_handed_in)
    return [head, f"Not handed in: {missing}"] if missing else [head]


def _section(title: str, lines: Iterable[str]) -> list[str]:
    """A title and what stands under it; nothing at all where that is nothing."""
    indented = [f"  {line}" for line in lines]
    return [title, *indented] if indented else []


def _tasks(found: Report) -> list[str]:
    width = max(map(len, found.tasks), default=4)
    lines = [f"{'task':{width}}  answered  right  partly  missed  mean"]
    for item in found.items():
        lines += _item(item, width)
    return lines


def _item(item: Item, width: int) -> list[str]:
    counts = f"{item.answered:8}  {item.right:5}  {item.partly:6}  {item.missed:6}  {item.mean_share:4.0%}"
    told = [f"    {n} of {item.submissions} were told: {_first(message)}" for message, n in item.told]
    more = [f"    and {len(told) - MOST_TOLD} other messages"] if len(told) > MOST_TOLD else []
    return [f"{item.task:{width}}  {counts}", *told[:MOST_TOLD], *more]


def _scores(found: Report) -> list[str]:
    width = max((len(line.student) for line in found.submitted), default=0)
    return [f"{line.student:{width}}  {_score(line, found.max_score)}" for line in found.submitted]


def _score(line: Line, most: float) -> str:
    late = f", late: {line.late_penalty:g} points less" if line.late_penalty else ""
    return f"{line.score:>5g} / {most:g}{late}"


def _alike(similarity: Similarity | None) -> list[str]:
    if similarity is None:
        return ["No answers are kept in this course (.ckptlib): they were graded elsewhere."]
    return str(similarity).split("\n")


def _first(message: str) -> str:
    return message.splitlines()[0]


def _printable(line: str) -> str:
    """A student's error may hold what a terminal would obey."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
