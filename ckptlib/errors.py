"""What did the caller do wrong? One error class, so that the command line can tell a mistake in use from a bug."""


class CkptError(Exception):
    """A mistake in use: the message says what was found, what was expected, and the likeliest cause."""
