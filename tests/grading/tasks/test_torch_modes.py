"""Does what a cell entered and never left change what torch computes for the grader?"""

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.autograd.graph import disable_saved_tensors_hooks, saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from ckptlib.grading.run.probes_in_kernel import sample
from ckptlib.grading.tasks.probes import as_new


class Doubled(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.ops.aten.mm.default else result


class Refusing(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise RuntimeError("no torch function today")


def fails(tensor):
    raise RuntimeError("nothing is saved here")


ENTERED = {
    "hooks that change what is saved": lambda: saved_tensors_hooks(torch.zeros_like, lambda t: t),
    "hooks that raise": lambda: saved_tensors_hooks(fails, fails),
    "hooks forbidden": lambda: disable_saved_tensors_hooks("no hooks today"),
    "fake tensors": FakeTensorMode,
    "a dispatch mode": Doubled,
    "a function mode": Refusing,
    "inference mode": torch.inference_mode,
}


def state():
    why = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message()
    hooks = why or torch._C._autograd._top_saved_tensors_default_hooks(False)
    return hooks, [*map(id, _get_current_dispatch_mode_stack())], torch._C._len_torch_function_stack()


@pytest.mark.parametrize("name", ENTERED)
def test_what_was_left_entered_is_not_taken_for_tampering(name):
    honest = sample(5)
    with ENTERED[name]():
        before = state()
        assert sample(5) == honest
        assert state() == before  # it is still entered: a later cell of the student may leave it


@pytest.mark.parametrize("name", ENTERED)
def test_what_an_answer_enters_is_gone_when_it_has_been_asked(name):
    before, inference = state(), torch.is_inference_mode_enabled()
    with as_new():
        entered = ENTERED[name]()
        entered.__enter__()
    if name == "inference mode":
        assert torch.is_inference_mode_enabled() == inference
        entered.__exit__(None, None, None)
    assert state() == before
