"""Would Canvas and Moodle give every student their own grade? Their importers' rules, applied to what we export.

The rules are those of Canvas's lib/gradebook_importer.rb and of Moodle's grade/import/csv/classes/load_data.php.
"""

import csv
import io
import re

import pytest

from ckptlib.errors import CkptError
from ckptlib.grading.cli import build_parser
from ckptlib.grading.reports.class_report import Answer, Line, Report
from ckptlib.grading.reports.report_formats import MOODLE_IDS, to_canvas, to_moodle

NAME = "01_small"
SAID = '4 < 5 & <script>alert(1)</script>,\n"quoted"'


@pytest.fixture
def report() -> Report:
    lines = [
        Line("ada", "Lovelace", "Ada", "ada@x.org", "77", submitted=True, answers={"ledger": Answer(1.5, 2)}),
        Line(
            "bob", "O'Neil; Jr.", "Bob", "bob@x.org", "", submitted=True, answers={"ledger": Answer(0, 2, message=SAID)}
        ),
        Line("cy", submitted=True, answers={"ledger": Answer(2, 2)}),
        Line("eve", "Late", "Eve", "eve@x.org", "78"),
    ]
    return Report(NAME, {"ledger": 2}, lines)


# ---- Canvas ----
def imported_by_canvas(text: str, students: dict[str, tuple[int, str]], assignments: dict[int, str]) -> dict:
    """students: login -> (Canvas's number, name). Returns {(login, assignment's number or new name): grade}."""
    first = text.splitlines()[:3]
    counts = {sep: {len(next(csv.reader([line], delimiter=sep))) for line in first} for sep in ";,"}
    fields = {sep: found.pop() if len(found) == 1 else 0 for sep, found in counts.items()}
    rows = [*csv.reader(io.StringIO(text), delimiter=";" if fields[";"] > fields[","] else ",")]
    header = rows[0]
    assert len(header) > 3 and "Student" in header[0] and "ID" in header[1]
    assert re.search(r"SIS\s+User\s+ID", header[2]) and re.search(r"SIS\s+Login\s+ID", header[3])
    assert "Section" in header[4]
    by_number = {number: login for login, (number, _) in students.items()}
    by_name = {name: login for login, (_, name) in students.items()}
    grades = {}
    for row in rows[1:]:
        if "Points Possible" in row[0]:
            assert all(re.fullmatch(r"\d+(\.\d+)?", cell) for cell in row[5:])
            continue
        login = by_number.get(int(row[1] or 0)) or (row[3] if row[3] in students else by_name.get(row[0]))
        assert login, f"Canvas would ask who {row[0]} is"
        for title, grade in zip(header[5:], row[5:], strict=True):
            numbered = re.fullmatch(r"(.*)\s\((\d+)\)", title)
            known = numbered and int(numbered[2]) in assignments
            named = next((number for number, name in assignments.items() if name == title), title)
            grades[login, int(numbered[2]) if known else named] = grade
    return grades


STUDENTS = {"ada": (77, "A. L."), "bob": (12, "Bob O'Neil; Jr."), "cy": (13, "Cy"), "eve": (78, "Eve Late")}


def test_canvas_finds_every_student_and_the_assignment_by_its_number(report):
    found = imported_by_canvas(to_canvas(report, "123"), STUDENTS, {123: "Memory, week 1"})
    assert found == {
        ("ada", 123): "1.5",
        ("bob", 123): "0",
        ("cy", 123): "2",
    }  # and nothing of eve, who has a grade there


def test_canvas_finds_an_assignment_of_the_same_name_and_else_offers_a_new_one(report):
    assert ("ada", 9) in imported_by_canvas(to_canvas(report), STUDENTS, {9: NAME})
    assert ("ada", NAME) in imported_by_canvas(to_canvas(report), STUDENTS, {9: "another"})


def test_a_number_for_canvas_that_is_none_is_refused(report):
    with pytest.raises(CkptError, match="'week 1' is not a number"):
        to_canvas(report, "week 1")


# ---- Moodle ----
def imported_by_moodle(text: str, by: str, users: dict[str, str]) -> dict[str, tuple[float, str]]:
    """users: what `by` says -> Moodle's user. Returns {user: (grade, feedback)}."""
    header, *rows = csv.reader(io.StringIO(text))
    columns = {by: "user", NAME: "grade", f"{NAME} feedback": "feedback"}
    assert [*map(str.strip, header)] == [*columns]
    found, user = {}, None
    for row in rows:
        assert len(row) == len(header)
        for name, value in zip(header, map(str.strip, row), strict=True):
            if columns[name] == "user" and value:  # an empty one leaves the user of the row before
                user = users[value]  # an unknown one ends the whole import
            if columns[name] == "grade":
                grade = float(value)
                assert grade <= 100  # more is refused, unless the site allows it
        assert user not in found, f"a second grade for {user}"
        found[user] = (grade, row[2])
    return found


@pytest.mark.parametrize(
    ("by", "ada", "bob", "cy"), [("username", "ada", "bob", "cy"), ("email", "ada@x.org", "bob@x.org", "")]
)
def test_moodle_gives_every_student_the_own_grade_and_feedback(report, by, ada, bob, cy):
    if not cy:
        with pytest.raises(CkptError, match="no email of cy, and Moodle would give the grade to somebody else"):
            to_moodle(report, by)
        report.lines = [line for line in report.lines if line.student != "cy"]
    found = imported_by_moodle(to_moodle(report, by), by, {ada: "ada", bob: "bob", cy: "cy"})
    assert {user: grade for user, (grade, _) in found.items()} == {"ada": 1.5, "bob": 0} | ({"cy": 2} if cy else {})
    assert found["bob"][1] == 'ledger: 4 &lt; 5 &amp; &lt;script&gt;alert(1)&lt;/script&gt;,\n"quoted"'


def test_the_command_offers_every_way_in_which_moodle_can_name_a_student():
    for name in MOODLE_IDS:
        assert build_parser().parse_args(["report", NAME, "--format", "moodle", "--moodle-id", name]).moodle_id == name
