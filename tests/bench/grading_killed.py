"""Is nothing lost, doubled or asked twice when the coordinator is killed hundreds of times, at random moments?

    python tests/bench/grading_killed.py [kills]      30 unless said

The same runs as in tests/grading/whole_class/test_resume.py, but more of them, each with a new seed, which is printed.
"""

import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "grading"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "grading" / "many"))

from rows import row
from test_resume import STUDENTS, grade_until_done

from ckptlib.grading.sandbox.sandbox import Sandbox


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    seed, kills, runs, started = time.time_ns(), 0, 0, time.monotonic()
    print(f"seed {seed}")
    moments = random.Random(seed)
    with Sandbox.start() as sandbox, tempfile.TemporaryDirectory() as folder:
        while kills < wanted:
            kills, runs = kills + grade_until_done(Path(folder) / str(runs), sandbox, moments), runs + 1
    print(f"{kills} kills in {time.monotonic() - started:.0f} s, {runs * len(STUDENTS)} submissions graded:")
    print("none lost, none doubled, none asked twice")
    row(f"killed {kills} times while grading: none lost, none doubled, none asked twice", "none", "–")


if __name__ == "__main__":
    main()
