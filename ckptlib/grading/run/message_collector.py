"""What has a kernel said, and to which request did it belong? Kept within bounds, whatever it says."""

from __future__ import annotations

import select
import time
import uuid
from typing import Any

from ..sandbox.limits import MIB, Limits
from . import message_validation
from .cell_outputs import Outputs
from .probes_in_kernel import MIME
from .zmtp import Malformed, Peer

_LARGEST = 8 * MIB  # a larger message is not kept
_MOST_GARBAGE = 20


class Listener:
    """Sends requests to one kernel and sorts what comes back.

    Requests and replies go over the shell channel, everything else over iopub. stdin is not opened, so that input()
    fails at once. Interrupts are signals, so control is not needed either.
    """

    def __init__(self, connection_info: dict, limits: Limits) -> None:
        self._key, self._session = connection_info["key"].encode(), uuid.uuid4().hex
        identity, most_bytes = self._session.encode(), limits.cell_output_bytes + _LARGEST
        self._shell = Peer(_address(connection_info, "shell"), "DEALER", identity, most_bytes)
        self._iopub = Peer(_address(connection_info, "iopub"), "SUB", identity, most_bytes)
        self.outputs = Outputs(limits)
        self.seen: dict[str, set[str]] = {}  # request -> what has arrived of "busy", "reply", "idle"
        self.status: dict[str, str] = {}  # request -> ok | error
        self.answers: dict[str, list[dict]] = {}  # open request -> its answers, at most two
        self.stray_answers = 0  # answers that belonged to no open request
        self.received = 0  # bytes of all messages
        self._garbage = 0
        self._current = ""

    def ask_for_info(self) -> str:
        """Send the request that every kernel can answer at once; its id."""
        return self._send("kernel_info_request", {})

    def execute(self, code: str) -> str:
        """Send a cell; the id of the request. A cell that fails does not cancel the next one."""
        how = {"silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": False}
        request = self._current = self._send("execute_request", {"code": code, "user_expressions": {}, **how})
        self.outputs.open(request)
        return request

    def _send(self, kind: str, content: dict[str, Any]) -> str:
        request, frames = message_validation.write(kind, content, self._session, self._key)
        self._shell.send(frames)
        self.seen[request], self.answers[request] = set(), []
        return request

    @property
    def only_garbage(self) -> bool:
        """Has the kernel sent so many malformed messages that there is no point in listening?"""
        return self._garbage > _MOST_GARBAGE

    @property
    def hung_up(self) -> bool:
        """Has the kernel closed a connection?"""
        return self._shell.closed or self._iopub.closed

    def pump(self, ending: int, seconds: float) -> None:
        """Wait for at most `seconds` until something arrives, or `ending` becomes readable; take it in.

        ending: -1 where the kernel's end cannot be waited for. The caller looks every `seconds`.
        """
        peers = [peer for peer in (self._shell, self._iopub) if not peer.closed]
        watched = [*peers, ending] if ending >= 0 else peers
        ready = _ready(watched, [peer for peer in peers if peer.unsent], seconds)
        for peer in peers:
            if peer.unsent:
                peer.pump_out()
            if peer.fileno() in ready:
                self._take(peer)

    def drain(self) -> None:
        """Read the last messages of a kernel that is ending."""
        for _ in range(64):
            if self._iopub.closed or not _ready([self._iopub], [], 0):
                return
            self._take(self._iopub)

    def close(self) -> None:
        self._shell.close()
        self._iopub.close()

    def _take(self, peer: Peer) -> None:
        try:
            for frames in filter(None, peer.pump_in()):
                self._sort(frames, peer is self._shell)
        except Malformed:
            self._garbage = _MOST_GARBAGE + 1  # the stream itself is broken: there is no next message
            peer.close()
        if peer.skipped:
            self.outputs.too_large(self._current, peer.skipped)
            self.received += peer.skipped
            peer.skipped = 0

    def _sort(self, frames: list[bytes], on_shell: bool) -> None:
        try:
            message = message_validation.read(frames, self._key)
        except Malformed:
            self._garbage += 1
            return
        self.received += message.nbytes
        seen, answer = self.seen.get(message.parent), _answer(message)
        if answer is not None and not on_shell:
            if message.parent not in self.answers:
                self.stray_answers += 1
            elif len(self.answers[message.parent]) < 2:  # a second answer spoils the first, so no third one is needed
                self.answers[message.parent].append(answer)
        elif seen is None:
            return  # it does not belong to any request
        elif on_shell and message.kind.endswith("_reply"):
            seen.add("reply")
            self.status[message.parent] = "ok" if message.content.get("status") == "ok" else "error"
        elif not on_shell and message.kind == "status":
            seen.update(state for state in ("busy", "idle") if state == message.content.get("execution_state"))
        elif not on_shell:
            self.outputs.add(message)


def _address(connection_info: dict, channel: str) -> str | tuple[str, int]:
    host, port = connection_info["ip"], connection_info[f"{channel}_port"]
    return (host, port) if connection_info["transport"] == "tcp" else f"{host}-{port}"


def _answer(message: message_validation.Message) -> dict | None:
    data = message.content.get("data")
    if message.kind != "display_data" or not isinstance(data, dict) or MIME not in data:
        return None
    return data[MIME] if isinstance(data[MIME], dict) else {}


def _ready(readers: list, writers: list, seconds: float) -> set[int]:
    """Descriptors with something to read. poll, not select: that fails on descriptors from 1024 up."""
    if not hasattr(select, "poll"):  # Windows, where only sockets can be waited for, and at least one
        if not readers:
            time.sleep(seconds)
            return set()
        return {reader.fileno() for reader in select.select(readers, writers, [], seconds)[0]}
    poll = select.poll()
    for reader in readers:
        poll.register(reader, select.POLLIN)
    for writer in writers:
        poll.register(writer, select.POLLIN | select.POLLOUT)
    return {fd for fd, event in poll.poll(seconds * 1000) if event & ~select.POLLOUT}
