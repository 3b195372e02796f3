"""`ledger`, against sums by hand and the test's own saved-tensor hooks."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules import module as global_hooks

from ckptlib.errors import CkptError
from ckptlib.models.mlp import MLP
from ckptlib.remember.ledger import COLUMNS, OUTSIDE, ledger
from ckptlib.tracing.allocation_recorder import recording

ROWS = 16
SEED = 4 + 4  # what every backward of a float32 loss begins with: the loss and its gradient, a one


def nbytes(tensors) -> int:
    return sum(t.nbytes for t in tensors)


def by_column(account) -> tuple[int, ...]:
    return tuple(account.by_category[column] for column in ("parameter", "buffer", "gradient", "optimizer state"))


def training(model: nn.Module, x: Tensor, optimizer: torch.optim.Optimizer | None = None):
    def step() -> None:
        if optimizer:
            optimizer.zero_grad()
        model(x).sum().backward()
        if optimizer:
            optimizer.step()

    return step


# ---- exact -----------------------------------------------------------------------------------------------------------
@settings(max_examples=15, deadline=None)
@given(n=st.integers(1, 20), widths=st.lists(st.integers(1, 30), min_size=2, max_size=5))
def test_a_sigmoid_mlp_by_hand(n, widths):
    layers = [m for d, k in zip(widths, widths[1:], strict=False) for m in (nn.Linear(d, k), nn.Sigmoid())]
    model = nn.Sequential(*layers)
    x = torch.randn(n, widths[0])
    params = sum(k * d + k for d, k in zip(widths, widths[1:], strict=False)) * 4
    count = 2 * (len(widths) - 1)
    account = ledger(model, training(model, x, torch.optim.Adam(model.parameters())))
    assert by_column(account) == (params, 0, params, 2 * params + 4 * count)
    assert account.by_category["activation"] == 4 * n * sum(widths[1:]) + SEED  # each Sigmoid's output, no Linear's
    assert account.by_category["input"] == 4 * n * widths[0]
    assert account.total >= account.peak > 4 * params


def test_per_module_by_hand():
    model, x = MLP(), torch.randn(ROWS, 3000)
    account = ledger(model, training(model, x, torch.optim.Adam(model.parameters())))
    relu, out = ROWS * 512 * 4, ROWS * 700 * 4
    activations = {path: own["activation"] for path, own in account.modules.items() if own["activation"]}
    assert activations == {
        "block_1.1": relu,
        "block_1.2": out,  # the input that the next Linear saves, put down to the module that made it
        "block_2.1": relu,
        "block_2.2": out,
        "block_3.1": relu,
        OUTSIDE: SEED,  # block_3.2's output is freed: sum() keeps its shape only
    }
    for path, module in model.named_modules():
        own = account.modules[path or "MLP"]
        params = list(module.parameters(recurse=False))
        assert own["parameter"] == own["gradient"] == nbytes(params)
        assert own["optimizer state"] == 2 * nbytes(params) + 4 * len(params)


def test_a_cnn_with_batchnorm_by_hand():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 5)
    )
    x = torch.randn(2, 3, 8, 8)
    account = ledger(model, training(model, x, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)))
    params = nbytes(model.parameters())
    assert by_column(account) == (params, 2 * 8 * 4 + 8, params, params)
    own = {path: row["activation"] for path, row in account.modules.items()}
    image, pooled = 2 * 8 * 6 * 6, 2 * 8 * 3 * 3
    assert own["0"] == image * 4  # BatchNorm's input
    assert own["1"] == 2 * 8 * 4  # mean and inverse deviation; its output is gone, for ReLU keeps its own
    assert own["2"] == image * 4
    assert own["3"] == pooled * (4 + 8)  # the output, which Linear reads through a view, and the indices
    assert (own["4"], own["5"], own[OUTSIDE]) == (0, 0, SEED)


def test_activations_equal_the_tests_own_saved_tensor_hooks():
    model, x = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True), torch.randn(2, 5, 32)
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers(), x)}
    found: dict[int, Tensor] = {}

    def pack(t: Tensor) -> Tensor:
        found[t.untyped_storage().data_ptr()] = t
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        model(x).sum()
    saved = sum(t.untyped_storage().nbytes() for address, t in found.items() if address not in own)
    assert ledger(model, training(model, x)).by_category["activation"] == saved + SEED


def test_tied_weights_count_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 8)
            self.head = nn.Linear(8, 50, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.embed(tokens))

    model = Tied()
    account = ledger(model, training(model, torch.randint(50, (3, 4)), torch.optim.Adam(model.parameters())))
    size = 50 * 8 * 4
    assert by_column(account) == (size, 0, size, 2 * size + 4)
    owners = [row for row in account.rows() if row.nbytes["parameter"]]
    assert len(owners) == 1
    assert owners[0].nbytes["gradient"] == size  # in the same row
    assert owners[0].nbytes["optimizer state"] == 2 * size + 4


def test_frozen_layers_cost_parameters_only():
    model = nn.Sequential(nn.Linear(20, 30), nn.Linear(30, 10))
    model[0].requires_grad_(False)
    optimizer = torch.optim.Adam(p for p in model.parameters() if p.requires_grad)
    account = ledger(model, training(model, torch.randn(4, 20), optimizer))
    trained = nbytes(model[1].parameters())
    assert by_column(account) == (nbytes(model.parameters()), 0, trained, 2 * trained + 8)
    assert [account.modules["0"][c] for c in COLUMNS] == [nbytes(model[0].parameters()), 0, 0, 0, 0, 4 * 30 * 4, 0]


def test_unused_parameters_count_and_parts_are_named_from_the_model():
    model = nn.ModuleDict({"used": nn.Sequential(nn.Linear(8, 8), nn.Tanh()), "unused": nn.Linear(100, 100)})
    model.register_buffer("table", torch.zeros(64))
    x = torch.randn(2, 8)
    account = ledger(model, lambda: model["used"](x).sum().backward())  # never calls the model itself
    assert account.modules["unused"]["parameter"] == nbytes(model["unused"].parameters())
    assert account.modules["ModuleDict"]["buffer"] == 256
    assert (
        account.by_category["gradient"] == account.modules["used.0"]["gradient"] == nbytes(model["used"].parameters())
    )
    assert account.modules["used.1"]["activation"] == x.nbytes
    assert account.by_category["input"] == x.nbytes


def test_gradients_that_were_there_before_belong_to_their_module():
    model, x = MLP(), torch.randn(2, 3000)
    model(x).sum().backward()

    def inference() -> None:
        with torch.no_grad():
            model(x)

    account = ledger(model, inference)
    for path in ("block_1.0", "block_3.2"):
        assert account.modules[path]["gradient"] == account.modules[path]["parameter"] > 0


def test_the_gradient_of_the_input_is_outside():
    model, x = nn.Linear(8, 8), torch.randn(4, 8, requires_grad=True)
    account = ledger(model, training(model, x))
    assert account.modules[OUTSIDE]["gradient"] == x.nbytes
    assert account.modules["Linear"]["gradient"] == nbytes(model.parameters())


# ---- activations and temporaries -------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["reentrant", "nonreentrant"])
def test_checkpointing_moves_activations_to_temporaries(kind):
    def account(kind: str):
        model, x = MLP(kind), torch.randn(ROWS, 3000, requires_grad=True)
        return ledger(model, training(model, x))

    plain, checkpointed = account("none"), account(kind)
    relu, out = ROWS * 512 * 4, ROWS * 700 * 4
    saved = plain.by_category["activation"] - checkpointed.by_category["activation"]
    assert saved == relu + out + relu
    assert checkpointed.modules["block_1.1"]["temporary"] == relu
    assert plain.modules["block_1.1"]["activation"] == relu


def test_inference_remembers_nothing_but_its_result():
    model, x = MLP(), torch.randn(ROWS, 3000)

    @torch.no_grad()
    def inference() -> Tensor:
        return model(x)

    def forgetful() -> None:
        inference()

    dropped, held = ledger(model, forgetful), ledger(model, inference)
    assert dropped.by_category["activation"] == 0
    assert held.by_category["activation"] == held.modules["block_3.2"]["activation"] == ROWS * 10 * 4
    # block_2's last Linear: the block's input, which its caller holds, the Linear's input and its output
    assert dropped.by_category["temporary"] == ROWS * 4 * (700 + 512 + 700)
    assert dropped.by_category["gradient"] == 0
    assert dropped.total == dropped.peak


def test_forward_alone_remembers_what_backward_would_need():
    model, x = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), torch.randn(4, 8)
    account = ledger(model, lambda: model(x).sum())
    assert account.modules["1"]["activation"] == x.nbytes
    assert account.modules[OUTSIDE]["activation"] == 4


def test_micro_batches_do_not_add_up():
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    batches = [torch.randn(rows, 8) for rows in (4, 6, 2)]

    def step() -> None:
        for x in batches:
            model(x).sum().backward()

    account = ledger(model, step)
    assert account.by_category["activation"] == 6 * 8 * 4 + SEED  # those of the largest
    assert account.by_category["gradient"] == nbytes(model.parameters())
    assert account.by_category["input"] == nbytes(batches)


def test_what_a_first_backward_makes_is_no_activation_of_the_second():
    model, x = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), torch.randn(4, 8, requires_grad=True)

    def step() -> None:
        (dx,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        (dx**2).sum().backward()

    account = ledger(model, step)
    assert account.modules["0"]["activation"] == 0
    assert account.modules["1"]["activation"] == x.nbytes


def test_of_equal_moments_the_first_is_shown():
    model, x = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4))), torch.randn(4, 8)

    @torch.no_grad()
    def inference() -> None:
        model(x)

    account = ledger(model, inference)
    assert [account.modules[path]["temporary"] for path in "0123"] == [x.nbytes, x.nbytes, 0, 0]


def test_peak_by_hand():
    """One Linear, y = x w, backward from y.sum(): y, then dy expanded from a scalar, then dw."""
    model, x = nn.Linear(64, 32, bias=False), torch.randn(16, 64)
    account = ledger(model, training(model, x))
    w, y = 64 * 32 * 4, 16 * 32 * 4
    assert account.by_category["temporary"] == y  # y itself, until sum() has read it
    assert account.peak == w + x.nbytes + max(y + 4, SEED + w)


# ---- how it is called ------------------------------------------------------------------------------------------------
def build(width: int = 64, depth: int = 2):
    layers = [nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.LayerNorm(width)) for _ in range(depth)]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters())
    x, target = torch.randn(4, width), torch.randint(width, (4,))

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), target).backward()
        optimizer.step()

    return model, step


def test_built_and_fake_give_the_same_account():
    model, step = build()
    account = ledger(model, step)
    assert ledger(build).modules == account.modules
    assert ledger(build, fake=True).modules == account.modules
    assert ledger(build, fake=True).peak == account.peak
    assert account.by_category["input"] == 4 * 64 * 4 + 4 * 8


def test_fake_needs_no_memory():
    width = 200_000  # one weight: 160 GB
    account = ledger(lambda: build(width, depth=1), fake=True)
    params = (width * width + 3 * width) * 4
    assert by_column(account) == (params, 0, params, 2 * params + 4 * 4)


def test_rows_add_up_at_every_depth():
    model, step = build()
    account = ledger(model, step)
    for depth in range(4):
        rows = account.rows(depth)
        for column, total in account.by_category.items():
            assert sum(row.nbytes[column] for row in rows) == total
        assert sum(row.total for row in rows) == account.total
    assert [row.module for row in account.rows(0)] == ["Sequential", OUTSIDE]
    assert [row.module for row in account.rows(1)] == ["0", "1", OUTSIDE]
    assert [row.module for row in account.rows(2)] == ["0.0", "0.1", "0.2", "1.0", "1.1", "1.2", OUTSIDE]
    with pytest.raises(CkptError, match="depth is -1"):
        account.rows(-1)


def test_a_table_in_text_and_html():
    account = ledger(*build())
    lines = str(account).splitlines()
    assert lines[1].split()[:3] == ["module", "parameter", "buffer"]
    assert lines[-2].split()[0] == "total"
    assert lines[-2].split()[-1] == f"{account.total:,}"
    assert f"at most {account.peak:,} B" in lines[-1]
    assert f"<td>{account.total:,}</td>" in account._repr_html_()


def test_an_error_in_the_step_is_the_users_own_and_leaves_nothing_behind():
    model, x = MLP(), torch.randn(2, 3000)

    def step() -> None:
        model(x).sum().backward()
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        ledger(model, step)
    assert not global_hooks._global_forward_hooks
    assert not global_hooks._global_forward_pre_hooks
    with recording():  # would refuse if the first one still ran
        pass


@pytest.mark.parametrize(
    ("args", "options", "match"),
    [
        ((nn.Linear(2, 2),), {}, "needs the step to run"),
        ((nn.Linear(2, 2), 3), {}, "step to call, but got int"),
        ((len, print), {}, "needs a model, an nn.Module, but got builtin"),
        ((3,), {}, "but got int"),
        (
            (lambda: nn.Linear(2, 2),),
            {},
            r"build\(\) returned Linear, expected a function.*A model alone cannot be run",
        ),
        ((lambda: (1, 2),), {}, r"build\(\) returned int for a model, expected an nn.Module"),
        ((nn.Linear(2, 2), print), {"fake": True}, "needs a fake model"),
    ],
)
def test_wrong_arguments_are_refused(args, options, match):
    with pytest.raises(CkptError, match=match):
        ledger(*args, **options)


def test_a_model_on_two_devices_is_refused():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="meta"))
    with pytest.raises(CkptError, match=r"Sequential is on 2 devices: cpu \(.*\), meta"):
        ledger(model, lambda: None)
