"""How long does a training step of a transformer take on a GPU, at best? Its ops, each under the GPU's roofline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from ..cuda.gpus import Speed, preset, speed_of
from ..cuda.op_choice.cuda_dispatch import as_cuda
from ..models.configs import Config
from ..recompute.op_times import OpWork, Work, op_seconds
from ..tracing.allocation_recorder import recording
from .transformer_step import Setting, forward_backward, update_alone

CARD = preset("a100")  # the ops of a step are those of this card; any other GPU only changes how fast they run


@dataclass(frozen=True)
class GpuWork:
    """What a part of a step asks of the GPU. Parts add up."""

    kernels: int  # ops that the host launches
    flops: int  # of matrix products, those of the recomputation included
    busy: float  # seconds of all kernels, one after another, each under the roofline

    def __add__(self, other: GpuWork) -> GpuWork:
        return GpuWork(self.kernels + other.kernels, self.flops + other.flops, self.busy + other.busy)

    def __mul__(self, times: int) -> GpuWork:
        return GpuWork(self.kernels * times, self.flops * times, self.busy * times)

    def seconds(self, speed: Speed) -> float:
        """The GPU waits for the host if the host cannot launch the kernels as fast as they run."""
        return max(self.busy, self.kernels * speed.launch)


def passes(
    config: Config, batch: int, strategy: str = "none", gpu: str | Speed = "a100", fused: bool = False
) -> GpuWork:
    """Forward and backward in half precision. `strategy`, one of `formulas.STRATEGIES`, is what backward runs again."""
    return _all_layers(config, lambda short: _passes(short, batch, strategy, fused), speed_of(gpu))


def update(config: Config, gpu: str | Speed = "a100") -> GpuWork:
    """AdamW in mixed precision, as eager PyTorch runs it: the same for every batch."""
    return _all_layers(config, _update, speed_of(gpu))


def _all_layers(config: Config, ops: Callable[[Config], tuple[OpWork, ...]], speed: Speed) -> GpuWork:
    """All layers are equal, so two short models, of one layer and of two, show what each of them adds."""
    one, two = (_run(ops(replace(config, layers=layers)), speed) for layers in (1, 2))
    return one + (two + one * -1) * (config.layers - 1)


def _run(ops: tuple[OpWork, ...], speed: Speed) -> GpuWork:
    return GpuWork(len(ops), sum(op.flops for op in ops), sum(op_seconds(op, speed) for op in ops))


@cache
def _passes(config: Config, batch: int, strategy: str, fused: bool) -> tuple[OpWork, ...]:
    at = Setting(config, batch, "mixed", fused, CARD)
    return _seen(lambda: forward_backward(at, strategy, config.layers if strategy == "full" else 0))


@cache
def _update(config: Config) -> tuple[OpWork, ...]:
    return _seen(lambda: update_alone(Setting(config, 1, "mixed", False, CARD)))


def _seen(setup: Callable[[], Callable[[], None]]) -> tuple[OpWork, ...]:
    """The ops of the step that `setup` returns. Its tensors are fake, so nothing is computed."""
    with as_cuda(CARD), recording(fake=True):
        step = setup()
        with Work() as work:
            step()
    return tuple(work.ops)
