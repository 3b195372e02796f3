"""Which of the bytes that a kernel sends are a Jupyter message? JSON, signed, of the expected shape; nothing else."""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .zmtp import Malformed, Peer

_DELIMITER = b"<IDS|MSG>"
_DEEPEST = 64


@dataclass(frozen=True)
class Message:
    """A message from a kernel: every field is the sender's claim, but its type has been checked."""

    kind: str
    parent: str  # id of the request that it claims to belong to
    content: dict[str, Any]
    metadata: dict[str, Any]
    nbytes: int


class Conversation:
    """The two channels on which cells are run: requests and replies on shell, everything else on iopub.

    stdin is not opened: input() then fails at once. Interrupts go by signal, so control is not needed either.
    """

    def __init__(self, connection_info: dict, most_bytes: int) -> None:
        self._key = connection_info["key"].encode()
        self._session = uuid.uuid4().hex
        identity = self._session.encode()
        self.shell = Peer(_address(connection_info, "shell"), "DEALER", identity, most_bytes)
        self.iopub = Peer(_address(connection_info, "iopub"), "SUB", identity, most_bytes)

    def request(self, kind: str, content: dict[str, Any]) -> str:
        """Send a request on shell; its id."""
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": kind,
            "session": self._session,
            "username": "ckptlib",
            "date": datetime.now(UTC).isoformat(),
            "version": "5.3",
        }
        parts = [json.dumps(part).encode() for part in (header, {}, {}, content)]
        self.shell.send([_DELIMITER, self._sign(parts), *parts])
        return header["msg_id"]

    def execute(self, code: str) -> str:
        """Ask for one cell to be run; the id of the request. A failing cell does not cancel the next."""
        asked = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        return self.request("execute_request", {**asked, "allow_stdin": False, "stop_on_error": False})

    def read(self, frames: list[bytes]) -> Message:
        """Check one message and take it apart; Malformed when anything about it is wrong."""
        try:
            at = frames.index(_DELIMITER)
            signature, *parts = frames[at + 1 : at + 6]
        except ValueError:
            raise Malformed("a message without Jupyter's delimiter or signature") from None
        if len(parts) != 4 or not hmac.compare_digest(self._sign(parts), signature):
            raise Malformed("a message with a wrong signature or a missing part")
        header, parent, metadata, content = (_json_object(part) for part in parts)
        kind, parent_id = header.get("msg_type"), parent.get("msg_id", "")
        if not isinstance(kind, str) or not isinstance(parent_id, str):
            raise Malformed("a message whose type or parent is not a text")
        return Message(kind, parent_id, content, metadata, sum(map(len, parts)))

    def _sign(self, parts: list[bytes]) -> bytes:
        return hmac.new(self._key, b"".join(parts), hashlib.sha256).hexdigest().encode()

    def close(self) -> None:
        """Hang up on both channels."""
        self.shell.close()
        self.iopub.close()


def _address(connection_info: dict, channel: str) -> str | tuple[str, int]:
    host, port = connection_info["ip"], connection_info[f"{channel}_port"]
    return (host, port) if connection_info["transport"] == "tcp" else f"{host}-{port}"


def _json_object(raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"a message that is not JSON: {type(error).__name__}") from None
    if not isinstance(value, dict):
        raise Malformed("a message with a part that is not a JSON object")
    if raw.count(b"[") + raw.count(b"{") > _DEEPEST and _depth(value) > _DEEPEST:
        raise Malformed(f"a message nested more than {_DEEPEST} levels deep")  # writing it to a file would fail
    return _encodable(value) if b"\\ud" in raw.lower() else value


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level:
        depth += 1
        inner = (v.values() if isinstance(v, dict) else v for v in level if isinstance(v, (dict, list)))
        level = [item for items in inner for item in items]
    return depth


def _encodable(value: Any) -> Any:
    """Half a surrogate pair is valid JSON and an invalid file: write it as a question mark."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, dict):
        return {_encodable(k): _encodable(v) for k, v in value.items()}
    return value
