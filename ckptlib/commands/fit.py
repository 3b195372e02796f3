"""What does `ckptlib fit MODEL` do? Find the largest batch of each strategy, for a model by name or your own."""

from __future__ import annotations

import argparse
import json

from ..fitting.fit import Fits, Need, fits
from ..models.configs import Config, named
from .output import save_plot
from .target import Target
from .user_code_errors import own_code


def fit_model(args: argparse.Namespace) -> tuple[str, int]:
    """What to print, and the exit code: 0, or 1 if nothing fits.

    args: model, gpu, seq, precision, strategy ("all" or one of them), fused, json; plot, if there is to be one.
    """
    strategies = None if args.strategy == "all" else (args.strategy,)
    asked = {"gpu": args.gpu, "seq": args.seq, "precision": args.precision, "fused": args.fused}
    if ":" in args.model:
        target = Target(args.model)
        with own_code(f"the step of {args.model} failed"):
            found = fits(target.with_batch(), strategies=strategies, name=args.model, **asked)
    else:
        found = fits(args.model, strategies=strategies, **asked)
    if path := vars(args).get("plot"):
        from .. import figures

        save_plot(lambda: figures.fit_bars(found), path)
    if args.json:
        text = json.dumps(as_json(args.model, found), indent=2)
    else:
        text = str(found) if args.strategy == "all" else str(found[args.strategy])
    return text, int(not any(answer.batch for answer in found.found.values()))


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
