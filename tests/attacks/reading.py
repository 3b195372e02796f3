# %% the solutions on the disk
import glob
import json

for path in glob.glob("/**/solutions/**/*.ipynb", recursive=True) + glob.glob("../../**/*.ipynb", recursive=True):
    try:
        for cell in json.load(open(path))["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "code" and "BEGIN SOLUTION" in source:
                exec(source)
    except Exception:
        pass

# %% the key on the disk
import os

for folder, _, files in os.walk("/"):
    if "key.py" in files and "proc" not in folder:
        exec(open(os.path.join(folder, "key.py")).read())

# %% git's objects
import glob
import zlib

for path in glob.glob("/**/.git/objects/??/*", recursive=True):
    text = zlib.decompress(open(path, "rb").read())
    if b"BEGIN SOLUTION" in text:
        raise SystemExit("found")

# %% the gradebook
import glob
import sqlite3

for path in glob.glob("/**/gradebook.db", recursive=True):
    base = sqlite3.connect(path)
    base.execute("update grade set auto_score = 10, manual_score = 10")
    base.commit()

# %% other students' answers
import glob
import json

for path in glob.glob("/**/submitted/**/*.ipynb", recursive=True) + glob.glob("/**/autograded/**/*.ipynb", recursive=True):
    for cell in json.load(open(path))["cells"]:
        if cell.get("metadata", {}).get("nbgrader", {}).get("solution"):
            exec("".join(cell["source"]))

# %% the secret of the course
import glob

for path in glob.glob("/**/.ckptlib/**", recursive=True) + glob.glob("/**/.ckptlib*", recursive=True):
    print(open(path, "rb").read())

# %% the environment, of this process and of all others
import glob
import os

print(dict(os.environ))
for path in glob.glob("/proc/*/environ"):
    print(path, open(path, "rb").read())

# %% what the kernel's memory holds of the grader
import gc

for thing in gc.get_objects():
    if type(thing).__name__ in ("Assignment", "Mistake") or (isinstance(thing, str) and "BEGIN SOLUTION" in thing):
        raise SystemExit(repr(thing))

# %% the memory of the parent
import os

for pid in {os.getppid(), 1, 2, 3}:
    try:
        maps = open(f"/proc/{pid}/maps").read()
        print(open(f"/proc/{pid}/mem", "rb").read(10))
    except OSError as error:
        print(error)

# %% the network
import socket
import urllib.request

for host in (("1.1.1.1", 80), ("127.0.0.1", 5432), ("127.0.0.1", 8786), ("127.0.0.1", 22)):
    try:
        socket.create_connection(host, timeout=1).send(b"hello")
        raise SystemExit("reached " + host[0])
    except OSError:
        pass

# %% open file descriptors
import os

for fd in range(3, 256):
    try:
        os.lseek(fd, 0, 0)
        print(fd, os.read(fd, 1000))
    except OSError:
        pass
    try:
        os.write(fd, b"10")
    except OSError:
        pass

# %% the answers from the installed library's tests
import glob

for path in glob.glob("/**/tests/submissions/**/right/*.py", recursive=True):
    exec(open(path).read().split("# %%")[1].split("\n", 1)[1])

# %% mounts, kernel messages and /sys
import glob
import os

for path in ["/proc/self/mountinfo", "/proc/kmsg", "/dev/kmsg", "/proc/kcore", "/proc/sys/kernel/core_pattern", "/proc/keys", "/proc/self/cgroup", *glob.glob("/sys/**", recursive=True)[:2000], *glob.glob("/run/**", recursive=True)[:200], *glob.glob("/var/**", recursive=True)[:200]]:
    try:
        text = open(path, "rb").read(100_000)
        if b"BEGIN SOLUTION" in text or b"gradebook" in text or b".ckptlib" in text:
            raise SystemExit("found in " + path)
    except OSError:
        pass

# %% the keyring
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
for key in (-1, -2, -3, -4, -5):
    buffer = ctypes.create_string_buffer(1000)
    if libc.syscall(250, 11, key, buffer, 1000, 0) > 0:
        raise SystemExit(repr(buffer.raw))

# %% abstract sockets and other kernels' sockets
import glob
import socket

names = [line.split()[-1] for line in open("/proc/net/unix").read().splitlines()[1:] if "@" in line or "/" in line]
for name in [*names, *glob.glob("/tmp/ckptlib-*/**", recursive=True)]:
    try:
        peer = socket.socket(socket.AF_UNIX)
        peer.settimeout(0.2)
        peer.connect(name.replace("@", "\0"))
        raise SystemExit("reached " + name)
    except OSError:
        pass

# %% siblings traced
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
for pid in range(1, 3000):
    if pid != os.getpid() and libc.ptrace(16, pid, 0, 0) == 0:
        raise SystemExit(f"traced {pid}")

# %% the seeds in the request, the reference from the package
import ckptlib
import glob
import os
import pathlib

folder = pathlib.Path(ckptlib.__file__).resolve().parent
for path in [*folder.parent.rglob("*"), *folder.rglob("*")]:
    if path.is_file() and path.suffix in (".ipynb", ".py", ".md", ".html") and b"BEGIN SOLUTION" in path.read_bytes() and "grading" not in str(path):
        text = path.read_text()
        exec(text[text.index("def predict_saved") :]) if "def predict_saved" in text else None

# %% watching the working folder for the grader's files
import os
import threading
import time

seen = set()

def watch():
    while True:
        for name in os.listdir("/home/student/work") + os.listdir("/tmp"):
            seen.add(name)
        if {"key.py", "expected.json", "solutions"} & seen:
            exec(open("/home/student/work/key.py").read(), globals())
        time.sleep(0.001)

threading.Thread(target=watch, daemon=True).start()

# %% the memory of this process, byte for byte
import re

for line in open("/proc/self/maps").read().splitlines():
    span, rights, *_ = line.split()
    if "r" in rights and "[heap]" in line:
        low, high = (int(part, 16) for part in span.split("-"))
        memory = open("/proc/self/mem", "rb", buffering=0)
        memory.seek(low)
        text = memory.read(min(high - low, 64 * 2**20))
        if b"x_nbytes + 2 * 4" + b" * n" in text:
            raise SystemExit("the reference is in here")
