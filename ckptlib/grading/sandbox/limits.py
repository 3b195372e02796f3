"""How much of the machine may one submission use?"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """Limits of one submission. Bytes and seconds.

    `memory` counts from the warm process up: its imports are not the student's. It bounds each process by RLIMIT_DATA
    (the student gets a MemoryError) and all processes together by the watchdog (the kernel is killed).
    """

    memory: int = 2048 * MIB
    cpu_seconds: int = 120
    cell_seconds: float = 20.0
    wall_seconds: float = 120.0
    processes: int = 64  # threads count: the kernel itself has about ten
    file_bytes: int = 64 * MIB
    disk_bytes: int = 256 * MIB  # of memory, in fact: all folders of a submission are in a tmpfs
    cell_output_bytes: int = 1 * MIB
    output_bytes: int = 4 * MIB


def apply(limits: Limits, baseline: int | None, own_user: bool = True) -> None:
    """Bind the calling process and everything that it will start. Cannot be undone. baseline: see `data_nbytes`.

    RLIMIT_DATA, not RLIMIT_AS: torch maps gigabytes of address space that it never touches. RLIMIT_NPROC counts every
    thread of the user on this machine: outside a sandbox, where the user is not `own_user`, nothing could be started.
    """
    import resource

    hard = {
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: 512,
        resource.RLIMIT_CORE: 0,
    }
    if own_user:
        hard[resource.RLIMIT_NPROC] = limits.processes
    if baseline is not None:
        hard[resource.RLIMIT_DATA] = baseline + limits.memory
    for name, value in hard.items():
        ceiling = resource.getrlimit(name)[1]
        value = value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)
        resource.setrlimit(name, (value, value))


def data_nbytes() -> int | None:
    """What the calling process already has of the memory that RLIMIT_DATA counts; None where it cannot be known."""
    try:
        with open("/proc/self/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmData:"))
    except OSError:
        return None
