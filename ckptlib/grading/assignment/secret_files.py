"""What of an assignment's source must students never get? The key, copies of it, and what nbgrader leaves out."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from ...errors import CkptError

PRIVATE = ("key.py", "hidden.py")  # never released; what hidden.py asks, a kernel sees when it is asked

# key.py~, key.pyc, .key.py.swp, "key (copy).py", key-checkpoint.py, "Copy of key.py"; and 01_toy.ipynb.bak: what only
# resembles a notebook is not cleared of its solutions. hidden_layers.py is an honest name.
_COPIES = re.compile(r"^\W*(key|hidden)(\.|\W.*\.py)|\W(key|hidden)\.py|\.ipynb.", re.IGNORECASE | re.DOTALL)
_BACKUPS = ("~", "#", ".bak", ".orig", ".rej", ".old", ".swp", ".pyc")


def is_private(path: str) -> bool:
    """By its name: key.py, hidden.py, a backup or copy of one of them, or a backup of a notebook. In any folder."""
    return _COPIES.search(PurePosixPath(path).name) is not None


def stays_away_from_kernels(path: str) -> bool:
    """Whatever a submission could look answers up in: notebooks hold solutions, backups and caches hold anything."""
    parts = PurePosixPath(path.lower()).parts
    hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
    return hidden or is_private(path) or parts[-1].endswith((".ipynb", *_BACKUPS))


def handed_out(folder: Path, ignore: list[str]) -> set[str]:
    """The files beside the notebooks that nbgrader would release, by its own rule, which is not quite fnmatch's."""
    from nbgrader.utils import find_all_files

    return {Path(path).relative_to(folder).as_posix() for path in find_all_files(str(folder), [*ignore, "*.ipynb"])}


def ignore_patterns(source: Path) -> list[str]:
    """c.CourseDirectory.ignore of the course that this source is in; where it says nothing, the user's own."""
    from jupyter_core.paths import jupyter_config_path
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config.loader import Config, JSONFileConfigLoader, PyFileConfigLoader

    loaders = {"nbgrader_config.json": JSONFileConfigLoader, "nbgrader_config.py": PyFileConfigLoader}
    above = [place for place in source.parents if any((place / name).is_file() for name in loaders)]
    config = Config()
    for place in [*map(Path, reversed(jupyter_config_path())), *above[:1]]:  # the last one wins
        for name, loader in loaders.items():
            if (place / name).is_file():
                try:
                    config.merge(loader(name, str(place)).load_config())
                except Exception as error:
                    raise CkptError(f"{place / name}: {type(error).__name__}: {error}") from error
    return CourseDirectory(config=config).ignore
