"""Do right answers pass however they are written, and are wrong ones told which idea they missed?

Here each answer is asked and judged in this process, with the functions that grading uses; that the whole engine and
stock nbgrader come to the same is in test_assignments.py.
"""

from __future__ import annotations

from functools import cache

import pytest
import torch
from answers import ASSIGNMENTS, ROOT, Answer, answers
from hypothesis import given, settings
from hypothesis import strategies as st

import ckptlib as ck
from ckptlib.grading.assignment.assignment import Assignment
from ckptlib.grading.tasks.verdict import Verdict
from ckptlib.torch_internals import global_forward_hooks, global_forward_pre_hooks

SEEDS = (31, 32, 33, 34, 35)
ALL = [answer for name in ASSIGNMENTS for answer in answers(name)]


@cache
def assignment(name: str) -> Assignment:
    return Assignment.load(ROOT / "solutions" / name)


@cache
def expected(name: str, task: str, seeds: tuple[int, ...] = SEEDS):
    known = assignment(name)
    seeds = seeds[: known.tasks[task].cases]
    return known.right(task, seeds), known.known(task, seeds)


def data_of(answer: Answer, seeds: tuple[int, ...] = SEEDS) -> list:
    """What the answer returns, encoded as it would leave a kernel."""
    known = assignment(answer.assignment)
    task = known.tasks[answer.task]
    namespace = dict(known.reference)
    exec(compile(answer.code, str(answer), "exec", dont_inherit=True), namespace)
    try:
        return task.ask(tuple(namespace[name] for name in task.names), seeds[: task.cases])
    finally:  # a hook that an answer leaves on all modules would be called in the tests after this one
        global_forward_hooks.clear()
        global_forward_pre_hooks.clear()


def judged(answer: Answer, seeds: tuple[int, ...] = SEEDS) -> Verdict:
    task = assignment(answer.assignment).tasks[answer.task]
    return task.judge(data_of(answer, seeds), *expected(answer.assignment, answer.task, seeds), task.tolerance)


def complaint(answer: Answer, verdict: Verdict) -> str:
    """What is unjust about a verdict; "" if nothing is."""
    if answer.right:
        return "" if verdict.right else f"is right, and loses points: {verdict.message}"
    if verdict.right:
        return "is wrong, and passes"
    return "" if answer.title.lower() in verdict.message.lower() else f"is told something else: {verdict.message}"


@pytest.mark.slow
@pytest.mark.parametrize("answer", [a for a in ALL if a.right], ids=str)
def test_a_right_answer_passes(answer):
    assert complaint(answer, judged(answer)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("answer", [a for a in ALL if not a.right], ids=str)
def test_a_wrong_answer_loses_points_and_is_told_why(answer):
    assert complaint(answer, judged(answer)) == ""


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_every_task_has_its_answers(name):
    for task in assignment(name).tasks:
        mine = [a for a in answers(name) if a.task == task]
        assert sum(not a.right for a in mine) >= 3 and any(a.right for a in mine), task


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_an_assignment_is_worth_ten_points_and_notebook_and_probes_agree(name):
    known = assignment(name)
    cells = {cell.id: cell for cell in known.source.cells}
    points = {task: cells[cell].metadata.nbgrader.points for cell, task in known.graded.items()}
    assert points == {task.name: task.points for task in known.tasks.values()}
    assert sum(points.values()) == 10
    assert 4 <= sum(t.has_visible_answer for t in known.tasks.values()) <= 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_known_mistakes_differ_from_the_reference_on_secret_inputs(name):
    """A mistake that gives the right data on some seed could not be told from a right answer."""
    known = assignment(name)
    for task in known.tasks.values():
        if not task.has_visible_answer:
            continue
        right, mistakes = expected(name, task.name)
        for mistake in mistakes:
            data = _with_the_rest(mistake["data"], right) if task.parts else mistake["data"]
            assert not task.judge(data, right, [], task.tolerance).right, (task.name, mistake["message"])


def _with_the_rest(data: list, right: list) -> list:
    """A mistake about one part says None about the others: take those from the reference."""
    merged = []
    for mine, theirs in zip(data, right, strict=True):
        if isinstance(mine, dict) and "dict" in mine:
            told = {key: value for key, value in mine["dict"] if value is not None}
            mine = {"dict": [[key, told.get(key, value)] for key, value in theirs["dict"]]}
        merged.append(mine)
    return merged


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=6, max_size=6), st.lists(st.integers(1, 40), min_size=5, max_size=5))
def test_task_7_5_measures_what_the_planner_counts(widths, hidden):
    """Else the reference itself would not fit in its budget, for one secret input in thirty."""
    reference = assignment("07_planning").reference
    stages, x = reference["blocks"](widths, hidden), torch.randn(4, widths[0], requires_grad=True)
    costs = ck.profile_chain(stages, x, repeats=1)
    for schedule in (ck.store_all(5), ck.sqrt(5), ck.recompute_all(5)):
        assert reference["chain_peak"](schedule, stages, x) == schedule.cost(costs).peak
