"""What is one training step? A model, what it is called with, and its loss: run as it is, or on a schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from ..errors import CkptError
from .chains import Chain, call_of
from .plan import Planned
from .schedule import Schedule


@dataclass
class Training:
    """inputs: a tensor, a tuple of arguments, or a dict of named ones. loss: of the model's output, one number.

    Without a loss, the output is it, or has it: as `output.loss` or `output["loss"]`.
    """

    model: nn.Module
    inputs: Any
    loss: Callable[[Any], Tensor] | None = None

    def passes(self, chain: Chain | None = None, schedule: Schedule | None = None) -> Callable[[], Tensor]:
        """Forward and backward, as a function; returns the loss. With a schedule, of the chain that was found in a
        model like this one."""
        run = self.model
        if schedule is not None:
            assert chain is not None  # it is what the schedule is for
            run = Planned(self.model, self._here(chain), schedule)
        args, kwargs = call_of(self.inputs)

        def step() -> Tensor:
            loss = self.loss_of(run(*args, **kwargs))
            loss.backward()
            return loss.detach()

        return step

    def loss_of(self, out: Any) -> Tensor:
        if self.loss is not None:
            return _one_number(self.loss(out), "the loss function returned")
        found = out.get("loss") if isinstance(out, Mapping) else getattr(out, "loss", None)
        if found is not None:
            return _one_number(found, "the model's output has a loss, which is")
        return _one_number(out, "no loss was given, and the model returned")

    def _here(self, chain: Chain) -> Chain:
        """The chain of this model: the one that was found may be another's, built the same way."""
        blocks: list[Callable[..., Tensor]] = [self.model.get_submodule(path) for path in chain.paths]
        if not blocks:
            assert isinstance(self.model, (nn.Sequential, nn.ModuleList))  # the model is the chain
            blocks = list(self.model)
        return Chain(blocks, chain.x, chain.paths)


def _one_number(loss: Any, what: str) -> Tensor:
    if isinstance(loss, Tensor) and loss.numel() == 1 and loss.requires_grad:
        return loss
    if not isinstance(loss, Tensor):
        found = f"{type(loss).__name__}, expected a tensor of one number"
        hint = "Give a loss: (model, inputs, loss), where loss(output) is that number"
    elif loss.numel() == 1:
        found = "a number that needs no gradient"
        hint = "Is every parameter frozen, or was the model called under no_grad or with .detach()?"
    else:
        found = f"a tensor of shape {tuple(loss.shape)}, expected one number"
        hint = "Give a loss: (model, inputs, loss), where loss(output) ends in .mean() or the like"
    raise CkptError(f"{what} {found}. {hint}")
