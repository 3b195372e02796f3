"""Is every model of the table told what to recompute, and does it train the same, in the bytes predicted?"""

from dataclasses import replace

import pytest
import torch
from many_models import CHAINS, MODELS, build

import ckptlib as ck
from ckptlib.planning.block_detection import find_chains
from ckptlib.planning.module_plan import ModulePlan
from ckptlib.remember.user_models import Training

STEPS = 3


def half_way(found):
    """A plan for the budget in the middle between the least that was found and what the plain step needs."""
    if isinstance(found, ModulePlan):
        plain, least = found.plain_peak, found.search.least()
        budget = (plain + least) // 2
        return found.search.within(budget, found.why), budget, plain
    whole = found.whole
    plain, least = whole.all_saved.peak, whole.least.peak
    budget = (plain + least) // 2
    fits = whole.within(budget)
    return replace(found, schedule=fits.plan, budget=budget, peak=fits.peak), budget, plain


def trained(model, given):
    step, results = Training(model, given).passes(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        results += [step(), *(p.grad for p in model.parameters() if p.grad is not None)]
        optimizer.step()
    return results


@pytest.mark.parametrize("name", CHAINS)
def test_the_chains_are_those_that_a_reader_finds(name):
    assert [len(row.names) for row in find_chains(*build(name)()).rows] == CHAINS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_plan_keeps_to_its_budget_and_trains_the_same(name):
    plan, budget, plain = half_way(ck.plan(build(name), device="cpu"))
    assert plan.peak <= budget < plain

    def planned():
        model, given = build(name)()
        return ck.apply(model, plan), given

    assert ck.measure(planned, builds=True).peak == plan.peak
    for ours, autograds in zip(trained(*planned()), trained(*build(name)()), strict=True):
        torch.testing.assert_close(ours, autograds)
