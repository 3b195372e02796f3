"""Where is the program right now? In which module, and in which phase of training."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ..torch_internals import current_graph_task, current_node, next_sequence_number
from .call_stack import called_by_engine, engine_is_nearer, in_optimizer_step
from .node_numbers import number_of


class Scope:
    """Follows a run through torch's global hooks: call `start`, ask `phase()` and `module()`, call `stop`.

    Torch's hooks are global to the process, so each one first asks `mine()` whether this thread is the traced one.
    """

    def __init__(self, mine: Callable[[], bool], entered: Callable, stepped: Callable):
        self._mine, self._entered, self._stepped = mine, entered, stepped
        self._local = threading.local()  # backward on an accelerator has a thread, and so a module stack, of its own
        self._paths: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._taken: set[str] = set()  # names in use so far
        self._roots = 0
        self._module_of_node: dict[int, str] = {}  # autograd node's sequence number -> module that made it
        self._double_tasks: set[int] = set()  # backward passes that run with create_graph=True
        self._optimizers = 0  # optimizer steps under way
        self._handles: list = []

    def start(self) -> None:
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),  # also when forward raised
            register_optimizer_step_pre_hook(self._enter_step),
            register_optimizer_step_post_hook(self._leave_step),
        ]

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()

    # ---- phase ------------------------------------------------------------------------------------------------------
    def phase(self) -> str:
        if self._optimizers and not in_optimizer_step():
            self._optimizers = 0  # a step that raised does not say that it has ended
        task = current_graph_task()
        if self._optimizers and not self._stack and (task == -1 or not engine_is_nearer()):
            return "optimizer"  # also inside backward, if a hook takes the step
        if task != -1:
            return "recompute" if self._recomputing(task) else "backward"
        return "forward"

    def _recomputing(self, task: int) -> bool:
        """Inside backward, is this op part of a forward that runs again?

        Backward itself runs with gradients off, so gradients on means recomputation, with one exception: under
        create_graph=True they are on for backward too. Then ask who called: the engine, or somebody's Python code?
        """
        if not torch.is_grad_enabled():
            return bool(self._stack)  # a module called under no_grad in a custom backward
        if self._stack:
            return True
        if called_by_engine():
            self._double_tasks.add(task)
        return task not in self._double_tasks

    # ---- module -----------------------------------------------------------------------------------------------------
    @property
    def _stack(self) -> list[str]:
        try:
            return self._local.stack
        except AttributeError:
            self._local.stack = []
            return self._local.stack

    def module(self) -> str:
        """Path of the innermost module; in backward, of the module whose forward made the node that is running."""
        if self._stack:
            path = self._stack[-1]
            # A node takes its sequence number just before its kernel runs, so the newest number is this op's.
            self._module_of_node.setdefault(next_sequence_number() - 1, path)
            return path
        if current_graph_task() == -1:
            return ""
        node = current_node()
        return self._module_of_node.get(number_of(node), "") if node is not None else ""

    def path(self, module: nn.Module) -> str:
        return self._paths.get(module, type(module).__name__)

    def adopt(self, root: nn.Module) -> None:
        """Name a model and everything below it, unless it has its names already."""
        if root in self._paths:
            return
        paths = {module: path or type(root).__name__ for path, module in root.named_modules()}
        self._roots += 1
        if not self._taken.isdisjoint(paths.values()):  # another model: "Sequential_2.0"
            prefix = f"{type(root).__name__}_{self._roots}"
            paths = {module: f"{prefix}.{path}" if module is not root else prefix for module, path in paths.items()}
        for module, path in paths.items():
            self._paths.setdefault(module, path)
        self._taken.update(paths.values())

    def _enter(self, module: nn.Module, args: tuple) -> None:
        if not self._mine():
            return
        if not self._stack:
            self.adopt(module)
            self._entered(module, args)
        if module not in self._paths:  # made after its root was first called
            self._paths[module] = f"{self._stack[-1]}.{type(module).__name__}"
        self._stack.append(self._paths[module])

    def _leave(self, module: nn.Module, args: tuple, out: object) -> None:
        if self._mine() and self._stack:
            self._stack.pop()

    # ---- optimizer --------------------------------------------------------------------------------------------------
    def _enter_step(self, optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> None:
        if self._mine():
            self._optimizers += 1

    def _leave_step(self, optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> None:
        if self._mine():
            self._optimizers -= 1
            self._stepped(optimizer)
