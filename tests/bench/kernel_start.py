"""How long does it take to start a kernel and to run a notebook of twenty cells, warm and cold, and at what memory?"""

import statistics
import time
from pathlib import Path

from rows import row

from ckptlib.grading.run.cell_timeout import Driver
from ckptlib.grading.run.run_submission import Cell, Question, run
from ckptlib.grading.sandbox.limits import MIB, Limits
from ckptlib.grading.sandbox.sandbox import Sandbox
from ckptlib.grading.sandbox.usage_watchdog import tree

REPEATS = 15
CELLS = [Cell("import", "import torch, ckptlib")] + [Cell(f"c{i}", f"x{i} = {i}\nx{i}") for i in range(19)]
ANSWER = (
    "from IPython.display import display; display({'application/vnd.ckptlib.answer+json': {'nonce': 'n'}}, raw=True)"
)


def memory(pid: int) -> dict[str, int]:
    """Of one process in MiB: all that is resident, and what is its alone."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()[1:]
    fields = {line.split(":")[0]: int(line.split()[1]) // 1024 for line in lines}
    return {"resident": fields["Rss"], "own": fields["Private_Dirty"] + fields["Private_Clean"]}


def fork_to_ready(sandbox: Sandbox) -> tuple[float, dict[str, int]]:
    """Seconds until a kernel answers, and its memory then."""
    started = time.perf_counter()
    process = sandbox.kernel(Limits())
    driver = Driver(process, Limits())
    driver.get_ready(time.monotonic() + 60)
    seconds = time.perf_counter() - started
    used = memory(process.pid)
    driver.close()
    return seconds, used


def spread(values: list[float]) -> str:
    return f"median {statistics.median(values):.3f} s, from {min(values):.3f} to {max(values):.3f}"


def main() -> None:
    started = time.perf_counter()
    with Sandbox.start() as sandbox:
        print(f"warm process ready after {time.perf_counter() - started:.2f} s; {memory(tree(sandbox.pid)[1])} MiB")
        starts = [fork_to_ready(sandbox) for _ in range(REPEATS)]
        print(f"fork to ready kernel: {spread([s for s, _ in starts])}; {starts[-1][1]} MiB")
        walls, inside, outside = [], [], []
        for _ in range(REPEATS):
            before = time.process_time()
            used = run(CELLS, [Question("q", ANSWER, "n")], {}, Limits(), sandbox)["resources"]
            outside.append(time.process_time() - before)
            walls.append(used["wall_seconds"])
            inside.append(used["cpu_seconds"])
        print(f"20 cells and a question, wall: {spread(walls)}; peak {used['peak_rss'] // MIB} MiB")
        print(f"  processor time in the kernel: {spread(inside)}; in the worker: {spread(outside)}")
    started = time.perf_counter()
    with Sandbox.start(preload=()) as sandbox:
        used = run(CELLS, [Question("q", ANSWER, "n")], {}, Limits(), sandbox)["resources"]
        cold = time.perf_counter() - started
        row("a kernel forked from a warm process runs 20 cells", "a cold one", f"{statistics.median(walls) / cold:.2f}")
        print(f"the same, cold: {cold:.2f} s, {used['cpu_seconds']:.2f} s of processor time")


if __name__ == "__main__":
    main()
