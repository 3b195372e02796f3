"""How is a function run now and its activations recomputed later? A checkpoint, in both of PyTorch's ways.

Reentrant: one `autograd.Function` stands for the whole segment; its backward runs the segment again and calls autograd
inside autograd. Non-reentrant: the segment's own graph is built as always, but the tensors that autograd would save in
it are dropped. When backward needs the first of them, the segment runs again, which computes all of them again.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.utils.checkpoint as theirs
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import CheckpointError, noop_context_fn

from ..torch_internals import (
    backward_engine,
    backward_visits_all_leaves,
    current_graph_task,
    debug_setting,
    early_stop_setting,
    graph_exec_group,
    make_saved_tensor,
    not_compiled,
)
from .determinism import FINGERPRINTS, DebugLog, different_number, different_tensors, too_many
from .rng_and_autocast import GlobalState, accelerator_awake

ContextFn = Callable[[], tuple[AbstractContextManager, AbstractContextManager]]


class CheckpointFunction(torch.autograd.Function):
    """The segment as one node of the graph. Use `apply(fn, preserve_rng_state, *args)`.

    There is no node unless a tensor among `args` itself requires a gradient: autograd
    looks at a Function's inputs, and the weights that `fn` uses are not among them.
    """

    @staticmethod
    def forward(ctx: Any, fn: Callable, preserve_rng_state: bool, *args: Any) -> Any:
        ctx.fn = fn
        ctx.global_state = GlobalState(preserve_rng_state, args)
        ctx.save_for_backward(*(a for a in args if isinstance(a, Tensor)))
        ctx.rest = {i: a for i, a in enumerate(args) if not isinstance(a, Tensor)}
        with torch.no_grad():
            return fn(*args)

    @staticmethod
    def backward(ctx: Any, *dys: Tensor | None) -> tuple:
        if not backward_visits_all_leaves():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with "
                ".grad() or passing an `inputs` parameter to .backward(): the weights "
                "inside would get gradients that nobody asked for. "
                "Set use_reentrant=False, or call .backward() without `inputs`."
            )
        args = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        for i, value in ctx.rest.items():  # ascending, so each goes where it was
            args.insert(i, value)
        with ctx.global_state.restored(), torch.enable_grad():
            ys = ctx.fn(*args)  # the second forward: this is the price
        pairs = zip((ys,) if isinstance(ys, Tensor) else ys, dys, strict=True)
        found = [(y, dy) for y, dy in pairs if isinstance(y, Tensor) and y.requires_grad]
        if not found:
            why = "this checkpoint() is not necessary"
            raise RuntimeError(f"none of output has requires_grad=True, {why}")
        ys, dys = zip(*found, strict=True)
        torch.autograd.backward(ys, dys)  # weights get their .grad here
        return None, None, *(a.grad if isinstance(a, Tensor) else None for a in args)


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: ContextFn = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Run `function(*args, **kwargs)` and remember only its inputs; its activations are computed again in backward.

    A drop-in for `torch.utils.checkpoint.checkpoint`, with two differences. If `use_reentrant` is not passed, both
    functions warn, but this one takes False, which is safer, and torch's takes True. And `determinism_check` may also
    be "values".

    use_reentrant       True: use CheckpointFunction. Some input must require a gradient. Keyword arguments,
                        `autograd.grad`, higher derivatives and the options below, except `preserve_rng_state`, do not
                        work.
    preserve_rng_state  restore the random state, so that dropout draws the same mask again.
    context_fn          a function that returns two context managers, for the first run and for the second. It is
                        used for selective checkpointing.
    determinism_check   "default": the number, shapes, dtypes and devices of the saved tensors must agree in both runs.
                        "values": their bits must agree too. Every saved tensor is read (and copied to the CPU) twice,
                        which takes a few ns per byte, and a hash of 16 bytes is stored for it. BatchNorm in training
                        never passes, because the first run updates the statistics that it saves; nn.RReLU hardly ever
                        passes, because its noise is saved before it is drawn. "none": only the number must agree.
    debug               if the determinism check fails, add a log of the ops of both runs to its error.
    early_stop          stop the second run as soon as the last saved tensor has been computed. Pass False where
                        nn.RReLU in training is the last op that saves. Otherwise the run stops before its noise is
                        drawn, and the gradient is silently wrong, as it is with torch's own checkpoint.

    Inside `torch.compile` it breaks the graph and runs eagerly, which is always right and never faster. Torch's own
    checkpoint becomes part of the graph, where backend="eager" draws a new mask for dropout.
    """
    if use_reentrant is None:
        warnings.warn(
            "the use_reentrant parameter should be passed explicitly. If it is not, ckptlib uses use_reentrant=False, "
            "but torch.utils.checkpoint uses True",
            stacklevel=2,
        )
        use_reentrant = False
    if determinism_check not in FINGERPRINTS:
        raise ValueError(f"determinism_check should be one of {list(FINGERPRINTS)}, but got {determinism_check!r}")
    if not use_reentrant:
        return _with_hooks(function, args, kwargs, preserve_rng_state, context_fn, determinism_check, debug, early_stop)
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}. They need use_reentrant=False")
    if context_fn is not noop_context_fn or debug or determinism_check == "values":
        raise ValueError("Passing `context_fn` or `debug` or 'values' is only supported when use_reentrant=False.")
    if torch.is_grad_enabled() and not any(isinstance(a, Tensor) and a.requires_grad for a in args):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)
    return _reentrant(function, preserve_rng_state, *args)


@not_compiled
def _reentrant(*args: Any) -> Any:
    return CheckpointFunction.apply(*args)


@not_compiled
def _with_hooks(
    fn: Callable,
    args: tuple,
    kwargs: dict,
    preserve_rng_state: bool,
    context_fn: ContextFn,
    determinism_check: str,
    debug: bool,
    early_stop: bool,
) -> Any:
    if (setting := debug_setting(theirs)) is not None:  # set_checkpoint_debug_enabled is in force
        debug = setting
    if (setting := early_stop_setting(theirs)) is not None:  # set_checkpoint_early_stop is in force
        early_stop = setting
    if debug and context_fn is not noop_context_fn:
        raise ValueError("debug=True is incompatible with non-default context_fn")
    log = DebugLog() if debug else None
    first, second = (log or context_fn)()
    if not torch.is_grad_enabled():
        return fn(*args, **kwargs)
    global_state = GlobalState(preserve_rng_state, (*args, *kwargs.values()))
    segment = _Segment(fn, args, kwargs, global_state, second, FINGERPRINTS[determinism_check], early_stop, log)
    with saved_tensors_hooks(segment.pack, segment.unpack), first:
        out = fn(*args, **kwargs)
        segment.complete = True
    if not segment.complete:
        raise RuntimeError(
            "As in torch.utils.checkpoint: the forward context provided by context_fn suppressed an exception raised "
            "during the checkpointed forward. This is not supported because checkpoint cannot return a value for a "
            "failed forward."
        )
    if preserve_rng_state and not global_state.awake and accelerator_awake():
        raise RuntimeError(
            "PyTorch's device state was initialized in the forward pass of a Checkpoint, which is not allowed: its "
            "random numbers could not be drawn again. Move a tensor to the accelerator before the first checkpoint."
        )
    return out


class _Stop(Exception):
    """Ends a recomputation early. An Exception, so that modules still call their always_call hooks."""


class _Slot:
    """What autograd saves in place of one tensor. Only its node refers to it, so it is freed with its node.

    It holds the tensor between its recomputation and its use, under the key of the backward pass that needs it.
    """

    __slots__ = ("__weakref__", "tensors")

    def __init__(self) -> None:
        self.tensors: dict[Any, Tensor | None] = {}


class _Segment:
    """One non-reentrant checkpoint: how to run it again, and a slot for every tensor that it must recompute.

    Nesting needs no extra code. Inputs are saved as an op saves its inputs, so an outer checkpoint packs them, and
    recomputes them first.
    """

    def __init__(
        self,
        fn: Callable,
        args: tuple,
        kwargs: dict,
        global_state: GlobalState,
        context: AbstractContextManager,
        fingerprint: Callable[[Tensor], tuple],
        early_stop: bool,
        log: DebugLog | None,
    ) -> None:
        self.fn, self.kwargs, self.global_state, self.context = fn, kwargs, global_state, context
        self.fingerprint, self.early_stop, self.log = fingerprint, early_stop, log
        self.saved = {i for i, a in enumerate(args) if isinstance(a, Tensor)}  # positions of the tensors in `inputs`
        self.inputs = [make_saved_tensor(a, is_output=False) if isinstance(a, Tensor) else a for a in args]
        self.slots: list[weakref.ref[_Slot]] = []  # in the order in which autograd saved
        self.fingerprints: list[tuple] = []  # one for each slot
        self.done: set[Any] = set()  # the backward passes it was recomputed for
        self.complete = False  # the first run has ended

    def pack(self, x: Tensor) -> _Slot:
        slot = _Slot()
        self.slots.append(weakref.ref(slot))
        self.fingerprints.append(self.fingerprint(x))
        return slot

    def unpack(self, slot: _Slot) -> Tensor:
        group, task = graph_exec_group(), current_graph_task()
        key = group or (task if task != -1 else object())  # no backward pass: somebody reads a node directly
        try:
            if key not in self.done:
                self.recompute(key)
            return self.take(slot, key)
        except CheckpointError as error:
            if self.log is None:
                raise
            raise self.log.explain(error) from error
        finally:
            if group is None and task == -1:
                self.forget(key)

    def take(self, slot: _Slot, key: Any) -> Tensor:
        x = slot.tensors.get(key)
        if x is None:
            raise CheckpointError(
                "ckptlib.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. If you are "
                "calling ctx.saved_tensors in backward, make sure to do so only once. Performing two backward calls "
                "that overlap (i.e. require the same saved activation) is not allowed under GraphExecGroup."
            )
        slot.tensors[key] = None  # free it at once, even if the graph is retained
        return x

    def recompute(self, key: Any) -> None:
        if isinstance(key, int):  # what this backward recomputes and does not use is released at its end
            me = weakref.ref(self)  # and the segment itself as soon as it is not needed

            def ended() -> None:
                if (segment := me()) is not None:
                    segment.forget(key)

            backward_engine.queue_callback(ended)
        args = [a.unpack() if i in self.saved else a for i, a in enumerate(self.inputs)]
        replay = _Recomputation(self, key)
        try:
            with saved_tensors_hooks(replay.pack, lambda x: x), torch.enable_grad():
                _run_eagerly(self, args)
        except _Stop:
            pass
        self.done.add(key)
        replay.check()

    def forget(self, key: Any) -> None:
        self.done.discard(key)
        for ref in self.slots:
            if (slot := ref()) is not None:
                slot.tensors.pop(key, None)


@not_compiled  # a backward inside a compiled function would compile this and save different tensors
def _run_eagerly(segment: _Segment, args: list) -> None:
    with segment.global_state.restored(), segment.context:
        segment.fn(*args, **segment.kwargs)


class _Recomputation:
    """One recomputation. The n-th tensor saved now is the n-th tensor that was saved in the first run.

    The graph that this run builds saves the tensors as well, in case the segment itself calls backward. The graph is
    freed when the run ends.
    """

    def __init__(self, segment: _Segment, key: Any) -> None:
        self.segment = weakref.ref(segment)  # a graph that `fn` stores must not keep it
        self.key, self.count, self.inside_forward = key, 0, False
        self.different: list[tuple[int, tuple, tuple]] = []

    def pack(self, x: Tensor) -> Tensor:
        segment, index = self.segment(), self.count
        assert segment is not None  # the segment is running this
        last = len(segment.slots) - 1
        if segment.early_stop and index > last:
            raise _Stop  # again, because `fn` caught the first one
        x = x.detach() if x.requires_grad else x
        self.count += 1
        if index <= last:
            self.fill(segment, index, x)
        elif segment.complete:
            raise too_many(len(segment.slots))
        else:
            self.inside_forward = True  # the first run is still under way and has not come this far
        if segment.early_stop and index == last:
            raise _Stop
        return x

    def fill(self, segment: _Segment, index: int, x: Tensor) -> None:
        slot = segment.slots[index]()
        if slot is None:
            return  # its node no longer exists, because a backward freed it or nothing needs its branch
        slot.tensors[self.key] = x
        then, now = segment.fingerprints[index], segment.fingerprint(x)
        if then != now:
            self.different.append((index, then, now))

    def check(self) -> None:
        segment = self.segment()
        assert segment is not None  # the segment is calling this
        if self.inside_forward:
            return
        if self.count != len(segment.slots):
            raise different_number(len(segment.slots), self.count)
        if self.different:
            raise different_tensors(self.different)
