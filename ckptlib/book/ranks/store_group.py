"""How do ranks meet where torch has no gloo? Through a store that all of them can read: slow, with the same results.

torch for Windows is built without a transport for gloo ("unsupported gloo device").
"""

from __future__ import annotations

import io
import sys
import time
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ...torch_internals import world_of_groups


def backend() -> str:
    """The name for `init_process_group`."""
    return "gloo" if sys.platform != "win32" else registered()


def registered() -> str:
    """Make torch know our group, and return its name."""
    if "store" not in dist.Backend.backend_list:
        dist.Backend.register_backend("store", StoreGroup, devices=["cpu"])
    return "store"


class Patience:
    """How a rank waits for another: until the time limit, or until it is `stopped`."""

    stopped = False

    def others(self) -> AbstractContextManager:
        """Entered while the rank waits."""
        return nullcontext()


class _Done(dist.Work):
    """The handle that an asynchronous collective returns. Ours have ended by then."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self._future: torch.futures.Future = torch.futures.Future()
        self._future.set_result(result)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return True

    def get_future(self) -> torch.futures.Future:
        return self._future


class StoreGroup(dist.ProcessGroup):
    """Torch's collectives. In each, every rank leaves tensors in the store, and reads those of the others."""

    patience = Patience()  # of the groups that are made from now on

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._store, self._rank, self._size, self._seconds = store, rank, size, timeout.total_seconds()
        self._patience, self._exchanges = StoreGroup.patience, 0
        self._sent: Counter[str] = Counter()

    def size(self) -> int:
        return self._size

    def getBackendName(self) -> str:
        return "store"

    @property
    def group_name(self) -> str:
        """torch gives the name to its own groups in C++."""
        return world_of_groups.pg_names[self]

    def _exchange(self, kind: str, tensors: list[Tensor]) -> list[list[Tensor]]:
        """What each rank has handed in, by rank. Ranks that call different collectives wait for each other in vain."""
        place = f"{kind} {self._exchanges}"
        self._exchanges += 1
        self._leave(f"{place} of {self._rank}", tensors)
        return [self._take(f"{place} of {rank}", rank) for rank in range(self._size)]

    def _leave(self, key: str, tensors: list[Tensor]) -> None:
        written = io.BytesIO()
        torch.save([tensor.detach().clone(memory_format=torch.contiguous_format) for tensor in tensors], written)
        self._store.set(key, written.getvalue())

    def _take(self, key: str, rank: int) -> list[Tensor]:
        deadline = time.monotonic() + self._seconds
        with self._patience.others():
            while not self._store.check([key]):
                if self._patience.stopped or time.monotonic() > deadline:
                    raise TimeoutError(f"Timed out: rank {rank} has not called this collective")
                time.sleep(0.001)
        return torch.load(io.BytesIO(self._store.get(key)))

    # ---- what torch calls; arguments and names are its own --------------------------------------------------------
    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> _Done:
        parts = self._exchange("allreduce", tensors)
        for i, tensor in enumerate(tensors):
            _fill(tensor, _reduced([part[i] for part in parts], opts))
        return _Done(tensors)

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> _Done:
        return self.allreduce(tensors, opts)

    def barrier(self, opts: Any = None) -> _Done:
        return _Done(self._exchange("barrier", []))

    def broadcast(self, tensors: list[Tensor], opts: Any) -> _Done:
        parts = self._exchange("broadcast", tensors if self._rank == opts.rootRank else [])
        for tensor, part in zip(tensors, parts[opts.rootRank], strict=True):
            _fill(tensor, part)
        return _Done(tensors)

    def reduce(self, tensors: list[Tensor], opts: Any) -> _Done:
        parts = self._exchange("reduce", tensors)
        if self._rank == opts.rootRank:
            _fill(tensors[0], _reduced([part[0] for part in parts], opts))
        return _Done(tensors)

    def gather(self, outs: list[list[Tensor]], tensors: list[Tensor], opts: Any) -> _Done:
        parts = self._exchange("gather", tensors)
        for out, part in zip(outs[0] if self._rank == opts.rootRank else [], parts, strict=False):
            _fill(out, part[0])
        return _Done(outs)

    def alltoall(self, outs: list[Tensor], tensors: list[Tensor], opts: Any = None) -> _Done:
        for out, part in zip(outs, self._exchange("alltoall", tensors), strict=True):
            _fill(out, part[self._rank])
        return _Done(outs)

    def all_to_all_single(
        self, out: Tensor, tensor: Tensor, out_sizes: list[int], sizes: list[int], opts: Any = None
    ) -> _Done:
        def cut(whole: Tensor, sizes: list[int]) -> list[Tensor]:
            return list(whole.split(sizes) if sizes else whole.chunk(self._size))

        return self.alltoall(cut(out, out_sizes), cut(tensor, sizes), opts)

    def send(self, tensors: list[Tensor], to: int, tag: int) -> _Done:
        self._leave(self._letter(self._rank, to, tag), tensors)
        return _Done(tensors)

    def recv(self, tensors: list[Tensor], source: int, tag: int) -> _Done:
        for tensor, part in zip(tensors, self._take(self._letter(source, self._rank, tag), source), strict=True):
            _fill(tensor, part)
        return _Done(tensors)

    def _letter(self, source: int, to: int, tag: int) -> str:
        pair = f"{source} to {to}, {tag}"
        self._sent[pair] += 1
        return f"{pair}, {self._sent[pair]}"

    def scatter(self, outs: list[Tensor], pieces: list[list[Tensor]], opts: Any) -> _Done:
        parts = self._exchange("scatter", pieces[0] if self._rank == opts.rootRank else [])
        _fill(outs[0], parts[opts.rootRank][self._rank])
        return _Done(outs)

    def allgather(self, outs: list[list[Tensor]], tensors: list[Tensor], opts: Any = None) -> _Done:
        for out, part in zip(outs[0], self._exchange("allgather", tensors), strict=True):
            _fill(out, part[0])
        return _Done(outs)

    def all_gather_single(self, out: Tensor, tensor: Tensor, opts: Any = None) -> _Done:
        _fill(out.view(-1), torch.cat([part[0].view(-1) for part in self._exchange("all_gather_single", [tensor])]))
        return _Done(out)

    def all_gather_single_coalesced(self, outs: list[Tensor], tensors: list[Tensor], opts: Any = None) -> _Done:
        for out, tensor in zip(outs, tensors, strict=True):
            self.all_gather_single(out, tensor)
        return _Done(outs)

    def reduce_scatter(self, outs: list[Tensor], pieces: list[list[Tensor]], opts: Any = None) -> _Done:
        _fill(outs[0], _reduced([part[self._rank] for part in self._exchange("reduce_scatter", pieces[0])], opts))
        return _Done(outs)

    def reduce_scatter_single(self, out: Tensor, tensor: Tensor, opts: Any = None) -> _Done:
        parts = [part[0].view(self._size, -1)[self._rank] for part in self._exchange("reduce_scatter_single", [tensor])]
        _fill(out.view(-1), _reduced(parts, opts))
        return _Done(out)

    def reduce_scatter_single_coalesced(self, outs: list[Tensor], tensors: list[Tensor], opts: Any = None) -> _Done:
        for out, tensor in zip(outs, tensors, strict=True):
            self.reduce_scatter_single(out, tensor, opts)
        return _Done(outs)

    # before torch 2.13
    alltoall_base = all_to_all_single
    _allgather_base, allgather_into_tensor_coalesced = all_gather_single, all_gather_single_coalesced
    _reduce_scatter_base, reduce_scatter_tensor_coalesced = reduce_scatter_single, reduce_scatter_single_coalesced


def _fill(tensor: Tensor, values: Tensor) -> None:
    """Write in place, unseen by autograd, as every collective does."""
    tensor.detach().copy_(values)


def _reduced(parts: list[Tensor], opts: Any) -> Tensor:
    stacked = torch.stack(parts)
    ops: dict[Any, Any] = {dist.ReduceOp.AVG: torch.mean, dist.ReduceOp.MAX: torch.amax, dist.ReduceOp.MIN: torch.amin}
    wanted = [apply for op, apply in ops.items() if opts is not None and opts.reduceOp == op]
    return (wanted or [torch.sum])[0](stacked, dim=0).to(stacked.dtype)
