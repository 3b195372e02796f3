"""Do torch's own checkpoints, nested as a plan says, run each stage as often as the plan, in the bytes it was measured
to need?"""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ckptlib.cuda.gpus import preset
from ckptlib.errors import CkptError
from ckptlib.planning.budget_search import WholeStep
from ckptlib.planning.known_schedules import periodic, recompute_all, revolve, sequential, sqrt, store_all
from ckptlib.planning.nested_checkpoints import brackets, nested_calls
from ckptlib.planning.schedule import Schedule
from ckptlib.remember.measurement import measure
from ckptlib.remember.user_models import Training


def run(calls, blocks, x):
    for call in calls:
        x = blocks[call](x) if isinstance(call, int) else checkpoint(run, call, blocks, x, use_reentrant=False)
    return x


def eight_blocks():
    blocks = (nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(8))
    return nn.Sequential(*blocks), torch.randn(8192, 256), lambda y: y.square().mean()


@pytest.mark.slow
def test_every_plan_done_with_torchs_checkpoints_needs_what_was_measured():
    whole = WholeStep(lambda: Training(*eight_blocks()), "sim:cuda", preset(), fake=True)
    more = {}
    for plan in whole.plans:
        calls = nested_calls(plan)

        def setup(calls=calls):
            model, x, loss = eight_blocks()
            return lambda: loss(run(calls, model, x)).backward()

        more[brackets(calls)] = measure(setup, "sim:cuda", fake=True, builds=True).peak - whole.run(plan).peak
    # Torch holds the input of the last block until that one's backward is done, and the peak is there. The others'
    # peaks are elsewhere.
    assert 0 < more.pop("0 … 6, [7]") <= 4 * 8192 * 256
    assert set(more.values()) == {0} and len(more) > 20


@pytest.mark.slow
def test_one_checkpoint_for_each_block_needs_more_than_the_plan():
    """Which is why a plan says more of a block than whether it runs again."""
    whole = WholeStep(lambda: Training(*eight_blocks()), "sim:cuda", preset(), fake=True)
    plan = whole.within(100_000_000)

    def setup():
        model, x, loss = eight_blocks()
        calls = [i if times == 1 else [i] for i, times in enumerate(plan.schedule.forwards())]
        return lambda: loss(run(calls, model, x)).backward()

    assert measure(setup, "sim:cuda", fake=True, builds=True).peak > 120_000_000 > 100_000_000 >= plan.peak


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.times = nn.Linear(4, 4), 0

    def forward(self, x):
        self.times += 1
        return torch.tanh(self.fc(x))


@pytest.mark.parametrize(
    "schedule",
    [store_all(5), recompute_all(5), sqrt(9), revolve(10, 3), periodic(7, 3), periodic(7, 3, False), sequential(7, 3)],
    ids=lambda schedule: brackets(nested_calls(schedule)),
)
def test_torch_runs_each_stage_as_often_as_the_schedule(schedule):
    blocks = [Counted() for _ in range(schedule.n)]
    run(nested_calls(schedule), blocks, torch.ones(2, 4)).sum().backward()
    assert [block.times for block in blocks] == schedule.forwards()


def test_by_hand():
    assert nested_calls(sequential(5, 2)) == [[0, 1], 2, 3, 4]
    assert nested_calls(revolve(4, 2)) == [[0], [[1], 2], 3]  # 4 forwards again
    assert brackets([[0], [[1], 2], 3]) == "[0], [[1], 2], 3"
    assert brackets([[0], [1], [2], [[3, 4]], 5, 6, 7]) == "[0] … [2], [[3, 4]], 5 … 7"


@pytest.mark.parametrize(
    "again",
    [
        # The input of 1 is kept when 0 runs again for the sake of 2, and used after that: torch has dropped it by then.
        "restore 0, save input 0, save input 1, save all 2, backward 2, restore 0, save all 0, save all 1, backward 1",
        # Forward without a checkpoint: the chain's input is always there.
        "restore 0, forward 0, forward 1, save all 2, backward 2, restore 0, save all 0, save all 1, backward 1",
    ],
)
def test_a_schedule_that_is_no_nesting_is_told(again):
    text = f"save input 0, forward 1, forward 2, save all 3, backward 3, {again}, backward 0"
    actions = [(kind, int(stage)) for kind, stage in (action.rsplit(" ", 1) for action in text.split(", "))]
    with pytest.raises(CkptError, match="nested checkpoints cannot do what this schedule does.*Use ck.execute"):
        nested_calls(Schedule(4, actions))
