"""What runs in a student's kernel when it is tested? A probe on secret inputs, or a check of the kernel itself."""

from __future__ import annotations

import hashlib
import json
import sys
import types
from typing import Any

import numpy as np
import torch

from ..tasks import (
    answer_encoding,
    comparison,
    disabled_library,
    forbidden_calls,
    inputs,
    probes,
    side_effects,
    verdict,
)
from ..tasks.answer_encoding import encode
from ..tasks.inputs import Given
from ..tasks.probes import as_new
from . import kernel_copy

MIME = "application/vnd.ckptlib.answer+json"
# What takes part in testing, besides this module.
CODE = [
    answer_encoding,
    comparison,
    disabled_library,
    forbidden_calls,
    inputs,
    kernel_copy,
    probes,
    side_effects,
    verdict,
]
TAMPER_CHECK = "tamper check"  # is asked for in place of a task


def question(nonce: str, tasks_py: str, name: str, seeds: list[int], made: list[list] | None = None) -> str:
    """The code to send to the kernel. made: see `Task.ask`."""
    request = json.dumps({"nonce": nonce, "tasks": tasks_py, "name": name, "seeds": seeds, "made": made})
    return f"import ckptlib.grading.run.probes_in_kernel as _ckptlib_answers; _ckptlib_answers.respond({request!r})"


def respond(request: str) -> None:
    """Runs in the student's kernel. Its output is a claim, not a grade, because it is compared outside."""
    from IPython import get_ipython
    from IPython.display import display

    asked = json.loads(request)
    if asked["name"] == TAMPER_CHECK:
        answer: Any = {"cases": [sample(seed) for seed in asked["seeds"]]}
    else:
        namespace, module = get_ipython().user_ns, load_tasks(asked["tasks"])
        task = module.check.tasks[asked["name"]]
        if missing := [name for name in task.names if name not in namespace]:
            answer = {"missing": missing}
        else:

            def ask() -> list:
                return task.ask(tuple(namespace[name] for name in task.names), asked["seeds"], asked["made"])

            own = any(isinstance(thing, forbidden_calls.OwnCode) for thing in vars(module).values())
            answer = {"cases": kernel_copy.ask_alone(ask) if own else ask()}
    display({MIME: {"nonce": asked["nonce"], "data": answer}}, raw=True)


def load_tasks(source: str) -> types.ModuleType:
    """The module with the probes of a tasks.py, from its text: a submission's own copy of the file is never used."""
    module = types.ModuleType("tasks")
    module.__file__ = "tasks.py"
    exec(compile(source, "tasks.py", "exec", dont_inherit=True), module.__dict__)
    return module


# ---- has somebody tampered with this kernel? ------------------------------------------------------------------------
def sample(seed: int) -> Any:
    """Encoded data from a secret seed that only an honest torch, numpy, Python and ckptlib compute."""
    ck = sys.modules["ckptlib"]  # under the name that notebooks use, where somebody may have put something else
    with as_new():  # an honest answer may have left torch in another state
        given = Given(seed)
        a, b = given.normal(5, 7), given.normal(7, 3).requires_grad_()
        size = given.integer(3, 40)
        x = given.normal(size, 4).requires_grad_()
        found = {
            "product": a @ b.detach(),
            "gradient": torch.autograd.grad((a @ b).relu().sum(), b)[0],
            "unequal": [a.equal(a + 1), torch.allclose(a, a + 1), bool(np.array_equal(a.numpy(), a.numpy() + 1))],
            "python": [len(range(size)), sum(range(size)), size == size + 1, isinstance(size, str), _asserts()],
            "builtins": [type(f).__name__ for f in (len, isinstance, abs, all, any, sum, id, hash, repr)],
            "grading": _digest([sys.modules[__name__], *CODE]),
            "saved": [ck.saved_tensors(lambda: x * x).nbytes, ck.saved_tensors(lambda: x * 3).nbytes],
        }
        return encode(found)


def _digest(modules: list[types.ModuleType]) -> str:
    """Of all code that takes part in testing. A function that was replaced has different code."""
    text = []
    for module in modules:
        # Its own classes alone: a student may give torch's Tensor another __repr__.
        classes = [thing for thing in vars(module).values() if getattr(thing, "__module__", "") == module.__name__]
        owners = [vars(module), *(vars(thing) for thing in classes if isinstance(thing, type))]
        for owner in owners:
            for key, thing in sorted(owner.items()):
                code = getattr(thing, "__code__", None)
                if isinstance(thing, types.BuiltinFunctionType):
                    text.append(f"{module.__name__} {key} {thing.__module__} {thing.__name__}")
                elif isinstance(code, types.CodeType):  # not __warningregistry__, which any warning adds
                    text.append(f"{module.__name__} {key} {(code.co_code, code.co_names, code.co_filename[-20:])}")
    return hashlib.sha256("\n".join(text).encode()).hexdigest()


def _asserts() -> bool:
    try:
        assert len("ab") == 3
    except AssertionError:
        return True
    return False
