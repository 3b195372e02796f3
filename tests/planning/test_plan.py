"""Are the measured costs right, and does the planned module train the same in the memory it promises?"""

import copy
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils.checkpoint import checkpoint_sequential

from ckptlib.errors import CkptError
from ckptlib.planning.block_detection import Chains, find_chain
from ckptlib.planning.budget_search import NoPlanFits
from ckptlib.planning.execute import execute
from ckptlib.planning.known_schedules import periodic, recompute_all, revolve, sequential, sqrt, store_all
from ckptlib.planning.optimal_schedule import BudgetTooSmall, optimal, pareto, smallest_budget
from ckptlib.planning.plan import plan
from ckptlib.planning.profile_stages import profile_chain
from ckptlib.planning.schedule import Schedule
from ckptlib.planning.scheduled_model import ScheduledModel
from ckptlib.planning.stage_costs import Costs
from ckptlib.remember.measurement import measure


class ChainPlan(NamedTuple):
    schedule: Schedule
    costs: Costs
    module: ScheduledModel

    @property
    def peak(self) -> int:
        return self.schedule.cost(self.costs).peak

    @property
    def time(self) -> float:
        return self.schedule.cost(self.costs).time


def plan_chain(model, x, budget, costs=None) -> ChainPlan:
    """The fastest schedule of the chain alone, and the model run by it: each of its bytes can be predicted."""
    costs = costs or profile_chain(model, x)
    schedule = optimal(costs, budget)
    return ChainPlan(schedule, costs, ScheduledModel(model, Chains([find_chain(model, x)]), schedule))


# ---- three chains ---------------------------------------------------------------------------------------------------
def mlp():
    """One layer is 32 times as wide as the others."""
    torch.manual_seed(0)
    widths = [64, 64, 64, 2048, 64, 64, 64, 64, 64]
    pairs = zip(widths, widths[1:], strict=False)
    stages = (nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Dropout(0.1)) for a, b in pairs)
    return nn.Sequential(*stages), torch.randn(64, 64, requires_grad=True)


def cnn():
    torch.manual_seed(0)
    channels = [3, 8, 8, 16, 16, 16, 32]
    stages = (
        nn.Sequential(nn.Conv2d(a, b, 3, padding=1, stride=1 + (i % 3 == 2)), nn.BatchNorm2d(b), nn.ReLU())
        for i, (a, b) in enumerate(zip(channels, channels[1:], strict=False))
    )
    return nn.Sequential(*stages), torch.randn(4, 3, 32, 32, requires_grad=True)


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, dropout=0.1, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x, mask):
        h = self.norm_1(x)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norm_2(x))


class Transformer(nn.Module):
    def __init__(self, layers: int = 5, width: int = 32):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, width), nn.Linear(width, 50)
        self.inner = nn.ModuleDict({"blocks": nn.ModuleList(Block(width) for _ in range(layers))})

    def forward(self, ids):
        x, blocks = self.embed(ids), self.inner["blocks"]
        mask = torch.ones(ids.shape[1], ids.shape[1]).triu(1).bool()
        for i in range(len(blocks)):
            x = blocks[i](x, mask)
        return self.head(x)


def blocks():
    torch.manual_seed(0)
    chain = find_chain(Transformer(), torch.randint(50, (4, 16)))
    return nn.Sequential(*chain.stages), chain.x.detach().requires_grad_()


def encoder():
    """Its blocks copy their input, transposed, and save the copy; nor do they save their output."""
    torch.manual_seed(0)
    layers = (nn.TransformerEncoderLayer(32, 4, 64, batch_first=True) for _ in range(6))
    return nn.Sequential(*layers), torch.randn(4, 16, 32, requires_grad=True)


def flat():
    """Every layer a stage of its own: ReLU saves its output, dropout does not save its input, Linear does."""
    torch.manual_seed(0)
    layers = [(nn.Linear(32, 32), nn.ReLU(), nn.Dropout(0.1), nn.LayerNorm(32)) for _ in range(3)]
    return nn.Sequential(*(layer for group in layers for layer in group)), torch.randn(64, 32, requires_grad=True)


MODELS = {"mlp": mlp, "cnn": cnn, "transformer": blocks, "encoder": encoder, "flat": flat}


def peak_of(step, model, x) -> int:
    """Bytes of the chain, as `plan` counts them: not the model's own tensors, the gradients of its parameters, the
    numbers that a loss consists of, nor the copies of buffers and of the random state that recomputation starts from.
    """
    model.zero_grad()
    x.grad = None
    result = measure(step)
    storages, ops, rng_state = result.trace.storages, result.trace.ops, torch.get_rng_state().nbytes

    def is_copied_buffer(storage) -> bool:
        if storage.op is None or ops[storage.op].name != "aten.clone.default":
            return storage.category == "buffer"
        return is_copied_buffer(storages[ops[storage.op].args[0].storage])

    def counts(storage) -> bool:
        is_models = storage.category in ("parameter", "buffer") or (storage.category == "gradient" and storage.name)
        state = storage.nbytes == rng_state and storage.dtype is torch.uint8 or is_copied_buffer(storage)
        given = storage.op is None and storage.shape != x.shape  # a mask, say, which every block is given besides
        return not (is_models or state or given) and storage.shape != ()

    line = result.timeline
    return max(accumulate(c.nbytes for c in (*line.start, *line.changes) if counts(c.owner)))


# ---- costs ----------------------------------------------------------------------------------------------------------
def test_the_bytes_of_a_stage_are_those_derived_by_hand():
    """Linear (N, 3) -> (N, 5), then tanh: tanh keeps its output, Linear only its input."""
    stage = nn.Sequential(nn.Linear(3, 5), nn.Tanh())
    costs = profile_chain([stage, stage[1]], torch.ones(7, 3, requires_grad=True))
    x, y = 4 * 7 * 3, 4 * 7 * 5
    assert (costs.x, costs.dx) == ((x, y, y), (x, y, y))
    assert costs.xbar == (y, y)
    assert costs.ftmp == (y, 0)  # Linear's output, until tanh has read it
    assert costs.atmp == (y, 0)
    assert costs.btmp == (y, y)  # the gradient that tanh makes while the one it was given is still there
    assert all(seconds > 0 for seconds in costs.ftime + costs.btime)


def test_profiling_leaves_no_trace():
    model, x = cnn()
    model.append(nn.Dropout(0.5))
    before, random = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    profile_chain(model, x)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(random, torch.get_rng_state())
    assert all(p.grad is None for p in model.parameters()) and x.grad is None


def test_a_chain_is_timed_a_whole_number_of_times():
    stages, x = [torch.sin, torch.cos], torch.ones(2, 4, requires_grad=True)
    for wrong in (-1, 1.5, "3"):
        with pytest.raises(CkptError, match=f"repeats is {wrong!r}, expected a whole number of timed runs"):
            profile_chain(stages, x, repeats=wrong)
    assert all(seconds > 0 for seconds in profile_chain(stages, x, repeats=0).ftime)  # the first run counts then


def test_an_input_without_gradient_and_frozen_stages_cost_no_gradient():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).requires_grad_(False)
    model[1].requires_grad_(True)
    costs = profile_chain(model, torch.ones(2, 4))
    assert costs.dx == (0, 0, 32)
    assert costs.btime[0] == 0 and costs.btime[1] > 0


def test_a_stage_that_returns_its_input_counts_as_a_copy():
    costs = profile_chain([torch.sin, nn.Flatten(), nn.Identity()], torch.ones(2, 4, requires_grad=True))
    assert costs.x == (32, 32, 32, 32)
    assert costs.xbar[1:] == (32, 32)


def test_complex_numbers_cost_what_real_ones_of_their_size_do():
    sizes = []
    for dtype in (torch.complex64, torch.float64):
        model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4, dtype=dtype), nn.Tanh()) for _ in range(4)))
        costs = profile_chain(model, torch.ones(2, 4, dtype=dtype), repeats=1)
        sizes.append((costs.x, costs.dx, costs.xbar, costs.ftmp, costs.atmp))
        assert min(costs.btmp) > 0
    assert sizes[0] == sizes[1]


class GraphConvolution(nn.Module):
    def __init__(self, neighbours):
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.register_buffer("neighbours", neighbours)

    def forward(self, x):
        return torch.relu(torch.sparse.mm(self.neighbours, self.linear(x)))


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_stages_with_sparse_buffers(layout):
    """Linear keeps its input, the sparse product its buffer, relu its output: one activation for each stage."""
    torch.manual_seed(0)
    neighbours = torch.eye(8).roll(1, 0).to_sparse(layout=layout)
    model, x = nn.Sequential(*(GraphConvolution(neighbours) for _ in range(4))), torch.randn(8, 16)
    costs = profile_chain(model, x)
    assert costs.x == (8 * 16 * 4,) * 5 and costs.xbar == (8 * 16 * 4,) * 4
    gradients = []
    for run in (model, plan_chain(model, x, smallest_budget(costs), costs).module):
        model.zero_grad()
        run(x).square().sum().backward()
        gradients.append([p.grad for p in model.parameters()])
    for plain, planned in zip(*gradients, strict=True):
        torch.testing.assert_close(planned, plain)


def test_the_sparse_gradients_of_a_stage_are_its_parameters():
    """As the gradients of dense parameters, they are in no cost of the stage."""
    torch.manual_seed(0)
    table, ids = nn.Embedding(50, 16, sparse=True), torch.arange(8)
    costs = profile_chain([nn.Sequential(Ids(ids), table), nn.Linear(16, 16)], torch.ones(2), repeats=1)
    assert costs.btmp[0] == 0


class Ids(nn.Module):
    def __init__(self, ids):
        super().__init__()
        self.register_buffer("ids", ids)

    def forward(self, x):
        return self.ids


# ---- plans ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", MODELS)
def test_a_planned_step_is_the_plain_step_within_the_promised_bytes(name):
    model, x = MODELS[name]()
    costs = profile_chain(model, x)
    low, high = smallest_budget(costs), store_all(costs.n).cost(costs).peak
    assert low < high
    for budget in [low, (2 * low + high) // 3, (low + 2 * high) // 3, high]:
        found = plan_chain(model, x, budget, costs)
        assert found.peak <= budget
        results = []
        for run in (model, found.module):
            start = copy.deepcopy(model.state_dict())
            torch.manual_seed(1)
            model.zero_grad()
            x.grad = None
            run(x).square().sum().backward()
            buffers = [b.clone() for b in model.buffers()]
            results.append([x.grad, *(p.grad for p in model.parameters()), *buffers, torch.rand(1)])
            model.load_state_dict(start)
        for plain, planned in zip(*results, strict=True):
            torch.testing.assert_close(planned, plain)
        peak = peak_of(lambda run=found.module: run(x).mul(1).sum().backward(), model, x)
        assert peak == found.peak


def fixed_times(costs: Costs) -> Costs:
    """The measured bytes, and as time the bytes that a stage writes: the same in every run."""
    forward = [a + b for a, b in zip(costs.xbar, costs.ftmp, strict=True)]
    return replace(costs, ftime=forward, btime=[2 * seconds for seconds in forward])


def competitors(n: int, model, x) -> dict[str, tuple[Schedule, Callable[[], None]]]:
    """The schedule that tells its time, and the step that tells its bytes."""
    found = {"sqrt": sqrt(n), "store_all": store_all(n), "recompute_all": recompute_all(n)}
    found |= {f"periodic({k}, {keep})": periodic(n, k, keep) for k in range(1, n + 1) for keep in (True, False)}
    found |= {f"revolve({slots})": revolve(n, slots) for slots in range(1, n + 1)}
    steps = {name: (s, lambda s=s: execute(s, model, x).mul(1).sum().backward()) for name, s in found.items()}
    for k in range(1, n + 1):
        run = lambda k=k: checkpoint_sequential(model, k, x, use_reentrant=False).mul(1).sum().backward()  # noqa: E731
        steps[f"checkpoint_sequential({k})"] = (sequential(n, k), run)
    return steps


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_at_the_measured_peak_of_each_competitor_the_plan_is_no_slower_and_needs_no_more(name):
    model, x = MODELS[name]()
    costs = fixed_times(profile_chain(model, x, repeats=1))
    measured: dict[Schedule, int] = {}
    for competitor, (schedule, step) in competitors(costs.n, model, x).items():
        theirs = peak_of(step, model, x)
        predicted = schedule.cost(costs).peak
        if competitor.startswith("checkpoint_sequential"):
            assert theirs >= predicted, competitor  # torch holds a segment's input, even if no stage saves it
        else:
            assert theirs == predicted, competitor
        found = plan_chain(model, x, theirs, costs)
        assert found.time <= schedule.cost(costs).time, competitor
        if found.schedule not in measured:
            measured[found.schedule] = peak_of(lambda run=found.module: run(x).mul(1).sum().backward(), model, x)
        assert measured[found.schedule] == found.peak <= theirs, competitor


def test_a_models_blocks_are_planned_where_they_are():
    torch.manual_seed(0)
    model, ids = Transformer(), torch.randint(50, (4, 16))
    costs = profile_chain(model, ids)
    assert costs.n == 5
    found = plan_chain(model, ids, (smallest_budget(costs) + store_all(5).cost(costs).peak) // 2, costs)
    assert found.time > sum(costs.ftime) + sum(costs.btime)
    assert pareto(costs)[0][0] == smallest_budget(costs)
    gradients = []
    for run in (model, found.module):
        model.zero_grad()
        torch.manual_seed(1)
        run(ids).sum().backward()
        gradients.append([p.grad for p in model.parameters()])
    for plain, planned in zip(*gradients, strict=True):
        torch.testing.assert_close(planned, plain)
    assert len(model.inner["blocks"]) == 5 and isinstance(model.inner["blocks"][0], Block)
    assert {id(p) for p in found.module.parameters()} == {id(p) for p in model.parameters()}


class Residual(nn.Module):
    """Leaves a loss of its own in an attribute, as mixtures of experts do."""

    def __init__(self):
        super().__init__()
        self.linear, self.router = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x):
        self.aux = self.router(x).softmax(-1).square().mean()
        return x + torch.tanh(self.linear(x))


class Row(nn.Module):
    def __init__(self, block=Residual):
        super().__init__()
        self.blocks = nn.ModuleList(block() for _ in range(6))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class DeepSupervision(Row):
    def forward(self, x):
        outputs = []
        for block in self.blocks:
            x = block(x)
            outputs.append(x)
        return sum(y.square().mean() for y in outputs)


class LongSkip(Row):
    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i == 1:
                skip = x.tanh()
        return (x * skip).mean()


class LossesOfBlocks(Row):
    def forward(self, x):
        aux = 0
        for block in self.blocks:
            x = block(x)
            aux = aux + block.aux
        return x.square().mean() + aux + sum(block.aux for block in self.blocks)


class WeightDecay(Row):
    def forward(self, x):
        scale = 1 if isinstance(self.blocks[0], Residual) and not self.blocks[0].training else 2
        return super().forward(x).square().mean() + scale * sum(p.square().sum() for p in self.parameters())


@pytest.mark.parametrize("kind", [DeepSupervision, LongSkip, LossesOfBlocks, WeightDecay])
def test_whatever_the_model_does_with_its_blocks_the_planned_one_does(kind):
    torch.manual_seed(0)
    model, x = kind().eval(), torch.randn(8, 16)
    costs = profile_chain(model, x)
    assert costs.n == 6
    for budget, _ in pareto(costs):
        module, results = plan_chain(model, x, budget, costs).module, []
        for run in (model, module):
            model.zero_grad()
            loss = run(x)
            loss.backward()
            results.append([loss.detach(), *(p.grad for p in model.parameters())])
        for plain, planned in zip(*results, strict=True):
            torch.testing.assert_close(planned, plain)


def test_blocks_inside_a_model_keep_within_the_promised_bytes():
    torch.manual_seed(0)
    model = Row(lambda: nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16), nn.Dropout(0.1)))
    x = torch.randn(64, 16, requires_grad=True)
    costs = profile_chain(model, x)
    assert costs.n == 6
    for budget, _ in pareto(costs):
        found = plan_chain(model, x, budget, costs)
        peak = peak_of(lambda run=found.module: run(x).mul(1).sum().backward(), model, x)
        assert peak == found.peak <= budget


def test_a_chain_without_flops_is_not_slowed_down_and_runs_as_few_forwards_as_fit():
    """Fake tensors are timed in FLOPs, of which tanh has none. As few as a chain of equal stages that take time."""
    with FakeTensorMode():
        model, x = nn.Sequential(*(nn.Tanh() for _ in range(6))), torch.randn(8, 8, requires_grad=True)
        costs = profile_chain(model, x)
        assert not any(costs.ftime + costs.btime)
        timed = replace(costs, ftime=[3] * 6, btime=[3] * 6)
        for budget in range(smallest_budget(costs), store_all(6).cost(costs).peak + 1, costs.x[0]):
            found = plan_chain(model, x, budget, costs)
            assert found.time == 0
            assert found.schedule == plan_chain(model, x, budget, timed).schedule


def test_a_planned_module_learns():
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(6)))
    x, target = torch.randn(32, 8), torch.rand(32, 8)
    costs = profile_chain(model, x)
    module = plan_chain(model, x, smallest_budget(costs), costs).module
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(module(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("kind", ["Backwards", "Scaled"])
def test_blocks_in_another_order_and_with_arguments_of_their_own_are_a_chain(kind):
    torch.manual_seed(0)
    model, x = globals()[kind](), torch.ones(2, 4)
    module = ScheduledModel(model, Chains([find_chain(model, x)]), recompute_all(3))
    gradients = []
    for run in (model, module):
        model.zero_grad()
        run(x).square().sum().backward()
        gradients.append([p.grad for p in model.parameters()])
    for plain, planned in zip(*gradients, strict=True):
        torch.testing.assert_close(planned, plain)


# ---- what is refused ------------------------------------------------------------------------------------------------
def test_a_budget_that_cannot_be_met_names_the_smallest_that_can():
    model, x = mlp()
    costs = profile_chain(model, x)
    with pytest.raises(BudgetTooSmall, match="It needs at least") as caught:
        plan_chain(model, x, 1000, costs)
    assert plan_chain(model, x, caught.value.smallest, costs).peak == caught.value.smallest


class Backwards(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        for layer in reversed(self.layers):
            x = layer(x)
        return x


class Cycle(Backwards):
    def forward(self, x):
        for layer in [*self.layers, *self.layers]:
            x = layer(x)
        return x


class Skip(Backwards):
    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


class Scaled(Backwards):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Bilinear(4, 4, 4) for _ in range(3))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x, torch.full((2, 4), float(i)))
        return x


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Cycle(), "did not run once each, in order"),
        (Skip(), "block 1 of layers does not receive the output of block 0"),
        (nn.Linear(4, 4), "Linear has no ModuleList or Sequential of blocks"),
        ([], "at least one module or function"),
        ([torch.sin, 3], "at least one module or function"),
        ("model", "got a str, expected nn.Sequential"),
        ([lambda x: (x, x)], "returned a tuple, but in a chain each stage passes one tensor"),
    ],
)
def test_what_is_no_chain_is_refused(model, message):
    with pytest.raises(CkptError, match=message):
        profile_chain(model, torch.ones(2, 4))


class Shuffled(Row):
    """`order` and `between` may be others than when the plan was made."""

    order, between = range(6), staticmethod(lambda x: x)

    def forward(self, x):
        for i in self.order:
            x = self.between(self.blocks[i](x))
        return x


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": [0, 1]}, "blocks.2 was not called, although the block before it, blocks.1, was.*early exit"),
        ({"order": [0, 1, 3, 4, 5]}, "blocks.3 was called where blocks.2 was due.*layer drop"),
        ({"order": [0, 1, 1, 2, 3, 4, 5]}, "blocks.1 was called where blocks.2 was due"),
        ({"order": [0, 1, 2, 3, 4, 5, 0]}, "blocks.0 was called where no further block was due"),
        ({"between": torch.sin}, "blocks.1 was not given what blocks.0 returned"),
        ({"between": lambda x: x.mul_(2)}, "blocks.1 was not given what blocks.0 returned"),
    ],
)
def test_blocks_that_run_otherwise_than_planned_are_refused_in_training_and_run_without_gradients(change, message):
    model, x = Shuffled(), torch.randn(8, 16)
    costs = profile_chain(model, x)
    module = plan_chain(model, x, smallest_budget(costs), costs).module
    for name, value in change.items():
        setattr(model, name, value)
    with pytest.raises(CkptError, match=message):
        module(x)
    with torch.no_grad():
        torch.testing.assert_close(module(x), model(x))
    model(x).sum().backward()  # it was left as it was


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x, mask, seen):
        seen.add_(1)
        return torch.tanh(self.linear(x)).masked_fill(mask, 0)


class MaskedRow(Row):
    def __init__(self):
        super().__init__(Masked)
        self.lost = -1

    def forward(self, x, mask):
        outputs, seen = [], torch.zeros(1)
        for block in self.blocks:
            x = block(x, mask, seen=seen)
            outputs.append(x)
        if self.lost >= 0:
            outputs[self.lost].detach().zero_()
        return x.sum()


def test_values_and_arguments_of_blocks_that_are_overwritten_before_backward_are_noticed():
    """As plain autograd does. What all blocks write to, and none needs, may change."""
    torch.manual_seed(0)
    model, x, mask = MaskedRow(), torch.randn(4, 16), torch.rand(4, 16) < 0.5
    module = ScheduledModel(model, Chains([find_chain(model, (x, mask))]), periodic(6, 3))
    gradients = []
    for run in (model, module):
        model.zero_grad()
        run(x, mask).backward()
        gradients.append([p.grad for p in model.parameters()])
    for plain, planned in zip(*gradients, strict=True):
        torch.testing.assert_close(planned, plain)
    for run in (model, module):
        loss = run(x, mask)
        mask.logical_not_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    model.lost = 1  # the checkpoint between the first chunk and the second
    for run in (model, module):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            run(x, mask).backward()


@pytest.mark.parametrize("percent", [0, 30, 60, 100])
def test_a_planned_module_notices_the_next_batch_in_the_place_of_this_one(percent):
    model, x = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(4))), torch.randn(4, 8)
    costs = profile_chain(model, x, repeats=1)
    low, high = smallest_budget(costs), store_all(4).cost(costs).peak
    loss = plan_chain(model, x, low + (high - low) * percent // 100, costs).module(x).sum()
    x.copy_(torch.randn(4, 8))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_sequential_with_a_forward_of_its_own_is_no_plain_chain():
    class Residual(nn.Sequential):
        def forward(self, x):
            return x + super().forward(x)

    model, x = Residual(*(nn.Linear(8, 8) for _ in range(4))), torch.randn(3, 8)
    torch.testing.assert_close(plan_chain(model, x, 10**6).module(x), model(x))


def test_a_backward_in_the_middle_of_the_row_is_refused():
    model, x = Shuffled(), torch.randn(8, 16)
    module = ScheduledModel(model, Chains([find_chain(model, x)]), recompute_all(6))
    model.between = lambda x: (x.sum().backward(), x)[1]
    with pytest.raises(CkptError, match="backward began after 1 of 6 stages"):
        module(x)


def test_a_stage_that_works_in_place_is_named():
    stages = nn.Conv2d(1, 4, 3), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3), nn.ReLU(inplace=True)
    for model, x in ((stages, torch.ones(5, 1, 8, 8)), (stages[1:], torch.ones(5, 4, 8, 8))):
        with pytest.raises(CkptError, match=r"stage [01] changed its input in place.*Use inplace=False"):
            plan_chain(nn.Sequential(*model), x, 10**6)


@pytest.mark.parametrize("budget", ["2GB", float("nan")])
def test_a_budget_that_is_no_number_is_refused_before_anything_runs(budget):
    ran = []
    with pytest.raises(CkptError, match=r"the budget is .*, expected a number of bytes, such as 2 \* 10\*\*9 for 2 GB"):
        plan([lambda x: ran.append(x) or x.sin()], torch.ones(2, requires_grad=True), budget)
    assert not ran


# ---- whole steps ----------------------------------------------------------------------------------------------------
def normed():
    """Blocks with buffers and random numbers, a loss, and an optimizer that has made steps already."""
    torch.manual_seed(0)
    blocks = (nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.GELU(), nn.Dropout(0.1)) for _ in range(6))
    model, x = nn.Sequential(nn.Linear(32, 64), *blocks), torch.randn(16384, 32)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    optimizer.zero_grad()
    return model, x, lambda out: out.square().mean(), optimizer


def step_peak(device: str, run_by=lambda model: model) -> int:
    """Of one more step, written by hand."""

    def setup():
        model, x, loss, optimizer = normed()
        run = run_by(model)

        def step():
            loss(run(x)).backward()
            optimizer.step()

        return step

    return measure(setup, device, builds=True).peak


@pytest.mark.parametrize("device", ["cpu", "sim:cuda"])
@pytest.mark.slow
def test_the_budget_is_the_whole_steps(device):
    most, (model, x, loss, optimizer) = step_peak(device), normed()
    budget = int(0.7 * most)
    found = plan(model, x, budget, loss, optimizer, device=device)
    assert found.peak <= budget < most and found.chain_peak < found.peak and found.extra > 0
    assert step_peak(device, found.applied_to) == found.peak
    assert plan(normed, budget=most, device=device).extra == 0


@pytest.mark.slow
def test_a_model_and_a_function_that_builds_it_get_the_same_plan_and_the_model_is_left_alone():
    model, x, loss, optimizer = normed()
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    budget, random_state = int(0.7 * step_peak("sim:cuda")), torch.get_rng_state()
    found = plan(model, x, budget, loss, optimizer)
    assert torch.equal(torch.get_rng_state(), random_state)
    for old, new in zip(before, (model.state_dict(), optimizer.state_dict()), strict=True):
        torch.testing.assert_close(new, old, rtol=0, atol=0)
    assert all(p.grad is None for p in model.parameters())
    assert {id(p) for p in found.module.parameters()} == {id(p) for p in model.parameters()}
    other = plan(normed, budget=budget)
    assert (other.schedule, other.peak) == (found.schedule, found.peak)
    assert other.module.model is other.module.model is not model
    on_shapes = plan(model, x, budget, loss, optimizer, fake=True)
    assert (on_shapes.schedule, on_shapes.peak) == (found.schedule, found.peak)


def test_without_a_loss_the_output_is_summed_or_is_the_loss():
    torch.manual_seed(0)
    model, x = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(6))), torch.randn(4096, 64)
    explicit = plan(model, x, 10**9, lambda out: out.mul(1).sum(), fake=True)
    assert plan(model, x, 10**9, fake=True).peak == explicit.peak
    assert plan([*model, lambda out: out.mul(1).sum()], x, 10**9, fake=True).peak == explicit.peak


@pytest.mark.slow
def test_plans_to_choose_from_get_faster_and_need_more():
    found = plan(normed, fake=True).offers
    peaks, extras = [one.peak for one in found], [one.extra for one in found]
    assert len(found) > 2 and peaks == sorted(peaks) and extras == sorted(extras, reverse=True) and extras[-1] == 0
    for peak, extra in zip(peaks[::2], extras[::2], strict=True):
        assert plan(normed, budget=peak, fake=True).extra <= extra
    with pytest.raises(NoPlanFits, match="The smallest one needs") as caught:
        plan(normed, budget=peaks[0] // 2, fake=True)
    assert caught.value.smallest <= peaks[0]


class Remembers(nn.Linear):
    def forward(self, x):
        self.last = super().forward(x)  # a computed tensor, which cannot be copied
        return self.last


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((normed, torch.ones(2), 1000), r"inputs with its model. If the second argument was meant"),
        ((nn.Linear(2, 2), None, 1000), "plan needs the inputs that the model is called with"),
        (
            ("gpt2", torch.ones(2), 1000),
            "model is a str, but plan expects an nn.Module, a list of stages, or",
        ),
        ((lambda: lambda: None, None, 1000), "returned a function, which can be measured but not looked into"),
    ],
)
def test_what_cannot_be_planned_is_told(arguments, message):
    with pytest.raises(CkptError, match=message):
        plan(*arguments)


def test_a_model_that_cannot_be_copied_is_told():
    model, x = nn.Sequential(Remembers(4, 4), Remembers(4, 4)), torch.ones(2, 4)
    model(x)
    with pytest.raises(CkptError, match="cannot be copied: .* Pass a function that builds the model instead"):
        plan(model, x, 10**9)
