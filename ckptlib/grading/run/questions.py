"""What does a kernel do when it is asked for its answers? It runs the probe on secret inputs and shows the data."""

from __future__ import annotations

import json
import sys
import types
from typing import Any

MIME = "application/vnd.ckptlib.answer+json"
TAMPER_CHECK = "tamper check"  # is asked for in place of a task


def question(nonce: str, tasks_py: str, name: str, seeds: list[int]) -> str:
    """The code to send to the kernel."""
    request = json.dumps({"nonce": nonce, "tasks": tasks_py, "name": name, "seeds": seeds})
    return f"import ckptlib.grading.run.questions as _ckptlib_asking; _ckptlib_asking.respond({request!r})"


def respond(request: str) -> None:
    """Runs in the student's kernel. Whatever it shows is a claim, not a grade: it is compared outside."""
    from IPython import get_ipython
    from IPython.display import display

    asked = json.loads(request)
    data = _tamper_check(asked["seeds"]) if asked["name"] == TAMPER_CHECK else _data(asked, get_ipython().user_ns)
    display({MIME: {"nonce": asked["nonce"], "data": data}}, raw=True)


def _data(asked: dict, namespace: dict[str, Any]) -> Any:
    tasks = load_tasks(asked["tasks"])
    task = tasks[asked["name"]]
    if missing := [name for name in task.names if name not in namespace]:
        return {"missing": missing}
    return {"cases": task.ask(tuple(namespace[name] for name in task.names), asked["seeds"])}


def load_tasks(source: str) -> dict:
    """The probes in a tasks.py, from its text: a submission's own copy of the file is never used."""
    module = types.ModuleType("tasks")
    module.__file__ = "tasks.py"
    exec(compile(source, "tasks.py", "exec", dont_inherit=True), module.__dict__)
    return module.check.tasks


def _tamper_check(seeds: list[int]) -> Any:
    from .tamper_check import sample

    return {"cases": [sample(seed, sys.modules[__name__]) for seed in seeds]}
