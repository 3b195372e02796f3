"""Does a kernel see only what it was meant to see? Everything visible is walked through, and secrets are planted."""

import os
import secrets
import shutil
import sys
import sysconfig
import textwrap
from pathlib import Path

import pytest

import ckptlib
from ckptlib.grading.sandbox import file_system

MULTIARCH = sysconfig.get_config_var("MULTIARCH")
# What the sandbox may show, written down here once more: whoever shows more has to say so in two places.
SYSTEM = "bin sbin lib32 lib64 libx32 lib/gcc libexec/gcc include lib/locale lib/terminfo".split()
SYSTEM += [
    f"lib/{MULTIARCH}",
    *(f"share/{n}" for n in "fonts fontconfig zoneinfo terminfo locale mime perl perl5".split()),
]
ETC = "alternatives fonts ld.so.cache ld.so.conf ld.so.conf.d localtime mime.types passwd group hosts nsswitch.conf"
DEV = "null zero full random urandom tty console fd stdin stdout stderr core ptmx pts shm"
OWN = [
    "/proc",
    *(f"{file_system.HOME}/{name}" for name in ("work", ".ipython", ".config/matplotlib")),
    "/nix/store",
    "/gnu/store",
]

WALK = """
import os
allowed = {allowed!r}
odd, seen = [], 0

def ancestor(path):  # the kernel's own /tmp is there and empty, or leads to a Python that lies below it
    return path == "/tmp" or any(known.startswith(path.rstrip("/") + "/") for known in allowed)

def walk(folder):
    global seen
    for entry in os.scandir(folder):
        seen += 1
        if entry.path in allowed:
            continue
        if not ancestor(entry.path) or not entry.is_dir(follow_symlinks=False):
            odd.append(entry.path)
        else:
            walk(entry.path)

walk("/")
print(seen, odd)
"""


def interpreters() -> list[str]:
    folders = {str(Path(prefix) / "bin") for prefix in (sys.prefix, sys.base_prefix, os.path.realpath(sys.base_prefix))}
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return [f"{folder}/{name}" for folder in folders for name in ("python", "python3", f"python{version}")]


def meant() -> list[str]:
    paths = [f"{root}{part}" for root in ("/usr/", "/") for part in SYSTEM] + ["/lib"]
    paths += [f"/etc/{name}" for name in ETC.split()] + [f"/dev/{name}" for name in DEV.split()] + OWN
    python = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    python += [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    python += [*interpreters(), f"{sys.prefix}/pyvenv.cfg", str(Path(ckptlib.__file__).parent)]
    for folder in (f"{sys.base_prefix}/lib", "/usr/lib"):
        python += [str(path) for path in Path(folder).glob("*.so*")]
    return sorted({*paths, *python})


def test_everything_visible_was_meant_to_be(said):
    seen, _, odd = said(WALK.format(allowed=meant())).strip().partition(" ")
    assert odd == "[]" and int(seen) > 40


def test_the_walk_finds_what_was_not_meant(said):
    seen = said(WALK.format(allowed=[path for path in meant() if path not in ("/etc/passwd", "/usr/bin")]))
    assert "/etc/passwd" in seen and "/usr/bin" in seen


# ---- planted secrets ------------------------------------------------------------------------------------------------
SECRET = secrets.token_hex(12)
PLACES = [
    *(f"{prefix}/{part}" for prefix in ("/usr/local", "{prefix}", "{base}") for part in ("share", "etc", "src", "bin")),
    *("/usr/share", "/usr/lib", "/usr/src", "/usr/games", "/usr/local/lib", "/usr/local", "{prefix}", "{prefix}/lib"),
    *(
        "/etc",
        "/opt",
        "/srv",
        "/mnt",
        "/var/lib",
        "/var/tmp",
        "/run",
        "/root",
        "/home",
        "/tmp",
        "/dev/shm",
        "/",
        "{root}",
    ),
]


@pytest.fixture(scope="module")
def planted(root):
    """Files with SECRET where an exchange, a password or another student's work might lie; where we may write."""
    folder, made = f"neighbour-{secrets.token_hex(4)}", []
    for place in PLACES:
        target = Path(place.format(prefix=sys.prefix, base=sys.base_prefix, root=root)) / folder
        if target.parent.is_dir() and os.access(target.parent, os.W_OK) and target not in made:
            inbound = target / "exchange" / "course" / "inbound"
            try:
                inbound.mkdir(parents=True)
            except OSError:  # a read-only file system
                continue
            made.append(target)
            (inbound / "answer.ipynb").write_text(SECRET)
    yield made
    for target in made:
        shutil.rmtree(target)


READ = {
    "walking": """
        for folder, folders, files in os.walk("/"):
            folders[:] = set(folders) - {"proc", "site-packages", os.path.basename(os.path.dirname(os.__file__))}
            if "neighbour-" in folder and "answer.ipynb" in files:
                show(folder + "/answer.ipynb")
    """,
    "by its exact name": """
        for place in places:
            show(place + "/exchange/course/inbound/answer.ipynb")
    """,
    "through the root of each process": """
        for pid in ("self", "1", "thread-self", *filter(str.isdigit, os.listdir("/proc"))):
            for place in places:
                show(f"/proc/{pid}/root{place}/exchange/course/inbound/answer.ipynb")
                show(f"/proc/{pid}/cwd/../../../..{place}/exchange/course/inbound/answer.ipynb")
    """,
    "through a link of one's own": """
        for i, place in enumerate(places):
            os.symlink(place, f"link{i}")
            show(f"link{i}/exchange/course/inbound/answer.ipynb")
    """,
    "with a shell": """
        import subprocess
        print(subprocess.run("cat " + " ".join(p + "/exchange/course/inbound/*" for p in places), shell=True,
                             capture_output=True, text=True).stdout)
        print(subprocess.run("find / -name 'neighbour-*' -not -path '/proc/*'", shell=True, capture_output=True).stdout)
    """,
    "up from an open folder": """
        for start in ("/usr/bin", os.path.dirname(os.__file__), os.path.dirname(np.__file__), sys.prefix, "/dev/shm"):
            fd = os.open(start, os.O_RDONLY)
            for place in places:
                try:
                    file = os.open("../" * 9 + place + "/exchange/course/inbound/answer.ipynb", os.O_RDONLY, dir_fd=fd)
                    print(os.read(file, 100))
                except OSError:
                    pass
    """,
    "as a font, a picture and a module": """
        import importlib.util
        for place in places:
            path = place + "/exchange/course/inbound/answer.ipynb"
            for read in (np.fromfile, np.loadtxt, lambda p: open(p).read(), importlib.util.spec_from_file_location):
                try:
                    print(read(path) if "spec" not in read.__name__ else "")
                except (OSError, ValueError):
                    pass
    """,
}
BEGIN = """
import os, sys
import numpy as np
places = {places!r}

def show(path):
    try:
        print("read", path, open(path).read())
    except OSError:
        pass

"""


@pytest.mark.parametrize("how", READ)
def test_no_secret_beside_the_system_or_python_can_be_read(how, said, planted):
    assert len(planted) >= 3, "nowhere to plant a secret"
    seen = said(BEGIN.format(places=[str(path) for path in planted]) + textwrap.dedent(READ[how]) + "\nprint('done')")
    assert seen.endswith("done\n"), seen
    assert SECRET not in seen and "read " not in seen


def test_an_environment_made_out_of_a_course_shows_no_course(tmp_path, monkeypatch):
    """`python -m venv course`: then the course's folders are the environment's."""
    for part in ("share/nbgrader", "etc/jupyter", "lib/answers", "submitted/ada", "bin/python3-answers", "include"):
        (tmp_path / part).mkdir(parents=True)
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\n")
    with monkeypatch.context() as now:
        now.setattr(sys, "prefix", str(tmp_path))
        now.setattr(sys, "exec_prefix", str(tmp_path))
        shown = file_system.python_paths.__wrapped__()
    assert [path for path in shown if path.is_relative_to(tmp_path)] == [tmp_path / "pyvenv.cfg"]


def test_the_sandbox_still_holds_what_a_notebook_needs(said):
    code = """
    import subprocess, sys, zoneinfo, locale, ctypes.util, multiprocessing, matplotlib.font_manager as fonts
    print(subprocess.check_output([sys.executable, "-c", "import numpy; print(numpy.ones(1))"], text=True))
    print(subprocess.check_output("echo shell | sort | tr a-z A-Z", shell=True, text=True))
    print(zoneinfo.ZoneInfo("Europe/Berlin"), ctypes.util.find_library("c"))
    files = [font.fname for font in fonts.fontManager.ttflist]
    print("fonts", len(files) > 10, all(map(os.path.exists, files)))
    get_ipython().system("ls / | head -1")
    """
    seen = said("import os\n" + textwrap.dedent(code))
    assert (
        "[1.]" in seen and "SHELL" in seen and "Europe/Berlin" in seen and "fonts True True" in seen and "bin" in seen
    )
