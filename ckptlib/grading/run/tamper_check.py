"""Has somebody tampered with this kernel? Ordinary things, computed in it and outside it, must come out the same."""

from __future__ import annotations

import hashlib
import sys
from types import ModuleType
from typing import Any

import numpy as np
import torch

from ..tasks import data, difference, inputs, probes, verdict
from ..tasks.data import encode
from ..tasks.inputs import Given
from ..tasks.probes import as_new


def sample(seed: int, asker: ModuleType) -> Any:
    """Encoded data from a secret seed that only an honest torch, numpy, Python and ckptlib compute.

    asker: the module `questions`, whose code takes part as well.
    """
    with as_new():  # an honest answer may have left torch in another state
        return _sample(Given(seed), asker)


def _sample(given: Given, asker: ModuleType) -> Any:
    ck = sys.modules["ckptlib"]  # under the name that notebooks use, where somebody may have put something else
    a, b = given.normal(5, 7), given.normal(7, 3).requires_grad_()
    size = given.integer(3, 40)
    x = given.normal(size, 4).requires_grad_()
    loss = (a @ b).relu().sum()
    (grad,) = torch.autograd.grad(loss, b)
    return encode(
        {
            "product": a @ b.detach(),
            "gradient": grad,
            "unequal": [a.equal(a + 1), torch.allclose(a, a + 1), bool(np.array_equal(a.numpy(), a.numpy() + 1))],
            "python": [len(range(size)), sum(range(size)), size == size + 1, isinstance(size, str), _asserts()],
            "builtins": [type(f).__name__ for f in (len, isinstance, abs, all, any, sum, id, hash, repr)],
            "grading": _digest([asker, sys.modules[__name__], data, difference, inputs, probes, verdict]),
            "saved": [ck.saved_tensors(lambda: x * x).nbytes, ck.saved_tensors(lambda: x * 3).nbytes],
        }
    )


def _digest(modules: list[ModuleType]) -> str:
    """Of all code that takes part in asking: a function that was replaced has other code."""
    text = []
    for module in modules:
        owners = [vars(module), *(vars(thing) for thing in vars(module).values() if isinstance(thing, type))]
        for owner in owners:
            for key, thing in sorted(owner.items()):
                code = getattr(thing, "__code__", None)
                if code is not None:  # a warning adds __warningregistry__ to a module: nobody's fault
                    text.append(f"{module.__name__} {key} {(code.co_code, code.co_names, code.co_filename[-20:])}")
    return hashlib.sha256("\n".join(text).encode()).hexdigest()


def _asserts() -> bool:
    try:
        assert len("ab") == 3
    except AssertionError:
        return True
    return False
