"""How does a plan get into a training loop that somebody else has written? As a callback of that loop."""

from __future__ import annotations

import sys
from importlib import import_module
from os import PathLike
from typing import Any

from torch import nn

from ..errors import CkptError
from .apply import apply, check_plan, unapply
from .module_plan import ModulePlan
from .plan import Plan


def trainer_callback(plan: Plan | ModulePlan | str | PathLike[str]) -> Any:
    """A callback for `transformers.Trainer`, with which the model trains by a plan.

    plan    the result of `ck.plan`, or the name of a file that `ckptlib plan ... --write` wrote, for the model that the
            Trainer is given.

    Pass it to the Trainer: Trainer(model, ..., callbacks=[ck.trainer_callback("plan.json")]). The plan is applied when
    training begins, and undone when it ends. If training fails, the Trainer does not say so to its callbacks, and
    `ck.unapply(model)` undoes the plan. The Trainer's own gradient_checkpointing must be off.
    """
    check_plan(plan)
    transformers = _imported("transformers", "trainer_callback is for transformers.Trainer")

    class KeepsToPlan(transformers.TrainerCallback):  # type: ignore[name-defined]  # an optional package
        def on_train_begin(self, args: Any, state: Any, control: Any, model: nn.Module, **more: Any) -> None:
            if args.gradient_checkpointing:
                raise CkptError(
                    "the Trainer has gradient_checkpointing on, and each block would be checkpointed twice. "
                    "Turn it off in the TrainingArguments, because the plan says what runs again"
                )
            apply(model, plan)

        def on_train_end(self, args: Any, state: Any, control: Any, model: nn.Module, **more: Any) -> None:
            unapply(model)

    return KeepsToPlan()


def lightning_callback(plan: Plan | ModulePlan | str | PathLike[str], module: str = "") -> Any:
    """A callback for Lightning's Trainer, with which a LightningModule, or a module inside of it, trains by a plan.

    plan    the result of `ck.plan`, or the name of a file that `ckptlib plan ... --write` wrote.
    module  the path of the module that was planned, inside of the LightningModule, such as "net" for what it calls
            self.net; by default the plan is for the LightningModule itself.

    Pass it to the Trainer: Trainer(callbacks=[ck.lightning_callback("plan.json", "net")]). The plan is applied when
    fit begins, and undone when it ends or fails.
    """
    check_plan(plan)
    older = "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules
    lightning = _imported("pytorch_lightning" if older else "lightning.pytorch", "lightning_callback is for Lightning")

    class KeepsToPlan(lightning.Callback):  # type: ignore[name-defined]  # an optional package
        applied: nn.Module | None = None

        def on_fit_start(self, trainer: Any, pl_module: nn.Module) -> None:
            try:
                planned = pl_module.get_submodule(module)
            except AttributeError as error:
                raise CkptError(f"the plan is for {module!r} in {type(pl_module).__name__}, but {error}") from None
            self.applied = apply(planned, plan)

        def on_fit_end(self, trainer: Any, pl_module: nn.Module) -> None:
            self._undo()

        def on_exception(self, trainer: Any, pl_module: nn.Module, exception: BaseException) -> None:
            self._undo()

        def _undo(self) -> None:
            if self.applied is not None:
                unapply(self.applied)
                self.applied = None

    return KeepsToPlan()


def _imported(name: str, what: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise CkptError(f"{what}, and {error.name} is not installed") from None
