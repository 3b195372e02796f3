"""Which modules ran, in which phase, and what did autograd save for them? PyTorch's own hooks, in the open."""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node, saved_tensors_hooks
from torch.nn.parameter import is_lazy

from ..errors import CkptError
from ..tables import ShownAsTable, Table
from ..torch_internals import current_graph_task, newest_saved_tensor_hooks, not_compiled, storage_address, tree_leaves
from ..tracing.storages import check_unchanged, storages_of, version


@dataclass
class Call:
    """One line of the log: a module's forward began or, in phase "backward", the gradient of its output arrived."""

    phase: str  # "forward", "recompute" or "backward"
    module: str  # "block_1.0"; the model itself goes by the name of its class
    cls: str  # "Linear"
    leaf: bool  # it has no submodules
    requires_grad: bool | None = None  # of its output: grad mode, not what is saved. None if no tensor came out
    cut: bool = False  # an exception ended it half-way: the user's own, or checkpoint's early stop


class ModuleRow(NamedTuple):
    """One module's account. A storage counts for the module that saved it first, at its largest at any one time."""

    module: str
    cls: str
    forward: int  # calls in that phase
    recompute: int
    backward: int
    cut: int  # of the recompute calls, how many were stopped half-way
    requires_grad: bool | None  # did any output of its forward calls require a gradient?
    saved: int  # bytes saved in forward for backward
    recomputed: int  # bytes saved for a short time, from recompute to the backward right after it
    names: tuple[str, ...]  # every name of a shared module; `module` is the first


@contextlib.contextmanager
def watch(model: nn.Module) -> Iterator[Watch]:
    """Follow every module of `model` through the block: `with ck.watch(model) as w: ...`, then look at `w`.

    This counts what autograd saves while a module of this model runs, without the model's parameters and buffers. Other
    saved-tensor hooks keep working, and what they make of a tensor is what counts. Two things are not seen, because
    they are not saved tensors: attributes that a Function sets on its ctx, and the cache of selective checkpointing.

    >>> layer = nn.Linear(8, 8)
    >>> with watch(layer) as w:
    ...     layer(torch.ones(4, 8)).sum().backward()
    >>> w.saved, [call.phase for call in w.log]
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


class Watch(ShownAsTable):
    """Everything that the hooks recorded so far. They sit on the model, so calls from every thread are in one log."""

    def __init__(self, model: nn.Module):
        self.log: list[Call] = []
        self._names: dict[nn.Module, list[str]] = {}
        for name, module in model.named_modules(remove_duplicate=False):  # a shared module has several names
            self._names.setdefault(module, []).append(name or type(model).__name__)
        self._saved = SavedBytes()
        self._own: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()  # of parameters and buffers
        self._local = threading.local()
        self._handles: list = []

    # ---- hooks ------------------------------------------------------------------------------------------------------
    def start(self) -> None:
        for module in self._names:
            self._own_tensors_of(module)
            self._handles += [
                module.register_forward_pre_hook(self._enter),
                # always_call: even if it raised. prepend: before others replace the output.
                module.register_forward_hook(self._leave, prepend=True, always_call=True),
            ]

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        while self._running:  # left over by KeyboardInterrupt, which always_call does not cover
            self._finish()

    @not_compiled  # a compiled model calls its hooks too: leave them uncompiled
    def _enter(self, module: nn.Module, args: tuple) -> None:
        if module not in self._names:
            return  # a copy of a watched module: its hooks were copied with it
        self._own_tensors_of(module)  # a lazy module creates them in its first call
        # A module called while autograd's engine runs is a forward that runs again.
        phase = "forward" if current_graph_task() == -1 else "recompute"
        hooks = None if SavingObserver.on_top(self._save) else SavingObserver(self._save)
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

    # ---- saved tensors ----------------------------------------------------------------------------------------------
    def _save(self, tensors: list[Tensor]) -> Callable[[], None]:
        """Autograd has saved these. It calls the function that is returned when it drops them."""
        storages = [s for t in tensors for s in storages_of(t) if s not in self._own]
        # Backward inside a forward, on an accelerator, has a thread of its own where no module runs.
        call = self._running[-1].call if self._running else self.log[-1]
        return self._saved.add(storages, call.module, call.phase)

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
    def saved(self) -> int:
        """Bytes saved in forward for backward, at their largest."""
        return self._saved.most("forward")

    @property
    def recomputed(self) -> int:
        """Bytes saved in recomputation, at their largest."""
        return self._saved.most("recompute")

    @property
    def rows(self) -> list[ModuleRow]:
        calls: dict[str, list[Call]] = {}
        for call in self.log:
            calls.setdefault(call.module, []).append(call)
        return [self._row(m, tuple(names), calls.get(names[0], [])) for m, names in self._names.items()]

    def __getitem__(self, name: str) -> ModuleRow:
        for row in self.rows:
            if name in row.names:
                return row
        raise KeyError(f"{name!r} is not one of the {len(self._names)} modules that are watched")

    def _row(self, module: nn.Module, names: tuple[str, ...], calls: list[Call]) -> ModuleRow:
        phases = [call.phase for call in calls]
        cut = sum(call.cut for call in calls if call.phase == "recompute")
        grads = [c.requires_grad for c in calls if c.phase == "forward" and c.requires_grad is not None]
        return ModuleRow(
            module=names[0],
            cls=type(module).__name__,
            forward=phases.count("forward"),
            recompute=phases.count("recompute"),
            backward=phases.count("backward"),
            cut=cut,
            requires_grad=any(grads) if grads else None,
            saved=self._saved.most("forward", names[0]),
            recomputed=self._saved.most("recompute", names[0]),
            names=names,
        )

    def table(self) -> Table:
        rows = [
            (" = ".join(r.names), r.cls, r.forward, f"{r.recompute} ({r.cut} cut)" if r.cut else r.recompute)
            + (r.backward, "-" if r.requires_grad is None else str(r.requires_grad), r.saved, r.recomputed)
            for r in self.rows
        ]
        columns = ("module", "class", "forward", "recompute", "backward", "requires_grad", "saved", "recomputed")
        title = f"{self.saved:,} B saved in forward, {self.recomputed:,} B at once in recompute"
        return Table(title, columns, rows)

    def __deepcopy__(self, memo: dict) -> Watch:
        return self  # reached through the hooks of a model that is copied while it is watched


# ---- how long a saved tensor lives -----------------------------------------------------------------------------------
# Is told which tensors were saved, and returns the function to call when they are dropped.
OnSaved = Callable[[list[Tensor]], Callable[[], None]]


class SavingObserver(saved_tensors_hooks):
    """Hooks that report what is saved, and leave the decision to the hooks that were there before.

    Torch asks only the newest pair of hooks, so this one asks the pair below. What that pair makes of a tensor is what
    is saved: the tensor, a copy elsewhere, or, inside a non-reentrant checkpoint, a placeholder with no tensor in it.
    """

    def __init__(self, report: OnSaved):
        self.report = report
        self.below = newest_saved_tensor_hooks(True)
        super().__init__(self.pack, self.unpack)

    @staticmethod
    def on_top(report: OnSaved) -> bool:
        """Does the newest pair of hooks report to this function already?"""
        top = newest_saved_tensor_hooks(True)
        hooks = getattr(top[0], "__self__", None) if top else None
        return isinstance(hooks, SavingObserver) and hooks.report == report

    def pack(self, tensor: Tensor) -> Observed:
        try:
            # detach: an output that its own node saves would refer back to the node, and neither would ever be freed
            packed = self.below[0](tensor) if self.below else tensor.detach()
        except Exception:  # checkpoint stops its recomputation here, after it has saved this last tensor
            self.report([tensor])()
            raise
        inside = packed.tensors if isinstance(packed, Observed) else tree_leaves(packed)
        tensors = [t for t in inside if isinstance(t, Tensor)]
        return Observed(packed, tensors, self.report(tensors))

    def unpack(self, observed: Observed) -> Tensor:
        if self.below:
            return self.below[1](observed.packed)
        check_unchanged(observed.packed, observed.version)
        return observed.packed


class Observed:
    """Takes the place of one saved tensor in the graph, and dies when the graph drops it."""

    __slots__ = ("packed", "version", "tensors", "dropped")

    def __init__(self, packed: Any, tensors: list[Tensor], dropped: Callable[[], None]):
        self.packed, self.tensors, self.dropped = packed, tensors, dropped
        self.version = version(packed) if isinstance(packed, Tensor) else 0

    def __del__(self) -> None:
        if hasattr(self, "dropped"):  # torch.compile in 2.11 makes some that it never fills
            self.dropped()


class SavedBytes:
    """Bytes saved now, and at most, by owner and phase. A storage that is saved several times counts for the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._saved: dict[int, list] = {}  # address -> [times saved, (owner, phase), bytes]
        self._now: Counter[tuple[str, str]] = Counter()  # (owner, phase) -> bytes; ("", phase) is the sum
        self._most: Counter[tuple[str, str]] = Counter()
        self._dropped: deque[list[int]] = deque()  # dropped in any thread; subtracted before the next is added

    def add(self, storages: list[torch.UntypedStorage], owner: str, phase: str) -> Callable[[], None]:
        """These are saved from now on, until the function that is returned is called."""
        with self._lock:
            while self._dropped:
                for address in self._dropped.popleft():
                    self._drop(address)
            for storage in storages:
                entry = self._saved.setdefault(storage_address(storage), [0, (owner, phase), storage.nbytes()])
                entry[0] += 1
                if entry[0] == 1:
                    self._change(entry[1], entry[2])
        return partial(self._dropped.append, [storage_address(storage) for storage in storages])

    def most(self, phase: str, owner: str = "") -> int:
        return self._most[owner, phase]

    def _change(self, key: tuple[str, str], nbytes: int) -> None:
        for k in (key, ("", key[1])):
            self._now[k] += nbytes
            self._most[k] = max(self._most[k], self._now[k])

    def _drop(self, address: int) -> None:
        entry = self._saved[address]
        entry[0] -= 1
        if entry[0] == 0:
            del self._saved[address]
            self._change(entry[1], -entry[2])
