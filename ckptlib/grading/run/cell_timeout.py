"""How is one cell run in a kernel that may never answer? With a time limit: interrupt, then kill, with a reason."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field

from ..sandbox.kernel_process import KernelProcess
from ..sandbox.limits import Limits
from ..sandbox.usage_watchdog import PERIOD, Watchdog
from ..sandbox.without_isolation import UnconfinedProcess
from .message_collector import Listener

_GRACE = 2.0  # seconds from the interrupt to the kill
_LATE = 2.0  # seconds for the rest of the output after the reply
_EXIT_SECONDS = 0.3  # a process that ends closes its connections first
_INTERRUPT_FACTOR = 16  # times the limit on a cell's output: after that the cell is interrupted
_PATIENCE = 2.0  # times a limit: so much waiting for a processor is not counted, and no more
_KILL_FACTOR = 64  # times the limit on the submission's output of any kind: after that the kernel is killed


@dataclass
class Outcome:
    """How a cell ended: ok | error | timeout | died. `fatal`: the kernel is gone. `why`: one word, or "".

    `waited`: seconds of it in which others had the processors, which do not count.
    `begun`: the kernel said that it took the cell up. One that ends at once may not come to say so.
    """

    status: str
    why: str = ""
    sentence: str = ""
    fatal: bool = False
    begun: bool = True
    outputs: list[dict] = field(default_factory=list)
    answers: list[dict] = field(default_factory=list)
    seconds: float = 0.0
    waited: float = 0.0


class Driver:
    """One kernel, from its first request to its end."""

    def __init__(self, process: KernelProcess | UnconfinedProcess, limits: Limits) -> None:
        self._process, self._limits = process, limits
        self._over_deadline = True  # is the submission's end nearer than the cell's?
        try:
            self.watchdog = Watchdog(process, limits)
            self.kernel = Listener(process.connection_info, limits)
        except BaseException:
            process.close()
            raise

    def get_ready(self, deadline: float) -> Outcome:
        """Wait until the kernel listens and is heard on both channels. Called before any student code has run."""
        self._process.settle()
        while True:
            request = self.kernel.ask_for_info()
            outcome = self._follow(request, deadline)
            if outcome.fatal or "idle" in self.kernel.seen[request]:
                return outcome

    def run(self, code: str, deadline: float) -> Outcome:
        """Run one cell. `deadline` is for the submission; the cell's own limit counts from now."""
        started = time.monotonic()
        self._over_deadline = deadline < started + self._limits.cell_seconds
        waited = self.watchdog.waited
        request = self.kernel.execute(code)
        outcome = self._follow(request, min(deadline, started + self._limits.cell_seconds))
        outcome.outputs = self.kernel.outputs.open(request)
        outcome.answers = self.kernel.answers.pop(request)
        outcome.begun = bool(self.kernel.seen[request])
        outcome.seconds = time.monotonic() - started
        outcome.waited = self._waited_since(waited)
        return outcome

    def rest(self, seconds: float, deadline: float) -> Outcome | None:
        """Run nothing for a while, but not beyond the deadline.

        None, or how the kernel ended meanwhile, or that it no longer answers.
        """
        until = min(time.monotonic() + seconds, deadline)
        while (now := time.monotonic()) < until:
            self.kernel.pump(self._process.ending, PERIOD)
            if ending := self._gone(now):
                return ending
        answered = self._follow(self.kernel.ask_for_info(), min(until + self._limits.cell_seconds, deadline))
        return answered if answered.fatal else None

    def close(self) -> dict | None:
        """End the kernel; how it ended and what it used."""
        self.kernel.close()
        return self._process.close()

    def _follow(self, request: str, deadline: float) -> Outcome:
        interrupted: float | None = None
        replied: float | None = None
        reason = "timeout"
        waited = self.watchdog.waited
        seen = self.kernel.seen[request]
        while True:
            self.kernel.pump(self._process.ending, PERIOD)
            now = time.monotonic()
            if "reply" in seen:
                replied = replied or now
                if "idle" in seen or now - replied > _LATE:
                    if interrupted is None:
                        return Outcome(self.kernel.status[request])
                    return Outcome("timeout", reason, f"{self._over(reason)} and was interrupted")
            if ending := self._gone(now):
                return ending
            floods = self.kernel.outputs.received.get(request, 0) > _INTERRUPT_FACTOR * self._limits.cell_output_bytes
            is_late = now > deadline and now > deadline + self._waited_since(waited)
            if interrupted is None and (is_late or floods):
                reason = "timeout" if is_late else "output"
                self._process.signal(signal.SIGINT)
                interrupted, waited = now, self.watchdog.waited
            elif interrupted is not None and now - interrupted > _GRACE + self._waited_since(waited, _GRACE):
                self._process.kill()
                return Outcome("timeout", reason, f"{self._over(reason)} and did not stop when interrupted", fatal=True)

    def _waited_since(self, before: float, limit: float = 0.0) -> float:
        """Seconds for which the kernel, or a process of its own, was ready to run and others ran.

        limit: on what was waited for; by default that on a cell.
        """
        return min(self.watchdog.waited - before, _PATIENCE * (limit or self._limits.cell_seconds))

    def _over(self, reason: str) -> str:
        limits = self._limits
        if reason == "output":
            return f"printed more than {_INTERRUPT_FACTOR * limits.cell_output_bytes >> 20} MiB"
        if self._over_deadline:
            return f"was running when the submission's {limits.wall_seconds:g} s were over"
        return f"ran longer than {limits.cell_seconds:g} s"

    def _gone(self, now: float) -> Outcome | None:
        """How the kernel ended, or why it had to be ended; None if it is well."""
        kernel = self.kernel
        if why := self.watchdog.check(now):
            return Outcome("died", why, f"used {self.watchdog.sentence} and was stopped", fatal=True)
        if not self._process.alive() or (kernel.hung_up and self._process.wait(_EXIT_SECONDS)):
            kernel.drain()
            code = (self._process.wait(1.0) or {}).get("exit", "unknown")
            how = f"signal {-code}" if isinstance(code, int) and code < 0 else f"exit code {code}"
            return Outcome("died", "died", f"ended the kernel ({how})", fatal=True)
        if kernel.received > _KILL_FACTOR * self._limits.output_bytes:
            return self._stop("output", f"sent {kernel.received >> 20} MiB and was stopped")
        if kernel.only_garbage:
            return self._stop("garbage", "sent malformed messages and was stopped")
        if kernel.hung_up:
            return self._stop("closed", "closed the connection to the kernel")
        return None

    def _stop(self, why: str, sentence: str) -> Outcome:
        self._process.kill()
        return Outcome("died", why, sentence, fatal=True)
