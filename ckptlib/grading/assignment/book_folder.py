"""Where is the book? Beside ckptlib, when it is installed from a checkout."""

from pathlib import Path

BOOK = Path(__file__).resolve().parents[3]  # holds book/, exercises/ and solutions/, if it is a checkout
