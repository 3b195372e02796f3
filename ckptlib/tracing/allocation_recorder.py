"""What was allocated and freed, in which order, by whom? A record of every storage a run touches."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from ..errors import CkptError
from ..torch_internals import (
    CalledDirectly,
    FakeTensorMode,
    TorchDispatchMode,
    dispatch_modes,
    fakes_by_id,
    has_kernel,
    ids_of_fakes,
    is_zero_tensor,
    next_sequence_number,
    schema,
    storage_address,
    unset_fake_temporarily,
)
from .categories import Roles
from .events import Event, Op, Storage, TensorMeta, Trace
from .fake_tensor_differences import (
    Reals,
    is_plain_real,
    is_worth_values,
    keep_storage,
    keeps_values,
    refuse_trainable_reals,
    returned,
    warn_if_unknown,
)
from .gradient_sums import Gradients
from .phases import Scope
from .storages import plain_parts, tensors_in

# Questions about a tensor, not computations: fake tensors ask them of the dispatcher, real ones do not.
_QUESTIONS = ("prim", "profiler")
_READ = torch.ops.aten._local_scalar_dense.default
# torch.tensor(...) fills its memory before the dispatcher is called, so the tensor that it passes to these ops is a new
# one, not an argument.
_LIFTS = (torch.ops.aten.lift_fresh.default, torch.ops.aten.lift.default)

_COMPOSITE_ON_CPU = torch.ops.aten._fused_rms_norm.default  # the only composite op for which CUDA has a kernel
_LAZY = frozenset({UninitializedParameter, UninitializedBuffer})  # of lazy modules; they have no memory or shape yet
_PLAIN = frozenset({int, float, bool, str, complex, type(None), torch.dtype, torch.device, torch.layout})


@contextlib.contextmanager
def trace(*, fake: bool = False) -> Iterator[Trace]:
    """Record every allocation and free of the block: `with ck.trace() as t: ...`.

    fake=True runs the block on fake tensors: shapes and bytes are computed, nothing is allocated. Build the model
    inside the block then: a real parameter would be left with a fake gradient.
    """
    with recording(fake) as recorder:
        yield recorder.trace


def mark(label: str) -> None:
    """Name this moment in the running trace. Outside a trace it does nothing, so a marked program runs as it is.

    label    what tables and figures call it
    """
    recorder = _current()
    if recorder is not None:
        recorder.mark(label)


def note_unknown(what: str, why: str) -> None:
    """Write into the running trace, if there is one, that it cannot know something."""
    recorder = _current()
    if recorder is not None:
        recorder.trace.unknowns[what] = why


@contextlib.contextmanager
def recording(fake: bool = False, **options: Any) -> Iterator[Recorder]:
    """Like `trace`, but yields the recorder, for measurements that control it."""
    if _current() is not None:
        raise CkptError("a trace is already running in this thread: leave it before you start another one")
    with FakeTensorMode(allow_non_fake_inputs=True) if fake else contextlib.nullcontext() as fake_mode:
        recorder = Recorder(fake_mode, **options)
        try:
            with recorder:
                yield recorder
        finally:
            recorder.close()


@functools.cache
def _is_composite(func: Any) -> bool:
    """Whether `func` only calls other ops. Autograd takes such an op apart before it comes here; inference mode does
    not, and neither does functorch.
    """
    if func.namespace != "aten" or func is _COMPOSITE_ON_CPU or has_kernel(func.name(), "CPU"):
        return False
    return has_kernel(func.name(), "CompositeImplicitAutograd")


def _current() -> Recorder | None:
    for mode in dispatch_modes():
        if isinstance(mode, Recorder):
            return mode
    return None


class Recorder(CalledDirectly, TorchDispatchMode):
    """Sees every op below autograd. A storage is new if no op saw it before; a weak reference shows when it dies."""

    def __init__(
        self,
        fake: FakeTensorMode | None,
        around: Callable[[int], AbstractContextManager] | None = None,
        on_backward: Callable[[], None] | None = None,
        is_host: Callable[[Tensor], bool] = lambda t: False,
    ):
        super().__init__()
        self.trace = Trace()
        self._fake = fake
        self._is_host = is_host  # whether a tensor would stay in the host's memory, were this a GPU
        self._around = around  # entered around each op, with its index; addresses are recorded then
        self._on_backward = on_backward  # called once, when backward is about to run its first op
        self._index: dict[int, int] = {}  # address of a live storage -> its index in trace.storages
        self._refs: dict[int, weakref.ref] = {}  # index -> reference whose callback records the free
        self._reals = Reals(fake, self._index) if fake else None
        self._op, self._phase = -1, ""  # the op under way
        self._gradients = Gradients()
        self._roles = Roles(self.storage_of, self.trace)
        self._scope = Scope(lambda: _current() is self, self._root_called, self._roles.optimizer_stepped)
        self._scope.start()

    def close(self) -> None:
        """Remove every hook. Storages that are still alive get no free event, because they outlive the trace."""
        self._scope.stop()
        self._roles.close()
        self._refs.clear()
        if self._reals:
            self._reals.close()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace in _QUESTIONS:
            return func(*args, **kwargs)
        if _is_composite(func):
            with self:
                return func.decompose(*args, **kwargs)
        if self._fake:
            refuse_trainable_reals(func, args)
            warn_if_unknown(func, self.trace.unknowns)
        func = self._gradients.untraced(func, args, kwargs)
        op = Op(
            index=len(self.trace.ops),
            name=_name(func),
            args=() if func in _LIFTS else self._describe(args),
            kwargs=self._describe(kwargs),
            module=self.module(),
            phase=self._scope.phase(),
            node=next_sequence_number() - 1,
            cudnn=torch.backends.cudnn.enabled,
        )
        if self._on_backward and op.phase in ("backward", "recompute"):
            notify, self._on_backward = self._on_backward, None
            notify()
        self.trace.ops.append(op)
        self._op, self._phase = op.index, op.phase
        self._event("op", -1)
        try:
            with self._around(op.index) if self._around else contextlib.nullcontext():
                out, with_values = self._run(func, args, kwargs)
            if self._reals and not with_values and func not in _LIFTS:
                keep_storage(func, args, out)
                for t in filter(is_plain_real, tensors_in((args, kwargs))):
                    if not self._is_host(t):
                        self._reals.join(t)
            seen = returned(func, args, out) if self._fake else out
            op.outputs = tuple(tensors_in(self._describe(seen, made_by=op), TensorMeta))
        finally:
            self._op = -1
        if self._fake:  # torch keeps weak references to fake tensors here, and refuses model.to(dtype) because of them
            fakes_by_id(self._fake.fake_tensor_converter).clear()
            ids_of_fakes(self._fake.fake_tensor_converter).clear()
        return out

    def _run(self, func: Any, args: tuple, kwargs: dict) -> tuple[Any, bool]:
        """What `func` returns, and whether the result has values even in a fake run.

        It does if it consists of whole numbers that are computed from tensors with values.
        """
        if not self._fake or not keeps_values(func, args, kwargs):
            return func(*args, **kwargs), False
        if func is not _READ and func not in _LIFTS and not schema(func).is_mutable:  # how large is the result?
            out = func(*args, **kwargs)
            if not is_worth_values(out):
                return out, False
        with unset_fake_temporarily():
            return func(*args, **kwargs), True

    def module(self) -> str:
        """The path of the module that is running."""
        return self._scope.module()

    def mark(self, label: str) -> None:
        self._event("mark", -1, label)

    def settle(self) -> None:
        """The set-up is over: tensors that are alive now count as older than the trace, the others are forgotten."""
        self.trace.settle(alive=self._refs.keys())

    def arrived(self, tensors: Iterable[Tensor]) -> None:
        """During set-up: these were made on the device, or moved there."""
        for t in tensors:
            for part in plain_parts(t):
                self._event("arrive", self._see(part, None))

    def adopt(self, root: nn.Module) -> None:
        """Name a model's tensors now, whether or not the run comes to call it."""
        self._scope.adopt(root)
        self._roles.adopt(root, self._scope.path)

    def _root_called(self, root: nn.Module, args: tuple) -> None:
        self.adopt(root)
        self._roles.inputs(args)

    # ---- storages ---------------------------------------------------------------------------------------------------
    def _describe(self, x: Any, made_by: Op | None = None) -> Any:
        """`x` with a TensorMeta in the place of each tensor; storages not seen before are recorded on the way."""
        kind = type(x)
        if kind in _PLAIN:  # before isinstance, which is slow for tensors
            return x
        if kind in _LAZY:
            return TensorMeta((), (), x.dtype, -1)
        if isinstance(x, Tensor):
            indices = [self._see(part, made_by) for part in plain_parts(x)]
            stride = x.stride() if x.layout is torch.strided and not x.is_nested else ()
            shape = () if x.is_nested else tuple(x.shape)
            return TensorMeta(shape, stride, x.dtype, indices[0] if indices else -1)
        if kind in (tuple, list):
            return kind([self._describe(y, made_by) for y in x])
        if kind is dict:
            return {key: self._describe(y, made_by) for key, y in x.items()}
        return x

    def storage_of(self, t: Tensor) -> Storage:
        """The record of a dense tensor's storage, which counts as there from the start if no op has touched it."""
        return self.trace.storages[self._see(t, None)]

    def _see(self, t: Tensor, made_by: Op | None) -> int:
        storage = t.untyped_storage()
        index = self._index.get(storage_address(storage))
        if index is not None and self.trace.storages[index].nbytes != _nbytes(t, storage):  # resized in place
            self._free(index, storage_address(storage))
            index = self._add(t, storage, made_by, new=True)
        if index is None:
            index = self._add(t, storage, made_by, new=made_by is not None)
        # Gradients are off while a model is initialised. Not `grad_fn is None`: to ask every tensor for its node makes
        # torch take long graphs down recursively, and crash.
        if t.requires_grad and t.is_leaf and torch.is_grad_enabled():
            self._roles.watch(t, self.trace.storages[index])
        return index

    def _add(self, t: Tensor, storage: torch.UntypedStorage, made_by: Op | None, new: bool) -> int:
        index, address = len(self.trace.storages), storage_address(storage)
        phase = made_by.phase if made_by else self._scope.phase()
        record = Storage(
            index=index,
            nbytes=_nbytes(t, storage),
            op=made_by.index if made_by else None,
            module=made_by.module if made_by else "",
            phase=phase,
            category=_first_guess(t, made_by),
            shape=() if t.is_nested else tuple(t.shape),
            dtype=t.dtype,
            device="host" if self._is_host(t) else t.device.type,
            address=storage.data_ptr() if self._around else 0,
        )
        self.trace.storages.append(record)
        self._index[address] = index
        self._refs[index] = weakref.ref(storage, lambda _: self._free(index, address))
        if new:
            self._gradients.made(address)
            self._event("alloc", index)
        else:
            self.trace.before.append(index)
        return index

    def _free(self, index: int, address: int) -> None:
        if self._refs.pop(index, None) is not None:  # not after close()
            del self._index[address]
            self._event("free", index)

    def _event(self, kind: str, storage: int, label: str = "") -> None:
        phase = self._phase if self._op >= 0 else self._scope.phase()
        self.trace.events.append(Event(kind, storage, self._op, phase, label))


@functools.cache
def _name(func: Any) -> str:
    return str(func)


def _nbytes(t: Tensor, storage: torch.UntypedStorage) -> int:
    """The bytes of a storage: none for the zeros that autograd makes without memory, as the gradient of `sgn`."""
    return 0 if is_zero_tensor(t) else storage.nbytes()


def _first_guess(t: Tensor, made_by: Op | None) -> str:
    if isinstance(t, nn.Parameter):
        return "parameter"
    if made_by is None:
        return "input"
    return "activation" if made_by.phase in ("forward", "recompute") else "temporary"
