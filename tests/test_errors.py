"""Is every mistake in use that the library finds a CkptError, and can a caller still catch it in the usual ways?"""

import ast
from pathlib import Path

import pytest

import ckptlib as ck
from ckptlib import errors
from ckptlib.errors import CkptError, MissingExtra, require

PACKAGE = Path(ck.__file__).parent

# Where the library raises a plain TypeError or ValueError, and why.
PLAIN = {
    "recompute/checkpoint.py": "as torch.utils.checkpoint does for the same mistake",
    "grading/sandbox/warm_process_protocol.py": "between two processes of grading: it concerns one submission",
    "grading/tasks/answer_encoding.py": "caught in the same function, which then says whose data it is",
}


def plain_raises(source: str) -> list[int]:
    """The lines that raise TypeError or ValueError themselves, not a class derived from one of them."""
    calls = [node.exc for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Raise)]
    names = [(getattr(call, "func", call), call) for call in calls if call is not None]
    return [call.lineno for name, call in names if getattr(name, "id", None) in ("TypeError", "ValueError")]


def test_plain_raises_are_found():
    source = 'raise TypeError("a")\nraise ValueError\nraise\nraise CkptError("b")\nraise error.ValueError("c")\n'
    assert plain_raises(source) == [1, 2]


def test_a_mistake_in_use_is_a_ckpt_error_everywhere():
    sources = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert {path for path, source in sources.items() if plain_raises(source)} == set(PLAIN)


def test_a_ckpt_error_can_be_caught_as_a_value_error():
    with pytest.raises(ValueError, match="measure needs a function to call"):
        ck.measure(3)


@pytest.mark.parametrize("kind", [MissingExtra, CkptError, ValueError, ImportError])
def test_a_missing_extra_is_a_mistake_in_use_and_an_import_error(kind, monkeypatch):
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(kind, match=r"The quiz needs ipywidgets.*pip install 'ckptlib\[book\]'") as found:
        require("book", "The quiz")
    assert found.value.exit_code == 2
