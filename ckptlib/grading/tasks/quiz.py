"""How does a reader practise a quiz? With radio buttons, and a sentence for each choice.

The text is in the assignment's quiz.json: {"q1": {"question": …, "hint": …, "choices": {"a": [text, sentence], …}}, …}.
A question may do without a hint. Students get the file without the sentences, because whoever reads them all can tell
which choice is right.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...errors import CkptError, require

GRADED_LATER = "Whether this is right is decided when the assignment is graded. The feedback says why."


def load(path: str | Path) -> dict[str, dict]:
    """The questions in quiz.json. path: the file, or its folder."""
    path = Path(path)
    path = path / "quiz.json" if path.is_dir() else path
    try:
        return read(path.read_bytes())
    except OSError as error:
        raise CkptError(f"no quiz at {path}: {error}") from None


def read(raw: bytes, where: str = "quiz.json") -> dict[str, dict]:
    """The questions in the bytes of quiz.json. A choice is its text and, if this is the source's file, its sentence."""
    try:
        items = json.loads(raw)
    except json.JSONDecodeError as error:
        raise CkptError(f"{where}, line {error.lineno}: {error.msg}. Is a comma missing, or one too many?") from None
    except ValueError as error:
        raise CkptError(f"{where} is not a text: {error}") from None
    for item in items.values() if isinstance(items, dict) else [None]:
        match item:
            case {"question": str(), "choices": {**choices}} if len(choices) > 1:
                if all(isinstance(choice, list) and len(choice) in (1, 2) for choice in choices.values()):
                    continue
        expected = '{"q1": {"question": …, "choices": {"a": [text, sentence], …}}, …}'
        raise CkptError(f"{where}: expected {expected}, with two choices or more, found {str(item)[:80]}")
    return items


def released(raw: bytes) -> bytes:
    """quiz.json as students get it, from the source's: without the sentences."""
    items = read(raw)
    for item in items.values():
        item["choices"] = {letter: choice[:1] for letter, choice in item["choices"].items()}
    return (json.dumps(items, indent=1, ensure_ascii=False) + "\n").encode()


def practise(path: str | Path = ".") -> Any:
    """The quiz as radio buttons; a choice answers with its sentence, if it has one. Nothing is recorded or graded.

    In a notebook beside its quiz.json: `quiz.practise()`. Tab moves from choice to choice, Space chooses.
    """
    require("book", "The quiz as radio buttons")
    import ipywidgets as w

    return w.VBox([_question(w, name, item) for name, item in load(path).items()])


def _question(w: Any, name: str, item: dict) -> Any:
    labels = {
        f"{letter}  {_without_markup(text)}": sentence[0] if sentence else GRADED_LATER
        for letter, (text, *sentence) in item["choices"].items()
    }
    wide = w.Layout(width="100%")
    hint = [w.Accordion([w.Label(_without_markup(item["hint"]))], titles=("Hint",))] if "hint" in item else []
    buttons = w.RadioButtons(options=list(labels), index=None, layout=w.Layout(width="max-content", max_width="100%"))
    answer = w.Label(value="", layout=wide)
    # A Label shows text as text; HTML would turn `x < 3` in a question into a tag.
    heading = w.Label(value=f"{name}. {_without_markup(item['question'])}", style={"font_weight": "bold"}, layout=wide)
    buttons.observe(lambda change: setattr(answer, "value", labels[change["new"]]), names="value")
    return w.VBox([heading, *hint, buttons, answer], layout=w.Layout(margin="0 0 1em 0"))


def _without_markup(text: str) -> str:
    return text.replace("`", "").replace("*", "")
