"""Which samples break which clause of an assignment's contracts, and which cases find them out?

python tests/grading/clauses.py                    every assignment
python tests/grading/clauses.py 07_planning        one

A clause is an item of a list in a task's text, because what may be broken stands in such a list. A sample names the
words of the contract that it breaks, below its title:

    # %% the piece of the message that it must be told
    # breaks: each storage once

The cases are not declared. The sample is asked, and what differs from the reference's data is named. An item of the
list in the assignment's first cell holds in every task, so a sample of any task may break it.
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import NamedTuple

from answers import ASSIGNMENTS, Answer, answers
from test_answers import assignment, data_of, expected

from ckptlib.grading.assignment.assignment import Assignment
from ckptlib.grading.tasks.answer_encoding import decode
from ckptlib.grading.tasks.comparison import Tolerance, difference

EVERYWHERE = "every task"
BREAKS = re.compile(r"^# breaks: (.+)$", re.MULTILINE)


class Clause(NamedTuple):
    task: str
    text: str


def texts(known: Assignment) -> dict[str, str]:
    """task -> the Markdown above its answer's cell. The first cell is what holds for every task."""
    found, cells = {}, iter(known.source.cells)
    found[EVERYWHERE] = next(cells).source
    above: list[str] = []
    for cell in cells:
        if cell.cell_type == "markdown":
            above.append(cell.source)
        elif cell.id in known.graded:
            found[known.graded[cell.id]] = "\n\n".join(above)
            above = []
    return found


def clauses(known: Assignment) -> list[Clause]:
    """Every item of every list, but for the choices of a quiz."""
    found = []
    for task, text in texts(known).items():
        if task in known.tasks and not known.tasks[task].has_visible_answer:
            continue
        items = re.findall(
            r"^ *- (.+(?:\n {2,}(?!- ).+)*)", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE
        )
        found += [Clause(task, " ".join(item.split())) for item in items]
    return found


def broken_by(answer: Answer) -> list[str]:
    return BREAKS.findall(answer.code)


def kept_by(clause: Clause, samples: list[Answer]) -> list[Answer]:
    """The samples that break this clause."""
    mine = [a for a in samples if clause.task in (a.task, EVERYWHERE)]
    return [a for a in mine if any(words in clause.text for words in broken_by(a))]


def failed_cases(answer: Answer) -> list[str]:
    """What of the answer's data differs from the reference's: keys, where a probe's data has them."""
    task = assignment(answer.assignment).tasks[answer.task]
    right, _ = expected(answer.assignment, answer.task)
    found: dict[str, None] = {}
    for mine, theirs in zip(map(decode, data_of(answer)), map(decode, right), strict=True):
        found |= dict.fromkeys(_differing(mine, theirs, task.tolerance))
    return list(found)


def _differing(mine: object, theirs: object, tolerance: Tolerance) -> list[str]:
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return [key for key, value in theirs.items() if key not in mine or difference(mine[key], value, tolerance)]
    return ["everything"] if isinstance(theirs, dict) else ["the result"] if difference(mine, theirs, tolerance) else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("assignments", nargs="*", metavar="assignment")
    for name in parser.parse_args().assignments or ASSIGNMENTS:
        samples, without = [a for a in answers(name) if not a.right], 0
        found = clauses(assignment(name))
        print(f"\n# {name}")
        for task in dict.fromkeys(clause.task for clause in found):
            print(f"\n## {task}")
            for clause in (c for c in found if c.task == task):
                print(f"- {clause.text}")
                for answer in (breaking := kept_by(clause, samples)):
                    where = f"{answer.task}: " if task == EVERYWHERE else ""
                    print(f"    {where}“{answer.title[:70]}” fails {', '.join(failed_cases(answer))}")
                without += not breaking
        print(f"\n{len(found)} clauses, {without} without a sample that breaks them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
