"""How does a notebook start ranks with torchrun, and what does each rank do?

The notebook's function travels as source, and all files are in one folder.
"""

from __future__ import annotations

import ast
import faulthandler
import inspect
import json
import linecache
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from ...errors import CkptError
from .rank_errors import RankError, no_answer, who_failed
from .shutdown import LOOPBACK, die_with_parent, end

HEADER = """\
from ckptlib.book.ranks import answer, begin

begin()

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

import ckptlib as ck
"""
PREFIX = "ckptlib-ranks-"
AGENT = "CKPTLIB_RANKS_AGENT"  # environment variable: the process that started this rank
_TEMPORARY = ("TMPDIR", "TEMP", "TMP")  # the last two are for Windows


def run(fn: Callable, ranks: int = 2, seconds: float = 100, uses: Sequence[Any] = (), **arguments: Any) -> list[Any]:
    """What `fn(**arguments)` returns on each of `ranks` processes, started by torchrun in one group.

    The function travels as source text, and `uses` with it: functions and classes, of a notebook or of the library.
    Besides these it sees `torch`, `dist`, `nn`, `F`, `Tensor`, `ck`, and what it imports itself. Arguments and answers
    are JSON.
    """
    program = [HEADER, *map(known, uses), source(fn), f"answer({fn.__name__})\n"]
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    environment = {**os.environ, **LOOPBACK, "OMP_NUM_THREADS": "1", **dict.fromkeys(_TEMPORARY, str(folder))}
    environment["CUDA_VISIBLE_DEVICES"] = ""  # FSDP would take a GPU for each rank, and most machines have fewer
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[3]), *filter(None, sys.path)])
    agent = None
    try:
        (folder / "program.py").write_text("\n\n".join(program), encoding="utf-8")
        asked = json.dumps({"until": time.time() + seconds, "arguments": arguments})
        (folder / "arguments.json").write_text(asked, encoding="utf-8")
        command = [sys.executable, "-m", "ckptlib.book.ranks", str(folder), str(ranks), str(os.getpid())]
        with open(folder / "agent.log", "wb") as log:  # in a session of its own: Ctrl-C is for us, and we end it
            agent = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        agent.wait(seconds)
        return [json.loads((folder / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(ranks)]
    except subprocess.TimeoutExpired:
        raise RankError(no_answer(folder, ranks, seconds)) from None
    except OSError:
        raise RankError(who_failed(folder, ranks)) from None
    finally:
        end(agent, folder)
        shutil.rmtree(folder, ignore_errors=True)


def known(thing: Any) -> str:
    library = thing.__module__.partition(".")[0] in ("ckptlib", "torch")
    return f"from {thing.__module__} import {thing.__name__}" if library else source(thing)


def source(thing: Any) -> str:
    """The text that defines a function or class, also in a notebook's cell, where `inspect` finds no class's.

    >>> source(source).splitlines()[0]
    'def source(thing: Any) -> str:'
    """
    inside = [inspect.unwrap(each) for each in (thing, *vars(thing).values()) if callable(each)]
    file = next(each.__code__.co_filename for each in inside if hasattr(each, "__code__"))
    lines = linecache.getlines(file)
    for node in ast.walk(ast.parse("".join(lines))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == thing.__name__:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            return textwrap.dedent("".join(lines[first - 1 : node.end_lineno]))
    raise CkptError(f"the source of {thing.__name__} is not available: define it in a cell or a file")


# ---- in a rank ------------------------------------------------------------------------------------------------------
def _folder() -> Path:
    return Path(sys.argv[0]).parent


def begin() -> None:
    """The start of a rank's program, before anything that takes long: do not outlive torchrun, and say who we are."""
    die_with_parent(int(os.environ[AGENT]))
    (_folder() / f"{os.environ['RANK']}.pid").write_text(str(os.getpid()), encoding="utf-8")


def answer(fn: Callable) -> None:
    """The end of a rank's program: join the group, call `fn`, save its result, leave."""
    import torch.distributed as dist

    from .store_group import backend  # gloo, if torch has it

    folder, rank, ranks = _folder(), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    asked = json.loads((folder / "arguments.json").read_text(encoding="utf-8"))
    left = max(1, asked["until"] - time.time())
    faulthandler.dump_traceback_later(0.9 * left)  # where it hangs, if it does
    store, limit = dist.FileStore(str(folder / "store"), ranks), timedelta(seconds=left)
    group: dict[str, Any] = {"rank": rank, "world_size": ranks, "timeout": limit}
    dist.init_process_group(backend(), store=store, **group)
    try:
        found = json.dumps(fn(**asked["arguments"]))
        dist.barrier()  # nobody leaves while another still waits for it
    except BaseException:
        (folder / f"{rank}.raised").touch()
        raise
    dist.destroy_process_group()
    (folder / f"{rank}.json").write_text(found, encoding="utf-8")
