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
