"""A machine of its own for a test that needs root: its own users, its own /etc and /srv; when it ends, nothing stays.

It is this machine in namespaces of its own. Processes started in it end with it. Servers in it share 127.0.0.1.

    python own_machine.py FOLDER [--container] -- command …     # inside `unshare`: see `command`
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# What a container's root may do by Docker's default, as numbers of capabilities (linux/capability.h): no mounts, no
# namespaces.
_CONTAINER = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}
_UNSHARE = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def need() -> None:
    """Skip the test for a user who is not root. For root, in CI, a machine that allows no namespaces is a failure."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("only root on Linux can make a machine of its own")
    done = subprocess.run([*_UNSHARE, "true"], capture_output=True, text=True)
    if done.returncode != 0:
        why = f"root cannot make namespaces here: {done.stderr.strip()}"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(why)


@contextlib.contextmanager
def folder(prefix: str) -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's own."""
    made = Path(tempfile.mkdtemp(prefix=prefix))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def command(folder: Path, *words: str | Path, container: bool = False) -> list[str]:
    """The command line that runs these words there as root. folder: for its files; everybody can reach it."""
    options = ["--container"] if container else []
    return [*_UNSHARE, sys.executable, __file__, str(folder), *options, "--", *map(str, words)]


# ---- inside ---------------------------------------------------------------------------------------------------------
def main(folder: str, *arguments: str) -> None:
    at = arguments.index("--")
    options, words = arguments[:at], arguments[at + 1 :]
    here = Path(folder)
    if "--container" not in options:
        (here / "srv").mkdir(mode=0o755)
        subprocess.run(["cp", "-a", "/etc", here / "etc"], check=True)
        for name in ("etc", "srv"):
            _bind(here / name, Path("/", name))
    prefixes = {sys.prefix, sys.base_prefix, str(ROOT), folder}
    _let_everybody_reach({Path(path).resolve() for path in prefixes}, here / "reach")
    if "--container" in options:
        _become_container()
    os.chdir(folder)
    os.execvp(words[0], words)


def _bind(source: Path, target: Path) -> None:
    subprocess.run(["mount", "--rbind", source, target], check=True)


def _let_everybody_reach(paths: set[Path], scratch: Path) -> None:
    """Python may lie in root's home, which nobody else may enter: show the others these paths of it, and no more."""
    closed: dict[Path, set[Path]] = {}
    for path in paths:
        for above in reversed(path.parents):
            if not above.stat().st_mode & stat.S_IXOTH:
                closed.setdefault(above, set()).add(path)
                break
    for above, inside in closed.items():
        shown = scratch / above.relative_to("/")
        for path in inside:
            target = shown / path.relative_to(above)
            target.mkdir(mode=0o755, parents=True, exist_ok=True)
            _bind(path, target)
        _bind(shown, above)


def _become_container() -> None:
    """Few capabilities, and a filter that refuses namespaces and mounts: as Docker's default."""
    sys.path.insert(0, str(ROOT))
    from ckptlib.grading.sandbox import linux_calls, seccomp

    for capability in range(64):
        if capability not in _CONTAINER:
            try:
                linux_calls.prctl(linux_calls.PR_CAPBSET_DROP, capability)
            except OSError:
                break
    seccomp.deny()


if __name__ == "__main__":
    main(*sys.argv[1:])
