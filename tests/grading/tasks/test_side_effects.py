"""Is an answer that changes what is not its own found out, and does an error in one part leave the others?"""

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_pre_hook

from ckptlib.grading.tasks.comparison import Tolerance
from ckptlib.grading.tasks.probes import Checks
from ckptlib.torch_internals import global_forward_pre_hooks


@pytest.fixture
def check(tmp_path):
    check = Checks(str(tmp_path / "tasks.py"))

    @check.task(points=4, parts=True)
    def answer(given, answer):
        return {
            "tensor": lambda: answer(torch.ones(2)),
            "list": lambda: answer([1, 2, 3]),
            "module": lambda: answer(nn.Linear(2, 2)),
            "nested": lambda: answer({"a": [torch.ones(1)], "b": {1}}),
        }

    @check.task(points=1, changes=True)
    def may(given, may):
        return may([3])

    return check


def verdict(check, answer):
    task = check.answer
    right = task.ask((lambda value: 1,), [1, 2])
    return task.judge(task.ask((answer,), [1, 2]), right, [], Tolerance())


CHANGES = {
    "a tensor": lambda value: value.mul_(2) if torch.is_tensor(value) else None,
    "a list": lambda value: value.sort(reverse=True) if isinstance(value, list) else None,
    "a list in a dict": lambda value: value["a"].append(1) if isinstance(value, dict) else None,
    "a tensor in a dict": lambda value: value["a"][0].add_(1) if isinstance(value, dict) else None,
    "a set in a dict": lambda value: value["b"].add(2) if isinstance(value, dict) else None,
    "a module's mode": lambda value: value.eval() if isinstance(value, nn.Module) else None,
    "a module's hooks": lambda value: (
        value.register_forward_hook(lambda *seen: None) if isinstance(value, nn.Module) else None
    ),
    "what is frozen": lambda value: value.requires_grad_(False) if isinstance(value, nn.Module) else None,
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_argument_that_was_changed_costs_a_part(check, change):
    def answer(value):
        CHANGES[change](value)
        return 1

    found = verdict(check, answer)
    assert found.share == 0.75 and "answer has changed its argument `value`" in found.message


LEAVES = {
    "hooks": lambda: saved_tensors_hooks(lambda t: t, lambda t: t).__enter__(),
    "dtype": lambda: torch.set_default_dtype(torch.float64),
    "grad mode": lambda: torch.set_grad_enabled(False),
    "a hook on all modules": lambda: register_module_forward_pre_hook(lambda *seen: None),
}


@pytest.fixture
def no_hooks_on_all_modules():
    yield
    global_forward_pre_hooks.clear()


@pytest.mark.usefixtures("no_hooks_on_all_modules")
@pytest.mark.parametrize("left", LEAVES)
def test_what_is_left_behind_costs_a_part(check, left):
    def answer(value):
        LEAVES[left]()
        return 1

    found = verdict(check, answer)
    assert found.share == 0.75 and "as you found it" in found.message


def test_what_is_the_answers_own_may_change(check):
    def answer(value):
        if isinstance(value, nn.Module):
            value(torch.ones(1, 2)).sum().backward()
        torch.rand(3)
        return 1

    assert verdict(check, answer).right
    assert check.may.ask((lambda given: given.append(1) or 1,), [1]) == [1]


def test_an_error_in_one_part_costs_that_part(check):
    found = verdict(check, lambda value: 1 if len(value) else 0)
    assert found.share == 0.75 and found.message.startswith("module: raised TypeError")


def test_no_answer_at_all_is_said_once(check):
    def blank(value):
        raise NotImplementedError

    assert verdict(check, blank).message == "not answered yet"


def test_a_wrong_answer_is_told_what_is_wrong_with_it_and_not_what_it_changed(check):
    def answer(value):
        if isinstance(value, list):
            value.clear()
        return 2

    assert "exactly twice" in verdict(check, answer).message
