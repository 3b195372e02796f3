"""Do programs take CUDA's own way where cuDNN is not used, in CUDA's order, and with fake tensors too?

The figures are what PyTorch's CUDA build, torch 2.13, counted on a phantom A100: peak and reserved MiB of two steps.
"""

from __future__ import annotations

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import ckptlib as ck
from ckptlib.cuda.gpus import at_release, preset
from ckptlib.cuda.op_choice.attention_choice import AttentionCall, backend
from ckptlib.cuda.op_choice.cuda_dispatch import as_cuda

A100 = at_release(preset("a100"), "2.13")
MiB = 2**20


@pytest.fixture(autouse=True)
def restored():
    before = torch.backends.cudnn.enabled
    yield
    torch.backends.cudnn.enabled = before


def training(make, size, optimizer=torch.optim.AdamW):
    """Two steps; cuDNN is switched off by the program itself, as people do."""

    def build():
        torch.backends.cudnn.enabled = False
        model, x = make(), torch.randn(*size)
        steps = optimizer(model.parameters(), lr=1e-3)

        def step():
            for _ in range(2):
                out = model(x)
                out = out[0] if isinstance(out, tuple) else out
                out.float().square().mean().backward()
                steps.step()
                steps.zero_grad()
                del out

        return step

    return build


def counted(build, **options):
    found = ck.measure(build, "sim:cuda", builds=True, gpu=A100, **options)
    assert not found.unknowns
    return found.peak, found.reserved // MiB


PROGRAMS = {
    "2d": (lambda: [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
                    nn.Conv2d(32, 8, 1)], (4, 3, 64, 64), (20_595_712, 26)),
    "1d": (lambda: [nn.Conv1d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv1d(16, 32, 5, stride=2)], (4, 3, 640),
           (18_085_888, 22)),
    "3d": (lambda: [nn.Conv3d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv3d(16, 8, 3)], (2, 3, 8, 32, 32),
           (29_899_264, 46)),
    "transposed 2d": (lambda: [nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(),
                               nn.ConvTranspose2d(16, 8, 2, stride=2)], (4, 3, 64, 64), (20_135_936, 24)),
    "transposed 3d": (lambda: [nn.Conv3d(3, 16, 3, stride=2, padding=1), nn.ReLU(),
                               nn.ConvTranspose3d(16, 8, 2, stride=2)], (2, 3, 8, 32, 32), (20_021_760, 24)),
    "dilated": (lambda: [nn.Conv2d(3, 16, 3, dilation=2), nn.ReLU(), nn.Conv2d(16, 8, 3, dilation=2, padding=2)],
                (4, 3, 64, 64), (22_104_064, 24)),
    "depthwise": (lambda: [nn.Conv2d(8, 8, 3, groups=8, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, groups=8)],
                  (4, 8, 64, 64), (5_977_600, 8)),
    "groups": (lambda: [nn.Conv2d(8, 16, 3, groups=2, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, groups=4)],
               (4, 8, 64, 64), (23_552_000, 28)),
    "batch norm": (lambda: [nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
                            nn.Conv2d(16, 32, 3, bias=False), nn.BatchNorm2d(32), nn.ReLU()], (4, 3, 64, 64),
                   (22_959_616, 26)),
    "lstm": (lambda: [nn.LSTM(32, 64, 2)], (20, 8, 32), (19_256_320, 24)),
    "lstm without biases": (lambda: [nn.LSTM(32, 64, bias=False)], (20, 8, 32), (18_197_504, 22)),
    "lstm, both directions": (lambda: [nn.LSTM(32, 64, 2, batch_first=True, bidirectional=True, dropout=0.1)],
                              (8, 20, 32), (21_838_848, 26)),
    "lstm with projections": (lambda: [nn.LSTM(32, 64, 2, proj_size=16)], (20, 8, 32), (18_576_384, 22)),
    "lstm over many rows": (lambda: [nn.LSTM(256, 256)], (5, 4096, 256), (446_981_120, 500)),
    "gru": (lambda: [nn.GRU(32, 64, 2)], (20, 8, 32), (18_854_912, 22)),
    "rnn": (lambda: [nn.RNN(32, 64, 2)], (20, 8, 32), (17_570_816, 22)),
}  # fmt: skip


@pytest.mark.parametrize("fake", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_pytorchs_own_kernels(name, fake):
    layers, size, true = PROGRAMS[name]
    assert counted(training(lambda: nn.Sequential(*layers()), size), fake=fake) == true


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.g = nn.LSTM(32, 64, 2, bidirectional=True), nn.GRU(128, 16)

    def forward(self, x):
        return self.g(self.l(nn.utils.rnn.pack_padded_sequence(x, [20, 15, 15, 7, 3]))[0])[0].data


def test_packed_sequences():
    assert counted(training(Packed, (20, 5, 32))) == (20_403_712, 24)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN, functools.partial(nn.LSTM, proj_size=3)])
def test_step_by_step_computes_the_same(kind):
    torch.manual_seed(0)
    model = kind(5, 7, 2, bidirectional=True).double()
    x = torch.randn(6, 4, 5, dtype=torch.float64, requires_grad=True)
    packed = nn.utils.rnn.pack_padded_sequence(x, [6, 4, 4, 1])
    expected = [*torch.autograd.grad(model(x)[0].sin().sum(), (x, *model.parameters())), model(packed)[0].data]
    torch.backends.cudnn.enabled = False
    with as_cuda(A100):
        found = [*torch.autograd.grad(model(x)[0].sin().sum(), (x, *model.parameters())), model(packed)[0].data]
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_with_cudnn_a_recurrent_network_is_declared():
    def build():
        return nn.GRU(4, 4), torch.randn(3, 2, 4), lambda out: out[0].sum()

    with pytest.warns(UserWarning, match="cuDNN"):
        assert "reserve" in ck.measure(build, "sim:cuda", builds=True).unknowns["gru"]


# ---- double backward: the order of the device's thread ---------------------------------------------------------------
def penalty():
    model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1))
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(512, 64, requires_grad=True)

    def step():
        for _ in range(2):
            y = model(x).sum()
            (grad,) = torch.autograd.grad(y, x, create_graph=True)
            (grad.square().sum() + y).backward()
            optimizer.step()
            optimizer.zero_grad()

    return step


def gradients_of_gradients():
    model, x = nn.Sequential(nn.Linear(32, 128), nn.Tanh(), nn.Linear(128, 8)), torch.randn(256, 32)

    def step():
        for _ in range(2):
            model(x).square().mean().backward(create_graph=True)
            sum(p.grad.square().sum() for p in model.parameters()).backward()
            model.zero_grad()

    return step


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
@pytest.mark.parametrize("fake", [False, True])
@pytest.mark.parametrize(("build", "true"), [(penalty, (24_262_656, 28)), (gradients_of_gradients, (18_197_504, 22))])
def test_double_backward_in_the_order_of_cuda(build, true, fake):
    assert counted(build, fake=fake) == true


def test_the_order_changes_no_gradient():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)

    def grads():
        y = model(x).sum()
        (grad,) = torch.autograd.grad(y, x, create_graph=True)
        return torch.autograd.grad(grad.square().sum() + y, tuple(model.parameters())[:3])

    expected = grads()
    with as_cuda(A100):
        found = grads()
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


# ---- attention on Hopper ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("gpu", "release", "d", "chosen"),
    [("h100", "2.13", 64, "cudnn"), ("h100", "2.13", 256, "cudnn"), ("b200", "2.13", 256, "flash"),
     ("h100", "2.9", 64, "flash"), ("a100", "2.13", 64, "flash"), ("rtx4090", "2.13", 64, "flash")],
)  # fmt: skip
def test_hopper_prefers_cudnn(gpu, release, d, chosen):
    q = torch.empty(2, 4, 16, d, dtype=torch.bfloat16, requires_grad=True)
    assert backend(AttentionCall(q, q, q), at_release(preset(gpu), release)) == chosen


def test_cudnns_attention_is_declared():
    def build():
        q = torch.randn(2, 4, 64, 32, dtype=torch.bfloat16, requires_grad=True)
        return lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()

    found = ck.measure(build, "sim:cuda", builds=True, gpu=at_release(preset("h100"), "2.13"))
    assert set(found.unknowns) == {
        "aten._scaled_dot_product_cudnn_attention.default",
        "aten._scaled_dot_product_cudnn_attention_backward.default",
    }
    # As on a phantom H100 before cuDNN is asked: seed, offset, output, statistics.
    assert [change.nbytes for change in found.timeline.changes[:4]] == [512, 512, 32_768, 2_048]


# ---- fake tensors ----------------------------------------------------------------------------------------------------
def test_copied_fake_layers_can_be_moved():
    def build():
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        return nn.TransformerEncoder(layer, 2).to("cpu"), torch.randn(4, 32, 64), lambda out: out.mean()

    real, fake = (ck.measure(build, "sim:cuda", builds=True, gpu=A100, fake=fake) for fake in (False, True))
    assert (fake.peak, fake.reserved) == (real.peak, real.reserved)


def test_whole_numbers_have_values_in_a_fake_run():
    seen = []

    def run():
        mask = torch.ones(4, 16, dtype=torch.int64)
        ids = torch.arange(64).view(4, 16)
        seen.extend(
            [mask.sum() == mask.numel(), bool((ids[:, :3] < 64).all()), int(ids.max()), torch.tensor([3, 4])[1].item()]
        )
        table = torch.randn(64, 8, requires_grad=True)
        F.embedding(ids, table).sum().backward()

    real, fake = (ck.measure(run, "sim:cuda", gpu=A100, fake=fake) for fake in (False, True))
    assert [bool(seen[4]), *seen[5:]] == [True, True, 63, 4]
    assert (fake.peak, fake.reserved, len(fake.trace.ops)) == (real.peak, real.reserved, len(real.trace.ops))


@pytest.mark.parametrize("optimizer", [torch.optim.ASGD, torch.optim.Adafactor])
def test_torchs_own_questions_are_answered(optimizer):
    build = training(lambda: nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)), (128, 64), optimizer)
    assert counted(build, fake=True) == {"ASGD": (17_836_544, 22), "Adafactor": (17_702_400, 22)}[optimizer.__name__]


def test_questions_of_losses_and_initialisers():
    def run():
        x = nn.init.trunc_normal_(torch.empty(64, 64, requires_grad=True))
        F.gaussian_nll_loss(x, x, x.exp()).backward()

    real, fake = (ck.measure(run, "sim:cuda", gpu=A100, fake=fake) for fake in (False, True))
    assert fake.forward_peak <= real.peak and fake.reserved == real.reserved
