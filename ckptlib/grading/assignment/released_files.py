"""Which files of an assignment's source may students get? Data, modules, and files that the assignment mentions."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from ...errors import CkptError

PRIVATE = ("key.py", "hidden.py")  # never released; a kernel sees the probes of hidden.py while it runs them
KINDS = "csv tsv txt md json jsonl yaml yml toml npy npz pt pth safetensors parquet png jpg jpeg gif svg pdf".split()


def may_be_released(path: str, mentioned_in: str) -> bool:
    """path: relative to the source. mentioned_in: the text of tasks.py and of the notebook.

    Backups and caches have no ending that is released. Other copies of key.py, of hidden.py and of a notebook with its
    solutions have that name as a word in their own: "key (copy).py". hidden_layers.py and keys.csv do not.
    """
    file = PurePosixPath(path)
    if {"key", "hidden", "ipynb"}.intersection(re.findall(r"\w+", file.name.lower())):
        return False
    if any(part.startswith((".", "__")) for part in file.parts):
        return False
    if file.suffix == ".py":
        return file.stem.isidentifier()  # it can be imported
    mentioned = file.suffix and re.search(rf"(?<![\w.-]){re.escape(file.name)}(?!\w)", mentioned_in)
    return file.suffix[1:].lower() in KINDS or bool(mentioned)


def texts_of(source: Path) -> str:
    """The text of tasks.py and of the notebook, in which an author mentions the files that belong to them."""
    paths = [path for path in (source / "tasks.py", source / f"{source.name}.ipynb") if path.is_file()]
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in paths)


def released_by_nbgrader(folder: Path, ignore: list[str]) -> set[str]:
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
