"""How does a step that was built on the CPU come to run on a GPU? Everything that it uses is moved there."""

from __future__ import annotations

import inspect
from collections.abc import MutableMapping
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .user_models import Training, TrainingStep


class Moved:
    """Moves everything that a function built on the CPU to a device, so that its training step runs there.

    These are models, the state of optimizers, tensors in containers, and everything that a function closes over. What a
    function looks up by a global name stays where it is.
    """

    def __init__(self, device: torch.device):
        self.device = device
        # id -> (the thing, its copy), so that two places which share a tensor still share it on the device
        self.done: dict[int, tuple[Any, Any]] = {}

    def __call__(self, thing: Any) -> Any:
        if id(thing) not in self.done:
            self.done[id(thing)] = (thing, thing)  # a function may close over itself
            self.done[id(thing)] = (thing, self._move(thing))
        return self.done[id(thing)][1]

    def _move(self, thing: Any) -> Any:
        if isinstance(thing, nn.Module):
            return thing.to(self.device)
        if isinstance(thing, Tensor):
            there = thing.to(self.device)
            return there if there is thing else there.detach().requires_grad_(thing.requires_grad)
        if isinstance(thing, Optimizer):
            thing.load_state_dict(thing.state_dict())  # which puts the state where the parameters are
        elif isinstance(thing, MutableMapping):
            for name, value in thing.items():
                thing[name] = self(value)
        elif isinstance(thing, (tuple, list)):
            parts = [self(part) for part in thing]
            return type(thing)(parts) if type(thing) in (tuple, list) else type(thing)(*parts)  # a named tuple
        elif isinstance(thing, Training):
            thing.inputs, thing.loss = self(thing.inputs), self(thing.loss)
            self(thing.model), self(thing.optimizer)
        elif isinstance(thing, TrainingStep):
            thing.run = self(thing.run)
            self(thing.model), self(thing.training)
        elif isinstance(thing, partial):
            return partial(self(thing.func), *self(thing.args), **self(thing.keywords))
        elif inspect.ismethod(thing):
            self(thing.__self__)
        elif inspect.isfunction(thing):
            for cell in thing.__closure__ or ():
                with suppress(ValueError):  # a name that has no value yet
                    cell.cell_contents = self(cell.cell_contents)
            thing.__defaults__ = thing.__defaults__ and self(thing.__defaults__)
        return thing
