"""How is one kernel kept apart from the machine? It has its own processes, disk and network, and few rights."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import traceback

from . import linux_calls as linux
from . import seccomp
from .file_system import STUDENT, private_disk
from .limits import Limits, apply

# Smallest, first and largest, in bytes. Linux would let each connection grow to 10 MiB, charged to nobody.
_SOCKET_BUFFERS = {"tcp_rmem": "4096 65536 131072", "tcp_wmem": "4096 16384 131072"}
_MOST_TERMINALS = 32
# What Linux counts per user, and all kernels may be one user: each gets a share that no other has to do without.
_SHARES = {"max_user_namespaces": 0, "max_inotify_instances": 8, "max_inotify_watches": 1024}
_PROC_READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus")


def leave() -> None:
    """Take the calling process out of its parent's world; its next child is pid 1 of the new one."""
    uid, gid = os.getuid(), os.getgid()
    linux.prctl(linux.PR_SET_DUMPABLE, 1)  # or the kernel does not let us write our own uid_map
    linux.unshare(linux.OWN_WORLD)
    linux.map_user(uid, gid, STUDENT, STUDENT)


def settle(limits: Limits) -> None:
    """Called by pid 1 of the new namespaces: own mounts and network, no further user namespaces."""
    os.setsid()
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="utf-8") as file:
        file.write("1000")  # when the machine runs out of memory, this process is ended first
    private_proc()
    private_terminals()
    private_disk(limits.disk_bytes)
    linux.bring_up_loopback()  # ipykernel and multiprocessing connect to themselves over it, and to nothing else
    socket.sethostname("sandbox")


def private_proc() -> None:
    """A /proc of the new pid namespace; where the machine forbids that, none, for the old one shows other processes."""
    for name, number in _SHARES.items():
        with contextlib.suppress(OSError), open(f"/proc/sys/user/{name}", "w", encoding="utf-8") as file:
            file.write(str(number))
    try:
        linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    except OSError:
        linux.mount("none", "/proc", "tmpfs", linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV, "size=4k")
        return
    for name, sizes in _SOCKET_BUFFERS.items():
        with contextlib.suppress(OSError), open(f"/proc/sys/net/ipv4/{name}", "w", encoding="utf-8") as file:
            file.write(sizes)
    for name in _PROC_READ_ONLY:
        if os.path.exists(f"/proc/{name}"):
            linux.read_only(f"/proc/{name}")


def private_terminals() -> None:
    """A /dev/pts of its own: in a shared one, a kernel opens the terminal on which a neighbour's `!ls` prints."""
    options = f"newinstance,ptmxmode=0666,mode=620,max={_MOST_TERMINALS}"  # the machine has no more than 4,096
    linux.mount("devpts", "/dev/pts", "devpts", linux.MS_NOSUID | linux.MS_NOEXEC, options)


def lock(limits: Limits, baseline: int | None) -> None:
    """The last step before the student's code: limits, no capabilities, no way to get any, fewer system calls."""
    apply(limits, baseline)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    linux.drop_capabilities()
    linux.prctl(linux.PR_SET_PDEATHSIG, 9)  # after the capabilities: giving them up resets it
    seccomp.deny()


def close_fds(keep: set[int]) -> None:
    """Close every descriptor from 3 up but those in `keep`; 0, 1 and 2 become /dev/null."""
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    low = 3
    for fd in sorted(f for f in keep if f > 2):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def trial() -> None:
    """Can this machine isolate kernels? Some allow namespaces to bubblewrap, but not to processes in it."""
    trouble, report = os.pipe()
    if os.fork() == 0:
        try:
            leave()
            if os.fork() == 0:
                settle(Limits())
                lock(Limits(), None)
            else:
                os.wait()
        except BaseException:
            os.write(report, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(report)
    with open(trouble, encoding="utf-8") as file:
        failed = file.read()
    os.wait()
    if failed:
        sys.exit(f"kernels cannot have namespaces of their own on this machine:\n{failed}")
