"""Has somebody tampered with this kernel? Ordinary things, computed in it and outside it, must come out the same."""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import numpy as np
import torch

from . import asking, verdict  # noqa: F401 - their code is looked at, too
from .data import encode
from .given import Given
from .probes import as_new


def sing(seed: int) -> Any:
    """A song that only an honest torch, numpy, Python and ckptlib can sing: encoded data from a secret seed."""
    with as_new():  # an honest answer may have left torch in another state
        return _song(Given(seed))


def _song(given: Given) -> Any:
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
            "grading": _digest(),
            "saved": [ck.saved_tensors(lambda: x * x).nbytes, ck.saved_tensors(lambda: x * 3).nbytes],
        }
    )


def _digest() -> str:
    """Of all code that takes part in asking: a function that was replaced has other code."""
    text = []
    for name in ("asking", "canary", "data", "difference", "given", "probes", "verdict"):
        module = vars(sys.modules[f"{__package__}.{name}"])
        owners = [module, *(vars(thing) for thing in module.values() if isinstance(thing, type))]
        for owner in owners:
            for key, thing in sorted(owner.items()):
                code = getattr(thing, "__code__", None)
                if code is not None:  # a warning adds __warningregistry__ to a module: nobody's fault
                    text.append(f"{name} {key} {(code.co_code, code.co_names, code.co_filename[-20:])}")
    return hashlib.sha256("\n".join(text).encode()).hexdigest()


def _asserts() -> bool:
    try:
        assert len("ab") == 3
    except AssertionError:
        return True
    return False
