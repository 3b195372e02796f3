"""What did the caller do wrong? One error class, so that the command line can tell a mistake in use from a bug."""

import shlex
import sys
from importlib.util import find_spec


class CkptError(ValueError):
    """A mistake in use. The message names what was found, what was expected, and the likeliest cause.

    It is a ValueError, also where an argument has the wrong type, so that one `except` finds every mistake in use.
    Where the library stands in for a part of torch, it raises what torch raises there.
    """

    exit_code = 2  # of the command line


class OwnCodeFailed(CkptError):
    """The caller's own code raised an error. The message is its traceback without our frames, and a hint."""

    exit_code = 1


class MissingExtra(CkptError, ImportError):
    """The packages that this part of ckptlib needs come with an extra, and that extra is not installed."""


# extra -> the package that shows whether it is installed: it depends on most of the others
_SHOWN_BY = {"book": "ipywidgets", "grading": "nbgrader", "cluster": "distributed"}


def require(extra: str, what: str) -> None:
    """Raise MissingExtra unless the extra that `what` needs is installed."""
    package = _SHOWN_BY[extra]
    if find_spec(package) is None:
        raise MissingExtra(
            f"{what} needs {package}, which comes with an extra. "
            f"Install it with: {shlex.quote(sys.executable)} -m pip install 'ckptlib[{extra}]'"
        )
