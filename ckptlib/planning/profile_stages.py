"""What does each stage of this model cost? Its bytes from a trace, its seconds from a clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from tqdm.auto import tqdm

from ..errors import CkptError
from ..recompute.op_costs import Flops
from ..torch_internals import FakeTensor
from ..tracing.allocation_recorder import Recorder, recording
from ..tracing.storages import plain_parts, storages_of
from .block_detection import Chain, buffers_restored, find_chain
from .execute import call_stage
from .stage_costs import Costs

REPEATS = 3  # timed runs of each stage, of which the fastest counts


def profile_chain(model: nn.Module | Sequence[Callable], x: Any, repeats: int = REPEATS) -> Costs:
    """Measure the costs of every stage of an `nn.Sequential`, a list of stages, or a model's repeated blocks, on x.

    x is the model's input: a tensor, a tuple of arguments, or a dict of named arguments. Each stage is timed `repeats`
    times, and the fastest run counts. The bytes do not include the
    gradients of parameters, because every schedule has them. With fake tensors, times are FLOPs. The model is left
    unchanged: no gradient is accumulated, and buffers and random numbers are restored.
    """
    return profile_stages(find_chain(model, x), repeats)


def profile_stages(chain: Chain, repeats: int = REPEATS, flops: bool = False) -> Costs:
    """With `flops`, count FLOPs instead of seconds, because the step will run on a different device from this one."""
    if not isinstance(repeats, int) or repeats < 0:
        raise CkptError(f"repeats is {repeats!r}, expected a whole number of timed runs, 0 or more")
    x, stages = chain.x.detach(), []
    needs_grad = chain.x.requires_grad
    timer, runs = (_counted, 1) if flops or isinstance(x, FakeTensor) else (_timed, repeats + 1)
    with _unchanged(chain.blocks):
        shown = tqdm(chain.stages, desc="profiling stages", disable=None, delay=1, leave=False)
        for number, stage in enumerate(shown):
            found, y = _profile(number, stage, x, needs_grad, timer, runs)
            stages.append(found)
            x, needs_grad = y.detach(), y.requires_grad
            del y
    sizes = [_nbytes(chain.x), *(stage.out for stage in stages)]
    gradients = [sizes[0] * chain.x.requires_grad, *(stage.out * stage.differentiable for stage in stages)]
    return Costs(
        x=sizes,
        dx=gradients,
        dy_at_start=False,  # because the loss creates it
        **{name: [getattr(stage, name) for stage in stages] for name in ("ftime", "btime", "xbar", "ftmp")},
        **{name: [getattr(stage, name) for stage in stages] for name in ("btmp", "atmp", "saves_x", "saves_y")},
    )


class _Stage(NamedTuple):
    ftime: float
    btime: float
    out: int
    xbar: int
    ftmp: int
    btmp: int
    atmp: int
    saves_x: bool
    saves_y: bool
    differentiable: bool


def _profile(
    number: int, stage: Callable, x: Tensor, needs_grad: bool, timer: Callable, runs: int
) -> tuple[_Stage, Tensor]:
    x = x.detach().requires_grad_(needs_grad)
    own = [x, *stage.parameters(), *stage.buffers()] if isinstance(stage, nn.Module) else [x]
    # The first run is without gradients, because with them torch does not let a stage write to a leaf.
    with recording() as recorder, torch.no_grad():
        out = _nbytes(call_stage(number, stage, x))
        ftmp = _peak(recorder) - out
    ftime, btime = zip(*(timer(stage, x, own) for _ in range(runs)), strict=True)
    saved: dict[int, int] = {}  # storage -> bytes of everything that the stage saves and, in the end, of its output

    def save(t: Tensor) -> Tensor:
        saved.update((recorder.storage_of(part).index, storage.nbytes()) for part, storage in _parts(t))
        return t.detach()  # an output that its own node saves would be a cycle

    with recording() as recorder:
        for part in (part for t in own for part in plain_parts(t)):
            recorder.storage_of(part)  # it was in memory from the start
        with saved_tensors_hooks(save, lambda t: t):
            y = stage(x)
        saves_x, saves_y = (any(recorder.storage_of(part).index in saved for part in plain_parts(t)) for t in (x, y))
        if any(recorder.storage_of(part).op is None for part in plain_parts(y)):  # a view of the input
            saves_x = saves_y = True  # they share a storage, so freeing one of them frees nothing
        save(y)
        xbar = max(sum(_made(recorder, saved)), out)  # a view of the input counts as if it were new
        atmp = _peak(recorder) - xbar
        btmp = _backward(recorder, y, own) - xbar if y.requires_grad else 0
    ftmp, btmp, atmp = (max(nbytes, 0) for nbytes in (ftmp, btmp, atmp))
    ftime, btime = ftime[1:] or ftime, btime[1:] or btime  # the first run is slower than the later ones
    return _Stage(min(ftime), min(btime), out, xbar, ftmp, btmp, atmp, saves_x, saves_y, y.requires_grad), y


def _parts(t: Tensor) -> list[tuple[Tensor, torch.UntypedStorage]]:
    return [(part, part.untyped_storage()) for part in plain_parts(t)]


def _made(recorder: Recorder, saved: dict[int, int]) -> list[int]:
    """Bytes of the storages that the stage created, so without its input, its parameters and its buffers."""
    return [nbytes for index, nbytes in saved.items() if recorder.trace.storages[index].op is not None]


def _backward(recorder: Recorder, y: Tensor, own: list[Tensor]) -> int:
    """The peak during backward, without the gradients of the parameters and one gradient of y."""
    loss = y.mul(1).sum()  # so that autograd creates the gradient of y itself, and frees it after use
    start = len(recorder.trace.events)
    wanted = [t for t in own if t.requires_grad]
    grads = torch.autograd.grad(loss, wanted, torch.ones_like(loss), allow_unused=True)  # the loss may be complex
    of_parameters = [g for t, g in zip(wanted, grads, strict=True) if g is not None and t is not own[0]]
    stay = {recorder.storage_of(part).index for g in of_parameters for part in plain_parts(g)}
    return _peak(recorder, start, stay) - _nbytes(y) - 2 * _nbytes(loss)  # without the loss and its gradient


def _peak(recorder: Recorder, start: int = 0, without: Set[int] = frozenset()) -> int:
    """The most bytes of new storages that are alive at once, from the event `start` on."""
    now, levels = 0, []
    for event in recorder.trace.events:
        if event.kind in ("alloc", "free") and event.storage not in without:
            storage = recorder.trace.storages[event.storage]
            now += (storage.op is not None) * (storage.nbytes if event.kind == "alloc" else -storage.nbytes)
        levels.append(now)
    return max(levels[start:], default=0)


def _timed(stage: Callable, x: Tensor, own: list[Tensor]) -> tuple[float, float]:
    start = _clock(x)
    y = stage(x)
    middle = _clock(x)
    if not y.requires_grad:
        return middle - start, 0.0
    dy = torch.ones_like(y)
    wanted = [t for t in own if t.requires_grad]
    ready = _clock(x)
    torch.autograd.grad(y, wanted, dy, allow_unused=True)
    return middle - start, _clock(x) - ready


def _counted(stage: Callable, x: Tensor, own: list[Tensor]) -> tuple[int, int]:
    """FLOPs of forward and of backward."""
    with Flops() as forward:
        y = stage(x)
    if not y.requires_grad:
        return forward.total, 0
    with Flops() as backward:
        torch.autograd.grad(y, [t for t in own if t.requires_grad], torch.ones_like(y), allow_unused=True)
    return forward.total, backward.total


def _clock(x: Tensor) -> float:
    if x.device.type not in ("cpu", "meta"):
        torch.accelerator.synchronize(x.device)
    return time.perf_counter()


def _nbytes(t: Tensor) -> int:
    return sum(storage.nbytes() for storage in storages_of(t))


@contextmanager
def _unchanged(stages: Sequence[Callable]) -> Iterator[None]:
    """Restore random numbers and buffers afterwards."""
    with buffers_restored(stages), torch.random.fork_rng(), torch.enable_grad():
        yield
