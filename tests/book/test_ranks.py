"""Do ranks answer, and is nothing left of them: no process, port or file, whatever happens to them or to the caller?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from ckptlib.book import ranks
from ckptlib.book.ranks import fork
from ckptlib.book.ranks.torchrun import known
from ckptlib.errors import CkptError
from ckptlib.models.configs import Config

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def processes(folder: Path) -> list[int]:
    """Of this test: all that have its temporary folder in their environment, zombies and this one left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            ours = f"TMPDIR={folder}".encode() in (path / "environ").read_bytes()
            dead = (path / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue
        if ours and not dead and int(path.name) != os.getpid():
            found.append(int(path.name))
    return found


def listening(pid: int) -> set[str]:
    """Addresses on which a process waits for connections, in hexadecimal as Linux writes them."""
    inodes = set()
    for fd in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            inodes.add(os.readlink(fd))
        except OSError:
            continue
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{name}").read_text(encoding="utf-8").splitlines()
    ]
    return {row[1].split(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """All temporary files of the test go here; afterwards nothing may be left, neither file nor process."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield tmp_path
    for _ in range(100):
        left = [*tmp_path.iterdir(), *processes(tmp_path)]
        if not left:
            break
        time.sleep(0.05)
    assert left == []


# ---- what the ranks run; each travels as source --------------------------------------------------------------------
def helper(x):
    return 10 * x


class Scaled:
    @staticmethod
    def by(x, times):
        return times * x


def meets(width):
    import os
    from pathlib import Path

    x = torch.full((width,), helper(1.0 + dist.get_rank()))
    dist.all_reduce(x)
    inodes = {os.readlink(fd) for fd in Path("/proc/self/fd").glob("*") if os.path.lexists(fd)}
    rows = [
        line.split()
        for n in ("tcp", "tcp6")
        for line in Path(f"/proc/self/net/{n}").read_text(encoding="utf-8").splitlines()
    ]
    ports = [row[1].split(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes]
    return {
        "rank": dist.get_rank(),
        "x": Scaled.by(x, 2).tolist(),
        "ports": ports,
        "width": Config(1, 2, 1, 4, 5).width,
    }


def dies():
    import os

    if dist.get_rank() == 1:
        os.kill(os.getpid(), 9)
    dist.barrier()


def raises():
    if dist.get_rank() == 1:
        raise ValueError("there is no layer 7")
    dist.barrier()


def hangs():
    import time

    while dist.get_rank() == 1:
        time.sleep(0.1)
    dist.barrier()


def deaf():
    """Does not listen to a polite signal either."""
    import signal
    import time

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1000)


# ---- torchrun -------------------------------------------------------------------------------------------------------
@pytest.mark.slow
@linux
def test_every_rank_answers_and_talks_on_loopback_only(folder):
    found = ranks.run(meets, 2, uses=[helper, Scaled, Config], width=3)
    assert [each["rank"] for each in found] == [0, 1]
    assert all(each["x"] == [60.0] * 3 and each["width"] == 2 for each in found)
    assert {port for each in found for port in each["ports"]} == {"0100007F"}  # 127.0.0.1


@pytest.mark.slow
@linux
@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (dies, "rank 1 of 2 died: killed by SIGKILL"),
        (raises, "rank 1 of 2 raised(.|\n)*ValueError: there is no layer 7"),
    ],
)
def test_a_rank_that_fails_is_named_and_nothing_is_left(folder, fn, said):
    with pytest.raises(ranks.RankError, match=said):
        ranks.run(fn, 2)


@pytest.mark.slow
@linux
@pytest.mark.parametrize("fn", [hangs, deaf])
def test_a_rank_that_hangs_is_ended_in_time(folder, fn):
    began = time.monotonic()
    with pytest.raises(ranks.RankError, match="no answer after 25 s") as caught:
        ranks.run(fn, 2, seconds=25)
    assert time.monotonic() - began < 25 + 60
    if fn is hangs:
        assert "in hangs" in str(caught.value) or "rank 1 was here" in str(caught.value)


CALLER = """
import sys, time
from ckptlib.book import ranks

def waits():
    import time
    from pathlib import Path
    import tempfile
    Path(tempfile.gettempdir(), f"up-{dist.get_rank()}").touch()
    time.sleep(1000)

try:
    ranks.run(waits, 2, seconds=500)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.slow
@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_ranks_go_with_their_caller(folder, tmp_path_factory, number):
    script = tmp_path_factory.mktemp("caller") / "caller.py"
    script.write_text(CALLER)
    caller = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    for _ in range(1200):
        if len(list(folder.glob("*/up-*"))) == 2:
            break
        time.sleep(0.05)
    assert len(processes(folder)) == 4  # the caller, torchrun, two ranks
    caller.send_signal(number)
    out, _ = caller.communicate(timeout=120)
    assert out == ("interrupted\n" if number == signal.SIGINT else "")  # what is left is the fixture's to see


def test_a_function_without_source_is_refused(folder):
    namespace: dict = {}
    exec("def made():\n    return 1", namespace)
    with pytest.raises(CkptError, match="source of made is not available"):
        ranks.run(namespace["made"])


def test_source_of_functions_and_classes_wherever_they_stand():
    assert ranks.source(helper) == "def helper(x):\n    return 10 * x\n"
    assert ranks.source(Scaled).startswith("class Scaled:\n    @staticmethod\n    def by(")
    assert known(Config) == "from ckptlib.models.configs import Config"

    class Inside:
        @staticmethod
        def one():
            return 1

    assert textwrap.dedent(ranks.source(Inside)).startswith("class Inside:")


# ---- forked ---------------------------------------------------------------------------------------------------------
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


def children() -> list[int]:
    return [int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()]


@linux
@needs_fork
def test_copies_of_this_process_meet_and_go(folder):
    before = children()
    secret = torch.arange(4.0)

    def step(rank):
        x = (secret + rank).requires_grad_()
        y = x.detach().clone()
        dist.all_reduce(y)
        (x * y).sum().backward()  # autograd works in a copy, also if it ran here before
        return [x.grad.tolist(), sorted(listening(os.getpid()))]

    torch.ones(2, requires_grad=True).sum().backward()
    found = ranks.forked(step, 3)
    assert found == [[(3 * secret + 3).tolist(), ["0100007F"]]] * 3
    assert children() == before and not dist.is_initialized()


@needs_fork
@pytest.mark.slow
def test_copies_that_had_no_processor_are_asked_again(tmp_path):
    def late(rank):
        """Works for ever the first time, and would be a mistake; but nine others work on the same processor."""
        asked = tmp_path / f"asked {rank}"
        while not asked.exists() or asked.read_text() == str(os.getpid()):
            asked.write_text(str(os.getpid()))
        return rank

    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(mine)})
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]
    try:
        assert ranks.forked(late, 2, seconds=3) == [0, 1]
    finally:
        for each in others:
            each.kill()
            each.wait()
        os.sched_setaffinity(0, mine)


@needs_fork
@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (dies, "rank 1 of 2 gave no answer"),
        (raises, "rank 1: ValueError: there is no layer 7 .line"),
        (hangs, "gave no answer|imed out"),
    ],
)
@pytest.mark.slow
def test_a_copy_that_fails_is_named(folder, fn, said):
    before, began = children(), time.monotonic()
    with pytest.raises(ranks.RankError, match=said):
        ranks.forked(lambda rank: fn(), seconds=5)
    assert children() == before and time.monotonic() - began < 60


@pytest.mark.slow
@linux
@needs_fork
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_copies_go_with_their_caller(folder, tmp_path_factory, number):
    script = tmp_path_factory.mktemp("caller") / "caller.py"
    script.write_text(
        "import os, time, torch\nfrom pathlib import Path\nfrom ckptlib.book import ranks\n"
        "up = lambda rank: (Path(os.environ['UP'], str(rank)).touch(), time.sleep(1000))\n"
        "try:\n    ranks.forked(up, seconds=500)\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
    )
    signs = tmp_path_factory.mktemp("up")
    environment = {**os.environ, "UP": str(signs)}
    caller = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment)
    for _ in range(1200):
        if len(list(signs.iterdir())) == 2:
            break
        time.sleep(0.05)
    assert len(processes(folder)) == 3
    caller.send_signal(number)
    caller.communicate(timeout=120)


# ---- where there is neither fork nor gloo ---------------------------------------------------------------------------
def all_collectives(rank):
    n, own = dist.get_world_size(), torch.Generator().manual_seed(rank)

    def mine(*shape):
        return torch.randn(*shape, generator=own, dtype=torch.float64)

    def empty(*shape):
        return torch.empty(*shape, dtype=torch.float64)

    found = []
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN):
        x, y = mine(3), mine(3)
        dist.all_reduce(x, op)
        kept = y.clone()
        dist.reduce(y, 1, op)
        found += [x, y if rank == 1 else kept]  # elsewhere, y is nobody's promise
    dist.broadcast(x := mine(2, 2), 1)
    dist.all_gather(pieces := list(empty(n, 2)), mine(2))
    dist.all_gather_into_tensor(gathered := empty(2 * n, 3), mine(2, 3))
    dist.reduce_scatter_tensor(piece := empty(2, 3), mine(2 * n, 3))
    dist.reduce_scatter(part := empty(2), list(mine(n, 2)))
    dist.scatter(share := empty(2), list(mine(n, 2)) if rank == 1 else None, src=1)
    dist.gather(mine(2), collected := list(torch.zeros(n, 2, dtype=torch.float64)) if rank == 0 else None, dst=0)
    dist.all_to_all_single(swapped := empty(n, 2), mine(n, 2))
    found += [x, *pieces, gathered, piece, part, share, *(collected or []), swapped]
    if rank < 2:  # a letter each way
        order = [dist.send, dist.recv] if rank == 0 else [dist.recv, dist.send]
        letters = {dist.send: mine(2), dist.recv: empty(2)}
        for way in order:
            way(letters[way], 1 - rank)
        found.append(letters[dist.recv])
    dist.all_gather_object(objects := [None] * n, {"rank": rank})
    return [x.tolist() for x in found] + [objects]


@linux
@pytest.mark.parametrize("n", [2, 3])
def test_threads_and_a_store_give_what_processes_and_gloo_give(n, monkeypatch):
    expected = ranks.forked(all_collectives, n, seconds=30)
    monkeypatch.setattr(fork, "sys", SimpleNamespace(platform="win32"))
    found = ranks.forked(all_collectives, n, seconds=30)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine[-1] == theirs[-1]
        for x, y in zip(mine[:-1], theirs[:-1], strict=True):
            torch.testing.assert_close(torch.tensor(x), torch.tensor(y))


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (raises, "rank 1: ValueError: there is no layer 7 .line"),
        (hangs, "rank . of 2 gave no answer"),
        (lambda: dist.barrier() if dist.get_rank() else dist.all_reduce(torch.ones(1)), "Timed out: rank"),
        (lambda: torch.ones(2), "not JSON serializable"),
    ],
)
@pytest.mark.slow
def test_a_thread_that_fails_is_named_and_the_next_ranks_are_undisturbed(monkeypatch, fn, said):
    monkeypatch.setattr(fork, "sys", SimpleNamespace(platform="darwin"))
    torch.manual_seed(7)
    state = torch.get_rng_state()
    with pytest.raises(ranks.RankError, match=said):
        ranks.forked(lambda rank: fn(), seconds=3)
    assert not dist.is_initialized() and torch.equal(torch.get_rng_state(), state)
    expected = torch.randn(2).tolist()
    torch.manual_seed(7)
    assert ranks.forked(lambda rank: [rank, torch.randn(2).tolist()], 3) == [[rank, expected] for rank in range(3)]


def test_answers_are_plain_data(folder):
    assert ranks.forked(lambda rank: {"rank": rank, "text": "µ" * 100_000})[1]["rank"] == 1
    with pytest.raises(ranks.RankError, match="not JSON serializable"):
        ranks.forked(lambda rank: torch.ones(2))
