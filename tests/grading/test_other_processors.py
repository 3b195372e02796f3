"""Would another processor change a committed file or a verdict? Instruction sets and numbers of threads are tried here.

The last bits of a float depend on both. The environment chooses them, as far as this processor has them. On one without
a choice, such as an ARM, the same is asked again and shows nothing new.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from answers import ASSIGNMENTS, ROOT, answers
from test_answers import assignment, complaint
from test_assignments import remade

from ckptlib.book import runner

# What this machine uses by itself is asked by all other tests.
PROCESSORS = {
    "the plainest": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "MKL_CBWR": "COMPATIBLE",
        "OMP_NUM_THREADS": "1",
    },
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OMP_NUM_THREADS": "2",
    },
}
CHAPTERS = [*sorted((ROOT / "book").glob("[0-9][0-9]_*.ipynb"))[1:], ROOT / "book" / "claims.ipynb"]

each_processor = pytest.mark.parametrize("processor", PROCESSORS)


def environment(processor: dict[str, str]) -> dict[str, str]:
    """The variables of a process on that processor; {} is this machine's own, whatever the tests themselves run on."""
    names = {name for variables in PROCESSORS.values() for name in variables}
    return {name: value for name, value in os.environ.items() if name not in names} | processor


def asked(name: str, processor: dict[str, str]) -> dict:
    """What answers_elsewhere.py prints of an assignment on a processor."""
    script = Path(__file__).with_name("answers_elsewhere.py")
    variables = environment({"OMP_NUM_THREADS": "1", **processor})
    done = subprocess.run([sys.executable, script, name], env=variables, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.slow
@each_processor
def test_the_processor_is_another_one(processor):
    """Else the rest of this file would compare a machine with itself, and nobody would know."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("instruction sets can be chosen on x86 alone")
    code = "import torch; print(torch.backends.cpu.get_cpu_capability())"

    def capability(processor: dict[str, str]) -> str:
        command, variables = [sys.executable, "-c", code], environment(processor)
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout.strip()

    wanted = {"the plainest": "DEFAULT", "AVX2": "AVX2"}[processor]
    assert capability(PROCESSORS[processor]) == (wanted if capability({}) != "DEFAULT" else "DEFAULT")


@pytest.mark.slow
@each_processor
def test_releases_are_the_committed_ones(processor, tmp_path):
    assert remade(tmp_path, PROCESSORS[processor]) == []


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
@each_processor
def test_a_chapters_outputs_are_the_committed_ones(processor, chapter, monkeypatch):
    variables = environment(PROCESSORS[processor])
    for name in os.environ.keys() - variables.keys():
        monkeypatch.delenv(name)
    for name, value in PROCESSORS[processor].items():
        monkeypatch.setenv(name, value)
    assert runner.execute(chapter) == chapter.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_no_verdict_depends_on_who_computed_what_where(name):
    """Asked there and judged by what is expected here, and the other way round: a student's laptop and a grader."""
    here = asked(name, {})
    for processor, variables in PROCESSORS.items():
        there = asked(name, variables)
        assert here["expected"].keys() == there["expected"].keys()
        unjust = []
        for number, answer in enumerate(answers(name)):
            for got, expected in ((there, here), (here, there)):
                if answer.task in expected["expected"]:
                    task, said = assignment(name).tasks[answer.task], got["answers"][number]
                    verdict = task.judge(said, *expected["expected"][answer.task], task.tolerance)
                    unjust += [f"{answer} {text}" for text in [complaint(answer, verdict)] if text]
        assert unjust == [], processor
