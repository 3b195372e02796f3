"""Are sizes read and written as people write them, and as PyTorch does?"""

import pytest

from ckptlib.errors import CkptError
from ckptlib.units import GiB, MiB, mib, parse_bytes, size, torch_size, unit


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("0", 0),
        (" 1000 ", 1000),
        ("-1", -1),  # whoever asked for the size says what is wrong with it
        ("80000000000.0", 80 * 10**9),  # a float, as 80e9 in Python
        ("12345678901234567891", 12345678901234567891),  # more digits than a float has
        ("7b", 7),
        ("1kB", 1000),
        ("1KiB", 1024),
        ("4.35GB", 4_350_000_000),
        ("0.5 tib", 2**39),
    ],
)
def test_sizes_are_read(text, nbytes):
    assert parse_bytes(text) == nbytes


@pytest.mark.parametrize("text", ["", "GiB", "80G", "80Gi", "80iB", "1.5", "1e9", "1,000", "80 GiB of memory"])
def test_other_texts_are_refused(text):
    with pytest.raises(CkptError, match="is not a number of bytes, such as 1000000, 500MB or 20GiB"):
        parse_bytes(text)


def test_sizes_are_written():
    assert (unit(MiB), unit(MiB - 1)[1], unit(0)) == ((MiB, "MiB"), "KiB", (1, "B"))
    assert (size(2000 * GiB), size(1023), mib(3 * GiB)) == ("2,000.00 GiB", "1,023 B", "3,072.00")
    assert (torch_size(GiB), torch_size(2000 * GiB), torch_size(0)) == ("1024.00 MiB", "2000.00 GiB", "0 bytes")
