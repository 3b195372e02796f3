"""How are sizes written and read? KiB, MiB and GiB are powers of 1,024; kB, MB and GB are powers of 1,000."""

from __future__ import annotations

import re
from fractions import Fraction

from .errors import CkptError

KiB, MiB, GiB = 2**10, 2**20, 2**30
_SIZE = re.compile(r"(-?\d+(?:\.\d+)?)\s*((?:([kmgt])(i?))?b)?", re.IGNORECASE)


def unit(nbytes: int) -> tuple[int, str]:
    """The largest unit that the bytes fill, and its name."""
    return next(((per, name) for per, name in ((GiB, "GiB"), (MiB, "MiB"), (KiB, "KiB")) if nbytes >= per), (1, "B"))


def size(nbytes: int) -> str:
    """
    >>> size(101_040_640), size(512)
    ('96.36 MiB', '512 B')
    """
    per, name = unit(nbytes)
    return f"{nbytes / per:,.2f} {name}" if per > 1 else f"{nbytes:,} B"


def torch_size(nbytes: int) -> str:
    """The size as PyTorch's messages print it (`format_size` in c10): 1024.00 KiB rather than 1.00 MiB.

    >>> torch_size(2**20), torch_size(2**20 + 1), torch_size(2**10)
    ('1024.00 KiB', '1.00 MiB', '1024 bytes')
    """
    per, name = unit(nbytes - 1)
    return f"{nbytes / per:.2f} {name}" if per > 1 else f"{nbytes} bytes"


def mib(nbytes: int) -> str:
    """The number alone, for a column of a table."""
    return f"{nbytes / MiB:,.2f}"


def parse_bytes(text: str) -> int:
    """The bytes that a person has written down. A number without a unit counts bytes.

    >>> parse_bytes("1000"), parse_bytes("1.5GiB"), parse_bytes("2 mb")
    (1000, 1610612736, 2000000)
    """
    found = _SIZE.fullmatch(text.strip())
    if not found or (not found[2] and Fraction(found[1]).denominator > 1):
        raise CkptError(f"{text!r} is not a number of bytes, such as 1000000, 500MB or 20GiB")
    number, _, prefix, binary = found.groups()
    return int(Fraction(number) * (1024 if binary else 1000) ** " kmgt".index((prefix or " ").lower()))
