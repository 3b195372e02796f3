"""What runs inside the process that has a phantom GPU? The program, and afterwards a report of what it cannot know."""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import runpy
import sys
import traceback
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .launch import unknowns


class WithoutTritonKernels(importlib.abc.MetaPathFinder):
    """Lets no kernel of Triton run, as no other kernel runs. Torch has some: since 2.13 for a batch of outer products.

    Triton would look for NVIDIA's driver first. Nothing is imported before the program, or torch, asks for it.
    """

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != "triton.runtime.jit":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                module.JITFunction.run = lambda *args, **options: None

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def main(program: list[str]) -> int:
    """Run a script, or the module after -m, as Python would. Return the exit code."""
    try:
        if program[0] == "-m":
            sys.argv = program[1:]
            sys.path.insert(0, os.getcwd())
            runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = program
            sys.path.insert(0, os.path.dirname(os.path.abspath(program[0])))
            runpy.run_path(program[0], run_name="__main__")
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    program = sys.argv[1:]
    sys.meta_path.insert(0, WithoutTritonKernels())
    code = main(program)
    if not (program[0] == "-m" and program[1].startswith("ckptlib.")):  # our own commands say so in their result
        for what, why in unknowns().items():
            print(f"phantom GPU: {what}: {why}.", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # autograd's thread for the device may abort while an interpreter ends in the ordinary way
