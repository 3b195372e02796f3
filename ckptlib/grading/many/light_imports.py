"""What need not be imported to grade? jsonschema's grammars of internet addresses: two seconds, for no notebook."""

from __future__ import annotations

import sys


def skip_grammars() -> None:
    """In a command's own process, before it imports nbformat: jsonschema does without, as if they were missing."""
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # Python's mark for: no such module
