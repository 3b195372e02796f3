"""How does a kernel run a notebook without code that its answers are to replace? That code gives nothing in it.

While an answer is asked, forbidden_calls.py sees every call into such code. It cannot see what was called before, in
another cell: a table of the library's results is only data by then. So a second kernel runs the cells again, in which
there is no such code from the start, neither in memory nor on the disk.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any


class SwitchedOff:
    """What each function gives that is switched off. Cells that compare, print or draw with it go on, mostly."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python and its modules look for
            raise AttributeError(name)
        return self


NOTHING = SwitchedOff()


def _method(value: Any) -> Callable:
    return lambda self, *args, **named: value() if callable(value) and value is not NOTHING else value


_OPERATORS = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
_METHODS: dict[str, Any] = {f"__{side}{name}__": NOTHING for name in _OPERATORS for side in ("", "r")}
_METHODS |= dict.fromkeys(("__call__", "__getitem__", "__neg__", "__abs__", "__enter__", "__reversed__"), NOTHING)
_METHODS |= dict.fromkeys(("__lt__", "__le__", "__gt__", "__ge__", "__ne__", "__contains__", "__exit__"), False)
_METHODS |= dict.fromkeys(("__int__", "__index__", "__len__", "__hash__", "__round__"), 0)
_METHODS |= {"__eq__": True, "__bool__": True, "__float__": 0.0, "__iter__": lambda: iter(())}
_METHODS |= dict.fromkeys(("__repr__", "__str__", "__format__"), "switched off")
for _name, _value in _METHODS.items():
    setattr(SwitchedOff, _name, _method(_value))


def switch_off(names: Sequence[str], cover: Callable[[str, str], None]) -> None:
    """From now on, the functions of these modules give nothing. `cover(path, text)` shows the text at that path.

    Called in a kernel before it runs anything of a student's.
    """
    for name in names:
        module = importlib.import_module(name)
        for function in _functions(module):
            function.__code__ = _like(function.__code__)
            function.__defaults__ = function.__kwdefaults__ = None
        file = Path(str(module.__file__))
        for path in (file, *(file.parent / "__pycache__").glob(f"{file.stem}.*")):
            cover(str(path), _IN_ITS_PLACE)


# What another process imports.
_IN_ITS_PLACE = f"""from {__name__} import NOTHING


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return NOTHING
"""


def _gives_nothing(*args: Any, **named: Any) -> Any:
    import sys  # its own names: it is put into a function of another module

    return sys.modules["ckptlib.grading.tasks.disabled_library"].NOTHING


def _like(code: CodeType) -> CodeType:
    return _gives_nothing.__code__.replace(co_freevars=code.co_freevars, co_name=code.co_name)


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """Of a module and of its classes; those that it has imported belong to another."""
    for owner in (module, *(thing for thing in vars(module).values() if isinstance(thing, type))):
        if getattr(owner, "__module__", module.__name__) != module.__name__:
            continue
        for thing in vars(owner).values():
            if hasattr(thing, "cache_clear"):
                thing.cache_clear()
            if isinstance(thing, property):
                thing = thing.fget
            if isinstance(thing, staticmethod | classmethod):
                thing = thing.__func__
            found = getattr(thing, "__wrapped__", thing)
            if isinstance(found, functools.partial):
                found = found.func
            if isinstance(found, FunctionType) and found.__module__ == module.__name__:
                yield found
