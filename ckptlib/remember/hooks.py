"""Which modules ran, in which phase, and what was stored for them? PyTorch's own hooks, in the open."""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node, saved_tensors_hooks
from torch.nn.parameter import is_lazy

from ..errors import CkptError
from ..tables import Table
from ..torch_internals import current_graph_task, not_compiled, tree_leaves
from ..tracing.storages import storages_of
from .lifetimes import Holdings, LookOn


@dataclass
class Call:
    """One line of the log: a module's forward began or, in phase "backward", the gradient of its output arrived."""

    phase: str  # "forward", "recompute" or "backward"
    module: str  # "block_1.0"; the model itself goes by the name of its class
    cls: str  # "Linear"
    leaf: bool  # it has no submodules
    requires_grad: bool | None = None  # of its output: grad mode, not storage. None if no tensor came out
    cut: bool = False  # an exception ended it half-way: the user's own, or checkpoint's early stop


class Row(NamedTuple):
    """One module's account. A storage counts for the module that saved it first, at its largest at any one time."""

    module: str
    cls: str
    forward: int  # calls in that phase
    recompute: int
    backward: int
    cut: int  # of the recompute calls, how many were stopped half-way
    requires_grad: bool | None  # did any output of its forward calls require a gradient?
    stored: int  # bytes kept from forward for backward
    recomputed: int  # bytes kept for a short time, from recompute to the backward right after it
    names: tuple[str, ...]  # every name of a shared module; `module` is the first


@contextlib.contextmanager
def watch(model: nn.Module) -> Iterator[Watch]:
    """Follow every module of `model` through the block: `with ck.watch(model) as w: ...`, then look at `w`.

    Stored means kept by autograd while a module of this model runs, its parameters and buffers not counted. Other
    saved-tensor hooks keep working: what they leave of a tensor is what counts. Not seen, because no saved tensor
    holds it: what a Function hangs on its ctx by hand, and the cache of selective checkpointing.

    >>> layer = nn.Linear(8, 8)
    >>> with watch(layer) as w:
    ...     layer(torch.ones(4, 8)).sum().backward()
    >>> w.stored, [call.phase for call in w.log]
    (128, ['forward', 'backward'])
    """
    if not isinstance(model, nn.Module):
        found = f"the class {model.__name__}: was it not called?" if isinstance(model, type) else type(model).__name__
        raise CkptError(f"watch needs a model, an nn.Module, but got {found}")
    watched = Watch(model)
    try:
        watched.start()
        yield watched
    finally:
        watched.stop()


class _Running(NamedTuple):
    """A module whose forward is under way."""

    module: nn.Module
    call: Call
    hooks: saved_tensors_hooks | None  # to be taken off when it is done
    error: BaseException | None  # what was being handled when it began


class Watch:
    """What the hooks saw, up to now. Hooks sit on the model, so calls from every thread are in one log."""

    def __init__(self, model: nn.Module):
        self.log: list[Call] = []
        self._names: dict[nn.Module, list[str]] = {}
        for name, module in model.named_modules(remove_duplicate=False):  # a shared module has several names
            self._names.setdefault(module, []).append(name or type(model).__name__)
        self._held = Holdings()
        self._own: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()  # of parameters and buffers
        self._local = threading.local()
        self._handles: list = []

    # ---- hooks ------------------------------------------------------------------------------------------------------
    def start(self) -> None:
        for module in self._names:
            self._own_tensors_of(module)
            self._handles += [
                module.register_forward_pre_hook(self._enter),
                # always_call: also if it raised. prepend: before others replace the output.
                module.register_forward_hook(self._leave, prepend=True, always_call=True),
            ]

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        while self._running:  # what KeyboardInterrupt left: always_call does not cover it
            self._finish()

    @not_compiled  # a compiled model calls its hooks too: leave them uncompiled
    def _enter(self, module: nn.Module, args: tuple) -> None:
        if module not in self._names:
            return  # a copy of a watched module, made meanwhile: its hooks came along
        self._own_tensors_of(module)  # a lazy module has made them only now
        # A module called while autograd's engine runs is a forward that runs again.
        phase = "forward" if current_graph_task() == -1 else "recompute"
        hooks = None if LookOn.on_top(self._stored) else LookOn(self._stored)
        if hooks:
            hooks.__enter__()
        leaf = next(module.children(), None) is None
        call = Call(phase, self._names[module][0], type(module).__name__, leaf)
        self.log.append(call)
        self._running.append(_Running(module, call, hooks, sys.exception()))

    @not_compiled
    def _leave(self, module: nn.Module, args: tuple, out: Any) -> None:
        if not any(running.module is module for running in self._running):
            return  # another hook raised before _enter had its turn
        while (done := self._finish()).module is not module:
            pass
        call, tensors = done.call, [t for t in tree_leaves(out) if isinstance(t, Tensor)]
        call.cut = out is None and sys.exception() is not done.error
        call.requires_grad = any(t.requires_grad for t in tensors) if tensors else None
        self._expect_backward(call, {t.grad_fn for t in tensors if t.grad_fn is not None})

    def _expect_backward(self, call: Call, nodes: set[Node]) -> None:
        """A hook on the graph's nodes, not on the module: a module's own backward hook would add nodes to the graph."""
        tasks = set()  # a call with several outputs counts once per backward pass

        def arrived(grads: tuple) -> None:
            task = current_graph_task()
            if task not in tasks:
                tasks.add(task)
                self.log.append(replace(call, phase="backward"))

        self._handles += [node.register_prehook(arrived) for node in nodes]

    # ---- storage ----------------------------------------------------------------------------------------------------
    def _stored(self, tensors: list[Tensor]) -> Callable[[], None]:
        """Autograd keeps these from now on, until it calls the function returned."""
        storages = [s for t in tensors for s in storages_of(t) if s not in self._own]
        # Backward inside a forward, on an accelerator, has a thread of its own where no module runs.
        call = self._running[-1].call if self._running else self.log[-1]
        return self._held.take(storages, call.module, call.phase)

    def _own_tensors_of(self, module: nn.Module) -> None:
        for t in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            if not is_lazy(t):
                self._own.update(storages_of(t))

    @property
    def _running(self) -> list[_Running]:
        """The modules under way in this thread, outermost first."""
        return self._local.__dict__.setdefault("running", [])

    def _finish(self) -> _Running:
        done = self._running.pop()
        if done.hooks:
            done.hooks.__exit__()
        return done

    # ---- results ----------------------------------------------------------------------------------------------------
    @property
    def stored(self) -> int:
        """Bytes kept from forward for backward, at their largest."""
        return self._held.most("forward")

    @property
    def recomputed(self) -> int:
        """Bytes kept by recomputation, at their largest."""
        return self._held.most("recompute")

    @property
    def rows(self) -> list[Row]:
        calls: dict[str, list[Call]] = {}
        for call in self.log:
            calls.setdefault(call.module, []).append(call)
        return [self._row(m, tuple(names), calls.get(names[0], [])) for m, names in self._names.items()]

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if name in row.names:
                return row
        raise KeyError(f"{name!r} is none of the {len(self._names)} modules watched")

    def _row(self, module: nn.Module, names: tuple[str, ...], calls: list[Call]) -> Row:
        phases = [call.phase for call in calls]
        cut = sum(call.cut for call in calls if call.phase == "recompute")
        grads = [c.requires_grad for c in calls if c.phase == "forward" and c.requires_grad is not None]
        return Row(
            module=names[0],
            cls=type(module).__name__,
            forward=phases.count("forward"),
            recompute=phases.count("recompute"),
            backward=phases.count("backward"),
            cut=cut,
            requires_grad=any(grads) if grads else None,
            stored=self._held.most("forward", names[0]),
            recomputed=self._held.most("recompute", names[0]),
            names=names,
        )

    def table(self) -> Table:
        rows = [
            (" = ".join(r.names), r.cls, r.forward, f"{r.recompute} ({r.cut} cut)" if r.cut else r.recompute)
            + (r.backward, "-" if r.requires_grad is None else str(r.requires_grad), r.stored, r.recomputed)
            for r in self.rows
        ]
        columns = ("module", "class", "forward", "recompute", "backward", "requires_grad", "stored", "recomputed")
        title = f"{self.stored:,} B stored in forward, {self.recomputed:,} B at once in recompute"
        return Table(title, columns, rows)

    def __str__(self) -> str:
        return str(self.table())

    __repr__ = __str__

    def __deepcopy__(self, memo: dict) -> Watch:
        return self  # reached through the hooks of a model that is copied while it is watched

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()
