"""How is a snapshot shown where there is no network? A page with every block over time, and nothing to load.

PyTorch's own viewer is not in the torch package: the pages of torch.cuda.memory's tools load it, and what it is built
on, from the internet. A snapshot that was saved can be opened with it at https://pytorch.org/memory_viz.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from ..remember.explain_snapshot import Explanation, RecordedBlock
from .styles import LOOKS

TEMPLATE = Path(__file__).with_name("snapshot_page.html")
OTHERS = "all others"


def snapshot_page(found: Explanation) -> str:
    """The HTML page of one device's record."""
    data = json.dumps(page_data(found), separators=(",", ":"))
    return TEMPLATE.read_text(encoding="utf-8").replace('"DATA"', data.replace("<", "\\u003c"))


def page_data(found: Explanation) -> dict[str, Any]:
    """What the page draws. Moment 0 is the start; the others are the entries that allocate or free a block."""
    entries = sorted({-1, *(b.born for b in found.history), *(b.died for b in found.history if b.died is not None)})
    moment_of = {entry: moment for moment, entry in enumerate(entries)}
    groups = _groups(found)
    order = list(groups)
    texts: dict[str, int] = {}
    blocks = [
        [
            moment_of[block.born],
            len(entries) if block.died is None else moment_of[block.died],
            block.size,
            block.requested,
            order.index(group if (group := _group(block, found.ours)) in groups else OTHERS),
            [texts.setdefault(line, len(texts)) for line in _lines(block)],
        ]
        for block in found.history
    ]
    return {
        "device": found.device,
        "peak": moment_of.get(found.moment, 0),
        "allocated": [found.totals[entry + 1][0] for entry in entries],
        "reserved": [found.totals[entry + 1][1] for entry in entries],
        "phases": _phases(found, entries),
        "groups": list(groups.items()),
        "by": "category" if found.ours else "frame",
        "blocks": blocks,
        "texts": list(texts),
        "notes": found.notes,
    }


def _group(block: RecordedBlock, ours: bool) -> str:
    return (block.name("category") or "unknown") if ours else block.name("frame")


def _groups(found: Explanation) -> dict[str, str]:
    """A group that is drawn in one colour, and the colour. It is a category, or in other people's records a frame."""
    colours = {name: look.colour for name, look in LOOKS.items() if name not in ("untagged", "free", "buffer")}
    rest = LOOKS["untagged"].colour
    if found.ours:
        present = {_group(block, True) for block in found.history}
        known = [name for name in LOOKS if name in present] + sorted(present - {*LOOKS})
        return {name: LOOKS[name].colour if name in LOOKS else rest for name in known}
    sums: Counter[str] = Counter()
    for block in found.blocks:
        sums[_group(block, False)] += block.size
    largest = [name for name, _ in sums.most_common(len(colours))]
    return dict(zip(largest, colours.values(), strict=False)) | {OTHERS: rest}


def _lines(block: RecordedBlock) -> list[str]:
    """The frames, one line for each. Of ours, a kind and a name."""
    if block.name("category"):
        return [f"{frame['filename']}: {frame['name']}" for frame in block.frames]
    return [f"{frame['filename']}:{frame['line']}:{frame['name']}" for frame in block.frames]


def _phases(found: Explanation, entries: list[int]) -> list[tuple[int, str]]:
    """The moments at which a phase begins, and its name."""
    if not found.ours:
        return []
    phases: list[tuple[int, str]] = []
    for moment, entry in enumerate(entries[1:], 1):
        phase = found.entries[entry].get("user_metadata", "")
        if phase and (not phases or phases[-1][1] != phase):
            phases.append((moment, phase))
    return phases
