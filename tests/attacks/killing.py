# %% os._exit
import os

os._exit(0)

# %% SIGKILL to itself
import os
import signal

os.kill(os.getpid(), signal.SIGKILL)

# %% a segmentation fault
import ctypes

ctypes.string_at(0)

# %% abort
import os

os.abort()

# %% SystemExit
raise SystemExit("all is well")

# %% the kernel is told to shut down
get_ipython().kernel.do_shutdown(False)
import os

os._exit(0)

# %% exit()
exit()

# %% everybody else is killed
import os
import signal

for pid in [os.getppid(), -1, 1, *range(2, 40000)]:
    try:
        os.kill(pid, signal.SIGKILL)
    except (OSError, ProcessLookupError):
        pass

# %% the kernel's sockets are closed
kernel = get_ipython().kernel
for name in ("shell_socket", "iopub_socket", "control_socket", "stdin_socket"):
    try:
        getattr(kernel, name).close()
    except Exception:
        pass

# %% all descriptors are closed
import os

os.closerange(0, 4096)

# %% the event loop is stopped
import asyncio

asyncio.get_event_loop().stop()

# %% the event loop stands still, then is stopped
import asyncio
import time

loop = asyncio.get_event_loop()
loop.call_later(0.01, lambda: (time.sleep(3), loop.stop()))

# %% a thread ends it while others are asked
import os
import threading

threading.Timer(0.5, os._exit, (0,)).start()

# %% execv into something else
import os
import sys

os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(1000)"])

# %% killed while it is asked
import os

def ledger(model, optimizer):
    os._exit(1)

# %% hangs while it is asked
def ledger(model, optimizer):
    while True:
        pass

# %% eats all memory while it is asked
def ledger(model, optimizer):
    kept = []
    while True:
        kept.append(torch.ones(64 * 2**20))

# %% storms of signals
import os
import signal
import time

for _ in range(200):
    for number in (signal.SIGHUP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGUSR1, signal.SIGTERM, signal.SIGQUIT):
        os.kill(0, number)
time.sleep(0.5)

# %% interrupts whoever is asked
import os
import signal
import threading
import time

def strike():
    while True:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=strike, daemon=True).start()

# %% limits taken away
import os
import resource

for name in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_STACK, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE):
    try:
        resource.setrlimit(name, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (OSError, ValueError):
        pass
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
os.nice(19)

# %% reboot
import ctypes

libc = ctypes.CDLL(None)
libc.reboot(0x01234567)
for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/sysrq", "/proc/sys/kernel/core_pattern", "/proc/1/oom_score_adj"):
    try:
        open(path, "w").write("b")
    except OSError as error:
        print(error)

# %% strikes long after its cell
import os
import threading

threading.Timer(0.7, os._exit, (1,)).start()

# %% a fault in a thread while others are asked
import ctypes
import threading

threading.Timer(0.4, ctypes.string_at, (0,)).start()

# %% descriptors exchanged
import os

kept = [fd for fd in range(3, 200) if os.path.exists(f"/proc/self/fd/{fd}")]
null = os.open("/dev/zero", os.O_RDWR)
for fd in kept:
    os.dup2(null, fd)

# %% raises what nobody catches while it is asked
def ledger(model, optimizer):
    raise BaseException("nobody catches me")

# %% exits while it is asked
def ledger(model, optimizer):
    raise KeyboardInterrupt

# %% generator exit and coroutines
async def ledger(model, optimizer):
    raise GeneratorExit

# %% replaces the kernel's program
import os
import subprocess

subprocess.Popen("kill -STOP 1; kill -9 -1; kill -9 1", shell=True)
os.execvp("sh", ["sh", "-c", "exec cat /dev/zero > /dev/null"])

# %% a forked child answers too
import os

if os.fork() == 0:
    raise RuntimeError("the child goes on as a kernel")
