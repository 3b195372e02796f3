"""What did the caller do wrong? One error class, so that the command line can tell a mistake in use from a bug."""


class CkptError(Exception):
    """A mistake in use: the message says what was found, what was expected, and the likeliest cause."""

    exit_code = 2  # of the command line


class OwnCodeFailed(CkptError):
    """The caller's own code raised an error: the message is its traceback, without our frames, and what may help."""

    exit_code = 1
