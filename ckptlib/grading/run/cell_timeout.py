"""How is one cell run in a kernel that may never answer? With a clock: interrupt, then kill, and always a reason."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ..sandbox.kernel_process import KernelProcess
from ..sandbox.limits import Limits
from ..sandbox.resource_usage import PERIOD, Watchdog
from ..sandbox.unconfined import PlainProcess
from .listener import Listener

_GRACE = 2.0  # seconds from the interrupt to the kill
_LATE = 2.0  # seconds for the rest of the output after the reply
_LAST_BREATH = 0.3  # seconds: a process that ends closes its connections first
_FLOOD = 16  # times the limit on a cell's output: after that the cell is interrupted
_DELUGE = 64  # times the limit on the submission's output, whatever it is: after that the kernel is killed


@dataclass
class Outcome:
    """How a cell ended: ok | error | timeout | died. `fatal`: the kernel is gone. `why`: one word, or "".

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


class Driver:
    """One kernel, from its first request to its end."""

    def __init__(self, process: KernelProcess | PlainProcess, limits: Limits) -> None:
        self._process, self._limits = process, limits
        self._over_deadline = True  # is the submission's end nearer than the cell's?
        try:
            self.watchdog = Watchdog(process, limits)
            self._kernel = Listener(process.connection_info, limits)
        except BaseException:
            process.close()
            raise

    @property
    def stray_answers(self) -> int:
        """How many answers belonged to no open request."""
        return self._kernel.stray_answers

    def get_ready(self, deadline: float) -> Outcome:
        """Wait until the kernel listens and is heard on both channels. Called before any student code has run."""
        self._process.settle()
        while True:
            request = self._kernel.ask_for_info()
            outcome = self._follow(request, deadline)
            if outcome.fatal or "idle" in self._kernel.seen[request]:
                return outcome

    def run(self, code: str, deadline: float) -> Outcome:
        """Run one cell. `deadline` is for the submission; the cell's own limit counts from now."""
        started = time.monotonic()
        self._over_deadline = deadline < started + self._limits.cell_seconds
        request = self._kernel.execute(code)
        outcome = self._follow(request, min(deadline, started + self._limits.cell_seconds))
        outcome.outputs = self._kernel.outputs.open(request)
        outcome.answers = self._kernel.answers.pop(request)
        outcome.begun = bool(self._kernel.seen[request])
        outcome.seconds = time.monotonic() - started
        return outcome

    def rest(self, seconds: float) -> Outcome | None:
        """Run nothing for a while. None, or how the kernel ended meanwhile, or that it no longer answers."""
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            self._kernel.pump(self._process.ending, PERIOD)
            if ending := self._gone(now):
                return ending
        answered = self._follow(self._kernel.ask_for_info(), until + self._limits.cell_seconds)
        return answered if answered.fatal else None

    def close(self) -> dict | None:
        """End the kernel; how it ended and what it used."""
        self._kernel.close()
        return self._process.close()

    def _follow(self, request: str, deadline: float) -> Outcome:
        interrupted: float | None = None
        replied: float | None = None
        reason = "timeout"
        seen = self._kernel.seen[request]
        while True:
            self._kernel.pump(self._process.ending, PERIOD)
            now = time.monotonic()
            if "reply" in seen:
                replied = replied or now
                if "idle" in seen or now - replied > _LATE:
                    return self._ended(request, interrupted is not None, reason)
            if ending := self._gone(now):
                return ending
            if interrupted is None and (now > deadline or self._floods(request)):
                reason = "timeout" if now > deadline else "output"
                self._process.interrupt()
                interrupted = now
            elif interrupted is not None and now - interrupted > _GRACE:
                self._process.kill()
                return Outcome("timeout", reason, f"{self._over(reason)} and did not stop when interrupted", fatal=True)

    def _floods(self, request: str) -> bool:
        return self._kernel.outputs.received.get(request, 0) > _FLOOD * self._limits.cell_output_bytes

    def _over(self, reason: str) -> str:
        limits = self._limits
        if reason == "output":
            return f"printed more than {_FLOOD * limits.cell_output_bytes >> 20} MiB"
        if self._over_deadline:
            return f"was running when the submission's {limits.wall_seconds:g} s were over"
        return f"ran longer than {limits.cell_seconds:g} s"

    def _ended(self, request: str, interrupted: bool, reason: str) -> Outcome:
        if interrupted:
            return Outcome("timeout", reason, f"{self._over(reason)} and was interrupted")
        return Outcome(self._kernel.status[request])

    def _gone(self, now: float) -> Outcome | None:
        """The kernel is dead, or as good as dead, and why."""
        kernel = self._kernel
        if why := self.watchdog.check(now):
            return Outcome("died", why, f"used {self.watchdog.sentence} and was stopped", fatal=True)
        if not self._process.alive() or (kernel.hung_up and self._process.wait(_LAST_BREATH)):
            kernel.drain()
            return Outcome("died", "died", f"ended the kernel ({self._how()})", fatal=True)
        if kernel.received > _DELUGE * self._limits.output_bytes:
            return self._stop("output", f"sent {kernel.received >> 20} MiB and was stopped")
        if kernel.only_garbage:
            return self._stop("garbage", "sent what no kernel sends and was stopped")
        if kernel.hung_up:
            return self._stop("closed", "closed the connection to the kernel")
        return None

    def _stop(self, why: str, sentence: str) -> Outcome:
        self._process.kill()
        return Outcome("died", why, sentence, fatal=True)

    def _how(self) -> str:
        code = (self._process.wait(1.0) or {}).get("exit", "unknown")
        return f"signal {-code}" if isinstance(code, int) and code < 0 else f"exit code {code}"
