"""What is a storage for? Modules, gradients and optimizers show it, each as soon as it can."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from .devices import only_device
from .events import Storage, Trace
from .storages import plain_parts, tensors_in


class Roles:
    """Gives the storages of a trace their category, name and module.

    An op cannot tell what its output will become: a parameter is known when its module is called, a gradient when it
    has been accumulated, an optimizer's state when the step is done.
    """

    def __init__(self, storage_of: Callable[[Tensor], Storage], trace: Trace):
        self._storage_of, self._trace = storage_of, trace
        self._adopted: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        # Leaves whose gradient we shall be told of. By id: torch refuses model.to(dtype) on fake tensors that somebody
        # refers to weakly.
        self._watched: set[tuple[int, int]] = set()
        self._handles: list = []
        self._open = True

    def close(self) -> None:
        self._open = False
        for handle in self._handles:
            handle.remove()

    def adopt(self, root: nn.Module, path_of: Callable[[nn.Module], str]) -> None:
        """Label a model's parameters, buffers and gradients, and place them where `root.to("cuda")` would."""
        if root in self._adopted:
            return
        only_device(root)
        self._adopted.add(root)
        placed = []
        for module in _placement_order(root):
            path = path_of(module)
            own: dict[str, Any] = {"recurse": False, "remove_duplicate": False}
            tensors_of = {"parameter": module.named_parameters(**own), "buffer": module.named_buffers(**own)}
            for kind, tensors in tensors_of.items():
                for name, t in tensors:
                    if is_lazy(t) or all(storage.name for storage in self._storages(t)):
                        continue  # not there yet; or a tied weight, which keeps its first name
                    placed += self._label(t, kind, f"{path}.{name}", path)
                    if t.grad is not None:
                        self._label(t.grad, "gradient", f"{path}.{name}", path)
        self._trace.place_first(placed)

    def inputs(self, args: tuple[Any, ...]) -> None:
        """A tensor that a model is called with is an input, unless an op that needs a gradient made it."""
        for t in tensors_in(args):
            for storage in self._storages(t) if t.is_leaf else ():
                if storage.category == "activation" and not storage.module:
                    storage.category = "input"

    def watch(self, leaf: Tensor, owner: Storage) -> None:
        """Register a hook for when `leaf` gets its gradient, because only then is that storage known to be one."""
        key = (owner.index, id(leaf))  # two leaves may share a storage
        if key in self._watched:
            return
        self._watched.add(key)
        if isinstance(leaf, nn.Parameter) and owner.category in ("activation", "input"):
            owner.category = "parameter"  # one that no module owns, or not yet

        def accumulated(leaf: Tensor) -> None:
            if self._open and leaf.grad is not None:
                self._label(leaf.grad, "gradient", owner.name, owner.module)

        self._handles.append(leaf.register_post_accumulate_grad_hook(accumulated))

    def optimizer_stepped(self, optimizer: torch.optim.Optimizer) -> None:
        for parameter in [p for group in optimizer.param_groups for p in group["params"]]:
            owner = self._storages(parameter)[0]
            if owner.category in ("activation", "input"):  # a bare tensor that somebody optimizes
                owner.category = "parameter"
            if parameter.grad is not None:  # assigned by hand, perhaps
                self._label(parameter.grad, "gradient", owner.name, owner.module)
            for t in tensors_in(optimizer.state.get(parameter, {})):
                self._label(t, "optimizer state", owner.name, owner.module)

    def _storages(self, t: Tensor) -> list[Storage]:
        return [self._storage_of(part) for part in plain_parts(t)]

    def _label(self, t: Tensor, category: str, name: str, module: str) -> list[int]:
        storages = self._storages(t)
        for storage in storages:
            storage.category = category
            storage.name = name
            storage.module = module
        return [storage.index for storage in storages]


def _placement_order(module: nn.Module) -> Iterator[nn.Module]:
    """Children before parents: the order in which `module.to("cuda")` moves, and so places, its tensors."""
    for child in module.children():
        yield from _placement_order(child)
    yield module
