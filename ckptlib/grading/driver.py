"""How is one cell run in a kernel that may never answer? With a clock: interrupt, then kill, and always a reason."""

from __future__ import annotations

import contextlib
import select
import time
from dataclasses import dataclass, field
from typing import Any

from .limits import MIB, Limits
from .messages import Conversation, Message
from .outputs import Outputs
from .process import KernelProcess
from .watchdog import PERIOD, Watchdog
from .zmtp import Malformed, Peer

MIME = "application/vnd.ckptlib.answer+json"
_GRACE = 2.0  # seconds from the interrupt to the kill
_LATE = 2.0  # seconds for the rest of the output after the reply
_FLOOD = 16  # times the limit on output: after that the cell is interrupted
_MOST_GARBAGE = 20


@dataclass
class Outcome:
    """How a cell ended: ok | error | timeout | died. `fatal`: the kernel is gone. `why`: one word, or ""."""

    status: str
    why: str = ""
    sentence: str = ""
    fatal: bool = False
    outputs: list[dict] = field(default_factory=list)
    answers: list[dict] = field(default_factory=list)
    seconds: float = 0.0


class Driver:
    """One kernel, from its first request to its end."""

    def __init__(self, process: KernelProcess, limits: Limits) -> None:
        self._process, self._limits = process, limits
        try:
            self.watchdog = Watchdog(process, limits)
            self._talk = Conversation(process.connection_info, limits.cell_output_bytes + 16 * MIB)
        except BaseException:
            process.close()
            raise
        self._outputs = Outputs(limits)
        self._garbage = 0
        self._over_deadline = True  # is the submission's end nearer than the cell's?
        self._seen: dict[str, set[str]] = {}  # request -> what has arrived of "reply", "idle"
        self._answers: dict[str, list[dict]] = {}
        self.stray_answers = 0  # answers that belonged to no open question
        self._status: dict[str, str] = {}

    def get_ready(self, deadline: float) -> Outcome:
        """Wait until the kernel listens and is heard on both channels. Called before any student code has run."""
        self._process.settle()
        while True:
            request = self._expect(self._talk.request("kernel_info_request", {}))
            outcome = self._follow(request, deadline)
            if outcome.fatal or "idle" in self._seen[request]:
                return outcome

    def run(self, code: str, deadline: float) -> Outcome:
        """Run one cell. `deadline` is for the submission; the cell's own limit counts from now."""
        started = time.monotonic()
        request = self._expect(self._talk.execute(code))
        outputs = self._outputs.open(request)
        self._over_deadline = deadline < started + self._limits.cell_seconds
        outcome = self._follow(request, min(deadline, started + self._limits.cell_seconds))
        outcome.outputs, outcome.answers = outputs, self._answers.pop(request)
        outcome.seconds = time.monotonic() - started
        return outcome

    def close(self) -> dict | None:
        """End the kernel; how it ended and what it used."""
        self._talk.close()
        return self._process.close()

    def _expect(self, request: str) -> str:
        self._seen[request], self._answers[request] = set(), []
        return request

    # ---- the loop ---------------------------------------------------------------------------------------------------
    def _follow(self, request: str, deadline: float) -> Outcome:
        interrupted: float | None = None
        replied_at: float | None = None
        reason = "timeout"
        while True:
            self._pump()
            now = time.monotonic()
            seen = self._seen[request]
            if "reply" in seen:
                replied_at = replied_at or now
                if "idle" in seen or now - replied_at > _LATE:
                    return self._ended(request, interrupted is not None, reason)
            if ending := self._gone(now):
                return ending
            if interrupted is None and (now > deadline or self._outputs.received.get(request, 0) > self._flood):
                reason = "timeout" if now > deadline else "output"
                self._process.interrupt()
                interrupted = now
            elif interrupted is not None and now - interrupted > _GRACE:
                self._process.kill()
                return Outcome("timeout", reason, f"{self._over(reason)} and did not stop when interrupted", fatal=True)

    @property
    def _flood(self) -> int:
        return _FLOOD * self._limits.cell_output_bytes

    def _over(self, reason: str) -> str:
        if reason == "output":
            return f"printed more than {self._flood >> 20} MiB"
        if self._over_deadline:
            return f"was running when the submission's {self._limits.wall_seconds:g} s were over"
        return f"ran longer than {self._limits.cell_seconds:g} s"

    def _ended(self, request: str, interrupted: bool, reason: str) -> Outcome:
        if interrupted:
            return Outcome("timeout", reason, f"{self._over(reason)} and was interrupted")
        return Outcome(self._status.get(request, "ok"))

    def _gone(self, now: float) -> Outcome | None:
        """The kernel is dead, or as good as dead, and why."""
        if why := self.watchdog.check(now):
            return Outcome("died", why, f"used {self.watchdog.sentence} and was stopped", fatal=True)
        if self._garbage > _MOST_GARBAGE:
            self._process.kill()
            return Outcome("died", "garbage", "sent what no kernel sends and was stopped", fatal=True)
        if not self._process.alive():
            self._drain()
            return Outcome("died", "died", f"ended the kernel ({self._how()})", fatal=True)
        if self._talk.shell.closed or self._talk.iopub.closed:
            self._process.kill()
            return Outcome("died", "closed", "closed the connection to the kernel", fatal=True)
        return None

    def _how(self) -> str:
        code = (self._process.wait(1.0) or {}).get("exit", "unknown")
        return f"signal {-code}" if isinstance(code, int) and code < 0 else f"exit code {code}"

    def _drain(self) -> None:
        """What a dying kernel said last."""
        for _ in range(64):
            if self._talk.iopub.closed or not _ready([self._talk.iopub], [], 0):
                return
            self._take(self._talk.iopub)

    # ---- messages ---------------------------------------------------------------------------------------------------
    def _pump(self) -> None:
        peers = [peer for peer in (self._talk.shell, self._talk.iopub) if not peer.closed]
        ready = _ready([*peers, self._process.ending], [peer for peer in peers if peer.unsent], PERIOD)
        for peer in peers:
            if peer.unsent:
                peer.pump_out()
            if peer.fileno() in ready:
                self._take(peer)

    def _take(self, peer: Peer) -> None:
        try:
            for frames in peer.pump_in():
                with self._counting_garbage():
                    self._handle(self._talk.read(frames), peer is self._talk.shell)
        except Malformed:
            self._garbage = _MOST_GARBAGE + 1  # the stream itself is broken: there is no next message
            peer.close()

    @contextlib.contextmanager
    def _counting_garbage(self) -> Any:
        try:
            yield
        except Malformed:
            self._garbage += 1

    def _handle(self, message: Message, on_shell: bool) -> None:
        seen = self._seen.get(message.parent)
        if seen is None:  # belongs to nothing that was asked
            self.stray_answers += _answer(message) is not None
            return
        if on_shell:
            if message.kind.endswith("_reply"):
                seen.add("reply")
                self._status[message.parent] = "ok" if message.content.get("status") == "ok" else "error"
        elif message.kind == "status":
            if message.content.get("execution_state") == "idle":
                seen.add("idle")
        elif (answer := _answer(message)) is not None:
            self._take_answer(message, answer)
        else:
            self._outputs.add(message)

    def _take_answer(self, message: Message, answer: dict) -> None:
        answers = self._answers.get(message.parent)
        if answers is None:
            self.stray_answers += 1
        elif len(answers) < 2:  # a second one already spoils the first: no need to keep more
            answers.append(answer)


def _answer(message: Message) -> dict | None:
    data = message.content.get("data")
    if message.kind != "display_data" or not isinstance(data, dict) or MIME not in data:
        return None
    return data[MIME] if isinstance(data[MIME], dict) else {}


def _ready(readers: list, writers: list, seconds: float) -> set[int]:
    """Descriptors with something to do. poll, not select: that fails on descriptors from 1024 up."""
    poll = select.poll()
    for reader in readers:
        poll.register(reader, select.POLLIN)
    for writer in writers:
        poll.register(writer, select.POLLIN | select.POLLOUT)
    return {fd for fd, event in poll.poll(seconds * 1000) if event & ~select.POLLOUT}
