"""How does another machine get exactly this ckptlib, and the versions of the packages that it was used with?

A wheel is a zip of the package and of pip's record of it, so neither a build tool nor a checkout is needed.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zipfile
from importlib import metadata
from pathlib import Path

from ...errors import CkptError

PACKAGE = Path(__file__).resolve().parents[2]
_KINDS = (".py", ".typed", ".html", ".j2", ".c", ".txt")
_TIME = (2000, 1, 1, 0, 0, 0)  # the same files give the same bytes


def own_wheel() -> tuple[str, bytes]:
    """The wheel's name and its bytes."""
    installed = metadata.distribution("ckptlib")
    record = installed.read_text  # which takes no encoding, because pip's record is always UTF-8
    about, scripts = record("METADATA") or record("PKG-INFO"), record("entry_points.txt")
    if not about or not scripts:
        raise CkptError("pip's record of ckptlib is incomplete: install it again, with pip")
    paths = (path for path in sorted(PACKAGE.rglob("*")) if path.suffix in _KINDS and "__pycache__" not in path.parts)
    files = {f"ckptlib/{path.relative_to(PACKAGE).as_posix()}": path.read_bytes() for path in paths}
    folder = f"ckptlib-{installed.version}.dist-info"
    files[f"{folder}/METADATA"] = about.encode()
    files[f"{folder}/entry_points.txt"] = scripts.encode()
    files[f"{folder}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: ckptlib\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = [f"{name},sha256={_hash(raw)},{len(raw)}" for name, raw in files.items()]
    files[f"{folder}/RECORD"] = "\n".join([*rows, f"{folder}/RECORD,,", ""]).encode()
    return f"ckptlib-{installed.version}-py3-none-any.whl", zipped(files)


def _hash(raw: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).rstrip(b"=").decode()


def zipped(files: dict[str, bytes], programs: tuple[str, ...] = ()) -> bytes:
    """A zip of these files; the programs among them can be executed."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name, raw in files.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.external_attr = (0o100755 if name in programs else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(entry, raw)
    return packed.getvalue()


def constraints() -> str:
    """The versions of everything that is installed here, as pip's constraints: they install nothing by themselves.

    A version loses everything after a +, because torch's 2.13.0+cpu is another build of 2.13.0. If a package is found
    twice, the copy that is imported counts, because setuptools puts copies of its own at the end of sys.path.
    """
    found: dict[str, str] = {}
    for installed in metadata.distributions():
        name = re.sub(r"[-_.]+", "-", installed.metadata["Name"] or "").lower()
        if name and name not in ("ckptlib", "pip"):
            found.setdefault(name, f"{name}=={installed.version.partition('+')[0]}\n")
    return "".join(found[name] for name in sorted(found))
