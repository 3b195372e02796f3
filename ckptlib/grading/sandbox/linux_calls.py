"""Which Linux calls isolate a process? Those that Python 3.11 does not wrap, through ctypes."""

from __future__ import annotations

import ctypes
import os
import struct
from functools import cache

CLONE_NEWNS, CLONE_NEWUTS = 0x00020000, 0x04000000
CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x08000000, 0x10000000, 0x20000000, 0x40000000
OWN_WORLD = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 4, 8, 32, 4096
MS_REC, MS_PRIVATE = 16384, 1 << 18

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP, PR_CAP_AMBIENT = 1, 4, 38, 24, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522

CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN = 6, 7, 21


@cache
def _libc() -> ctypes.CDLL:
    """Loaded when it is first called: this module is imported on every system."""
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, call: str) -> int:
    if result < 0:
        errno = ctypes.get_errno()
        raise OSError(errno, f"{call}: {os.strerror(errno)}")
    return result


def prctl(option: int, *arguments: int) -> int:
    """prctl(2); arguments that are left out are 0, as several options demand."""
    padded = [ctypes.c_ulong(a) for a in (*arguments, 0, 0, 0, 0)[:4]]
    return _checked(_libc().prctl(option, *padded), f"prctl({option})")


def unshare(flags: int) -> None:
    """unshare(2): leave the namespaces that `flags` name, for new ones."""
    _checked(_libc().unshare(flags), "unshare")


def mount(source: str, target: str, kind: str | None = None, flags: int = 0, options: str | None = None) -> None:
    text = [None if s is None else s.encode() for s in (source, target, kind, options)]
    call = f"mount {source} on {target}"
    _checked(_libc().mount(text[0], text[1], text[2], ctypes.c_ulong(flags), text[3]), call)


def read_only(path: str) -> None:
    """Make what is seen at `path` unchangeable."""
    mount(path, path, flags=MS_BIND | MS_REC)
    mount("none", path, flags=MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)


def map_user(outside_uid: int, outside_gid: int, uid: int, gid: int) -> None:
    """Say who the caller is in the user namespace that it has just made. setgroups first: Linux insists."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {outside_uid} 1"),
        ("gid_map", f"{gid} {outside_gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="utf-8") as file:
            file.write(text)


def bring_up_loopback() -> None:
    """Turn on 127.0.0.1 in a network namespace that has nothing else."""
    import fcntl
    import socket

    SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = struct.pack("16sh22x", b"lo", 0)
        flags = struct.unpack("16sh22x", fcntl.ioctl(s, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | IFF_UP))


def effective_capabilities() -> int:
    """The bit set of what the caller may do beyond its user's rights."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1], 16) for line in file if line.startswith("CapEff:"))


def drop_capabilities() -> None:
    """Give up every capability for good: bounding, ambient, effective, permitted and inheritable set."""
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            break  # beyond the last one that this kernel knows
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _checked(_libc().capset(header, bytes(24)), "capset")
