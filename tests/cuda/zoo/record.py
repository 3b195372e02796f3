"""Writes the truth: what the phantom GPUs count for every entry of the zoo. `python tests/cuda/zoo/record.py`

It needs torch's CUDA build (`make phantom` makes .venv-cuda) and writes truth/<gpu>-<torch release>.json. If it is
interrupted, it writes what is done, and `--new` goes on from there.
"""

from __future__ import annotations

import argparse
import time

from zoo import GPUS, Counted, entries, on_phantom, truth, truth_file, write_truth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", choices=GPUS, action="append", help="only this one; may be repeated")
    parser.add_argument("--new", action="store_true", help="only entries that are not recorded yet")
    parser.add_argument("names", nargs="*", help="only entries whose name contains one of these")
    args = parser.parse_args()
    everything = entries()
    for gpu in args.gpu or GPUS:
        begun = time.monotonic()
        known: dict[str, Counted] = truth(gpu) if truth_file(gpu).exists() else {}
        wanted = [name for name in everything if not args.names or any(part in name for part in args.names)]
        if args.new:
            wanted = [name for name in wanted if name not in known]
        found = on_phantom(gpu, wanted) if wanted else {}
        write_truth(gpu, {name: counted for name, counted in (known | found).items() if name in everything})
        failed = {name: counted.error for name, counted in found.items() if counted.error}
        print(f"{gpu}: {len(found)} recorded in {time.monotonic() - begun:.0f} s, {len(failed)} failed")
        for name, error in failed.items():
            print(f"    {name}: {error}")


if __name__ == "__main__":
    main()
