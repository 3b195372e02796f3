"""Shared by all tests: one thread each, and no test that is skipped in silence where it should have run."""

import ast
import gc
import os
import re
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from xdist.scheduler.loadscope import LoadScopeScheduling

from ckptlib.book import doctor
from ckptlib.torch_internals import NeedsTorch

torch.set_num_threads(1)  # test processes run side by side
# The first backward decides which devices autograd starts threads for. In a build for CUDA, a fake one in a measurement
# would start some, and no process that is forked later could run another. A plain one starts none.
torch.ones(1, requires_grad=True).sum().backward()
# How long an example takes says nothing here. In CI, a new failure comes from the change, and not from a new example.
settings.register_profile("busy machine", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("busy machine")

CUDA_BUILD = torch.version.cuda is not None
ALL_ON_PHANTOM = "test_everything_marked_gpu_passes_on_a_phantom"  # in cuda/test_phantom.py
CHECKS = {
    "bubblewrap": lambda: doctor.bubblewrap().ok,
    "chromium": lambda: doctor.chromium().ok,
    "configurable-http-proxy": lambda: shutil.which("configurable-http-proxy") is not None,
    "make": lambda: shutil.which("make") is not None,
}


def _need(component: str) -> None:
    if CHECKS[component]():
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{component} is missing: .ci/run should have installed it")
    pytest.skip(f"{component} is missing: see `ckptlib doctor`")


@pytest.fixture(scope="session")
def need():
    """`need("bubblewrap")` skips the test where that does not work; under CI=true the test fails instead."""
    return _need


@pytest.fixture
def fresh_gpu():
    """For a test marked gpu: no tensors of earlier tests, no cached blocks, no workspaces, no peaks."""
    sys.last_value = sys.last_traceback = sys.last_exc = None  # which keep the tensors of a test that failed
    gc.collect()
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.memory_allocated() == 0, "an earlier test keeps tensors on the GPU"


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's folder."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def browser() -> Iterator:
    """Chromium, for tests with the mark `browser`: they are skipped, or fail under CI=true, where there is none."""
    from playwright.sync_api import sync_playwright

    flags = "--no-sandbox --disable-gpu --disable-background-networking --disable-sync --no-first-run".split()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=doctor.find_chromium(), args=flags)
        yield started
        started.close()


# ---- several processes ----
# What is marked slow comes first, because what begins last must be short. The tests of a function that is itself marked
# are dealt out one by one; where their ids begin with a chapter's number, chapter by chapter, because the tests of an
# assignment share what is expected of it. All others of a file stay together: they share what is expensive to set up.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    # With torch's CUDA build and no GPU, one test runs everything that is marked gpu, on a phantom GPU.
    if CUDA_BUILD and not torch.accelerator.is_available() and any(item.name == ALL_ON_PHANTOM for item in items):
        elsewhere = [item for item in items if item.get_closest_marker("gpu")]
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = [item for item in items if item not in elsewhere]


@cache
def _marked_slow(file: Path) -> set[str]:
    """The functions of a file with that decorator. The process that deals out the tests knows their ids alone."""
    functions = [node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)]
    return {f.name for f in functions if "pytest.mark.slow" in map(ast.unparse, f.decorator_list)}


class _Scheduling(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        name, _, which = test.partition("[")
        if name not in _marked_slow(self.config.rootpath / file):
            return file
        number = re.match(r"\d\d(?=[-_])", which)
        return f"{file} {number[0]}" if number else nodeid


@pytest.hookimpl(optionalhook=True)  # also without xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log) -> LoadScopeScheduling | None:
    return _Scheduling(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test with the mark `needs_torch("2.12")` is about something that says so, and does no more, in older ones."""
    needs = item.get_closest_marker("needs_torch")
    if needs is None or torch.__version__ >= needs.args[0]:
        return (yield)
    with pytest.raises(NeedsTorch, match=f"torch {needs.args[0]} or newer is needed, and {torch.__version__[:4]}"):
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("browser"):
        _need("chromium")
    if item.get_closest_marker("gpu") and not torch.accelerator.is_available():
        how = "ckptlib phantom -m pytest -m gpu" if CUDA_BUILD else "make phantom, because this is torch's CPU build"
        pytest.skip(f"needs CUDA: {how}")
