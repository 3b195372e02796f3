"""Which system calls does no honest notebook need? They fail with EPERM, a second barrier behind the namespaces."""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

from .linux_calls import prctl

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_DENY, _UNKNOWN = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
_LOAD, _EQUAL, _AT_LEAST, _ANY_OF, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ARCH, _NUMBER, _FIRST_ARGUMENT = 4, 0, 16  # offsets in what the filter is shown (little-endian machines only)

# Memory that no limit counts (memfd, System V), others' memory, new namespaces, and rarely used parts of Linux.
_DENIED = {
    "x86_64": {
        "memfd_create": 319, "memfd_secret": 447, "shmget": 29, "msgget": 68, "semget": 64, "mq_open": 240,
        "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "pidfd_getfd": 438,
        "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "open_tree": 428,
        "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
        "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426,
        "io_uring_register": 427, "add_key": 248, "request_key": 249, "keyctl": 250, "kexec_load": 246,
        "kexec_file_load": 320, "init_module": 175, "finit_module": 313, "delete_module": 176, "vmsplice": 278,
        "personality": 135, "fanotify_init": 300, "open_by_handle_at": 304, "landlock_create_ruleset": 444,
    },
    "aarch64": {
        "memfd_create": 279, "memfd_secret": 447, "shmget": 194, "msgget": 186, "semget": 190, "mq_open": 180,
        "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "pidfd_getfd": 438,
        "unshare": 97, "setns": 268, "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "open_tree": 428,
        "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
        "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "io_uring_setup": 425, "io_uring_enter": 426,
        "io_uring_register": 427, "add_key": 217, "request_key": 218, "keyctl": 219, "kexec_load": 104,
        "kexec_file_load": 294, "init_module": 105, "finit_module": 273, "delete_module": 106, "vmsplice": 75,
        "personality": 92, "fanotify_init": 262, "open_by_handle_at": 265, "landlock_create_ruleset": 444,
    },
}  # fmt: skip
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CHECKED = {  # calls that are fine with other arguments
    "x86_64": {"socket": 41, "clone": 56, "clone3": 435},
    "aarch64": {"socket": 198, "clone": 220, "clone3": 435},
}
_FAMILIES = (1, 2, 10, 16)  # unix, IPv4, IPv6 and netlink live in the network namespace; others, as vsock, do not
_NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW… flag
_X32 = 0x40000000  # x86_64 has a second numbering from here on, which would evade the list


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def program(machine: str) -> bytes:
    """The filter for one machine type: a list of comparisons with the number of the call."""
    checked = _CHECKED[machine]
    lines = [
        _instruction(_LOAD, _ARCH),  # the architecture that the call was made with
        _instruction(_EQUAL, _ARCHITECTURE[machine], if_true=1),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER),
        _instruction(_AT_LEAST, _X32, if_false=1),
        _instruction(_RETURN, _DENY),
        _instruction(_EQUAL, checked["clone3"], if_false=1),
        _instruction(_RETURN, _UNKNOWN),  # its flags cannot be seen from here; the C library then uses clone
    ]
    for number in _DENIED[machine].values():
        lines += [_instruction(_EQUAL, number, if_false=1), _instruction(_RETURN, _DENY)]
    lines += [
        _instruction(_EQUAL, checked["clone"], if_false=4),
        _instruction(_LOAD, _FIRST_ARGUMENT),
        _instruction(_ANY_OF, _NEW_NAMESPACES, if_false=1),
        _instruction(_RETURN, _DENY),
        _instruction(_RETURN, _ALLOW),
        _instruction(_EQUAL, checked["socket"], if_true=1),
        _instruction(_RETURN, _ALLOW),
        _instruction(_LOAD, _FIRST_ARGUMENT),
    ]
    for family in _FAMILIES:
        lines += [_instruction(_EQUAL, family, if_false=1), _instruction(_RETURN, _ALLOW)]
    return b"".join([*lines, _instruction(_RETURN, _DENY)])


def deny() -> None:
    """Install the filter for the caller and all processes that it starts. Other machine types have no filter."""
    machine = platform.machine()
    if machine not in _DENIED:
        return
    code = ctypes.create_string_buffer(program(machine))
    size = (len(code) - 1) // 8
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", size, ctypes.addressof(code)))
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(header))
