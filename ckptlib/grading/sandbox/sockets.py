"""Where does a kernel listen? On unix sockets that the worker opened, in a folder that only the worker sees."""

from __future__ import annotations

import socket
from collections.abc import Sequence

LOOPBACK = "127.0.0.1"
CHANNELS = ("shell", "iopub", "stdin", "control", "hb")  # Jupyter's port of a channel is its place here, from 1


def port(channel: str) -> int:
    """The number by which Jupyter's IPC transport names a channel: the socket's path ends in it."""
    return CHANNELS.index(channel) + 1


def listen(prefix: str, channels: Sequence[str]) -> dict[str, socket.socket]:
    """Open the sockets `prefix`-1, `prefix`-2, …: from now on a client can connect, whoever will accept."""
    opened = {}
    for channel in channels:
        opened[channel] = open_listener(f"{prefix}-{port(channel)}")
    return opened


def open_listener(path: str) -> socket.socket:
    """A listening unix socket at `path`, which must be shorter than 108 bytes."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    return listener


def connection_info(prefix: str, key: str) -> dict:
    """Jupyter's description of a kernel that listens there."""
    ports = {f"{channel}_port": port(channel) for channel in CHANNELS}
    return {"transport": "ipc", "ip": prefix, "key": key, "signature_scheme": "hmac-sha256", **ports}
