"""How are saved tensors written to files, and what happens to the files? A folder that removes what nobody needs."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import weakref
from io import FileIO
from pathlib import Path

import torch
from torch import Tensor

from ..errors import CkptError
from ..torch_internals import FakeTensor


class OffloadError(CkptError):
    """The disk is full, or what was written to it is gone."""


class Folder:
    """A temporary folder that is removed with all it holds when nobody needs it any more, or Python exits."""

    def __init__(self, parent: Path):
        try:
            self.path = Path(tempfile.mkdtemp(prefix="ckptlib-", dir=parent))
        except OSError as error:
            raise OffloadError(f"cannot make a folder in {str(parent)!r}: {error.strerror}") from error
        self.remove = weakref.finalize(self, _remove, self.path, os.getpid())
        self.count = self.nbytes = 0

    def write(self, flat: Tensor) -> File:
        if flat.is_meta or isinstance(flat, FakeTensor):
            raise OffloadError("a fake tensor has no bytes to write to a file: offload('cpu') works without them")
        data = flat.cpu().view(torch.uint8).numpy()
        path = self.path / str(self.count)
        try:
            _write(path, data.data)
        except OSError as error:
            raise OffloadError(self._why(error, len(data))) from error
        self.count, self.nbytes = self.count + 1, self.nbytes + len(data)
        return File(path, len(data), self)

    def _why(self, error: OSError, nbytes: int) -> str:
        so_far = f"after {self.count} files of together {self.nbytes:,} B; all of them are removed"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"the disk of {str(self.path.parent)!r} is full: no room for {nbytes:,} B more {so_far}"
        if error.errno == errno.ENOENT:
            return f"{str(self.path)!r} was removed while tensors were being offloaded to it, {so_far}"
        return f"cannot write {nbytes:,} B to {str(self.path)!r}: {error.strerror}, {so_far}"


class File:
    """One storage on disk. It keeps its folder alive, and is deleted with the last saved tensor that needs it."""

    def __init__(self, path: Path, nbytes: int, folder: Folder):
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
        return  # a forked child's copy of the object; the files belong to its parent
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
