"""How does a program come to run on a phantom GPU? In a process of its own, which has the stand-in preloaded."""

from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from ...errors import CkptError
from ...units import KiB, MiB
from ..gpus import DEFAULT, MEMORY, preset
from .build import libraries

PREFIX = "phantom:"
DESCRIPTION = "CKPTLIB_PHANTOM"  # the variable that describes the card to phantom.c
ENTRY = "ckptlib.cuda.phantom"  # its __main__ runs the program, and says afterwards what could not be known

# By compute capability: the shared memory of a multiprocessor and of a block in KiB, and the most blocks that fit into
# a multiprocessor (CUDA programming guide, table "technical specifications per compute capability").
CHIPS = {
    (7, 0): (96, 96, 32),
    (7, 5): (64, 64, 16),
    (8, 0): (164, 163, 32),
    (8, 6): (100, 99, 16),
    (8, 9): (100, 99, 24),
    (9, 0): (228, 227, 32),
    (10, 0): (228, 227, 32),
    (12, 0): (100, 99, 24),
}
L2 = {"v100": 6, "t4": 4, "a100": 40, "rtx4090": 72, "l4": 48, "l40s": 96, "b200": 126, "rtx5090": 96}  # MiB
L2 |= {"h100": 50, "h100-pcie": 50}  # all others have 6

# Libraries that a program may use, by how their functions' names begin, and what nobody can know of them here.
UNKNOWN = {
    "time": ("time", "no kernel runs on a phantom GPU, so the time that passes between two events is always 0"),
    "cudnn": ("cuDNN", "its workspaces are not counted, because their size depends on the algorithms that it chooses"),
    "cusolver": ("cuSOLVER", "a phantom GPU does not have it, so this function of torch.linalg failed"),
    "cufft": ("cuFFT", "a phantom GPU does not have it, so this function of torch.fft failed"),
    "cusparse": ("cuSPARSE", "a phantom GPU does not have it, so this sparse operation failed"),
    "curand": ("cuRAND", "a phantom GPU does not have its host library, so this call failed"),
    "nccl": ("NCCL", "a phantom GPU does not have it, so this collective failed"),
    "cuda": ("CUDA", "a phantom GPU lacks a function of the runtime that the program called, so this call failed"),
}
# Ops by which a program itself reads values. Any other op that does so needs them for its own result.
READS = (
    "item",
    "_local_scalar_dense",
    "is_nonzero",
    "equal",
    "allclose",
    "copy",
    "_to_copy",
    "to_dtype",
    "to_device",
    "to_other",
)


def card_of(device: str) -> str:
    """The card that `phantom:a100` names; `phantom` alone is an A100.

    >>> card_of("phantom:H100")
    'h100'
    """
    name = device.removeprefix("phantom").removeprefix(":").lower() or DEFAULT
    return name if name in MEMORY else preset(name).name  # generations have names too: phantom:hopper


def is_phantom(device: str) -> bool:
    return device == "phantom" or device.startswith(PREFIX)


def description(card: str) -> str:
    """The card as phantom.c reads it.

    >>> description("a100")
    'a100,108,2048,8,0,32,85899345920,167936,166912,41943040'
    """
    gpu = preset(card.removesuffix("-40gb") if card in MEMORY else card)
    per_sm, per_block, blocks = CHIPS[gpu.capability]
    numbers = (gpu.sm_count, gpu.max_threads_per_sm, *gpu.capability, blocks, MEMORY[card], per_sm * KiB)
    return ",".join(map(str, (card, *numbers, per_block * KiB, L2.get(gpu.name, 6) * MiB)))


def environment(card: str, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of a process that is to find the card."""
    preloaded = [*map(str, libraries()), *filter(None, [base.get("LD_PRELOAD")])]
    own = {DESCRIPTION: description(card), "LD_PRELOAD": ":".join(preloaded)}
    # The older of PyTorch's two ways to ask cuDNN for a convolution can be answered by a stand-in.
    own["TORCH_CUDNN_V8_API_DISABLED"] = "1"
    return {name: value for name, value in base.items() if name != "CUDA_VISIBLE_DEVICES"} | own


def running() -> str | None:
    """The phantom card that this process has, if it has one."""
    described = os.environ.get(DESCRIPTION)
    return described.split(",")[0] if described and hasattr(ctypes.CDLL(None), "phantom_used") else None


def become(card: str, program: Sequence[str]) -> NoReturn:
    """Replace this process by one that runs `program`, a script or -m and a module, on the card."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, "-m", ENTRY, *program], environment(card))


def call(card: str, function: Callable[..., Any], *args: object, **options: object) -> Any:
    """Call `function` in a process that has the card, and return what it returned, or raise what it raised."""
    with tempfile.TemporaryDirectory() as folder:
        job, answer = Path(folder, "job"), Path(folder, "answer")
        try:
            job.write_bytes(pickle.dumps((sys.path, pickle.dumps((function, args, options)))))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise _not_importable(str(error)) from None
        command = [sys.executable, "-m", ENTRY, "-m", f"{ENTRY}.call", str(job), str(answer)]
        done = subprocess.run(command, env=environment(card))
        if not answer.exists():
            raise CkptError(
                f"the process with the phantom GPU ended with exit code {done.returncode}, without an answer"
            )
        result, raised = pickle.loads(answer.read_bytes())
    if raised is not None:
        raise raised
    return result


def _not_importable(found: str) -> CkptError:
    return CkptError(
        f"a phantom GPU needs a process of its own, and the function cannot be sent there ({found}). Move it to the "
        "top level of a file that can be imported, or start the whole program with `ckptlib phantom script.py`"
    )


def used() -> Counter[str]:
    """Uses so far of what the phantom cannot know, with their numbers, by function of CUDA or by op."""
    found: Counter[str] = Counter()
    if running():
        phantom, times = ctypes.CDLL(None), ctypes.c_long()
        phantom.phantom_used.restype = ctypes.c_char_p
        while name := phantom.phantom_used(len(found), ctypes.byref(times)):
            found[name.decode()] = times.value
    return found


def unknowns(before: Mapping[str, int] = {}) -> dict[str, str]:
    """What the phantom cannot know of the ops that ran since `used()` returned `before`: name -> what is missing."""
    found: dict[str, str] = {}
    for name in used() - Counter(before):
        kind, _, op = name.partition(" ")
        if kind != "value":
            found |= [next(known for begin, known in UNKNOWN.items() if name.startswith(begin))]
        elif op.startswith(READS):
            found["values"] = (
                "the program read values from the device. No kernel runs on a phantom GPU, so they are zeros, and a "
                "program that decides by them may take another path"
            )
        else:
            found[op] = (
                "this op asks the device for values, which are zeros on a phantom GPU, so the size of its result may "
                "be another one"
            )
    return found


@contextmanager
def explained() -> Iterator[Counter[str]]:
    """An error in the block is told what the phantom lacks, if the block used that."""
    before = used()
    try:
        yield before
    except Exception as error:
        for what, why in unknowns(before).items():
            error.add_note(f"phantom GPU: {what}: {why}.")
        raise


def refuse_values(what: str, tensors: Iterable[Any]) -> None:
    """Raise if `tensors` are on a phantom GPU, where a comparison of values says nothing."""
    if running() and any(tensor.is_cuda for tensor in tensors):
        raise CkptError(f"{what} compares values, and on a phantom GPU all of them are zeros: compare them on the CPU")


def require(device: str) -> None:
    """Raise unless this process runs on the phantom card that `device` names."""
    if (card := running()) != card_of(device):
        here = f"on a phantom {card}" if card else "without a phantom GPU"
        start = f"ckptlib phantom --gpu {card_of(device)} script.py"
        raise CkptError(f"device is {device!r}, but this process runs {here}: start the whole program with `{start}`")
