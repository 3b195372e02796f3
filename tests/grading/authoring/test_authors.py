"""Is an author told what is wrong with an assignment before students have it: which file, which line, what to do?"""

import json
import shutil

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from small_course import KEY, NAME, RIGHT, TASKS, make, notebook, result, submit

from ckptlib.cli import main
from ckptlib.errors import CkptError
from ckptlib.grading.assignment.assignment import Assignment
from ckptlib.grading.authoring.make_release import examined, release
from ckptlib.grading.gradebook.course_folders import Course
from ckptlib.grading.gradebook.gradebook import OneGradebook
from ckptlib.grading.sandbox.sandbox import use

IGNORE = 'c.CourseDirectory.ignore = ["key.py"]'


@pytest.fixture
def course(tmp_path):
    return make(tmp_path / "course", {}, IGNORE)


def source_of(course):
    return course / "source" / NAME


def add_cell(course, cell, grade_id, **about):
    """Put one more cell at the end of the source."""
    path = source_of(course) / f"{NAME}.ipynb"
    found = nbformat.read(path, 4)
    fixed = {"schema_version": 3, "grade_id": grade_id, "grade": False, "solution": False, "locked": False}
    cell.id, cell.metadata.nbgrader = grade_id, fixed | {"task": False} | about
    found.cells.append(cell)
    nbformat.write(found, path)


# ---- slips in the source ----
SLIPS = [
    ("hidden.py", "\n\nimport nonexist\n", "/hidden.py, line 3: ModuleNotFoundError: No module named 'nonexist'"),
    ("hidden.py", "from __future__ import annotations", "/hidden.py cannot be appended to tasks.py"),
    ("hidden.py", "", "/hidden.py does not replace a probe"),
    (
        "hidden.py",
        "def double(given, double):\n    return double(-1)\n",
        "/hidden.py does not replace a probe, so grading would use the probes that students can read: expected "
        "`@check.double.hidden`",
    ),
    ("key.py", "from tasks import check\nif True\n", "/key.py, line 2: SyntaxError: expected ':'"),
    (
        "key.py",
        "from tasks import check\ncheck.triple.tolerate()",
        "/key.py, line 2: AttributeError: there is no task 'triple'",
    ),
    ("tasks.py", f"{TASKS}1 / 0\n", f"/tasks.py, line {TASKS.count(chr(10)) + 1}: ZeroDivisionError"),
    ("tasks.py", "x = 1", "/tasks.py: expected `check = Checks"),
    ("quiz.json", '{"q1": {}\n "q2": {}}', "/quiz.json, line 2: Expecting ',' delimiter"),
    ("quiz.json", '{"q1": {"choices": {"a": "yes"}}}', '/quiz.json: expected {"q1"'),
    (f"{NAME}.ipynb", "<html>", ".ipynb is not a notebook"),
]


@pytest.mark.parametrize(("name", "text", "says"), SLIPS)
def test_a_slip_is_told_with_its_file_and_where_there_is_one_its_line(course, name, text, says):
    if name == "quiz.json":
        (source_of(course) / "tasks.py").write_text(f'{TASKS}\ncheck.add_quiz(points=1, names="q1 q2")\n')
    (source_of(course) / name).write_text(text)
    with pytest.raises(CkptError) as told:
        examined(Assignment.load(source_of(course)))
    assert str(told.value).startswith(f"{NAME}{says}")


@pytest.mark.slow
def test_solutions_that_fail_or_are_missing_name_the_cell(course, capsys):
    path = source_of(course) / f"{NAME}.ipynb"
    before = path.read_text()
    path.write_text(before.replace("return 2 * x", "return 2 *"))
    assert main(["release", NAME, "--course", str(course)]) == 2
    assert f"{NAME}.ipynb, cell double, line 3: SyntaxError" in capsys.readouterr().err
    path.write_text(before.replace("def double", "def duble"))
    for command in (["release", NAME, "--course", str(course)], ["check", str(source_of(course))]):
        assert main(command) == 2
        assert f"tasks.py has a task double, but no cell of {NAME}.ipynb defines double" in capsys.readouterr().err


def test_a_letter_that_the_notebook_lacks_is_told(course):
    (source_of(course) / "tasks.py").write_text(f'{TASKS}\ncheck.add_quiz(points=1, names="q1")\n')
    with pytest.raises(CkptError, match=f"has a task quiz, but no cell of {NAME}.ipynb defines q1"):
        examined(Assignment.load(source_of(course)))


def test_points_that_disagree_are_refused(course):
    tasks = source_of(course) / "tasks.py"
    tasks.write_text(TASKS.replace("points=3", "points=30"))
    with pytest.raises(CkptError, match="check-double: 3 points in the notebook, 30 in tasks.py"):
        release(Course(course), NAME)


# ---- known mistakes ----
OFFLOAD = """
@check.task(points=3)
def double(given, double):
    return double(given.integer(1, 9000) * 1e-9)
"""


def test_a_mistake_in_tiny_numbers_is_told_from_the_right_answer(course):
    """Seconds of 1e-9 … 1e-5: an absolute tolerance of 1e-6 would take each of them for zero."""
    head, tail = TASKS.split("@check.task(points=3")[0], TASKS.split("@check.task(points=2")[1]
    (source_of(course) / "tasks.py").write_text(f"{head}{OFFLOAD}\n\n@check.task(points=2{tail}")
    key = "\n\n@check.double.mistake('once')\ndef once(x):\n    return x\n"
    (source_of(course) / "key.py").write_text(f"from tasks import check{key}")
    known = Assignment.load(source_of(course))
    task, seeds = known.tasks["double"], [5, 6]
    (once,) = known.known("double", seeds)
    assert task.judge(once["data"], known.right("double", seeds), [once], task.tolerance).message == "once"
    examined(known)
    (source_of(course) / "key.py").write_text(f"from tasks import check\ncheck.double.tolerate(atol=1e-3){key}")
    says = r"the mistake 'once' of double cannot be distinguished from .*atol 0\.001\): use toler"
    with pytest.raises(CkptError, match=says):
        examined(Assignment.load(source_of(course)))


NEGATIVE = "\n@check.double.hidden\ndef asked_in_secret(given, double):\n    return double({})\n"


def test_a_mistake_must_differ_where_grading_asks(course):
    """Right on what everybody sees is no harm if secret inputs tell; and the other way round it is."""
    (source_of(course) / "key.py").write_text(KEY.replace("x * x", "2 * abs(x)"))
    (source_of(course) / "hidden.py").write_text(NEGATIVE.format("-given.integer(1, 9)"))
    examined(Assignment.load(source_of(course)))
    (source_of(course) / "hidden.py").unlink()
    with pytest.raises(CkptError, match="the mistake 'squared' of double"):
        examined(Assignment.load(source_of(course)))
    (source_of(course) / "key.py").write_text(KEY)
    (source_of(course) / "hidden.py").write_text(NEGATIVE.format("2"))  # 2 * 2 == 2 ** 2
    with pytest.raises(CkptError, match="the mistake 'squared' of double"):
        examined(Assignment.load(source_of(course)))


def test_a_mistake_about_one_part_says_nothing_about_the_others(course):
    part = '\n\n@check.both.mistake("a sum")\ndef summed(a, b):\n    return {{"sum": {}, "product": None}}\n'
    for wrong, refused in {"a - b": False, "b + a": True}.items():
        (source_of(course) / "key.py").write_text(KEY + part.format(wrong))
        if refused:
            with pytest.raises(CkptError, match="the mistake 'summed' of both"):
                examined(Assignment.load(source_of(course)))
        else:
            examined(Assignment.load(source_of(course)))


BROKEN = """
from tasks import check
import math

@check.double.mistake("You forgot the second moment.")
def adam(x):
    {}
"""
TYPING_ERRORS = {
    "return x * undefined_name": "NameError: name 'undefined_name' is not defined",
    "return [x for _ in range(tims)]": "NameError: name 'tims' is not defined",
    "return later + x; later = 1": "UnboundLocalError",
    "return math.squareroot(x)": "AttributeError: module 'math' has no attribute 'squareroot'",
}
ASKED = "return double(given.integer(1, 10**6))"
CATCHING = TASKS.replace(ASKED, f"try:\n        {ASKED}\n    except Exception as error:\n        return repr(error)")


@pytest.mark.parametrize("tasks", [TASKS, CATCHING], ids=["", "caught by the probe"])
@pytest.mark.parametrize(("line", "says"), TYPING_ERRORS.items())
def test_a_mistake_that_fails_by_its_authors_typing_error_is_refused(course, line, says, tasks, capsys):
    (source_of(course) / "tasks.py").write_text(tasks)
    (source_of(course) / "key.py").write_text(BROKEN.format(line))
    for command in (["release", NAME, "--course", str(course)], ["check", str(source_of(course))]):
        assert main(command) == 2
        err = capsys.readouterr().err
        assert f"{NAME}/key.py, line 7: {says}" in err and "in a known mistake of double" in err
    assert not (course / "release").exists()


def test_a_typing_error_that_only_the_hidden_probe_reaches_is_refused(course):
    (source_of(course) / "key.py").write_text(BROKEN.format("return x if x > 0 else -y"))
    (source_of(course) / "hidden.py").write_text(NEGATIVE.format("-given.integer(1, 9)"))
    with pytest.raises(CkptError, match="name 'y' is not defined"):
        examined(Assignment.load(source_of(course)))


@pytest.mark.parametrize(
    "line",
    [
        "raise NotImplementedError",
        "raise NameError('the name is what this mistake is about')",
        "return x.parameters()",  # an int has none: that is the mistake
        "return {}[x]",
        "return eval('nothing_has_this_name')",
    ],
)
def test_a_mistake_may_fail_on_purpose(course, line):
    (source_of(course) / "key.py").write_text(BROKEN.replace("{}", line))
    examined(Assignment.load(source_of(course)))


# ---- what students must not get ----
def configure(course, ignore):
    (course / "nbgrader_config.py").write_text(f"c = get_config()\nc.CourseDirectory.ignore = {ignore}\n")


def test_no_private_file_is_released(course, capsys):
    (source_of(course) / "hidden.py").write_text(NEGATIVE.format("-given.integer(1, 9)"))
    configure(course, ["key.py"])
    assert main(["release", NAME, "--course", str(course)]) == 2
    assert "would release hidden.py" in capsys.readouterr().err
    assert not (course / "release").exists()
    configure(course, ["*key*", "hidden.*"])
    assert main(["release", f"{NAME}/", "--course", str(course)]) == 0, "patterns count, and so does Tab's slash"
    assert {path.name for path in (course / "release" / NAME).iterdir()} == {
        *(f"{NAME}.ipynb", "tasks.py", "visible.json")
    }
    for name in (f"../{NAME}", f"source/{NAME}", "..", "/"):
        assert main(["release", name, "--course", str(course)]) == 2


def test_a_release_with_a_private_file_in_it_is_deleted(course, monkeypatch):
    monkeypatch.setattr("ckptlib.grading.authoring.make_release._refuse", lambda names: None)
    configure(course, ["*.pyc"])
    with pytest.raises(CkptError, match="nbgrader released key.py: the release was deleted"):
        release(Course(course), NAME)
    assert not (course / "release" / NAME).exists()


COPIES = [
    *("key.py~", "key.py.bak", "key.pyc", "key (copy).py", "key-Copy1.py", "Copy of key.py", "#key.py#", ".key.py.swp"),
    *("hidden.py~", "hidden.py.orig", "old/key.py.save", ".ipynb_checkpoints/key-checkpoint.py"),
    *(f"{NAME}.ipynb~", f"{NAME}.ipynb.bak", f".{NAME}.ipynb.swp", f"{NAME}.ipynb.txt", "key.txt", "key (copy).md"),
]
NOT_MENTIONED = ["answers.docx", "tasks.py~", "all.zip", "solution", "my solutions.py", "__pycache__/tasks.pyc"]


@pytest.mark.parametrize("name", COPIES + NOT_MENTIONED)
def test_a_file_that_is_not_for_students_is_neither_released_nor_put_into_a_kernel(course, name, capsys):
    copy = source_of(course) / name
    copy.parent.mkdir(exist_ok=True)
    copy.write_text(KEY)
    assert Assignment.load(source_of(course)).released_files.keys() == {"tasks.py"}
    assert main(["release", NAME, "--course", str(course)]) == 2
    err = capsys.readouterr().err
    assert f"would release {name} to students" in err and "Remove it, or add" in err
    assert not (course / "release").exists()
    configure(course, ["key.py", "*.ipynb.bak", copy.name])
    assert main(["release", NAME, "--course", str(course)]) == 0
    assert {path.name for path in (course / "release" / NAME).rglob("*") if path.is_file()} == {
        *(f"{NAME}.ipynb", "tasks.py", "visible.json")
    }


def test_a_copy_that_was_released_all_the_same_is_deleted(course, monkeypatch):
    monkeypatch.setattr("ckptlib.grading.authoring.make_release._refuse", lambda names: None)
    (source_of(course) / "old").mkdir()
    (source_of(course) / "old" / "key.py~").write_text(KEY)
    with pytest.raises(CkptError, match="nbgrader released old/key.py~: the release was deleted"):
        release(Course(course), NAME)
    assert not (course / "release" / NAME).exists()


HONEST = ("hidden_layers.py", "keys.csv", "data/monkey.py", "turkey.txt", "data/table.csv")


def test_other_files_are_released_and_lie_beside_the_notebook(course):
    (source_of(course) / "data").mkdir()
    for name in HONEST:
        (source_of(course) / name).write_text("1")
    target = release(Course(course), NAME)
    beside = {*HONEST, "tasks.py", "visible.json"}
    assert Assignment.load(source_of(course)).released_files.keys() == beside
    assert {p.relative_to(target).as_posix() for p in target.rglob("*") if p.is_file()} == {*beside, f"{NAME}.ipynb"}


def test_a_file_of_any_kind_is_released_if_the_assignment_mentions_it(course):
    (source_of(course) / "tasks.py").write_text(f'{TASKS}\nWEIGHTS = "data/weights.bin"\n# key.py~ is a backup\n')
    add_cell(course, new_markdown_cell("![the model](model.webp)"), "picture")
    (source_of(course) / "data").mkdir()
    for name in ("data/weights.bin", "model.webp"):
        (source_of(course) / name).write_text("1")
    release(Course(course), NAME)
    assert {"data/weights.bin", "model.webp"} <= Assignment.load(source_of(course)).released_files.keys()
    for name in ("weights.bi", "eights.bin", "key.py~"):  # a part of a name is not a mention; a copy stays private
        (source_of(course) / name).write_text(KEY)
        with pytest.raises(CkptError, match=f"would release {name} to students"):
            release(Course(course), NAME)
        assert name not in Assignment.load(source_of(course)).released_files
        (source_of(course) / name).unlink()


@pytest.mark.parametrize(
    "config",
    [
        'c.CourseDirectory.ignore = ["key.py", "rubric.*", "notes"]',
        'c.CourseDirectory.ignore.extend(["key.py", "rubric.*", "notes"])',
    ],
)
def test_what_the_course_ignores_is_not_put_into_a_kernel(course, config):
    (source_of(course) / "notes").mkdir()
    for name in ("rubric.md", "notes/marking.txt", "table.csv"):
        (source_of(course) / name).write_text("the answers are …")
    (course / "nbgrader_config.py").write_text(f"c = get_config()\n{config}\n")
    assert Assignment.load(source_of(course)).released_files.keys() == {"tasks.py", "table.csv"}
    elsewhere = course.parent / "elsewhere"  # another course's source may be a link: its own configuration counts
    (elsewhere / "source").mkdir(parents=True)
    (elsewhere / "source" / NAME).symlink_to(source_of(course))
    (elsewhere / "nbgrader_config.py").write_text('c = get_config()\nc.CourseDirectory.ignore = ["table.*", "notes"]\n')
    found = Assignment.load(elsewhere / "source" / NAME)
    assert found.released_files.keys() == {"tasks.py", "rubric.md"} and "key.py" in found.files


def test_a_configuration_that_fails_is_told(course):
    (source_of(course) / "table.csv").write_text("1")
    (course / "nbgrader_config.py").write_text("c = get_config()\n1 / 0\n")
    with pytest.raises(CkptError, match=r"nbgrader_config\.py: ZeroDivisionError"):
        Assignment.load(source_of(course))


LOOKING = """import json, os
found = [os.path.join(folder, name) for folder, _, names in os.walk(".") for name in names if "pyc" not in name]
print("found:", *found)
for path in found:
    text = open(path, errors="replace").read()
    for cell in json.loads(text)["cells"] if "BEGIN SOLUTION" in text else ():
        if "BEGIN SOLUTION" in "".join(cell["source"]):
            exec("".join(cell["source"]))"""


@pytest.mark.slow
def test_a_submission_finds_no_notebook_with_solutions_beside_it(course, grade):
    """JupyterLab's Duplicate, its checkpoints, a backup: each holds every solution."""
    source, whole = source_of(course), (source_of(course) / f"{NAME}.ipynb").read_text()
    configure(course, ["key.py", "rubric.md", ".ipynb_checkpoints", "*~"])
    for name in (f"{NAME}-Copy1.ipynb", "old/draft.ipynb", ".ipynb_checkpoints/a.ipynb", f"{NAME}.ipynb~", "rubric.md"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text(whole)
    submit(course, "eve", {"double": LOOKING, "both": "pass"})
    code, out, _ = grade(course, "--json")
    assert code == 0 and result(out)["eve"]["score"] == 0
    assert "found: ./tasks.py\n" in (course / "feedback/eve" / NAME / f"{NAME}.html").read_text()
    kept = {path.name for path in (course / "autograded/eve" / NAME).rglob("*") if path.is_file()}
    assert kept == {f"{NAME}.ipynb", "tasks.py"}


# ---- graded by hand ----
ESSAY = {"grade": True, "solution": True, "points": 2}
STUB = "Why? See [the chapter](1.ipynb)."


def hand_in(course, student, words):
    folder = submit(course, student, RIGHT)
    found = nbformat.reads(notebook(RIGHT), 4)
    about = {"schema_version": 3, "grade_id": "essay", "locked": False, "task": False} | ESSAY
    found.cells.append(new_markdown_cell(words, id="essay", metadata={"nbgrader": about}))
    nbformat.write(found, folder / f"{NAME}.ipynb")


def book(course):
    return OneGradebook(f"sqlite:///{course}/gradebook.db", "toys", print)


@pytest.mark.slow
def test_what_a_person_grades_is_left_to_formgrader(course, grade):
    add_cell(course, new_markdown_cell(STUB), "essay", **ESSAY)
    release(Course(course), NAME)
    hand_in(course, "ada", "Because <script>alert(1)</script> it is so.")
    hand_in(course, "bob", Assignment.load(source_of(course)).release.cells[-1].source)
    code, out, _ = grade(course, "--json")
    found = result(out)
    assert code == 0 and {name: each["score"] for name, each in found.items()} == {"ada": 5, "bob": 5}
    assert found["ada"]["max_score"] == 7 and found["ada"]["reason"] == "essay: to be graded by hand"
    assert found["bob"]["reason"] == "essay: not answered"
    with book(course) as gradebook:
        ada, bob = (gradebook.find_grade("essay", NAME, NAME, name) for name in ("ada", "bob"))
        assert (ada.auto_score, ada.needs_manual_grade) == (None, True)
        assert (bob.auto_score, bob.needs_manual_grade) == (0, False)
        ada.manual_score = 1.5
        gradebook.db.commit()
    seen = nbformat.read(course / "autograded/ada" / NAME / f"{NAME}.ipynb", 4).cells[-1].source
    assert seen.startswith("```") and "it is so" in seen, "no HTML of a student's runs in Formgrader"
    code, out, _ = grade(course, "--json")
    ada = result(out)["ada"]
    assert code == 0 and json.loads(out)["kernels"] == 0
    assert ada["score"] == 6.5 and ada["tasks"][-1]["by_hand"]
    assert "6.5" in (course / "feedback/ada" / NAME / f"{NAME}.html").read_text()
    with book(course) as gradebook:
        assert gradebook.find_grade("essay", NAME, NAME, "ada").manual_score == 1.5


def test_code_that_a_person_grades_is_refused_before_students_have_it(course, capsys):
    add_cell(course, new_code_cell("plot()"), "essay", **ESSAY)
    for command in (["release", NAME, "--course", str(course)], ["check", str(source_of(course))]):
        assert main(command) == 2
        assert "the cell 'essay' is code that is graded by hand" in capsys.readouterr().err
    assert not (course / "release").exists()


# ---- the author's own check ----
@pytest.mark.slow
def test_checking_the_source_finds_nothing_edited_and_tells_what_is_not_counted(course, sandbox, capsys):
    use(sandbox.address)
    add_cell(course, new_markdown_cell(STUB), "essay", **ESSAY)
    assert main(["check", str(source_of(course))]) == 0
    out = capsys.readouterr().out
    assert "edited" not in out and "5 / 5" in out
    assert "Note: 'essay' is graded by hand, so its 2 points are not counted here" in out


def test_an_author_who_has_not_released_yet_is_told_to(course, tmp_path):
    module = {"__file__": str(source_of(course) / "tasks.py")}
    exec(TASKS, module)
    with pytest.raises(CkptError, match=f"run `ckptlib release {NAME}` first, which writes visible.json"):
        module["check"].double(lambda x: 2 * x)
    (source_of(course) / "visible.json").write_text("{}")  # released before this task was written
    with pytest.raises(CkptError, match=f"run `ckptlib release {NAME}` first"):
        module["check"].double(lambda x: 2 * x)
    student = tmp_path / "student"
    shutil.copytree(source_of(course), student, ignore=shutil.ignore_patterns("key.py"))
    module["check"].folder = student
    with pytest.raises(CkptError, match="fetch the assignment again"):
        module["check"].double(lambda x: 2 * x)
