"""Does the library work on this machine, can the book be read, and can submissions be graded in a sandbox?

It has to work where something is broken, so it needs nothing but the standard library: every package is looked up, or
tried in a process of its own.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from ..cuda.phantom.build import libraries
from ..errors import CkptError

ROOT = Path(__file__).resolve().parents[2]  # of a clone; has no constraints.txt when the package was installed alone


def _quoted(text: str) -> str:
    """As a word of a command line, of this system's."""
    return subprocess.list2cmdline([text]) if os.name == "nt" else shlex.quote(text)


PYTHON = _quoted(sys.executable)
# extra -> which of the answers needs it, and who uses it
EXTRAS = {
    "book": ("book", "chapters and explorers need it"),
    "grading": ("grading", "ckptlib check, grade, report, release and new-exercise need it"),
    "cluster": ("", "only ckptlib grade --cluster needs it"),
}
# Docker and podman hide parts of /proc, and a process that sees only part of the old /proc gets no new one from the
# kernel: github.com/containers/bubblewrap/issues/284 and 505. An image can hide which of the two it runs in, so the
# advice names both.
CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
CONTAINER_OPTIONS = (
    "starting the container with other options: docker run --security-opt seccomp=unconfined "
    "--security-opt apparmor=unconfined --security-opt systempaths=unconfined; or podman run "
    "--security-opt seccomp=unconfined --security-opt unmask=ALL, under SELinux --security-opt label=disable as well"
)


@dataclass(frozen=True)
class Check:
    """One thing looked at. `needed_for` is "library", "book", "grading", or "" for what is merely good to have."""

    name: str
    ok: bool
    says: str
    fix: str = ""  # the command that fixes it
    needed_for: str = ""

    def __str__(self) -> str:
        mark = "ok  " if self.ok else "FAIL" if self.needed_for else "warn"
        line = f"{mark}  {self.name:<18} {self.says}"
        return line if self.ok or not self.fix else f"{line}\n{'':24} fix it with: {self.fix}"


@dataclass(frozen=True)
class Diagnosis:
    """All checks, and the three answers they add up to. The book and the grader need the library as well."""

    checks: tuple[Check, ...]

    def _enough_for(self, *purposes: str) -> bool:
        return all(check.ok for check in self.checks if check.needed_for in purposes)

    @property
    def library(self) -> bool:
        return self._enough_for("library")

    @property
    def book(self) -> bool:
        return self._enough_for("library", "book")

    @property
    def grading(self) -> bool:
        return self._enough_for("library", "grading")

    @property
    def exit_code(self) -> int:
        """0 = all is well; 1 = the book cannot be read; 2 = grading cannot be sandboxed; 3 = neither."""
        return (not self.book) + 2 * (not self.grading)

    def __str__(self) -> str:
        answer = {True: "yes", False: "no"}
        verdict = (
            f"The library works: {answer[self.library]}. The book can be read: {answer[self.book]}. "
            f"Grading can be sandboxed: {answer[self.grading]}."
        )
        return "\n".join([*map(str, self.checks), "", verdict])

    def to_json(self) -> str:
        checks = [asdict(check) for check in self.checks]
        answers = {"library": self.library, "book": self.book, "grading": self.grading}
        return json.dumps(answers | {"checks": checks}, indent=2)


def examine() -> Diagnosis:
    """Run every check. The slow ones start other programs, so they run side by side: about two seconds in all."""
    found = packages()
    lacking = {check.name for check in found if not check.ok}
    jupyter = {"extra book": kernel, "extra grading": nbgrader_extension}  # cannot be tried where packages are missing
    tried = [gpu, phantom, *(check for extra, check in jupyter.items() if extra not in lacking), bubblewrap, chromium]
    with ThreadPoolExecutor() as pool:
        slow = [pool.submit(check) for check in tried]
        checks = [python(), *found, *(future.result() for future in slow)]
    return Diagnosis(tuple(checks))


def python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= (3, 11):  # noqa: UP036 - it may be run from a folder, with any Python
        return Check("Python", True, version, needed_for="library")
    fix = "install Python 3.11 or newer, then: PYTHON=python3.12 make lab"
    return Check("Python", False, f"{version} is too old: 3.11 or newer is needed", fix, "library")


def packages() -> list[Check]:
    """One line for each package that ckptlib's own metadata asks for, and one for each extra."""
    try:
        requirements = metadata.requires("ckptlib") or []
    except metadata.PackageNotFoundError:
        fix = f"cd {_quoted(str(ROOT))} && {PYTHON} -m pip install -c constraints.txt -e ."
        return [Check("ckptlib", False, "is not installed here", fix, "library")]
    tested = _tested_versions()
    base = [_package(r, tested, "library") for r in requirements if "extra ==" not in r]
    return base + [check for extra in EXTRAS for check in _extra(extra, requirements, tested)]


def _extra(extra: str, requirements: list[str], tested: dict[str, str]) -> list[Check]:
    """One line for the whole extra; a line of its own only for a package whose version was not tested."""
    needed_for, use = EXTRAS[extra]
    its = [r.partition(";")[0].strip() for r in requirements if re.search(rf"extra == ['\"]{extra}['\"]", r)]
    if missing := [name for name in map(_name, its) if _version(name) is None]:
        fix = f"{PYTHON} -m pip install {_quoted(f'ckptlib[{extra}]')}"
        if tested:  # a clone
            fix = f"cd {_quoted(str(ROOT))} && {PYTHON} -m pip install -c constraints.txt -e {_quoted(f'.[{extra}]')}"
        return [Check(f"extra {extra}", False, f"{use}, and it lacks {', '.join(missing)}", fix, needed_for)]
    found = [_package(requirement, tested, needed_for) for requirement in its]
    says = ", ".join(f"{name} {_version(name)}" for name in map(_name, its[:2]))
    whole = Check(f"extra {extra}", True, f"{says} and all else that it asks for", needed_for=needed_for)
    return [whole, *(check for check in found if not check.ok)]


def _package(requirement: str, tested: dict[str, str], needed_for: str) -> Check:
    name = _name(requirement)
    version = _version(name)
    wanted = f"{name}=={tested[name]}" if name in tested else requirement
    fix = f"{PYTHON} -m pip install {_quoted(wanted)}"
    if version is None:
        return Check(name, False, "is not installed", fix, needed_for)
    # "2.13.0+cpu" and "2.13.0" are the same release, built for different machines.
    if name in tested and version.split("+")[0] != tested[name]:
        return Check(name, False, f"{version}; the book was tested with {tested[name]}", fix)
    return Check(name, True, version, needed_for=needed_for)


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _tested_versions() -> dict[str, str]:
    constraints = ROOT / "constraints.txt"
    lines = constraints.read_text(encoding="utf-8").splitlines() if constraints.exists() else []
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


def gpu() -> Check:
    """Import torch for real and ask it for a GPU, in another process, because a broken build kills its process."""
    code = "import torch; a = torch.accelerator; print(a.current_accelerator() if a.is_available() else '')"
    ran, output = _run([sys.executable, "-c", code])
    if not ran:
        wanted = f"torch=={tested}" if (tested := _tested_versions().get("torch")) else "torch"
        fix = f"{PYTHON} -m pip install --force-reinstall --no-deps {wanted}"
        return Check("GPU", False, f"torch does not start: {output}", fix, "library")
    return Check("GPU", True, output or "none, and none is needed: the book simulates one", needed_for="library")


def phantom() -> Check:
    """The stand-in for a GPU, which is compiled if it has not been used before. Nobody needs it."""
    try:
        libraries()
    except (CkptError, OSError) as error:
        return Check("phantom GPU", True, f"none, and none is needed: {error}")
    return Check("phantom GPU", True, "`ckptlib phantom --gpu a100 script.py` runs PyTorch's CUDA code without a GPU")


def kernel() -> Check:
    """Start the kernel that notebooks ask for, "python3", and ask it which environment it runs in."""
    code = """
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="python3", startup_timeout=60)
try:
    client.execute_interactive("import sys; print(sys.prefix)", timeout=60)
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
"""
    ran, output = _run([sys.executable, "-c", code])
    if ran and Path(output) == Path(sys.prefix):
        return Check("Jupyter's kernel", True, "python3 starts this interpreter", needed_for="book")
    fix = f"{PYTHON} -m ipykernel install --sys-prefix"
    if ran:
        return Check("Jupyter's kernel", False, f"python3 starts another interpreter, in {output}", fix, "book")
    return Check("Jupyter's kernel", False, f"does not start: {output}", fix, "book")


def nbgrader_extension() -> Check:
    """Formgrader, Assignment list and Validate: each has a part in the server, and they share one in JupyterLab."""
    code = """
import json
from pathlib import Path
from jupyter_core.paths import jupyter_config_path, jupyter_path
from jupyter_server.extension.config import ExtensionConfigManager

if not any(Path(folder, "@jupyter", "nbgrader").exists() for folder in jupyter_path("labextensions")):
    raise SystemExit("its files are missing")
server = ExtensionConfigManager(read_config_path=jupyter_config_path()).get_jpserver_extensions()
parts = ["nbgrader.server_extensions." + part for part in ("formgrader", "assignment_list", "validate_assignment")]
disabled = {}
for folder in reversed(jupyter_config_path()):  # the first folder has the last word
    page = Path(folder, "labconfig", "page_config.json")
    if page.exists():
        disabled |= json.loads(page.read_text(encoding="utf-8")).get("disabledExtensions", {})
print(*[part for part in parts if not server.get(part)], *["@jupyter/nbgrader"] * disabled.get("@jupyter/nbgrader", 0))
"""
    name = "nbgrader extension"
    ran, output = _run([sys.executable, "-c", code])
    if not ran:
        return Check(name, False, output, f"{PYTHON} -m pip install --force-reinstall --no-deps nbgrader")
    off = output.split()
    if not off:
        return Check(name, True, "enabled in JupyterLab and its server")
    for_lab = f"{PYTHON} -m jupyter labextension enable --level=sys_prefix"
    for_server = f"{PYTHON} -m jupyter server extension enable --sys-prefix"
    fix = " && ".join(f"{for_lab if part.startswith('@') else for_server} {part}" for part in off)
    return Check(name, False, f"not enabled: {', '.join(off)}", fix)


def bubblewrap() -> Check:
    """Run a program in the kind of sandbox that grading uses. Being installed is not enough: many systems forbid it."""
    if not sys.platform.startswith("linux"):
        says = "exists only on Linux: here grading sets limits but hides nothing"
        fix = "a Linux machine, a virtual machine or WSL, for submissions that you do not trust"
        return Check("bubblewrap", False, says, fix, "grading")
    if not shutil.which("bwrap"):
        return Check("bubblewrap", False, "is not installed", _system_install("bubblewrap"), "grading")
    sandbox = "bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --unshare-all --die-with-parent true"
    ran, output = _run(shlex.split(sandbox))
    if ran:
        return Check("bubblewrap", True, "runs programs in a sandbox", needed_for="grading")
    says = f"is installed but cannot make a sandbox: {output}"
    if "mount proc" in output or any(mark.exists() for mark in CONTAINER_MARKS):  # no sysctl lifts that
        return Check("bubblewrap", False, says, CONTAINER_OPTIONS, "grading")
    ubuntu = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").exists()
    setting = "kernel.apparmor_restrict_unprivileged_userns=0" if ubuntu else "user.max_user_namespaces=15000"
    return Check("bubblewrap", False, says, f"sudo sysctl -w {setting}", "grading")


def chromium() -> Check:
    """Only the browser tests use it; readers bring their own browser."""
    browser = find_chromium()
    if not browser:
        return Check("Chromium", False, "is not installed: only the browser tests need it", _system_install("chromium"))
    ran, output = _run([browser, "--version"])
    return Check("Chromium", ran, output, "" if ran else _system_install("chromium"))


def find_chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, names) if path), None)


def _system_install(package: str) -> str:
    managers = {
        "apt-get": "sudo apt-get install",
        "dnf": "sudo dnf install",
        "pacman": "sudo pacman -S",
        "zypper": "sudo zypper install",
        "brew": "brew install",
    }
    command = next((command for manager, command in managers.items() if shutil.which(manager)), None)
    return f"{command} {package}" if command else f"install {package} with your system's package manager"


def _run(command: list[str]) -> tuple[bool, str]:
    """Whether it succeeded, and what it printed; if it failed, the last thing it said about why."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    if done.returncode == 0:
        return True, done.stdout.strip()
    complaint = done.stderr.strip().splitlines()
    return False, complaint[-1] if complaint else f"exit code {done.returncode}"
