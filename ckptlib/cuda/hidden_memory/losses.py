"""How much hidden memory do losses have? On CUDA several are made of other ops, inside one that the dispatcher sees.

Paths are inside pytorch/pytorch, aten/src/ATen/native. `reduction` is 0 for none, 1 for mean, 2 for sum.
"""

from __future__ import annotations

from typing import Any

from ...tracing.events import Op, TensorMeta
from ..gpus import Gpu
from .allocations import NOTHING, HiddenMemory, MemoryStep, Output, copies, passing
from .reductions import reduced


def _argument(op: Op, position: int, name: str, default: Any) -> Any:
    return op.args[position] if len(op.args) > position else op.kwargs.get(name, default)


def _full(x: TensorMeta, y: TensorMeta) -> TensorMeta:
    """The shape of what an elementwise op of the two makes. Losses may broadcast, but seldom do."""
    return max((x, y), key=lambda t: t.numel)._replace(stride=x.stride if x.numel >= y.numel else y.stride)


def bce_with_logits(op: Op, gpu: Gpu) -> HiddenMemory:
    """Loss.cpp `binary_cross_entropy_with_logits`: log-sigmoid of the input, then the loss before it is reduced."""
    x, target = op.args[:2]
    weight = _argument(op, 3, "pos_weight", None)
    full = _full(x, target)
    steps: tuple[MemoryStep, ...] = (x.nbytes,)
    if weight is not None:
        steps += (weight.nbytes, full.nbytes, -weight.nbytes, -full.nbytes)
    if _argument(op, 4, "reduction", 1) == 0:
        return HiddenMemory(steps)
    return HiddenMemory((*steps, full.nbytes), passing(*reduced(full, gpu)))


def reduced_in_place(op: Op, gpu: Gpu) -> HiddenMemory:
    """Loss.cpp, cuda/Loss.cu (bce, soft margin): the loss is reduced to a scalar, which is copied into the output."""
    x = op.args[0]
    reduction = _argument(op, 2 if "soft_margin" in op.name else 3, "reduction", 1)
    if not reduction:
        return NOTHING
    return HiddenMemory(after=passing(x.dtype.itemsize, *reduced(x, gpu)))


def elementwise_then_reduced(op: Op, gpu: Gpu) -> HiddenMemory:
    """BinaryOps.cpp `mse_loss_out`, `smooth_l1_loss_out`: the loss of each element is a second tensor beside."""
    x, target = op.args[:2]
    if not _argument(op, 2, "reduction", 1):
        return NOTHING
    full = _full(x, target)
    return HiddenMemory(after=(full.nbytes, *passing(*reduced(full, gpu))))


def huber(op: Op, gpu: Gpu) -> HiddenMemory:
    """Loss.cpp `huber_loss`: the loss of each element, then its sum or mean."""
    x, target = op.args[:2]
    if not _argument(op, 2, "reduction", 1):
        return NOTHING
    full = _full(x, target)
    return HiddenMemory((full.nbytes,), passing(*reduced(full, gpu)))


def soft_margin_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """Loss.cpp `soft_margin_loss_backward_out`: z = exp(-target * input), out of place."""
    nbytes = op.args[1].nbytes
    return HiddenMemory((nbytes,) * 3 + (-nbytes,) * 2)


def multi_margin(op: Op, gpu: Gpu) -> HiddenMemory:
    """cuda/MultiMarginLoss.cu: the loss of each row, summed afterwards."""
    x = op.args[0]
    rows = x._replace(shape=x.shape[:1], stride=(1,))
    if len(x.shape) < 2 or not _argument(op, 5, "reduction", 1):
        return NOTHING
    return HiddenMemory(after=(rows.nbytes, *passing(*reduced(rows, gpu))))


def multilabel_margin(op: Op, gpu: Gpu) -> HiddenMemory:
    """cuda/MultiLabelMarginCriterion.cu: which entries are targets, the loss of each row, and then their sum."""
    x = op.args[0]
    rows = x._replace(shape=x.shape[:1], stride=(1,))
    if len(x.shape) < 2 or not op.args[2]:
        return HiddenMemory((Output(1),))
    return HiddenMemory((Output(1), rows.nbytes), passing(*reduced(rows, gpu)))


def nll(op: Op, gpu: Gpu) -> HiddenMemory:
    """cuda/Loss.cu `nll_loss_forward_out_cuda_template`: works on contiguous copies of input, target and weight."""
    return HiddenMemory(after=copies(*op.args[:3]))


def nll_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """cuda/Loss.cu `nll_loss_backward_out_cuda_template`: as forward; the gradient of one loss is contiguous."""
    dy, x, target, weight = op.args[:4]
    return HiddenMemory(after=copies(target, x, dy, weight))


def nll2d(op: Op, gpu: Gpu) -> HiddenMemory:
    """cuda/NLLLoss2d.cu: as `nll`, but losses that are not reduced are read where they are."""
    x, target, weight, reduction = op.args[:4]
    return HiddenMemory(after=copies(x, weight, target) if reduction else copies(weight))


def nll2d_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    _, _, target, weight, reduction = op.args[:5]
    return HiddenMemory(after=copies(weight, target) if reduction else copies(weight))


def distance(op: Op, gpu: Gpu) -> HiddenMemory:
    """Distance.cpp `dist`: the norm of the difference, which is a tensor of its own."""
    full = _full(*op.args[:2])
    return HiddenMemory((full.nbytes,), passing(*reduced(full, gpu)))


def ctc(op: Op, gpu: Gpu) -> HiddenMemory:
    """cuda/LossCTC.cu `ctc_loss_gpu_template`: the lengths and the offsets, which come from the host."""
    lengths = (8 * op.args[0].shape[1],) * 3
    return HiddenMemory((*lengths, Output(1), Output(0)))


def ctc_backward(op: Op, gpu: Gpu) -> HiddenMemory:
    """cuda/LossCTC.cu `ctc_loss_backward_gpu_template`: the betas. If there is much to do, also sums over blanks."""
    probabilities, alpha = op.args[1], op.args[6]
    steps, batch, labels = probabilities.shape
    before = (*(8 * batch,) * 3, alpha.nbytes)
    if 2 * steps + 24 * batch // 10 + 2 * labels // 10 <= 450:
        return HiddenMemory(before)
    every_other = (*alpha.shape[:2], alpha.shape[2] // 2 + 1)
    added = alpha._replace(shape=every_other, stride=(every_other[1] * every_other[2], every_other[2], 1))
    summed = batch * steps * alpha.dtype.itemsize
    maxima = passing(*reduced(added, gpu, "aten.amax.default", [2]))
    sums = passing(*reduced(added, gpu, "aten.sum.dim_IntList", [2]))
    flags = batch * steps
    blanks = (added.nbytes, summed, summed, *maxima, summed, flags, -flags, -summed, added.nbytes, *sums)
    freed = (-added.nbytes, -summed, -added.nbytes, -summed)
    zeroed = (
        (batch, probabilities.dtype.itemsize, probabilities.nbytes) if _argument(op, 8, "zero_infinity", False) else ()
    )
    return HiddenMemory(before, (*blanks, *freed, *zeroed))
