"""What does `ckptlib measure TARGET` do? Find the function, measure what it builds, print the result."""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from torch.nn.modules.module import register_module_forward_hook

from ..cuda.gpus import DEFAULT, Gpu, at_release, preset
from ..errors import CkptError
from ..models.mlp import CHECKPOINTS, mlp_step
from ..remember.explain_snapshot import explain
from ..remember.measurement import SIMULATED, Measurement, measure
from ..tables import Table
from ..units import mib
from .output import bar, save_page, save_plot
from .target import Target

ROWS = 12  # of the table of modules


def measure_target(args: argparse.Namespace) -> str:
    builder = _builder(args)
    gpu = chosen_gpu(args)
    if args.device == "cpu" and (args.snapshot or args.html):
        raise CkptError(
            "a snapshot is the record of CUDA's allocator, and the CPU has none: leave out --device cpu to simulate one"
        )
    with progress():
        result = measure(
            builder,
            args.device,
            fake=args.fake,
            builds=True,
            step=args.step,
            gpu=gpu if args.device == SIMULATED else None,
        )
    if args.plot:
        from .. import figures  # matplotlib is slow to import and rarely needed here

        save_plot(lambda: figures.timeline(result), args.plot)
    if args.snapshot:
        result.save_snapshot(args.snapshot)
    if args.html:
        save_page(explain(result.snapshot()), args.html)
    if args.json:
        return json.dumps(as_json(result, args.step), indent=2)
    modules = by_module(result.by_module)
    return "\n\n".join([str(result), *([str(modules)] if len(modules.rows) > 1 else [])])


def chosen_gpu(args: argparse.Namespace) -> Gpu:
    if args.device != SIMULATED and (args.gpu or args.torch):
        flags = " and ".join(f"--{name}" for name in ("gpu", "torch") if getattr(args, name))
        raise CkptError(
            f"got {flags}, for a simulated GPU, but --device is {args.device!r}, where memory is counted as it is: "
            f"leave out {flags}, or --device (default: {SIMULATED})"
        )
    gpu = preset(args.gpu or DEFAULT)
    return at_release(gpu, args.torch) if args.torch else gpu


@contextmanager
def progress() -> Iterator[None]:
    """A bar on stderr that counts the modules as they run, if it takes long. Nobody knows how many there will be."""
    with bar("measuring", "modules") as count:

        def one_more(*call: object) -> None:  # what a hook returns would be the module's output
            count.update()

        handle = None if count.disable else register_module_forward_hook(one_more)
        try:
            yield
        finally:
            if handle:
                handle.remove()


def as_json(result: Measurement, step: int) -> dict:
    return {
        "forward_peak": result.forward_peak,
        "step": step,
        "step_peak": result.peak,
        "reserved_peak": result.reserved,
        "at_peak": result.by_category,
        "at_peak_by_module": result.by_module,
        "marks": [mark._asdict() for mark in result.marks],
        "unknown": result.unknowns,
        "notes": result.notes,
    }


def by_module(found: dict[str, int]) -> Table:
    """Bytes at the peak, the largest first. Blocks with a number are one row: layers.*, as deep as the rows allow.

    >>> print(by_module({"net.0.fc": 6 * 2**20, "net.1.fc": 6 * 2**20, "": 2**20}))
    at the peak, by module
    module          how many       bytes    MiB
    --------------  --------  ----------  -----
    net.*.fc               2  12,582,912  12.00
    (in no module)         1   1,048,576   1.00
    """
    paths = {path: re.sub(r"(?<![^.])\d+(?![^.])", "*", path) for path in found}
    deepest = max((path.count(".") + 1 for path in found), default=1)
    for depth in range(deepest, 0, -1):
        sums: Counter[str] = Counter()
        members: dict[str, set[str]] = {}
        for path, nbytes in found.items():
            name = ".".join(paths[path].split(".")[:depth])
            sums[name] += nbytes
            members.setdefault(name, set()).add(".".join(path.split(".")[:depth]))
        if len(sums) <= ROWS:
            break
    rows = [
        (name or "(in no module)", len(members[name]) if "*" in name else 1, nbytes, mib(nbytes))
        for name, nbytes in sums.most_common()
    ]
    if len(rows) > ROWS:
        rest = sum(row[2] for row in rows[ROWS - 1 :])
        rows[ROWS - 1 :] = [("(all others)", len(rows) - ROWS + 1, rest, mib(rest))]
    return Table("at the peak, by module", ("module", "how many", "bytes", "MiB"), rows)


def _builder(args: argparse.Namespace) -> Callable[[], object]:
    if args.target == "mlp":
        if args.checkpoint not in CHECKPOINTS:
            raise CkptError(f"--checkpoint is {args.checkpoint!r}, expected one of {', '.join(CHECKPOINTS)}")
        return partial(mlp_step, args.checkpoint)
    if args.checkpoint != "none":
        raise CkptError("--checkpoint is for the target mlp; in your own model, call checkpoint where you want it")
    return Target(args.target).step
