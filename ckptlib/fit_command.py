"""What does `ckptlib fit MODEL` do? Ask `fit` for every strategy, print the answers."""

from __future__ import annotations

import argparse
import json

from .configs import named
from .fitting import Fit, fit
from .formulas import STRATEGIES


def fit_model(args: argparse.Namespace) -> str:
    """args: model, gpu, seq, precision, strategy ("all" or one of them), fused, json."""
    strategies = STRATEGIES if args.strategy == "all" else (args.strategy,)
    found = [fit(args.model, args.gpu, args.seq, args.precision, s, fused=args.fused) for s in strategies]
    if args.json:
        return json.dumps(as_json(args.model, found), indent=2)
    return "\n\n".join(map(str, found))


def as_json(model: str, found: list[Fit]) -> dict:
    first = found[0]
    return {
        "model": model,
        "parameters": named(model).parameters,
        "gpu_bytes": first.capacity,
        "seq": first.config.tokens,
        "precision": first.precision,
        "fused_attention": first.fused,
        "strategies": {
            answer.strategy: {
                "batch": answer.batch,
                "bytes": answer.need.nbytes if answer.need else None,
                "breakdown": answer.need.parts if answer.need else None,
                "fullest": answer.need.window if answer.need else None,
                "next_batch_bytes": answer.too_much.nbytes,
                "next_batch_breakdown": answer.too_much.parts,
            }
            for answer in found
        },
    }
