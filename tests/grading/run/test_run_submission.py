"""Does every run end, in time, with a reason, and cost the honest cells nothing? Kernels that do their worst."""

import json
import textwrap
import time
from pathlib import Path

import nbformat
import pytest
from printed import text

from ckptlib.grading.run.run_submission import Cell, Question, run, run_and_ask_again
from ckptlib.grading.sandbox.limits import MIB, Limits

ANSWER = "from IPython.display import display; display({{'application/vnd.ckptlib.answer+json': {}}}, raw=True)"
FAST = {"cell_seconds": 1.2, "wall_seconds": 30.0}


def asked(data: str = "honest", nonce: str = "n-1") -> Question:
    return Question("q", ANSWER.format(f"{{'nonce': {nonce!r}, 'data': {data}}}"), "n-1")


def graded(sandbox, culprit: str, questions=None, **limits) -> dict:
    """An honest cell, the culprit, another honest cell, and one question about what the honest ones did."""
    sources = {"first": "honest = [1]", "culprit": textwrap.dedent(culprit), "last": "honest += [2]; honest"}
    cells = [Cell(name, source) for name, source in sources.items()]
    started = time.monotonic()
    transcript = run(cells, [asked()] if questions is None else questions, {}, Limits(**(FAST | limits)), sandbox)
    assert time.monotonic() - started < (FAST | limits)["wall_seconds"] + 5
    assert json.loads(json.dumps(transcript)) == transcript
    return transcript


def honest_part_is_whole(transcript: dict) -> bool:
    cells, answer = transcript["cells"], transcript["questions"]["q"]["answer"]
    return cells["first"]["status"] == cells["last"]["status"] == "ok" and answer == {"nonce": "n-1", "data": [1, 2]}


def left_over(sandbox) -> list[str]:
    """Processes, other than the warm one, of whoever kernels run as."""
    from ckptlib.grading.sandbox.usage_watchdog import tree

    deadline = time.monotonic() + 30
    while len(found := tree(sandbox.pid)) > 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    return [Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8") for pid in found[2:]]


def test_outputs_are_a_notebooks(sandbox):
    code = """
    import sys, warnings, matplotlib.pyplot as plt
    from IPython.display import HTML, clear_output, display, update_display
    print("one"); print("two"); print("three", file=sys.stderr)
    handle = display("before", display_id="d"); update_display("after", display_id="d")
    plt.plot([1, 2]); plt.show()
    warnings.warn("careful")
    display(HTML("<b>bold</b>"))
    6 * 7
    """
    clear = "print('gone'); clear_output(); print('kept')"
    cells = [Cell("a", textwrap.dedent(code)), Cell("b", clear), Cell("c", "1/0")]
    transcript = run(cells, [], {}, Limits(), sandbox)
    outputs = transcript["cells"]["a"]["outputs"]
    kinds = [(o["output_type"], o.get("name", "")) for o in outputs]
    assert kinds[:3] == [("stream", "stdout"), ("stream", "stderr"), ("display_data", "")]
    assert outputs[0]["text"] == "one\ntwo\n"
    assert outputs[2]["data"] == {"text/plain": "'after'"}
    assert any("image/png" in o.get("data", ()) for o in outputs)
    assert outputs[-1]["data"] == {"text/plain": "42"} and outputs[-1]["output_type"] == "execute_result"
    assert text(transcript["cells"]["b"]["outputs"]) == "kept\n"
    assert transcript["cells"]["c"]["status"] == "error"
    assert text(transcript["cells"]["c"]["outputs"]) == "ZeroDivisionError"
    notebook = nbformat.v4.new_notebook()
    for cell in cells:
        made = nbformat.v4.new_code_cell(cell.source, outputs=transcript["cells"][cell.id]["outputs"])
        notebook.cells.append(nbformat.from_dict(made))
    nbformat.validate(notebook)
    assert transcript["events"] == [] and transcript["sandboxed"] and transcript["resources"]["kernels"] == 1


def test_files_are_there_and_input_is_refused_at_once(sandbox):
    cells = [
        Cell("read", "import mine; print(mine.x, open('data/points.csv').read())"),
        Cell("input", "input('name?')"),
    ]
    files = {"data/points.csv": b"1,2", "mine.py": b"x = 5", "../x": b"", "big": bytes(65 * MIB)}
    transcript = run(cells, [], files, Limits(), sandbox)
    assert text(transcript["cells"]["read"]["outputs"]) == "5 1,2\n"
    assert [event.split("'")[1] for event in transcript["events"]] == ["../x", "big"]
    assert transcript["cells"]["input"]["outputs"][-1]["ename"] == "StdinNotImplementedError"
    assert transcript["resources"]["wall_seconds"] < Limits().cell_seconds


def test_honest_use_of_processes_threads_and_torch_works(sandbox):
    code = """
    import concurrent.futures, multiprocessing, subprocess, torch
    print(subprocess.check_output(["echo", "shell"], text=True))
    print(sum(concurrent.futures.ThreadPoolExecutor(4).map(abs, range(5))))
    with multiprocessing.get_context("fork").Pool(2) as pool: print(pool.map(abs, [-1, 2]))
    print(sum(b.sum().item() for b in torch.utils.data.DataLoader(torch.ones(8), batch_size=2, num_workers=2)))
    x = torch.randn(400, 400, requires_grad=True); (x @ x).sum().backward(); print(x.grad.shape)
    """
    transcript = graded(sandbox, code, cell_seconds=20)
    culprit = transcript["cells"]["culprit"]
    assert text(culprit["outputs"]).split("\n") == ["shell", "", "10", "[1, 2]", "8.0", "torch.Size([400, 400])", ""]
    assert honest_part_is_whole(transcript)


KILLS = {
    "exits": "import os; os._exit(3)",
    "segfault": "import ctypes; ctypes.string_at(0)",
    "abort": "import os; os.abort()",
    "deep recursion": "import sys; sys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "closes its sockets": "import os; os.closerange(3, 400)\nwhile True: pass",
    "stops its loop": "import asyncio; asyncio.get_event_loop().stop()",
    "stops its loop, never dies": "import asyncio, threading, time\n"
    "threading.Thread(target=time.sleep, args=(600,)).start(); asyncio.get_event_loop().stop()",
    "a moment later": "import os, threading; threading.Timer(0.002, os._exit, (0,)).start()",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KILLS)
def test_a_cell_that_ends_the_kernel_costs_only_itself(name, sandbox):
    transcript = graded(sandbox, KILLS[name])
    assert transcript["cells"]["culprit"]["status"] in ("died", "timeout"), transcript
    assert transcript["resources"]["kernels"] >= 2  # a cell that may have been struck from behind gets a second try
    assert honest_part_is_whole(transcript), transcript
    assert len(transcript["events"]) == 1 and "'culprit'" in transcript["events"][0]
    assert left_over(sandbox) == []


LATE = {
    "while the third is running": "import os, threading; threading.Timer(0.7, os._exit, (0,)).start()",
    "after it stood still": "import asyncio, time; loop = asyncio.get_event_loop()\n"
    "loop.call_later(0.02, lambda: (time.sleep(3), loop.stop()))",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LATE)
def test_a_kill_that_comes_later_costs_only_the_cell_that_started_it(name, sandbox):
    innocent = [Cell(f"innocent {i}", f"import time; time.sleep(0.25); i = {i}") for i in range(4)]
    cells = [Cell("honest", "honest = [1, 2]"), Cell("late", LATE[name]), *innocent]
    transcript = run(cells, [asked()], {}, Limits(cell_seconds=6, wall_seconds=60), sandbox)
    assert {cell: seen["status"] for cell, seen in transcript["cells"].items() if seen["status"] != "ok"} == {
        "late": "died"
    }
    assert transcript["questions"]["q"]["answer"]["data"] == [1, 2]
    assert transcript["events"] == ["cell 'late' ended the kernel a moment after it had run"]


def test_a_last_cell_that_ends_the_kernel_during_the_questions_is_found(sandbox):
    late = "import os, threading; threading.Timer(0.002, os._exit, (0,)).start()"
    cells = [Cell("honest", "honest = [1, 2]"), Cell("late", late)]
    transcript = run(cells, [asked(), Question("p", asked().code, "n-1")], {}, Limits(**FAST), sandbox)
    assert transcript["cells"]["late"]["status"] == "died"
    assert [q["answer"] and q["answer"]["data"] for q in transcript["questions"].values()] == [[1, 2], [1, 2]]


def test_exit_does_nothing(sandbox):
    transcript = graded(sandbox, "exit()\nquit()\n%quit")
    assert honest_part_is_whole(transcript) and transcript["events"] == []


HANGS = {
    "loop": "while True: pass",
    "sleep": "import time; time.sleep(1000)",
    "child": "import subprocess; subprocess.run(['sleep', '1000'])",
    "stops itself": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)\nwhile True: pass",
}
STUBBORN = {
    "ignores interrupts": "import time\nwhile True:\n    try: time.sleep(0.01)\n    except BaseException: pass",
    "ignores the signal": "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
    "stuck in C": "import ctypes, signal; signal.pthread_sigmask(0, range(1, 65))\nctypes.CDLL(None).pause()",
    "never replies": "get_ipython().kernel.session.send = lambda *a, **k: None",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HANGS | STUBBORN)
def test_a_cell_that_hangs_is_interrupted_then_killed(name, sandbox):
    transcript = graded(sandbox, (HANGS | STUBBORN)[name])
    assert transcript["cells"]["culprit"]["status"] == "timeout"
    assert transcript["resources"]["kernels"] == (1 if name in HANGS else 2)
    assert honest_part_is_whole(transcript), transcript
    assert "longer than 1.2 s" in transcript["events"][0]
    assert left_over(sandbox) == []


DETACHES = """
import os, subprocess, sys, threading, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        import ctypes
        ctypes.CDLL(None).prctl(1, 0)  # do not die with the parent
        time.sleep(1000)
    os._exit(0)
ctypes = __import__("ctypes"); ctypes.CDLL(None).prctl(1, 0)
threading.Thread(target=time.sleep, args=(1000,)).start()
"""


def test_detached_processes_and_threads_are_gone_afterwards(sandbox):
    transcript = graded(sandbox, DETACHES)
    assert transcript["cells"]["culprit"]["status"] == "ok"
    assert transcript["resources"]["processes"] >= 3
    assert honest_part_is_whole(transcript)
    assert left_over(sandbox) == []


EXHAUSTS = {  # code, limits, statuses that are right
    "bytes": ("x = bytearray(3 << 30)", {}, {"error"}),
    "torch": ("import torch; x = torch.ones(3 << 28)", {}, {"error"}),
    "a little at a time": ("x = []\nwhile True: x.append(bytearray(1 << 20))", {"memory": 300 * MIB}, {"error"}),
    "shared memory": (
        "import mmap\nx = []\nwhile True:\n    x.append(mmap.mmap(-1, 1 << 26)); x[-1].write(b'x' * (1 << 26))",
        {"memory": 300 * MIB},
        {"died"},
    ),
    "many processes": (
        "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        x = bytearray(b'x') * (200 << 20)\n"
        "        time.sleep(60)\ntime.sleep(60)",
        {"memory": 400 * MIB, "cell_seconds": 10},
        {"died"},
    ),
    "forks": ("import os\nwhile True: os.fork()", {"cell_seconds": 1.2}, {"error", "died", "timeout"}),
    "forks patiently": (
        "import os, time\nwhile True:\n    try: os.fork()\n    except BaseException: pass",
        {"cell_seconds": 1},
        {"died", "timeout"},
    ),
    "threads": (
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=[99]).start()",
        {},
        {"error"},
    ),
    "one file": ("open('big', 'wb').write(bytes(100 << 20))", {}, {"error"}),
    "processor": ("import os; os.fork()\nwhile True: pass", {"cpu_seconds": 2, "cell_seconds": 20}, {"died"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXHAUSTS)
def test_a_cell_that_uses_too_much_is_stopped(name, sandbox):
    code, limits, right = EXHAUSTS[name]
    transcript = graded(sandbox, code, **{"cell_seconds": 10, **limits})
    assert transcript["cells"]["culprit"]["status"] in right, transcript["cells"]["culprit"]
    if name not in ("forks", "threads"):  # those who go on forking or threading take the honest cells' share too
        assert honest_part_is_whole(transcript), transcript
    used = transcript["resources"]
    # Forty processes want 16 GB; how late the watchdog comes depends on how busy the machine is.
    assert used["peak_rss"] < used["baseline_rss"] + 8 * limits.get("memory", 1 << 31)
    assert left_over(sandbox) == []


def test_the_disk_is_small_and_shared_by_all_folders(sandbox):
    code = """
    import os
    n = 0
    try:
        for i in range(1000):
            for folder in ("/tmp", "/dev/shm", ".", os.environ["HOME"]):
                n += open(f"{folder}/{i}", "wb").write(bytes(1 << 20))
    except OSError as error:
        print(n >> 20, error.strerror)
    """
    transcript = graded(sandbox, code, disk_bytes=20 * MIB)
    written, why = text(transcript["cells"]["culprit"]["outputs"]).split(maxsplit=1)
    assert 10 <= int(written) <= 20 and why.strip() == "No space left on device"
    assert honest_part_is_whole(transcript)


FLOODS = {
    "print": "while True: print('x' * 1000)",
    "display": "from IPython.display import display\nwhile True: display('y' * 100_000)",
    "write": "import os\nwhile True: os.write(1, b'z' * 65536)",
    "clear": "from IPython.display import clear_output\nwhile True: print('x' * 1000); clear_output()",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_output_is_cut_and_stopped(name, sandbox):
    transcript = graded(sandbox, FLOODS[name], cell_output_bytes=MIB // 8, cell_seconds=20)
    culprit = transcript["cells"]["culprit"]
    assert (culprit["status"], culprit["why"]) == ("timeout", "output")
    assert len(json.dumps(culprit["outputs"])) < MIB
    assert honest_part_is_whole(transcript)


def test_much_output_is_cut_without_harm(sandbox):
    transcript = graded(sandbox, "print('a' * 3_000_000); print('end')")
    culprit = transcript["cells"]["culprit"]
    assert culprit["status"] == "ok"
    assert culprit["outputs"][0]["text"].startswith("aaaa") and "output cut here" in culprit["outputs"][-1]["text"]
    assert honest_part_is_whole(transcript)


@pytest.mark.parametrize("code", ["print('a' * (12 << 20))", "import IPython\nIPython.display.HTML('a' * (12 << 20))"])
def test_a_message_that_is_too_large_is_not_kept(code, sandbox):
    transcript = graded(sandbox, code, cell_seconds=20)
    culprit = transcript["cells"]["culprit"]
    assert culprit["status"] == "ok"
    assert text(culprit["outputs"]) == "\n[output cut here: the limit is 1048576 bytes]\n"
    assert honest_part_is_whole(transcript)


@pytest.mark.slow
def test_too_many_messages_of_any_kind_are_stopped(sandbox):
    code = """
    import threading
    kernel = get_ipython().kernel
    def flood():
        while True: kernel.session.send(kernel.iopub_socket, "status", {"x": "y" * 100_000})
    threading.Thread(target=flood, daemon=True).start()
    import time; time.sleep(60)
    """
    transcript = graded(sandbox, code, cell_seconds=20, output_bytes=MIB // 4)
    assert transcript["cells"]["culprit"]["why"] == "output"
    assert honest_part_is_whole(transcript)


FORGES = {
    "early, any nonce": (ANSWER.format("{'nonce': 'guess', 'data': [1, 2]}"), "ok"),
    "twice": (
        "import IPython.core.display_functions as f, IPython.display as d\nold = d.display\n"
        "d.display = lambda *a, **k: (old(*a, **k), old(*a, **k))",
        "several answers",
    ),
    "another nonce": (
        "import IPython.display as d\nold = d.display\n"
        "d.display = lambda data, **k: old({m: {**v, 'nonce': 'guess'} for m, v in data.items()}, **k)",
        "a forged answer",
    ),
    "silent": ("import IPython.display as d\nd.display = lambda *a, **k: None", "no answer"),
    "raises": ("import IPython.display as d\nd.display = None", "error"),
    "another request": (
        "s = get_ipython().display_pub\nparent = dict(s.parent_header)\nimport IPython.display as d\nold = d.display\n"
        "def display(*a, **k):\n    s.set_parent({'header': parent}); old(*a, **k)\nd.display = display",
        "no answer",
    ),
    "not an object": (
        "import IPython.display as d\nold = d.display\nd.display = lambda data, **k: old({m: [1] for m in data}, **k)",
        "a forged answer",
    ),
    "dies when asked": ("import IPython.display as d, os\nd.display = lambda *a, **k: os._exit(0)", "died"),
    "hangs when asked": (
        "import IPython.display as d\ndef display(*a, **k):\n    while True: pass\nd.display = display",
        "timeout",
    ),
}


@pytest.mark.parametrize("name", FORGES)
def test_only_the_one_right_answer_counts(name, sandbox):
    code, reason = FORGES[name]
    transcript = graded(sandbox, code)
    if reason == "ok":
        assert honest_part_is_whole(transcript)
        assert "was not counted" in transcript["events"][0]
    else:
        assert transcript["questions"]["q"]["answer"] is None
        assert transcript["questions"]["q"]["reason"] == reason


GARBLES = {
    "unsigned": "send([b'<IDS|MSG>', b'0' * 64, b'{}', b'{}', b'{}', b'{}'])",
    "no delimiter": "send([b'what'])",
    "no JSON": "send(signed(b'{', b'{}', b'{}', b'{}'))",
    "deep JSON": "send(signed(b'[' * 100_000 + b']' * 100_000, b'{}', b'{}', b'{}'))",
    "deep content": "send(signed(b'{}', b'{}', b'{}', b'{\"a\":' * 500 + b'1' + b'}' * 500))",
    "huge number": "send(signed(b'{}', b'{}', b'{}', b'{\"a\": ' + b'9' * 10_000 + b'}'))",
    "lists for objects": "send(signed(b'[]', b'[]', b'[]', b'[]'))",
    "parts without end": "send([b'x'] * 10_000)",
    "odd types": "send(signed(b'{\"msg_type\": 1}', b'{\"msg_id\": []}', b'{}', b'{}'))",
}
SENDER = """
import hashlib, hmac
kernel = get_ipython().kernel
key = kernel.session.key
def signed(*parts):
    return [b"<IDS|MSG>", hmac.new(key, b"".join(parts), hashlib.sha256).hexdigest().encode(), *parts]
def send(frames):
    kernel.iopub_thread.send_multipart(frames)
for _ in range(50):
    """


@pytest.mark.parametrize("name", GARBLES)
def test_garbage_is_recognised(name, sandbox):
    transcript = graded(sandbox, SENDER + GARBLES[name] + "\nimport time; time.sleep(60)", cell_seconds=5)
    culprit = transcript["cells"]["culprit"]
    assert (culprit["status"], culprit["why"]) == ("died", "garbage"), culprit
    assert honest_part_is_whole(transcript)


def test_outputs_out_of_shape_are_left_out(sandbox):
    code = """
    import json
    kernel = get_ipython().kernel
    parent = kernel.get_parent()
    kernel.session.pack = lambda o: json.dumps(o, default=str).encode()  # the usual one cannot send half a character
    for kind, content in [
        ("stream", {"name": "x", "text": 1}),
        ("display_data", {"data": 5}),
        ("error", {"traceback": 3}),
        ("execute_result", {"data": {"text/plain": 7, "a/b": "ok"}, "execution_count": "no"}),
        ("display_data", {"data": {"text/plain": "\\ud800"}, "metadata": 3, "transient": 4}),
        ("update_display_data", {"data": {}, "transient": {"display_id": {}}}),
        ("nonsense", {}),
    ]:
        kernel.session.send(kernel.iopub_socket, kind, content, parent=parent)
    """
    transcript = graded(sandbox, code)
    outputs = transcript["cells"]["culprit"]["outputs"]
    assert [o["output_type"] for o in outputs] == ["error", "execute_result", "display_data"]
    assert outputs[1]["data"] == {"a/b": "ok"} and outputs[1]["execution_count"] is None
    json.dumps(outputs, ensure_ascii=False).encode()
    assert honest_part_is_whole(transcript)


def test_the_whole_submission_has_an_end(sandbox):
    slow = [Cell(f"slow{i}", "import time; time.sleep(0.8)") for i in range(20)]
    started = time.monotonic()
    transcript = run(slow, [asked()], {}, Limits(cell_seconds=1, wall_seconds=2.5), sandbox)
    assert time.monotonic() - started < 16  # all of them
    assert [c["status"] for c in transcript["cells"].values()].count("skipped") >= 15
    assert transcript["questions"]["q"]["reason"] == "wall time"
    assert "were over" in transcript["events"][-1]


def test_the_peak_of_one_question_is_measured_from_outside(sandbox):
    size = 150 * MIB
    answer = ANSWER.format("{'nonce': 'n', 'data': 0}")
    codes = {"small": answer, "big": f"import torch; x = torch.ones({size} // 4); del x; {answer}", "after": answer}
    questions = [Question(name, code, "n") for name, code in codes.items()]
    transcript = run([Cell("a", "import torch")], questions, {}, Limits(), sandbox)
    grew = {name: q["rss_peak"] - q["rss_before"] for name, q in transcript["questions"].items()}
    assert size <= grew["big"] < size + 30 * MIB
    assert grew["small"] < 10 * MIB and grew["after"] < 10 * MIB
    assert transcript["resources"]["peak_rss"] >= size


# ---- asking again stays within the limits ---------------------------------------------------------------------------
HOLD = {
    "endless answers": ("", "while True: pass"),
    "sleeping answers": ("import time", "time.sleep(1000)"),
    "answers that wait for a process": ("import subprocess", "subprocess.run(['sleep', '1000'])"),
    "deaf answers": ("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)", "while True: pass"),
    "a cell that ends the kernel late": (
        "import os, threading; threading.Timer(3, os._exit, (1,)).start()",
        "import time; time.sleep(1000)",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOLD)
def test_unanswered_questions_hold_a_worker_no_longer_than_the_limit(name, sandbox):
    before, body = HOLD[name]
    names = [f"q{i}" for i in range(8)]
    cells = [Cell("first", before), *(Cell(each, f"{each} = 1") for each in names)]
    questions = [Question(each, body, "n") for each in names]
    limits = Limits(cell_seconds=2, wall_seconds=12)
    started = time.monotonic()
    seen = run_and_ask_again(cells, questions, {each: each for each in names}, {}, limits, sandbox)
    # Waiting for a processor does not count, up to as much again. Two seconds are to end the last kernel.
    longest = 2 * limits.wall_seconds + 5
    assert time.monotonic() - started < longest
    assert all(seen["questions"][each]["answer"] is None for each in names)
    assert seen["resources"]["wall_seconds"] < longest


@pytest.mark.slow
def test_a_bad_cell_still_costs_only_its_task(sandbox):
    names = ["bad", "good", "fine"]
    cells = [Cell("bad", "import os, threading; threading.Timer(0.5, os._exit, (1,)).start()")]
    cells += [Cell(each, f"{each} = 1") for each in names[1:]]
    good = ANSWER.format("{'nonce': 'n', 'data': 1}")
    questions = [Question("bad", "while True: pass", "n"), *(Question(each, good, "n") for each in names[1:])]
    seen = run_and_ask_again(cells, questions, {each: each for each in names}, {}, Limits(cell_seconds=2), sandbox)
    assert [seen["questions"][each]["answer"] is not None for each in names] == [False, True, True]


DEEP = """
import os
try:
    while True:
        os.mkdir("d")
        os.chdir("d")
except OSError:
    pass
"""


def test_a_folder_as_deep_as_they_go_takes_no_time_from_what_follows(sandbox):
    """There, one os.getcwd() needs 15 s of a processor and cannot be interrupted, and every import calls it."""
    cells = [Cell("deep", DEEP), Cell("next", "import colorsys, os; print(len(os.getcwd())); colorsys.nothing")]
    seen = run(cells, [], {}, Limits(), sandbox)
    assert text(seen["cells"]["next"]["outputs"]).startswith("18")  # back in /home/student/work
    assert seen["resources"]["cpu_seconds"] < 8
