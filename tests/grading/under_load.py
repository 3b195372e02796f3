"""Is every honest submission graded rightly on a machine that has neither processors nor memory to spare?

    python tests/grading/under_load.py                       ten repetitions, about five minutes each on two cores
    python tests/grading/under_load.py 10 --leave 2          the same where 4 GiB are more than a tenth of the memory
    python tests/grading/under_load.py 1 --memory 0.5        one, and only half of the memory taken

Ten honest submissions are graded beside ten hostile ones while other programs keep the processors busy and most of the
memory taken. Each honest one must have 10 points, or be "not graded yet" and have them when the machine is quiet again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import psutil
from answers import ROOT, submission
from hostile import INSTEAD_OF_ONE, NAME, Hostile, family, hand_in
from nbgrader.api import Gradebook

from ckptlib.grading.assignment.assignment import Assignment
from ckptlib.grading.one_submission.scoring import NOT_YET

CONFIG = "c = get_config()\nc.Limits.cell_seconds = 8\nc.Limits.wall_seconds = 60\n"
BUSY = "while True: pass"
HOLD = "import sys, time; held = bytearray(b'x') * int(sys.argv[1]); print(flush=True); time.sleep(10**6)"


@contextmanager
def busy_machine(load: int, memory: float, left: float) -> Iterator[float]:
    """So many busy processes, and so large a share of the memory taken, but `left` GiB; how many GiB that is."""
    most = psutil.virtual_memory()
    take = max(0, int(min(most.total * memory - most.used, most.available - left * 2**30)))
    programs = [[sys.executable, "-c", BUSY]] * load
    started = [subprocess.Popen(program) for program in programs]
    try:
        holder = subprocess.Popen([sys.executable, "-c", HOLD, str(take)], stdout=subprocess.PIPE)
        started.append(holder)
        holder.stdout.readline()  # now it has the memory
        yield take / 2**30
    finally:
        for process in started:
            process.kill()
            process.wait()


def grade(course: Path, seconds: float, *options: str) -> dict[str, dict]:
    command = [sys.executable, "-m", "ckptlib.cli", "grade", NAME, "--course", str(course), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    if not done.stdout:
        raise SystemExit(f"the grader failed with code {done.returncode}:\n{done.stderr[-2000:]}")
    return {each["student"]: each for each in json.loads(done.stdout)["submissions"]}


def hostile_ones(count: int) -> Iterator[Hostile]:
    """As many of one family as of another."""
    for pair in zip(*(family(name) for name in INSTEAD_OF_ONE), strict=False):
        yield from pair[:count]
        count -= len(pair)
        if count <= 0:
            return


def once(course: Path, options: argparse.Namespace) -> list[str]:
    """What is unjust about the results; and how it went, printed."""
    (course / "nbgrader_config.py").write_text(CONFIG)
    right = submission(Assignment.load(ROOT / "solutions" / NAME), {})
    honest = [f"honest-{i}" for i in range(options.submissions)]
    for student in honest:
        hand_in(course, student, {f"{NAME}.ipynb": right})
    deserved = dict.fromkeys(honest, 10.0)
    for each in islice(hostile_ones(options.submissions), options.submissions):
        hand_in(course, each.student, each.files)
        deserved[each.student] = each.deserves
    started = time.monotonic()
    with busy_machine(options.load, options.memory, options.leave) as taken:
        under_load = grade(course, options.seconds)
    busy_seconds = time.monotonic() - started
    wrong = [f"{student} is missing" for student in deserved.keys() - under_load.keys()]
    waiting = [student for student, each in under_load.items() if NOT_YET in each["reason"]]
    for student, each in under_load.items():
        if student not in waiting and (each["score"] > deserved[student] or student in honest and each["score"] < 10):
            wrong.append(f"{student} has {each['score']} under load: {each['reason']}")
    final = grade(course, options.seconds, "--resume") if waiting else under_load
    wrong += [f"{s} has {final[s]['score']} later" for s in honest if final[s]["score"] != 10]
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        written = {each.student.id: each.score for each in gradebook.assignment_submissions(NAME)}
    wrong += [
        f"{s} has {written.get(s)} in the gradebook" for s, each in final.items() if written.get(s) != each["score"]
    ]
    print(
        f"{busy_seconds:5.0f} s, {taken:.1f} GiB taken, {len(honest)} honest: "
        f"{sum(s in honest for s in waiting)} not graded yet, {len(wrong)} unjust",
        flush=True,
    )
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repetitions", type=int, nargs="?", default=10)
    parser.add_argument("--submissions", type=int, default=10, help="honest ones, and as many hostile ones")
    parser.add_argument("--load", type=int, default=16, help="busy processes beside the grader")
    parser.add_argument("--memory", type=float, default=0.9, help="share of the memory that is taken")
    parser.add_argument("--leave", type=float, default=4, help="GiB that are left to others, whatever the share")
    parser.add_argument("--seconds", type=float, default=1800, help="the most for one run of the grader")
    options = parser.parse_args()
    wrong = []
    for _ in range(options.repetitions):
        with tempfile.TemporaryDirectory() as course:
            wrong += once(Path(course), options)
    print(*wrong, sep="\n")
    return len(wrong) > 0


if __name__ == "__main__":
    sys.exit(main())
