"""Which files does a kernel see? Programs, libraries, fonts and Python, read-only, and a small private disk.

Everything visible is on a list here. What is not listed does not exist inside: no course, no nbgrader exchange under
/usr/local/share, no configuration of Jupyter, and nothing else that happens to lie beside an interpreter.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

from . import linux_calls as linux

STUDENT = 1000  # user and group number inside
HOME = "/home/student"
WORK = f"{HOME}/work"
# A folder of the one tmpfs -> where it is seen. All share the limit on disk_bytes.
_DISK = "/dev/shm"  # where it is mounted at first
_NO_RIGHTS = linux.MS_NOSUID | linux.MS_NODEV
_FOLDERS = {"tmp": "/tmp", "home": HOME, "shm": _DISK}
NOBODY = 65534  # who root becomes in there: files that only root may write stay unwritable whatever goes wrong
# Under /usr, or under / where the two are not one. Of /usr/local, only a Python is shown: the rest is its owner's.
_SYSTEM = (
    *("bin", "sbin", "lib32", "lib64", "libx32", f"lib/{sysconfig.get_config_var('MULTIARCH') or 'none'}"),
    *("lib/gcc", "libexec/gcc", "include", "lib/locale", "lib/terminfo"),  # a compiler, for torch.compile
    *(f"share/{name}" for name in ("fonts", "fontconfig", "zoneinfo", "terminfo", "locale", "mime", "perl", "perl5")),
)
_STORES = ("/nix/store", "/gnu/store")  # where programs and libraries lie in folders of their own, each with a hash
_ETC = ("alternatives", "fonts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types")
_INTERPRETER = re.compile(r"python[\d.]*t?")
_SHARED_LIBRARY = re.compile(r".+\.so[\d.]*")
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


class BadFileName(ValueError):
    """A submission's file would not land in the working folder."""


# ---- what the warm process and all kernels see ---------------------------------------------------------------------
@cache
def python_paths() -> list[Path]:
    """The interpreter, its modules, and this package's folder; not that folder's parent, which may hold the solutions.

    Of a prefix only these parts: somebody may have made a virtual environment out of the folder of a course, and
    `share` and `etc` of a prefix are where nbgrader and Jupyter look for exchanges and passwords.
    """
    found = {Path(path) for name, path in sysconfig.get_paths().items() if name.endswith("lib") or name == "stdlib"}
    found |= {Path(path) for path in sys.path if Path(path).name in ("site-packages", "dist-packages")}
    for prefix in _prefixes():
        found.add(prefix / "pyvenv.cfg")
        found |= {path for path in (prefix / "bin").glob("python*") if _INTERPRETER.fullmatch(path.name)}
    found |= set(_base_libraries())
    found.add(Path(__file__).resolve().parents[2])
    shown = [Path(path) for path in system_paths()]
    found = {path for path in found if path.exists() and not any(path.is_relative_to(system) for system in shown)}
    return sorted(path for path in found if not any(path != other and path.is_relative_to(other) for other in found))


def _prefixes() -> set[Path]:
    prefixes = {Path(p) for p in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)}
    return prefixes | {prefix.resolve() for prefix in prefixes}


def _base_libraries() -> Iterator[Path]:
    """libpython and, in an environment of conda, all that its packages load. /usr has its own list."""
    for folder in {Path(sys.base_prefix) / "lib", (Path(sys.base_prefix) / "lib").resolve()}:
        if folder.is_dir() and folder != Path("/usr/lib"):
            yield from (path for path in folder.iterdir() if _SHARED_LIBRARY.fullmatch(path.name))


def system_paths() -> list[str]:
    """Parts of the machine that are shown as they are, and links to such parts, as /lib64 is one to /usr/lib64."""
    shown = [os.path.join(root, part) for root in ("/usr", "/") for part in _SYSTEM]
    for folder in map(Path, ("/usr/lib", "/lib")):
        shown += map(str, folder.glob("ld-linux*.so*"))
        if any(folder.glob("libc.so*")):  # Arch: the libraries lie there, and not in a folder below it
            shown.append(str(folder))
    return [path for path in (*shown, *_STORES) if os.path.exists(path)]


def privileged() -> bool:
    """May this process make namespaces and change its user? Root may; root in most containers may not."""
    needed = 1 << linux.CAP_SYS_ADMIN | 1 << linux.CAP_SETUID | 1 << linux.CAP_SETGID
    return os.geteuid() == 0 and linux.effective_capabilities() & needed == needed


def _root_folders() -> list[str]:
    """Bind folders, and make links again (/bin -> usr/bin)."""
    arguments: list[str] = []
    for path in map(Path, ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")):
        if path.is_symlink():
            arguments += ["--symlink", os.readlink(path), str(path)]
    done: set[str] = set()
    for name in system_paths():
        path = Path(name)
        if any(parent.is_symlink() for parent in (path, *path.parents)):
            if path.is_symlink() and path.parent == Path("/usr"):  # /usr/sbin -> bin
                arguments += ["--symlink", os.readlink(path), name]
            continue
        for parent in reversed(path.parents[:-1]):
            if str(parent) not in done:
                arguments += ["--perms", "0755", "--dir", str(parent)]
                done.add(str(parent))
        arguments += ["--ro-bind", name, name]
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

    The program is pid 1 inside. When it ends, for any reason, Linux kills every process that it started.
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


# ---- what one kernel has for itself ---------------------------------------------------------------------------------
def private_disk(nbytes: int) -> None:
    """One tmpfs of `nbytes` for /tmp, /dev/shm, home and the working folder."""
    linux.mount("none", _DISK, "tmpfs", _NO_RIGHTS, f"size={nbytes},nr_inodes=16384,mode=755")
    for name in _FOLDERS:
        os.mkdir(f"{_DISK}/{name}", 0o700)
    os.mkdir(f"{_DISK}/home/{os.path.relpath(WORK, HOME)}")
    for name, seen_at in _FOLDERS.items():
        _keep_python(seen_at, f"{_DISK}/{name}")
        if seen_at != _DISK:
            linux.mount(f"{_DISK}/{name}", seen_at, flags=linux.MS_BIND | linux.MS_REC)
    linux.mount(f"{_DISK}/shm", _DISK, flags=linux.MS_BIND)  # last: it covers the way to the others
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
            linux.mount(str(path), target, flags=linux.MS_BIND | linux.MS_REC)


def cover(path: str, text: str) -> None:
    """From now on, this kernel sees another text in the file at `path`."""
    with tempfile.NamedTemporaryFile("w", dir=HOME, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        linux.mount(file.name, path, flags=linux.MS_BIND)
        linux.mount("none", path, flags=linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY | _NO_RIGHTS)


def inside(name: str) -> bool:
    """Is this the name of a file in the working folder, or in a folder in it?"""
    path = PurePosixPath(name)
    relative = not path.is_absolute() and ".." not in path.parts and path.parts != ()
    return relative and "\0" not in name and all(len(os.fsencode(part)) < 256 for part in path.parts)


def write_files(files: Mapping[str, bytes], folder: str = WORK) -> None:
    """Put the submission's files into the working folder. Names are relative paths without `..`."""
    for name, data in files.items():
        if not inside(name):
            raise BadFileName(f"{name!r} leads out of the working folder: expected something like 'data/points.csv'")
        target = os.path.join(folder, *PurePosixPath(name).parts)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(data)
