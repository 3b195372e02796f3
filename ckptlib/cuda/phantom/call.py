"""What does the process with the card do when a function was sent to it? Call it, and leave the answer in a file."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path


def main(job: str, answer: str) -> None:
    # The search path comes first, because the function is looked up by the name of its module.
    path, call = pickle.loads(Path(job).read_bytes())
    sys.path[:] = path
    result, error = None, None
    try:
        function, args, options = pickle.loads(call)
        result = function(*args, **options)
    except Exception as raised:
        error = raised
    Path(answer).write_bytes(pickle.dumps((result, error)))


if __name__ == "__main__":
    main(*sys.argv[1:])
