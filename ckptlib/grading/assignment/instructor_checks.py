"""How does an instructor check an answer on other inputs in a notebook? With the key, where the source is available."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

from ..tasks import probes
from ..tasks.verdict import Verdict


class Checks(probes.Checks):
    """The probes of one assignment: `check = Checks(__file__)` in its tasks.py."""

    def hidden_verdict(self, task: probes.Task, answers: tuple) -> Verdict:
        from .assignment import Assignment  # nbformat is slow to import, and students never need it here

        key = Assignment.beside(self.folder)
        seeds = [probes.VISIBLE_SEED + 1000 + case for case in range(task.cases)]
        task = key.tasks[task.name]
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # the output of solutions is not shown
            got, right = task.ask(answers, seeds), key.right(task.name, seeds)
            verdict = task.judge(got, right, [], task.tolerance)
            if verdict.right:  # the known mistakes take longer, so they are run only when needed
                return verdict
            return task.judge(got, right, key.known(task.name, seeds), task.tolerance)
