"""Does a sample answer break each clause of each contract, and are the contracts' examples true?

`python tests/grading/clauses.py 01_activation_memory` lists the clauses with their samples, and the cases that fail.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re

import pytest
from answers import ASSIGNMENTS, answers
from clauses import EVERYWHERE, broken_by, clauses, kept_by, texts
from test_answers import assignment


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_each_clause_of_a_contract_has_a_sample_that_breaks_it(name):
    known, samples = assignment(name), [answer for answer in answers(name) if not answer.right]
    found = clauses(known)
    asked = {task.name for task in known.tasks.values() if task.has_visible_answer}
    assert {clause.task for clause in found} == {EVERYWHERE, *asked}
    assert [clause for clause in found if not kept_by(clause, samples)] == []


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_a_sample_breaks_words_of_its_contract(name):
    """A clause that was rewritten takes its samples with it."""
    found = clauses(assignment(name))
    for answer in answers(name):
        mine = [clause.text for clause in found if clause.task in (answer.task, EVERYWHERE)]
        for words in broken_by(answer):
            assert not answer.right and any(words in text for text in mine), (answer, words)


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_each_contract_has_an_example_and_the_reference_agrees(name):
    known = assignment(name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for task, text in texts(known).items():
        if task == EVERYWHERE or not known.tasks[task].has_visible_answer:
            continue
        examples = "\n\n".join(re.findall(r"^```\w*\n(>>>.*?)^```", text, flags=re.DOTALL | re.MULTILINE))
        test = doctest.DocTestParser().get_doctest(examples, dict(known.reference), task, None, None)
        assert test.examples, f"{task} has no example"
        with contextlib.redirect_stdout(io.StringIO()) as said:
            failed = runner.run(test).failed
        assert not failed, said.getvalue()
