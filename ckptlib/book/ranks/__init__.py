"""What does a function return on each of several ranks? Real processes on this machine, gone when the answers are here.

`run` starts them with torchrun, for the book; `forked` copies the calling process, in a fraction of the time, for
checks. Both use gloo on 127.0.0.1, end in bounded time, and leave no process, port or file behind, even when a rank
dies or hangs, or the caller is interrupted or killed.

That is so on Linux. On macOS and Windows `forked` runs threads, and a process that is killed may leave a rank that
hangs; on Windows, where torch has no gloo, ranks meet through files.
"""

from .fork import forked
from .rank_errors import RankError
from .torchrun import answer, begin, run, source

__all__ = ["RankError", "answer", "begin", "forked", "run", "source"]
