"""What does `ckptlib fit MODEL` do? Ask `fit` for every strategy, print the answers."""

from __future__ import annotations

import argparse
import json

from .configs import named
from .fitting import STRATEGIES, Fits, Need, fits


def fit_model(args: argparse.Namespace) -> str:
    """args: model, gpu, seq, precision, strategy ("all" or one of them), fused, json."""
    strategies = STRATEGIES if args.strategy == "all" else (args.strategy,)
    found = fits(args.model, args.gpu, args.seq, args.precision, strategies, fused=args.fused)
    if args.json:
        return json.dumps(as_json(args.model, found), indent=2)
    return str(found) if len(strategies) > 1 else str(found[args.strategy])


def as_json(model: str, answers: Fits) -> dict:
    first = next(iter(answers.found.values()))
    return {
        "model": model,
        "parameters": named(model).parameters,
        "gpu_bytes": first.capacity,
        "seq": first.config.tokens,
        "precision": first.precision,
        "fused_attention": first.fused,
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
