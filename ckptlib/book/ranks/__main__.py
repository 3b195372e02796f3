"""Who starts the ranks, and ends them? torchrun, as `python -m ckptlib.book.ranks FOLDER RANKS PARENT`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from .shutdown import die_with_parent, runs
from .torchrun import AGENT


def main(folder: Path, ranks: int, parent: int) -> None:
    """If the process that wants the answers goes, end the ranks and remove their files in its place."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # until torchrun has a handler of its own
    try:
        die_with_parent(parent, gently=True)
        _torchrun(folder, ranks)
    finally:
        if not runs(parent):
            shutil.rmtree(folder, ignore_errors=True)


def _torchrun(folder: Path, ranks: int) -> None:
    """Its ranks meet through a file: its own store would listen on every network of the machine."""
    os.environ[AGENT] = str(os.getpid())
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    meeting = ["--rdzv-backend=c10d", f"--rdzv-endpoint={folder}/rendezvous", "--rdzv-conf=store_type=file"]
    shape = ["--nnodes=1", f"--nproc-per-node={ranks}", "--max-restarts=0", "--monitor-interval=0.1"]
    logs = ["--redirects=3", f"--log-dir={folder}/logs", "--local-addr=127.0.0.1"]
    try:
        torchrun([*shape, *meeting, *logs, str(folder / "program.py")])
    except ChildFailedError as error:
        codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
        (folder / "failed.json").write_text(json.dumps(codes), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
