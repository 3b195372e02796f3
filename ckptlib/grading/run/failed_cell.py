"""Which cell ended the kernel? Not always the one that was running: a thread may strike a moment later."""

from __future__ import annotations

from .cell_driver import Driver, Outcome

_SOON = 2.0  # seconds: a cell that died sooner may have been struck by an earlier one
_MOMENT = 1.0  # seconds to wait at least, after a cell that is watched, for the blow
_PATIENCE = 2.0  # times what the blow took to fall: a kernel on a busy machine is slow to die, too


class Blame:
    """Who is left out of the next kernel. In doubt, the next kernel waits after every cell, to see who ends it."""

    def __init__(self) -> None:
        self.culprits: set[str] = set()
        self._cleared: set[str] = set()  # watched once, and the kernel lived
        self._in_doubt, self._wait = False, _MOMENT

    def struck_from_behind(self, last: str, driver: Driver) -> bool:
        """Called before the next cell is run. Did `last` end the kernel after all?"""
        if not self._in_doubt or not last or last in self._cleared:
            return False
        if driver.rest(self._wait) is None:
            self._cleared.add(last)
            return False
        self._in_doubt = False
        self.culprits.add(last)
        return True

    def is_guilty(self, last: str, outcome: Outcome) -> bool:
        """Called when the kernel ended while a cell ran, after `last`. False: in doubt, let it try again."""
        soon = outcome.why in ("died", "closed") and outcome.seconds < _SOON
        self._in_doubt = bool(last) and last not in self._cleared and (soon or not outcome.begun)
        died_after = outcome.seconds if outcome.status == "died" else 0.0
        self._wait = max(_MOMENT, _PATIENCE * died_after)
        return not self._in_doubt
