# %% memory, at once
x = bytearray(64 * 2**30)

# %% memory, in torch
kept = []
while True:
    kept.append(torch.ones(64 * 2**20))

# %% memory, in many processes
import os
import time

for _ in range(40):
    if os.fork() == 0:
        block = bytearray(400 * 2**20)
        for i in range(0, len(block), 4096):
            block[i] = 1
        time.sleep(60)

# %% memory, in a mapped file
import mmap

kept = []
while True:
    block = mmap.mmap(-1, 2**28)
    for i in range(0, 2**28, 4096):
        block[i] = 1
    kept.append(block)

# %% a fork bomb
import os

while True:
    try:
        os.fork()
    except OSError:
        pass

# %% threads without end
import threading
import time

while True:
    threading.Thread(target=time.sleep, args=(1000,)).start()

# %% the disk
with open("big", "wb") as file:
    while True:
        file.write(b"x" * 2**20)

# %% many small files
import os

for i in range(10**9):
    open(f"/tmp/{i}", "w").close()

# %% output without end
while True:
    print("x" * 10**5)

# %% displays without end
from IPython.display import display

while True:
    display({"text/plain": "x" * 10**5}, raw=True)

# %% one enormous output
print("x" * 10**9)

# %% time
while True:
    pass

# %% time, and no interrupt wanted
import signal
import time

for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    try:
        time.sleep(1000)
    except BaseException:
        pass

# %% time, in C
sum(range(10**18))

# %% a regular expression that never ends
import re

re.match(r"(a+)+$", "a" * 60 + "b")

# %% recursion
import sys

sys.setrecursionlimit(10**9)

def down(n):
    return down(n + 1)

down(0)

# %% input that never comes
input("name? ")

# %% a stopped process
import os
import signal

os.kill(os.getpid(), signal.SIGSTOP)

# %% threads that outlive the cell
import threading

def spin():
    while True:
        pass

for _ in range(20):
    threading.Thread(target=spin, daemon=True).start()
raise RuntimeError("and now?")
