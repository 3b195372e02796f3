"""What must be remembered between forward and backward? Run the ops, write it down, then read it in reverse."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakSet

import torch
from torch import Tensor

from ..errors import CkptError
from ..torch_internals import storage_address, version_counter
from . import derivatives
from .shapes import Shape, check

Tensors = Tensor | Sequence[Tensor]


class Var:
    """A tensor whose gradient is wanted: `value` now and, on variables made by `Tape.var`, `grad` after backward."""

    def __init__(self, tape: Tape, value: Tensor, slot: int):
        self.tape, self.value, self.slot = tape, value, slot
        self.grad: Tensor | None = None

    def detach(self) -> Tensor:
        """The plain tensor, not a copy. To a tape a plain tensor is a constant: no gradient flows into it."""
        return self.value

    def __repr__(self) -> str:
        return f"Var({self.value})"

    # fmt: off
    def __add__(self, other: Var | Tensor | float) -> Var: return self.tape.add(self, other)
    def __radd__(self, other: Var | Tensor | float) -> Var: return self.tape.add(other, self)
    def __mul__(self, other: Var | Tensor | float) -> Var: return self.tape.mul(self, other)
    def __rmul__(self, other: Var | Tensor | float) -> Var: return self.tape.mul(other, self)
    def __sub__(self, other: Var | Tensor | float) -> Var: return self + other * -1
    def __rsub__(self, other: Var | Tensor | float) -> Var: return other + self * -1
    def __matmul__(self, other: Var | Tensor) -> Var: return self.tape.matmul(self, other)
    def __rmatmul__(self, other: Var | Tensor) -> Var: return self.tape.matmul(other, self)
    # fmt: on


class Entry(NamedTuple):
    """One op that ran: what its VJP will read, and where its gradients go. It holds no Var, so values can be freed."""

    op: str
    vjp: Callable
    saved: dict[str, Any]  # the VJP's arguments after dy; None for a tensor that is not saved
    versions: dict[str, int]  # of the saved tensors: changed in place, they would give wrong gradients
    inputs: dict[str, tuple[int, Shape] | None]  # (slot, shape) in the order of the VJP's results; None for a constant
    output: int  # slot


class Tape:
    """Records ops on its variables; `backward` reads the record in reverse, once, and frees it on the way.

    >>> tape = Tape()
    >>> x = tape.var(torch.tensor(3.0))
    >>> tape.backward(x * x + x)
    >>> x.grad
    tensor(7.)

    Every op of `ckptlib.autodiff.derivatives` is a method: `tape.relu(x)`. Autograd's graph hangs from its outputs and
    goes with them; a tape keeps the ops of a branch you dropped until backward.
    """

    def __init__(self) -> None:
        self._entries: list[Entry] | None = []  # None once backward has begun
        self._leaves: WeakSet[Var] = WeakSet()  # weak: nobody can read the grad of a variable that is gone
        self._slots = 0

    def var(self, value: Tensor) -> Var:
        """A variable to differentiate by. It shares the tensor's storage: nothing is copied."""
        if not isinstance(value, Tensor) or not value.is_floating_point():
            found = value.dtype if isinstance(value, Tensor) else type(value).__name__
            raise CkptError(f"var: found {found}, expected a floating-point tensor. Constants need no var().")
        leaf = self._new(value.detach())
        self._leaves.add(leaf)
        return leaf

    @torch.no_grad()
    def apply(self, forward: Callable, vjp: Callable, *args: Any, **kwargs: Any) -> Var | Tensor:
        """Run an op on the variables' values, and save what the gradients of those variables need.

        `@needs` on the VJP says what that is. Without it, everything that the forward returns is saved, and the
        VJP has a result for each floating-point argument. Constants in, constant out.
        """
        arguments = inspect.signature(forward).bind(*args, **kwargs).arguments
        self._check_arguments(forward.__name__, arguments)
        y, saved = forward(**{name: a.value if isinstance(a, Var) else a for name, a in arguments.items()})
        if not any(isinstance(a, Var) for a in arguments.values()):
            return y
        out = self._new(y)
        assert self._entries is not None  # `_new` has made sure
        self._entries.append(_entry(forward.__name__, vjp, arguments, saved, out))
        return out

    def __getattr__(self, op: str) -> Callable[..., Any]:  # as `apply`: a Var, if an argument is one
        if not hasattr(derivatives, f"{op}_vjp"):
            ops = ", ".join(name.removesuffix("_vjp") for name in vars(derivatives) if name.endswith("_vjp"))
            raise AttributeError(f"a tape has no op {op!r}. It has {ops}; run your own with apply(forward, vjp, ...).")
        return lambda *args, **kwargs: self.apply(
            getattr(derivatives, op), getattr(derivatives, f"{op}_vjp"), *args, **kwargs
        )

    @torch.no_grad()
    def backward(self, outputs: Var | Sequence[Var], dys: Tensors | None = None) -> None:
        """Set each variable's `grad`, of Σ outputs · dys; None where no output depends on it.

        Several outputs go into one call. dys may be left out for scalars, where it is 1.
        """
        grads = self._seed(outputs, dys)
        entries, self._entries = self._entries, None
        while entries:  # last first: every use of an op's output has sent its gradient by then
            entry = entries.pop()  # with it goes what it saved
            dy = grads.pop(entry.output, None)
            if dy is not None:  # None: no output depends on this op
                for slot, dx in _pull_back(entry, dy):  # never +=: add_vjp sends one dy twice
                    grads[slot] = grads[slot] + dx if slot in grads else dx
        for leaf in self._leaves:
            if leaf.slot in grads:
                leaf.grad = grads.pop(leaf.slot).clone()  # its own copy, for the same reason

    def saved(self) -> Iterator[tuple[str, str, Tensor]]:
        """What the tape saves: (op, name, tensor), in the order it was saved."""
        for entry in self._entries or ():
            yield from ((entry.op, name, entry.saved[name]) for name in entry.versions)

    @property
    def nbytes(self) -> int:
        """Bytes that the tape keeps alive: whole storages, each counted once."""
        storages = [tensor.untyped_storage() for _, _, tensor in self.saved()]
        return sum({storage_address(storage): storage.nbytes() for storage in storages}.values())

    def __repr__(self) -> str:
        rows = [f"  {op} saves {name} {tuple(tensor.shape)}" for op, name, tensor in self.saved()]
        return "\n".join([f"Tape: {len(self._entries or ())} ops, {self.nbytes:,} B", *rows])

    def _new(self, value: Tensor) -> Var:
        self._check_unplayed()
        self._slots += 1
        return Var(self, value, self._slots)

    def _seed(self, outputs: Var | Sequence[Var], dys: Tensors | None) -> dict[int, Tensor]:
        """Slot -> gradient of the outputs themselves. An output that is passed twice counts twice."""
        outputs = list(outputs) if isinstance(outputs, Sequence) else [outputs]
        seeds: list[Tensor | None] = [None] * len(outputs)
        if dys is not None:
            seeds = [dys] if isinstance(dys, Tensor) else [*dys]
        self._check_arguments("backward", {f"output {i}": y for i, y in enumerate(outputs)})
        if len(outputs) != len(seeds):
            raise CkptError(f"backward: found {len(seeds)} dys for {len(outputs)} outputs, expected one for each.")
        grads: dict[int, Tensor] = {}
        for y, dy in zip(outputs, seeds, strict=True):
            if not isinstance(y, Var):
                raise CkptError(f"backward: found a {type(y).__name__}, expected a Var. Is everything here a constant?")
            dy = y.value.new_ones(()) if dy is None else dy
            check("backward: dy", dy.shape, y.value.shape, "Only a scalar can do without. For y.sum(): dy of ones.")
            if dy.dtype != y.value.dtype:
                raise CkptError(f"backward: dy is {dy.dtype}, expected {y.value.dtype}, the dtype of its output.")
            grads[y.slot] = grads[y.slot] + dy if y.slot in grads else dy
        return grads

    def _check_unplayed(self) -> None:
        if self._entries is None:
            raise RuntimeError(
                "this tape has been played: backward freed what it had saved. Record the forward again on a new Tape. "
                "For several outputs, one call does: backward([y, z])."
            )

    def _check_arguments(self, op: str, arguments: dict[str, Any]) -> None:
        self._check_unplayed()
        for name, a in arguments.items():
            if isinstance(a, Var) and a.tape is not self:
                raise CkptError(f"{op}: {name} is a variable of another tape. For a constant, detach() it.")
            if isinstance(a, Tensor) and a.requires_grad:
                raise CkptError(
                    f"{op}: {name} requires grad but is not a variable of this tape: it would get no gradient. "
                    "Make it one with tape.var(...); for a constant, detach() it."
                )


def _entry(op: str, vjp: Callable, arguments: dict[str, Any], saved: tuple, out: Var) -> Entry:
    """Of what the forward returned to be saved, save what the gradients of its variables need."""
    names = list(inspect.signature(vjp).parameters)[1:]  # after dy
    floats = [n for n, a in arguments.items() if isinstance(a, Var) or torch.is_tensor(a) and a.is_floating_point()]
    needs = getattr(vjp, "needs", dict.fromkeys(floats, names))
    if len(saved) != len(names):
        raise CkptError(f"{op}: the forward saved {len(saved)} values, its VJP expects {len(names)} after dy: {names}.")
    variables = {name: a for name, a in arguments.items() if isinstance(a, Var)}
    for name, a in variables.items():
        if name not in needs:
            raise CkptError(f"{op}: {name} is a variable, but the VJP has gradients only for {[*needs]}. detach() it.")
        if a.value.dtype != out.value.dtype:
            raise CkptError(f"{op}: {name} is {a.value.dtype}, y is {out.value.dtype}. Cast before tape.var().")
    needed = {argument for name in variables for argument in needs[name]}
    wanted = {n: s if n in needed or not isinstance(s, Tensor) else None for n, s in zip(names, saved, strict=True)}
    versions = {name: version_counter(s) for name, s in wanted.items() if isinstance(s, Tensor)}
    inputs: dict[str, tuple[int, Shape] | None] = {
        n: (variables[n].slot, variables[n].value.shape) if n in variables else None for n in needs
    }
    return Entry(op, vjp, wanted, versions, inputs, out.slot)


def _pull_back(entry: Entry, dy: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Run one VJP: (slot, gradient) for each input that is a variable."""
    for name, version in entry.versions.items():
        if version_counter(entry.saved[name]) != version:
            raise RuntimeError(
                f"{entry.op}: {name} was changed in place after it was saved, so the gradient would be wrong. "
                "Change a copy, or wait until after backward."
            )
    dxs = entry.vjp(dy, **entry.saved)
    dxs = dxs if isinstance(dxs, tuple) else (dxs,)
    if len(dxs) != len(entry.inputs):
        raise CkptError(f"{entry.op}: the VJP returned {len(dxs)} gradients, expected one each for {[*entry.inputs]}.")
    for (name, target), dx in zip(entry.inputs.items(), dxs, strict=True):
        if target is not None:
            slot, shape = target
            if dx is None:
                raise CkptError(f"{entry.op}: the VJP returned None for {name}, which is a variable.")
            check(f"{entry.op}: the gradient of {name}", dx.shape, shape, "A gradient has the shape of its variable.")
            yield slot, dx
