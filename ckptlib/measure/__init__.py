"""What is remembered? Saved tensors, traces of memory, the caching allocator, and one front door to them all.

The front door has the package's own name: `ck.measure(fn)` runs `ckptlib.measure.measurement.measure`. Importing any
part of a package puts the package itself under its name in the parent, over whatever function stood there, so the
only lasting answer is a package that can be called.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    @property
    def __wrapped__(self) -> Any:
        """The function behind the call: `inspect.signature` and `inspect.getsource` look here."""
        return import_module("ckptlib.measure.measurement").measure

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, (self.__name__,)  # plain modules refuse to be pickled; functions do not


sys.modules[__name__].__class__ = _CallablePackage
