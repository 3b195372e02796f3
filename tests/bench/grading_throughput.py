"""How much faster than `nbgrader autograde` is `ckptlib grade`, how does it grow, and how long does one check take?

    python tests/bench/grading_throughput.py             24 submissions against stock nbgrader, then 10 -> 200
    python tests/bench/grading_throughput.py --quick     24 submissions, and one check
    python tests/bench/grading_throughput.py --quick --assignment 05_checkpoint_function
    python tests/bench/grading_throughput.py --cluster   24 submissions on one and on two workers of a dask cluster

Honest submissions of one assignment, the same for both, on the same machine, in turns: stock nbgrader grades six of
them, then ours all 24, and so on. Exits with 1 if a score differs, or the ratio is under 8 for assignment 01.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from distributed import LocalCluster
from nbgrader.api import Gradebook
from nbgrader.preprocessors import ClearHiddenTests
from rows import row

from ckptlib.grading.authoring.make_release import release
from ckptlib.grading.gradebook.course_folders import Course

ROOT = Path(__file__).resolve().parents[2]
FIRST = "01_activation_memory"
NAME = FIRST  # unless said
TURNS, EACH, LEAST = 4, 6, 8.0
ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def honest() -> str:
    """The source notebook without its hidden tests: what a student with the reference's answers hands in."""
    source = nbformat.read(ROOT / "solutions" / NAME / f"{NAME}.ipynb", 4)
    return nbformat.writes(ClearHiddenTests().preprocess(source, {})[0])


def course(folder: Path, students: list[str], text: str) -> Path:
    made = folder.parent / "released" / "source" / NAME  # with visible.json, once it is there
    shutil.copytree(made if made.is_dir() else ROOT / "solutions" / NAME, folder / "source" / NAME)
    (folder / "nbgrader_config.py").write_text('c = get_config()\nc.CourseDirectory.ignore = ["key.py"]\n')
    for student in students:
        target = folder / "submitted" / student / NAME
        target.mkdir(parents=True)
        (target / f"{NAME}.ipynb").write_text(text)
    return folder


def timed(command: list[str], cwd: Path) -> tuple[float, int, str]:
    """Seconds, the highest memory of the process itself, and what it printed."""
    started = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        running = subprocess.Popen([sys.executable, "-m", *command], cwd=cwd, env=ENVIRONMENT, stdout=out, stderr=err)
        peak = 0
        while running.poll() is None:
            peak = max(peak, _peak(running.pid))
            time.sleep(0.05)
        seconds = time.monotonic() - started
        err.seek(0)
        if running.returncode:
            sys.exit(f"{command} failed:\n{err.read()[-3000:]}")
        out.seek(0)
        return seconds, peak, out.read()


def _peak(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmHWM")), 0)


def stock_scores(folder: Path) -> dict[str, float]:
    with Gradebook(f"sqlite:///{folder}/gradebook.db") as gradebook:
        return {each.student.id: each.score for each in gradebook.assignment_submissions(NAME)}


def against_stock(folder: Path, text: str) -> float:
    students = [f"g{turn}-{i}" for turn in range(TURNS) for i in range(EACH)]
    stock, ours = course(folder / "stock", students, text), course(folder / "ours", students, text)
    timed(["nbgrader", "generate_assignment", NAME], stock)
    slow, fast, scores = [], [], {}
    for turn in range(TURNS):
        slow.append(timed(["nbgrader", "autograde", NAME, f"--student=g{turn}-*"], stock)[0])
        seconds, _, out = timed(["ckptlib.cli", "grade", NAME, "--fresh", "--json"], ours)
        fast.append(seconds)
        scores = {each["student"]: each["score"] for each in json.loads(out)["submissions"]}
    ratio = sum(slow) / (sum(fast) / TURNS)
    print(f"stock: {sum(slow):.1f} s for {len(students)} in {TURNS} parts ({', '.join(f'{s:.1f}' for s in slow)})")
    print(f"ours:  {sum(fast) / TURNS:.1f} s for {len(students)} ({', '.join(f'{s:.1f}' for s in fast)})")
    if scores != stock_scores(stock):
        sys.exit(f"the scores differ: {scores} and {stock_scores(stock)}")
    print(f"equal scores: {sorted(set(scores.values()))}")
    seconds, _, out = timed(["ckptlib.cli", "grade", NAME, "--json"], ours)
    print(f"judged again without kernels: {seconds:.1f} s, {json.loads(out)['kernels']} kernels")
    text = f"{1 / ratio:.3f} ({ratio:.1f} times faster)"
    row(f"{len(students)} submissions of {NAME[:2]} graded, with equal scores", "`nbgrader autograde`", text)
    print(f"ratio: {ratio:.1f} (at least {LEAST:g} is claimed for {FIRST})")
    return ratio


def growth(folder: Path, text: str) -> None:
    took = {}
    for count in (10, 200):
        here = course(folder / f"grow{count}", [f"s{i}" for i in range(count)], text)
        seconds, peak, _ = timed(["ckptlib.cli", "grade", NAME, "--json"], here)
        took[count] = seconds
        print(f"{count:>4} submissions: {seconds:6.1f} s, coordinator {peak / 2**20:.0f} MiB at most")

    more = f"{took[200] / took[10]:.1f} times the time for 20 times the work"
    row(f"200 submissions take {took[200]:.0f} s", "10 submissions", more)


def one_check(folder: Path, text: str) -> None:
    """An answered notebook and a blank one, each beside an import of torch: a busy machine slows all three alike."""
    answered = course(folder / "check", ["ada"], text) / "submitted/ada" / NAME
    for claim, path in {"the verdict": answered, "the verdict on a blank one": ROOT / "exercises" / NAME}.items():
        checks, imports = [], []
        for _ in range(3):
            started = time.monotonic()
            command = [sys.executable, "-m", "ckptlib.cli", "check", str(path)]
            subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
            checks.append(time.monotonic() - started)
            started = time.monotonic()
            subprocess.run([sys.executable, "-c", "import torch"], check=True)
            imports.append(time.monotonic() - started)
        seconds, ratio = min(checks), min(checks) / min(imports)
        row(f"from `ckptlib check` to {claim}: {seconds:.1f} s", "`import torch`", f"{ratio:.1f}")
        print(f"`ckptlib check` to {claim}: {seconds:.1f} s, {ratio:.1f} times `import torch`")


def on_a_cluster(folder: Path, text: str) -> None:
    took = {}
    for workers in (1, 2):
        here = course(folder / f"cluster{workers}", [f"s{i}" for i in range(TURNS * EACH)], text)
        options = {"n_workers": workers, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
        with LocalCluster(**options, silence_logs=50) as cluster:
            command = ["ckptlib.cli", "grade", NAME, "--cluster", cluster.scheduler_address, "--json", "--fresh"]
            timed(command, here)  # the workers import torch and start their warm processes
            took[workers] = timed(command, here)[0]
        print(f"{workers} dask worker(s): {took[workers]:.1f} s for {TURNS * EACH}")
    row(f"{TURNS * EACH} submissions on two dask workers", "one worker", f"{took[2] / took[1]:.2f}")


def main() -> None:
    global NAME
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--assignment", default=FIRST)
    options = parser.parse_args()
    NAME = options.assignment
    sys.stdout.reconfigure(line_buffering=True)
    text = honest()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        release(Course(course(folder / "released", [], text)), NAME)
        if options.cluster:
            on_a_cluster(folder, text)
            return
        ratio = against_stock(folder, text)
        one_check(folder, text)
        if not options.quick:
            growth(folder, text)
    sys.exit(0 if ratio >= LEAST or NAME != FIRST else 1)


if __name__ == "__main__":
    main()
