"""Does the installed torch still have every private part that the library uses, and are they used in one place only?"""

import ast
import re
import subprocess
import sys
from functools import reduce
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from ckptlib import torch_internals
from ckptlib.torch_internals import DISPATCH_MODULES, EARLIER, PARTS, NeedsTorch, Part

PACKAGE = Path(torch_internals.__file__).parent
HOME = Path(torch_internals.__file__)
TREES = {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
ELSEWHERE = {name: tree for name, tree in TREES.items() if name != HOME.name}

# These may name private modules in text: the first is told what to import early, the others tell readers what to type.
MAY_NAME = ("grading/sandbox/preloaded_modules.py", "recompute/determinism.py", "recompute/pitfalls.py")
DOTTED = re.compile(r"\btorch(?:\.\w+)*\._[a-zA-Z]\w*(?:\.\w+)*")
OPERATOR = re.compile(r"(?:torch\.ops\.)?aten\.\w+(?:\.\w+)?")
NOT_TORCHS = "_replace _asdict _exit _getframe _check_late_penalty".split()  # of named tuples, os, sys and nbgrader


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def names_of_torch() -> set[str]:
    """The private names that torch's objects have: whoever uses one of these means torch's, not a name of our own."""
    x = torch.ones(2, requires_grad=True)
    samples = (x, x.untyped_storage(), x.exp().grad_fn, torch.nn.Module(), torch.ops.aten.add.Tensor)
    samples += (torch.library.Library, torch.autograd.Function, FakeTensorMode, torch.utils.checkpoint, torch.cuda)
    return {name for sample in samples for name in dir(sample) if is_private(name)}


def defined_in(tree: ast.AST) -> set[str]:
    """Functions, classes, variables and attributes that a module defines."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return found


TORCHS = names_of_torch()
OURS = set().union(*map(defined_in, TREES.values()))


def is_ours(name: str, of_self: bool = False) -> bool:
    return not is_private(name) or name in NOT_TORCHS or (name in OURS and (of_self or name not in TORCHS))


def touched(tree: ast.AST) -> list[str]:
    """Every place where a module touches a private part of torch."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            names = [f"{module}.{alias.name}".strip(".") for alias in node.names]
            found += [(node.lineno, name) for name in names if DOTTED.fullmatch(name)]
        elif isinstance(node, ast.Attribute):
            of_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not is_ours(node.attr, of_self) and not OPERATOR.fullmatch(ast.unparse(node)):
                found.append((node.lineno, ast.unparse(node)))
        elif isinstance(node, ast.Call):
            strings = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            by_name = ast.unparse(node.func).split(".")[-1] in ("getattr", "hasattr", "setattr", "delattr", "object")
            found += [(node.lineno, text) for text in strings if by_name and not is_ours(text)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            whole = [node.value] if node.value in TORCHS else []
            found += [(node.lineno, text) for text in [*whole, *DOTTED.findall(node.value)]]
    return [f"line {line}: {what}" for line, what in sorted(set(found))]


def texts() -> list[str]:
    constants = (node for tree in ELSEWHERE.values() for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [node.value for node in constants if isinstance(node.value, str)]


# ---- what the installed torch has -----------------------------------------------------------------------------------
def test_the_installed_torch_has_every_part():
    lines = torch_internals.gone()
    assert not lines, "\n".join([f"torch {torch.__version__} does not have these:", *lines])


def test_the_installed_torch_has_every_module_and_function_that_is_named_in_text():
    def is_there(name: str) -> bool:
        try:
            if find_spec(name):
                return True
        except ModuleNotFoundError:
            pass
        try:
            return reduce(getattr, name.split(".")[1:], torch) is not None
        except AttributeError:
            return False

    named = {name for text in [*texts(), *DISPATCH_MODULES] for name in DOTTED.findall(text)}
    assert {"torch._ops", "torch.utils._pytree", "torch._C._current_graph_task_id"} <= named
    assert [name for name in sorted(named) if not is_there(name)] == []


def test_the_installed_torch_has_every_operator_that_is_named():
    attributes = (node for tree in ELSEWHERE.values() for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    chains = {ast.unparse(node) for node in attributes} | {text for text in texts() if text.startswith("aten.")}
    named = {chain.removeprefix("torch.ops.") for chain in chains if OPERATOR.fullmatch(chain)}
    assert {"aten._softmax.default", "aten._fused_rms_norm.default", "aten._foreach_norm.Scalar"} <= named

    def is_there(name: str) -> bool:
        try:
            return reduce(getattr, name.split("."), torch.ops) is not None
        except AttributeError:
            return False

    assert [name for name in sorted(named) if not is_there(name)] == []


# ---- one place ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ELSEWHERE)
def test_no_other_module_touches_a_private_part_of_torch(name):
    found = touched(ELSEWHERE[name])
    if name in MAY_NAME:
        found = [line for line in found if not DOTTED.search(line)]
    assert found == [], "give it a name and a reason in torch_internals.PARTS, and import it from there"


def test_every_part_is_private_has_a_reason_and_is_used():
    imports = (node for tree in ELSEWHERE.values() for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    used = {alias.name for node in imports if node.module == HOME.stem for alias in node.names}
    calls = (node for tree in ELSEWHERE.values() for node in ast.walk(tree) if isinstance(node, ast.Call))
    used |= {call.args[0].value for call in calls if ast.unparse(call.func) == "name_of"}
    assert set(PARTS) - used == {"skips_dynamo"}  # which CalledDirectly overrides
    assert set(EARLIER) <= set(PARTS)
    assert used <= {*PARTS, *defined_in(TREES[HOME.name])}
    for name, part in PARTS.items():
        assert any(map(is_private, str(part).replace("()", "").split("."))), f"{name}: {part} is public"
        assert part.why.startswith("to ") and not part.why.endswith(".")


@pytest.mark.parametrize(
    "line",
    [
        "import torch._subclasses.fake_tensor",
        "from torch.utils import _pytree",
        "from torch.utils._pytree import tree_map",
        "def f():\n    from torch._C import _x",
        "torch._C._current_graph_task_id()",
        "x = y._version",
        "self._tensor._version",
        "self._buffers",  # nothing of ours has that name
        "storage._cdata",
        "getattr(module, '_initialized', False)",
        "mock.patch.object(theirs, '_checkpoint_without_reentrant_generator', x)",
        "parts = ('_indices', '_values')",
        "names = 'torch.utils._pytree torch'",
    ],
)
def test_every_way_of_touching_is_seen(line):
    assert touched(ast.parse(line))


@pytest.mark.parametrize(
    "line",
    [
        "import torch\nfrom torch.utils.checkpoint import checkpoint",
        "aten._softmax.default\ntorch.ops.aten._to_copy.default",
        "from ._pytree import x",
        "cost._replace(n=1)",
        "self._index",
        "tape._entries",
        "x.__class__",
    ],
)
def test_what_is_public_or_ours_is_not_touched(line):
    assert not touched(ast.parse(line))


# ---- a torch without a part -----------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_part_that_is_gone_is_told_when_it_is_used_and_not_before():
    code = """
import torch
del torch._C._current_graph_task_id
import ckptlib as ck
from ckptlib import torch_internals

x = torch.ones(2, requires_grad=True)
print(ck.checkpoint(torch.exp, x, use_reentrant=False).sum().item() > 5)  # a forward does not ask
print(*torch_internals.gone(), sep=" | ")
try:
    with ck.watch(torch.nn.Linear(2, 2)) as w:
        torch.nn.Linear(2, 2)(x)
    ck.saved_tensors(lambda: x * x)
except ck.CkptError as error:
    print(type(error).__name__, error)
"""
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    what = "to tell one backward pass from another, and from none, which is -1; hooks are not told in public"
    assert lines == [
        "True",
        f"torch._C._current_graph_task_id, here current_graph_task, is used {what}",
        f"NeedsTorch ckptlib uses torch._C._current_graph_task_id {what}. The installed torch {torch.__version__} "
        "does not have it",
    ]


@pytest.mark.parametrize(
    "part",
    [
        Part("torch._C:_gone", "to test"),
        Part("torch._gone:x", "to test"),
        Part("torch.nn:Module()", "to test", "_gone"),
        Part("torch:Tensor", "to test", method="_gone"),
    ],
)
def test_whatever_is_done_with_a_part_that_is_gone_raises_the_same_error(monkeypatch, part):
    monkeypatch.setitem(PARTS, "gone_part", part)
    gone = torch_internals.gone_part
    uses = {
        "call": lambda: gone(1),
        "is it one?": lambda: isinstance(1, gone),
        "is it one of several?": lambda: isinstance(1, (str, gone)),
        "subclass": lambda: subclass(gone),
        "attribute": lambda: gone.Autograd,
        "name": lambda: torch_internals.name_of("gone_part"),
    }
    for use in uses.values():
        with pytest.raises(NeedsTorch, match=rf"uses {re.escape(str(part))} to test. The installed torch 2\."):
            use()
    del torch_internals.gone_part  # it was cached there
    assert not hasattr(gone, "__wrapped__")  # inspect and doctest ask every global of a module


def subclass(base):
    class Sub(base):
        pass

    return Sub


def test_a_feature_can_say_which_release_it_needs():
    torch_internals.require_torch("2.9", "counting")  # before 2.11, as a version
    message = rf"^counting: torch 99.1 or newer is needed, and {re.escape(torch.__version__)} is installed$"
    with pytest.raises(NeedsTorch, match=message):
        torch_internals.require_torch("99.1", "counting")


def test_a_name_that_is_none_of_the_parts_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = torch_internals.nonsense
