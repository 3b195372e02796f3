"""Does no hostile submission earn an undeserved point, and does no honest one beside it lose one?"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from answers import ROOT, submission
from hostile import BESIDE_ALL, FOR_NOTHING, INSTEAD_OF_ONE, NAME, family, hand_in
from nbgrader.api import Gradebook

import ckptlib
from ckptlib.grading.assignment.assignment import Assignment

# Time is all that these cost: short limits, so that the endless ones end. What waits for a processor is not counted.
CONFIG = "c = get_config()\nc.Limits.cell_seconds = {seconds}\nc.Limits.wall_seconds = {all_seconds}\n"
ENDLESS = ("stalling", "crowding", "exhausting")  # most of these end when their time is over, and are asked twice


def digest_of_the_library() -> str:
    files = sorted(Path(ckptlib.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def processes_of(marker: str) -> list[str]:
    """Command lines of all processes whose environment or arguments mention the marker."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            about = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if marker.encode() in about and int(folder.name) != os.getpid():
            found.append(about.decode(errors="replace"))
    return found


@pytest.fixture(scope="module")
def honest() -> bytes:
    return submission(Assignment.load(ROOT / "solutions" / NAME), {})


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FOR_NOTHING, *INSTEAD_OF_ONE, *BESIDE_ALL, "mangling"])
def test_everybody_gets_what_they_deserve(name, honest, tmp_path, sandbox):
    """`sandbox` fails where no kernel can be isolated: what is graded here must not run there."""
    before = digest_of_the_library()
    seconds = 4 if name in ENDLESS else 8
    (tmp_path / "nbgrader_config.py").write_text(CONFIG.format(seconds=seconds, all_seconds=12.5 * seconds))
    deserved = {"honest-first": 10.0, "zz-honest-last": 10.0}
    for student in deserved:
        hand_in(tmp_path, student, {f"{NAME}.ipynb": honest})
    for hostile in family(name):
        hand_in(tmp_path, hostile.student, hostile.files)
        deserved[hostile.student] = hostile.deserves
    command = [sys.executable, "-m", "ckptlib.cli", "grade", NAME, "--course", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    results = {each["student"]: each for each in json.loads(done.stdout)["submissions"]}
    assert {student: each["score"] for student, each in results.items()} == pytest.approx(deserved)
    assert all(each["reason"] for each in results.values())
    if name in BESIDE_ALL:
        assert not any(each["flags"] for each in results.values())
    with Gradebook(f"sqlite:///{tmp_path}/gradebook.db") as gradebook:
        written = {s.student.id: s.score for s in gradebook.assignment_submissions(NAME)}
    assert written == pytest.approx(deserved)
    assert digest_of_the_library() == before
    assert not processes_of(str(tmp_path))
    packages = {path for path in sys.path if path.endswith("site-packages")}
    for place in ("/tmp", "/dev/shm", "/var/tmp", *packages):
        assert not list(Path(place).glob("*planted*"))


@pytest.mark.slow
def test_tampering_is_flagged(honest, tmp_path, sandbox):
    """Whoever silences asserts or replaces what is asked with is named, whatever the score."""
    told = {hostile.student: hostile for hostile in family("silencing")}
    chosen = [
        "silencing-an-ast-transformer-drops-every-assert",
        "silencing-task-judge-always-says-right",
        "silencing-showtraceback-shows-nothing",
    ]
    for student in chosen:
        hand_in(tmp_path, student, told[student].files)
    hand_in(tmp_path, "honest", {f"{NAME}.ipynb": honest})
    command = [sys.executable, "-m", "ckptlib.cli", "grade", NAME, "--course", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    results = {each["student"]: each for each in json.loads(done.stdout)["submissions"]}
    assert results["honest"]["flags"] == []
    for student in chosen:
        assert any("tampered" in flag for flag in results[student]["flags"]), student


def test_there_are_enough_of_them():
    count = {name: len(list(family(name))) for name in (*FOR_NOTHING, *INSTEAD_OF_ONE, *BESIDE_ALL, "mangling")}
    assert sum(count.values()) >= 220 and min(count.values()) >= 9
