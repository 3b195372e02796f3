"""What does one rank do? Join the group, call the function, leave."""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from .ending import die_with_parent

AGENT = "CKPTLIB_RANKS_AGENT"  # environment variable: the process that started this rank


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
