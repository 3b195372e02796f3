"""What can be measured, planned for and fitted? A training step that somebody hands in, in one of four forms.

Every function of the library and every command that asks for a model takes a function which returns one of these:

    step                                a function without arguments that runs the whole step
    model, step                         the same, and the model that it trains
    model, inputs                       the model's output is the loss, or has it: `output.loss` or `output["loss"]`
    model, inputs, loss                 loss(output) is one number
    model, inputs, loss, optimizer      backward is followed by optimizer.step(); the loss may be None

inputs is a tensor, a tuple of arguments, or a dict of named ones. A function with a parameter called device is told
where to build. Anything that it builds on the CPU is moved there before the step runs.

Training needs no cache of keys and values, so the models of `transformers` run without theirs. A model that was
compiled is refused, because torch runs it uncompiled while it is traced: the bytes would be those of another program.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..errors import CkptError
from ..torch_internals import is_compiled_function, is_compiled_module, name_of

FORMS = "return (model, inputs) or (model, inputs, loss)"
Arguments = tuple[tuple, dict[str, Any]]  # the arguments of a call, and the named ones


@dataclass
class Training:
    """A model, what it is called with, its loss and its optimizer: the step can be run in other ways than its own."""

    model: nn.Module
    inputs: Any
    loss: Callable[[Any], Tensor] | None = None
    optimizer: Optimizer | None = None

    @property
    def notes(self) -> list[str]:
        """What is different from the model as it was handed in."""
        return _notes(self.model)

    def passes(self, run: Callable[..., Any] | None = None) -> Callable[[], Tensor]:
        """Forward and backward, as a function that returns the loss. `run` is called in the place of the model."""
        args, kwargs = call_of(self.inputs)

        def forward_and_backward() -> Tensor:
            with without_cache(self.model):
                loss = self.loss_of((run or self.model)(*args, **kwargs))
                loss.backward()
            return loss.detach()

        return forward_and_backward

    def step(self, run: Callable[..., Any] | None = None) -> Callable[[], Tensor]:
        """The passes, and the optimizer's step if there is an optimizer."""
        passes, optimizer = self.passes(run), self.optimizer
        if optimizer is None:
            return passes

        def passes_and_update() -> Tensor:
            loss = passes()
            optimizer.step()
            return loss

        return passes_and_update

    def loss_of(self, out: Any) -> Tensor:
        return own_loss(out) if self.loss is None else _one_number(self.loss(out), "the loss function returned")


@dataclass
class TrainingStep:
    """One training step, ready to run, and as much as is known of it."""

    run: Callable[[], object]
    model: nn.Module | None = None
    training: Training | None = None  # where model and inputs were handed in

    @property
    def notes(self) -> list[str]:
        """What is different from the model as it was handed in."""
        return [] if self.model is None else _notes(self.model)


def training_of(made: Any, name: str = "the function") -> Training:
    """A model with its inputs. Only these can be planned for. A bare step cannot be looked into."""
    training = handed_in(made, name).training
    if training is None:
        raise CkptError(
            f"{name} returned a function, which can be measured but not looked into. "
            f"Here it must {FORMS}, because the step is then run in other ways than its own"
        )
    return training


def handed_in(made: Any, name: str = "the function") -> TrainingStep:
    """`made` is what a function returned, and `name` is how errors call that function."""
    if isinstance(made, TrainingStep):
        return made
    if isinstance(made, Training):
        return TrainingStep(made.step(), made.model, made)
    if callable(made) and not isinstance(made, nn.Module):
        return TrainingStep(_without_arguments(made, name))
    if not isinstance(made, tuple) or len(made) not in (2, 3, 4):
        hint = "The likeliest mistake: it runs the step itself, instead of returning a function that does"
        if isinstance(made, nn.Module):
            hint = f"A model alone cannot be run: {FORMS}"
        found = f"a tuple of {len(made)}" if isinstance(made, tuple) else type(made).__name__
        raise CkptError(
            f"{name} returned {found}, expected a function: the step to measure; or (model, inputs), or "
            f"(model, inputs, loss). {hint}"
        )
    if not isinstance(made[0], (nn.Module, list)):
        raise CkptError(f"{name} returned {type(made[0]).__name__} for a model, expected an nn.Module: {FORMS}")
    model = as_module(made[0])
    refuse_compiled(model)
    if len(made) == 2 and callable(made[1]) and not isinstance(made[1], nn.Module):
        return TrainingStep(_uncached(model, _without_arguments(made[1], name)), model)
    loss, optimizer = (*made[2:], None, None)[:2]
    if loss is not None and not callable(loss):
        hint = " Was it called already?" if isinstance(loss, Tensor) else ""
        raise CkptError(f"{name} returned {type(loss).__name__} for a loss, expected a function.{hint}")
    if optimizer is not None and not isinstance(optimizer, Optimizer):
        raise CkptError(f"{name} returned {type(optimizer).__name__} for an optimizer, expected one of torch.optim")
    training = Training(model, made[1], loss, optimizer)
    return TrainingStep(training.step(), model, training)


# ---- what is not run as it was handed in ----------------------------------------------------------------------------
_CALL = name_of("compiled_call")  # where module.compile() puts its program


def refuse_compiled(made: Any) -> None:
    """Raise if torch.compile made this module, a part of it, or this function, or if the function uses one."""
    found = next((name for name, used in _used_by(made) if is_compiled(used)), None)
    if found is not None:
        raise CkptError(
            f"{found} is compiled by torch.compile, and what a compiled program keeps for backward cannot be seen: "
            "while it is traced, torch runs the plain program in its place. Hand in the model before it is compiled"
        )


def is_compiled(made: Any) -> bool:
    """Whether torch.compile returned it, or module.compile() was called. Parts of a module are not looked at."""
    if isinstance(made, nn.Module):
        return is_compiled_module(made) or is_compiled_function(made.__dict__.get(_CALL))
    return inspect.isroutine(made) and is_compiled_function(made)


def _used_by(made: Any) -> Iterator[tuple[str, Any]]:
    """A module and its parts; or a function, what it closes over and what it finds by a global name."""
    if isinstance(made, nn.Module):
        for path, module in made.named_modules():
            yield f"{path} ({type(module).__name__})" if path else type(module).__name__, module
        return
    yield getattr(made, "__name__", "the function"), made
    if isinstance(made, partial):
        yield from _used_by(made.func)
    elif inspect.ismethod(made):
        yield from _used_by(made.__self__)
    elif inspect.isfunction(made):
        names = {name: made.__globals__.get(name) for name in made.__code__.co_names}
        for name, cell in zip(made.__code__.co_freevars, made.__closure__ or (), strict=True):
            with suppress(ValueError):  # a name that has no value yet
                names[name] = cell.cell_contents
        for name, used in names.items():
            if isinstance(used, nn.Module):
                yield from _used_by(used)
            else:
                yield name, used


@contextmanager
def without_cache(model: nn.Module | None) -> Iterator[None]:
    """Run a model of `transformers` without its cache of keys and values, which grows with every call."""
    configs = [] if model is None else caching(model)
    for config in configs:
        config.use_cache = False
    try:
        yield
    finally:
        for config in configs:
            config.use_cache = True


def caching(model: nn.Module) -> list[Any]:
    """The configs in the model by which its parts return a cache, unless they are called otherwise."""
    found = (module.__dict__.get("config") for module in model.modules())
    return list({id(config): config for config in found if getattr(config, "use_cache", None) is True}.values())


def _notes(model: nn.Module) -> list[str]:
    if not caching(model):
        return []
    return ["use_cache, which is on in the model's config, was off during the run, because training needs no cache"]


def _uncached(model: nn.Module, step: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        with without_cache(model):
            return step()

    return run


def build(function: Callable[..., Any], device: torch.device | str = "cpu") -> Any:
    """Call the function that builds the step. One with a parameter called device is told where to build."""
    return function(device=device) if takes_device(function) else function()


def takes_device(function: Callable[..., Any]) -> bool:
    """Whether a function that builds the step has a parameter called device."""
    try:
        return "device" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a builtin, perhaps, which does not say
        return False


def own_loss(out: Any) -> Tensor:
    """The loss of a model that has its own: `out.loss`, `out["loss"]`, or the output itself."""
    found = out.get("loss") if isinstance(out, Mapping) else getattr(out, "loss", None)
    if found is not None:
        return _one_number(found, "the model's output has a loss, which is")
    return _one_number(out, "without a loss function, the model returned")


def call_of(inputs: Any) -> Arguments:
    """A model's inputs as the arguments of its call: a tensor, a tuple of arguments, or a dict of named ones."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs), {}) if isinstance(inputs, (tuple, list)) else ((inputs,), {})


def required(parameters: Mapping[str, inspect.Parameter]) -> list[str]:
    """The parameters that a caller must pass."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters.values() if p.default is p.empty and p.kind not in kinds]


class _Function(nn.Module):
    """A stage that is a function and not a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def as_module(model: nn.Module | Sequence[Callable]) -> nn.Module:
    """The model itself; of a list of stages, a module that runs one after the other."""
    if isinstance(model, nn.Module) and not isinstance(model, nn.ModuleList):
        return model
    return nn.Sequential(*(stage if isinstance(stage, nn.Module) else _Function(stage) for stage in model))


def _without_arguments(step: Callable[..., object], name: str) -> Callable[[], object]:
    if inspect.isgeneratorfunction(step) or inspect.iscoroutinefunction(step):
        raise CkptError(f"the step of {name} makes a generator or a coroutine: return a function that runs")
    try:
        names = required(inspect.signature(step).parameters)
    except (TypeError, ValueError):  # a builtin, perhaps, which does not say
        return step
    if names:
        raise CkptError(f"the step of {name} needs arguments ({', '.join(names)}): expected one without any")
    return step


def _one_number(loss: Any, what: str) -> Tensor:
    if isinstance(loss, Tensor) and loss.numel() == 1 and loss.requires_grad:
        return loss
    if not isinstance(loss, Tensor):
        found = f"{type(loss).__name__}, expected a tensor of one number"
        hint = "Return a loss too: (model, inputs, loss), where loss(output) is that number"
    elif loss.numel() == 1:
        found = "a number that needs no gradient"
        hint = "Is every parameter frozen, or was the model called under no_grad or with .detach()?"
    else:
        found = f"a tensor of shape {tuple(loss.shape)}, expected one number"
        hint = "Return a loss too: (model, inputs, loss), where loss(output) ends in .mean() or the like"
    raise CkptError(f"{what} {found}. {hint}")
