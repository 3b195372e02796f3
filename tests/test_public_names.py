"""Is every public name there, and does `import ckptlib` stay free of charge?"""

import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ckptlib as ck


def in_new_process(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("name", ck.__all__)
def test_every_public_name_resolves_and_is_listed(name):
    assert getattr(ck, name) is not None
    assert name in dir(ck)


def functions_and_classes():
    return [name for name in ck.__all__ if not inspect.ismodule(getattr(ck, name)) and name != "CkptError"]


@pytest.mark.parametrize("name", functions_and_classes())
def test_help_names_every_argument(name):
    """In the docstring, by a word of its own, or as the name of a field that a dataclass documents."""
    thing = getattr(ck, name)
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = [p.name for p in inspect.signature(thing).parameters.values() if p.kind not in variadic]
    text = inspect.getdoc(thing) or ""
    assert [p for p in parameters if not re.search(rf"\b{p}\b", text)] == []


@pytest.mark.slow
def test_every_explorer_is_found_in_widgets_whatever_was_imported_first():
    code = """
import sys
import ckptlib as ck
names = [name for name in dir(ck.widgets) if name.endswith("_explorer")]
print("ipywidgets" in sys.modules, "torch" in sys.modules)
print(all(callable(getattr(ck.widgets, name)) for name in names), *names)
"""
    before, after = in_new_process(code).splitlines()
    files = Path(ck.widgets.__file__).parent.glob("[a-z]*.py")
    assert before == "False False"
    assert after.split() == ["True", *sorted(f"{file.stem}_explorer" for file in files)]
    with pytest.raises(AttributeError, match="no attribute 'nonsense_explorer'"):
        _ = ck.widgets.nonsense_explorer


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'checkpont'"):
        _ = ck.checkpont


def test_importing_the_package_loads_nothing_but_the_standard_library():
    code = """
import sys
before = {*sys.modules}
import ckptlib
print(*{name.split(".")[0] for name in {*sys.modules} - before})
"""
    assert set(in_new_process(code).split()) - set(sys.stdlib_module_names) == {"ckptlib"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    ["import ckptlib.remember.saved_tensors", "from ckptlib import saved_tensors", "from ckptlib import measure"],
)
def test_measure_is_a_function_and_a_package_whatever_was_imported_first(first):
    code = f"""
{first}
import ckptlib as ck
from ckptlib.remember.saved_tensors import saved_tensors
try:
    ck.measure("not callable")
except ck.CkptError as error:
    print(callable(ck.measure), saved_tensors is ck.saved_tensors)
"""
    assert in_new_process(code) == "True True"


def test_measure_shows_the_functions_signature_and_source_and_survives_pickling():
    from ckptlib.remember.measurement import measure

    assert inspect.signature(ck.measure) == inspect.signature(measure)
    assert inspect.getsource(ck.measure) == inspect.getsource(measure)
    assert pickle.loads(pickle.dumps(ck.measure)) is ck.measure
