"""Which pitfalls are written in the source of a model? Calls of checkpoint, read and not run."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

from torch import nn

from ..torch_internals import AnyDropout, is_compiled_module
from .pitfalls import Finding, Pitfall, updates_statistics


def from_source(model: nn.Module) -> Iterator[Finding]:
    """Findings in the source of the model's own classes. PyTorch's classes are not read."""
    modules = list(model.modules())
    calls = [found for cls in dict.fromkeys(map(type, modules)) for found in _calls_in(cls)]
    for cls in dict.fromkeys(map(type, modules)):
        for node in _packets_in(cls):
            yield Finding(
                Pitfall.POLICY_NEVER_MATCHES,
                cls.__name__,
                f"{ast.unparse(node)} is a family of ops: no op ever equals it",
            )
    if not calls:
        return
    inside = _inside(modules)
    random = any(isinstance(m, AnyDropout) and m.p for m in inside)
    for where, call in calls:
        options = {k.arg: k.value.value if isinstance(k.value, ast.Constant) else ... for k in call.keywords}
        yield from _from_call(where, call, options, random)
        if options.get("use_reentrant") is True and isinstance(model, nn.parallel.DistributedDataParallel):
            yield Finding(Pitfall.DDP, where, "use_reentrant=True inside DistributedDataParallel")
    for m in inside:
        if updates_statistics(m):
            yield Finding(
                Pitfall.BATCHNORM_TWICE, type(m).__name__, "in a model that checkpoints: if a checkpoint is around it"
            )
        if is_compiled_module(m):
            yield Finding(
                Pitfall.AUTOCAST_OR_COMPILE, type(next(m.children())).__name__, "compiled, in a model that checkpoints"
            )


def _from_call(where: str, call: ast.Call, options: dict, random: bool) -> Iterator[Finding]:
    if options.get("use_reentrant") is None:
        yield Finding(Pitfall.NOTHING_TRAINED, where, "use_reentrant is not passed: torch takes True")
    elif options["use_reentrant"] is True:
        yield Finding(Pitfall.NOTHING_TRAINED, where, "use_reentrant=True: if no input requires a gradient")
    if options.get("preserve_rng_state") is False and random:
        yield Finding(Pitfall.OTHER_MASK, where, "preserve_rng_state=False in a model with dropout")
    segments = [getattr(a, "value", None) for a in call.args[1:2]] + [options.get("segments")]
    if _name(call) == "checkpoint_sequential" and 1 in segments:
        yield Finding(Pitfall.NO_MEMORY_SAVED, where, "segments=1 checkpoints nothing: the last segment never is")
    if _name(call) == "checkpoint" and any(map(_container, call.args[1:])):
        yield Finding(Pitfall.TENSORS_IN_CONTAINERS, where, "a container among the arguments")


def _container(node: ast.expr) -> bool:
    """Whether this is a list, tuple or dict that may contain tensors, and not only numbers and strings."""
    if isinstance(node, ast.Dict | ast.List | ast.Tuple):
        return not all(isinstance(n, ast.Constant) for n in getattr(node, "elts", getattr(node, "values", ())))
    return False


def _inside(modules: list[nn.Module]) -> list[nn.Module]:
    """The modules that may run inside a checkpoint: all of them, unless every call names the attribute it is for."""
    found: dict[nn.Module, None] = {}
    for m in modules:
        for _, call in _calls_in(type(m)):
            parts: list[Any] = [getattr(m, name, None) for name in _attributes(call.args[:1], _tree(type(m)))]
            if not parts or not all(isinstance(part, nn.Module) for part in parts):
                return modules
            found |= dict.fromkeys(inner for part in parts for inner in part.modules())
    return list(found)


def _attributes(nodes: list[ast.expr], tree: ast.AST) -> set[str]:
    """Of which attributes of `self` these expressions speak: `self.head` does, and `b` in `for b in self.blocks`."""
    loops = [n for n in ast.walk(tree) if isinstance(n, ast.For | ast.comprehension)]
    names = {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}
    sources = [n.iter for n in loops if names & {t.id for t in ast.walk(n.target) if isinstance(t, ast.Name)}]
    inner = (n for node in [*nodes, *sources] for n in ast.walk(node) if isinstance(n, ast.Attribute))
    return {n.attr for n in inner if isinstance(n.value, ast.Name) and n.value.id == "self"}


def _name(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _tree(cls: type) -> ast.AST:
    """A class's source as a tree. It is empty for PyTorch's classes, and if no source is found, as for a lost cell."""
    try:
        own = not cls.__module__.startswith("torch.")
        return ast.parse(textwrap.dedent(inspect.getsource(cls))) if own else ast.Module([], [])
    except (OSError, TypeError, SyntaxError):
        return ast.Module([], [])


def _calls_in(cls: type) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(_tree(cls)):
        if isinstance(node, ast.Call) and _name(node) in ("checkpoint", "checkpoint_sequential"):
            if isinstance(node.func, ast.Attribute) and hasattr(cls, _name(node)):
                continue  # self.checkpoint is a method of the class itself, which may write a file
            yield f"{cls.__name__}: {ast.unparse(node):.60}", node


def _packets_in(cls: type) -> Iterator[ast.Attribute]:
    """`torch.ops.aten.mm`, but not as the beginning of `torch.ops.aten.mm.default`, and not called."""
    nodes = list(ast.walk(_tree(cls)))
    inner = {id(n.value) for n in nodes if isinstance(n, ast.Attribute)}
    inner |= {id(n.func) for n in nodes if isinstance(n, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            parts = ast.unparse(node).split(".")
            if parts[:3] == ["torch", "ops", "aten"] and len(parts) == 4:
                yield node
