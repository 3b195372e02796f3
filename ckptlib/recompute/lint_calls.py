"""How was checkpoint called in this run? Facts about each call of torch's checkpoint and of ours, under any name."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
import torch.utils.checkpoint as theirs
from torch import Tensor, nn

from ..errors import CkptError
from ..torch_internals import (
    CachingMode,
    StopRecomputation,
    current_graph_task,
    determinism_checks,
    is_compiled_module,
    name_of,
    tree_leaves,
)
from . import checkpoint as ours
from . import determinism
from .selective import RECOMPUTE, SAVE, _Around

FOLLOWED = ("batch_norm", "instance_norm", "rrelu")  # functions that save what their kernel writes later


@dataclass
class CheckpointCall:
    """These are facts and not tensors, because recording must not keep alive the tensors that checkpointing frees."""

    name: str  # of the function
    reentrant: bool
    preserve_rng_state: bool
    inputs_need_grad: bool
    tensors_in_containers: int  # in lists and dicts among the arguments
    outermost: bool
    compiled: bool
    chain: tuple[int, int, int] | None  # checkpoint_sequential: first and last layer of this segment, number of layers
    drew: bool = False  # the function took random numbers
    policy: Counter = field(default_factory=Counter)  # selective: answer of the policy -> how many times it gave it
    second_differs: bool = False  # a reentrant checkpoint whose second run gave different outputs


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def _chain(fn: Callable) -> tuple[int, int, int] | None:
    if getattr(fn, "__qualname__", "").startswith("checkpoint_sequential.") and inspect.isfunction(fn):
        found = inspect.getclosurevars(fn).nonlocals
        return found["start"], found["end"], len(found["functions"])
    return None


class _AnyValues(tuple):
    """A fingerprint that equals every other one with the same metadata, whatever its values are."""

    __hash__ = tuple.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and self[:3] == other[:3]

    def __ne__(self, other: object) -> bool:
        return not self == other


class CheckpointCalls:
    """The calls of one run. Values of the model's buffers are not compared, because BatchNorm updates its own."""

    def __init__(self, model: nn.Module | None) -> None:
        self.calls: list[CheckpointCall] = []
        self.depth = 0
        self.buffers = {b.data_ptr() for b in model.buffers()} if model is not None else set()
        self.inside = ""  # which of FOLLOWED is running, in training
        self.updates: Counter = Counter()  # of running statistics, in second runs
        self.undrawn = 0  # second runs that early stop ended inside RReLU

    def fingerprint(self, x: Tensor) -> tuple:
        # Norms save their running statistics, which the first run updates. RReLU saves its noise before it is drawn.
        if not x.requires_grad and (self.inside == "rrelu" or (self.inside and x.dim() == 1)):
            return _AnyValues(determinism.metadata(x))
        try:
            return determinism.metadata(x) if x.data_ptr() in self.buffers else determinism.digest(x)
        except (CkptError, RuntimeError):  # fake, meta and sparse tensors have no bytes to read
            return determinism.metadata(x)

    def followed(self, name: str) -> Callable:
        """One of FOLLOWED, with `inside` set while it runs."""
        original = getattr(F, name)
        signature = inspect.signature(original)

        def called(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or self.inside:  # inside: a function mode calls it a second time
                return original(*args, **kwargs)
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            options, again = bound.arguments, current_graph_task() != -1
            if not options.get("training", options.get("use_input_stats")):
                return original(*args, **kwargs)
            if again and options.get("running_mean") is not None and options["momentum"]:
                self.updates[name] += 1
            self.inside = name
            try:
                return original(*args, **kwargs)
            except (ours._Stop, StopRecomputation):
                self.undrawn += name == "rrelu" and not options["inplace"]  # in place, the last one saved is the result
                raise
            finally:
                self.inside = ""

        return called

    @contextmanager
    def noted(self, fn: Callable, reentrant: bool, preserve: bool, args: tuple, kwargs: dict) -> Iterator:
        """The call's facts, while its first run lasts."""
        tensors = [a for a in args if isinstance(a, Tensor)]
        inside = _tensors([a for a in args if not isinstance(a, Tensor)])
        modules = fn.modules() if isinstance(fn, nn.Module) else ()
        compiled = any(map(is_compiled_module, modules))
        needs = any(t.requires_grad for t in (tensors if reentrant else _tensors((args, kwargs))))
        name = getattr(fn, "__qualname__", type(fn).__name__)
        call = CheckpointCall(name, reentrant, preserve, needs, len(inside), not self.depth, compiled, chain=_chain(fn))
        # A checkpoint inside a recomputation was seen in its first run already. One without gradients is evaluation,
        # unless it is inside a reentrant one, which switches them off.
        trains = torch.is_grad_enabled() or (reentrant and self.depth > 0)
        if current_graph_task() == -1 and trains:
            self.calls.append(call)
        before = torch.get_rng_state()
        self.depth += 1
        try:
            yield call
        finally:
            self.depth -= 1
            call.drew = not torch.equal(before, torch.get_rng_state())

    def contexts(self, context_fn: Callable, call: CheckpointCall) -> Callable:
        """The same contexts, which also count the answers of the policy of selective checkpointing."""
        if context_fn is theirs.noop_context_fn:
            return context_fn

        def listening() -> tuple:
            first, second = context_fn()
            mode = first.mode if isinstance(first, _Around) else first
            if isinstance(mode, CachingMode):
                policy = mode.policy_fn

                def heard(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
                    answer = policy(ctx, op, *args, **kwargs)
                    if isinstance(first, _Around) and first.errors:
                        call.policy.clear()  # the run was cut short, so the answers are not complete
                    else:
                        call.policy[(SAVE if answer else RECOMPUTE) if isinstance(answer, bool) else answer] += 1
                    return answer

                mode.policy_fn = heard
            return first, second

        return listening

    def twice(self, fn: Callable, call: CheckpointCall) -> Callable:
        """`fn`, which compares the outputs of its runs: the reentrant way has no check of its own."""
        seen = []

        def run(*args: Any) -> Any:
            out = fn(*args)
            seen.append([self.fingerprint(t) for t in _tensors(out)])
            call.second_differs |= seen[0] != seen[-1]
            return out

        return run


@contextmanager
def recorded_calls(model: nn.Module | None) -> Iterator[CheckpointCalls]:
    """Every call of checkpoint in the block. Non-reentrant ones check values: a second run that differs is an error."""
    recorded = CheckpointCalls(model)
    generator, function = getattr(theirs, name_of("checkpoint_generator")), theirs.CheckpointFunction
    hooked, apply = ours._with_hooks, ours._reentrant
    started: list[Generator] = []

    def their_hooks(*args: Any, **kwargs: Any) -> Generator:
        started.append(their_noted_hooks(*args, **kwargs))
        return started[-1]

    def their_noted_hooks(
        fn: Callable,
        preserve: bool,
        context_fn: Callable,
        determinism_check: str,
        debug: bool,
        early_stop: bool,
        *args: Any,
        **kwargs: Any,
    ) -> Generator:
        with recorded.noted(fn, False, preserve, args, kwargs) as call:
            contexts = recorded.contexts(context_fn, call)
            yield from generator(fn, preserve, contexts, determinism_check, debug, early_stop, *args, **kwargs)

    def our_hooks(fn: Callable, args: tuple, kwargs: dict, preserve: bool, context_fn: Callable, *options: Any) -> Any:
        with recorded.noted(fn, False, preserve, args, kwargs) as call:
            return hooked(fn, args, kwargs, preserve, recorded.contexts(context_fn, call), *options)

    def reentrant(way: Callable) -> Callable:
        def called(fn: Callable, preserve: bool, *args: Any) -> Any:
            with recorded.noted(fn, True, preserve, args, {}) as call:
                return way(recorded.twice(fn, call), preserve, *args)

        return called

    patches: tuple[AbstractContextManager, ...] = (
        mock.patch.object(theirs, name_of("checkpoint_generator"), their_hooks),
        mock.patch.object(theirs, "CheckpointFunction", SimpleNamespace(apply=reentrant(function.apply))),
        mock.patch.object(ours, "_with_hooks", our_hooks),
        mock.patch.object(ours, "_reentrant", reentrant(apply)),
        mock.patch.dict(determinism_checks, {"default": recorded.fingerprint}),
        mock.patch.dict(determinism.FINGERPRINTS, {"default": recorded.fingerprint}),
        *(mock.patch.object(F, name, recorded.followed(name)) for name in FOLLOWED),
    )
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        try:
            yield recorded
        finally:
            # Before torch 2.13 an error in a first run leaves its generator open, and with it the modes of its
            # contexts. They would leave torch's stack whenever the error is forgotten, in the middle of other work.
            for call in reversed(started):
                call.close()
