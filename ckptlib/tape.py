"""What must be remembered between forward and backward? Run the ops, write it down, then read it in reverse."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import vjp as rules
from .shapes import Shape, check


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
    def __add__(self, other): return self.tape.add(self, other)
    def __radd__(self, other): return self.tape.add(other, self)
    def __mul__(self, other): return self.tape.mul(self, other)
    def __rmul__(self, other): return self.tape.mul(other, self)
    def __sub__(self, other): return self + other * -1
    def __rsub__(self, other): return other + self * -1
    def __matmul__(self, other): return self.tape.matmul(self, other)
    def __rmatmul__(self, other): return self.tape.matmul(other, self)
    # fmt: on


class Entry(NamedTuple):
    """One op that ran: what its VJP will read, and where its gradients go. It holds no Var, so values can be freed."""

    op: str
    vjp: Callable
    saved: dict[str, Any]  # the VJP's arguments after dy; None for a tensor that is not kept
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

    Every op of `ckptlib.vjp` is a method: `tape.relu(x)`. Autograd's graph hangs from its outputs and goes with them; a
    tape keeps the ops of a branch you dropped until backward.
    """

    def __init__(self):
        self._entries: list[Entry] | None = []  # None once backward has begun
        self._leaves: list[Var] = []
        self._slots = 0

    def var(self, value: Tensor) -> Var:
        """A variable to differentiate by. It shares the tensor's storage: nothing is copied."""
        if not isinstance(value, Tensor) or not value.is_floating_point():
            found = value.dtype if isinstance(value, Tensor) else type(value).__name__
            raise TypeError(f"var: found {found}, expected a floating-point tensor. Pass constants to the ops directly.")
        self._leaves.append(self._new(value.detach()))
        return self._leaves[-1]

    def apply(self, forward: Callable, vjp: Callable, *args: Any, **kwargs: Any) -> Var | Tensor:
        """Run an op on the variables' values, and remember what the gradients of those variables need.

        `@needs` on the VJP says what that is; without it, everything saved is kept. Constants in, constant out.
        """
        arguments = inspect.signature(forward).bind(*args, **kwargs).arguments
        self._check_arguments(forward.__name__, arguments)
        variables = {name: a for name, a in arguments.items() if isinstance(a, Var)}
        with torch.no_grad():
            y, saved = forward(**{name: getattr(variables.get(name), "value", a) for name, a in arguments.items()})
        if not variables:
            return y
        for name, var in variables.items():
            if var.value.dtype != y.dtype:
                raise TypeError(f"{forward.__name__}: {name} is {var.value.dtype}, y is {y.dtype}. Cast inputs first.")
        out = self._new(y)
        self._entries.append(_entry(forward, vjp, arguments, variables, saved, out))
        return out

    def __getattr__(self, op: str) -> Callable[..., Var | Tensor]:
        if not hasattr(rules, f"{op}_vjp"):
            ops = ", ".join(name.removesuffix("_vjp") for name in vars(rules) if name.endswith("_vjp"))
            raise AttributeError(f"a tape has no op {op!r}. It has {ops}; run your own with apply(forward, vjp, ...).")
        return lambda *args, **kwargs: self.apply(getattr(rules, op), getattr(rules, f"{op}_vjp"), *args, **kwargs)

    def backward(self, outputs: Var | Sequence[Var], dys: Tensor | Sequence[Tensor] | None = None) -> None:
        """Set `grad` of the variables to the gradient of Σ outputs · dys, and leave it None where that depends on none.

        Several outputs go into one call. dys may be left out for scalars, where it is 1.
        """
        grads = self._seed(outputs, dys)
        entries, self._entries = self._entries, None
        leaves, self._leaves = self._leaves, []
        while entries:  # last first: by the time an op's turn comes, every use of its output has sent its gradient
            entry = entries.pop()  # what it saved is freed after its turn
            dy = grads.pop(entry.output, None)
            if dy is not None:  # None: no output depends on this op
                for slot, dx in _pull_back(entry, dy):
                    grads[slot] = grads[slot] + dx if slot in grads else dx  # not +=: dx may be the dy of another op
        for leaf in leaves:
            if leaf.slot in grads:
                leaf.grad = grads.pop(leaf.slot).clone()  # its own: add_vjp sends one tensor to both inputs

    def saved(self) -> Iterator[tuple[str, str, Tensor]]:
        """What the tape keeps: (op, name, tensor), in the order it was saved."""
        for entry in self._entries or ():
            yield from ((entry.op, name, entry.saved[name]) for name in entry.versions)

    @property
    def nbytes(self) -> int:
        """Bytes that the tape keeps alive: whole storages, each counted once."""
        storages = [tensor.untyped_storage() for _, _, tensor in self.saved()]
        return sum({storage._cdata: storage.nbytes() for storage in storages}.values())

    def __repr__(self) -> str:
        rows = [f"  {op} keeps {name} {tuple(tensor.shape)}" for op, name, tensor in self.saved()]
        return "\n".join([f"Tape: {len(self._entries or ())} ops, {self.nbytes:,} B", *rows])

    def _new(self, value: Tensor) -> Var:
        self._check_unplayed()
        self._slots += 1
        return Var(self, value, self._slots)

    def _seed(self, outputs: Var | Sequence[Var], dys: Tensor | Sequence[Tensor] | None) -> dict[int, Tensor]:
        """Slot -> gradient, for the outputs themselves. An output given twice counts twice."""
        self._check_unplayed()
        outputs = [outputs] if isinstance(outputs, Var) else list(outputs)
        dys = [dys] if isinstance(dys, Tensor) else list(dys or [None] * len(outputs))
        self._check_arguments("backward", {f"output {i}": y for i, y in enumerate(outputs)})
        grads: dict[int, Tensor] = {}
        for y, dy in zip(outputs, dys, strict=True):
            if not isinstance(y, Var):
                raise TypeError(f"backward: found a {type(y).__name__}, expected a Var: no variable leads to a constant.")
            hint = "Without dys the output must be a scalar, shape (). For the gradient of y.sum() pass torch.ones_like."
            dy = torch.ones((), dtype=y.value.dtype, device=y.value.device) if dy is None else dy
            check("backward: dy", dy.shape, y.value.shape, hint)
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
                raise ValueError(f"{op}: {name} is a variable of another tape. For a constant, detach() it.")
            if isinstance(a, Tensor) and a.requires_grad:
                raise ValueError(
                    f"{op}: {name} requires grad but is not a variable of this tape: it would get no gradient. "
                    "Make it one with tape.var(...); for a constant, detach() it."
                )


def _entry(forward, vjp, arguments, variables, saved, out) -> Entry:
    """Of what the forward saved, keep what the variables' gradients need."""
    names = list(inspect.signature(vjp).parameters)[1:]  # after dy
    needs = getattr(vjp, "needs", dict.fromkeys(arguments, names))
    needed = {name for variable in variables for name in needs[variable]}
    saved = dict(zip(names, saved, strict=True))
    saved = {name: s if name in needed or not isinstance(s, Tensor) else None for name, s in saved.items()}
    versions = {name: s._version for name, s in saved.items() if isinstance(s, Tensor)}
    inputs = {n: (variables[n].slot, variables[n].value.shape) if n in variables else None for n in needs}
    return Entry(forward.__name__, vjp, saved, versions, inputs, out.slot)


def _pull_back(entry: Entry, dy: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Run one VJP: (slot, gradient) for each input that is a variable."""
    for name, version in entry.versions.items():
        if entry.saved[name]._version != version:
            raise RuntimeError(
                f"{entry.op}: {name} was changed in place after it was saved, so the gradient would be wrong. "
                "Change a copy, or change it after backward."
            )
    with torch.no_grad():
        dxs = entry.vjp(dy, **entry.saved)
    dxs = dxs if isinstance(dxs, tuple) else (dxs,)
    for (name, target), dx in zip(entry.inputs.items(), dxs, strict=True):
        if target is not None:
            slot, shape = target
            check(f"{entry.op}: the gradient of {name}", dx.shape, shape, "A gradient has the shape of its variable.")
            yield slot, dx
