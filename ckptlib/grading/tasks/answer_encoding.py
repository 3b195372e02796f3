"""How does an answer leave the kernel? As plain JSON: numbers, text, lists, dicts and tensors; nothing is unpickled."""

from __future__ import annotations

import base64
import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import CkptError

LARGEST = 8 * 2**20  # bytes of tensors in one answer; a larger answer is a mistake or an attack
_DEEPEST = 20
_MOST_BITS = 10_000
_LONGEST = 500  # letters of the message of an exception


@dataclass(frozen=True)
class Array:
    """A tensor or numpy array: its dtype's name and its values (bfloat16 values as float32)."""

    dtype: str
    values: np.ndarray


@dataclass(frozen=True)
class Raised:
    """The answer raised instead of returning."""

    error: str


@dataclass(frozen=True)
class Other:
    """Something that is not data: an object of a class we do not send."""

    kind: str


def encode(value: Any) -> Any:
    """Any value -> JSON. A value that cannot be sent becomes the name of its type, so that the verdict can name it."""
    return _Encoder().encode(value, 0)


class _Encoder:
    def __init__(self) -> None:
        self.room = LARGEST

    def encode(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if depth > _DEEPEST:
            return {"other": f"{kind.__name__}, nested more than {_DEEPEST} deep"}
        if value is None or kind is bool:
            return value
        if kind is int and value.bit_length() > _MOST_BITS:  # Python refuses to write longer ones in decimal
            return {"other": f"int of {value.bit_length():,} bits"}
        if kind in (int, str):
            self.room -= 8 if kind is int else len(value)
            return value if self.room > 0 else {"other": f"{kind.__name__}, too long"}
        if kind is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if kind is Fraction and abs(value) < sys.float_info.max:
            return float(value)
        if isinstance(value, (list, tuple)):
            return [self.encode(item, depth + 1) for item in list(value)[: self.room]]
        if isinstance(value, dict):
            return {"dict": [[str(key), self.encode(item, depth + 1)] for key, item in list(value.items())]}
        return self._array(value, kind)

    def _array(self, value: Any, kind: type) -> Any:
        torch = sys.modules.get("torch")  # never imported for this, because without torch there is no tensor
        if torch is not None and isinstance(value, torch.Tensor):
            tensor = torch.Tensor.detach(value).to("cpu").contiguous()
            dtype = str(tensor.dtype).removeprefix("torch.")
            return self._bytes((tensor.float() if dtype == "bfloat16" else tensor).numpy(), dtype)
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            return self._bytes(value, value.dtype.name)
        if isinstance(value, np.generic) and value.dtype.kind in "biuf":
            return self.encode(value.item(), 0)
        if torch is not None and isinstance(value, (torch.dtype, torch.device)):
            return str(value)
        return {"other": kind.__name__}

    def _bytes(self, values: np.ndarray, dtype: str) -> Any:
        self.room -= values.nbytes
        if self.room < 0:
            return {"other": f"tensor of shape {values.shape}: answers may hold {LARGEST:,} bytes"}
        raw = base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
        return {"array": raw, "dtype": dtype, "stored": values.dtype.name, "shape": list(values.shape)}


def encode_raised(error: BaseException) -> dict:
    return {"raised": f"{type(error).__name__}: {error}"[:_LONGEST]}


def decode(data: Any) -> Any:
    """JSON -> Python values, `Array`, `Raised` or `Other`. Any other JSON is an error."""
    if data is None or isinstance(data, (bool, int, float, str)):
        return data
    if isinstance(data, list):
        return [decode(item) for item in data]
    match data:
        case {"dict": list(pairs)} if all(isinstance(p, list) and len(p) == 2 for p in pairs):
            return {str(key): decode(item) for key, item in pairs}
        case {"float": "nan" | "inf" | "-inf" as text}:
            return float(text)
        case {"array": str(raw), "dtype": str(dtype), "stored": str(stored), "shape": list(shape)}:
            return Array(dtype, _values(raw, stored, shape))
        case {"raised": str(text)}:
            return Raised(text[:_LONGEST])
        case {"other": str(kind)}:
            return Other(kind[:_LONGEST])
    raise CkptError(f"an answer holds {str(data)[:80]!r}, which is not an encoded value")


def _values(raw: str, stored: str, shape: list) -> np.ndarray:
    try:
        kind = np.dtype(stored)
        if kind.kind not in "biuf" or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError(f"dtype {stored}, shape {shape}")
        return np.frombuffer(base64.b64decode(raw, validate=True), dtype=kind).reshape(shape)
    except (TypeError, ValueError) as error:
        raise CkptError(f"an answer holds a damaged tensor: {error}") from None
