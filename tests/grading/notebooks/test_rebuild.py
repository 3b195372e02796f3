"""Does an honest student get their points, whatever happened to the cells?

The oracle is Python itself: the rebuilt cells are run in order, and must leave the names that the student's own
notebook would have left.
"""

import contextlib
import copy
import time

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_release import NAME, SOLVED, STUBS, as_bytes, at, bare, cell, code, release, solved

from ckptlib.grading.notebooks.rebuild import read_submission, reassemble

RELEASE = release()


def rebuild(notebook):
    rebuilt = reassemble(read_submission({NAME: as_bytes(notebook)}, NAME), RELEASE)
    nbformat.validate(rebuilt.notebook)
    assert rebuilt.problem is None
    return rebuilt


def final_names(cells) -> dict:
    """Run cells as a kernel would: each on its own, magics left out, a failing cell fails alone."""
    names = {"check": None}
    for kind, source in cells:
        if kind == "code" and not source.startswith("import math\nfrom tasks"):
            text = "\n".join(line for line in source.split("\n") if line[:1] not in "%!" or not line)
            with contextlib.suppress(Exception):
                exec(text, names)
    return names


def right_answers(names) -> set[str]:
    asked = {
        "double": lambda: names["double"](4) == 8,
        "area": lambda: names["area"](2, 3) == 6,
        "total": lambda: names["total"] == 55,
        "quiz": lambda: (names["q1"], names["q2"]) == ("b", "a"),
    }
    right = set()
    for task, question in asked.items():
        with contextlib.suppress(Exception):
            right |= {task} if question() else set()
    return right


def assert_full_marks(rebuilt, tasks=tuple(SOLVED)):
    right = right_answers(final_names([(each.cell_type, each.source) for each in rebuilt.notebook.cells]))
    assert right >= {*tasks}
    assert {task for task, answered in rebuilt.answered.items() if answered} >= {*tasks}


def sources(rebuilt):
    return [each.source for each in rebuilt.notebook.cells]


# ---- nothing happened -----------------------------------------------------------------------------------------------
def test_an_honest_notebook_comes_through_unchanged_and_without_a_note():
    rebuilt = rebuild(solved())
    assert rebuilt.notes == []
    assert rebuilt.answers == SOLVED
    assert sources(rebuilt) == [each["source"] for each in solved()["cells"]]
    assert [each.id for each in rebuilt.notebook.cells] == [each.id for each in RELEASE.cells]
    assert_full_marks(rebuilt)


def test_the_blank_release_is_unanswered():
    rebuilt = rebuild(RELEASE)
    assert rebuilt.answered == dict.fromkeys(STUBS, False)
    assert rebuilt.answers == STUBS
    assert rebuilt.notes == []


def test_blanks_and_line_ends_are_no_answer():
    notebook = copy.deepcopy(RELEASE)
    notebook.cells[3].source = "\n" + notebook.cells[3].source.replace("\n", "  \r\n") + "\n\n"
    assert not any(rebuild(notebook).answered.values())


def test_nothing_of_the_students_metadata_outputs_or_kernel_survives():
    notebook = solved()
    notebook["metadata"] = {"kernelspec": {"name": "evil", "language": "R"}, "secret-mark": 1}
    notebook["cells"].insert(0, code("1", metadata={"secret-mark": 1}, attachments={"secret-mark": {}}))
    for each in notebook["cells"]:
        each["metadata"]["secret-mark"] = {"x": 1}
        if each["cell_type"] == "code":
            each["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "secret-mark"}]
    rebuilt = rebuild(notebook)
    assert "secret-mark" not in nbformat.writes(rebuilt.notebook)
    assert rebuilt.notebook.metadata == RELEASE.metadata
    assert_full_marks(rebuilt)


# ---- metadata -------------------------------------------------------------------------------------------------------
def marks(notebook, change):
    for each in notebook["cells"]:
        if "nbgrader" in each["metadata"]:
            change(each["metadata"]["nbgrader"])
    return notebook


MANGLED_METADATA = {
    "no metadata, no ids": bare,
    "no nbgrader metadata": lambda nb: [c["metadata"].pop("nbgrader", None) for c in nb["cells"]] and nb,
    "no ids": lambda nb: [c.pop("id") for c in nb["cells"]] and nb,
    "metadata null": lambda nb: [c.update(metadata=None) for c in nb["cells"]] and nb,
    "metadata a list": lambda nb: [c.update(metadata=[1], id=7) for c in nb["cells"]] and nb,
    "schema 1": lambda nb: marks(nb, lambda m: m.update(schema_version=1)),
    "schema 2": lambda nb: marks(nb, lambda m: m.update(schema_version=2)),
    "schema 99": lambda nb: marks(nb, lambda m: m.update(schema_version=99, new_key={})),
    "schema gone": lambda nb: marks(nb, lambda m: m.pop("schema_version")),
    "points changed": lambda nb: marks(nb, lambda m: m.update(points=1e9)),
    "flags flipped": lambda nb: marks(nb, lambda m: m.update({k: not m[k] for k in ("grade", "solution", "locked")})),
    "grade ids all the same": lambda nb: marks(nb, lambda m: m.update(grade_id="quiz")),
    "grade ids reversed": lambda nb: marks(nb, lambda m: m.update(grade_id=m["grade_id"][::-1])),
    "grade ids are numbers": lambda nb: marks(nb, lambda m: m.update(grade_id=3)),
    "ids all the same": lambda nb: [c.update(id="x") for c in nb["cells"]] and nb,
    "ids invalid": lambda nb: [c.update(id="ä ö/" * 50) for c in nb["cells"]] and nb,
    "colab": lambda nb: [c.update(metadata={"id": "aB3", "cellView": "form"}) for c in nb["cells"]] and nb,
    "deepnote": lambda nb: [c.update(metadata={"cell_id": c.pop("id")}) for c in nb["cells"]] and nb,
    "vscode": lambda nb: [c.update(metadata={"vscode": {"languageId": "python"}}) for c in nb["cells"]] and nb,
}


@pytest.mark.parametrize("how", MANGLED_METADATA)
def test_metadata_is_only_a_hint(how):
    rebuilt = rebuild(MANGLED_METADATA[how](solved()))
    assert rebuilt.answers == SOLVED
    assert_full_marks(rebuilt)


@pytest.mark.parametrize("first, second", [("double", "area"), ("double", "double_check"), ("total_check", "quiz")])
def test_swapped_grade_ids_are_seen_through(first, second):
    notebook = solved()
    one, two = cell(notebook, first)["metadata"], cell(notebook, second)["metadata"]
    one["nbgrader"], two["nbgrader"] = two["nbgrader"], one["nbgrader"]
    rebuilt = rebuild(notebook)
    assert rebuilt.answers == SOLVED
    assert_full_marks(rebuilt)


# ---- cells copied, moved, split, merged, deleted, edited ------------------------------------------------------------
def test_a_deleted_answer_comes_back_as_the_stub():
    notebook = solved()
    del notebook["cells"][at(notebook, "area")]
    rebuilt = rebuild(notebook)
    assert rebuilt.answers["area"] == STUBS["area"] and not rebuilt.answered["area"]
    assert rebuilt.notes == ["the answer cell 'area' was missing and was replaced with the empty one"]
    assert_full_marks(rebuilt, ("double", "total", "quiz"))


@pytest.mark.parametrize("strip", [bare, copy.deepcopy])
def test_copies_that_add_nothing_are_dropped(strip):
    notebook = solved()
    notebook["cells"] += [copy.deepcopy(cell(notebook, "area")), code(STUBS["double"])]
    rebuilt = rebuild(strip(notebook))
    assert len(rebuilt.notebook.cells) == len(RELEASE.cells)
    assert_full_marks(rebuilt)


@pytest.mark.parametrize("strip", [bare, copy.deepcopy])
@pytest.mark.parametrize("order", ["wrong right", "right wrong right", "stub wrong wrong right stub"])
def test_of_several_versions_the_last_one_wins(strip, order):
    texts = {"wrong": "def area(a, b):\n    return a", "right": SOLVED["area"], "stub": STUBS["area"]}
    notebook = solved()
    place = at(notebook, "area")
    original = notebook["cells"].pop(place)
    notebook["cells"][place:place] = [copy.deepcopy(original) | {"source": texts[word]} for word in order.split()]
    assert_full_marks(rebuild(strip(notebook)))


def test_a_later_version_stays_where_the_names_that_it_needs_are_known():
    notebook = solved()
    cell(notebook, "total")["source"] = "total = 0"
    again = copy.deepcopy(cell(notebook, "total")) | {"source": "total = helper(10)"}
    notebook["cells"] += [code("def helper(n):\n    return sum(range(n + 1))"), again]
    rebuilt = rebuild(notebook)
    assert_full_marks(rebuilt)
    assert (
        "the answer cell 'total' existed in 2 versions; all of them were run, and the last one counts" in rebuilt.notes
    )


def test_a_version_at_the_top_does_not_overtake_the_one_in_its_place():
    notebook = solved()
    notebook["cells"].insert(0, copy.deepcopy(cell(notebook, "total")) | {"source": "total = 0"})
    assert_full_marks(rebuild(notebook))


@pytest.mark.parametrize("strip", [bare, copy.deepcopy])
def test_a_reversed_notebook_is_put_in_order(strip):
    notebook = strip(solved())
    notebook["cells"].reverse()
    rebuilt = rebuild(notebook)
    assert sources(rebuilt) == sources(rebuild(solved()))
    assert "cells had been moved; they were run in the order of the assignment" in rebuilt.notes


def test_own_cells_keep_their_place():
    notebook = solved()
    notebook["cells"].insert(at(notebook, "total"), code("before_total = 1"))
    notebook["cells"].insert(at(notebook, "total") + 1, code("after_total = 1"))
    notebook["cells"].insert(0, code("first = 1"))
    notebook["cells"].append({"cell_type": "markdown", "source": "the end", "metadata": {}})
    rebuilt = rebuild(notebook)
    assert sources(rebuilt) == [each["source"] for each in notebook["cells"]]
    assert [each.source for each in rebuilt.notebook.cells if each.metadata.get("ckptlib", {}).get("extra")] == [
        "first = 1",
        "before_total = 1",
        "after_total = 1",
        "the end",
    ]


@pytest.mark.parametrize("keeps", ["first", "second", "both", "neither"])
def test_a_split_answer_stays_whole(keeps):
    notebook = solved()
    place = at(notebook, "area")
    whole = notebook["cells"].pop(place)
    halves = [code("import operator\nhelper = operator.mul"), code("def area(a, b):\n    return helper(a, b)")]
    for half, which in zip(halves, ("first", "second"), strict=True):
        if keeps in (which, "both"):
            half |= {"metadata": whole["metadata"], "id": whole["id"]}
    notebook["cells"][place:place] = halves
    rebuilt = rebuild(notebook)
    assert_full_marks(rebuilt)
    texts = sources(rebuilt)
    assert texts.index(halves[0]["source"]) + 1 == texts.index(halves[1]["source"])


def test_a_quiz_split_into_one_cell_for_each_question():
    notebook = bare(solved())
    notebook["cells"] = [each for each in notebook["cells"] if each["source"] != SOLVED["quiz"]]
    notebook["cells"] += [code('q1 = "b"'), code('q2 = "a"')]
    assert_full_marks(rebuild(notebook))


@pytest.mark.parametrize("strip", [bare, copy.deepcopy])
@pytest.mark.parametrize("last", ["double_check", "area", "quiz_check"])
def test_merged_cells_answer_every_task_in_them(strip, last):
    notebook = solved()
    begin, end = at(notebook, "double"), at(notebook, last) + 1
    parts = [each["source"] for each in notebook["cells"][begin:end] if each["cell_type"] == "code"]
    merged = copy.deepcopy(notebook["cells"][begin]) | {
        "source": "\n\n".join(part for part in parts if not part.startswith("check("))
    }
    notebook["cells"][begin:end] = [merged]
    rebuilt = rebuild(strip(notebook))
    assert sources(rebuilt).count(merged["source"]) == 1
    assert_full_marks(rebuilt)


def test_a_stub_merged_into_another_cell_is_unanswered():
    notebook = solved()
    cell(notebook, "double")["source"] += "\n\n" + STUBS["area"]
    del notebook["cells"][at(notebook, "area")]
    rebuilt = rebuild(notebook)
    assert not rebuilt.answered["area"]
    assert_full_marks(rebuilt, ("double", "total", "quiz"))


def test_the_whole_notebook_in_one_cell():
    text = "import math\n\n" + "\n\n".join(SOLVED.values())
    rebuilt = rebuild({"cells": [code(text)]})
    assert sources(rebuilt).count(text) == 1
    assert_full_marks(rebuilt)


def test_an_answer_in_a_new_cell_beside_the_untouched_stub():
    for offset in (0, 1):
        notebook = solved()
        cell(notebook, "area")["source"] = STUBS["area"]
        notebook["cells"].insert(at(notebook, "area") + offset, code(SOLVED["area"]))
        assert_full_marks(rebuild(notebook))


def test_an_answer_written_into_the_check_cell():
    notebook = solved()
    cell(notebook, "area")["source"] = STUBS["area"]
    cell(notebook, "area_check")["source"] = SOLVED["area"] + "\ncheck('area', globals())"
    rebuilt = rebuild(notebook)
    assert_full_marks(rebuilt)
    assert "check('area', globals())" in sources(rebuilt)
    assert "the answer to 'area' was in the cell 'area_check'" in rebuilt.notes


def test_an_edited_check_is_restored_and_said():
    notebook = solved()
    cell(notebook, "area_check")["source"] = "print('all good')"
    rebuilt = rebuild(notebook)
    assert sources(rebuilt) == sources(rebuild(solved()))
    assert rebuilt.notes == ["the cell 'area_check' had been edited and was restored"]


def test_what_an_edited_check_defines_is_kept_before_the_restored_one():
    notebook = solved()
    cell(notebook, "area")["source"] = "def area(a, b):\n    return helper(a, b)"
    edited = "def helper(a, b):\n    return a * b\ncheck('area', globals())"
    cell(notebook, "area_check")["source"] = edited
    rebuilt = rebuild(notebook)
    assert sources(rebuilt).index(edited) + 1 == sources(rebuilt).index("check('area', globals())")
    assert_full_marks(rebuilt)


def test_an_import_added_to_the_set_up_cell_is_kept():
    notebook = solved()
    notebook["cells"][1]["source"] += "\nimport operator as op"
    cell(notebook, "area")["source"] = "def area(a, b):\n    return op.mul(a, b)"
    rebuilt = rebuild(notebook)
    assert sources(rebuilt)[1:3] == [RELEASE.cells[1].source, notebook["cells"][1]["source"]]


@pytest.mark.parametrize("kind", ["markdown", "raw", "no such kind", None, 3])
def test_an_answer_cell_of_another_type_is_read_as_code(kind):
    notebook = solved()
    cell(notebook, "area")["cell_type"] = kind
    rebuilt = rebuild(notebook)
    assert rebuilt.notebook.cells[at(solved(), "area")].cell_type == "code"
    assert_full_marks(rebuilt)


def test_an_answer_cell_turned_into_prose_is_no_code():
    notebook = solved()
    cell(notebook, "area").update(cell_type="markdown", source="I do not know this one, sorry.")
    rebuilt = rebuild(notebook)
    assert not rebuilt.answered["area"]
    assert rebuilt.notes == ["the answer cell 'area' no longer held code and was replaced with the empty one"]


def test_a_stub_without_names_is_found_by_its_lines_or_its_place():
    bare_release = copy.deepcopy(RELEASE)
    bare_release.cells[at(RELEASE, "total")].source = "# YOUR CODE HERE: print the total\nraise NotImplementedError()"
    for text in ("# YOUR CODE HERE: print the total\nprint(sum(range(11)))", "print(55)"):
        notebook = solved()
        cell(notebook, "total")["source"] = text
        rebuilt = reassemble(read_submission({NAME: as_bytes(bare(notebook))}, NAME), bare_release)
        assert rebuilt.answers["total"] == text
        assert rebuilt.answered["total"]


@pytest.mark.parametrize("strip", [bare, copy.deepcopy])
def test_a_helper_stays_ahead_of_its_use_when_sections_were_moved(strip):
    notebook = solved()
    cell(notebook, "total")["source"] = "total = helper(10)"
    quiz = notebook["cells"][-3:]
    helpers = [code("start = 1"), code("def helper(n):\n    return sum(range(start, n + 1))")]
    notebook["cells"][2:] = quiz + helpers + notebook["cells"][2:-3]
    assert_full_marks(rebuild(strip(notebook)))


# ---- magics and Colab -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text", ["%%time\ntotal = 55", "!pip install torch\ntotal = 55", "%matplotlib inline\ntotal=55"]
)
@pytest.mark.parametrize("strip", [bare, copy.deepcopy])
def test_magics_are_kept_as_they_are(text, strip):
    notebook = solved()
    cell(notebook, "total")["source"] = text
    rebuilt = rebuild(strip(notebook))
    assert rebuilt.answers["total"] == text
    assert_full_marks(rebuilt)


def test_a_cell_of_another_language_is_nobodys_answer():
    notebook = bare(solved())
    script = "%%writefile area.py\ndef area(a, b):\n    return 0"
    notebook["cells"].insert(0, code(script))
    rebuilt = rebuild(notebook)
    assert sources(rebuilt)[0] == script
    assert rebuilt.answers == SOLVED


def test_lines_that_only_colab_can_run_are_left_out():
    notebook = solved()
    mount = "from google.colab import drive; drive.mount('/content/drive')  # my files\n"
    in_try = "try:\n    import google.colab\n    here = 'colab'\nexcept ImportError:\n    here = 'elsewhere'"
    cell(notebook, "area")["source"] = mount + "#@title Area\n" + SOLVED["area"]
    notebook["cells"].insert(0, code(in_try))
    rebuilt = rebuild(notebook)
    assert rebuilt.answers["area"].startswith("# only in Colab: from google.colab import drive;")
    assert sources(rebuilt)[0] == in_try
    assert rebuilt.notes == ["lines that only Google Colab can run (google.colab, drive.mount) were left out"]
    assert_full_marks(rebuilt)


def test_drive_and_files_are_the_students_own_names_elsewhere():
    notebook = solved()
    notebook["cells"].insert(0, code("files.upload()"))
    assert sources(rebuild(notebook))[0] == "files.upload()"


# ---- any mixture of these -------------------------------------------------------------------------------------------
@st.composite
def mangled(draw):
    """A solved notebook whose cells are shuffled, copied, dropped and stripped of metadata."""
    cells = solved()["cells"]
    picks = draw(st.lists(st.integers(0, len(cells) - 1), max_size=2 * len(cells)))
    if draw(st.booleans()):
        picks += range(len(cells))
    chosen = []
    for i in draw(st.permutations(picks)):
        each = copy.deepcopy(cells[i])
        for key in draw(st.sets(st.sampled_from(["metadata", "id", "cell_type", "outputs"]))):
            each.pop(key, None)
        chosen.append(each)
    for text in draw(st.lists(st.sampled_from(["x = 1", "print(2)", "%%bash\nls", "", "# Notes"]), max_size=4)):
        chosen.insert(draw(st.integers(0, len(chosen))), code(text))
    return {"cells": chosen}


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(mangled())
def test_each_answer_is_there_exactly_once_or_said_to_be_missing(notebook):
    rebuilt = rebuild(notebook)
    there = [each["source"] for each in notebook["cells"]]
    for task, text in SOLVED.items():
        if text in there:
            assert sources(rebuilt).count(text) == 1
            assert rebuilt.answered[task]
        else:
            assert not rebuilt.answered[task]
            assert any(f"{task!r} was missing" in note for note in rebuilt.notes)
    assert_full_marks(rebuilt, [task for task, text in SOLVED.items() if text in there])
    restored = [each for each in rebuilt.notebook.cells if "ckptlib" not in each.metadata]
    assert [each.metadata for each in restored] == [each.metadata for each in RELEASE.cells]
    assert len({each.id for each in rebuilt.notebook.cells}) == len(rebuilt.notebook.cells)
    again = rebuild(notebook)
    assert (again.notebook, again.notes) == (rebuilt.notebook, rebuilt.notes)


VERSIONS = {
    "double": ["def double(x):\n    return x", "double = lambda x: factor * x", STUBS["double"]],
    "area": ["def area(a, b):\n    return helper(a, b)", "area = helper", STUBS["area"]],
    "total": ["total = 0", "total = helper(5, 11)", STUBS["total"]],
    "quiz": ['q1 = "b"', 'q2 = "a"', 'q1 = "c"\nq2 = q1', STUBS["quiz"]],
}
HELPERS = ["factor = 2", "def helper(a, b):\n    return a * b", "import math", "x = 1", "# nothing", "total_of = [1]"]


@st.composite
def lived_in(draw):
    """A notebook in the assignment's order, with versions, helpers and lost metadata anywhere."""
    cells = []
    for each in solved()["cells"]:
        task = each["metadata"].get("nbgrader", {}).get("grade_id")
        texts = [each["source"]]
        if task in VERSIONS:
            texts = draw(st.lists(st.sampled_from([SOLVED[task], *VERSIONS[task]]), max_size=4))
        for text in texts:
            cells.append(each | {"source": text})
            if draw(st.booleans()):
                cells[-1] = code(text) if each["cell_type"] == "code" else each
        if draw(st.booleans()):
            cells.append(code(draw(st.sampled_from(HELPERS))))
    for task in draw(st.lists(st.sampled_from(list(VERSIONS)), max_size=2)):
        cells.append(code(draw(st.sampled_from([SOLVED[task], *VERSIONS[task][:-1]]))))
    return {"cells": cells}


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(lived_in())
def test_what_is_right_in_the_students_kernel_is_right_in_the_rebuilt_one(notebook):
    theirs = right_answers(final_names([(each["cell_type"], each["source"]) for each in notebook["cells"]]))
    ours = right_answers(final_names([(each.cell_type, each.source) for each in rebuild(notebook).notebook.cells]))
    assert theirs <= ours


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["cells", "metadata", "source"]), inner)
    ),
    max_leaves=20,
)
KEYS = st.sampled_from(["cell_type", "source", "metadata", "id", "outputs", "input", "nbgrader"])
ANY_CELL = JSON | st.dictionaries(KEYS, JSON | st.sampled_from(["code", "markdown", *SOLVED.values()]))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(ANY_CELL) | JSON, JSON)
def test_no_json_is_too_strange(cells, metadata):
    rebuilt = reassemble(read_submission({NAME: as_bytes({"cells": cells, "metadata": metadata})}, NAME), RELEASE)
    nbformat.validate(rebuilt.notebook)
    nbformat.writes(rebuilt.notebook).encode()


def test_five_thousand_own_cells_take_less_than_two_seconds():
    notebook = bare(solved())
    words = " ".join(f"word{i}" for i in range(40))
    notebook["cells"][5:5] = [code(f"# {words}\nvalue_{i} = {i}\nprint(value_{i})") for i in range(2_500)]
    notebook["cells"] += [{"cell_type": "markdown", "source": f"{words} {i}", "metadata": {}} for i in range(2_500)]
    data = as_bytes(notebook)
    start = time.process_time()
    rebuilt = reassemble(read_submission({NAME: data}, NAME), RELEASE)
    assert time.process_time() - start < 2
    assert len(rebuilt.notebook.cells) == len(notebook["cells"])
    assert rebuilt.answers == SOLVED
