"""Which of the bytes that a kernel sends are a Jupyter message? JSON, signed, of the expected shape; nothing else."""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .zmtp import Malformed

_DELIMITER = b"<IDS|MSG>"
_DEEPEST = 64


@dataclass(frozen=True)
class Message:
    """A message from a kernel: every field is the sender's claim, but its type has been checked."""

    kind: str
    parent: str  # id of the request that it claims to belong to
    content: dict[str, Any]
    nbytes: int


def write(kind: str, content: dict[str, Any], session: str, key: bytes) -> tuple[str, list[bytes]]:
    """The id and the frames of a request."""
    header = {
        "msg_id": uuid.uuid4().hex,
        "msg_type": kind,
        "session": session,
        "username": "ckptlib",
        "date": datetime.now(UTC).isoformat(),
        "version": "5.3",
    }
    parts = [json.dumps(part).encode() for part in (header, {}, {}, content)]
    return header["msg_id"], [_DELIMITER, _sign(parts, key), *parts]


def read(frames: list[bytes], key: bytes) -> Message:
    """Check one message and take it apart; Malformed when anything about it is wrong."""
    try:
        at = frames.index(_DELIMITER)
        signature, *parts = frames[at + 1 : at + 6]
    except ValueError:
        raise Malformed("a message without Jupyter's delimiter or signature") from None
    if len(parts) != 4 or not hmac.compare_digest(_sign(parts, key), signature):
        raise Malformed("a message with a wrong signature or a missing part")
    header, parent, _, content = (_json_object(part) for part in parts)
    kind, parent_id = header.get("msg_type"), parent.get("msg_id", "")
    if not isinstance(kind, str) or not isinstance(parent_id, str):
        raise Malformed("a message whose type or parent is not a text")
    return Message(kind, parent_id, content, sum(map(len, parts)))


def _sign(parts: list[bytes], key: bytes) -> bytes:
    return hmac.new(key, b"".join(parts), hashlib.sha256).hexdigest().encode()


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
