"""How does a model keep to a plan in its own training loop? The calls of its blocks are diverted, in place."""

from __future__ import annotations

import json
import types
import weakref
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ..errors import CkptError
from ..remember.user_models import caching, is_compiled
from ..torch_internals import is_compiled_module
from .block_detection import Place
from .checkpointed_modules import CheckpointedModules
from .module_plan import ModulePlan
from .plan import Plan
from .schedule import Schedule
from .scheduled_model import BlocksInTurn

FORMAT = 2  # of the file


class RowPlan(NamedTuple):
    """The plan for one row of blocks. As many of them as a plan has are what a model needs to keep to it."""

    paths: list[str]  # of the blocks, in the order of their calls
    schedule: Schedule | None  # without one, each block is a checkpoint of its own
    places: list[Place]  # of the chain's tensor in each block's arguments and result


def rows_of(plan: Plan | ModulePlan | str | PathLike[str]) -> list[RowPlan]:
    if isinstance(plan, ModulePlan):
        return [RowPlan(plan.paths, None, [])]
    if isinstance(plan, Plan):
        chains = plan.whole.chains
        by_row = zip(chains.rows, chains.schedules(plan.schedule), strict=True)
        return [RowPlan(row.names, schedule, row.all_places) for row, schedule in by_row]
    if isinstance(plan, (str, PathLike)):
        return _read(Path(plan))
    raise CkptError(f"plan is a {type(plan).__name__}, expected the result of ck.plan, or the name of its file")


def check_plan(plan: Plan | ModulePlan | str | PathLike[str]) -> None:
    """Raise if this cannot be applied to any model, for example because its file cannot be read."""
    rows_of(plan)


def write_plan(plan: Plan | ModulePlan, path: str | PathLike[str]) -> None:
    """Write a plan to a JSON file, which `ck.apply(model, path)` reads."""
    rows = [
        {
            "blocks": row.paths,
            "actions": None if row.schedule is None else [list(action) for action in row.schedule.actions],
            "places": [list(place) for place in row.places],
        }
        for row in rows_of(plan)
    ]
    contents = {
        "format": FORMAT,
        "rows": rows,
        "budget": plan.budget,
        "step_peak": plan.peak,
    }
    try:
        Path(path).write_text(json.dumps(contents, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise CkptError(f"cannot write the plan: {error}") from None


def _read(path: Path) -> list[RowPlan]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CkptError(f"cannot read the plan: {error}") from None
    except ValueError as error:  # JSON's and Unicode's errors are ValueErrors
        raise CkptError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise CkptError(f"{path} is not a plan of this release. Write it again: ckptlib plan ... --write {path}")
    try:
        return [_read_row(list(row["blocks"]), row["actions"], row["places"]) for row in found["rows"]]
    except (KeyError, TypeError) as error:
        raise CkptError(f"{path} is not a complete plan: {error!r}. Write it again: ckptlib plan ...") from None


def _read_row(paths: list[str], actions: list | None, places: list) -> RowPlan:
    schedule = None if actions is None else Schedule(len(paths), [tuple(action) for action in actions])
    return RowPlan(paths, schedule, [Place(*place) for place in places])


# ---- in place -------------------------------------------------------------------------------------------------------
_applied: weakref.WeakKeyDictionary[nn.Module, Callable[[], None]] = weakref.WeakKeyDictionary()  # model -> undo


def apply(model: nn.Module, plan: Plan | ModulePlan | str | PathLike[str]) -> nn.Module:
    """Have a model train by a plan, in place, and return it. `ck.unapply(model)` undoes it.

    model   built like the one that was planned. It may be wrapped in DistributedDataParallel or sharded by
            fully_shard (FSDP2), before or afterwards. Its parameters stay the same objects, and its state_dict has the
            same names.
    plan    the result of `ck.plan`, or the name of a file that `ckptlib plan ... --write` wrote.

    From then on, each forward that builds a graph follows the plan, and its backward recomputes. Gradients are the
    plain model's, and a step needs `plan.peak` bytes. Forwards under no_grad run as before. In a model of
    `transformers`, use_cache is turned off in the config, because a block that runs again would find its own entries.

    Under torch.compile, which cannot follow a schedule, each block that the plan runs again is a
    torch.utils.checkpoint of its own. Apply the plan before the first compiled call. A copy.deepcopy of the model has
    no plan.
    """
    if not isinstance(model, nn.Module):
        raise CkptError(f"model is a {type(model).__name__}, but apply changes an nn.Module in place")
    if is_compiled_module(model):
        raise CkptError("the model is compiled: apply the plan first, and compile what ck.apply returns")
    root = _unwrapped(model)
    if root in _applied:
        raise CkptError("the model keeps to a plan already. Call ck.unapply(model) first")
    rows: list[BlocksInTurn | CheckpointedModules] = []
    again: list[nn.Module] = []  # blocks that run again
    for found in rows_of(plan):
        blocks = _blocks(root, found.paths)
        if found.schedule is None:
            rows.append(CheckpointedModules(blocks))
            forwards = [2] * len(blocks)
        else:
            rows.append(BlocksInTurn(found.schedule, blocks, found.paths, found.places, begins_again=True))
            forwards = found.schedule.forwards()
        again += [block for block, times in zip(blocks, forwards, strict=True) if times > 1 and not is_compiled(block)]
    configs = caching(root)
    for row in rows:
        row.install()
    for block in again:
        _checkpoint_if_compiled(block)
    for config in configs:
        config.use_cache = False

    def undo() -> None:
        for row in rows:
            row.remove()
        for block in again:
            _call_own_forward(block)
        for config in configs:
            config.use_cache = True

    _applied[root] = undo
    return model


def unapply(model: nn.Module) -> nn.Module:
    """Undo `ck.apply`: the model trains as it did before. Return it.

    model   the one that was given to `ck.apply`. A step that is under way still finishes by the plan.
    """
    undo = _applied.pop(_unwrapped(model), None) if isinstance(model, nn.Module) else None
    if undo is None:
        raise CkptError("the model keeps to no plan. Was it copied after ck.apply? A copy has none")
    undo()
    return model


def _unwrapped(model: nn.Module) -> nn.Module:
    return model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model


def _blocks(model: nn.Module, paths: list[str]) -> list[nn.Module]:
    try:
        blocks = [model.get_submodule(path) for path in paths]
    except AttributeError as error:
        raise CkptError(
            f"the plan is for blocks {paths[0]} … {paths[-1]}, but {error}. Was the plan made for another model?"
        ) from None
    if len({id(block) for block in blocks}) < len(blocks):
        raise CkptError("a block is in the plan twice, and its calls cannot be told apart in place: use plan.module")
    return blocks


# ---- under torch.compile --------------------------------------------------------------------------------------------
_OWN_FORWARD = "_forward_without_plan"


def _checkpoint_if_compiled(block: nn.Module) -> None:
    """The compiler looks at a module's forward, and not at what a call is diverted to."""
    if "forward" in block.__dict__:  # somebody has replaced it before
        block.__dict__[_OWN_FORWARD] = block.__dict__["forward"]
    # A method, and not a closure, so that a deep copy of the block calls the copy's forward.
    block.__dict__["forward"] = types.MethodType(_forward, block)


def _call_own_forward(block: nn.Module) -> None:
    block.__dict__.pop("forward", None)
    if _OWN_FORWARD in block.__dict__:
        block.__dict__["forward"] = block.__dict__.pop(_OWN_FORWARD)


def _forward(block: Any, *args: Any, **kwargs: Any) -> Any:
    replaced = getattr(block, _OWN_FORWARD, None)

    def own(*args: Any, **kwargs: Any) -> Any:
        return type(block).forward(block, *args, **kwargs) if replaced is None else replaced(*args, **kwargs)

    if torch.compiler.is_compiling() and torch.is_grad_enabled():
        return checkpoint(own, *args, use_reentrant=False, **kwargs)
    return own(*args, **kwargs)
