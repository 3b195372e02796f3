"""What does `python -m ckptlib` do? The same as the command `ckptlib`."""

import sys

from ckptlib.cli import main

if __name__ == "__main__":
    sys.exit(main())
