# %% a file that is written while it is asked, again and again
import os

def ledger(model, optimizer):
    fd = os.open("/dev/shm/x", os.O_CREAT | os.O_RDWR)
    while True:
        os.pwrite(fd, b"x" * 2**20, 0)
        os.fsync(fd)

# %% locks on everything that is shared
import fcntl
import glob

kept = []
for path in glob.glob("/usr/**", recursive=True)[:3000] + glob.glob("/opt/**", recursive=True)[:2000]:
    try:
        kept.append(open(path))
        fcntl.flock(kept[-1], fcntl.LOCK_EX)
    except OSError:
        pass

# %% inotify on all that neighbours read
import ctypes
import glob

libc = ctypes.CDLL(None)
for _ in range(400):
    fd = libc.inotify_init()
    for path in glob.glob("/usr/lib/**", recursive=True)[:2000]:
        libc.inotify_add_watch(fd, path.encode(), 0xFFF)

# %% priorities, affinity and scheduling classes
import os
import time

for change in (
    lambda: os.nice(-20),
    lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99)),
    lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)),
    lambda: os.setpriority(os.PRIO_USER, 0, -20),
    lambda: os.setpriority(os.PRIO_USER, 0, 19),
    lambda: os.sched_setaffinity(0, {0}),
):
    try:
        change()
    except OSError:
        pass
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        ends = time.monotonic() + 60
        while time.monotonic() < ends:
            os.sched_yield()

# %% page cache and readahead
import glob
import mmap

for _ in range(1000):
    for path in glob.glob("/usr/lib/x86_64-linux-gnu/*.so*"):
        try:
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as seen:
                seen.madvise(mmap.MADV_DONTNEED)
                len(seen[:])
        except (OSError, ValueError):
            pass

# %% terminals
import os

kept = []
try:
    while True:
        kept.append(os.openpty())
except OSError:
    pass

# %% POSIX timers, eventfds, pidfds and signalfds
import ctypes
import os

libc = ctypes.CDLL(None)
kept = []
try:
    while True:
        kept.append((os.eventfd(0), os.pidfd_open(os.getpid())))
except OSError:
    pass
timer = ctypes.c_void_p()
for _ in range(200_000):
    libc.timer_create(0, None, ctypes.byref(timer))

# %% file locks without end
import fcntl
import struct

with open("locked", "w") as file:
    for i in range(0, 3_000_000, 2):
        fcntl.fcntl(file, fcntl.F_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, i, 1, 0))

# %% names without end
import os

for i in range(16_000):
    os.link(__file__ if os.path.exists(globals().get("__file__", "")) else "tasks.py", "x" * 200 + str(i))

# %% extended attributes
import os

try:
    for i in range(10**6):
        open(f"f{i % 1000}", "w").close()
        os.setxattr(f"f{i % 1000}", f"user.{i}", b"x" * 60_000)
except OSError:
    pass

# %% netlink and routes
import socket

kept = []
try:
    while True:
        s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**30)
        kept.append(s)
except OSError:
    pass

# %% descriptors sent in a circle
import array
import socket

for _ in range(2000):
    a, b = socket.socketpair()
    try:
        for _ in range(250):
            a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [a.fileno(), b.fileno()]))])
    except OSError:
        pass
    a.close()
    b.close()
