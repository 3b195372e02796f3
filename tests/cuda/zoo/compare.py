"""How well does the simulation do? `python tests/cuda/zoo/compare.py` prints a table, and one line for each difference.

    compare.py [--gpu a100] [--fake] [NAME ...]   only this GPU, only entries whose names contain one of these
    compare.py --changes NAME                     for one entry, the allocations side by side, in order

The allocations of the phantom need torch's CUDA build (.venv-cuda). The C++ functions that made them are shown.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from zoo import (
    DIFFERENT,
    FOLDER,
    GPUS,
    VERDICTS,
    Counted,
    compared,
    describe,
    entries,
    is_op,
    on_phantom,
    truth,
    verdict,
)

KNOWN = FOLDER / "known_differences.json"
Rows = dict[str, tuple[str, str]]  # name -> (verdict, the first difference in a sentence)


def known_differences() -> dict[str, dict[str, str]]:
    return json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.exists() else {}


def compare(names: Iterable[str], gpus: Sequence[str] = GPUS, fake: bool = False) -> dict[str, Rows]:
    """Simulate these entries and hold them against the truth, by GPU."""
    recorded, everything = {gpu: truth(gpu) for gpu in gpus}, entries()
    rows: dict[str, Rows] = {gpu: {} for gpu in gpus}
    for name in names:
        true = {gpu: recorded[gpu][name] for gpu in gpus if name in recorded[gpu]}
        for gpu, (word, sim) in compared(everything[name], true, fake).items():
            rows[gpu][name] = (word, describe(true[gpu], sim))
    return rows


def table(gpu: str, rows: Rows) -> str:
    lines = [f"{gpu:10}" + "".join(f"{word:>12}" for word in (*VERDICTS, "all"))]
    for kind, chosen in (("ops", True), ("programs", False)):
        found = Counter(word for name, (word, _) in rows.items() if is_op(name) == chosen)
        lines.append(f"{kind:10}" + "".join(f"{found[word]:12}" for word in VERDICTS) + f"{found.total():12}")
    return "\n".join(lines)


def side_by_side(true: Counted, sim: Counted) -> str:
    """What the phantom and the simulation allocated and gave back, in order; differing lines have a mark in front."""
    left, right = ([nbytes for nbytes, _ in counted.changes] for counted in (true, sim))
    lines = [f"  {'phantom':>14} {'simulation':>14}"]
    totals = [0, 0]
    for tag, i, j, k, m in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        for n in range(max(j - i, m - k)):
            pair = (true.changes[i + n] if i + n < j else None, sim.changes[k + n] if k + n < m else None)
            for side, change in enumerate(pair):
                totals[side] += change[0] if change else 0
            cells = "".join(f"{change[0] if change else '':>14,} " if change else " " * 15 for change in pair)
            why = " | ".join(change[1] if change else "" for change in pair)
            lines.append(f"{' ' if tag == 'equal' else '!'} {cells} {totals[0]:>14,} {totals[1]:>14,}  {why}")
    return "\n".join(lines)


def show(name: str, gpu: str, fake: bool) -> None:
    true = on_phantom(gpu, [name], history=True)[name]
    _, sim = compared(entries()[name], {gpu: true}, fake)[gpu]
    print(f"{name} on {gpu}: {verdict(true, sim)}. {describe(true, sim)}.")
    for kind, counted in (("phantom", true), ("simulation", sim)):
        for word, why in counted.unknowns.items():
            print(f"{kind} does not know {word}: {why}")
    print(side_by_side(true, sim))
    print(f"{'mark':14} {'phantom: peak':>15} {'left':>15} {'simulation':>15} {'left':>15}")
    for label in true.marks:
        figures = (*true.marks[label], *sim.marks.get(label, (0, 0)))
        same = figures[:2] == figures[2:]
        print(f"{label:14}" + "".join(f" {nbytes:15,}" for nbytes in figures) + ("" if same else "  !"))
    print(f"{'reserved':14} {true.reserved:15,} {'':15} {sim.reserved:15,}")
    print(f"{'allocations':14} {true.allocations:15,} {'':15} {sim.allocations:15,}")


def update(rows: dict[str, Rows]) -> None:
    """Forget the listed differences that are gone, and list the new ones. A reason that stands there stays."""
    known = known_differences()
    for gpu, of_gpu in rows.items():
        listed = known.setdefault(gpu, {})
        for name, (word, why) in of_gpu.items():
            if word in DIFFERENT:
                listed.setdefault(name, why + ".")
            else:
                listed.pop(name, None)
    KNOWN.write_text(json.dumps(known, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", choices=GPUS, action="append", help="only this one; may be repeated")
    parser.add_argument("--fake", action="store_true", help="simulate on fake tensors")
    parser.add_argument("--changes", action="store_true", help="the allocations of one entry, side by side")
    parser.add_argument("--update", action="store_true", help="write known_differences.json")
    parser.add_argument("--all", action="store_true", help="one line also for what is exact")
    parser.add_argument("names", nargs="*", help="only entries whose name contains one of these")
    args = parser.parse_args()
    gpus = args.gpu or GPUS
    known = entries() if args.changes else truth("a100")
    names = [name for name in known if not args.names or any(part in name for part in args.names)]
    names = [name for name in names if name in args.names] or names  # whole names mean these alone
    if args.changes:
        for name in names:
            show(name, gpus[0], args.fake)
        return
    begun = time.process_time()
    rows = compare(names, gpus, args.fake)
    for gpu, of_gpu in rows.items():
        for name, (word, why) in of_gpu.items():
            if word != "exact" or args.all:
                print(f"{word:12} {gpu}: {name}: {why}.")
    for gpu, of_gpu in rows.items():
        print(table(gpu, of_gpu))
    print(f"{time.process_time() - begun:.0f} CPU s")
    if args.update:
        update(rows)


if __name__ == "__main__":
    main()
