"""Does every choice of a quiz answer, and is no right answer given away?"""

import json
import re

import pytest
from answers import ASSIGNMENTS, ROOT

from ckptlib import CkptError
from ckptlib.grading.assignment.assignment import Assignment
from ckptlib.grading.tasks import quiz


@pytest.fixture(params=ASSIGNMENTS)
def folder(request):
    return ROOT / "solutions" / request.param


def test_every_choice_answers_with_its_sentence(folder):
    items = quiz.load(folder)
    for box, item in zip(quiz.practise(folder).children, items.values(), strict=True):
        _, hint, buttons, answer = box.children
        assert hint.titles == ("Hint",) and hint.selected_index is None  # folded until a reader opens it
        assert hint.children[0].value == item["hint"].replace("`", "").replace("*", "")
        assert answer.value == "" and buttons.value is None  # nothing is chosen, nothing said
        for option, (_, sentence) in zip(buttons.options, item["choices"].values(), strict=True):
            buttons.value = option
            assert answer.value == sentence


def test_questions_and_choices_stand_in_the_notebook_too(folder):
    text = " ".join(cell.source for cell in Assignment.load(folder).release.cells).replace("`", "")
    for item in quiz.load(folder).values():
        assert item["question"].replace("`", "") in text
        for letter, (choice, _) in item["choices"].items():
            assert f"- **{letter}** {choice}\n".replace("`", "") in text


def test_a_hint_stands_under_each_question_and_before_the_answer(folder):
    (cell,) = [cell.source for cell in Assignment.load(folder).release.cells if cell.id == "about-quiz"]
    for (name, item), part in zip(quiz.load(folder).items(), cell.split("\n\n**q")[1:], strict=True):
        assert part.startswith(name[1:])
        folded = re.search(r"<details><summary>Hint</summary>(.*)</details>", part)[1]
        assert re.sub(r"</?(code|em)>", "", folded) == item["hint"].replace("`", "").replace("*", "")


def test_released_files_do_not_tell_which_is_right(folder):
    assert not {"right", "answer", "correct"} & {key for item in quiz.load(folder).values() for key in item}
    released = ROOT / "exercises" / folder.name
    shown = json.loads((released / "visible.json").read_text(encoding="utf-8"))
    assert shown and "quiz" not in shown
    texts = [path.read_text(encoding="utf-8") for path in released.iterdir() if path.is_file()]
    for item in quiz.load(folder).values():
        for _, sentence in item["choices"].values():
            assert not any(json.dumps(sentence, ensure_ascii=False)[1:-1] in text for text in texts)


def test_a_release_has_the_questions_and_hints_and_practises_without_a_verdict(folder):
    source, released = quiz.load(folder), quiz.load(ROOT / "exercises" / folder.name)
    assert released.keys() == source.keys()
    for name, item in source.items():
        assert released[name] == item | {"choices": {letter: [text] for letter, (text, _) in item["choices"].items()}}
    for box in quiz.practise(ROOT / "exercises" / folder.name).children:
        _, _, buttons, answer = box.children
        for option in buttons.options:
            buttons.value = option
            assert answer.value == quiz.GRADED_LATER


def test_the_reference_answers_every_question(folder):
    known = Assignment.load(folder)
    items = quiz.load(folder)
    assert list(items) == known.tasks["quiz"].names
    for name, item in items.items():
        assert known.reference[name] in item["choices"]


@pytest.mark.parametrize(
    "text", ["", "{", '{"q1": {"question": "?"}}', '{"q1": {"question": "?", "choices": {"a": ["x"]}}}']
)
def test_a_damaged_quiz_says_what_is_wrong(tmp_path, text):
    (tmp_path / "quiz.json").write_text(text)
    with pytest.raises(CkptError, match="quiz"):
        quiz.load(tmp_path)


def test_a_missing_quiz_says_where_it_was_looked_for(tmp_path):
    with pytest.raises(CkptError, match="no quiz at"):
        quiz.load(tmp_path)
