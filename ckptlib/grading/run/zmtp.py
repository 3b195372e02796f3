"""How does one read from a socket that an attacker writes to? ZeroMQ's protocol (ZMTP 3.0), with every size bounded.

libzmq bounds a frame but not a message's number of frames: a kernel could fill the grader's memory.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

_GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
_MORE, _LONG, _COMMAND = 1, 2, 4
_MOST_FRAMES = 32
_CHUNK = 1 << 18


class Malformed(ValueError):
    """The bytes that arrived are not a message of a kernel."""


def _frame(body: bytes, flags: int = 0) -> bytes:
    if len(body) < 256:
        return struct.pack("!BB", flags, len(body)) + body
    return struct.pack("!BQ", flags | _LONG, len(body)) + body


def _ready(kind: bytes, identity: bytes) -> bytes:
    properties = ((b"Socket-Type", kind), (b"Identity", identity))
    body = b"".join(struct.pack("!B", len(k)) + k + struct.pack("!I", len(v)) + v for k, v in properties)
    return _frame(b"\x05READY" + body, _COMMAND)


class Peer:
    """One end of a ZeroMQ connection, without a thread: the caller says when to read and write."""

    def __init__(self, address: str | tuple[str, int], kind: str, identity: bytes, most_bytes: int) -> None:
        """address: of a unix socket, or host and port."""
        if isinstance(address, str):
            self._socket = socket.socket(socket.AF_UNIX)
        else:
            self._socket = socket.socket(socket.AF_INET)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(True)
        self._socket.connect(address)  # the listener is open already: this does not wait for the kernel
        self._socket.setblocking(False)
        self._most = most_bytes
        self._in, self._size = bytearray(), 0
        self._frames: list[bytes] = []
        self._skip, self._skip_flags = 0, 0  # bytes still to come of a frame that is too large to keep
        self.skipped = 0  # bytes thrown away so far
        self._greeted = False
        self.closed = False
        self._out = bytearray(_GREETING + _ready(kind.encode(), identity))
        self._held: bytearray | None = bytearray()  # libzmq closes a connection on which anything comes before READY
        if kind == "SUB":
            self.send([b"\x01"])  # subscribe to everything

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def unsent(self) -> bool:
        return bool(self._out)

    def send(self, frames: list[bytes]) -> None:
        """Queue a message; `pump` sends it."""
        queue = self._out if self._held is None else self._held
        for i, body in enumerate(frames):
            queue += _frame(body, _MORE if i < len(frames) - 1 else 0)
        self.pump_out()

    def pump_out(self) -> None:
        """Send what can be sent without waiting."""
        try:
            while self._out:
                del self._out[: self._socket.send(memoryview(self._out)[:_CHUNK].tobytes())]
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True

    def pump_in(self) -> Iterator[list[bytes]]:
        """The complete messages among what has arrived; one that was too large is an empty list.

        Reads one chunk only: the caller has a clock to watch.
        """
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.closed = True
            return
        self._in += data
        while (message := self._next()) is not None:
            yield message

    def _next(self) -> list[bytes] | None:
        if not self._greeted:
            if len(self._in) < len(_GREETING):
                return None
            if self._in[0] != 0xFF or self._in[10] < 3 or self._in[12:16] != b"NULL":
                raise Malformed(f"a greeting of {bytes(self._in[:16])!r}: expected ZeroMQ's, version 3")
            del self._in[: len(_GREETING)]
            self._greeted = True
        while (frame := self._next_frame()) is not None:
            flags, body = frame
            if flags & _COMMAND:  # READY, and whatever else an honest peer may announce
                if self._held is not None and body[:6] == b"\x05READY":
                    self._out += self._held
                    self._held = None
                    self.pump_out()
                continue
            self._frames.append(body)
            if not flags & _MORE:
                message = self._frames if self._size <= self._most else []
                self._frames, self._size = [], 0
                return message
        return None

    def _next_frame(self) -> tuple[int, bytes] | None:
        if self._skip:
            n = min(self._skip, len(self._in))
            del self._in[:n]
            self._skip, self.skipped = self._skip - n, self.skipped + n
            return None if self._skip else (self._skip_flags, b"")
        if len(self._in) < 2:
            return None
        flags, head = self._in[0], 2
        if flags & ~(_MORE | _LONG | _COMMAND):
            raise Malformed(f"a frame with flags {flags:#x}")
        length = self._in[1]
        if flags & _LONG:
            head = 9
            if len(self._in) < head:
                return None
            (length,) = struct.unpack_from("!Q", self._in, 1)
        if len(self._frames) >= _MOST_FRAMES:
            raise Malformed(f"a message of more than {_MOST_FRAMES} parts")
        if length and self._size + length > self._most:
            self._size = self._most + 1  # whatever else belongs to this message
            self._skip, self._skip_flags = length, flags
            del self._in[:head]
            return self._next_frame()
        if len(self._in) < head + length:
            return None
        body = bytes(self._in[head : head + length])
        del self._in[: head + length]
        self._size += length
        return flags, body

    def close(self) -> None:
        self._socket.close()
        self.closed = True
