"""How much does a kernel use, seen from outside, where it cannot lie? All its processes, many times a second."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from dataclasses import dataclass, field

from .cpu_share import waiting_seconds
from .kernel_process import KernelProcess
from .limits import Limits
from .without_isolation import UnconfinedProcess

PERIOD = 0.025
_BETWEEN_LOOKS = PERIOD if sys.platform.startswith("linux") else 4 * PERIOD  # psutil asks for all processes there are
_MOST_LOOKED_AT = 4  # processes whose waiting is read: more than these is nobody's honest answer
_MOST_SOCKETS = 1000  # each may hold a few hundred KiB that no process is charged for


@dataclass(frozen=True)
class Usage:
    """One look at a tree of processes."""

    rss: int  # bytes of the first process
    others: tuple[int, ...]  # bytes of each other one; what it shares with its parent counts again
    peak: int  # the highest rss of the first process, as the system recorded it
    processes: int
    cpu: float
    sockets: int = 0  # of the whole network namespace
    cpu_of: dict[tuple[int, int], float] = field(default_factory=dict)  # (pid, start) -> seconds of its own
    waiting: dict[int, float] = field(default_factory=dict)  # pid -> seconds that it was ready and others ran


class Watchdog:
    """Looks at a kernel's processes; kills the kernel when they use too much and says why in `reason`."""

    def __init__(self, process: KernelProcess | UnconfinedProcess, limits: Limits) -> None:
        self._process, self._limits = process, limits
        self._next = self._next_close_look = 0.0
        first = look(process.pid)
        self.baseline = first.rss  # shared with the warm process, so it does not count
        self.peak = self.window_peak = first.rss
        self.cpu, self.processes = 0.0, 1
        self.waited = 0.0  # seconds in which something of it was ready to run and others had the processors
        self._waiting = first.waiting
        self._alive: dict[tuple[int, int], float] = {}
        self._cpu_of_ended = 0.0  # Linux forgets it where a parent ignores SIGCHLD
        self.reason: str | None = None
        self.sentence = ""

    def check(self, now: float | None = None) -> str | None:
        """Look, unless that was done a moment ago. The reason for the kernel's death, if a look has caused it."""
        now = time.monotonic() if now is None else now
        if now >= self._next and self.reason is None:
            self._next = now + _BETWEEN_LOOKS
            self._record(look(self._process.pid))
        return self.reason

    def open_window(self) -> int:
        """Start to measure a peak of its own, for one question; bytes in use now."""
        with contextlib.suppress(OSError), open(f"/proc/{self._process.pid}/clear_refs", "w", encoding="utf-8") as file:
            file.write("5")  # resets the highest rss in Linux
        usage = look(self._process.pid)
        self.window_peak = usage.rss
        return usage.rss

    def close_window(self) -> int:
        """The highest rss since `open_window`, in bytes."""
        self._record(look(self._process.pid))
        return self.window_peak

    def _record(self, usage: Usage) -> None:
        # A process that has just been forked seems as large as its parent, and has nothing of its own yet.
        highest = max(usage.rss, usage.peak) + sum(max(0, rss - usage.rss) for rss in usage.others)
        self.peak, self.window_peak = max(self.peak, highest), max(self.window_peak, highest)
        self._cpu_of_ended += sum(cpu for process, cpu in self._alive.items() if process not in usage.cpu_of)
        self._alive = usage.cpu_of
        self.cpu = max(self.cpu, usage.cpu, self._cpu_of_ended + sum(self._alive.values()))
        self.processes = max(self.processes, usage.processes)
        longer = (seconds - self._waiting.get(pid, 0.0) for pid, seconds in usage.waiting.items())
        self.waited += max(0.0, *longer, 0.0)  # those that wait at the same time do not add up
        self._waiting = usage.waiting
        limits = self._limits
        at_most = usage.rss - self.baseline + sum(usage.others)
        if at_most > limits.memory and (not usage.others or self._really_holds(at_most) > limits.memory):
            self._kill("memory", f"more than {limits.memory >> 20} MiB of memory")
        elif usage.processes > limits.processes:
            self._kill("processes", f"more than {limits.processes} processes")
        elif self.cpu > limits.cpu_seconds:
            self._kill("cpu", f"more than {limits.cpu_seconds} s of processor time")
        elif usage.sockets > _MOST_SOCKETS and self._process.sandboxed:  # else it shares the machine's network
            self._kill("sockets", f"more than {_MOST_SOCKETS} sockets")

    def _really_holds(self, at_most: int) -> int:
        """Forked processes share most of their memory. To look closely takes time: no more than a tenth of ours."""
        started = time.monotonic()
        if started < self._next_close_look:
            return 0
        nbytes = shared_once(self._process.pid, at_most)
        self._next_close_look = started + 10 * (time.monotonic() - started)
        return nbytes

    def _kill(self, reason: str, sentence: str) -> None:
        self.reason, self.sentence = reason, sentence
        self._process.kill()


def tree(pid: int) -> list[int]:
    """A process and all its descendants, including orphans, which the first process of a pid namespace adopts."""
    found, todo = [], [pid]
    while todo:
        pid = todo.pop()
        found.append(pid)
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", encoding="utf-8") as file:
                    todo += map(int, file.read().split())
    return found


def look(pid: int) -> Usage:
    """What a process and its descendants use now; zeros when they are gone."""
    if not sys.platform.startswith("linux"):
        return _look_anywhere(pid)
    cpu = peak = 0
    sizes = []
    cpu_of = {}
    members = tree(pid)
    for member in members:
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{member}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            cpu += sum(map(int, fields[11:15]))  # of the process and its ended children, user and system
            cpu_of[member, int(fields[19])] = sum(map(int, fields[11:13])) / _TICKS
            sizes.append(int(fields[21]) * _PAGE)
    with contextlib.suppress(OSError, StopIteration), open(f"/proc/{pid}/status", encoding="utf-8") as file:
        peak = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))
    first, *others = sizes or [0]
    # Of others any thread, because an answer that is asked in a copy of the kernel is not asked in the first one.
    waiting = {member: waiting_seconds(member, any_thread=member != pid) for member in members[:_MOST_LOOKED_AT]}
    return Usage(first, tuple(others), peak, len(members), cpu / _TICKS, _sockets(pid), cpu_of, waiting)


def _sockets(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/net/sockstat", "rb") as file:
        return int(file.readline().split()[2])  # sockets: used 21
    return 0


_PAGE, _TICKS = (os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")) if hasattr(os, "sysconf") else (4096, 100)


def shared_once(pid: int, at_most: int) -> int:
    """Bytes that the tree holds, shared pages divided among those who share them. Exact, and slow."""
    total = 0
    try:
        for member in tree(pid):
            with open(f"/proc/{member}/smaps_rollup", encoding="utf-8") as file:
                total += next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return at_most  # it cannot be known: the worst is assumed
    return total


def _look_anywhere(pid: int) -> Usage:
    import psutil

    sizes: list[int] = []
    cpu = 0.0
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        for member in (root, *root.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                sizes.append(member.memory_info().rss)
                cpu += sum(member.cpu_times()[:2])
    first, *others = sizes or [0]
    return Usage(first, tuple(others), first, len(sizes), cpu)
