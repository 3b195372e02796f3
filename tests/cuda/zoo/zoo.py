"""What does an entry of the zoo need, on CUDA and in the simulation? Both count the same marks of the same entry.

An entry is a function that builds on a device and returns the step, which is called with `mark`. An op's marks are
those of `ops.MARKS`, a program's those of `programs.MARKS`.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.nn.parameter import is_lazy

import ckptlib as ck
from ckptlib.cuda.allocator import CUDA_RULES
from ckptlib.cuda.gpus import Gpu, at_release, preset
from ckptlib.cuda.op_choice import attention_choice
from ckptlib.cuda.op_choice.cuda_dispatch import Cuda
from ckptlib.cuda.op_choice.host_tensors import is_host
from ckptlib.cuda.phantom import launch
from ckptlib.cuda.simulate import simulate
from ckptlib.torch_internals import (
    memory_snapshot,
    name_of,
    record_memory_history,
    schema,
    storage_address,
)
from ckptlib.tracing.storages import plain_parts, tensors_in

FOLDER = Path(__file__).resolve().parent
GPUS = ("a100", "h100", "rtx4090")
RELEASE = ".".join(torch.__version__.split(".")[:2])
Mark = Callable[[str], None]
Entry = Callable[[str], Callable[[Mark], object]]


@dataclass
class Counted:
    """What one run of one entry counted."""

    marks: dict[str, tuple[int, int]] = field(default_factory=dict)  # label -> (peak since the mark before, allocated)
    reserved: int = 0
    allocations: int = 0
    unknowns: dict[str, str] = field(default_factory=dict)
    error: str = ""
    # (bytes, what for), in order: bytes below 0 are given back
    changes: list[tuple[int, str]] = field(default_factory=list)

    def figures(self) -> tuple[list[tuple[int, int]], int]:
        """What must agree: the peak and the allocated bytes at each mark, and the reserved bytes."""
        return [tuple(mark) for mark in self.marks.values()], self.reserved

    @property
    def peak(self) -> int:
        return max((peak for peak, _ in self.marks.values()), default=0)


def entries() -> dict[str, Entry]:
    """All of the zoo. An op's name begins with "op ", so that no program has the name of an op."""
    import fourth  # noqa: F401
    import third_ops  # noqa: F401
    import third_programs  # noqa: F401
    import unseen_ops  # noqa: F401
    import unseen_programs  # noqa: F401  they add theirs
    from ops import OPS
    from programs import PROGRAMS

    return {f"op {name}": entry for name, entry in OPS.items()} | PROGRAMS


def is_op(name: str) -> bool:
    return name.startswith("op ")


# ---- in the simulation ----------------------------------------------------------------------------------------------
def simulated(entry: Entry, gpus: Sequence[str], fake: bool = False, zeros: bool = False) -> dict[str, Counted]:
    """The entry on sim:cuda, by GPU. An error of the program, or of the simulation, is part of the result.

    It is traced once for all GPUs for which torch would choose the same ops, and replayed for each. `zeros` gives it
    the values of a phantom GPU, so that a program which decides by values takes the path that was recorded.
    """
    found: dict[str, Counted] = {}
    while missing := [gpu for gpu in gpus if gpu not in found]:
        found |= _traced(entry, missing, fake, zeros)
    return found


def _traced(entry: Entry, gpus: Sequence[str], fake: bool, zeros: bool) -> dict[str, Counted]:
    """The entry traced for the first of `gpus`, replayed for this one and for all others that run the same ops."""
    cards = {gpu: at_release(preset(gpu), RELEASE) for gpu in gpus}
    torch.manual_seed(0)
    started: list[Any] = []  # what the step returned lives on, as it does on CUDA

    def build(device: str) -> Callable[[], object]:
        step = entry(device)
        return lambda: started.append(step(ck.mark))

    values = phantom_values() if zeros else nullcontext()
    with warnings.catch_warnings(), without_garbage_collection(), values, choosing(cards) as same:
        warnings.simplefilter("ignore")
        try:
            found = ck.measure(build, "sim:cuda", builds=True, fake=fake, gpu=cards[gpus[0]])
        except Exception as error:
            return {gpu: Counted(error=_line(error)) for gpu in same}
    return {gpu: _counted(found, cards[gpu]) for gpu in same}


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """A collection would free tensors in reference cycles at a moment that depends on what ran before."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _counted(found: ck.Measurement, gpu: Gpu) -> Counted:
    sim = simulate(found.trace, gpu)
    marks = {mark.label: (mark.peak, mark.allocated) for mark in sim.marks}
    changes = [(_asked(change), _purpose(found.trace, change)) for change in sim.timeline.changes if change.nbytes]
    count = sum(nbytes > 0 for nbytes, _ in changes)
    unknowns = found.trace.unknowns | sim.unknowns
    return Counted(marks, sim.allocator.peak_reserved, count, unknowns, changes=changes)


@contextmanager
def choosing(cards: Mapping[str, Gpu]) -> Iterator[list[str]]:
    """Yields the GPUs, and takes out those for which torch chooses another attention kernel than for the first.

    That is the only choice in a trace that depends on the GPU. All others depend on the release of torch.
    """
    same, (first, *others) = list(cards), cards
    choose = attention_choice.backend

    def backend(call: attention_choice.AttentionCall, gpu: Gpu) -> str:
        chosen = choose(call, gpu)
        same[:] = [first, *(other for other in others if other in same and choose(call, cards[other]) == chosen)]
        return chosen

    with patch.object(attention_choice, "backend", backend):
        yield same


@contextmanager
def phantom_values() -> Iterator[None]:
    """All values are zeros, as on a phantom GPU, where no kernel runs. A lone byte that is read is 1 (phantom.c)."""
    run = Cuda.__torch_dispatch__

    def __torch_dispatch__(self: Cuda, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = run(self, func, types, args, kwargs)
        if func is torch.ops.aten._local_scalar_dense.default:
            return out if is_host(args[0]) else type(out)(args[0].element_size() == 1)
        seen = {storage_address(t.untyped_storage()) for t in dense_tensors((args, kwargs))}
        written = [a for a, formal in zip(args, schema(func).arguments, strict=False) if is_written(formal)]
        made = [t for t in dense_tensors(out) if storage_address(t.untyped_storage()) not in seen]
        for t in (*made, *dense_tensors(written)):
            if not is_host(t) and t.device.type == "cpu":
                storage = t.untyped_storage()
                ctypes.memset(storage.data_ptr(), 0, storage.nbytes())  # t.zero_() would count as a change of `t`
        return out

    with patch.object(Cuda, "__torch_dispatch__", __torch_dispatch__):
        yield


def dense_tensors(x: Any) -> list[torch.Tensor]:
    return [part for t in tensors_in(x) if not is_lazy(t) for part in plain_parts(t)]


def is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _asked(change: Any) -> int:
    """Without what was left of the block, which history does not count either."""
    nbytes = CUDA_RULES.round_size(change.owner.nbytes) if change.owner.nbytes else abs(change.nbytes)
    return nbytes if change.nbytes > 0 else -nbytes


def _purpose(trace: Any, change: Any) -> str:
    name = change.owner.name or f"{change.owner.category} {list(change.owner.shape)} {change.owner.dtype}"
    op = trace.ops[change.op].name.removeprefix("aten.") if change.op >= 0 else "-"
    return f"{change.phase}: {op}: {name}"


# ---- on CUDA, real or phantom ---------------------------------------------------------------------------------------
def on_cuda(entry: Entry, history: bool = False) -> Counted:
    """The entry on the GPU of this process, which nothing has used before."""
    found = Counted()
    torch.cuda.reset_peak_memory_stats()

    def mark(label: str) -> None:
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        found.marks[label] = (stats["allocated_bytes.all.peak"], stats["allocated_bytes.all.current"])
        torch.cuda.reset_peak_memory_stats()

    torch.manual_seed(0)
    engine = getattr(torch.autograd, name_of("engine_entry"))

    def settled(*args: Any, **kwargs: Any) -> Any:
        """Backward. Its thread may hold the last tensors for a moment when it has told this one that it is done."""
        result = engine(*args, **kwargs)
        time.sleep(0.02)
        while _others_run():
            time.sleep(0.01)
        return result

    setattr(torch.autograd, name_of("engine_entry"), settled)
    try:
        step = entry("cuda")
        if history:
            record_memory_history("all", context="all", stacks="all")
        before = torch.cuda.memory_stats().get("allocation.all.allocated", 0)
        torch.cuda.reset_peak_memory_stats()
        kept = step(mark)
        found.changes = [change for entry in _history(history) if (change := _change(entry))]
        stats = torch.cuda.memory_stats()
        found.reserved = stats["reserved_bytes.all.current"]
        found.allocations = stats["allocation.all.allocated"] - before
        del kept
    except Exception as error:
        found = Counted(found.marks, error=_line(error))
    finally:
        setattr(torch.autograd, name_of("engine_entry"), engine)
    found.unknowns = launch.unknowns()
    return found


def _others_run() -> bool:
    """Whether another thread of this process has something to do, and perhaps waits for a processor."""
    others = (task for task in Path("/proc/self/task").iterdir() if task.name != str(threading.get_native_id()))
    return any((task / "stat").read_text().rpartition(")")[2].split()[0] == "R" for task in others)


def _history(recorded: bool) -> list[dict[str, Any]]:
    return memory_snapshot()["device_traces"][0] if recorded else []


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"


def _change(entry: Mapping[str, Any]) -> tuple[int, str] | None:
    sign = {"alloc": 1, "free_requested": -1}.get(entry["action"])
    return (sign * CUDA_RULES.round_size(entry["size"]), _frames(entry.get("frames", ()))) if sign else None


_NATIVE = re.compile(r"at::native::|at::_ops::|at::cuda::(blas|detail)|torch::autograd::(generated::|Accum)")
_NOISE = re.compile(r"empty_(strided|like|cuda)|::(redispatch|apply)$|_ops::empty|^c10|std::")


def _frames(frames: Iterable[Mapping[str, Any]]) -> str:
    """Torch's kernels from the inside out, or the innermost line of Python."""
    names = [re.sub(r"[(<].*", "", f["name"].removeprefix("void ")) for f in frames if _NATIVE.search(f["name"])]
    names = [
        re.sub(r"at::(native|_ops)::|torch::autograd::(generated::)?(details::)?|::call$", "", n)
        for n in names
        if n and not _NOISE.search(n)
    ]
    short = list(dict.fromkeys(names))
    lines = [f"{Path(f['filename']).name}:{f['line']} {f['name']}" for f in frames if f["filename"].endswith(".py")]
    return " < ".join(short[:5]) or next(iter(lines), "")


def in_forks(names: Iterable[str], history: bool = False) -> Iterator[tuple[str, Counted]]:
    """The entries, each in a process of its own that is forked from this one, which must not have used CUDA.

    A process that has run another entry is not a new one, even if it has given back all memory: its two threads have
    numbered their autograd nodes differently far, and by these numbers a double backward is ordered.
    """
    if torch.cuda.is_initialized():
        raise RuntimeError("CUDA was used in this process, so a forked one could not use it")
    from programs import preload

    known, wanted = entries(), list(names)
    if any("transformers" in name for name in wanted):
        preload()
    for name in wanted:
        with tempfile.TemporaryFile() as file:
            if not (child := os.fork()):
                failed = 1
                try:
                    signal.alarm(300)  # ends a process that hangs
                    pickle.dump(on_cuda(known[name], history), file)
                    file.flush()
                    failed = 0
                finally:
                    os._exit(failed)
            _, status = os.waitpid(child, 0)
            file.seek(0)
            yield name, Counted(error=f"the process ended with status {status}") if status else pickle.load(file)


def on_phantom(gpu: str, names: Iterable[str], history: bool = False) -> dict[str, Counted]:
    """The entries on a phantom GPU, in a process that has one. Needs torch's CUDA build and a C compiler.

    If it is interrupted, it returns those that are done.
    """
    with tempfile.TemporaryDirectory() as folder:
        job, answer = Path(folder, "job"), Path(folder, "answer")
        job.write_text(json.dumps([list(names), history]), encoding="utf-8")
        answer.touch()
        command = [sys.executable, "-m", launch.ENTRY, str(FOLDER / "zoo.py"), str(job), str(answer)]
        paths = [str(FOLDER.parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
        with suppress(KeyboardInterrupt):
            subprocess.run(command, env=launch.environment(gpu) | {"PYTHONPATH": os.pathsep.join(paths)}, check=True)
        lines = map(json.loads, answer.read_text(encoding="utf-8").splitlines())
        return {name: Counted(**fields) for name, fields in lines}


# ---- the recorded truth ---------------------------------------------------------------------------------------------
def truth_file(gpu: str, release: str = RELEASE) -> Path:
    return FOLDER / "truth" / f"{gpu}-{release}.json"


def write_truth(gpu: str, found: Mapping[str, Counted]) -> None:
    """One line an entry, sorted, so that the same figures make the same bytes."""
    lines = []
    for name in sorted(found):
        c = found[name]
        kept: dict[str, Any] = {"marks": list(c.marks.values()), "reserved": c.reserved, "allocations": c.allocations}
        if c.error:
            kept = {"error": c.error}
        if c.unknowns:
            kept["unknowns"] = sorted(c.unknowns)
        lines.append(f"{json.dumps(name)}: {json.dumps(kept, separators=(',', ':'))}")
    truth_file(gpu).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def truth(gpu: str, release: str = RELEASE) -> dict[str, Counted]:
    """What the phantom counted, by name."""
    from ops import MARKS as OP_MARKS
    from programs import MARKS as PROGRAM_MARKS

    found = {}
    for name, kept in json.loads(truth_file(gpu, release).read_text(encoding="utf-8")).items():
        labels = OP_MARKS if is_op(name) else PROGRAM_MARKS
        marks = {label: tuple(mark) for label, mark in zip(labels, kept.get("marks", ()), strict=False)}
        unknowns = dict.fromkeys(kept.get("unknowns", ()), "")
        error = kept.get("error", "")
        found[name] = Counted(marks, kept.get("reserved", 0), kept.get("allocations", 0), unknowns, error)
    return found


# ---- the comparison -------------------------------------------------------------------------------------------------
VERDICTS = ("exact", "within 1 %", "declared", "wrong", "no truth")


def compared(entry: Entry, true: Mapping[str, Counted], fake: bool = False) -> dict[str, tuple[str, Counted]]:
    """The verdict on each GPU that `true` has the truth of, and what the simulation counted.

    A program that reads values may have taken another path on the phantom, where all of them are zeros. The simulation
    is right if it counts the truth with values of its own, or with those of the phantom.
    """
    found = {gpu: (verdict(true[gpu], sim), sim) for gpu, sim in simulated(entry, list(true), fake).items()}
    read = [gpu for gpu, (word, _) in found.items() if word in DIFFERENT and true[gpu].unknowns.keys() - {"cuDNN"}]
    if read and not fake:
        again = {gpu: (verdict(true[gpu], sim), sim) for gpu, sim in simulated(entry, read, zeros=True).items()}
        found |= {gpu: pair for gpu, pair in again.items() if pair[0] not in DIFFERENT}
    return found


DIFFERENT = ("within 1 %", "wrong")


def verdict(true: Counted, sim: Counted) -> str:
    """How well the simulation did. Nothing excuses a difference.

    Where the program fails on the phantom, which lacks a library, the result has to declare what that library does.
    There is no truth at all where the program fails because its values are zeros.
    """
    if true.error:
        return "declared" if sim.unknowns else "no truth" if "values" in true.unknowns else "wrong"
    if sim.error or sim.marks.keys() != true.marks.keys():
        return "wrong"
    if true.figures() == sim.figures():
        return "exact"
    return "within 1 %" if off(true, sim) <= 0.01 else "wrong"


def off(true: Counted, sim: Counted) -> float:
    """The largest relative difference at any mark, or of the reserved bytes."""
    pairs = [(t, s) for label in true.marks for t, s in zip(true.marks[label], sim.marks[label], strict=True)]
    return max(abs(s - t) / max(t, 1) for t, s in [*pairs, (true.reserved, sim.reserved)])


def describe(true: Counted, sim: Counted) -> str:
    """The first difference, in a sentence."""
    if true.error or sim.error:
        where = "On the phantom" if true.error else "In the simulation"
        return f"{where} the program stops with {true.error or sim.error}"
    for label in true.marks:
        if label not in sim.marks:
            return f"The simulation has no mark {label!r}"
        for what, t, s in zip(("peak", "memory left"), true.marks[label], sim.marks[label], strict=True):
            if t != s:
                return f"The {what} of {label!r} is {s:,} B instead of {t:,} B ({(s - t) / max(t, 1):+.1%})"
    if true.reserved != sim.reserved:
        return f"Reserved are {sim.reserved:,} B instead of {true.reserved:,} B"
    return "Both agree"


if __name__ == "__main__":
    job, answer = map(Path, sys.argv[1:])
    asked, how = json.loads(job.read_text(encoding="utf-8"))
    for done, counted in in_forks(asked, how):
        with answer.open("a", encoding="utf-8") as file:
            print(json.dumps([done, asdict(counted)]), file=file)
