"""What if saved tensors waited elsewhere, or in fewer bits? Saved-tensor hooks that pack, and count what it costs."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef

from ..cuda.op_choice.host_tensors import copying_to
from ..cuda.phantom import launch as phantom
from ..errors import CkptError
from ..tables import ShownAsTable, Table
from ..torch_internals import is_traceable_wrapper_subclass, not_compiled, storage_address, storage_from_weak, view_base
from ..tracing.storages import check_unchanged, version
from ..units import mib
from .disk import File, Folder, OffloadError


def offload(to: str | os.PathLike) -> Packing:
    """Let saved tensors wait in host memory ("cpu") or in files of the folder `to`; gradients stay exactly the same.

    >>> x = torch.ones(256, 64, requires_grad=True)
    >>> with offload("cpu") as packing:
    ...     y = x.exp().sum()
    >>> packing.on_device, packing.moved_out
    (0, 65536)
    """
    if isinstance(to, torch.device):
        to = str(to)
    return Packing(f"offload({str(to)!r})", Host() if to == "cpu" else Disk(to))


def compress(to: str) -> Packing:
    """Let saved floating-point tensors wait in fewer bits; `gradient_error` measures the cost.

    to    "bf16" or "int8"

    bfloat16 has float32's range: a float64 beyond it, above 3.4e38, comes back infinite, and gradients are not finite.
    """
    stores = {"bf16": Narrow, "int8": Quantized}
    if to not in stores:
        raise CkptError(f"compress to {to!r}? Expected one of {', '.join(map(repr, stores))}")
    return Packing(f"compress({to!r})", stores[to]())


class Packing(ShownAsTable, saved_tensors_hooks):
    """Packs what autograd saves inside the `with` block, and counts: all sizes in bytes, a storage counting once.

    saved        what autograd saves, without parameters, which are there anyway and are not packed
    on_device    what stays on the device: packed tensors, and those that pass unchanged (integers, masks)
    moved_out, moved_in    what left the device in forward, and came back in backward

    A storage that several ops save is packed once; it is brought back once for all that need it at the same time.
    Of hooks inside hooks only the innermost see a tensor: what a checkpoint or another packing takes is not counted
    here. Inside `torch.compile` the block breaks the graph; around a compiled model it packs what its graph saves.
    """

    def __init__(self, name: str, store: Any):
        super().__init__(self._pack, self._unpack)
        self.name, self.store, self._open = name, store, False
        self.saved = self.on_device = self.moved_out = self.moved_in = self.storages = 0
        self._seen: dict[tuple, tuple[StorageWeakRef, weakref.ref[_Waiting]]] = {}

    @not_compiled
    def __enter__(self) -> Packing:  # type: ignore[override]  # torch's returns None; this one is there to be read
        if self._open:
            raise CkptError(f"{self.name} is in use already, around this block or in a thread: make one for each")
        self.store.open()
        super().__enter__()
        self._open = True
        return self

    @not_compiled
    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._open = False
        failed = error[0] is not None
        for _, ref in self._seen.values() if failed else ():
            if waiting := ref():
                waiting.packed = None  # backward will not run, so release the copies now and not with the traceback
        self.store.close(failed)
        self._seen.clear()

    @not_compiled
    def _pack(self, tensor: Tensor) -> _View | _Unchanged:
        if isinstance(tensor, nn.Parameter) or isinstance(view_base(tensor), nn.Parameter):
            return _Unchanged(tensor)
        if tensor.layout is not torch.strided or is_traceable_wrapper_subclass(tensor):
            kind = f"{type(tensor).__name__} of layout {tensor.layout}"
            raise CkptError(f"{self.name} packs plain dense tensors; autograd saved a {kind}")
        tensor = tensor.detach().resolve_conj().resolve_neg()
        storage = tensor.untyped_storage()
        # A weak reference keeps a dead storage's address taken; writes change the version.
        key = (storage_address(storage), version(tensor), tensor.dtype)
        waiting = self._seen[key][1]() if key in self._seen else None
        if waiting is None:
            waiting = self._pack_storage(tensor, storage.nbytes())
            self._seen[key] = StorageWeakRef(storage), weakref.ref(waiting)
        if waiting.packed is None:
            return _Unchanged(tensor, waiting)
        return _View(waiting, tensor.shape, tensor.stride(), tensor.storage_offset())

    def _pack_storage(self, tensor: Tensor, nbytes: int) -> _Waiting:
        flat = tensor.as_strided((nbytes // tensor.itemsize,), (1,), 0)
        packed = self.store.pack(flat, _row(tensor)) if nbytes else None
        self.storages += 1
        self.saved += nbytes
        self.on_device += packed.on_device if packed else nbytes
        self.moved_out += packed.moved if packed else 0
        return _Waiting(packed, tensor.device)

    @not_compiled
    def _unpack(self, saved: _View | _Unchanged) -> Tensor:
        if isinstance(saved, _Unchanged):
            return saved.tensor()
        waiting = saved.waiting
        flat = waiting.flat()
        if flat is None:
            if waiting.packed is None:
                raise RuntimeError(f"{self.name}: forward failed inside the with block, so nothing waits for backward")
            flat = self.store.unpack(waiting.packed.payload, waiting.device)
            waiting.back = StorageWeakRef(flat.untyped_storage()), flat.dtype
            self.moved_in += waiting.packed.moved
        return flat.as_strided(saved.shape, saved.stride, saved.offset)

    def table(self) -> Table:
        rows = [
            ("saved by autograd, without parameters", self.saved),
            ("left on the device", self.on_device),
            ("moved out", self.moved_out),
            ("moved back", self.moved_in),
        ]
        return Table(
            f"{self.name}: {self.storages} storages", ("what", "bytes", "MiB"), [(*r, mib(r[1])) for r in rows]
        )


class _Waiting:
    """One packed storage, alive as long as some saved tensor needs it. `back` finds it once it is unpacked."""

    def __init__(self, packed: Packed | None, device: torch.device):
        self.packed, self.device = packed, device
        self.back: tuple[StorageWeakRef, torch.dtype] | None = None

    def flat(self) -> Tensor | None:
        if self.back is None or self.back[0].expired():
            return None
        storage = storage_from_weak(self.back[0].cdata)
        return None if storage is None else torch.empty(0, dtype=self.back[1], device=self.device).set_(storage)


@dataclass
class _View:
    waiting: _Waiting
    shape: torch.Size
    stride: tuple[int, ...]
    offset: int | torch.SymInt


class _Unchanged:
    """A saved tensor that is not packed. With hooks in place torch no longer notices in-place changes, so we do."""

    def __init__(self, tensor: Tensor, waiting: _Waiting | None = None):
        self._tensor, self._version = tensor.detach(), version(tensor)
        self._waiting = waiting  # so that the storage is known, and counts once, as long as it is needed

    def tensor(self) -> Tensor:
        check_unchanged(self._tensor, self._version)
        return self._tensor


def _row(tensor: Tensor) -> int:
    """How many neighbouring numbers share a scale, which is the size of the tensor's innermost dimension."""
    return max((n for n, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride == 1), default=1)


# ---- stores: each takes the values of one storage as a flat tensor and gives them back, exactly or nearly ------------
class Packed(NamedTuple):
    payload: Any
    on_device: int  # bytes that stay on the device
    moved: int  # bytes that left it


class Host:
    """In the host's memory. On a CPU this makes a copy in the same memory as the original.

    So a trace of a CPU run counts the copies. `measure(fn, "sim:cuda")` knows that they are on the host, and does not.
    """

    def open(self) -> None:
        pass

    def close(self, failed: bool) -> None:
        pass

    def pack(self, flat: Tensor, row: int) -> Packed | None:
        """Returns None if packing is not worth it; the tensor then stays unchanged."""
        with copying_to("host"):
            return Packed(flat.to("cpu", copy=True), 0, flat.nbytes)

    def unpack(self, payload: Any, device: torch.device) -> Tensor:
        with copying_to("device"):
            return payload.to(device, copy=True)


class Narrow(Host):
    """Stores bfloat16, which has half of float32's bits and all of its range. The relative error is at most 2**-8."""

    def pack(self, flat: Tensor, row: int) -> Packed | None:
        if not flat.is_floating_point() or flat.itemsize <= 2:
            return None
        low = flat.to(torch.bfloat16)
        return Packed((low, flat.dtype), low.nbytes, 0)

    def unpack(self, payload: tuple[Tensor, torch.dtype], device: torch.device) -> Tensor:
        low, dtype = payload
        return low.to(dtype)


class Quantized(Host):
    """Stores 8 bits per number and a scale per row. Each number comes back within max|row| / 254 of x.

    A row that holds an infinity or a NaN comes back as NaN throughout.
    """

    def pack(self, flat: Tensor, row: int) -> Packed | None:
        n = flat.numel()
        rows = -(-n // row)
        wide = torch.promote_types(flat.dtype, torch.float32)
        if not flat.is_floating_point() or n + rows * wide.itemsize >= flat.nbytes:
            return None  # rows so short that the scales would cost more than the 8 bits save
        x = F.pad(flat, (0, rows * row - n)).view(rows, row).to(wide)
        scale = x.abs().amax(dim=1, keepdim=True).div_(127).clamp_(min=torch.finfo(wide).tiny)
        codes = (x / scale).round_().to(torch.int8)
        return Packed((codes, scale, n, flat.dtype), codes.nbytes + scale.nbytes, 0)

    def unpack(self, payload: tuple[Tensor, Tensor, int, torch.dtype], device: torch.device) -> Tensor:
        codes, scale, n, dtype = payload
        return (codes * scale).flatten()[:n].to(dtype)


class Disk:
    """In files of a folder of its own inside `path`. A file is removed when its storage is no longer needed."""

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.folder: Folder | None = None
        if not self.path.is_dir():
            found = "a file" if self.path.exists() else "nothing"
            raise OffloadError(f"offload expected 'cpu' or an existing folder, and found {found} at {str(path)!r}")

    def open(self) -> None:
        self.folder = Folder(self.path)

    def close(self, failed: bool) -> None:
        if failed and self.folder is not None:
            self.folder.remove()  # the error's traceback may keep the folder alive for a long time
        self.folder = None  # from now on it lives as long as its last file does

    def pack(self, flat: Tensor, row: int) -> Packed:
        assert self.folder is not None  # it is open
        return Packed((self.folder.write(flat), flat.dtype), 0, flat.nbytes)

    def unpack(self, payload: tuple[File, torch.dtype], device: torch.device) -> Tensor:
        file, dtype = payload
        return file.read().view(dtype).to(device)


# ---- what it costs --------------------------------------------------------------------------------------------------
@dataclass(repr=False)
class GradientError(ShownAsTable):
    """`relative`: |g' - g| / |g| for each gradient, by name (Euclidean norms); `packing` has the bytes."""

    relative: dict[str, float]
    packing: Packing

    @property
    def worst(self) -> float:
        return max(self.relative.values())

    def table(self) -> Table:
        rows = [(name, f"{error:.2e}") for name, error in self.relative.items()]
        p = self.packing
        moved = p.moved_out + p.moved_in
        note = f"{p.saved:,} B saved by autograd, {p.on_device:,} B left on the device, {moved:,} B moved"
        return Table(f"gradient error of {p.name}", ("gradient of", "relative error"), rows, [note])


def gradient_error(loss: Callable[[], Tensor], of: nn.Module | Mapping[str, Tensor], packing: Packing) -> GradientError:
    """Run `loss()` and its backward twice, as it is and inside `packing`, with the same random numbers; compare.

    `of`: the model, or tensors by name, whose gradients to compare. Their .grad is left alone; buffers are not: each
    run updates BatchNorm's statistics, so they move twice.
    """
    every: Mapping[str, Tensor] = dict(of.named_parameters()) if isinstance(of, nn.Module) else of
    named = {name: t for name, t in every.items() if t.requires_grad}
    phantom.refuse_values("gradient_error", named.values())
    if not named:
        raise CkptError("nothing to compare: no tensor in `of` requires a gradient")
    with torch.random.fork_rng():  # puts the generators back afterwards, so both runs start from the same state
        exact = torch.autograd.grad(loss(), list(named.values()), allow_unused=True)
    if all(g is None for g in exact):
        names = ", ".join(list(named)[:4]) + ", …" * (len(named) > 4)
        raise CkptError(f"nothing to compare: loss() uses none of {names}. Does it run another model, or a copy?")
    with torch.random.fork_rng():
        with packing:
            packed_loss = loss()
        packed = torch.autograd.grad(packed_loss, list(named.values()), allow_unused=True)
    pairs = {n: (g, h) for n, g, h in zip(named, exact, packed, strict=True) if g is not None}
    return GradientError({n: _relative(g.double(), h.double()) for n, (g, h) in pairs.items()}, packing)


def _relative(g: Tensor, h: Tensor) -> float:
    error, size = (h - g).norm().item(), g.norm().item()
    return error / size if size else (float("inf") if error else 0.0)
