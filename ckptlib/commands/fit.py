"""What does `ckptlib fit MODEL` do? Ask for every strategy, of a model by name or of your own; print the answers."""

from __future__ import annotations

import argparse
import json

from ..errors import CkptError
from ..fitting.fit import STRATEGIES, Fits, Need, fits
from ..models.configs import Config, named
from .output import save_plot


def fit_model(args: argparse.Namespace) -> str:
    """args: model, gpu, seq, precision, strategy ("all" or one of them), fused, json; plot, if there is to be one."""
    found = _fit_own(args) if ":" in args.model else _fit_named(args)
    if path := vars(args).get("plot"):
        from .. import figures

        save_plot(lambda: figures.fit_bars(found), path)
    if args.json:
        return json.dumps(as_json(args.model, found), indent=2)
    return str(found) if args.strategy == "all" else str(found[args.strategy])


def _fit_named(args: argparse.Namespace) -> Fits:
    strategies = STRATEGIES if args.strategy == "all" else (args.strategy,)
    return fits(args.model, args.gpu, args.seq, args.precision or "mixed", strategies, fused=args.fused)


def _fit_own(args: argparse.Namespace) -> Fits:
    from ..fitting.own_model import AS_BUILT, OWN_STRATEGIES, fits_own
    from .target import BATCH, Target, own_code

    if args.seq is not None or args.fused:
        raise CkptError("--seq and --fused are for models by name: your own function decides on both")
    target = Target(args.model)
    if BATCH not in target.parameters:
        name = args.model.partition(":")[2]
        raise CkptError(f"{args.model} has no parameter called batch, and fit needs one: def {name}(batch): ...")
    strategies = OWN_STRATEGIES if args.strategy == "all" else (args.strategy,)
    with own_code(f"the step of {args.model} failed"):
        return fits_own(
            lambda batch: target.training(batch=batch), args.gpu, args.precision or AS_BUILT, strategies, args.model
        )


def as_json(model: str, answers: Fits) -> dict:
    first = next(iter(answers.found.values()))
    own, config = ":" in model, first.config
    return {
        "model": model,
        "parameters": None if own else named(model).parameters,
        "gpu_bytes": first.capacity,
        "seq": config.tokens if isinstance(config, Config) else None,
        "precision": first.precision,
        "fused_attention": None if own else first.fused,
        "strategies": {
            strategy: {
                "batch": answer.batch,
                **_need(answer.need),
                "next_batch_bytes": answer.too_much.nbytes,
                "next_batch_breakdown": answer.too_much.parts,
            }
            for strategy, answer in answers.found.items()
        },
        "extra_flops_by_batch": {str(batch): row for batch, row in answers.costs.items()},
    }


def _need(need: Need | None) -> dict:
    """extra_flops is a fraction of those of a step without recomputation; blocks_run_again counts extra forwards."""
    if need is None:
        return dict.fromkeys(("bytes", "breakdown", "fullest", "extra_flops", "blocks_run_again", "selective_blocks"))
    return {
        "bytes": need.nbytes,
        "breakdown": need.parts,
        "fullest": need.window,
        "extra_flops": need.extra,
        "blocks_run_again": sum(need.schedule.forwards()) - need.schedule.n,
        "selective_blocks": need.selective,
    }
