"""What does each op of a segment cost? FLOPs to run it again, bytes to save what it made."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import SAC_IGNORED_OPS
from torch.utils.flop_counter import flop_registry

from ..torch_internals import FakeTensor, FakeTensorMode, TorchDispatchMode, storage_address
from ..tracing.storages import tensors_in

aten = torch.ops.aten
_SAME_PRODUCTS = {  # op without a formula in torch -> one with the same matrix products, and the same first arguments
    aten._scaled_dot_product_flash_attention_for_cpu: aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: aten._scaled_dot_product_flash_attention_backward,
}


class OpCost(NamedTuple):
    """One op of a segment, in the order they run."""

    op: Any
    flops: int
    nbytes: int  # what saving its results takes
    again: bool = True  # whether a checkpoint that saves nothing runs it again: it stops after the last save


def segment_costs(segment: Callable[..., Any], *args: Any) -> list[OpCost]:
    """Every op that a policy is asked about when `segment(*args)` runs. Nothing is computed."""
    recorder = _CostCounter()
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    inside = any(isinstance(t, FakeTensor) for t in tensors_in(args))
    saving = saved_tensors_hooks(recorder.save, lambda tensor: tensor)
    with torch.random.fork_rng(), nullcontext() if inside else fake, recorder, saving:
        segment(*args if inside else [fake.from_tensor(a) if isinstance(a, Tensor) else a for a in args])
    needed = recorder.needed or len(recorder.costs)  # nothing is saved without gradients, so all ops may run again
    return [cost._replace(again=i < needed) for i, cost in enumerate(recorder.costs)]


class _CostCounter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.costs: list[OpCost] = []
        self.needed = 0  # so many ops had run when the last tensor was saved: early stop leaves the others out

    def save(self, tensor: Tensor) -> Tensor:
        self.needed = len(self.costs)
        return tensor

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func not in SAC_IGNORED_OPS:
            self.costs.append(OpCost(func, op_flops(func, args, kwargs or {}, out), storage_bytes(out)))
        return out


def storage_bytes(out: Any) -> int:
    """The bytes that saving `out` keeps in memory. Views of one storage count once."""
    return sum({storage_address(t.untyped_storage()): t.untyped_storage().nbytes() for t in tensors_in(out)}.values())


def op_flops(func: Any, args: tuple, kwargs: dict, out: Any) -> int:
    """Counted by torch's own formulas. The CPU's fused attention, which has none, is counted as CUDA's."""
    packet = getattr(func, "overloadpacket", func)
    packet = _SAME_PRODUCTS.get(packet, packet)
    if packet not in flop_registry:
        return 0
    if packet.__name__.startswith("_scaled_dot_product"):  # torch 2.11 has no formula for fewer heads of keys
        args = (*(_with_heads(x, args[0].shape[1]) for x in args[:4]), *args[4:])
    return flop_registry[packet](*args, **kwargs, out_val=out)


class Flops(TorchDispatchMode):
    """Adds up the FLOPs of the matrix products, convolutions and attention that run inside."""

    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.total += op_flops(func, args, kwargs or {}, out)
        return out


def _with_heads(x: Any, heads: int) -> Any:
    """Of queries, keys, values or a gradient, (N, H, T, D): the shape it has for the product, with as many heads."""
    return (x.shape[0], heads, *x.shape[2:]) if isinstance(x, Tensor) and x.dim() == 4 else x
