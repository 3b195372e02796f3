"""Where a task asks for the student's own code, does the library's earn nothing, whatever it is called?"""

import ctypes
import sys
from contextlib import suppress
from types import ModuleType

import pytest
import torch
from answers import ROOT, Answer, titled
from test_answers import judged

from ckptlib.grading.tasks.forbidden_calls import NotYourOwn, OwnCode

BORROWED = [
    Answer(*path.stem.split("-"), False, title, code)
    for path in sorted((ROOT / "tests" / "attacks" / "borrowing").glob("*.py"))
    for title, code in titled(path)
]


@pytest.mark.slow
@pytest.mark.parametrize("answer", BORROWED, ids=str)
def test_borrowed_code_earns_nothing(answer):
    verdict = judged(answer)
    assert verdict.share == 0, verdict.message


@pytest.fixture
def lent(tmp_path):
    """A module whose functions may not be called."""
    (tmp_path / "lent.py").write_text("def double(x):\n    return 2 * x\n\n\n")
    module = ModuleType("lent")
    module.__file__ = str(tmp_path / "lent.py")
    exec(compile((tmp_path / "lent.py").read_text(), module.__file__, "exec"), vars(module))
    return module


def test_what_is_your_own_is_left_alone(lent):
    before, own = sys.getprofile(), OwnCode(lent, says="no")

    def double(x):
        return x + x

    with own.only():
        assert double(21) == 42
    with pytest.raises(ZeroDivisionError), own.only():
        double(1 / 0)
    assert sys.getprofile() is before


def test_a_call_is_stopped_and_told_even_if_that_is_caught(lent):
    own = OwnCode(lent, says="that was lent")
    for call in (lambda: lent.double(1), lambda: list(map(lent.double, [1]))):
        with pytest.raises(NotYourOwn, match="that was lent"), own.only():
            call()
        with pytest.raises(NotYourOwn, match="that was lent"), own.only(), suppress(NotYourOwn):
            call()


def test_c_is_called_by_torch_alone(lent):
    """To count GPUs, torch calls C through ctypes in a CUDA build, and it counts them when random numbers are saved."""
    own = OwnCode(lent, says="no")
    pretended: dict = {"__name__": "torch.cuda"}
    inside: dict = {}
    text = "def load():\n    import ctypes\n    return ctypes.CDLL(None)\n"
    exec(compile(text, torch.cuda.__file__, "exec"), pretended)
    exec(compile(text, torch.cuda.__file__, "exec"), vars(torch.cuda), inside)
    for load in (lambda: ctypes.CDLL(None), pretended["load"], inside["load"]):
        with pytest.raises(NotYourOwn, match="ctypes.dlopen is refused"), own.only():
            load()
    with own.only(), suppress(OSError):  # where there is no driver
        torch.cuda._raw_device_count_nvml()
