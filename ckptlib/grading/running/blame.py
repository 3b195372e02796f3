"""Which cell ended the kernel? Not always the one that was running: a thread may strike a moment later."""

from __future__ import annotations

from collections import Counter

from .driver import Driver, Outcome

_SOON = 2.0  # seconds: a cell that died sooner may have been struck by the one before it
_MOMENT = 1.0  # seconds to wait, in the next kernel, for the blow
_TRIES = 2  # for each suspect, or two cells could suspect each other for ever


class Blame:
    """Who is left out of the next kernel, and who is suspected and gets a second try."""

    def __init__(self) -> None:
        self.culprits: set[str] = set()
        self._suspect = ""
        self._tries: Counter[str] = Counter()

    def struck_from_behind(self, name: str, last: str, driver: Driver) -> bool:
        """Called before `name` is run. Is it the suspect, and did the kernel end without it? Then `last` is guilty."""
        if name != self._suspect or not last or driver.rest(_MOMENT) is None:
            return False
        self._suspect = ""
        self.culprits.add(last)
        return True

    def is_guilty(self, name: str, last: str, outcome: Outcome) -> bool:
        """Called when the kernel ended while `name` ran. False: let it try again, to see whether it ends without it."""
        soon = outcome.why in ("died", "closed") and outcome.seconds < _SOON
        if last and soon and name != self._suspect and self._tries[name] < _TRIES:
            self._suspect = name
            self._tries[name] += 1
            return False
        self._suspect = ""
        return True
