"""Where can a saved tensor wait for backward, other than where it is? In host memory, on disk, or in fewer bits.

A store takes one storage's values as a flat tensor and gives them back, exactly or nearly.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import weakref
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..cuda.dispatch.host_tensors import copying_to
from ..errors import CkptError
from ..torch_internals import FakeTensor


class OffloadError(CkptError):
    """The disk is full, or what was written to it is gone."""


class Packed(NamedTuple):
    payload: Any
    kept: int  # bytes that stay on the device
    moved: int  # bytes that left it


class Host:
    """In the host's memory. On a CPU this is a copy beside the original: the bytes move, but nowhere.

    So a trace of a CPU run counts the copies; `measure(fn, "sim:cuda")` knows them for the host's and leaves them out.
    """

    def open(self) -> None:
        pass

    def close(self, failed: bool) -> None:
        pass

    def pack(self, flat: Tensor, row: int) -> Packed | None:
        """None: what is not worth packing stays as it is."""
        with copying_to("host"):
            return Packed(flat.to("cpu", copy=True), 0, flat.nbytes)

    def unpack(self, payload: Any, device: torch.device) -> Tensor:
        with copying_to("device"):
            return payload.to(device, copy=True)


class Narrow(Host):
    """In bfloat16: half of float32's bits, all of its range; a relative error of 2**-8 at most."""

    def pack(self, flat: Tensor, row: int) -> Packed | None:
        if not flat.is_floating_point() or flat.itemsize <= 2:
            return None
        low = flat.to(torch.bfloat16)
        return Packed((low, flat.dtype), low.nbytes, 0)

    def unpack(self, payload: tuple[Tensor, torch.dtype], device: torch.device) -> Tensor:
        low, dtype = payload
        return low.to(dtype)


class Quantized(Host):
    """In 8 bits, and a scale per row: x is within max|row| / 254 of what comes back.

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


# ---- disk -----------------------------------------------------------------------------------------------------------
class Disk:
    """In files of a folder of its own inside `path`. A file goes when its storage is no longer needed."""

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.folder: _Folder | None = None
        if not self.path.is_dir():
            found = "a file" if self.path.exists() else "nothing"
            raise OffloadError(f"offload expected 'cpu' or an existing folder, and found {found} at {str(path)!r}")

    def open(self) -> None:
        self.folder = _Folder(self.path)

    def close(self, failed: bool) -> None:
        if failed and self.folder is not None:
            self.folder.remove()  # now: the error's traceback may keep the folder alive for long
        self.folder = None  # from now on it lives as long as its last file does

    def pack(self, flat: Tensor, row: int) -> Packed:
        assert self.folder is not None  # it is open
        return Packed((self.folder.write(flat), flat.dtype), 0, flat.nbytes)

    def unpack(self, payload: tuple[_File, torch.dtype], device: torch.device) -> Tensor:
        file, dtype = payload
        return file.read().view(dtype).to(device)


class _Folder:
    """A temporary folder that is removed with all it holds when nobody needs it any more, or Python exits."""

    def __init__(self, parent: Path):
        try:
            self.path = Path(tempfile.mkdtemp(prefix="ckptlib-", dir=parent))
        except OSError as error:
            raise OffloadError(f"cannot make a folder in {str(parent)!r}: {error.strerror}") from error
        self.remove = weakref.finalize(self, _remove, self.path, os.getpid())
        self.count = self.nbytes = 0

    def write(self, flat: Tensor) -> _File:
        if flat.is_meta or isinstance(flat, FakeTensor):
            raise OffloadError("a fake tensor has no bytes to write to a file: offload('cpu') works without them")
        data = flat.cpu().view(torch.uint8).numpy()
        path = self.path / str(self.count)
        try:
            _write(path, data.data)
        except OSError as error:
            raise OffloadError(self._why(error, len(data))) from error
        self.count, self.nbytes = self.count + 1, self.nbytes + len(data)
        return _File(path, len(data), self)

    def _why(self, error: OSError, nbytes: int) -> str:
        so_far = f"after {self.count} files of together {self.nbytes:,} B; all of them are removed"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"the disk of {str(self.path.parent)!r} is full: no room for {nbytes:,} B more {so_far}"
        if error.errno == errno.ENOENT:
            return f"{str(self.path)!r} was removed while tensors were being offloaded to it, {so_far}"
        return f"cannot write {nbytes:,} B to {str(self.path)!r}: {error.strerror}, {so_far}"


class _File:
    """One storage on disk. It keeps its folder alive, and is deleted with the last saved tensor that needs it."""

    def __init__(self, path: Path, nbytes: int, folder: _Folder):
        self.path, self.nbytes, self.folder = path, nbytes, folder
        weakref.finalize(self, _remove, path, os.getpid()).atexit = False  # the folder sees to that

    def read(self) -> Tensor:
        data = torch.empty(self.nbytes, dtype=torch.uint8)  # an op: a trace sees these bytes come back
        try:
            with open(self.path, "rb", buffering=0) as file:
                found = os.fstat(file.fileno()).st_size
                _read(file, data.numpy().data)
        except OSError as error:
            raise OffloadError(
                f"backward needs {str(self.path)!r}, which cannot be read: {error.strerror}. "
                "Was the folder cleaned up between forward and backward?"
            ) from error
        if found != self.nbytes:
            raise OffloadError(f"{str(self.path)!r} holds {found:,} B, but {self.nbytes:,} B were written to it")
        return data


def _write(path: Path, data: memoryview) -> None:
    with open(path, "xb", buffering=0) as file:
        while data:
            data = data[file.write(data) :]


def _read(file: FileIO, data: memoryview) -> None:
    while data and (n := file.readinto(data)):  # 2 GiB at most each time
        data = data[n:]


def _remove(path: Path, pid: int) -> None:
    if os.getpid() != pid:
        return  # a forked child's copy of the object: the files are its parent's
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
