"""What does a notebook keep of the messages that a cell caused? nbformat's outputs, within a budget of bytes."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from ..sandbox.limits import Limits
from .message_validation import Message

_KINDS = ("stream", "display_data", "execute_result", "error", "update_display_data", "clear_output")
_JSON = re.compile(r"application/(.*\+)?json", re.DOTALL)  # the mime types whose data need not be text
_MOST_SHOWN = 20  # outputs with one display_id that an update changes: a flood of both would take forever
CUT = "\n[output cut here: the limit is {} bytes]\n"


class Outputs:
    """The outputs of all cells of one kernel, by the id of the request that they belong to."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_request: dict[str, list[dict]] = {}
        self._displays: dict[str, deque[dict]] = {}  # display_id -> the latest outputs that show it
        self._clear_next: set[str] = set()
        self._used: dict[str, int] = {}
        self._cut: set[str] = set()
        self.received: dict[str, int] = {}  # request -> bytes so far, kept or not

    def open(self, request: str) -> list[dict]:
        """Outputs that belong to `request` will appear in the list that this returns."""
        self._used.setdefault(request, 0)
        self.received.setdefault(request, 0)
        return self._by_request.setdefault(request, [])

    def add(self, message: Message) -> None:
        """Take in one message from iopub; what is not an output, or not in shape, is ignored."""
        outputs = self._by_request.get(message.parent)
        if outputs is None or message.kind not in _KINDS:
            return
        self.received[message.parent] += message.nbytes
        if message.kind == "clear_output":
            if message.content.get("wait"):
                self._clear_next.add(message.parent)
            else:
                self._empty(outputs, message.parent)
            return
        output = _output(message)
        if output is None or not self._fits(message, output, outputs):
            return
        display_id = message.content.get("transient", {})
        display_id = display_id.get("display_id") if isinstance(display_id, dict) else None
        if message.kind == "update_display_data":
            for displayed in self._displays.get(display_id, ()) if isinstance(display_id, str) else ():
                displayed["data"], displayed["metadata"] = output["data"], output["metadata"]
            return
        if message.parent in self._clear_next:
            self._clear_next.discard(message.parent)
            self._empty(outputs, message.parent)
        if isinstance(display_id, str):
            self._displays.setdefault(display_id, deque(maxlen=_MOST_SHOWN)).append(output)
        _append(outputs, output)

    def too_large(self, request: str, nbytes: int) -> None:
        """A message of the running cell could not be kept at all."""
        if request in self.received:
            self.received[request] += nbytes
            self._say_cut(request, self._by_request[request])

    def _say_cut(self, request: str, outputs: list[dict]) -> None:
        if request not in self._cut:
            self._cut.add(request)
            note = CUT.format(self._limits.cell_output_bytes)
            _append(outputs, {"output_type": "stream", "name": "stderr", "text": note})

    def _empty(self, outputs: list[dict], request: str) -> None:
        outputs.clear()
        self._used[request] = 0  # an animation shows many figures, and keeps one

    def _fits(self, message: Message, output: dict, outputs: list[dict]) -> bool:
        """Is there room in the budget? Of a text that is too long the beginning is kept, and a note says so, once."""
        request, limits = message.parent, self._limits
        room = min(limits.cell_output_bytes - self._used[request], limits.output_bytes - sum(self._used.values()))
        if message.nbytes <= room:
            self._used[request] += message.nbytes
            return True
        if request not in self._cut and output["output_type"] == "stream":
            self._used[request] += room
            _append(outputs, output | {"text": output["text"][:room]})
        self._say_cut(request, outputs)
        return False


def _append(outputs: list[dict], output: dict) -> None:
    """Text goes on where text of the same stream ended, as a notebook shows it."""
    if output["output_type"] == "stream" and outputs:
        last = outputs[-1]
        if last["output_type"] == "stream" and last["name"] == output["name"]:
            last["text"] += output["text"]
            return
    outputs.append(output)


def _output(message: Message) -> dict | None:
    """The nbformat output for a message, or None when the message is not in shape."""
    content, kind = message.content, message.kind
    if kind == "stream":
        name, text = content.get("name"), content.get("text")
        good = name in ("stdout", "stderr") and isinstance(text, str)
        return {"output_type": "stream", "name": name, "text": text} if good else None
    if kind == "error":
        lines = content.get("traceback")
        lines = [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else []
        named = {key: str(content.get(key, ""))[:10_000] for key in ("ename", "evalue")}
        return {"output_type": "error", **named, "traceback": lines}
    data = content.get("data")
    if not isinstance(data, dict):
        return None
    data = {mime: value for mime, value in data.items() if isinstance(value, str) or _JSON.fullmatch(mime)}
    metadata = content.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    output: dict[str, Any] = {"output_type": "display_data", "data": data, "metadata": metadata}
    if kind == "execute_result":
        count = content.get("execution_count")
        output |= {"output_type": kind, "execution_count": count if type(count) is int and count >= 0 else None}
    return output
