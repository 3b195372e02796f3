"""What does the warm process see of the machine? The system and Python, read-only, and of the course nothing."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from . import namespaces as ns

STUDENT = 1000  # user and group number inside
HOME = "/home/student"
NOBODY = 65534  # who root becomes in there: files that only root may write stay unwritable whatever goes wrong
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
_ETC = ("alternatives", "fonts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types")
_PREFIX = ("bin", "lib", "lib64", "share", "etc", "pyvenv.cfg")
_ETC_MADE = {
    "passwd": f"student:x:{STUDENT}:{STUDENT}::{HOME}:/bin/sh\n",
    "group": f"student:x:{STUDENT}:\n",
    "hosts": "127.0.0.1 localhost sandbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
ENVIRONMENT = {
    "HOME": HOME,
    "USER": "student",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUNBUFFERED": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "MPLCONFIGDIR": f"{HOME}/.config/matplotlib",
    "IPYTHONDIR": f"{HOME}/.ipython",
    "JUPYTER_PLATFORM_DIRS": "1",
    "TERM": "xterm-color",
}


def python_paths() -> list[Path]:
    """The interpreter, its packages, and this package's folder; not that folder's parent, which may hold the solutions.

    Of a prefix only its known parts: somebody may have made a virtual environment out of the folder of a course.
    """
    prefixes = {Path(p) for p in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)}
    found = {prefix / part for prefix in prefixes | {p.resolve() for p in prefixes} for part in _PREFIX}
    found |= {Path(p) for p in sys.path if Path(p).name in ("site-packages", "dist-packages")}
    found.add(Path(__file__).resolve().parents[2])
    found = {path for path in found if path.exists() and not path.is_relative_to("/usr")}
    return sorted(path for path in found if not any(path != other and path.is_relative_to(other) for other in found))


def privileged() -> bool:
    """May this process make namespaces and change its user? Root may; root in most containers may not."""
    needed = 1 << ns.CAP_SYS_ADMIN | 1 << ns.CAP_SETUID | 1 << ns.CAP_SETGID
    return os.geteuid() == 0 and ns.effective_capabilities() & needed == needed


def _root_folders() -> list[str]:
    """Bind what is a folder, repeat what is a link (/bin -> usr/bin)."""
    arguments = []
    for path in map(Path, _SYSTEM):
        if path.is_symlink():
            arguments += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    return arguments


def _etc_files(pipes: list[int]) -> list[str]:
    """A few of the machine's files, and a few of our own, which bubblewrap reads from pipes."""
    arguments = ["--dir", "/etc"]
    for name in _ETC:
        arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for name, text in _ETC_MADE.items():
        read, write = os.pipe()
        os.write(write, text.encode())
        os.close(write)
        pipes.append(read)
        arguments += ["--perms", "0444", "--ro-bind-data", str(read), f"/etc/{name}"]
    return arguments


def _fonts() -> list[str]:
    """matplotlib's list of fonts, if this user has one: to make it takes as long as to import all of matplotlib."""
    caches = [os.environ.get("MPLCONFIGDIR"), os.environ.get("XDG_CACHE_HOME"), Path.home() / ".cache"]
    folders = [Path(cache) / name for cache in caches if cache for name in ("", "matplotlib")]
    found = {path.name: path for folder in folders for path in folder.glob("fontlist-v*.json")}
    inside = ENVIRONMENT["MPLCONFIGDIR"]
    arguments = ["--perms", "1777", "--dir", inside] if found else []
    for name, path in found.items():
        arguments += ["--ro-bind", str(path), f"{inside}/{name}"]
    return arguments


def command(python_arguments: list[str], pipes: list[int]) -> list[str]:
    """The bubblewrap command line. Descriptors that it will read are added to `pipes`: pass them on, then close them.

    The program is pid 1 in there: when it ends, for whatever reason, Linux ends all that came from it.
    """
    arguments = [shutil.which("bwrap") or "bwrap", "--die-with-parent", "--new-session", "--as-pid-1", "--unshare-pid"]
    arguments += ["--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"]
    if privileged():
        # bubblewrap's own /proc, made by root, has parts covered; then Linux lets no child have a /proc of its own.
        arguments += ["--dir", "/proc"]
    else:
        arguments += ["--unshare-user", "--proc", "/proc"]
    arguments += _root_folders() + _etc_files(pipes)
    for place in ("/tmp", HOME):  # for what is imported before the first fork; each child has its own instead
        arguments += ["--perms", "1777", "--size", str(16 * 2**20), "--tmpfs", place]
    for path in python_paths():  # after those: the checkout may lie in /tmp
        for parent in reversed(path.parents[:-1]):
            arguments += ["--dir", str(parent)]  # else bubblewrap makes it for its own user only
        arguments += ["--ro-bind", str(path), str(path)]
    arguments += _fonts()
    arguments += ["--dev", "/dev", "--remount-ro", "/dev", "--chdir", "/", "--remount-ro", "/", "--clearenv"]
    for name, value in ENVIRONMENT.items():
        arguments += ["--setenv", name, value]
    become = ["--become", str(NOBODY)] if privileged() else []
    return [*arguments, "--", sys.executable, "-I", *python_arguments, *become]
