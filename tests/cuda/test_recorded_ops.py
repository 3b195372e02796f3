"""Small programs and the bytes that PyTorch's own CUDA code counted for them, on a phantom A100 with torch 2.13.

Each figure is (peak, memory left): `python -m ckptlib.cuda.phantom` ran the same lines with device="cuda", read
`torch.cuda.memory_stats()` at the same marks, and reset the peak at each of them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import ckptlib as ck
from ckptlib.cuda.gpus import at_release, preset

A100 = at_release(preset("a100"), "2.13")
LAST = torch.channels_last


def x(*shape: int, dtype: torch.dtype = torch.float32, last: bool = False) -> Tensor:
    made = torch.ones(shape, dtype=dtype)
    return (made.contiguous(memory_format=LAST) if last else made).requires_grad_()


def zeros(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.int64)


def conv(image: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(image, weight, padding=1)


def by_lengths(data: Tensor) -> Tensor:
    return torch.segment_reduce(data, "sum", lengths=torch.full((10,), 30), unsafe=True)


def solved(a: Tensor, b: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(a, b, upper=True)


def cubed(v: Tensor) -> Tensor:
    return torch.func.hessian(lambda a: (a**3).sum())(v)


# name -> (function, its arguments, (peak, left) after forward, (peak, left) after backward)
CASES: dict[str, tuple[Callable[..., Tensor], Callable[[], tuple[Tensor, ...]], tuple[int, int], tuple[int, int]]] = {
    "index_reduce": (
        lambda a, i, s: a.index_reduce(0, i, s, "mean"),
        lambda: (x(100, 64), zeros(300), x(300, 64)), (232960, 130560), (437760, 258560),
    ),
    "segment_reduce": (by_lengths, lambda: (x(300, 8),), (12800, 10752), (23040, 20480)),
    "few large triangular systems": (
        solved, lambda: (x(3, 70, 70), x(3, 70, 5)), (8587776, 8587776), (17234432, 17175552)
    ),
    "nll_loss of transposed inputs": (
        lambda a, i: F.nll_loss(a.t(), i[:, 1]), lambda: (x(21, 300), zeros(300, 2)), (59904, 31744), (86016, 57344)
    ),
    "cross_entropy of permuted pixels": (
        lambda a, i: F.cross_entropy(a.permute(0, 3, 1, 2), i.transpose(1, 2)),
        lambda: (x(4, 20, 22, 9), zeros(4, 22, 20)), (204800, 142336), (269312, 142336),
    ),
    "convolution, input channels last": (
        conv, lambda: (x(4, 8, 20, 20, last=True), x(16, 8, 3, 3)), (162816, 158208), (321024, 316416)
    ),
    "convolution, weight channels last": (
        conv, lambda: (x(4, 8, 20, 20), x(16, 8, 3, 3, last=True)), (209408, 158208), (367616, 316416)
    ),
    "convolution in float64, input channels last": (
        conv, lambda: (x(4, 8, 20, 20, dtype=torch.float64, last=True), x(16, 8, 3, 3, dtype=torch.float64)),
        (418816, 316416), (735232, 632832),
    ),
    "convolution, its result summed": (
        lambda a, w: conv(a, w).sum(), lambda: (x(4, 8, 20, 20), x(16, 8, 3, 3)), (158720, 56320), (215040, 112640)
    ),
    "packed sequence": (
        lambda a: nn.utils.rnn.pack_padded_sequence(a, [9, 7, 5, 2]).data * 2,
        lambda: (x(9, 4, 30),), (10752, 7680), (18432, 15360),
    ),
    "Hessian": (cubed, lambda: (x(40),), (36864, 14336), (34816, 14336)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_op_holds_what_it_holds_on_cuda(name):
    function, make, *expected = CASES[name]

    def build():
        inputs = make()

        def step():
            out = function(*inputs)
            ck.mark("forward")
            grad = torch.ones_like(out)
            ck.mark("gradient")
            out.backward(grad)
            ck.mark("backward")
            return inputs, out, grad

        return lambda: kept.append(step())

    kept: list = []
    marks = {m.label: (m.peak, m.allocated) for m in ck.measure(build, "sim:cuda", builds=True, gpu=A100).marks}
    assert [marks["forward"], marks["backward"]] == expected


@pytest.mark.parametrize("fake", [False, True])
def test_inference_mode_takes_what_no_grad_takes(fake):
    """Autograd does not take `linear` apart in inference mode, so the recorder does: its product needs a workspace."""

    def peak(context):
        def build():
            model, data = nn.Sequential(nn.Linear(60, 300), nn.LayerNorm(300), nn.Linear(300, 20)), torch.ones(128, 60)

            def step():
                with context():
                    return model(data).half().softmax(-1)

            return step

        found = ck.measure(build, "sim:cuda", builds=True, fake=fake, gpu=A100)
        return found.peak, [op.name for op in found.trace.ops]

    bytes_, names = peak(torch.inference_mode)
    assert (bytes_, names) == peak(torch.no_grad)
    assert bytes_ > A100.cublas_workspace and "aten.addmm.default" in names


@pytest.mark.parametrize(
    ("function", "who"),
    [(torch.linalg.cholesky, "cuSOLVER"), (torch.linalg.inv, "cuSOLVER"), (torch.fft.rfft, "cuFFT"),
     (torch.linalg.pinv, "cuSOLVER"), (torch.matrix_exp, "values")],
)  # fmt: skip
def test_what_only_a_library_knows_is_declared(function, who):
    found = ck.measure(lambda: function(torch.eye(30)), "sim:cuda", gpu=A100)
    assert any(who in why for why in found.unknowns.values())


@pytest.mark.parametrize("pin_memory", [False, True])
def test_what_save_on_cpu_saves_leaves_the_gpu(pin_memory):
    """Forward leaves the input and the sum, and backward gets the saved result of exp back."""
    x = torch.ones(512, 512, requires_grad=True)

    def step():
        with torch.autograd.graph.save_on_cpu(pin_memory=pin_memory):
            total = x.exp().sum()
        ck.mark("forward")
        total.backward()

    found = ck.measure(step, "sim:cuda")
    assert found.marks[0].allocated == 512 * 512 * 4 + 512
    assert torch.equal(x.grad, torch.ones(512, 512).exp())
