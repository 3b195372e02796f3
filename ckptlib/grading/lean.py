"""What need not be imported to grade? jsonschema's grammars of internet addresses: two seconds, for no notebook."""

from __future__ import annotations

import sys


def skip_grammars() -> None:
    """For a command's own process, before it imports nbformat: jsonschema does without the package, as if it were missing."""
    sys.modules.setdefault("rfc3987_syntax", None)
