"""Fake runs against the same runs for real."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import ckptlib as ck
from ckptlib.tracing.fake_tensor_differences import UnknownWhenFake

DEVICES = ("cpu", "sim:cuda")


def found(step, device: str, fake: bool) -> tuple:
    """All that a measurement says of memory: every change of it, and what is in it at the peak."""
    result = ck.measure(step, device, builds=True, fake=fake)
    changes = [(change.nbytes, change.owner.category, change.phase) for change in result.timeline.changes]
    return result.peak, result.forward_peak, result.by_category, changes


# ---- results on larger storages -----------------------------------------------------------------------------------
N, D = 64, 32
LOSSES = {
    "mse": lambda x, y: F.mse_loss(x, y),
    "mse sum": lambda x, y: F.mse_loss(x, y, reduction="sum"),
    "mse none": lambda x, y: F.mse_loss(x, y, reduction="none").sum(),
    "mse broadcast": lambda x, y: torch.ops.aten.mse_loss(x[:1].detach(), y) + x.sum(),
    # No gradient for these: torch's fake backward has another dtype, or other strides, or divides by 0 elements.
    "mse of two dtypes": lambda x, y: F.mse_loss(x.detach(), y.double()) + x.sum(),
    "mse of permuted": lambda x, y: F.mse_loss(x.detach().t(), y.t()) + x.sum(),
    "mse of nothing": lambda x, y: F.mse_loss(x[:0].detach(), y[:0]) + x.sum(),
    "mse of bfloat16": lambda x, y: F.mse_loss(x.bfloat16(), y.bfloat16()),
    "smooth l1": lambda x, y: F.smooth_l1_loss(x, y),
    "smooth l1 sum": lambda x, y: F.smooth_l1_loss(x, y, reduction="sum"),
    "smooth l1, beta 0": lambda x, y: F.smooth_l1_loss(x, y, beta=0),
    "huber": lambda x, y: F.huber_loss(x, y),
    "huber sum": lambda x, y: F.huber_loss(x, y, reduction="sum"),
    "soft margin": lambda x, y: F.soft_margin_loss(x, y.sign()),
    "soft margin sum": lambda x, y: F.soft_margin_loss(x, y.sign(), reduction="sum"),
    "bce": lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()),
    "bce sum": lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), reduction="sum"),
    "bce weighted": lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), weight=y.sigmoid()),
    "l1": lambda x, y: F.l1_loss(x, y),
    "unfold": lambda x, y: F.unfold(x.view(2, 4, 16, 16), 3).sum(),
    "unfold to less": lambda x, y: F.unfold(x.view(2, 4, 16, 16), 1, stride=4).sum(),
    "unfold one": lambda x, y: F.unfold(x.view(8, 16, 16), 3).sum(),
    "fold": lambda x, y: F.fold(x.view(1, 8, 256), (32, 32), 2, stride=2).sum(),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", LOSSES)
def test_a_fake_result_stands_on_the_real_ones_bytes(name, device):
    def build():
        x, y = torch.randn(N, D, requires_grad=True), torch.rand(N, D)

        def step():
            loss = LOSSES[name](x * 2, y)
            loss.backward()

        return step

    assert found(build, device, fake=True) == found(build, device, fake=False)


def test_the_mean_of_a_loss_keeps_as_much_as_the_prediction():
    """By hand: x, y, and a loss of one element in a storage of x's size."""
    x, y = torch.randn(N, D), torch.randn(N, D)
    assert F.mse_loss(x, y).untyped_storage().nbytes() == N * D * 4
    assert ck.measure(lambda: F.mse_loss(x, y), fake=True).peak == 3 * N * D * 4


def test_an_lstms_workspace_is_an_honest_unknown():
    def build(cell=nn.LSTM):
        net, x = cell(16, 16), torch.randn(8, 4, 16)
        return lambda: net(x)[0].sum().backward()

    with pytest.warns(UnknownWhenFake, match="oneDNN.*a fake run counts none"):
        fake = ck.measure(build, builds=True, fake=True)
    assert fake.peak < ck.measure(build, builds=True).peak
    assert list(fake.unknowns) == ["aten.mkldnn_rnn_layer.default"]
    assert "workspace" in str(fake)
    with pytest.warns(UnknownWhenFake):
        ck.saved_tensors(lambda: nn.LSTM(16, 16)(torch.randn(8, 4, 16)), fake=True)


@pytest.mark.parametrize("cell", [nn.GRU, nn.RNN, nn.LSTMCell])
def test_other_recurrent_layers_are_known(cell):
    def build():
        net, x = cell(16, 16), torch.randn(8, 16)
        return lambda: net(x)[0].sum().backward()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found(build, "cpu", fake=True) == found(build, "cpu", fake=False)
        assert ck.measure(build, builds=True, fake=True).unknowns == {}


def test_an_lstm_that_keeps_nothing_for_backward_is_known():
    def build():
        net, x = nn.LSTM(16, 16), torch.randn(8, 4, 16)
        return torch.no_grad()(lambda: net(x)[0].sum())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found(build, "cpu", fake=True)[0] == found(build, "cpu", fake=False)[0]


# ---- real tensors from outside ------------------------------------------------------------------------------------
X = torch.randn(N, D)
PART = torch.randn(4 * N, D).resize_(N, D)  # of a larger storage
FROZEN = nn.Sequential(nn.Linear(D, D), nn.BatchNorm1d(D), nn.Linear(D, D)).requires_grad_(False)
PROGRAMS = {
    "a row": lambda: X[0] * 2,
    "views of views": lambda: [X.t()[1:].reshape(-1), X.view(-1), X.detach()],
    "view kept by the graph": lambda: (torch.ones(D, requires_grad=True) * X[0]).sum(),
    "part of a storage": lambda: [PART.t(), PART + 1],
    "split": lambda: [part + 1 for part in X.split(16)],
    "in place": lambda: torch.zeros(N, D).add_(X.t().t()),
    "frozen model": lambda: FROZEN(torch.randn(8, D, requires_grad=True)).sum().backward(),
    "frozen model, called twice": lambda: FROZEN(FROZEN(torch.randn(8, D, requires_grad=True))).sum().backward(),
    "frozen model, checkpointed": lambda: (
        ck.checkpoint(FROZEN, torch.randn(8, D, requires_grad=True), use_reentrant=False).sum().backward()
    ),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_real_tensor_and_its_fake_views_count_once(name, device):
    before = {key: value.clone() for key, value in FROZEN.state_dict().items()}

    def build():
        return PROGRAMS[name]

    fake = found(build, device, fake=True)
    FROZEN.load_state_dict(before)
    assert fake == found(build, device, fake=False)


def test_frozen_weights_are_saved_as_parameters_in_a_fake_run():
    def forward():
        return FROZEN(torch.randn(8, D, requires_grad=True)).sum()

    def rows(fake):
        kept = ck.saved_tensors(forward, fake=fake)
        return sorted((row.kind, row.name, row.nbytes) for row in kept if row.kind != "activation")

    assert rows(fake=True) == rows(fake=False)
    assert ("parameter", "0.weight", D * D * 4) in rows(fake=True)


def test_a_view_keeps_its_real_tensor_alive():
    """The real tensor's name goes first, its view last: only then is the memory free."""

    def program():
        given = [torch.randn(1000)]

        def step():
            view = given[0][:10]
            given.clear()
            ck.mark("view alive")
            del view
            ck.mark("view gone")

        return step

    marks = {}
    for fake in (False, True):
        step = program()  # outside the trace: the tensor is real in both
        marks[fake] = [(m.label, m.allocated) for m in ck.measure(step, fake=fake).marks]
    assert marks[True] == marks[False] == [("view alive", 4000), ("view gone", 0)]
