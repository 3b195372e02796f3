"""How do the worker and the warm process talk? Length-prefixed JSON over a unix socket, descriptors beside it."""

from __future__ import annotations

import json
import socket
import struct

MOST_BYTES = 256 * 2**20
_LENGTH = struct.Struct("!Q")


def send(connection: socket.socket, message: dict, fds: tuple[int, ...] = ()) -> None:
    """Send one message and, with its first bytes, open files."""
    body = json.dumps(message).encode()
    head = _LENGTH.pack(len(body))
    socket.send_fds(connection, [head], list(fds))
    connection.sendall(body)


def receive(connection: socket.socket) -> tuple[dict, list[int]] | None:
    """The next message and its open files; None when the other side is gone."""
    head, fds, _, _ = socket.recv_fds(connection, _LENGTH.size, 8)
    if not head:
        return None
    head += _exactly(connection, _LENGTH.size - len(head))
    (length,) = _LENGTH.unpack(head)
    if length > MOST_BYTES:
        raise ValueError(f"a message of {length} bytes: expected at most {MOST_BYTES}. Are the files that large?")
    return json.loads(_exactly(connection, length)), fds


def _exactly(connection: socket.socket, n: int) -> bytes:
    parts = []
    while n:
        part = connection.recv(min(n, 1 << 20))
        if not part:
            raise EOFError("the other side closed the connection in the middle of a message")
        parts.append(part)
        n -= len(part)
    return b"".join(parts)
