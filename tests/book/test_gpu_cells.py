"""Do the chapters' cells "On a GPU" count on CUDA, real or phantom, what is simulated for this GPU and this torch?

Of each chapter only that cell is run, and the statements before it that define what it uses.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import json
import os
import subprocess
import symtable
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest
import torch

import ckptlib as ck
from ckptlib.cuda.gpus import at_release, preset
from ckptlib.cuda.op_choice.cuda_dispatch import as_cuda
from ckptlib.cuda.phantom import launch

BOOK = Path(__file__).parents[2] / "book"
CHAPTERS = sorted(BOOK.glob("[01][0-9]_*.ipynb"))[1:]  # 00 is the start page


DEFINITIONS = ast.FunctionDef | ast.ClassDef
OVERWRITES = DEFINITIONS | ast.Import | ast.ImportFrom | ast.Assign


def gpu_cell(path: Path) -> tuple[str, str]:
    """What the cells of the section "On a GPU" need of the cells before them, and these cells."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    heading = next(i for i, cell in enumerate(cells) if cell["id"] == "on-a-gpu")
    before = ["".join(cell["source"]) for cell in cells[:heading] if cell["cell_type"] == "code"]
    after = itertools.takewhile(lambda cell: cell["cell_type"] == "code", cells[heading + 1 :])
    last = "\n\n\n".join("".join(cell["source"]) for cell in after)
    own = symtable.symtable(last, "", "exec").get_symbols()
    wanted, found = used(last) - {s.get_name() for s in own if s.is_assigned()}, ""
    while True:  # a function may use another one that is defined after it
        before_it = sliced("\n".join(before), wanted)
        if before_it == found:
            return found, last
        found, wanted = before_it, wanted | called_later(before_it)


def sliced(source: str, needed: set[str]) -> str:
    """The statements that give these names their last values, and what those need."""
    needed, found = set(needed), []
    for statement in reversed(ast.parse(source).body):
        if names := needed & (defined(statement) | changed(statement)):
            if not changed(statement) and isinstance(statement, OVERWRITES):
                needed -= names  # whatever came before it is overwritten
            needed |= used(text := ast.unparse(statement))
            found.append(text)
    return "\n".join(reversed(found))


def called_later(source: str) -> set[str]:
    """The global names that functions and classes read, which is when they are called."""
    return set().union(*(used(ast.unparse(s)) for s in ast.parse(source).body if isinstance(s, DEFINITIONS)))


def used(source: str) -> set[str]:
    """The global names that some code reads, in its functions, too."""
    tables, names, passing = [symtable.symtable(source, "", "exec")], set(), loop_variables(source)
    for table in tables:
        tables += table.get_children()
        top = table.get_type() == "module"
        found = {s.get_name() for s in table.get_symbols() if s.is_referenced() and (top or s.is_global())}
        names |= found - passing if top else found
    return names


def loop_variables(source: str) -> set[str]:
    """What comprehensions alone give a value. Since Python 3.12, symtable lists it with the names around."""
    nodes = list(ast.walk(ast.parse(source)))
    targets = [node.target for node in nodes if isinstance(node, ast.comprehension)]
    passing = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    lasting = {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in passing
    }
    return {node.id for node in passing} - lasting


def defined(statement: ast.stmt) -> set[str]:
    """The global names that a statement gives a value."""
    top = symtable.symtable(text := ast.unparse(statement), "", "exec")
    return {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()} - loop_variables(text)


def changed(statement: ast.stmt) -> set[str]:
    """The names of objects that an assignment changes, as in `Allocator.cut = cut`."""
    stores = [n for n in ast.walk(statement) if isinstance(n, ast.Attribute | ast.Subscript)]
    return {n.value.id for n in stores if isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name)}


class Both:
    """Counts on the GPU, and again simulated. The functions of a chapter build on the CPU if `gpu` is None."""

    def __init__(self, chapter: ModuleType):
        self.chapter = chapter
        self.gpu = at_release(preset(launch.running() or "a100"), torch.__version__)
        self.compared = 0
        self.history_matters = False

    def measure(self, fn, device="cpu", **options):
        found = real_measure(fn, device, **options)
        if device == "cuda" and not self.history_matters:
            gpu, self.chapter.gpu = self.chapter.gpu, None
            expected = real_measure(fn, "sim:cuda", gpu=self.gpu, **options | {"fake": True})
            self.chapter.gpu = gpu
            peaks = (found.forward_peak, found.peak, found.reserved)
            assert peaks == (expected.forward_peak, expected.peak, expected.reserved)
            self.compared += 1
            self.history_matters = self.chapter.__doc__ == CHAPTERS[1].stem  # of its second step: see the test below
        return found

    def saved_tensors(self, fn, **options):
        found = real_saved_tensors(fn, **options)
        if self.chapter.gpu is not None:
            gpu, self.chapter.gpu = self.chapter.gpu, None
            with as_cuda(self.gpu):
                expected = real_saved_tensors(fn, fake=True)
            self.chapter.gpu = gpu
            assert found.nbytes == expected.nbytes
            self.compared += 1
        return found


real_measure, real_saved_tensors = ck.measure, ck.saved_tensors


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("path", CHAPTERS, ids=[path.stem for path in CHAPTERS])
def test_the_gpu_cell_counts_what_is_simulated(fresh_gpu, path, monkeypatch, capsys):
    chapter = ModuleType("__main__", path.stem)
    both = Both(chapter)
    monkeypatch.setitem(sys.modules, "__main__", chapter)
    before, last = gpu_cell(path)
    exec(before, chapter.__dict__)
    monkeypatch.setattr(ck, "measure", both.measure)
    monkeypatch.setattr(ck, "saved_tensors", both.saved_tensors)
    try:
        exec(last, chapter.__dict__)
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    assert "measured" in capsys.readouterr().out and both.compared


DOUBLE_BACKWARD = """
real = ck.measure(lambda: prepare(True), "cuda", builds=True)
chosen = at_release(preset(launch.running() or "a100"), torch.__version__)
gpu = None
simulated = ck.measure(lambda: prepare(True), "sim:cuda", builds=True, gpu=chosen)
print(*(peak for m in (real, simulated) for peak in (m.forward_peak, m.peak, m.reserved)), flush=True)
os._exit(0)
"""


@pytest.mark.gpu
@pytest.mark.slow
def test_a_double_backward_counts_what_is_simulated_in_a_new_process(tmp_path):
    """In another, its nodes may run in another order, because each thread numbers those that it makes."""
    before, last = gpu_cell(CHAPTERS[1])
    imports = "import os\nfrom ckptlib.cuda.gpus import at_release, preset\nfrom ckptlib.cuda.phantom import launch\n"
    script = tmp_path / "script.py"
    script.write_text(imports + before + "\n" + last.partition("peaks =")[0] + DOUBLE_BACKWARD, encoding="utf-8")
    given = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, encoding="utf-8", env=given)
    real, simulated = (done.stdout.split()[i : i + 3] for i in (0, 3))
    assert real == simulated != [], done.stderr


def test_every_chapter_has_its_cell_and_what_it_needs_runs_without_a_gpu():
    assert len(CHAPTERS) == 12
    for path in CHAPTERS:
        before, last = gpu_cell(path)
        exec(before, names := {"__name__": "__main__"})
        missing = used(last) - defined(ast.parse(f"if True:\n{textwrap.indent(last, '    ')}").body[0])
        assert missing - names.keys() - vars(builtins).keys() == set(), path
