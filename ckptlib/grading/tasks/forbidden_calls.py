"""Does an answer call code that the student was to write? Every call is watched while the answer is tested.

own = OwnCode(torch.utils.checkpoint, says="That is PyTorch's checkpoint.")
with own.only():
    answer()
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import ctypes
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import torch

from ...errors import CkptError

_LONG = 40  # instructions: nobody writes two functions that agree in so many without copying one
# Ways out of the thread that is watched. Each of them raises an event that Python's audit hooks see.
_WAYS_OUT = set("os.fork os.forkpty os.posix_spawn os.spawn os.exec os.system subprocess.Popen pty.spawn".split())
_WAYS_OUT |= set("_thread.start_new_thread _thread.start_joinable_thread".split())
_WAYS_OUT |= set("ctypes.dlopen ctypes.dlsym ctypes.call_function".split())


class NotYourOwn(CkptError):
    """The answer called code that the student was to write."""


class OwnCode:
    """Code that an answer may not call: all functions in the files of these modules, and in copies of the files.

    A function is known by its code, so it does not matter under which name it is reached, or which module, exec or
    unpickling made it. A long function is also known by its instructions, which stay when its names are changed.

    has_results: a table of what this code returns would do for an answer. So a right answer is asked once more, in a
    kernel in which this code was switched off before the first cell was run (see disabled_library.py). The modules are
    then neither the probe's own nor used by `Given`: see `Given.library`.
    """

    def __init__(self, *modules: ModuleType, says: str, has_results: bool = False):
        self.modules, self.says, self.has_results = modules, says, has_results
        self._judged: dict[int, tuple[CodeType, bool]] = {}

    @cached_property
    def _forbidden(self) -> tuple[set[CodeType], set[bytes]]:
        codes = {code for path in map(_files, self.modules) for file in path for code in _functions(file)}
        return codes, {shape for code in codes if len(shape := _instructions(code)) >= _LONG}

    def covers(self, code: CodeType) -> bool:
        if id(code) not in self._judged:
            codes, shapes = self._forbidden
            self._judged[id(code)] = code, code in codes or _instructions(code) in shapes
        return self._judged[id(code)][1]

    @contextmanager
    def only(self, on_call: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Raises NotYourOwn at the forbidden call, and again at the end if the answer has caught that.

        on_call is called whenever a function is, and may raise.
        """
        self._forget_results()
        self._forbidden  # noqa: B018 - computed before anything is watched
        found: list[str] = []
        looked = False
        this, of_the_watching = sys._getframe().f_code, (sys.setprofile, sys.getprofile, gc.enable, _signal.signal)

        def watch(frame: FrameType, event: str, arg: Any) -> None:
            nonlocal looked
            if gc.isenabled():  # first of all: a finalizer that ran in here would not be watched
                found.append(_STOPPED)
            looked = looked or frame.f_code is _look.__code__
            if event == "call" and self.covers(frame.f_code):
                found.append(self.says)
                raise NotYourOwn(self.says)
            if event == "c_call" and arg in of_the_watching and frame.f_code is not this:
                found.append(_STOPPED)
            if event in ("call", "c_call"):
                on_call()

        before = sys.getprofile()
        with _nothing_unwatched():
            sys.setprofile(watch)
            try:
                with _no_way_out(found):
                    yield
                    looked = False
                    _look()
            finally:
                sys.setprofile(before)
        if found or not looked:  # ctypes can end the watching and leave no other trace
            raise NotYourOwn(found[0] if found else _STOPPED)

    def _forget_results(self) -> None:
        """Empty the caches of functions, because a cached result is returned without a call that could be seen."""
        for module in self.modules:
            for thing in vars(module).values():
                if hasattr(thing, "cache_clear"):
                    thing.cache_clear()


_STOPPED = "While an answer is tested, the functions that it calls are watched, and something has meddled with that"


def _look() -> None:
    """Called to see whether calls are still watched."""


@contextmanager
def _nothing_unwatched() -> Iterator[None]:
    """Switch off what Python runs without watching it: a trace function, finalizers and handlers of signals."""
    trace, collects = sys.gettrace(), gc.isenabled()
    handlers = {}
    if threading.current_thread() is threading.main_thread():  # no other thread runs handlers
        handlers = {number: handler for number in signal.valid_signals() if callable(handler := _handler(number))}
    sys.settrace(None)
    gc.disable()
    for number in handlers:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if collects:
            gc.enable()
        sys.settrace(trace)


def _handler(number: int) -> Any:
    handler = signal.getsignal(number)
    return None if isinstance(handler, signal.Handlers) else handler


class _Watched:
    """Who is watched now. Python never removes an audit hook, so there is one, and it looks here."""

    thread: int | None = None
    found: list[str]
    other_hooks = False  # Python watches nothing while it runs an audit hook


@contextmanager
def _no_way_out(found: list[str]) -> Iterator[None]:
    if _Watched.other_hooks:
        found.append(_STOPPED)
    _Watched.thread, _Watched.found = threading.get_ident(), found
    try:
        yield
    finally:
        _Watched.thread = None


def _audit(event: str, args: tuple) -> None:
    if event == "sys.addaudithook":
        _Watched.other_hooks = True
    if _Watched.thread != threading.get_ident():
        return
    if event in ("sys.setprofile", "sys.settrace"):
        if _Watched.found:
            return  # Python itself ends the watching when it has raised
        _Watched.found.append(_STOPPED)
        raise NotYourOwn(_Watched.found[0])  # Python itself stops watching when a forbidden call has been found
    if event in _WAYS_OUT and not _asked_by_torch(sys._getframe(1)):
        says = f"{event} is refused while an answer that is to be your own is tested"
        _Watched.found.append(says)
        raise NotYourOwn(says)


def _asked_by_torch(frame: FrameType | None) -> bool:
    """Does torch itself call C here? It does to count GPUs, for instance, when it saves the state of random numbers."""
    asked_ctypes = False
    while frame and frame.f_globals is vars(ctypes):
        frame, asked_ctypes = frame.f_back, True
    if not (asked_ctypes and frame):
        return False
    name = str(frame.f_globals.get("__name__"))
    genuine = name in sys.modules and frame.f_globals is vars(sys.modules[name]) and name.startswith("torch.")
    return genuine and frame.f_code in _code_of(str(Path(torch.__file__).parent.parent), name)


@cache
def _code_of(folder: str, name: str) -> set[CodeType]:
    """A module's code, read from its file, because the module's attributes can be changed, even `__file__`."""
    path = Path(folder, *name.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return set(_functions(file)) if file.exists() else set()


def _files(module: ModuleType) -> Iterable[Path]:
    if hasattr(module, "__path__"):
        return [file for folder in module.__path__ for file in Path(folder).rglob("*.py")]
    return [Path(str(module.__file__))]


def _functions(file: Path) -> Iterator[CodeType]:
    """The code of all functions and class bodies in a file, at any depth."""
    todo = [compile(file.read_text(encoding="utf-8"), str(file), "exec", dont_inherit=True)]
    while todo:
        inner = [const for const in todo.pop().co_consts if isinstance(const, CodeType)]
        yield from inner
        todo += inner


def _instructions(code: CodeType) -> bytes:
    """A named function's instructions, without the names and numbers that they use."""
    return b"" if code.co_name.startswith("<") else code.co_code[::2].replace(b"\0", b"")  # 0: room for a cache


sys.addaudithook(_audit)  # now: a kernel imports this before it runs anything of a student's
