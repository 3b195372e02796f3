"""Does a submission get its share of the processors, whatever the one beside it starts?"""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest
from printed import text

from ckptlib.grading.run.cell_timeout import Driver
from ckptlib.grading.run.run_submission import Cell, run
from ckptlib.grading.sandbox import cpu_share
from ckptlib.grading.sandbox.limits import Limits
from ckptlib.grading.sandbox.usage_watchdog import Watchdog, look, tree

SECONDS = 2
HONEST = f"""
import time
before, ends = time.process_time(), time.monotonic() + {SECONDS}
while time.monotonic() < ends:
    pass
print(time.process_time() - before)
"""
# Each keeps at it for longer than the honest one runs.
GREEDY = {
    "fifty children, each a session of its own": """
for i in range(50):
    if os.fork() == 0:
        os.setsid()
        busy()
""",
    "threads that do not hold the lock": """
import hashlib, threading
block = bytes(2**24)
for i in range(40):
    threading.Thread(target=lambda: [hashlib.sha256(block) for _ in range(10**6)]).start()
""",
    "children of children": """
for i in range(40):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            busy()
        os._exit(0)
""",
    "other programs": """
import subprocess
for i in range(50):
    subprocess.Popen(["sh", "-c", "while :; do :; done"], start_new_session=True)
""",
    "copies of large blocks": """
for i in range(30):
    if os.fork() == 0:
        os.setsid()
        block, source = bytearray(2**24), bytes(2**24)
        busy(lambda: block.__setitem__(slice(None), source))
""",
}
BUSY = """
import os, time
def busy(work=lambda: None):
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        work()
    os._exit(0)
"""


@pytest.fixture
def may_group():
    """Whether Linux lets this user make a group at all."""
    with subprocess.Popen(["sleep", "60"]) as process:
        group = cpu_share.own_group(process.pid)
        process.kill()
    if group is None:
        pytest.skip("no control group can be made here")
    cpu_share.remove(group)
    assert not group.exists()


@pytest.mark.slow
@pytest.mark.parametrize("greedy", GREEDY.values(), ids=GREEDY.keys())
def test_a_greedy_submission_takes_no_more_than_a_few_times_as_much(greedy, sandbox, may_group):
    """The two are compared with each other, so that it does not matter what else this machine does."""
    limits = Limits(cell_seconds=60)
    neighbour = Driver(sandbox.kernel(limits), limits)
    try:
        neighbour.get_ready(time.monotonic() + 60)
        request = neighbour.kernel.execute(BUSY + greedy)
        ends = time.monotonic() + 60
        while "reply" not in neighbour.kernel.seen[request] and look(neighbour._process.pid).processes < 20:
            neighbour.kernel.pump(neighbour._process.ending, 0.02)
            assert time.monotonic() < ends and neighbour._process.alive()
        before, started = look(neighbour._process.pid).cpu, time.monotonic()
        outputs = run([Cell("honest", HONEST)], [], {}, Limits(), sandbox)["cells"]["honest"]["outputs"]
        taken = (look(neighbour._process.pid).cpu - before) * SECONDS / (time.monotonic() - started)
    finally:
        neighbour.close()
    assert taken > 0.1, "the greedy one was not busy, so that nothing was shown"
    assert float(text(outputs)) > taken / 4


ONE_PROCESSOR = "import os, time; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
ASKS_A_COPY = ONE_PROCESSOR + "if os.fork():\n    os.wait()\nwhile True:\n    pass\n"
SOMEBODY_ELSE = ONE_PROCESSOR + "while True:\n    pass\n"


def test_the_time_in_which_a_copy_of_the_kernel_waits_for_a_processor_counts_too():
    """An answer that is to be one's own is asked in a copy, while the first process waits for the copy's answer."""
    with ExitStack() as both:
        ours, others = (
            both.enter_context(subprocess.Popen([sys.executable, "-c", code])) for code in (ASKS_A_COPY, SOMEBODY_ELSE)
        )
        everybody = [ours.pid]
        try:
            watchdog, ends = Watchdog(ours, Limits()), time.monotonic() + 60
            while watchdog.waited < 1 and time.monotonic() < ends:
                watchdog.check()
                everybody = tree(ours.pid)
                time.sleep(0.05)
            assert watchdog.waited >= 1 > cpu_share.waiting_seconds(ours.pid)
        finally:
            for pid in (*everybody, others.pid):
                os.kill(pid, signal.SIGKILL)
