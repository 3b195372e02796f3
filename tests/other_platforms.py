"""How does the library behave on macOS and Windows, seen from Linux? It is shown a standard library without Linux.

`pretend` changes what *our* code gets when it imports: the package, and what a rank or a notebook's cell runs. `os`,
`signal` and others lack what they lack over there, as typeshed has it, some functions do as they do there, and
`sys.platform` says so. Other packages see the true system, and so go on working.

What this cannot show: paths with backslashes, files that cannot be removed while they are open, the speed and limits of
another system, and whether torch and Jupyter themselves work there.
"""

from __future__ import annotations

import ast
import builtins
import ctypes
import fcntl
import importlib
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import types
import warnings
from pathlib import Path

PLATFORMS = ("darwin", "win32")
WATCHED = ("os", "sys", "signal", "socket", "select", "subprocess", "ctypes", "time", "resource", "msvcrt")
ABSENT = {"darwin": {"msvcrt"}, "win32": {"fcntl", "resource", "termios", "pwd", "grp", "pty", "tty", "syslog"}}

FIRST = """
import os, sys, traceback
sys.path.insert(0, {folder!r})
try:
    from other_platforms import pretend
    pretend({platform!r})
except BaseException:
    traceback.print_exc()
    os._exit(99)  # or Python would go on without the pretence
del sys.path[0]
"""


def environment(platform: str, folder: Path) -> dict[str, str]:
    """For a subprocess that pretends, and all that it starts. A file that Python runs first is written to `folder`."""
    code = FIRST.format(folder=str(Path(__file__).parent), platform=platform)
    (folder / "sitecustomize.py").write_text(code, encoding="utf-8")
    return {**os.environ, "PYTHONPATH": str(folder), "PYTHONWARNDEFAULTENCODING": "1", "OMP_NUM_THREADS": "1"}


def pretend(platform: str) -> None:
    """From now on, in this process."""
    seen = {name: _Seen(name, platform) for name in WATCHED if name not in ABSENT[platform]}
    true_import, true_open = builtins.__import__, builtins.open

    def importing(name, globals=None, locals=None, fromlist=(), level=0):
        if level == 0 and _ours(globals or {}):
            if name.partition(".")[0] in ABSENT[platform]:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            if name in seen:
                return seen[name]
        return true_import(name, globals, locals, fromlist, level)

    def opening(file, mode="r", buffering=-1, encoding=None, *args, **kwargs):
        ours = _ours(sys._getframe(1).f_globals)
        if ours and isinstance(file, str) and file.startswith(("/proc/", "/dev/shm")):
            raise FileNotFoundError(2, "No such file or directory", file)
        if "b" not in mode and encoding is None:
            if ours:
                raise EncodingWarning(f"{file} is opened without an encoding")
            encoding = "locale"
        return true_open(file, mode, buffering, encoding, *args, **kwargs)

    builtins.__import__, builtins.open = importing, opening
    # Windows would read and write such text as cp1252. What others do is theirs to mend.
    warnings.filterwarnings("ignore", category=EncodingWarning)
    for module in (r"ckptlib(\..*)?", "__main__"):
        warnings.filterwarnings("error", category=EncodingWarning, module=module)


def _ours(caller: dict) -> bool:
    """The package; a program of ranks; a notebook's cell, which has no file; the tasks beside it."""
    name, package, file = (str(caller.get(key) or "") for key in ("__name__", "__package__", "__file__"))
    if package.partition(".")[0] == "ckptlib" or name == "tasks":
        return True
    return name == "__main__" and not package and (not file or file.endswith("program.py"))


class _Seen:
    """A module of the standard library as another platform has it."""

    def __init__(self, name: str, platform: str) -> None:
        other = {"platform": platform} if name == "sys" else {}
        other |= WINDOWS.get(name, {}) if platform == "win32" else {}
        true = None if name == "msvcrt" else importlib.import_module(name)
        vars(self).update(_true=true, _missing=missing(name, platform) - {*other}, **other)

    def __getattr__(self, name: str) -> object:
        if name in self._missing:
            raise AttributeError(f"no attribute {name!r} on this platform")
        return getattr(self._true, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._true, name, value)


def missing(name: str, platform: str) -> set[str]:
    """What this module has on Linux and not there."""
    stubs = Path(_typeshed(), name)
    path = stubs / "__init__.pyi" if stubs.is_dir() else stubs.with_suffix(".pyi")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return _defined(tree.body, "linux") - _defined(tree.body, platform)


def _typeshed() -> Path:
    """jedi, which IPython brings, has a copy; it is not imported, because every process would pay for that."""
    return next(path for folder in sys.path if (path := Path(folder, "jedi/third_party/typeshed/stdlib")).is_dir())


def _defined(body: list[ast.stmt], platform: str) -> set[str]:
    system = types.SimpleNamespace(platform=platform, version_info=sys.version_info)
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.If):
            taken = eval(compile(ast.Expression(node.test), "stub", "eval"), {"sys": system})
            found |= _defined(node.body if taken else node.orelse, platform)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets}
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


# ---- what Windows does otherwise ------------------------------------------------------------------------------------
def _open(path, flags, mode=0o777, *, dir_fd=None):
    if dir_fd is not None:
        raise NotImplementedError("dir_fd unavailable on this platform")
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    return os.open(path, flags, mode)


def _kill(pid: int, number: int) -> None:
    """TerminateProcess: no handler runs, and the number is the exit code."""
    if pid == os.getpid():
        os._exit(number)
    os.kill(pid, signal.SIGKILL)


def _getppid() -> int:
    """A virtual environment's python.exe starts another, so the parent is not who called; multiprocessing avoids it."""
    return os.getppid() if multiprocessing.parent_process() else 4


def _select(readers, writers, others, seconds=None):
    sockets = [*readers, *writers, *others]
    if not sockets or any(isinstance(each, int) or os.fstat(each.fileno()).st_mode >> 12 != 0o14 for each in sockets):
        raise OSError(10038, "An operation was attempted on something that is not a socket")
    return select.select(readers, writers, others, seconds)


class _Popen(subprocess.Popen):
    def __init__(self, *args, pass_fds=(), start_new_session=False, **options) -> None:
        assert not pass_fds, "pass_fds not supported on Windows."
        super().__init__(*args, **options)

    def send_signal(self, number: int) -> None:
        if number != signal.SIGTERM:
            raise ValueError(f"Unsupported signal: {number}")
        self.kill()

    def kill(self) -> None:
        super().send_signal(signal.SIGKILL)

    terminate = kill


def _library(name, *args, **kwargs):
    if name is None:
        raise TypeError("argument of type 'NoneType' is not iterable")
    return ctypes.CDLL(name, *args, **kwargs)


def _locking(fd: int, mode: int, nbytes: int) -> None:
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, nbytes, 0, os.SEEK_CUR)


WINDOWS: dict[str, dict[str, object]] = {
    "os": {"name": "nt", "open": _open, "kill": _kill, "getppid": _getppid, "supports_dir_fd": set()},
    "select": {"select": _select},
    "subprocess": {"Popen": _Popen},
    "ctypes": {"CDLL": _library},
    "msvcrt": {"locking": _locking, "LK_NBLCK": 2},
}
