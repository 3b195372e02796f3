"""Does a student whose answer could not be asked read a sentence, whatever the reason was?"""

import inspect
import re

import pytest

from ckptlib.grading.one_submission import grade_one
from ckptlib.grading.run import cell_timeout, run_submission
from ckptlib.grading.sandbox import usage_watchdog

# The words as they stand in the code that says them: a new one needs its sentence.
SAID = {
    word
    for module, says in (
        (cell_timeout, r'_stop\("([^"]+)"|"died", "([^"]+)"|reason = "(\w+)" if .* else "(\w+)"'),
        (usage_watchdog, r'_kill\("([^"]+)"'),
        (run_submission, r'_no_answer\("([^"]+)"(?: if .* else "([^"]+)")?'),
    )
    for found in re.finditer(says, inspect.getsource(module))
    for word in found.groups()
    if word
}


def test_the_words_were_found():
    assert {"timeout", "output", "garbage", "closed", "died", "memory", "sockets", "wall time", "error"} <= SAID
    assert run_submission._NOT_ITS_FAULT <= SAID


@pytest.mark.parametrize("word", sorted(SAID))
def test_every_reason_is_a_sentence(word):
    said = grade_one._answer({"answer": None, "reason": word})["reason"]
    assert said != f"could not be tested: {word}" and len(said.split()) >= 5


def test_an_answer_that_prints_too_much_is_told_so():
    assert "printed too much" in grade_one._answer({"answer": None, "reason": "output"})["reason"]
