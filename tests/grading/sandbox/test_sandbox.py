"""Is there a way out of the sandbox? A kernel tries; every attempt prints "refused" or what it got."""

import ast
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from printed import text

from ckptlib.grading.run.run_submission import Cell, run
from ckptlib.grading.sandbox import sockets, usage_watchdog
from ckptlib.grading.sandbox.limits import Limits

TRY = textwrap.dedent(
    """
    import ctypes, os, signal, socket, subprocess, sys
    libc = ctypes.CDLL(None, use_errno=True)

    def attempt(name, f):
        try:
            got = f()
        except (OSError, subprocess.CalledProcessError) as error:
            got = "refused"
        print(name, "=", got)

    def call(result):
        if result < 0:
            raise OSError(ctypes.get_errno(), "")
        return result
    """
)


def checkout_in_tmp(root: Path) -> list[str]:
    """The way to the book itself, if it was cloned into /tmp: a kernel needs ckptlib."""
    return list(root.relative_to("/tmp").parts[:1]) if root.is_relative_to("/tmp") else []


def attempts(said, code: str) -> dict[str, str]:
    printed = said(TRY + textwrap.dedent(code))
    return dict(line.split(" = ", 1) for line in printed.splitlines() if " = " in line)


def test_nobody_else_is_there_to_be_signalled_traced_or_read(said, sandbox):
    warm, inner = usage_watchdog.tree(sandbox.pid)[:2]  # bubblewrap's outer process, and the warm process itself
    got = attempts(
        said,
        f"""
        attempt("pid", os.getpid)
        attempt("parent", os.getppid)
        attempt("processes", lambda: sorted(int(p) for p in os.listdir("/proc") if p.isdigit()))
        attempt("kill everyone", lambda: os.kill(-1, signal.SIGKILL))
        for pid in ({warm}, {inner}):
            attempt(f"kill {{pid}}", lambda: os.kill(pid, signal.SIGKILL))
            attempt(f"mem {{pid}}", lambda: open(f"/proc/{{pid}}/mem", "rb"))
            attempt(f"environ {{pid}}", lambda: open(f"/proc/{{pid}}/environ", "rb").read())
        attempt("ptrace", lambda: call(libc.ptrace(16, {warm}, 0, 0)))
        attempt("traceme", lambda: call(libc.ptrace(0, 0, 0, 0)))
        attempt("process_vm_readv", lambda: call(libc.process_vm_readv({warm}, None, 0, None, 0, 0)))
        attempt("pidfd", lambda: os.pidfd_open({warm}))
        """,
    )
    assert got.pop("pid") == "1"
    assert got.pop("parent") == "0"
    assert got.pop("processes") == "[1]"
    assert len(got) == 5 + 3 * 2
    assert set(got.values()) == {"refused"}, got
    assert sandbox.alive()


def test_siblings_do_not_see_each_other(sandbox):
    one, other = (sandbox.kernel(Limits(), {"mine.txt": b"secret"}) for _ in range(2))
    one.settle(), other.settle()
    names = "pid mnt net ipc uts user cgroup".split()
    try:
        spaces = [{n: os.readlink(f"/proc/{p.pid}/ns/{n}") for n in names} for p in (one, other)]
        mine = {n: os.readlink(f"/proc/self/ns/{n}") for n in names}
        for name in names[:-1]:
            assert len({spaces[0][name], spaces[1][name], mine[name]}) == 3, name
        status = Path(f"/proc/{one.pid}/status").read_text(encoding="utf-8")
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert {int(fields[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
        assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
        assert fields["NSpid"].split()[-1] == "1"
        assert fields["Uid"].split()[0] != "0"
    finally:
        one.close(), other.close()


def test_no_network(said):
    got = attempts(
        said,
        """
        def connect(family, address):
            s = socket.socket(family)
            s.settimeout(2)
            s.connect(address)

        attempt("internet", lambda: connect(socket.AF_INET, ("1.1.1.1", 53)))
        attempt("names", lambda: socket.getaddrinfo("example.org", 80))
        attempt("vsock", lambda: connect(40, (2, 1024)))
        attempt("packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
        attempt("abstract", lambda: connect(socket.AF_UNIX, "\\0" + "dbus"))
        attempt("interfaces", lambda: [name for _, name in socket.if_nameindex()])
        """,
    )
    assert got.pop("interfaces") == "['lo']"
    assert len(got) == 5
    assert set(got.values()) == {"refused"}, got


def test_no_new_rights(said):
    got = attempts(
        said,
        """
        CLONE_NEWUSER = 0x10000000
        attempt("unshare", lambda: call(libc.unshare(CLONE_NEWUSER)))
        attempt("clone", lambda: call(libc.syscall(56, CLONE_NEWUSER | 17, 0, 0, 0, 0)))
        attempt("unshare tool", lambda: subprocess.check_output(["unshare", "-Ur", "id"], stderr=-3))
        attempt("setuid", lambda: os.setuid(0))
        attempt("mount", lambda: call(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)))
        attempt("chroot", lambda: os.chroot("/tmp"))
        attempt("mknod", lambda: os.mknod("/tmp/disk", 0o60600, os.makedev(254, 0)))
        attempt("memfd", lambda: os.memfd_create("x"))
        attempt("shmget", lambda: call(libc.shmget(0, 4096, 0o1600)))
        attempt("sysctl", lambda: open("/proc/sys/kernel/core_pattern", "w"))
        attempt("sysrq", lambda: open("/proc/sysrq-trigger", "w"))
        attempt("hostname", lambda: socket.sethostname("x"))
        attempt("raise limit", lambda: __import__("resource").setrlimit(7, (10**5, 10**5)) or "raised")
        """.replace("(OSError", "(OSError, ValueError"),
    )
    assert got.pop("raise limit", "refused") == "refused"
    assert len(got) == 12
    assert set(got.values()) == {"refused"}, got


def test_nothing_of_the_course_or_its_owner_is_visible(said, root, tmp_path):
    (tmp_path / "gradebook.db").write_text("secret")
    package = root / "ckptlib"
    hidden = [root / name for name in ("solutions", "tests", ".git", "pyproject.toml", "gradebook.db", "book")]
    hidden += [tmp_path, tmp_path / "gradebook.db", tmp_path.parent, Path.home() / ".bashrc", sockets.own_folder()]
    hidden += map(Path, "/etc/shadow /etc/hostname /var /sys /opt /srv /media /mnt".split())
    got = attempts(
        said,
        f"""
        for path in {[str(p) for p in hidden]!r}:
            attempt(path, lambda: os.stat(path))
        attempt("root", lambda: sorted(os.listdir("/")))
        attempt("beside", lambda: sorted(os.listdir({str(root)!r})))
        attempt("package", lambda: sorted(os.listdir({str(package)!r})) != [])
        attempt("home", lambda: [os.environ["HOME"], os.getcwd(), os.listdir(".")])
        attempt("tmp", lambda: os.listdir("/tmp"))
        attempt("descriptors", lambda: sorted(os.readlink(f"/proc/self/fd/{{fd}}") for fd in os.listdir("/proc/self/fd")
                                              if os.path.exists(f"/proc/self/fd/{{fd}}")))
        attempt("sockets", lambda: [line.split()[-1] for line in open("/proc/net/unix") if "ckptlib" in line])
        """,
    )
    assert set(got.pop("beside").strip("[]").replace("'", "").split(", ")) <= {"ckptlib", ".venv"}
    assert got.pop("package") == "True"
    assert got.pop("home") == "['/home/student', '/home/student/work', []]"
    assert got.pop("tmp") == str(checkout_in_tmp(root))
    assert got.pop("sockets") == "[]"
    assert not {"var", "sys", "opt"} & set(got.pop("root").strip("[]").replace("'", "").split(", "))
    descriptors = got.pop("descriptors")
    assert {d.partition(":")[0] for d in ast.literal_eval(descriptors)} == {"/dev/null", "anon_inode", "pipe", "socket"}
    assert len(got) == len(hidden)
    assert set(got.values()) == {"refused"}, got


def test_the_instructors_environment_stays_outside(root, need):
    need("bubblewrap")
    code = """
    from ckptlib.grading.sandbox.limits import Limits
    from ckptlib.grading.run.run_submission import Cell, run
    from ckptlib.grading.sandbox.sandbox import Sandbox
    with Sandbox.start(preload=["numpy"]) as sandbox:
        cells = [Cell("only", "import os; print(dict(os.environ)); print(open('/proc/self/environ').read())")]
        print(run(cells, [], {}, Limits(), sandbox)["cells"]["only"]["outputs"][0]["text"])
    """
    environment = {**os.environ, "CANVAS_TOKEN": "token-1234", "PYTHONPATH": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True, check=True
    )
    assert "'HOME': '/home/student'" in done.stdout
    assert "token-1234" not in done.stdout
    assert "/nowhere" not in done.stdout


def test_what_a_kernel_writes_the_next_does_not_see(said, root):
    package, packages = root / "ckptlib", Path(os.__file__).parent
    got = attempts(
        said,
        f"""
        import site, numpy
        system = ["/usr/lib", "/etc", "/", "/dev"]
        for folder in [{str(package)!r}, {str(packages)!r}, os.path.dirname(numpy.__file__), *system]:
            attempt(folder, lambda: open(folder + "/planted.py", "w"))
        attempt("grow", lambda: open({str(package / "__init__.py")!r}, "a"))
        for name in (".ipython/profile_default/startup/planted.py", "work/sitecustomize.py", ".bashrc",
                     ".local/lib/python3.11/site-packages/usercustomize.py"):
            path = os.path.join(os.environ["HOME"], name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            attempt(path, lambda: open(path, "w").write("planted = 1"))
        open("/tmp/planted", "w").write("x"), open("/dev/shm/planted", "w").write("x")
        numpy.planted = True
        import random, torch
        """,
    )
    assert len(got) == 12
    assert [value for path, value in got.items() if not path.startswith("/home/student/")] == ["refused"] * 8
    after = said(
        "import os, glob, numpy; print('planted' in globals(), hasattr(numpy, 'planted'), os.listdir('/tmp'), "
        "glob.glob('/dev/shm/*'), [p for p, _, fs in os.walk(os.environ['HOME']) for f in fs if 'planted' in f])"
    )
    assert after.strip() == f"False False {checkout_in_tmp(root)} [] []"


def test_kernels_draw_different_random_numbers(said):
    code = "import random, numpy, torch, uuid\n"
    code += "print(random.random(), numpy.random.rand(), torch.rand(1).item(), uuid.uuid4())"
    one, other = (said(code).split() for _ in range(2))
    assert len(one) == len(other) == 4
    assert not set(one) & set(other)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b", ""])
def test_files_stay_in_the_working_folder(name, sandbox):
    kernel = sandbox.kernel(Limits(), {name: b"x"})
    with pytest.raises(RuntimeError, match="working folder"):
        kernel.settle()
    kernel.close()


# ---- terminals ------------------------------------------------------------------------------------------------------
HAS_A_TERMINAL = """
import os, pty, time, select
ours, theirs = pty.openpty()
path = os.ttyname(theirs)
os.chmod(path, 0o666)
print("mine is", path, sorted(os.listdir("/dev/pts")), flush=True)
time.sleep({seconds})
os.set_blocking(ours, False)
try:
    print("arrived:", os.read(ours, 1000))
except BlockingIOError:
    print("nothing arrived")
"""
ON_TERMINALS = {
    "write on it": """
        for name in names: open(f"/dev/pts/{name}", "wb", buffering=0).write(b"PLANTED")
    """,
    "freeze it": """
        import termios
        for name in names: termios.tcflow(os.open(f"/dev/pts/{name}", os.O_RDWR | os.O_NOCTTY), termios.TCOOFF)
    """,
    "type on it": """
        import fcntl, termios
        for name in names: fcntl.ioctl(os.open(f"/dev/pts/{name}", os.O_RDWR), termios.TIOCSTI, b"x")
    """,
    "hang it up": """
        import fcntl, termios
        for name in names: fcntl.ioctl(os.open(f"/dev/pts/{name}", os.O_RDWR | os.O_NOCTTY), termios.TIOCEXCL)
    """,
}


@pytest.mark.parametrize("how", ON_TERMINALS)
def test_a_terminal_is_seen_by_its_own_kernel_only(how, sandbox):
    """One kernel opens a terminal; another, at the same time, does something to whichever it finds."""
    hostile = f"""
    import os, time
    until, done = time.monotonic() + 3, "none was there"
    while time.monotonic() < until and done == "none was there":
        if names := [name for name in os.listdir("/dev/pts") if name != "ptmx"]:
            {textwrap.indent(textwrap.dedent(ON_TERMINALS[how]).strip(), " " * 12).strip()}
            done = f"done to {{names}}"
        time.sleep(0.01)
    print(done)
    """
    with ThreadPoolExecutor(2) as both:
        codes = HAS_A_TERMINAL.format(seconds=4), textwrap.dedent(hostile)
        ran = [both.submit(run, [Cell("only", code)], [], {}, Limits(), sandbox) for code in codes]
        honest, other = (text(each.result()["cells"]["only"]["outputs"]) for each in ran)
    assert honest == "mine is /dev/pts/0 ['0', 'ptmx']\nnothing arrived\n"
    assert other == "none was there\n"


def test_no_kernel_uses_up_the_terminals_or_watches_of_the_machine(said):
    """Linux has a few thousand terminals for everybody, and 128 inotify instances for each user."""
    code = """
    import ctypes, os, pty
    libc, count, kept = ctypes.CDLL(None), {"terminals": 0, "watches": 0}, []
    try:
        while count["terminals"] < 200:
            kept.append(pty.openpty())
            count["terminals"] += 1
    except OSError:
        pass
    while count["watches"] < 200 and libc.inotify_init() >= 0:
        count["watches"] += 1
    print(count)
    get_ipython().system("echo still")
    """
    counted = ast.literal_eval(said(textwrap.dedent(code)).splitlines()[0])
    assert 8 <= counted["terminals"] <= 32 and 1 <= counted["watches"] <= 16
    assert said("get_ipython().system('echo a neighbour; tty')").split() == ["a", "neighbour", "/dev/pts/0"]
