"""How is a submission kept from taking the processors from others? Linux treats all that it starts as one group.

Without a group, Linux divides time among processes, or among sessions: fifty children, each with setsid(), get fifty
shares. Where no group can be made, a kernel gives way to the grader, and its time is counted without its waiting.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "ckptlib-"
_NICE = 5


def own_group(pid: int) -> Path | None:
    """Put a process, and all that it will start, into a new group; None where that is not allowed."""
    for parent, shares in _places():
        _remove_left_over(parent)
        group = parent / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        try:
            group.mkdir()
        except OSError:
            continue
        with contextlib.suppress(OSError):
            if (group / shares).exists():  # or the group exists, but does not divide time
                (group / "cgroup.procs").write_text(str(pid), encoding="ascii")
                return group
        remove(group)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, _NICE)
    return None


def remove(group: Path) -> None:
    """A group whose processes have ended."""
    with contextlib.suppress(OSError):
        group.rmdir()


def waiting_seconds(pid: int, any_thread: bool = False) -> float:
    """How long has the first thread of this process been ready to run while others had the processors?

    any_thread: the one that has waited longest, instead of the first.
    """
    longest = 0.0
    with contextlib.suppress(OSError, ValueError, IndexError):
        for thread in os.listdir(f"/proc/{pid}/task") if any_thread else [pid]:
            with open(f"/proc/{pid}/task/{thread}/schedstat", "rb") as file:
                longest = max(longest, int(file.read().split()[1]) / 1e9)
    return longest


def _places() -> Iterator[tuple[Path, str]]:
    """Folders for new groups, each with a file that a group has if it divides time: cgroups of version 1, then 2."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            yield _ROOT / controllers / path.lstrip("/"), "cpu.shares"
        elif not controllers:
            own = _ROOT / path.lstrip("/")
            yield from ((place, "cpu.weight") for place in (own, own.parent) if place.is_relative_to(_ROOT))


def _remove_left_over(parent: Path) -> None:
    """Groups of graders that were killed."""
    for group in parent.glob(f"{_PREFIX}*"):
        if not Path("/proc", group.name.removeprefix(_PREFIX).split("-")[0]).exists():
            remove(group)
