"""Which GPU and which release of torch does the simulation assume? The numbers that it needs, with names.

A preset describes a GPU as torch 2.0 to 2.8 uses it, which is where published measurements come from; `at_release`
turns it into the same GPU under a later torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from ..errors import CkptError
from ..units import GiB, KiB, MiB, parse_bytes

CUBLAS_DEFAULT = 2 * 4096 * KiB + 8 * 16 * KiB  # CUBLAS_WORKSPACE_CONFIG=":4096:2:16:8", 8,519,680 B
CUBLAS_HOPPER = 32 * MiB


@dataclass(frozen=True)
class Gpu:
    """What the allocator's traffic depends on besides the program.

    `replace(gpu, cublas_workspace=0)` is `CUBLAS_WORKSPACE_CONFIG=:0:0`. Sizes are those of CublasHandlePool.cpp.
    """

    name: str
    sm_count: int  # streaming multiprocessors: how far a reduction is split depends on it
    max_threads_per_sm: int
    capability: tuple[int, int]
    cublas_workspace: int = CUBLAS_DEFAULT  # per handle, kept; backward's thread has a handle of its own
    cublaslt_workspace: int = 1 * MiB  # 0 where cuBLASLt uses cuBLAS's (torch >= 2.12)
    cublaslt_kept: bool = False  # kept per handle (torch 2.9 to 2.11), or freed when the call returns (before)
    torch_release: tuple[int, int] = (2, 8)


def _hopper(name: str, sm_count: int) -> Gpu:
    return Gpu(name, sm_count, 2048, (9, 0), cublas_workspace=CUBLAS_HOPPER)


PRESETS: dict[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        Gpu("v100", 80, 2048, (7, 0)),
        Gpu("t4", 40, 1024, (7, 5)),
        Gpu("a100", 108, 2048, (8, 0)),
        Gpu("a10g", 80, 1536, (8, 6)),
        Gpu("rtx3090", 82, 1536, (8, 6)),
        Gpu("a6000", 84, 1536, (8, 6)),
        Gpu("rtx4090", 128, 1536, (8, 9)),
        Gpu("l4", 58, 1536, (8, 9)),
        Gpu("l40s", 142, 1536, (8, 9)),
        _hopper("h100", 132),  # SXM; h200 is the same chip with more memory
        _hopper("h100-pcie", 114),
        Gpu("b200", 148, 2048, (10, 0)),
        Gpu("rtx5090", 170, 1536, (12, 0)),
    )
}
GENERATIONS = {
    "volta": "v100",
    "turing": "t4",
    "ampere": "a100",
    "ada": "rtx4090",
    "hopper": "h100",
    "blackwell": "b200",
    "h200": "h100",
}
DEFAULT = "a100"
# The memory on the card. The driver and the CUDA context take some hundred MiB of it, which are not counted.
MEMORY: dict[str, int] = {
    name: gib * GiB
    for gib, names in {
        16: "t4",
        24: "a10g rtx3090 rtx4090 l4",
        32: "v100 rtx5090",
        40: "a100-40gb",
        48: "a6000 l40s",
        80: "a100 h100 h100-pcie",
    }.items()
    for name in names.split()
} | {"h200": 141 * 10**9, "b200": 180 * 10**9}


@dataclass(frozen=True)
class Speed:
    """Three numbers for a roofline. The first two are what the maker promises and no program quite reaches."""

    flops: float  # FLOP/s of matrix products, in half precision, without sparsity
    bandwidth: float  # bytes/s between the GPU's memory and its processors
    launch: float = 5e-6  # seconds that eager PyTorch takes on the host for one kernel: an assumption, not promised

    @property
    def ridge(self) -> float:
        """The FLOPs for each byte at which computing takes as long as reading and writing."""
        return self.flops / self.bandwidth


# NVIDIA's data sheets, for the cards with SXM sockets. The two A100 differ in their memory only.
SPEEDS = {
    "a100-40gb": Speed(312e12, 1.555e12),
    "a100": Speed(312e12, 2.039e12),
    "h100": Speed(989.4e12, 3.35e12),
}


def speed_of(gpu: str | Speed) -> Speed:
    """The roofline of a GPU by name; a `Speed` is returned as it is.

    >>> round(speed_of("a100").ridge), round(speed_of("h100").ridge)
    (153, 295)
    """
    if isinstance(gpu, Speed):
        return gpu
    if gpu not in SPEEDS:
        raise CkptError(f"no roofline for the GPU {gpu!r}: expected a Speed or one of {', '.join(SPEEDS)}")
    return SPEEDS[gpu]


def preset(gpu: str | Gpu = DEFAULT) -> Gpu:
    """The GPU of that name or generation; a `Gpu` is returned as it is.

    >>> preset("hopper").cublas_workspace
    33554432
    """
    if isinstance(gpu, Gpu):
        return gpu
    name = GENERATIONS.get(str(gpu).lower(), str(gpu).lower())
    if name not in PRESETS:
        known = ", ".join([*PRESETS, *GENERATIONS])
        raise CkptError(f"no preset for the GPU {gpu!r}: expected a Gpu or one of {known}")
    return PRESETS[name]


def at_release(gpu: Gpu, release: str | tuple[int, int]) -> Gpu:
    """The same GPU under another torch, with that release's default workspaces.

    2.9 keeps cuBLASLt's workspace (pytorch#156495); 2.12 lets cuBLASLt use cuBLAS's (#173002, #175879) and gives
    Blackwell 32 MiB (#175344).

    >>> at_release(preset("a100"), "2.12").cublaslt_workspace
    0
    """
    try:
        version = tuple(int(part) for part in (release.split(".") if isinstance(release, str) else release)[:2])
        major, minor = version
    except ValueError:
        raise CkptError(f"no torch release {release!r}: expected something like '2.9'") from None
    roomy = gpu.capability[0] == 9 or (gpu.capability[0] in (10, 12) and version >= (2, 12))
    return replace(
        gpu,
        cublas_workspace=CUBLAS_HOPPER if roomy else CUBLAS_DEFAULT,
        cublaslt_workspace=0 if version >= (2, 12) else 1 * MiB,
        cublaslt_kept=(2, 9) <= version < (2, 12),
        torch_release=(major, minor),
    )


def capacity(gpu: str | int) -> tuple[int, Gpu]:
    """The bytes of a GPU, and the GPU to simulate. `gpu` is a card's name, or a size, which is simulated as an A100.

    >>> capacity("80GB")[0], capacity("80GiB")[0], capacity("h100")[1].name
    (80000000000, 85899345920, 'h100')
    """
    release = ".".join(torch.__version__.split(".")[:2])
    text = str(gpu).strip().lower()
    if text in MEMORY:
        return MEMORY[text], at_release(preset(text.removesuffix("-40gb")), release)
    try:
        nbytes = parse_bytes(text)
    except CkptError:
        nbytes = -1
    if nbytes < 0:
        raise CkptError(f"gpu is {gpu!r}, expected a size such as 80GiB or 80GB, or one of {', '.join(MEMORY)}")
    if nbytes < MiB:
        number = text.rstrip("bikmgt ")
        raise CkptError(
            f"gpu is {gpu!r}, {nbytes} bytes: no GPU is that small. Is the unit missing, as in {number}GiB?"
        )
    return nbytes, at_release(preset(), release)
