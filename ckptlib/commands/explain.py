"""What does `ckptlib explain FILE` do? Read anybody's snapshot, print what its peak was made of, draw its page."""

from __future__ import annotations

import argparse
import json

from ..remember.explain_snapshot import Explanation, explain
from .measure import by_module
from .output import save_page


def explain_snapshot(args: argparse.Namespace) -> str:
    """args: file, device, html, json."""
    found = explain(args.file, args.device)
    if args.html:
        save_page(found, args.html)
    if args.json:
        return json.dumps(as_json(found), indent=2)
    tables = [found.table_by("frame")]
    if found.ours:
        tables = [found.table_by("category"), by_module(found.by("module")), found.table_by("op")]
    return "\n\n".join(map(str, (found, *tables)))


def as_json(found: Explanation) -> dict:
    kinds = ("category", "module", "op", "phase") if found.ours else ("frame",)
    return {
        "device": found.device,
        "allocated": found.allocated,
        "requested": found.requested,
        "reserved": found.reserved,
        "before": found.before,
        "entry": found.moment + 1,
        "entries": len(found.entries),
        **{f"by_{kind}": found.by(kind) for kind in kinds},
        "notes": found.notes,
    }
