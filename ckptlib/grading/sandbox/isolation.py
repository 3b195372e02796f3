"""What does one kernel have of the machine? Processes and a small disk of its own, a read-only system, nothing else."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import traceback
from collections.abc import Mapping
from pathlib import PurePosixPath

from . import namespaces as ns
from . import seccomp
from .limits import Limits, apply
from .visible_system import HOME, STUDENT, python_paths

WORK = f"{HOME}/work"
# A folder of the one tmpfs -> where it is seen. All share the limit on disk_bytes.
_DISK = "/dev/shm"  # where it is mounted at first
_FOLDERS = {"tmp": "/tmp", "home": HOME, "shm": _DISK}
# Smallest, first and largest, in bytes. Linux would let each connection grow to 10 MiB, charged to nobody.
_SOCKET_BUFFERS = {"tcp_rmem": "4096 65536 131072", "tcp_wmem": "4096 16384 131072"}
_PROC_READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus")


class BadFileName(ValueError):
    """A submission's file would not land in the working folder."""


def leave() -> None:
    """Take the calling process out of its parent's world; its next child is pid 1 of the new one."""
    uid, gid = os.getuid(), os.getgid()
    ns.prctl(ns.PR_SET_DUMPABLE, 1)  # or the kernel does not let us write our own uid_map
    ns.unshare(ns.OWN_WORLD)
    ns.map_user(uid, gid, STUDENT, STUDENT)


def settle(limits: Limits) -> None:
    """Called by pid 1 of the new namespaces: own mounts and network, no further user namespaces."""
    os.setsid()
    ns.mount("none", "/", flags=ns.MS_REC | ns.MS_PRIVATE)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="utf-8") as file:
        file.write("1000")  # when the machine runs out of memory, this goes first
    private_proc()
    private_disk(limits.disk_bytes)
    ns.bring_up_loopback()  # ipykernel and multiprocessing talk to themselves over it; it leads nowhere
    socket.sethostname("sandbox")


def private_proc() -> None:
    """A /proc of the new pid namespace; where the machine forbids that, none, for the old one shows other processes."""
    with contextlib.suppress(OSError), open("/proc/sys/user/max_user_namespaces", "w", encoding="utf-8") as file:
        file.write("0")
    try:
        ns.mount("proc", "/proc", "proc", ns.MS_NOSUID | ns.MS_NODEV | ns.MS_NOEXEC)
    except OSError:
        ns.mount("none", "/proc", "tmpfs", ns.MS_RDONLY | ns.MS_NOSUID | ns.MS_NODEV, "size=4k")
        return
    for name, sizes in _SOCKET_BUFFERS.items():
        with contextlib.suppress(OSError), open(f"/proc/sys/net/ipv4/{name}", "w", encoding="utf-8") as file:
            file.write(sizes)
    for name in _PROC_READ_ONLY:
        if os.path.exists(f"/proc/{name}"):
            ns.read_only(f"/proc/{name}")


def private_disk(nbytes: int) -> None:
    """One tmpfs of `nbytes` for /tmp, /dev/shm, home and the working folder."""
    flags = ns.MS_NOSUID | ns.MS_NODEV
    ns.mount("none", _DISK, "tmpfs", flags, f"size={nbytes},nr_inodes=16384,mode=755")
    for name in _FOLDERS:
        os.mkdir(f"{_DISK}/{name}", 0o700)
    os.mkdir(f"{_DISK}/home/{os.path.relpath(WORK, HOME)}")
    for name, seen_at in _FOLDERS.items():
        _keep_python(seen_at, f"{_DISK}/{name}")
        if seen_at != _DISK:
            ns.mount(f"{_DISK}/{name}", seen_at, flags=ns.MS_BIND | ns.MS_REC)
    ns.mount(f"{_DISK}/shm", _DISK, flags=ns.MS_BIND)  # last: it covers the way to the others
    os.chdir(WORK)


def _keep_python(covered: str, folder: str) -> None:
    """If the interpreter lies in a folder that is about to be covered, as in a checkout in /tmp, show it there."""
    for path in python_paths():
        if path.is_relative_to(covered):
            target = os.path.join(folder, path.relative_to(covered))
            if path.is_dir():
                os.makedirs(target, exist_ok=True)
            else:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                open(target, "w", encoding="utf-8").close()
            ns.mount(str(path), target, flags=ns.MS_BIND | ns.MS_REC)


def inside(name: str) -> bool:
    """Is this the name of a file in the working folder, or in a folder in it?"""
    path = PurePosixPath(name)
    plain = not path.is_absolute() and ".." not in path.parts and path.parts != ()
    return plain and "\0" not in name and all(len(os.fsencode(part)) < 256 for part in path.parts)


def write_files(files: Mapping[str, bytes], folder: str = WORK) -> None:
    """Put the submission's files into the working folder. Names are relative paths without `..`."""
    for name, data in files.items():
        if not inside(name):
            raise BadFileName(f"{name!r} leads out of the working folder: expected something like 'data/points.csv'")
        target = os.path.join(folder, *PurePosixPath(name).parts)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(data)


def lock(limits: Limits, baseline: int | None) -> None:
    """The last step before a stranger's code: limits, no capabilities, no way to get any, fewer system calls."""
    apply(limits, baseline)
    ns.prctl(ns.PR_SET_NO_NEW_PRIVS, 1)
    ns.drop_capabilities()
    ns.prctl(ns.PR_SET_PDEATHSIG, 9)  # after the capabilities: giving them up resets it
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
    """Can this machine do it? Some let bubblewrap make namespaces, and nobody in it: better to know before grading."""
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
