"""Does one probe serve the reader, stock nbgrader and the engine alike?"""

import json

import nbformat
import pytest
import torch
from answers import ROOT
from IPython.core.formatters import DisplayFormatter
from IPython.core.interactiveshell import InteractiveShell

from ckptlib import CkptError
from ckptlib.grading.assignment.assignment import Assignment
from ckptlib.grading.assignment.visible_answers import visible
from ckptlib.grading.run import probes_in_kernel
from ckptlib.grading.run.probes_in_kernel import load_tasks, sample
from ckptlib.grading.tasks.inputs import Given

TASKS = """
from ckptlib.grading import Checks
check = Checks(__file__)

@check.task(points=2, section="9.1")
def double(given, double):
    return double(given.integer(1, 1000))

@check.task(points=4, parts=True)
def table(given, table):
    n = given.integer(2, 1000)
    return {"n": table("n", n), "square": table("square", n)}

check.add_quiz(points=1, names="q1")
"""
KEY = """
from tasks import check
check.double.tolerate(rtol=0.5)

@check.double.mistake("That is the square.")
def squares(x):
    return x * x
"""
QUIZ = {"q1": {"question": "?", "choices": {"a": ["yes", "Right."], "b": ["no", "Think again."]}}}


def cell(kind, name, source, points=None):
    about = {"grade": kind == "grade", "solution": kind == "answer", "locked": kind == "grade", "grade_id": name}
    made = nbformat.v4.new_code_cell(source, id=name)
    made.metadata.nbgrader = about | {"schema_version": 3, "task": False} | ({"points": points} if points else {})
    return made


def graded(task, names, points):
    hidden = f"### BEGIN HIDDEN TESTS\ncheck.{task}({names}, hidden=True)\n### END HIDDEN TESTS"
    return cell("grade", f"check-{task}", f"check.{task}({names})\n{hidden}", points)


def solution(*lines):
    return "\n".join(["### BEGIN SOLUTION", *lines, "### END SOLUTION"])


@pytest.fixture
def course(tmp_path):
    """A course with one small assignment, and a copy of its release beside it."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [
        nbformat.v4.new_code_cell("from tasks import check", id="setup"),
        cell("answer", "double", solution("def double(x):", "    return 2 * x")),
        graded("double", "double", 2),
        cell("answer", "table", solution("def table(what, n):", "    return n if what == 'n' else n * n")),
        graded("table", "table", 4),
        cell("answer", "quiz", "q1 = None\n" + solution("q1 = 'a'")),
        graded("quiz", "q1", 1),
    ]
    source = tmp_path / "solutions" / "toy"
    source.mkdir(parents=True)
    nbformat.write(notebook, source / "toy.ipynb")
    (source / "tasks.py").write_text(TASKS)
    (source / "key.py").write_text(KEY)
    (source / "quiz.json").write_text(json.dumps(QUIZ))
    (source / "visible.json").write_text(json.dumps(visible(Assignment.load(source))))
    release = tmp_path / "exercises" / "toy"
    release.mkdir(parents=True)
    for name in ("tasks.py", "quiz.json", "visible.json"):
        (release / name).write_bytes((source / name).read_bytes())
    return tmp_path


@pytest.fixture
def check(course):
    module = {"__file__": str(course / "exercises" / "toy" / "tasks.py")}
    exec(TASKS, module)
    return module["check"]


def test_the_readers_check_tells_right_from_wrong(check, capsys):
    assert check.double(lambda x: x + x) == 2
    assert capsys.readouterr() == ("double: right on the inputs that you can see.\n", "")
    assert check.double(lambda x: x**2) == 0
    assert capsys.readouterr() == ("", "double: That is the square.\nRead again: 9.1.\n")


def test_a_section_is_named_only_where_something_was_read_wrongly(check, capsys):
    def blank(*given):
        raise NotImplementedError

    for answer, said in {
        (lambda x: 1 / 0): "double: raised ZeroDivisionError: division by zero",
        (lambda x: None): "double: returned None. Is a `return` missing?",
        blank: "double: not answered yet",
    }.items():
        assert check.double(answer) == 0
        assert capsys.readouterr() == ("", f"{said}\n")
    check.double(lambda x: 3 * x)
    assert "Read again: 9.1." in capsys.readouterr().err


def test_a_notebook_shows_one_form_of_points_and_nbgrader_reads_them(check, capsys):
    """Whether nothing, something or everything is right. nbgrader reads text/plain, and stderr means failure."""
    formatter = DisplayFormatter()
    for answer, earned, failed in (
        (lambda what, n: n, 2, False),
        (lambda what, n: 0, 0, True),
        (lambda what, n: n if what == "n" else n * n, 4, False),
    ):
        shown, _ = formatter.format(check.table(answer))
        assert shown["text/html"] == f"{earned} of 4 points" and float(shown["text/plain"]) == earned
        said = capsys.readouterr()
        assert bool(said.err) == failed and (said.out + said.err).startswith("table: ")
    assert check.table(lambda what, n: n) == 2
    assert "table: partly right on the inputs that you can see.\n" in capsys.readouterr().out


def test_hidden_checks_use_other_inputs_and_the_key(check):
    seen = [Given(seed).integer(1, 1000) for seed in check.double.visible_seeds()]
    cheat = lambda x: 2 * x if x in seen else 0  # noqa: E731
    assert check.double(cheat) == 2
    assert check.double(cheat, hidden=True) == 0
    assert check.double(lambda x: 2 * x, hidden=True) == 2


def test_the_quiz_is_recorded_but_not_judged_in_sight(check, capsys):
    assert check.quiz("b") is None
    assert "recorded" in capsys.readouterr().out
    assert check.quiz(None) == 0
    assert "expected one letter" in capsys.readouterr().err
    assert check.quiz("b", hidden=True) == 0
    assert "Think again" in capsys.readouterr().err
    assert check.quiz(" A ", hidden=True) == 1


def test_hidden_checks_need_the_source(check, course):
    (course / "solutions").rename(course / "elsewhere")
    with pytest.raises(CkptError, match="the source of toy is not available"):
        check.double(lambda x: 2 * x, hidden=True)


def test_a_missing_visible_json_says_what_to_do(check, course):
    (course / "exercises" / "toy" / "visible.json").unlink()
    with pytest.raises(CkptError, match="fetch the assignment again"):
        check.double(lambda x: 2 * x)


def test_a_wrong_number_of_answers_is_the_authors_mistake(check):
    with pytest.raises(CkptError, match="takes double: 2 were passed"):
        check.double(1, 2)
    with pytest.raises(AttributeError, match="no task 'doubel' here, only double, table, quiz"):
        _ = check.doubel


def test_the_state_an_answer_leaves_behind_does_not_matter(check):
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    try:
        (made,) = check.double.ask((lambda x: torch.zeros(1, requires_grad=True) * x,), [1])
        assert made["dtype"] == "float32"
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)


def test_asking_leaves_the_readers_random_numbers_alone(check):
    before = torch.random.get_rng_state()
    check.double.ask((lambda x: torch.manual_seed(1) and torch.rand(3),), [1])
    assert torch.equal(before, torch.random.get_rng_state())


# ---- the source ----
def test_a_changed_key_asks_nobody_again(course):
    source = course / "solutions" / "toy"
    before = Assignment.load(source)
    (source / "key.py").write_text(KEY.replace("0.5", "0.1"))
    after = Assignment.load(source)
    assert before.digest == after.digest
    assert before.tasks["double"].tolerance != after.tasks["double"].tolerance
    (source / "tasks.py").write_text(TASKS.replace("1000", "999"))
    assert Assignment.load(source).digest != before.digest


HIDDEN = """
@check.double.hidden
def double(given, double):
    return double(-given.integer(1, 1000))
"""


def test_a_course_may_ask_what_no_student_has_seen(course, check):
    source = course / "solutions" / "toy"
    before = Assignment.load(source)
    (source / "hidden.py").write_text(HIDDEN)
    after = Assignment.load(source)
    assert visible(after) == visible(before) and "hidden.py" not in after.released_files
    assert after.digest != before.digest
    mend = lambda x: 2 * abs(x)  # noqa: E731 - right on everything that a student can see
    assert check.double(mend) == 2
    assert check.double(mend, hidden=True) == 0
    answered = load_tasks(after.tasks_py).check.double.ask((mend,), [5])
    assert answered != after.right("double", [5]) and load_tasks(before.tasks_py).check.double.ask(
        (mend,), [5]
    ) == before.right("double", [5])


def test_the_release_holds_no_solution_and_no_hidden_test(course):
    known = Assignment.load(course / "solutions" / "toy")
    text = nbformat.writes(known.release)
    assert "return 2 * x" not in text and "hidden" not in text.lower() and "NotImplementedError" in text
    assert "key.py" not in known.released_files and "toy.ipynb" not in known.released_files


def test_the_release_is_what_nbgrader_makes(tmp_path):
    """Our cells, made once in memory, are those of the committed release."""
    known = Assignment.load(ROOT / "solutions" / "01_activation_memory")
    released = nbformat.read(ROOT / "exercises" / "01_activation_memory" / "01_activation_memory.ipynb", 4)
    assert [(c.id, c.source, c.metadata) for c in known.release.cells] == [
        (c.id, c.source, c.metadata) for c in released.cells
    ]


def test_an_incomplete_assignment_says_what_is_missing(tmp_path):
    with pytest.raises(CkptError, match="has no toy.ipynb"):
        Assignment("toy", {"tasks.py": b""})
    with pytest.raises(CkptError, match="is not a folder"):
        Assignment.load(tmp_path / "none")


# ---- the kernel's side ----
def respond(code, monkeypatch, **names):
    shown = []
    shell = InteractiveShell.instance()
    shell.user_ns.update(names)
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data[probes_in_kernel.MIME]))
    exec(code, {})
    return shown[0]


def test_a_kernel_answers_with_data_for_each_seed(monkeypatch):
    code = probes_in_kernel.question("n0nce", TASKS, "double", [5, 6])
    answer = respond(code, monkeypatch, double=lambda x: 2 * x)
    assert answer == {"nonce": "n0nce", "data": {"cases": [2 * Given(s).integer(1, 1000) for s in (5, 6)]}}


def test_a_kernel_says_which_name_is_missing(monkeypatch):
    answer = respond(probes_in_kernel.question("n", TASKS, "table", [5]), monkeypatch)
    assert answer["data"] == {"missing": ["table"]}


def test_the_tamper_check_gives_the_same_everywhere(monkeypatch):
    answer = respond(probes_in_kernel.question("n", TASKS, probes_in_kernel.TAMPER_CHECK, [5, 6]), monkeypatch)
    assert answer["data"]["cases"] == [sample(5), sample(6)]
    assert sample(5) != sample(6)


def test_the_tamper_check_notices_a_patched_library(monkeypatch):
    honest = sample(5)
    monkeypatch.setattr("torch.allclose", lambda *args, **kwargs: True)
    assert sample(5) != honest
