"""What does `ckptlib measure TARGET` do? Find the function, measure what it builds, print the result."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable

from .errors import CkptError
from .measure.cuda.presets import at_release, preset
from .measure.measurement import Measurement, measure
from .models import CHECKPOINTS, mlp_step


def measure_target(args: argparse.Namespace) -> str:
    try:
        gpu = preset(args.gpu)
        gpu = at_release(gpu, args.torch) if args.torch else gpu
    except ValueError as error:
        raise CkptError(str(error)) from None
    result = measure(_builder(args), args.device, fake=args.fake, builds=True, gpu=gpu)
    if args.plot:
        from . import plots  # matplotlib is slow to import, and rarely asked for here

        try:
            plots.timeline(result).save(args.plot)
        except (OSError, ValueError) as error:
            raise CkptError(f"cannot draw to {args.plot}: {error}") from None
    return json.dumps(as_json(result), indent=2) if args.json else str(result)


def as_json(result: Measurement) -> dict:
    return {
        "forward_peak": result.forward_peak,
        "step_peak": result.peak,
        "reserved_peak": result.reserved,
        "at_peak": result.by_category,
        "marks": [mark._asdict() for mark in result.marks],
        "unknown": result.unknowns,
    }


def _builder(args: argparse.Namespace) -> Callable[[], Callable[[], object]]:
    if args.target == "mlp":
        if args.checkpoint not in CHECKPOINTS:
            raise CkptError(f"--checkpoint is {args.checkpoint!r}, expected one of {', '.join(CHECKPOINTS)}")
        return lambda: mlp_step(args.checkpoint)
    if args.checkpoint != "none":
        raise CkptError("--checkpoint is for the target mlp; in your own model, call checkpoint where you want it")
    build = _load(args.target)

    def checked() -> Callable[[], object]:
        step = build()
        if not callable(step):
            raise CkptError(
                f"{args.target} returned {type(step).__name__}, expected a function: the step to measure. "
                "The likeliest mistake: it runs the step itself, instead of returning a function that does."
            )
        return step

    return checked


def _load(target: str) -> Callable[[], object]:
    module_name, colon, name = target.partition(":")
    if not (colon and all(part.isidentifier() for part in [*module_name.split("."), name])):
        raise CkptError(f"the target is {target!r}, expected mlp or package.module:function")
    sys.path.insert(0, os.getcwd())  # as `python -m` does: your own file is found where you stand
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name and not module_name.startswith(f"{error.name}."):
            raise  # your module was found, but imports one that is missing
        raise CkptError(f"no module {module_name!r}, looked for from {os.getcwd()} on") from None
    build = getattr(module, name, None)
    if not callable(build):
        found = f"{type(build).__name__}, which cannot be called," if hasattr(module, name) else "nothing of that name"
        raise CkptError(f"{module_name} has {found} where {name!r} was expected: a function that returns the step")
    return build
