"""How long is a saved tensor kept, and how much is kept at once? Saved-tensor hooks that look on and keep count."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from ..torch_internals import newest_saved_tensor_hooks, storage_address, tree_leaves
from ..tracing.storages import check_unchanged, version

# Told which tensors are kept; returns the function to call when they no longer are.
Told = Callable[[list[Tensor]], Callable[[], None]]


class LookOn(saved_tensors_hooks):
    """Hooks that tell what is kept, and leave the decision to the hooks that were there before.

    Torch asks only the newest pair of hooks, so this one asks the pair below. What that makes of a tensor is what is
    stored: the tensor, a copy elsewhere, or, inside a non-reentrant checkpoint, a placeholder with no tensor in it.
    """

    def __init__(self, tell: Told):
        self.tell = tell
        self.below = newest_saved_tensor_hooks(True)
        super().__init__(self.pack, self.unpack)

    @staticmethod
    def on_top(tell: Told) -> bool:
        """Does the newest pair of hooks tell this one already?"""
        top = newest_saved_tensor_hooks(True)
        hooks = getattr(top[0], "__self__", None) if top else None
        return isinstance(hooks, LookOn) and hooks.tell == tell

    def pack(self, tensor: Tensor) -> Kept:
        try:
            # detach: an output that its own node keeps would refer back to the node, and neither would ever be freed
            packed = self.below[0](tensor) if self.below else tensor.detach()
        except Exception:  # checkpoint stops its recomputation here, after it has stored this last tensor
            self.tell([tensor])()
            raise
        inside = packed.tensors if isinstance(packed, Kept) else tree_leaves(packed)
        tensors = [t for t in inside if isinstance(t, Tensor)]
        return Kept(packed, tensors, self.tell(tensors))

    def unpack(self, kept: Kept) -> Tensor:
        if self.below:
            return self.below[1](kept.packed)
        check_unchanged(kept.packed, kept.version)
        return kept.packed


class Kept:
    """Stands in the graph for one saved tensor, and lives as long as the graph keeps it."""

    __slots__ = ("packed", "version", "tensors", "dropped")

    def __init__(self, packed: Any, tensors: list[Tensor], dropped: Callable[[], None]):
        self.packed, self.tensors, self.dropped = packed, tensors, dropped
        self.version = version(packed) if isinstance(packed, Tensor) else 0

    def __del__(self) -> None:
        if hasattr(self, "dropped"):  # torch.compile in 2.11 makes some that it never fills
            self.dropped()


class Holdings:
    """Bytes held now, and at most, by owner and phase. A storage that is held several times counts for the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[int, list] = {}  # address -> [times held, (owner, phase), bytes]
        self._now: Counter[tuple[str, str]] = Counter()  # (owner, phase) -> bytes; ("", phase) is the sum
        self._most: Counter[tuple[str, str]] = Counter()
        self._notes: deque[list[int]] = deque()  # dropped, in whatever thread: counted before the next is taken

    def take(self, storages: list[torch.UntypedStorage], owner: str, phase: str) -> Callable[[], None]:
        """Hold these from now until the function returned is called."""
        with self._lock:
            while self._notes:
                for address in self._notes.popleft():
                    self._drop(address)
            for storage in storages:
                entry = self._held.setdefault(storage_address(storage), [0, (owner, phase), storage.nbytes()])
                entry[0] += 1
                if entry[0] == 1:
                    self._add(entry[1], entry[2])
        return partial(self._notes.append, [storage_address(storage) for storage in storages])

    def most(self, phase: str, owner: str = "") -> int:
        return self._most[owner, phase]

    def _add(self, key: tuple[str, str], nbytes: int) -> None:
        for k in (key, ("", key[1])):
            self._now[k] += nbytes
            self._most[k] = max(self._most[k], self._now[k])

    def _drop(self, address: int) -> None:
        entry = self._held[address]
        entry[0] -= 1
        if entry[0] == 0:
            del self._held[address]
            self._add(entry[1], -entry[2])
