"""What does every benchmark come to? One table: claim, peer, ratio, command.

    python tests/bench/rows.py [script ...]      runs all benchmarks, or these, and writes book/benchmarks.md

A benchmark says its result with `row`; run by itself it only prints.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "book" / "benchmarks.md"
_FILE = "CKPTLIB_BENCH_ROWS"
_PAGE = """# Benchmarks

Measured in one run of `make bench`, on {machine}, {date}. A ratio is ours to the peer's, both taken in turns in the
same run: below 1 is faster, or smaller. Times vary from machine to machine and from day to day; ratios vary less.

| claim | peer | ratio | command |
|---|---|---|---|
{rows}

Versions: {versions}.
"""


def row(claim: str, peer: str, ratio: str) -> None:
    """Say what a benchmark has found. `ratio` is text: "0.97", or "0.27 to 0.80" over several models."""
    if path := os.environ.get(_FILE):
        command = f"python tests/bench/{Path(sys.argv[0]).name}"
        about = {"claim": claim, "peer": peer, "ratio": ratio, "command": command}
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(about) + "\n")


def between(ratios: list[float], digits: int = 2) -> str:
    """
    >>> between([0.5, 0.9, 0.7]), between([1.0])
    ('0.50 to 0.90', '1.00')
    """
    low, high = (f"{value:.{digits}f}" for value in (min(ratios), max(ratios)))
    return low if low == high else f"{low} to {high}"


def _run(scripts: list[Path]) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows"
        rows.touch()
        for script in scripts:
            print(f"== {script.name}", flush=True)
            done = subprocess.run([sys.executable, str(script)], env={**os.environ, _FILE: str(rows)})
            if done.returncode:
                sys.exit(f"{script.name} failed: {PAGE.name} is left as it was")
        return [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]


def main(names: list[str]) -> None:
    scripts = sorted(path for path in Path(__file__).parent.glob("*.py") if path.name != Path(__file__).name)
    found = _run([path for path in scripts if not names or path.name in names])
    lines = [f"| {each['claim']} | {each['peer']} | {each['ratio']} | `{each['command']}` |" for each in found]
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "nbgrader", "ckptlib"))
    page = _PAGE.format(
        machine=f"{os.cpu_count()} cores of {platform.machine()} without a GPU",
        date=time.strftime("%d %B %Y").lstrip("0"),
        rows="\n".join(lines),
        versions=f"Python {platform.python_version()}, {packages}",
    )
    if not names:  # a page of some benchmarks only would look like all of them
        PAGE.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main(sys.argv[1:])
