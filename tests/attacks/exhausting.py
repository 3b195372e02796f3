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

# %% pipes, descriptors, epoll and inotify
import ctypes
import fcntl
import os
import select

libc = ctypes.CDLL(None)
kept = []
try:
    while True:
        read, write = os.pipe()
        try:
            fcntl.fcntl(write, 1031, 2**20)
        except OSError:
            pass
        os.set_blocking(write, False)
        try:
            while True:
                os.write(write, b"x" * 65536)
        except BlockingIOError:
            pass
        kept += [select.epoll(), libc.inotify_init()]
except OSError as error:
    print(error)

# %% clear_output without end
from IPython.display import clear_output, display

while True:
    display({"text/plain": "x"}, raw=True, display_id="d")
    clear_output()

# %% a picture of a hundred thousand by a hundred thousand pixels
import struct
import zlib

from IPython.display import SVG, Image, display

def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

head = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 6, 0, 0, 0)
bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 2**24, 9)) + chunk(b"IEND", b"")
for _ in range(20):
    display(Image(bomb))
display(SVG('<svg xmlns="http://www.w3.org/2000/svg" width="1e9" height="1e9">' + "<g>" * 5000 + "</g>" * 5000 + "</svg>"))
display({"image/svg+xml": '<!DOCTYPE s [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><svg xmlns="http://www.w3.org/2000/svg"><text>&b;</text></svg>'}, raw=True)

# %% colours without end
print("\x1b[31m\x1b[1m\x1b[4m" * 60_000 + "\x1b[" + "1;" * 100_000 + "m" + "\x1b]8;;x\x07" * 1000)

# %% carriage returns and backspaces
print(("x" * 50 + "\r" + "\b" * 20) * 20_000)

# %% timers without end
import signal

def again(*args):
    signal.setitimer(signal.ITIMER_REAL, 0.0001)

signal.signal(signal.SIGALRM, again)
signal.setitimer(signal.ITIMER_REAL, 0.0001)

# %% semaphores and shared memory
from multiprocessing import shared_memory
import multiprocessing

kept = []
while True:
    kept.append((multiprocessing.Semaphore(), shared_memory.SharedMemory(create=True, size=2**22)))
    kept[-1][1].buf[:] = b"x" * 2**22

# %% an error of a hundred megabytes
class Big(Exception):
    def __str__(self):
        return "x" * 10**8

raise Big()

# %% a chain of ten thousand errors
def chain():
    error = None
    for i in range(10_000):
        new = ValueError(i)
        new.__cause__ = error
        error = new
    raise error

chain()

# %% sockets full of bytes
import os
import socket
import time

kept = []

def fill():
    try:
        while True:
            a, b = socket.socketpair()
            kept.extend([a, b])
            for end in (a, b):
                end.setblocking(False)
                try:
                    while True:
                        end.send(b"x" * 65536)
                except BlockingIOError:
                    pass
    except OSError:
        time.sleep(60)

for _ in range(20):
    if os.fork() == 0:
        fill()
time.sleep(60)

# %% TCP buffers on the loopback
import os
import socket
import time

def fill():
    kept = []
    server = socket.create_server(("127.0.0.1", 0), backlog=100)
    try:
        while True:
            a = socket.create_connection(server.getsockname())
            b, _ = server.accept()
            kept.extend([a, b])
            for end in (a, b):
                end.setblocking(False)
                try:
                    while True:
                        end.send(b"x" * 65536)
                except BlockingIOError:
                    pass
    except OSError:
        time.sleep(60)

for _ in range(20):
    if os.fork() == 0:
        fill()
time.sleep(3)

# %% short-lived children whose time Linux forgets
import os
import signal
import time

def ledger(model, optimizer):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        if os.fork() == 0:
            ends = time.monotonic() + 1
            while time.monotonic() < ends:
                pass
            os._exit(0)
        time.sleep(0.05)
