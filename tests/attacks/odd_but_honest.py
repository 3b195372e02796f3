# %% prints 100 kB
print("x" * 100_000)

# %% a plot
import matplotlib.pyplot as plt

plt.plot([1, 2, 3])
plt.show()

# %% warnings and stderr
import sys
import warnings

warnings.warn("deprecated")
print("to stderr", file=sys.stderr)

# %% warnings are errors
import warnings

warnings.simplefilter("error")

# %% HTML and clear_output
from IPython.display import HTML, clear_output, display

display(HTML("<b>hello</b><script>alert(1)</script>"))
clear_output()

# %% files written and folders changed
import os

open("notes.txt", "w").write("x")
os.makedirs("/tmp/elsewhere")
os.chdir("/tmp/elsewhere")

# %% multiprocessing
import multiprocessing

with multiprocessing.Pool(2) as pool:
    print(pool.map(abs, [-1, -2]))

# %% a DataLoader with two workers
from torch.utils.data import DataLoader

print(sum(len(batch) for batch in DataLoader(torch.arange(64.0), batch_size=8, num_workers=2)))

# %% torch in another state
torch.set_num_threads(2)
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
torch.set_grad_enabled(False)
torch.use_deterministic_algorithms(True)
torch.set_printoptions(precision=2)

# %% torch on another default device
torch.set_default_device("meta")

# %% anomaly detection
torch.autograd.set_detect_anomaly(True)

# %% matmul precision
torch.set_float32_matmul_precision("medium")

# %% magics
%matplotlib inline
%load_ext autoreload
%autoreload 2
%xmode Minimal
%precision 3
!ls

# %% time of a cell
%%time
print(sum(range(1000)))

# %% a module that does not exist
import pandas as pd_that_does_not_exist

# %% top-level await and a task that never ends
import asyncio

await asyncio.sleep(0.1)

async def forever():
    while True:
        await asyncio.sleep(0.01)

task = asyncio.create_task(forever())

# %% five seconds
import time

time.sleep(5)

# %% every expression is shown
from IPython.core.interactiveshell import InteractiveShell

InteractiveShell.ast_node_interactivity = "all"
1
2

# %% the debugger after every error
%pdb on
1 / 0

# %% names of ours taken
_a = json = asking = respond = task = tasks = request = given = data = 1

# %% numpy raises on everything
import numpy as np

np.seterr(all="raise")
np.set_printoptions(threshold=3)

# %% a small recursion limit and no collector
import gc
import sys

gc.disable()
sys.setrecursionlimit(200)

# %% a logger that says everything
import logging

logging.basicConfig(level=logging.DEBUG)
logging.getLogger().setLevel(logging.DEBUG)
logging.debug("hello")

# %% pip without a network
!pip install tqdm

# %% threads in the background
import threading
import time

def tick():
    while True:
        time.sleep(0.01)

threading.Thread(target=tick, daemon=True).start()

# %% stdout elsewhere
import io
import sys

sys.stdout = io.StringIO()
sys.stderr = io.StringIO()

# %% the module is imported again
import importlib

import ckptlib

importlib.reload(ckptlib)

# %% hooks left behind by a saved-tensors experiment
hooks = saved_tensors_hooks(lambda t: t, lambda t: t)
hooks.__enter__()

# %% a progress bar with carriage returns
for i in range(20000):
    print(f"\r{i}", end="")

# %% spawned processes
import multiprocessing

context = multiprocessing.get_context("spawn")
process = context.Process(target=print, args=("hello",))
process.start()
process.join(6)

# %% reset of the namespace and imports again
%reset -f
import torch
from tasks import check
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

import ckptlib as ck

F = nn.functional

# %% an alarm
import signal

signal.signal(signal.SIGALRM, lambda *a: print("ring"))
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)

# %% a profile function and a trace function
import sys

sys.setprofile(lambda *a: None)
sys.settrace(lambda *a: None)

# %% inference mode left on
torch.inference_mode().__enter__()

# %% autocast left on
torch.autocast("cpu", dtype=torch.bfloat16).__enter__()

# %% captured output
%%capture out
print("hidden")

# %% a custom exception handler
def handler(self, etype, value, tb, tb_offset=None):
    self.showtraceback((etype, value, tb), tb_offset=tb_offset)

get_ipython().set_custom_exc((ZeroDivisionError,), handler)

# %% a helper with the name of something of ours
_a = asked = 7

def saved_tensors_hooks(pack, unpack, real=saved_tensors_hooks):
    return real(pack, unpack) if _a == asked == 7 else None

# %% warnings that point at whoever asks
import warnings

def saved_tensors_hooks(pack, unpack, real=saved_tensors_hooks):
    for level in range(1, 12):
        warnings.warn("this is slow", stacklevel=level)
    return real(pack, unpack)

# %% saved-tensor hooks entered and never left
saved_tensors_hooks(lambda t: t.to(torch.bfloat16), lambda t: t.float()).__enter__()

# %% hooks that raise, entered and never left
def refuse(t):
    raise RuntimeError("nothing is saved any more")

saved_tensors_hooks(refuse, refuse).__enter__()

# %% a dispatch mode entered and never left
from torch.utils._python_dispatch import TorchDispatchMode


class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.ops.aten.mm.default else result


Seen().__enter__()

# %% saved-tensor hooks forbidden and never allowed again
forbidden = torch.autograd.graph.disable_saved_tensors_hooks("not here")
forbidden.__enter__()

# %% mutation of saved tensors allowed, entered and never left
allowed = torch.autograd.graph.allow_mutation_on_saved_tensors()
allowed.__enter__()

# %% a profiler that is never stopped
running = torch.autograd.profiler.profile(record_shapes=True)
running.__enter__()

# %% hooks on every module there is
torch.nn.modules.module.register_module_forward_hook(lambda module, args, output: None)
torch.nn.modules.module.register_module_full_backward_hook(lambda module, grad_in, grad_out: None)

# %% deterministic algorithms, and more threads than processors
torch.use_deterministic_algorithms(True)
torch.set_num_threads(8)
torch.set_flush_denormal(True)

# %% a dual level, anomaly detection and inference entered and never left
torch.autograd.forward_ad.enter_dual_level()
for mode in (torch.autograd.set_detect_anomaly(True), torch.inference_mode(), torch.autograd.set_multithreading_enabled(False)):
    mode.__enter__()

# %% an encoder for numbers of numpy, as found on the web
import json

json.JSONEncoder.default = lambda self, thing: thing.tolist() if hasattr(thing, "tolist") else str(thing)
json._default_encoder = json.JSONEncoder(indent=2, sort_keys=False, default=str)

# %% everything is printed in another way
import builtins
import sys

torch.set_printoptions(profile="full")
torch.Tensor.__repr__ = lambda self, **named: f"tensor {tuple(self.shape)}"
builtins.print = lambda *args, real=print, **named: real("»", *args, **named)
sys.set_int_max_str_digits(640)
sys.displayhook = lambda value: None

# %% an audit hook and an import hook that only count
import builtins
import sys

counts = {}
sys.addaudithook(lambda event, args: counts.update({event: counts.get(event, 0) + 1}))
builtins.__import__ = lambda *args, real=builtins.__import__, **named: real(*args, **named)

# %% checkpoints that talk
import torch.utils.checkpoint

torch.utils.checkpoint.set_checkpoint_debug_enabled(True).__enter__()
torch.utils.checkpoint.set_checkpoint_early_stop(False).__enter__()

# %% gc off, and a switch interval of a second
import gc
import sys

gc.disable()
sys.setswitchinterval(1)
