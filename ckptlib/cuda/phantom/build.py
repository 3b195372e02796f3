"""How is the stand-in for CUDA made? From phantom.c and a stub for every other name, by the C compiler of the machine.

The library is compiled once for each installed torch, into the user's cache. Nothing of NVIDIA's is copied: the headers
are those of the packages that torch's CUDA build depends on.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata, util
from pathlib import Path

from ...errors import CkptError

SOURCE = Path(__file__).with_name("phantom.c")
INSTEAD = "device='sim:cuda' predicts what a GPU would count, and needs none of this."
# The libraries of CUDA, by how their names begin, and what a stub of theirs returns: 0 means that the call succeeded.
# Without a success torch raises an error, which is better than sizes that nobody wrote.
SUCCEED = {"cuda": 0, "__cuda": 0, "cu[A-Z]": 0, "cublas": 0, "cudnn": 0}
FAIL = {"cudaGraph": 801, "cudaStream(Begin|End|Update)": 801, "cuda(MemPool|Ipc|.*Async$)": 801}
FAIL |= {"cudaDeviceGetDefaultMemPool": 801, "cudnn(RNN|.*RNN|.*CTC|Backend)": 3000}
FAIL |= {"cusolver": 7, "cusparse": 7, "cufft": 5, "curand": 201, "nccl": 3, "cuFile": 5001, "cupti": 15}
# Torch opens these two by their names. NVML reports no processes, and answers 3 ("not supported") to most other
# questions.
CUDA, NVML = "libcuda.so.1", "libnvidia-ml.so.1"
NVML_ANSWERS = {"nvmlInit_v2": "return 0;", "nvmlDeviceGetHandleByPciBusId_v2": "return 0;"}
NVML_ANSWERS |= {"nvmlDeviceGetComputeRunningProcesses": "*count = 0; return 0;"}
NOTED = ("cudnn", "cusolver", "cusparse", "cufft", "curand", "nccl", "cudaGraph")  # they end up in the result


class NoPhantom(CkptError):
    """A phantom GPU cannot be made on this machine."""


def libraries() -> tuple[Path, Path]:
    """The compiled stand-ins for CUDA and for NVML, for this interpreter's torch. They are compiled on first use, which
    takes about a second."""
    torch = _torch_folder()
    what = [SOURCE.read_bytes(), Path(__file__).read_bytes(), str(torch).encode(), metadata.version("torch").encode()]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ckptlib"
    # The first part of the name says for which torch, and the second part for which version of it and of our source.
    parts = (hashlib.sha256(part).hexdigest()[:12] for part in (str(torch).encode(), b"|".join(what)))
    folder = cache / "-".join(("phantom", *parts))
    made = folder / CUDA, folder / NVML
    if all(library.exists() for library in made):
        return made
    headers = _headers(torch)
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or shutil.which("nm") is None:
        missing = "C compiler, such as gcc," if compiler is None else "nm, a program of binutils,"
        raise NoPhantom(f"a phantom GPU is compiled on first use, and no {missing} was found. {INSTEAD}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as own:  # two processes may compile side by side
            for library in _compile(compiler, headers, torch, Path(own)):
                library.rename(folder / library.name)
        remove_older(folder)
    except OSError as error:
        raise NoPhantom(f"a phantom GPU is kept in {cache}, which cannot be written ({error}). {INSTEAD}") from None
    return made


def remove_older(folder: Path) -> None:
    """Remove what was compiled before for the same torch. A process that has it loaded keeps it."""
    for other in folder.parent.glob(f"{folder.name.rpartition('-')[0]}-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)


def _torch_folder() -> Path:
    if not sys.platform.startswith("linux"):
        raise NoPhantom(f"a phantom GPU exists only on Linux, and this is {sys.platform}. {INSTEAD}")
    found = util.find_spec("torch")
    if found is None or found.origin is None:
        raise NoPhantom("a phantom GPU runs PyTorch's CUDA build, and torch is not installed")
    folder = Path(found.origin).parent
    if not (folder / "lib" / "libtorch_cuda.so").exists():
        raise NoPhantom(
            f"a phantom GPU runs PyTorch's CUDA build, which torch {metadata.version('torch')} of {sys.prefix} is not. "
            f"`make phantom` installs one beside it. {INSTEAD}"
        )
    return folder


def _headers(torch: Path) -> list[Path]:
    """The include folders of the nvidia packages, which stand beside torch."""
    found = sorted({header.parent for header in (torch.parent / "nvidia").glob("*/include/*.h")})
    names = {header.name for folder in found for header in folder.glob("*.h")}
    if missing := {"cuda_runtime_api.h", "cudnn.h"} - names:
        raise NoPhantom(f"the nvidia packages beside torch lack {', '.join(sorted(missing))}. {INSTEAD}")
    return found


def _compile(compiler: str, headers: list[Path], torch: Path, folder: Path) -> list[Path]:
    # One header belongs to NVIDIA's compiler, which torch does not bring. Its words are defined as empty here.
    words = "__host__ __device__ __global__ __device_builtin__ __cudart_builtin__ CUDARTAPI CUDARTAPI_CDECL CUDAAPI"
    words += " __device_builtin_texture_type__ __device_builtin_surface_type__"
    own = folder / "crt" / "host_defines.h"
    own.parent.mkdir()
    lines = [f"#define {word}" for word in words.split()]
    lines += [f"#define {word}(n) __attribute__((aligned(n)))" for word in ("__align__", "__builtin_align__")]
    own.write_text("\n".join(lines) + "\n", encoding="utf-8")
    include = [f"-I{path}" for path in (folder, *headers)]
    _run(compiler, "-O1", "-fPIC", "-w", *include, "-c", str(SOURCE), "-o", str(folder / "phantom.o"))
    stubs = _stubs(_imported(torch) - _names(folder / "phantom.o", "--defined-only"))
    asked = re.findall(rb"\0(nvml\w+)\0", (torch / "lib" / "libc10_cuda.so").read_bytes())
    answers = dict.fromkeys((name.decode() for name in asked), "return 3;") | NVML_ANSWERS
    nvml = "".join(f"int {name}(void *card, unsigned *count) {{ {body} }}\n" for name, body in answers.items())
    sources = {CUDA: (stubs, str(folder / "phantom.o"), "-ldl", "-lpthread"), NVML: (nvml,)}
    for name, (text, *more) in sources.items():
        source = folder / f"{name}.c"
        source.write_text(text, encoding="utf-8")
        # Whoever opens a library of this name gets the one that is loaded already, because it has that name.
        options = ["-O1", "-fPIC", "-w", "-shared", f"-Wl,-soname,{name}"]
        _run(compiler, str(source), *more, *options, "-o", str(folder / name))
    return [folder / name for name in sources]


def _imported(torch: Path) -> set[str]:
    """The names of CUDA's libraries that torch's own libraries import."""
    begin = re.compile("|".join((*SUCCEED, *FAIL)))
    names = {name for path in (torch / "lib").glob("lib*.so") for name in _names(path, "--undefined-only")}
    return {name for name in names if begin.match(name)}


def _names(path: Path, which: str) -> set[str]:
    lines = _run("nm", "-D" if path.suffix == ".so" else "-g", which, "-P", str(path)).splitlines()
    return {line.split()[0].split("@")[0] for line in lines if line}


def _stubs(names: set[str]) -> str:
    lines = ["int phantom_note(const char *, int);"]
    for name in sorted(names):
        status = next((code for begin, code in FAIL.items() if re.match(begin, name)), 0)
        noted = status or name.startswith(NOTED)
        lines.append(
            f"int {name}(void) {{ return {f'phantom_note({chr(34)}{name}{chr(34)}, {status})' if noted else 0}; }}"
        )
    return "\n".join(lines) + "\n"


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        raise NoPhantom(f"{command[0]} failed, so no phantom GPU can be made:\n{done.stderr.strip()[:2000]}\n{INSTEAD}")
    return done.stdout
